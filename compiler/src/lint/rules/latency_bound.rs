//! `latency-bound`: several small collectives run one after another, each bound by latency.

use std::collections::BTreeSet;

use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::plan::Step;
use shardwise_ir::program::CollectiveKind;
use shardwise_passes::collective::collective_seconds;
use shardwise_passes::report::StepCost;

use crate::display::units;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Parameter, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW312",
    name: "latency-bound",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "Several collectives over the same axes are so small that they are latency-bound, and \
        could be one.",
    why: "Below a size (a few hundred kilobytes on a ring of 16) a collective takes the latency \
        of its hops, however few bytes it moves. Several that do not depend on each other can be \
        sent as one array, in the time of one.",
    bad_example: "hardware tpu-v5p
mesh X=16
dim B=128, D=16384
input In[B, D_X]
Squares = square(In)
Mean = mean_D(In)
Second = mean_D(Squares)
output Mean[B], Second[B]
",
    good_example: "hardware tpu-v5p
mesh X=16
dim B=128, D=16384
input In[B_X, D]
Squares = square(In)
Mean = mean_D(In)
Second = mean_D(Squares)
output Mean[B_X], Second[B_X]
",
    parameters: &[Parameter {
        name: "share",
        default: 0.05,
        meaning: "least share of the plan's \
        time that would be saved",
    }],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    if small(context, &context.textbook).len() < 2 {
        return Vec::new();
    }
    let best = context.best();
    let least = LINT.number(context, "share") * best.report.serial_s;
    let small = small(context, best);
    let mut findings = Vec::new();
    let mut at = 0;
    while at < small.len() {
        let together = 1 + small[at + 1..]
            .iter()
            .take_while(|other| small[at].joins(other, best.dataflow()))
            .count();
        let group = &small[at..at + together];
        let saved = group.iter().skip(1).map(|one| one.cost.total_s()).sum::<f64>();
        if together > 1 && saved >= least {
            findings.push(finding(context, group, saved));
        }
        at += together;
    }
    findings
}

fn small<'p>(context: &LintContext<'_>, plan: &'p Priced) -> Vec<Small<'p>> {
    plan.moves()
        .filter_map(|(number, step, cost, kind)| Small::new(context, number, step, cost, kind))
        .collect()
}

/// A collective that is bound by latency.
struct Small<'p> {
    number: usize,
    step: &'p Step,
    cost: &'p StepCost,
    kind: &'p CollectiveKind,
}

impl<'p> Small<'p> {
    fn new(
        context: &LintContext<'_>,
        number: usize,
        step: &'p Step,
        cost: &'p StepCost,
        kind: &'p CollectiveKind,
    ) -> Option<Self> {
        let empty =
            collective_seconds(context.program, kind, &cost.axes, 0.0, context.refinement());
        (cost.seconds <= empty && empty > 0.0).then_some(Self { number, step, cost, kind })
    }

    /// Whether `later` could be merged with this one: its operand is available already.
    fn joins(&self, later: &Self, dataflow: &Dataflow<usize>) -> bool {
        later.kind == self.kind
            && later.cost.axes == self.cost.axes
            && !self.leads_to(later.number, dataflow)
    }

    /// Whether step `later` depends on the result of this collective.
    fn leads_to(&self, later: usize, dataflow: &Dataflow<usize>) -> bool {
        let mut open = BTreeSet::from([later]);
        while let Some(step) = open.pop_last() {
            if step == self.number {
                return true;
            }
            open.extend(dataflow.producers(step).filter(|&producer| producer >= self.number));
        }
        false
    }
}

fn finding(context: &LintContext<'_>, group: &[Small<'_>], saved: f64) -> Finding {
    let program = context.program;
    let first = &group[0];
    let axes: Vec<&str> = program.mesh.names(&first.cost.axes);
    let each = units::seconds(first.cost.total_s());
    let message = format!(
        "{} {}s over {} take only the latency of hops, {each} each",
        group.len(),
        first.kind.name(),
        axes.join(", ")
    );
    let at = |small: &Small<'_>| program.values[small.step.result.value].span;
    let finding = Finding::new(
        &LINT,
        message,
        at(first),
        format!("{} of this", units::bytes(first.cost.bytes)),
    );
    let finding = group[1..].iter().fold(finding, |finding, small| {
        finding.and(at(small), format!("and {} of this", units::bytes(small.cost.bytes)))
    });
    finding
        .help(format!(
            "put them into one array, or split another dimension: one collective less \
        is {each} less"
        ))
        .costs(saved, 0.0)
}
