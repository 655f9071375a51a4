//! The house rules, checked by an ordinary test.

mod pages;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use shardwise_tests::{paths_below, read};

/// Which crates each crate may name: `grammar ← ir ← passes ← compiler ← cli`.
const ARROWS: [(&str, &[&str]); 5] = [
    ("grammar", &[]),
    ("ir", &["shardwise_grammar"]),
    ("passes", &["shardwise_ir"]),
    ("compiler", &["shardwise_grammar", "shardwise_ir", "shardwise_passes"]),
    ("cli", &["shardwise"]),
];

/// Folders of fixtures that a runner reads whole.
const READ_WHOLE: &[&str] = &[
    "tests/programs/hardware",
    "tests/programs/optimizer",
    "tests/programs/specs",
    "tests/programs/models",
    "tests/programs/sparse",
    "tests/programs/book",
    "tests/programs/book/alternatives",
    "tests/programs/errors",
    "tests/programs/formats",
    "tests/programs/mutants",
    "tests/programs/lints",
    "tests/programs/codes",
    "tests/programs/explicit",
    "tests/programs/open",
    "tests/programs/layers",
    "tests/programs/microbatches",
    "tests/programs/passes",
    "tests/programs/pipelines",
    "tests/programs/training",
    "tests/facts",
];

fn sources() -> Vec<(String, String)> {
    let crates = ["grammar", "ir", "passes", "compiler", "cli", "tests"];
    let paths = crates.iter().flat_map(|folder| paths_below(folder, ".rs"));
    paths.map(|path| (path.clone(), read(&path))).collect()
}

fn none(offenders: &[String], rule: &str) {
    assert!(offenders.is_empty(), "{rule}:\n{}", offenders.join("\n"));
}

#[test]
fn no_arrow_that_is_not_drawn() {
    let crates = ["shardwise_grammar", "shardwise_ir", "shardwise_passes", "shardwise"];
    let mut offenders = Vec::new();
    for (path, text) in sources() {
        let Some((_, allowed)) =
            ARROWS.iter().find(|(krate, _)| path.starts_with(&format!("{krate}/src")))
        else {
            continue;
        };
        for (number, line) in
            text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            let names = crates.iter().filter(|name| line.contains(&format!("{name}::")));
            offenders.extend(
                names
                    .filter(|name| !allowed.contains(name))
                    .map(|name| format!("{path}:{} names {name}", number + 1)),
            );
        }
    }
    none(&offenders, "a crate names one that it may not");
}

#[test]
fn files_are_short_and_say_why_they_exist() {
    let mut offenders = Vec::new();
    for (path, text) in sources() {
        if text.lines().count() > 500 {
            offenders.push(format!("{path}: {} lines", text.lines().count()));
        }
        if !text.starts_with("//!") && !text.starts_with("#![doc") {
            offenders.push(format!("{path}: no `//!`"));
        }
    }
    none(&offenders, "a file is over 500 lines, or does not say why it exists");
}

#[test]
fn lines_fit_a_hundred_columns() {
    let mut offenders = Vec::new();
    // Pages of codes are printed as they stand, and broken where they are printed.
    for (path, text) in sources().iter().filter(|(path, _)| !path.starts_with("ir/src/codes/")) {
        let long = text.lines().enumerate().filter(|(_, line)| line.chars().count() > 100);
        offenders.extend(long.map(|(number, _)| format!("{path}:{}", number + 1)));
    }
    none(&offenders, "a line is over 100 columns, where rustfmt does not break it");
}

#[test]
fn every_fixture_is_read() {
    let tests: String = sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("tests/"))
        .map(|(_, text)| text)
        .collect();
    let fixtures = ["tests/programs", "tests/facts"].map(|folder| paths_below(folder, "")).concat();
    let unread = fixtures.into_iter().filter(|path| {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        !READ_WHOLE.contains(&folder) && !tests.contains(&path.replace(".snap", ".shard"))
    });
    none(&unread.collect::<Vec<_>>(), "no test reads these fixtures");
}

#[test]
fn nothing_is_left_undone() {
    let marks = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore")];
    let mut offenders = Vec::new();
    for (path, text) in sources() {
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)));
        offenders.extend(lines.map(|(number, line)| format!("{path}:{}: {line}", number + 1)));
    }
    none(&offenders, "left undone");
}

#[test]
fn pest_stays_in_the_grammar() {
    let strays: Vec<String> = sources()
        .into_iter()
        .filter(|(path, text)| {
            path != "grammar/src/parse.rs" && !path.starts_with("tests/") && text.contains("pest::")
        })
        .map(|(path, _)| path)
        .collect();
    none(&strays, "only the parser names pest");
}

/// What the folders of `passes` import from each other: a folder with its module file is one.
fn arrows_between_folders() -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let Some(inside) = path.strip_prefix("passes/src/") else { continue };
        let folder = inside.split(['/', '.']).next().unwrap_or_default();
        let imports = text.lines().filter_map(|line| line.trim_start().strip_prefix("use crate::"));
        let others = imports.filter_map(|import| import.split([':', ';']).next());
        let to = others.filter(|other| *other != folder).map(str::to_owned);
        arrows.entry(folder.to_owned()).or_default().extend(to);
    }
    arrows
}

#[test]
fn folders_form_no_circle() {
    let mut arrows = arrows_between_folders();
    while let Some(last) =
        arrows.iter().find(|(_, to)| to.iter().all(|other| !arrows.contains_key(other)))
    {
        let last = last.0.clone();
        arrows.remove(&last);
    }
    let circle: Vec<String> =
        arrows.iter().map(|(folder, to)| format!("{folder} uses {to:?}")).collect();
    none(&circle, "these folders use each other in a circle");
}
