//! Steps in a few words, for pictures: `AllGather_X Win`, `Tmp = In *D Win`.

use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::print::{self, Printer};
use shardwise_ir::program::{CollectiveKind, Phase, Program};
use shardwise_passes::report::StepCost;

/// A step without its shardings.
pub(crate) fn step_name(program: &Program, step: &Step) -> String {
    match &step.kind {
        StepKind::Local(op) => Printer::new(program).short_statement(*op),
        StepKind::Collective(collective, _) => {
            let axes = print::axis_word(&program.mesh, &collective.axes);
            let value = &program.values[step.result.value].name;
            format!("{}_{axes} {value}", collective.kind.name())
        }
    }
}

/// The name of its collective, `Permute` for what sends data itself, `host` for what goes to the
/// host or comes from there, `compute` for the rest.
pub(crate) fn category(step: &Step, cost: &StepCost) -> &'static str {
    match &step.kind {
        StepKind::Collective(collective, _) => collective.kind.name(),
        StepKind::Local(_) if cost.uses_host => "host",
        StepKind::Local(_) if cost.is_move(step) => CollectiveKind::Permute.name(),
        StepKind::Local(_) => "compute",
    }
}

/// The links that a step sends over: the names of axes, or the host.
pub(crate) fn links_in_words(program: &Program, cost: &StepCost, between: &str) -> String {
    if cost.uses_host { "host".to_owned() } else { program.mesh.names(&cost.axes).join(between) }
}

/// Whether it computes gradients.
pub(crate) fn goes_back(program: &Program, step: &Step) -> bool {
    matches!(step.kind, StepKind::Local(op) if program.ops[op].phase == Phase::Backward)
}
