//! `memory-near-limit`: the peak memory of a plan is close to the capacity.

use shardwise_ir::print;
use shardwise_passes::liveness::live_at;

use crate::display::{and_list, units};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Parameter};

pub(crate) const LINT: Lint = Lint {
    code: "SW332",
    name: "memory-near-limit",
    group: Group::Memory,
    level: Level::Warn,
    of_plans: false,
    what: "At its peak a device uses nearly all of its memory, or more than it has.",
    why: "The memory of the runtime and fragmentation are not in the plan: above nine tenths a \
        program that fits on paper fails on the machine. Above the capacity, only slower plans \
        are left, or none.",
    bad_example: "hardware tpu-v5e
mesh X=16
dim B=256, T=65536, H=7168
input Q[B_X, H]
state Keys[B_X, T, H]
Scores = Q *H Keys
output Scores[B_X, T]
",
    good_example: "hardware tpu-v5e
mesh X=16
dim B=256, T=32768, H=7168
input Q[B_X, H]
state Keys[B_X, T, H]
Scores = Q *H Keys
output Scores[B_X, T]
",
    parameters: &[Parameter {
        name: "share",
        default: 0.9,
        meaning: "share of a device's memory \
        from which on it is reported",
    }],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let Some(capacity) = context.capacity() else { return Vec::new() };
    let least = LINT.number(context, "share") * capacity;
    // No plan needs less than the resident bytes; the textbook's plan is known already, and the
    // search runs only if that is near the limit.
    if context.textbook.report.memory.peak_bytes < least {
        return Vec::new();
    }
    let best = context.best();
    let memory = &best.report.memory;
    let Some(at) = memory.peak_step.filter(|_| memory.peak_bytes >= least) else {
        return Vec::new();
    };
    let program = context.program;
    let held = live_at(&best.plan, best.dataflow(), at);
    let largest = held.iter().take(2).map(|(of, bytes)| {
        format!("`{}` {}", print::materialization(program, of), units::bytes(*bytes))
    });
    let resident = format!("params and state {}", units::bytes(memory.resident_bytes));
    let held: Vec<String> =
        std::iter::once(resident).filter(|_| memory.resident_bytes > 0.0).chain(largest).collect();
    let share = 100.0 * memory.peak_bytes / capacity;
    let (peak, capacity_text) = (units::bytes(memory.peak_bytes), units::bytes(capacity));
    let message = if memory.peak_bytes > capacity {
        format!(
            "the cheapest plan needs {peak}, and a device has {capacity_text}: only costlier plans \
                fit, if any"
        )
    } else {
        format!("the plan fills {share:.0}% of a device's memory: {peak} of {capacity_text}")
    };
    let step = &best.plan.steps[at];
    let span = program.values[step.result.value].span;
    let finding = Finding::new(
        &LINT,
        message,
        span,
        format!("the peak is at `{}`", print::step(&best.plan.program, step)),
    );
    let help = format!("live there: {}; shard more, or use more devices", and_list(&held));
    vec![finding.help(help).costs(0.0, (memory.peak_bytes - least).max(0.0))]
}
