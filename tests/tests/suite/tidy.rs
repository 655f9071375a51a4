//! The house rules, checked by an ordinary test.

mod importers;
mod licences;
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
    "tests/programs/mistakes",
    "tests/programs/formats",
    "tests/programs/mutants",
    "tests/programs/twenty",
    "tests/programs/lints",
    "tests/programs/codes",
    "tests/programs/explicit",
    "tests/programs/open",
    "tests/programs/old",
    "tests/programs/operations",
    "tests/programs/layers",
    "tests/programs/microbatches",
    "tests/programs/nested",
    "tests/programs/passes",
    "tests/programs/pipelines",
    "tests/programs/scans",
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

/// The code of a file, without its tests and comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
    before_tests.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Words of a text that can be names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

/// What the root of a crate re-exports from its folders: `pub use types::{dtype, ids};`.
fn reexported(root: &str) -> BTreeMap<&str, &str> {
    let uses = root.split(';').filter_map(|item| item.rsplit_once("use ").map(|(_, path)| path));
    let from = uses.filter_map(|path| path.split_once("::"));
    from.flat_map(|(folder, items)| names(items).map(move |item| (item, folder))).collect()
}

/// What the folders of a crate name of each other: a folder with its module file is one.
fn arrows_between_folders(krate: &str) -> BTreeMap<String, BTreeSet<String>> {
    let root = format!("{krate}/src/");
    let files = paths_below(&root, ".rs").into_iter().map(|path| (path.clone(), read(&path)));
    let files: Vec<_> = files.filter(|(path, _)| !path.ends_with("tests.rs")).collect();
    let is_root = |path: &str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let text = files.iter().find(|(path, _)| is_root(path)).map_or("", |(_, text)| text);
    let reexported = reexported(text);
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| !is_root(path)) {
        let folder = names(&path[root.len()..]).next().unwrap_or_default();
        let uses = code(text).flat_map(|line| line.split("crate::").skip(1));
        let modules = uses.filter_map(|rest| names(rest).next());
        let to = modules.map(|module| *reexported.get(module).unwrap_or(&module));
        let to = to.filter(|other| *other != folder).map(str::to_owned);
        arrows.entry(folder.to_owned()).or_default().extend(to);
    }
    arrows
}

/// What is left of the arrows when folders that lead into no circle are removed.
fn circle(krate: &str) -> Vec<String> {
    let mut arrows = arrows_between_folders(krate);
    while let Some(last) =
        arrows.iter().find(|(_, to)| to.iter().all(|other| !arrows.contains_key(other)))
    {
        let last = last.0.clone();
        arrows.remove(&last);
    }
    arrows.iter().map(|(folder, to)| format!("{krate}/src/{folder} uses {to:?}")).collect()
}

#[test]
fn folders_form_no_circle() {
    let circles: Vec<String> = ARROWS.iter().flat_map(|(krate, _)| circle(krate)).collect();
    none(&circles, "these folders use each other in a circle");
}
