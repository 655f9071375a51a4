//! `explain FILE` as its users meet it.

use crate::common::text;
use crate::run;

const MLP: &str = "tests/programs/fsdp_tp.shard";

fn explained(arguments: &[&str], input: &str) -> String {
    let output = run(&[&["explain"], arguments].concat(), input);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_gather_is_traced_to_the_brackets_that_cause_it() {
    let printed = explained(&[MLP, "Win"], "");
    assert!(
        printed
            .starts_with("Win[D, F_Y] = AllGather_X(Win[D_X, F_Y])  # 134 MB, 746 us, critical\n"),
        "{printed}"
    );
    for sentence in [
        "starts from: declared at line 7: `param Win: bf16[D_X, F_Y]`",
        "needed by: line 10: `Tmp = In *D Win`",
        "`X` splits `B` of `In` there, and an axis splits one index only (case 4)",
        "`B_X` is declared at line 6: `input In: bf16[B_X, D_Y]`",
        "one edit removes it: line 7: `param Win: bf16[D, F_Y]` (-746 us, +126 MB)",
    ] {
        assert!(printed.contains(sentence), "{sentence}\n{printed}");
    }
}

#[test]
fn a_line_is_its_operands_and_its_result() {
    let printed = explained(&[MLP, "12"], "");
    let collectives: Vec<&str> =
        printed.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    assert_eq!(collectives.len(), 2, "{printed}");
    assert!(
        collectives[0].contains("AllGather_X(Wout")
            && collectives[1].contains("ReduceScatter_{Y,D}(Out"),
        "{printed}"
    );
    assert!(printed.contains("`F` is summed there and split over `Y`"), "{printed}");
    assert_eq!(explained(&[MLP, "3"], ""), "line 3: no collective is needed\n");
    assert_eq!(explained(&[MLP, "Act"], ""), "`Act`: no collective is needed\n");
}

#[test]
fn a_whole_program_is_explained_in_short_and_then_without_alternatives() {
    let printed = explained(&[MLP], "");
    let (opening, _) = printed.split_once("\n\n").expect("the detail follows");
    assert!(opening.lines().count() <= 20, "{opening}");
    for line in ["Y=4 acts as TP (F)", "the costliest collectives:", "what would help most:"] {
        assert!(opening.contains(&format!("\n{line}\n")), "{line}\n{opening}");
    }
    assert_eq!(printed.matches("needed by:").count(), 4, "{printed}");
    assert!(!printed.contains("otherwise"), "{printed}");
}

#[test]
fn a_plan_that_breaks_a_budget_can_be_explained() {
    let source = std::fs::read_to_string(crate::common::root().join(MLP))
        .expect("the program is there")
        + "assert comm <= 1us\n";
    assert_eq!(run(&["plan", "-"], &source).status.code(), Some(1));
    assert!(explained(&["-", "Win"], &source).contains("one edit removes it"));
}

#[test]
fn a_target_that_is_not_there_is_wrong_usage() {
    for (target, sentence) in [
        ("Wim", "`Win` is one"),
        ("99", "lines 1 to 12"),
        ("0", "lines 1 to 12"),
        ("Quux", "its values are In, Win"),
    ] {
        let output = run(&["explain", MLP, target], "");
        assert_eq!(output.status.code(), Some(2), "{target}");
        assert!(text(&output.stderr).contains(sentence), "{target}: {}", text(&output.stderr));
    }
    assert_eq!(run(&["explain", "no/such/file.shard"], "").status.code(), Some(2));
    assert_eq!(run(&["explain", "SW999"], "").status.code(), Some(2));
}

#[test]
fn a_conflict_is_the_brackets_that_make_it() {
    let source = "hardware tpu-v5p\nmesh X=4, Y=2\ndim I=8, J=8, K=8\ninput A[I_X, J], B[J, K_X]\n\
        E = gelu(B)\nC[I_Y, K] = A[I_X, J] *J E[J, K_X]\noutput C[I, K]\n";
    let output = run(&["explain", "-"], source);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    assert!(
        printed.contains("any one of them left open is enough:\n  line 6: `A[I_X, J]`")
            && printed.contains("  line 6: `E[J, K_X]`"),
        "{printed}"
    );
    assert!(
        !printed.contains("`C[I_Y, K]`") && !printed.contains("line 4"),
        "only what is to blame\n{printed}"
    );
}

#[test]
fn what_does_not_fit_is_named_with_an_edit_that_fits() {
    let output = run(&["explain", "tests/programs/codes/sw505-no-room.shard"], "");
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    assert!(printed.contains("params and state 34.4 GB"), "{printed}");
    assert!(
        printed.contains(
            "one edit makes it fit: line 6: `param W[D, E_X]` instead of `param W[D, E]`"
        ),
        "{printed}"
    );
}

#[test]
fn json_says_the_same() {
    let explained = |arguments: &[&str]| -> serde_json::Value {
        let output = run(&[&["explain", "--format", "json"], arguments].concat(), "");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
    };
    let plan = explained(&[MLP, "Win"]);
    assert_eq!((&plan["schema"], &plan["kind"]), (&"shardwise.explain/1".into(), &"plan".into()));
    let gather = &plan["collectives"][0];
    assert_eq!(gather["text"], "Win[D, F_Y] = AllGather_X(Win[D_X, F_Y])");
    let cure =
        usize::try_from(gather["cure"].as_u64().expect("there is one")).expect("a place in a list");
    assert_eq!(gather["alternatives"][cure]["edit"], "param Win: bf16[D, F_Y]");
    assert_eq!(explained(&["tests/programs/codes/sw505-no-room.shard"])["kind"], "no_room");
    assert_eq!(explained(&["tests/programs/errors/p3-c4.shard"])["sets"][0][0]["line"], 7);
}

#[test]
fn the_page_shows_what_the_command_writes() {
    assert_eq!(crate::common::run_page("compiler/docs/explain.md", &crate::common::root()), 5);
    assert_eq!(crate::common::run_page("compiler/docs/strategy.md", &crate::common::root()), 1);
}

#[test]
fn chips_without_measurements_are_reported() {
    let arguments = ["explain", MLP, "--hardware", "trainium2", "--mesh", "X=4,Y=4"];
    let output = run(&[&arguments[..], &["--rates", "measured"]].concat(), "");
    assert!(text(&output.stderr).contains("SW411"), "{}", text(&output.stderr));
    assert!(!text(&run(&arguments, "").stderr).contains("SW411"));
}
