//! Every file of the repository that a page names exists, and no page shows one of another folder.

use std::path::Path;

use shardwise_tests::{paths_below, root};

/// Parts of a path that stand for something the reader chooses.
const PLACEHOLDERS: &[char] = &['*', '<', '…'];

/// Folders at the root, with which a path on a page begins.
const FOLDERS: &[&str] = &["grammar", "ir", "passes", "compiler", "cli", "tests", "fuzz", ".ci"];

/// Where pages of the book link to files outside of it, so that the links hold on its site, too.
const REPOSITORY: &str = "https://github.com/shardwise/shardwise/blob/main/";

/// Where the folders of people are, which the output of a command may show by mistake.
const OF_A_MACHINE: &[&str] = &["/root/", "/Users/", "site-packages"];

/// The paths that a page names in backticks, and those of its links, from the page's folder.
fn named(page: &str, text: &str) -> Vec<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let code = text.split('`').skip(1).step_by(2).filter(|code| is_path(code)).map(str::to_owned);
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.filter_map(|link| link.split('#').next()).filter(|link| !link.is_empty());
    let links = links.filter(|link| !link.contains("://") || link.starts_with(REPOSITORY));
    let from_root = |link: &str| match link.strip_prefix(REPOSITORY) {
        Some(path) => path.to_owned(),
        None => Path::new(folder).join(link).to_string_lossy().into_owned(),
    };
    code.chain(links.map(from_root)).collect()
}

/// Whether a piece of code is the path of a file or folder of the repository.
fn is_path(code: &str) -> bool {
    let Some((folder, rest)) = code.split_once('/') else { return false };
    let named = !rest.contains("NAME") && !code.contains(PLACEHOLDERS);
    FOLDERS.contains(&folder) && named && !code.contains(char::is_whitespace)
}

/// The text of a page without its fenced blocks, which show what a reader types or sees.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

fn pages() -> impl Iterator<Item = String> {
    let pages = ["compiler", "tests", "fuzz"].iter().flat_map(|folder| paths_below(folder, ".md"));
    pages.chain(["README.md".to_owned()])
}

#[test]
fn no_page_shows_a_folder_of_the_machine_that_printed_it() {
    let lines = |page: String| -> Vec<String> {
        let text = shardwise_tests::read(&page);
        let shown = text.lines().filter(|line| OF_A_MACHINE.iter().any(|it| line.contains(it)));
        shown.map(|line| format!("{page}: {line}")).collect()
    };
    let found: Vec<String> = pages().flat_map(lines).collect();
    super::none(&found, "these lines are of one machine");
}

#[test]
fn every_path_on_a_page_exists() {
    let mut missing = Vec::new();
    for page in pages() {
        let text = prose(&shardwise_tests::read(&page));
        let paths = named(&page, &text).into_iter().filter(|path| !root().join(path).exists());
        missing.extend(paths.map(|path| format!("{page} names {path}")));
    }
    super::none(&missing, "these paths do not exist");
}

#[test]
fn the_book_has_the_pages_that_the_command_prints() {
    let summary = shardwise_tests::read("compiler/docs/SUMMARY.md");
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(".md)").next());
    let without_codes: Vec<&str> = links.filter(|page| *page != "codes").collect();
    let topics: Vec<&str> = shardwise::docs::TOPICS.iter().map(|topic| topic.name).collect();
    assert_eq!(topics.split_last(), Some((&"codes", &without_codes[..])));
    assert!(summary.contains("](codes.md)"));
    let pages = paths_below("compiler/docs", ".md").len();
    assert_eq!(pages, topics.len() + 1, "every page but the summary is a topic");
}
