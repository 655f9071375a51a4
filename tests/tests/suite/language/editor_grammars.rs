//! The grammar of the VS Code extension has the words of the language's own, so that a keyword that
//! is added there is colored.

use std::collections::BTreeSet;

use serde_json::Value;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::resolve::vocabulary::vocabulary;
use shardwise_tests::read;

const TEXTMATE: &str = "cli/editors/vscode/syntaxes/shardwise.tmLanguage.json";

/// The alternatives in the first parentheses of a rule that hold words alone.
fn alternatives(rule: &str) -> BTreeSet<String> {
    let grammar: Value = serde_json::from_str(&read(TEXTMATE)).expect("JSON");
    let pattern = grammar["repository"][rule]["match"].as_str().expect("a pattern").to_owned();
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric());
    let groups = pattern.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    let mut lists = groups.filter(|group| group.contains('|') && group.split('|').all(is_word));
    let list = lists.next().unwrap_or_else(|| panic!("no list of words in {pattern}"));
    list.split('|').map(str::to_owned).collect()
}

fn owned<'w>(words: impl IntoIterator<Item = &'w str>) -> BTreeSet<String> {
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn it_has_the_keywords_of_the_language() {
    let statements = vocabulary().into_iter().find(|of| of.kind == "Statements");
    let keywords = owned(statements.expect("a vocabulary").words);
    assert_eq!(alternatives("statement"), keywords);
    let collectives = owned(CollectiveKind::ALL.iter().map(CollectiveKind::name));
    assert_eq!(alternatives("collective"), collectives);
}

#[test]
fn it_has_the_words_inside_of_statements() {
    let grammar = read("grammar/src/shard.pest");
    let rules = grammar.lines().filter(|line| line.starts_with("kw_"));
    let all = owned(rules.filter_map(|line| line.split('"').nth(1)));
    let inside: BTreeSet<String> = all.difference(&alternatives("statement")).cloned().collect();
    let words = alternatives("word");
    let missing: Vec<&String> = inside.difference(&words).collect();
    assert!(missing.is_empty(), "{TEXTMATE} lacks {missing:?}");
    let is_known = |word: &&String| grammar.contains(&format!("\"{word}"));
    let unknown: Vec<&String> = words.iter().filter(|word| !is_known(word)).collect();
    assert!(unknown.is_empty(), "{TEXTMATE} has {unknown:?}, which the language has not");
}
