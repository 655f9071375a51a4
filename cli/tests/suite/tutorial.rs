//! The README, the tutorial and the page about theory, from top to bottom as a newcomer would: each
//! program goes into the file that its first line names, each command prints what the page shows,
//! and each picture of the page is what its command draws.

use std::path::Path;

use crate::common::{blocks, empty_folder, root, run_page, shell};

/// Writes the programs of a page into a folder of its own, and runs its commands there.
fn follow(page: &str) -> (std::path::PathBuf, usize) {
    let folder = empty_folder(&page.replace(['/', '.'], "-"));
    let text = std::fs::read_to_string(root().join(page)).expect("the page is there");
    for (_, program) in blocks(&text).iter().filter(|(language, _)| language == "shard") {
        let name = program.lines().next().and_then(|line| line.strip_prefix("# "));
        let name = name.unwrap_or_else(|| panic!("a program names no file:\n{program}"));
        std::fs::write(folder.join(name), format!("{program}\n")).expect("a file can be written");
    }
    let count = run_page(page, &folder);
    (folder, count)
}

fn same_file(drawn: &Path, shown: &Path) {
    let read = |path: &Path| std::fs::read_to_string(path).expect("a picture");
    assert!(read(drawn) == read(shown), "{} is not what is drawn now", shown.display());
}

#[test]
fn the_tutorial_can_be_followed() {
    let (folder, count) = follow("compiler/docs/tutorial.md");
    assert_eq!(count, 12);
    for name in ["product", "sum", "gather", "layer"] {
        let shown = root().join(format!("compiler/docs/tutorial/{name}.svg"));
        same_file(&folder.join(format!("{name}.svg")), &shown);
    }
}

#[test]
fn the_readme_shows_what_is_printed_and_drawn() {
    assert_eq!(run_page("README.md", &root()), 3);
    let folder = empty_folder("readme");
    let drawn = folder.join("plan.svg");
    let command =
        format!("shardwise plan tests/programs/fsdp_tp.shard --format svg -o {}", drawn.display());
    assert_eq!(shell(&root(), &command), "");
    same_file(&drawn, &root().join("compiler/docs/tutorial/fsdp_tp.svg"));
}

#[test]
fn the_theory_is_what_plans_do() {
    assert_eq!(follow("compiler/docs/theory.md").1, 5);
}

#[test]
fn the_page_of_installation_shows_what_the_commands_write() {
    assert_eq!(run_page("compiler/docs/install.md", &empty_folder("install-page")), 1);
}
