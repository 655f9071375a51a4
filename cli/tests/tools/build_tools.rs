//! Plans as targets of make and ninja.

use std::path::Path;
use std::process::Command;

use crate::common::{path_with_binary, root, run_page, text, workshop};
use crate::require;

/// What a command prints, and whether it succeeds.
fn tool(folder: &Path, command: &str) -> (String, bool) {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .current_dir(folder)
        .env("PATH", path_with_binary())
        .output()
        .expect("the tool starts");
    (text(&output.stdout) + &text(&output.stderr), output.status.success())
}

fn edit(path: &Path, from: &str, to: &str) {
    let before = std::fs::read_to_string(path).expect("the file is there");
    assert!(before.contains(from), "{before}");
    // Tools compare times; file systems may keep them coarsely.
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(path, before.replace(from, to)).expect("a file can be written");
}

#[test]
fn make_plans_what_changed_and_nothing_else() {
    require(&["make"]);
    let folder = workshop("make", "make/Makefile");
    let (first, ok) = tool(&folder, "make -j2");
    assert!(ok && first.matches("shardwise plan").count() == 2, "{first}");
    assert!(tool(&folder, "make").0.contains("Nothing to be done"));
    assert!(tool(&folder, "make -s check") == (String::new(), true));
    edit(&folder.join("programs/mlp.shard"), "B=49152", "B=24576");
    let (stale, ok) = tool(&folder, "make -s check");
    assert!(
        !ok && stale.contains(
            "`out/mlp.plan` is not the plan of `programs/mlp.shard` any more; run `shardwise plan"
        ),
        "{stale}"
    );
    let (again, ok) = tool(&folder, "make");
    assert!(ok && again.contains("programs/mlp.shard") && !again.contains("decode"), "{again}");
    assert!(tool(&folder, "make").0.contains("Nothing to be done"));
    std::fs::remove_file(folder.join("programs/decode.shard")).expect("it is there");
    assert!(tool(&folder, "make").1, "a program that was deleted does not stop the build");
    edit(&folder.join("programs/mlp.shard"), "Tmp *F Wout", "Tmp *D Wout");
    let before = std::fs::read(folder.join("out/mlp.plan")).expect("it is there");
    let (wrong, ok) = tool(&folder, "make");
    assert!(!ok && wrong.contains("SW105"), "{wrong}");
    assert_eq!(
        std::fs::read(folder.join("out/mlp.plan")).expect("it is there"),
        before,
        "the old plan stays"
    );
}

#[test]
fn ninja_stops_where_a_plan_stays_the_same() {
    require(&["ninja"]);
    let folder = workshop("ninja", "ninja/build.ninja");
    let (first, ok) = tool(&folder, "ninja");
    assert!(ok && first.contains("[4/4]"), "{first}");
    assert!(tool(&folder, "ninja").0.contains("no work to do"));
    edit(&folder.join("programs/mlp.shard"), "# FSDP", "# Fully sharded: FSDP");
    let (comment, ok) = tool(&folder, "ninja -v");
    assert!(
        ok && comment.contains("plan programs/mlp.shard") && !comment.contains("shardwise cost"),
        "{comment}"
    );
    assert!(tool(&folder, "ninja").0.contains("no work to do"));
    edit(&folder.join("programs/mlp.shard"), "B=49152", "B=24576");
    let (size, ok) = tool(&folder, "ninja -v");
    assert!(
        ok && size.contains("plan programs/mlp.shard")
            && size.contains("cost out/mlp.plan")
            && !size.contains("decode"),
        "{size}"
    );
}

#[test]
fn the_page_shows_what_the_tools_print() {
    require(&["make", "ninja"]);
    let folder = workshop("build-page", "make/Makefile");
    std::fs::copy(root().join("tests/build/ninja/build.ninja"), folder.join("build.ninja"))
        .expect("the example is there");
    assert_eq!(run_page("compiler/docs/build.md", &folder), 6);
}
