//! The reference of the language lists what the tables of the compiler have, and its programs are
//! right.

use std::collections::BTreeSet;

use shardwise::verify::Sizes;
use shardwise_ir::dtype::DType;
use shardwise_ir::resolve::vocabulary::vocabulary;
use shardwise_tests::properties::checked_plans;
use shardwise_tests::read;

const PAGE: &str = "compiler/docs/language.md";

#[test]
fn the_programs_on_the_page_are_right() {
    let page = read(PAGE);
    let blocks = page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next());
    let count = blocks.inspect(|block| drop(checked_plans("page", block, Sizes::Scaled))).count();
    assert_eq!(count, 5);
}

/// The first rows of the table below a heading, without its head.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let start = page.lines().position(|line| line.trim_start_matches('#').trim() == heading);
    let start = start.unwrap_or_else(|| panic!("{PAGE} has no heading `{heading}`"));
    let after = page.lines().skip(start).skip_while(|line| !line.starts_with('|')).skip(2);
    after.take_while(|line| line.starts_with('|')).collect()
}

/// The known word that the first piece of code of a table row begins with, else all of the code.
fn word<'a>(row: &'a str, known: &[&'a str]) -> &'a str {
    let code = row.split('`').nth(1).unwrap_or_default();
    let begins = known.iter().copied().filter(|word| code.starts_with(word));
    begins.max_by_key(|word| word.len()).unwrap_or(code)
}

#[test]
fn its_tables_list_what_those_of_the_compiler_do() {
    let page = read(PAGE);
    for kind in vocabulary() {
        let rows = rows(&page, kind.kind).into_iter();
        let listed: BTreeSet<&str> = rows.map(|row| word(row, &kind.words)).collect();
        let known: BTreeSet<&str> = kind.words.iter().copied().collect();
        assert_eq!(listed, known, "the table below `{}` of {PAGE}", kind.kind);
    }
}

#[test]
fn dtypes_are_as_large_as_the_page_says() {
    let page = read(PAGE);
    for dtype in DType::ALL {
        let bytes = match dtype.bits() {
            4 => "a half".to_owned(),
            bits => (bits / 8).to_string(),
        };
        assert!(page.contains(&format!("| `{}` | {bytes} |", dtype.name())), "{}", dtype.name());
    }
}

/// The words that the grammar knows after the first of a statement: `over`, `given`, `reversed`.
#[test]
fn every_word_of_the_grammar_is_on_the_page() {
    let (page, grammar) = (read(PAGE), read("grammar/src/shard.pest"));
    let rules = grammar.lines().filter(|line| line.starts_with("kw_"));
    let words = rules.filter_map(|line| line.split('"').nth(1));
    let code: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let is_there = |word: &str| {
        code.iter().any(|code| code.split(|c: char| !c.is_alphanumeric()).any(|it| it == word))
    };
    let missing: Vec<&str> = words.filter(|word| !is_there(word)).collect();
    assert!(missing.is_empty(), "{PAGE} lacks {missing:?}");
}
