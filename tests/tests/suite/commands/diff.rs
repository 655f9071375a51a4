//! A difference accounts for all that differs: what was added, removed and changed adds up to the
//! difference of the totals.

use shardwise::diff::{Diff, Limits, Line, Quantity};
use shardwise::{Options, Strategy, diff};
use shardwise_tests::files;
use shardwise_tests::properties::plan;
use shardwise_tests::random::numbers_of_case;

fn seconds<'l>(lines: impl IntoIterator<Item = &'l Line>) -> f64 {
    lines.into_iter().map(|line| line.time_s).sum()
}

/// What the lines of a difference say that a total changed by.
fn reported(diff: &Diff) -> (f64, f64) {
    let changed = seconds(diff.changed.iter().map(|change| &change.after))
        - seconds(diff.changed.iter().map(|change| &change.before));
    let comm = seconds(&diff.added) - seconds(&diff.removed) + changed;
    let after = seconds(diff.statements.iter().filter_map(|statement| statement.after.as_ref()));
    (
        comm,
        after - seconds(diff.statements.iter().filter_map(|statement| statement.before.as_ref())),
    )
}

fn change(diff: &Diff, name: &str) -> f64 {
    diff.total(name).map(|total| total.after - total.before).expect("the total is there")
}

#[test]
fn lines_add_up_to_the_totals() {
    let programs = files("tests/programs/book", ".shard");
    for ((name, source), (other, other_source)) in
        programs.iter().zip(programs.iter().cycle().skip(1))
    {
        let (textbook, searched) =
            (plan(name, source, Strategy::Textbook), plan(name, source, Strategy::Search));
        for after in [searched, plan(other, other_source, Strategy::Search)] {
            let diff = diff(&textbook, &after);
            let (comm, compute) = reported(&diff);
            let rounding = 1e-9 * (textbook.report.serial_s + after.report.serial_s);
            assert!(
                (comm - change(&diff, "comm")).abs() <= rounding,
                "{name} to {}:\n{diff}",
                after.name
            );
            assert!(
                (compute - change(&diff, "compute")).abs() <= rounding,
                "{name} to {}:\n{diff}",
                after.name
            );
        }
    }
}

