//! What microbatches hide of what a step of training does once, at measured rates.

use shardwise::{Objective, Options, Planned, Rates, hardware};
use shardwise_tests::planning::planned;

/// Layers between nodes, with optimizer state that is sharded over them.
const REPEATED: &str = "mesh X=8 ib\ndim B=524288, D=4096, F=16384\ninput x[B_X, D], dy[B_X, D]\n\
    repeat L=8 {\n  carry x\n  param Win[D, F], Wout[F, D]\n  x = x + gelu(x *D Win) *F Wout\n}\n\
    backward from x given dy, microbatches=4 of B\noptimizer adam over X\n";

/// The same layers on stages.
fn staged() -> String {
    let stages = "pipeline Z, microbatches=4 of B, schedule=1f1b {\nrepeat L=8 {";
    REPEATED
        .replace("mesh ", "mesh Z=2 ib, ")
        .replace("repeat L=8 {", stages)
        .replace("\n}\n", "\n}\n}\n")
        .replace(", microbatches=4 of B\noptimizer", "\noptimizer")
}

/// Plans for H100s on which collectives cost compute nothing.
fn plan_at(rates: Rates, objective: Objective, source: &str) -> Planned {
    let chip = "[mine]\nbase = \"h100\"\ncontention = 0.0\n";
    let known = hardware::parse("mine.toml", chip).expect("a hardware file");
    let options = Options {
        known,
        objective,
        rates: Some(rates),
        memory: Some(f64::INFINITY),
        ..Options::default()
    };
    planned(&format!("hardware mine\n{source}"), &options)
}

/// The share of collectives that a schedule waits for.
fn exposed(planned: &Planned) -> f64 {
    let report = &planned.report;
    let busy_s = report.compute_s + report.bubble_s;
    (report.schedule.makespan_s - busy_s) / report.comm_s
}

#[test]
fn microbatches_hide_the_reductions_and_gathers_of_all_layers_but_one() {
    let at = |rates| exposed(&plan_at(rates, Objective::Serial, REPEATED));
    let (peak, measured) = (at(Rates::Peak), at(Rates::Measured));
    assert!(peak > 0.5, "{peak}");
    // One of eight layers gathers before the first microbatch, and reduces after the last one,
    // where updates of the others may run beside it.
    assert!((0.05..0.13).contains(&measured), "{measured}");
}

#[test]
fn stages_hide_them_as_well() {
    let at = |rates| exposed(&plan_at(rates, Objective::Serial, &staged()));
    let (peak, measured) = (at(Rates::Peak), at(Rates::Measured));
    assert!(measured < 0.5 * peak, "{measured} {peak}");
}

#[test]
fn short_microbatches_hide_no_more_than_they_take() {
    let few = REPEATED.replace("B=524288", "B=2048");
    let exposed = exposed(&plan_at(Rates::Measured, Objective::Serial, &few));
    assert!((0.5..1.0).contains(&exposed), "{exposed}");
}

#[test]
fn bounds_of_the_shortest_schedule_know_what_is_hidden() {
    for source in [REPEATED.to_owned(), staged()] {
        let planned = plan_at(Rates::Measured, Objective::Scheduled, &source);
        let makespan_s = planned.report.schedule.makespan_s;
        assert!(planned.lower_bound_s() <= makespan_s * (1.0 + 1e-9));
        assert!(planned.report.overlap_s <= makespan_s * (1.0 + 1e-9));
    }
}
