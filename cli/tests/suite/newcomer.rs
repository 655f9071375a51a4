//! Output for new users: no arguments, typing errors, missing or empty files, folders, and a narrow
//! terminal.

use crate::common::{SHARDWISE, empty_folder, text};
use crate::{run, run_in};

/// What is printed on standard error, with the exit status.
fn refused(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let output = run(arguments, input);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    (output.status.code(), text(&output.stderr))
}

#[test]
fn no_arguments_print_the_help() {
    let (code, printed) = refused(&[], "");
    assert_eq!(code, Some(2));
    for line in ["Usage: shardwise", "Examples:", "Exit status:"] {
        assert!(printed.contains(line), "{printed}");
    }
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    let commands = [
        "plan",
        "check",
        "fmt",
        "import",
        "new",
        "verify",
        "cost",
        "sweep",
        "diff",
        "explain",
        "docs",
        "hardware",
        "schema",
        "completions",
        "man",
    ];
    let mut helps: Vec<Vec<&str>> = vec![vec!["--help"], vec!["-h"]];
    helps.extend(
        commands.iter().flat_map(|command| [vec![*command, "--help"], vec![command, "-h"]]),
    );
    for arguments in helps {
        let output = std::process::Command::new(SHARDWISE)
            .args(&arguments)
            .env("COLUMNS", "80")
            .output()
            .expect("the command starts");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        for line in text(&output.stdout).lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
}

#[test]
fn typing_errors_get_a_suggestion() {
    for (arguments, suggestion) in [
        (&["plam"][..], "'plan'"),
        (&["plan", "-", "--strateg", "textbook"], "'--strategy'"),
        (&["plan", "-", "--strategy", "texbook"], "'textbook'"),
        (&["plan", "-", "--print-after", "gradients"], "'gradient'"),
    ] {
        let (code, printed) = refused(arguments, "");
        assert!(code == Some(2) && printed.contains(suggestion), "{arguments:?}: {printed}");
    }
}

#[test]
fn commands_of_other_tools_get_a_suggestion() {
    for (word, command) in [("lint", "check"), ("format", "fmt"), ("fix", "check --fix")] {
        let (code, printed) = refused(&[word, "model.shard"], "");
        assert!(
            code == Some(2) && printed.contains(&format!("`shardwise {command}`")),
            "{printed}"
        );
    }
}

#[test]
fn a_program_without_a_command_is_reported_which_to_type() {
    let (code, printed) = refused(&["tests/programs/fsdp_tp.shard"], "");
    assert_eq!(code, Some(2));
    assert!(printed.contains("shardwise plan tests/programs/fsdp_tp.shard"), "{printed}");
}

#[test]
fn what_cannot_be_read_is_named_with_the_reason() {
    for command in ["plan", "cost", "verify", "fmt", "explain", "check"] {
        let (code, printed) = refused(&[command, "no/such.shard"], "");
        assert_eq!(code, Some(2), "{command}");
        assert_eq!(
            printed.lines().next(),
            Some(
                "error: cannot read `no/such.shard`: no such file or directory; give the path of \
                    a program, or - for standard input"
            ),
            "{command}"
        );
    }
    let (code, printed) = refused(&["plan", "tests"], "");
    assert_eq!(code, Some(2));
    assert!(printed.contains("cannot read `tests`: is a directory; give"), "{printed}");
}

#[test]
fn an_empty_program_says_what_is_missing() {
    let (code, printed) = refused(&["plan", "-"], "");
    assert_eq!(code, Some(1));
    assert!(printed.contains("write `hardware tpu-v5p`"), "{printed}");
}

#[test]
fn an_empty_folder_has_no_programs() {
    let folder = empty_folder("newcomer-empty");
    let output = run_in(&folder, &["check"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("no programs"), "{}", text(&output.stderr));
}
