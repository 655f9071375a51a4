//! The colors of a program with every kind of word.

use tree_sitter::{Parser, Query, QueryCursor, StreamingIterator};

const PROGRAM: &str = "# a comment
hardware tpu-v5p
mesh X=16 over 4x4, Z=2 dcn
dim B=48k, d_ff=4*B
input In: bf16[B_X, d_ff_?]
allow SW301 Tmp[B] {U_X} = AllGather_X(In) *d_ff cast<f32>(W)
  + 2.5
backward from Loss, microbatches=8
repeat B=2 {
  x = gelu(x) in k1
}
";

/// The words of the program, each with its color.
const COLORS: &str = "
comment: # a comment
keyword: hardware | mesh | over | dim | input | allow | backward | from | microbatches | repeat | in
constant: tpu-v5p | X | Z | SW301 | X | X
constant.numeric: 16 | 4x4 | 2 | 48k | 4 | 2.5 | 8 | 2
attribute: dcn
property: B | d_ff | B | B_X | d_ff_? | B | d_ff | B
variable: In | Tmp | In | W | x | x
type: bf16 | f32
constant.builtin: ?
keyword.operator: U_
function: AllGather | cast | gelu
function.builtin: AllGather
label: k1
";

#[test]
fn every_kind_of_word_has_its_color() {
    let language = tree_sitter_shardwise::LANGUAGE.into();
    let mut parser = Parser::new();
    parser.set_language(&language).expect("a known interface");
    let tree = parser.parse(PROGRAM, None).expect("a language is set");
    let query = Query::new(&language, tree_sitter_shardwise::HIGHLIGHTS_QUERY).expect("a query");
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    let mut cursor = QueryCursor::new();
    let mut captures = cursor.captures(&query, tree.root_node(), PROGRAM.as_bytes());
    while let Some((one, at)) = captures.next() {
        let capture = one.captures()[*at];
        let color = query.capture_names()[capture.index as usize];
        let word = &PROGRAM[capture.node.byte_range()];
        match found.iter_mut().find(|(known, _)| known == color) {
            Some((_, words)) => words.push(word),
            None => found.push((color.to_owned(), vec![word])),
        }
    }
    let shown = |color: &str| {
        let words = found.iter().find(|(known, _)| known == color).map(|(_, words)| words);
        format!("{color}: {}", words.map_or_else(String::new, |words| words.join(" | ")))
    };
    for expected in COLORS.trim().lines() {
        let color = expected.split(": ").next().expect("a color");
        assert_eq!(shown(color), expected);
    }
}

#[test]
fn blocks_can_be_folded() {
    let language = tree_sitter_shardwise::LANGUAGE.into();
    let folds = include_str!("../queries/folds.scm");
    let query = Query::new(&language, folds).expect("a query");
    assert_eq!(query.capture_names(), ["fold"]);
}

#[test]
fn every_keyword_is_known() {
    let query = tree_sitter_shardwise::HIGHLIGHTS_QUERY.replace("(plan)", "\"plan\"");
    let scanner = include_str!("../src/scanner.c");
    for keyword in shardwise_grammar::keywords::KEYWORDS {
        let quoted = format!("\"{keyword}\"");
        assert!(query.contains(&quoted), "{quoted} has no color");
        assert!(scanner.contains(&quoted), "{quoted} ends no statement");
    }
}
