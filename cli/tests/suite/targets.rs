//! `plan -o`: plans as files, as build tools want them. The tools themselves are run by the suite
//! `tools`.

use std::process::Command;

use crate::common::{SHARDWISE, blocks, root, text, workshop};
use crate::run_in;

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
        let printed = command
            .replace("$(execpath //tools:shardwise)", SHARDWISE)
            .replace("$(SRCS)", &format!("programs/{program}.shard"))
            .replace("$@", &target);
        assert!(!printed.contains('$'), "{printed}");
        let output = Command::new("/bin/sh")
            .args(["-c", &printed])
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
            .is_ok_and(|json| json["schema"] == "shardwise.plan/2")
    );
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
    for (language, text) in blocks(&page) {
        let example_text = match language.as_str() {
            "rust" if !text.contains("configure()") => &rust,
            "make" => &makefile,
            _ => continue,
        };
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//")) {
            let spelled = line.replace("plans::mlp", "mlp");
            assert!(
                example_text.lines().any(|other| other == spelled),
                "`{line}` is not in the example"
            );
            quoted += 1;
        }
    }
    assert!(quoted > 8, "{quoted}");
}