#[test]
fn lines_add_up_for_random_programs() {
    let mut compared = 0;
    for case in 0..200_u32 {
        let source = shardwise_tests::random_program::program(&numbers_of_case(case), 2, 5);
        let plan = |strategy| {
            shardwise::plan(
                "random",
                &source,
                &Options { strategy, memory: Some(f64::INFINITY), ..Options::default() },
            )
        };
        let (Ok(before), Ok(after)) = (plan(Strategy::Textbook), plan(Strategy::Search)) else {
            continue;
        };
        let diff = diff(&before, &after);
        let (comm, compute) = reported(&diff);
        let rounding = 1e-9 * (before.report.serial_s + after.report.serial_s);
        assert!((comm - change(&diff, "comm")).abs() <= rounding, "{source}\n{diff}");
        assert!((compute - change(&diff, "compute")).abs() <= rounding, "{source}\n{diff}");
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

/// Layers, with other sizes and numbers of them.
fn layers(number: u64, wout: &str) -> String {
    format!(
        "hardware tpu-v5p\nmesh X=4, Y=4\ndim B=4096, D=2048, F=8192\n\
         input x[B_X, D], dy[B_X, D]\nrepeat L={number} {{\ncarry x\n\
         param Win[D_X, F_Y], Wout[{wout}]\nx = x + gelu(x *D Win) *F Wout\n}}\n\
         backward from x given dy, microbatches=2\noutput dx[B_X, D]\n"
    )
}

#[test]
fn steps_of_layers_count_for_each_of_them() {
    let plan = |source: &str| plan("layers", source, Strategy::Search);
    let before = plan(&layers(4, "F_Y, D_X"));
    for after in [plan(&layers(8, "F_Y, D_X")), plan(&layers(4, "F_Y, D"))] {
        let diff = diff(&before, &after);
        let (comm, compute) = reported(&diff);
        let rounding = 1e-9 * (before.report.serial_s + after.report.serial_s);
        assert!((comm - change(&diff, "comm")).abs() <= rounding, "{diff}");
        assert!((compute - change(&diff, "compute")).abs() <= rounding, "{diff}");
        let moved = |of: &shardwise::Planned| -> f64 {
            let steps = of.plan.steps.iter().zip(&of.report.steps);
            let moves = steps.filter(|(step, cost)| cost.is_move(step) && cost.seconds > 0.0);
            moves.map(|(_, cost)| cost.times * cost.bytes).sum()
        };
        let total = diff.total("moved").expect("the total is there");
        assert!((total.before - moved(&before)).abs() < 1.0, "{diff}");
        assert!((total.after - moved(&after)).abs() < 1.0, "{diff}");
    }
    let text = diff(&before, &plan(&layers(8, "F_Y, D_X"))).to_string();
    assert!(text.contains("\nrepeat: L=4 -> L=8\n"), "{text}");
    assert!(text.contains(" x8 -> "), "{text}");
}

#[test]
fn blocks_that_differ_are_named() {
    let program = |options: &str, microbatches: &str| {
        format!(
            "hardware h100\nmesh Z=4 ib, Y=8\ndim B=2048, D=1024, F=4096\n\
             input x[B, D], dy[B, D]\npipeline Z, microbatches={microbatches}{options} {{\n\
             repeat L=8 {{\ncarry x\nparam W1[D, F_Y], W2[F_Y, D]\n\
             x = x + gelu(x *D W1) *F W2\n}}\n}}\nbackward from x given dy\noutput dx[B, D]\n"
        )
    };
    let plan = |source: String| plan("stages", &source, Strategy::Textbook);
    let before = plan(program("", "8"));
    let after = plan(program(", schedule=1f1b", "8"));
    let changed = diff(&before, &after);
    let written: Vec<_> =
        changed.settings.iter().map(|of| [&of.what, &of.before, &of.after]).collect();
    let (gpipe, other) = ("Z, microbatches=8 of B", "Z, microbatches=8 of B, schedule=1f1b");
    assert_eq!(written, [["pipeline", gpipe, other]]);
    let fewer = diff(&before, &plan(program("", "4")));
    let bubble = fewer.total("bubble").expect("a pipeline has a bubble");
    assert!(bubble.after > bubble.before, "{fewer}");
    assert!(diff(&before, &before).settings.is_empty());
}

/// Both loops begin with the same words.
#[test]
fn blocks_with_the_same_head_are_matched_in_order() {
    let program = |last: &str| {
        format!(
            "hardware tpu-v5p\nmesh X=2\ndim B=8, T=8, C=T/4, E=T/2, D=16\ninput x[B_X, T, D]\n\
             a[B, D] = 0.0\nscan T in C {{\ncarry a\na = tanh(a + mean_C(x))\n}}\n\
             b[B, D] = a\nscan T in {last} {{\ncarry b\nb = tanh(b + mean_{last}(x))\n}}\n\
             output b[B_X, D]\n"
        )
    };
    let plan = |source: String| plan("loops", &source, Strategy::Search);
    let alike = plan(program("C"));
    assert!(diff(&alike, &alike).settings.is_empty());
    let changed = diff(&alike, &plan(program("E")));
    let written: Vec<_> =
        changed.settings.iter().map(|of| [&of.what, &of.before, &of.after]).collect();
    assert!(!written.is_empty() && written.iter().all(|[what, ..]| *what == "scan"), "{changed}");
}

#[test]
fn the_way_back_removes_what_the_way_there_adds() {
    for (name, source) in files("tests/programs/book", ".shard") {
        let (textbook, searched) =
            (plan(&name, &source, Strategy::Textbook), plan(&name, &source, Strategy::Search));
        let (there, back) = (diff(&textbook, &searched), diff(&searched, &textbook));
        assert_eq!(
            (&there.added, &there.removed, there.changed.len()),
            (&back.removed, &back.added, back.changed.len()),
            "{name}"
        );
        assert!(diff(&searched, &searched).is_empty(), "{name}");
        assert!(there.is_empty() == (*textbook.plan == *searched.plan), "{name}:\n{there}");
    }
}

#[test]
fn a_step_that_only_moved_is_the_same_step() {
    let source = shardwise_tests::read("tests/programs/fsdp_tp.shard");
    let before = plan("before", &source, Strategy::Search);
    let unused = source.replace("Tmp = In *D Win", "Tmp = In *D Win\nFirst = gelu(In)");
    let diff = diff(&before, &plan("after", &unused, Strategy::Search));
    assert_eq!(
        (diff.added.len(), diff.removed.len(), diff.unchanged + diff.changed.len()),
        (0, 0, 4),
        "{diff}"
    );
    assert_eq!(diff.statements.len(), 1, "{diff}");
}

#[test]
fn a_limit_is_exact() {
    let source = shardwise_tests::read("tests/programs/fsdp_tp.shard");
    let (before, after) =
        (plan("a", &source, Strategy::Search), plan("b", &source, Strategy::Textbook));
    let diff = diff(&before, &after);
    let limits = Limits {
        budget_s: Some(after.report.serial_s),
        max_regression: Some(0.0),
        ..Limits::default()
    };
    assert_eq!(diff.broken(&limits), Vec::<String>::new());
    let limits = Limits { budget_s: Some(after.report.serial_s * 0.999), ..limits };
    assert_eq!(diff.broken(&limits).len(), 1);
}

#[test]
fn growth_from_nothing_is_more_than_any_part() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim I=64, J=64, K=64\ninput A[I_X, J], B[J, K]\n\
        C = A *J B\noutput C[I_X, K]\n";
    let (before, after) = (
        plan("a", source, Strategy::Search),
        plan("b", &source.replace("output C[I_X", "output C[I"), Strategy::Search),
    );
    let limits = Limits { by: Quantity::Comm, max_regression: Some(1e6), ..Limits::default() };
    assert_eq!(
        diff(&before, &after).broken(&limits),
        ["comm grew from nothing to 2 us, more than 100000000%"]
    );
    assert_eq!(diff(&before, &before).broken(&limits), Vec::<String>::new());
}
