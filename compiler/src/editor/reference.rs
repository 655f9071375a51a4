//! The words of the language with what the reference says of them: its tables, which a test
//! compares with the vocabulary, and the tables of functions. So an editor shows the sentences of
//! the reference, and a word that is added there is completed here.

use std::sync::LazyLock;

use shardwise_ir::functions::{self, AlongFn, Composite, Function, ReduceFn};
use shardwise_ir::resolve::vocabulary::vocabulary;

/// A word of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The heading of its table: `Statements`, `Collectives`.
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    /// How it is written, with operands.
    pub(super) signature: String,
    /// What it means.
    pub(super) meaning: String,
}

/// The kind of functions that are called by name.
pub(super) const FUNCTIONS: &str = "Functions";

static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| {
    let language = include_str!("../../docs/language.md");
    let described = vocabulary().into_iter().flat_map(|of| {
        let rows = section(language, of.kind);
        of.words.into_iter().map(move |name| word(of.kind, name, &rows)).collect::<Vec<_>>()
    });
    let page = functions::page();
    let rows: Vec<(String, String)> = page.lines().filter_map(row).collect();
    described.chain(names().map(|name| word(FUNCTIONS, name, &rows))).collect()
});

/// Every word, kind by kind.
pub(super) fn words() -> &'static [Word] {
    &WORDS
}

/// The words of a kind.
pub(super) fn of(kind: &str) -> impl Iterator<Item = &'static Word> {
    words().iter().filter(move |word| word.kind == kind)
}

/// The kind of calls with rules of their own.
pub(super) const CALLS: &str = "Calls that change or read dimensions";

/// The names of everything that is called, but collectives; longer ones before their beginnings.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let mut names: Vec<&str> =
            [FUNCTIONS, CALLS].into_iter().flat_map(of).map(|it| it.name).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names
    });
    NAMES.iter().copied()
}

fn names() -> impl Iterator<Item = &'static str> {
    let functions = Function::ALL.iter().map(|it| it.row().name);
    let along = AlongFn::ALL.iter().map(|it| it.row().name);
    let reductions = ReduceFn::ALL.iter().map(|it| it.row().name);
    let composites = Composite::ALL.iter().map(|it| it.row().name);
    functions.chain(along).chain(reductions).chain(composites)
}

fn word(kind: &'static str, name: &'static str, rows: &[(String, String)]) -> Word {
    let is_this = |code: &&str| {
        let rest = code.strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
    };
    let found = rows.iter().find_map(|(cell, meaning)| {
        let mut codes = cell.split('`').skip(1).step_by(2);
        codes.find(is_this).map(|code| (code.to_owned(), meaning.clone()))
    });
    let (signature, meaning) = found.unwrap_or_else(|| (name.to_owned(), String::new()));
    Word { kind, name, signature, meaning }
}

/// The rows of the tables below a heading, up to the next one.
fn section(page: &str, heading: &str) -> Vec<(String, String)> {
    let is_heading = |line: &&str| line.starts_with('#');
    let mut lines = page.lines();
    lines.find(|line| is_heading(line) && line.trim_start_matches(['#', ' ']) == heading);
    lines.take_while(|line| !is_heading(line)).filter_map(row).collect()
}

/// The first two cells of a row of a table.
fn row(line: &str) -> Option<(String, String)> {
    let mut cells = line.strip_prefix('|')?.split(" | ");
    let (first, second) = (cells.next()?.trim(), cells.next()?);
    let second = second.trim_end_matches([' ', '|']);
    first.contains('`').then(|| (first.to_owned(), without_links(second)))
}

/// Text in which `[words](page)` are words.
fn without_links(text: &str) -> String {
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("](").and_then(|(words, rest)| Some((words, rest.split_once(')')?.1)))
        {
            Some((words, rest)) => plain += &format!("{words}{rest}"),
            None => plain += &format!("[{part}"),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_a_meaning() {
        let without: Vec<_> = words().iter().filter(|word| word.meaning.is_empty()).collect();
        assert!(without.is_empty(), "{without:#?}");
        assert!(words().len() > 100);
    }

    #[test]
    fn calls_have_their_operands() {
        let signature = |name: &str| {
            words().iter().find(|word| word.name == name).map(|word| word.signature.as_str())
        };
        assert_eq!(signature("take"), Some("take_V(Table, Ids)"));
        assert_eq!(signature("one_hot"), Some("one_hot_V(Ids)"));
        assert_eq!(signature("select"), Some("select(mask, a, b)"));
        assert_eq!(signature("softmax"), Some("softmax_D(x)"));
        assert_eq!(
            without_links("the [last layer](repeat.md) of [I, J]"),
            "the last layer of [I, J]"
        );
    }
}
