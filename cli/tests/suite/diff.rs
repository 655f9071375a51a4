//! `diff` as its users meet it: plans and programs, formats, limits and exit codes.

use crate::common::text;
use crate::run;

const BEFORE: &str = "tests/programs/fsdp_tp.shard";

/// The same program with its input replicated along D.
fn after() -> String {
    let source =
        std::fs::read_to_string(crate::common::root().join(BEFORE)).expect("the program is there");
    source.replace("D_Y]\nparam", "D]\nparam")
}

#[test]
fn a_collective_that_is_gone_is_removed() {
    let output = run(&["diff", BEFORE, "-"], &after());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(
        printed.contains(
            "-1 AllGather_Y 50.3 MB, -280 us: In[B_X, D] = AllGather_Y(In[B_X, D_Y]) for Tmp\n"
        ),
        "{printed}"
    );
    assert!(
        printed.contains("collectives: 0 added, 1 removed, 0 changed, 3 unchanged\n"),
        "{printed}"
    );
    assert!(
        printed.contains("serial      3.87 ms ->  3.59 ms      -280 us    -7.2%\n"),
        "{printed}"
    );
}

#[test]
fn a_plan_and_its_program_do_not_differ() {
    let plan = text(&run(&["plan", BEFORE], "").stdout);
    let output = text(&run(&["diff", "--format", "json", BEFORE, "-"], &plan).stdout);
    let diff: serde_json::Value = serde_json::from_str(&output).expect("it is JSON");
    assert_eq!(diff["schema"], "shardwise.diff/1");
    for list in ["added", "removed", "changed", "statements", "settings"] {
        assert_eq!(diff[list].as_array().map(Vec::len), Some(0), "{list}: {output}");
    }
    assert_eq!(diff["unchanged"], 4);
}

#[test]
fn standard_input_may_be_both_sides() {
    let output = run(&["diff", "-", "-"], &after());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("0 changed, 3 unchanged\n"));
}

#[test]
fn an_option_that_is_wrong_for_both_sides_is_reported_once() {
    let output = run(&["diff", BEFORE, BEFORE, "--dim", "B=0"], "");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr).matches("is not a size").count(), 1);
}

#[test]
fn limits_end_with_1_and_name_what_they_limit() {
    let limits: [(&[&str], Option<&str>); 6] = [
        (
            &["--max-regression", "5%"],
            Some("serial grew by 7.8% (3.59 ms -> 3.87 ms), more than 5%"),
        ),
        (&["--max-regression", "8%"], None),
        (&["--max-regression", "0%", "--by", "compute"], None),
        (&["--budget", "3.5ms"], Some("serial is 3.87 ms, over the budget of 3.5 ms")),
        (&["--budget", "4ms"], None),
        (
            &["--budget", "2.5ms", "--by", "scheduled"],
            Some("scheduled is 2.84 ms, over the budget of 2.5 ms"),
        ),
    ];
    for (limit, sentence) in limits {
        let output = run(&[&["diff", "-", BEFORE], limit].concat(), &after());
        let errors = text(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(i32::from(sentence.is_some())),
            "{limit:?}: {errors}"
        );
        assert!(errors.contains(sentence.unwrap_or_default()), "{limit:?}: {errors}");
        assert!(!output.stdout.is_empty(), "the difference is shown in any case");
    }
}

#[test]
fn what_cannot_be_read_is_wrong_usage() {
    let wrong = [&["--budget", "2"][..], &["--max-regression", "5"], &["--max-regression", "x%"]];
    for limit in wrong {
        assert_eq!(
            run(&[&["diff", BEFORE, BEFORE], limit].concat(), "").status.code(),
            Some(2),
            "{limit:?}"
        );
    }
    assert_eq!(run(&["diff", BEFORE, "no/such/file.shard"], "").status.code(), Some(2));
    assert_eq!(
        run(&["diff", BEFORE, "-"], "hardware tpu-v5p\ninput A[I_X, J\n").status.code(),
        Some(1)
    );
}

#[test]
fn the_page_shows_what_the_command_writes() {
    assert_eq!(crate::common::run_page("compiler/docs/diff.md", &crate::common::root()), 4);
}

#[test]
fn plans_at_different_rates_are_compared_as_such() {
    let program = "hardware h100\nmesh X=4\ndim B=512, D=1024\ninput x[B_X, D]\noutput x[B, D]\n";
    let folder = std::env::temp_dir().join("shardwise-diff-rates");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (peak, measured) = (path("peak.shard"), path("measured.shard"));
    std::fs::write(&peak, program).expect("a file");
    let at_measured = program.replace("h100", "h100, rates=measured");
    std::fs::write(&measured, at_measured).expect("a file");
    let printed = text(&run(&["diff", &peak, &measured], "").stdout);
    assert!(printed.contains("rates: peak -> measured"), "{printed}");
    let same = text(&run(&["diff", &peak, &peak], "").stdout);
    assert!(!same.contains("rates:"), "{same}");
}

/// A format has one name in every command, and every command reads its other one.
#[test]
fn markdown_is_md_everywhere() {
    let commands: [&[&str]; 3] = [
        &["diff", BEFORE, "tests/programs/mlp-2d.shard"],
        &["plan", BEFORE],
        &["tune", "tests/programs/tune/mlp.shard", "--chips", "4"],
    ];
    for command in commands {
        let written = |format: &str| {
            let output = run(&[command, &["--format", format]].concat(), "");
            assert_eq!(output.status.code(), Some(0), "{command:?} {}", text(&output.stderr));
            text(&output.stdout)
        };
        let markdown = written("md");
        assert!(markdown.contains("| --- |"), "{markdown}");
        assert_eq!(markdown, written("markdown"), "{command:?}");
    }
}

#[test]
fn what_is_wrong_with_a_file_that_is_both_sides_is_reported_once() {
    for (file, input) in [("-", ""), ("no-such.shard", "")] {
        let output = run(&["diff", file, file], input);
        let errors = text(&output.stderr);
        let count =
            errors.matches("names no hardware").count() + errors.matches("cannot read").count();
        assert_eq!(count, 1, "{errors}");
    }
}
