//! Every program of the repository that the compiler can read is parsed without an error, and one
//! that it cannot read is not.

use std::path::{Path, PathBuf};

use tree_sitter::{Node, Parser, Tree};

/// The programs and plans below a folder.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_built = ["target", ".git", "node_modules"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !is_built {
            programs(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "shard" || kind == "plan") {
            found.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository")
}

fn parser() -> Parser {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_shardwise::LANGUAGE.into()).expect("a known interface");
    parser
}

fn tree(text: &str) -> Tree {
    parser().parse(text, None).expect("a language is set")
}

fn is_read_by_the_compiler(text: &str) -> bool {
    shardwise_grammar::parse(text).1.is_empty()
}

/// The first line with an error.
fn first_error(node: Node<'_>) -> Option<usize> {
    if node.is_error() || node.is_missing() {
        return Some(node.start_position().row + 1);
    }
    let mut cursor = node.walk();
    let children: Vec<_> = node.children(&mut cursor).collect();
    children.into_iter().find_map(first_error)
}

/// The text of every program of the repository, with where it stands.
fn all() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    programs(&root(), &mut paths);
    paths.sort();
    assert!(paths.len() > 400, "{} programs", paths.len());
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).expect("it is below").display().to_string();
        Some((name, std::fs::read_to_string(path).ok()?))
    };
    paths.into_iter().filter_map(read).collect()
}

/// What the compiler reads only to say what is wrong with it: options with negative numbers.
const READ_TO_BE_REFUSED: [&str; 3] = [
    "tests/programs/mistakes/attention-negative-offset.shard",
    "tests/programs/mistakes/attention-negative-window.shard",
    "tests/programs/mistakes/windows-negative-stride.shard",
];

#[test]
fn what_the_compiler_reads_is_parsed() {
    let mut wrong = Vec::new();
    let read = |(name, text): &&(String, String)| {
        !READ_TO_BE_REFUSED.contains(&name.as_str()) && is_read_by_the_compiler(text)
    };
    for (name, text) in all().iter().filter(read) {
        if let Some(line) = first_error(tree(text).root_node()) {
            let code = text.lines().nth(line - 1).unwrap_or_default();
            wrong.push(format!("{name}:{line}: {code}"));
        }
    }
    assert!(wrong.is_empty(), "{} files:\n{}", wrong.len(), wrong.join("\n"));
}

/// What the parser does not refuse: a limit on nesting, that only `split` has several results, and
/// that dimensions are named, not numbered (`axis=1`).
const PARSED: [&str; 6] = [
    "tests/programs/codes/sw004-too-deep.shard",
    "tests/programs/errors/lost-statement.shard",
    "tests/programs/mistakes/softmax-axis.shard",
    "tests/programs/mistakes/softmax-of-a-product-dim.shard",
    "tests/programs/mistakes/sum-axis.shard",
    "tests/programs/mistakes/torch-sum-dim.shard",
];

#[test]
fn what_the_compiler_refuses_is_not_parsed() {
    let refused = all().into_iter().filter(|(_, text)| !is_read_by_the_compiler(text));
    let refused: Vec<_> = refused.collect();
    assert!(refused.len() > 50, "{} programs", refused.len());
    let parsed = refused.into_iter().filter(|(_, text)| !tree(text).root_node().has_error());
    let parsed: Vec<String> = parsed.map(|(name, _)| name).collect();
    assert_eq!(parsed, PARSED);
}

/// Where the words and the signs of a line are.
fn words(line: &str) -> Vec<std::ops::Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\'');
    let mut words: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, c) in line.char_indices().filter(|(_, c)| *c != ' ') {
        let end = at + c.len_utf8();
        match words.last_mut() {
            Some(last) if is_word(c) && last.end == at && line[last.clone()].ends_with(is_word) => {
                last.end = end;
            }
            _ => words.push(at..end),
        }
    }
    words
}

/// Lines with a word left out or replaced by another, one in 37 of them.
fn changed_lines() -> Vec<String> {
    let programs = all();
    let lines: std::collections::BTreeSet<&str> = programs
        .iter()
        .filter(|(_, text)| is_read_by_the_compiler(text))
        .flat_map(|(_, text)| text.lines())
        .filter(|line| !line.contains('#'))
        .collect();
    let changes = lines.into_iter().flat_map(|line| {
        words(line).into_iter().flat_map(move |word| {
            ["", "X", " = ", ", ", "\n", "{", " 3 "]
                .map(|other| format!("{}{other}{}\n", &line[..word.start], &line[word.end..]))
        })
    });
    changes.step_by(37).collect()
}

#[test]
fn the_parser_and_the_compiler_agree_on_changed_lines() {
    let mut parser = parser();
    let lines = changed_lines();
    let mut differs = |line: &&String| {
        let tree = parser.parse(line.as_str(), None).expect("a language is set");
        is_read_by_the_compiler(line) == tree.root_node().has_error()
    };
    let different: Vec<&String> = lines.iter().filter(|line| differs(line)).collect();
    assert!(lines.len() > 4000, "{} lines", lines.len());
    assert!(different.len() * 500 < lines.len(), "of {}: {different:#?}", lines.len());
}
