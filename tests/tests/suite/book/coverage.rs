//! The page `tests/facts/README.md` is in step with the tests: every fact of a fixture is covered
//! by a test that names it, or has a reason beside it.

use std::collections::BTreeSet;

use serde_json::Value;
use shardwise_tests::{files, paths_below, read};

type Ids = BTreeSet<String>;

/// What a section of the page lists, and the ids in its table, with their reasons.
fn section(page: &str, name: &str) -> (Ids, Vec<(String, String)>) {
    let text = page
        .split("\n## ")
        .find(|part| part.starts_with(&format!("{name}\n")))
        .unwrap_or_else(|| panic!("no section `{name}`"));
    let (mut listed, mut reasons) = (Ids::new(), Vec::new());
    for line in text.lines().skip(1) {
        match line.strip_prefix("| ") {
            Some(row) if !row.starts_with("id |") && !row.starts_with("---") => {
                let (id, reason) =
                    row.trim_end_matches(" |").split_once(" | ").unwrap_or((row, ""));
                reasons.push((id.to_owned(), reason.to_owned()));
            }
            Some(_) => {}
            None => {
                listed.extend(line.split([',', ' ']).filter(|word| is_id(word)).map(str::to_owned));
            }
        }
    }
    (listed, reasons)
}

/// `S3-LOC1`: a chapter's letter and number, a hyphen, a name.
fn is_id(word: &str) -> bool {
    let Some((chapter, name)) = word.split_once('-') else { return false };
    chapter.len() == 2
        && chapter.starts_with(char::is_uppercase)
        && name.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// The ids of a fixture.
fn ids(text: &str) -> Vec<String> {
    let facts: Value = serde_json::from_str(text).expect("facts are JSON");
    facts
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|fact| fact["id"].as_str())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_fact_has_a_test_or_a_reason() {
    let page = read("tests/facts/README.md");
    let tests: String =
        paths_below("tests/tests/suite", ".rs").iter().map(|path| read(path)).collect();
    let mut seen = Ids::new();
    for (name, text) in files("tests/facts", ".json") {
        let facts: Vec<String> = ids(&text).into_iter().filter(|id| is_id(id)).collect();
        if facts.is_empty() {
            continue;
        }
        for id in &facts {
            assert!(seen.insert(id.clone()), "{id} stands twice");
        }
        let named = |id: &&String| tests.contains(&format!("\"{id}\""));
        let (listed, reasons) = section(&page, &name);
        let covered: Ids = facts.iter().filter(named).cloned().collect();
        assert_eq!(listed, covered, "{name}: what the page lists, and what tests name");
        let missing: Ids = facts.iter().filter(|id| !named(id)).cloned().collect();
        assert_eq!(
            reasons.iter().map(|(id, _)| id.clone()).collect::<Ids>(),
            missing,
            "{name}: what has a reason, and what has no test"
        );
        assert!(
            reasons.iter().all(|(_, reason)| reason.len() > 20),
            "{name}: a reason is a sentence"
        );
    }
}
