//! Plans as targets of make, ninja and bazel. Make and ninja are the real ones: where they are not
//! installed, these tests fail (`.ci/run` installs them). Of bazel the command is run, as bazel
//! would run it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{path_with_binary, root, run_in, text};

/// A folder with the example of a tool and the programs.
fn workshop(name: &str, tool: &str) -> PathBuf {
    let folder = crate::common::empty_folder(name);
    std::fs::create_dir(folder.join("programs")).expect("a folder can be made");
    let examples = root().join("tests/build");
    let copies = [
        ("cargo/programs/mlp.shard", "programs/mlp.shard"),
        ("cargo/programs/serving/decode.shard", "programs/decode.shard"),
        (tool, ""),
    ];
    for (from, to) in copies {
        let to = if to.is_empty() {
            Path::new(from).file_name().expect("a file").to_os_string()
        } else {
            to.into()
        };
        std::fs::copy(examples.join(from), folder.join(to)).expect("the example is there");
    }
    folder
}

/// What a tool prints, and whether it was content.
fn tool(folder: &Path, command: &str) -> (String, bool) {
    let output = Command::new("bash")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", path_with_binary())
        .output()
        .expect("bash starts");
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert_ne!(output.status.code(), Some(127), "`{command}` is not installed: {printed}");
    (printed, output.status.success())
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
    assert!(tool(&folder, "make").1, "a program that is gone stops nothing");
    edit(&folder.join("programs/mlp.shard"), "Tmp *F Wout", "Tmp *D Wout");
    let before = std::fs::read(folder.join("out/mlp.plan")).expect("it is there");
    let (wrong, ok) = tool(&folder, "make");
    assert!(!ok && wrong.contains("SW105"), "{wrong}");
    assert_eq!(
        std::fs::read(folder.join("out/mlp.plan")).expect("it is there"),
        before,
        "the old plan, whole"
    );
}

#[test]
fn ninja_stops_where_a_plan_stays_the_same() {
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
fn the_command_of_the_bazel_rule_needs_its_inputs_and_nothing_else() {
    let rule = std::fs::read_to_string(root().join("tests/build/bazel/BUILD.bazel"))
        .expect("the example is there");
    let command = rule
        .lines()
        .find_map(|line| line.trim().strip_prefix("cmd = \"")?.strip_suffix("\","))
        .expect("the rule has a command");
    let folder = workshop("bazel", "bazel/BUILD.bazel");
    for program in ["decode", "mlp"] {
        assert!(rule.contains(&format!("\"{program}\"")));
        let target = format!("{program}.plan");
        let said = command
            .replace("$(execpath //tools:shardwise)", crate::common::SHARDWISE)
            .replace("$(SRCS)", &format!("programs/{program}.shard"))
            .replace("$@", &target);
        assert!(!said.contains('$'), "{said}");
        let output = Command::new("/bin/sh")
            .args(["-c", &said])
            .current_dir(&folder)
            .env_clear()
            .output()
            .expect("a shell starts");
        assert!(
            output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
            "{}",
            text(&output.stderr)
        );
        let plan = run_in(&folder, &["plan", &format!("programs/{program}.shard")], "");
        assert_eq!(
            text(&plan.stdout),
            std::fs::read_to_string(folder.join(target)).expect("it was written")
        );
    }
}

#[test]
fn options_that_go_with_an_output_alone_say_so() {
    let folder = workshop("wrong-usage", "make/Makefile");
    let mlp = "programs/mlp.shard";
    let wrong: [&[&str]; 5] = [
        &["plan", mlp, "--check"],
        &["plan", mlp, "--depfile", "d"],
        &["plan", mlp, "programs/decode.shard", "-o", "out.plan"],
        &["plan", mlp, "-o", "no/such/folder/out.plan"],
        &["plan", "-o", "a.plan", "--depfile", "d", "-e", "A[I] -> A[I]"],
    ];
    for arguments in wrong {
        assert_eq!(run_in(&folder, arguments, "").status.code(), Some(2), "{arguments:?}");
    }
    let missing = run_in(&folder, &["plan", mlp, "-o", "missing.plan", "--check"], "");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("`missing.plan` is not there"));
    assert!(!folder.join("missing.plan").exists(), "--check writes nothing");
}

#[test]
fn json_is_a_target_too() {
    let folder = workshop("json", "make/Makefile");
    assert!(
        run_in(&folder, &["plan", "programs/mlp.shard", "--format", "json", "-o", "mlp.json"], "")
            .status
            .success()
    );
    let written = std::fs::read_to_string(folder.join("mlp.json")).expect("it was written");
    assert!(
        serde_json::from_str::<serde_json::Value>(&written)
            .is_ok_and(|json| json["schema"] == "shardwise.plan/1")
    );
}

#[test]
fn the_page_shows_what_the_tools_print() {
    let folder = workshop("page", "make/Makefile");
    std::fs::copy(root().join("tests/build/ninja/build.ninja"), folder.join("build.ninja"))
        .expect("the example is there");
    assert_eq!(crate::common::run_page("compiler/docs/build.md", &folder), 6);
}

#[test]
fn the_page_quotes_the_examples() {
    let page =
        std::fs::read_to_string(root().join("compiler/docs/build.md")).expect("the page is there");
    let example = |path: &str| {
        std::fs::read_to_string(root().join("tests/build").join(path))
            .expect("the example is there")
    };
    let rust = example("cargo/build.rs") + &example("cargo/src/main.rs");
    let makefile = example("make/Makefile");
    let mut quoted = 0;
    for (language, text) in crate::common::blocks(&page) {
        let whole = match language.as_str() {
            "rust" if !text.contains("configure()") => &rust,
            "make" => &makefile,
            _ => continue,
        };
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//")) {
            let spelled = line.replace("plans::mlp", "mlp");
            assert!(whole.lines().any(|other| other == spelled), "`{line}` is not in the example");
            quoted += 1;
        }
    }
    assert!(quoted > 8, "{quoted}");
}
