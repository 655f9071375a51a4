//! The memory of a plan whose devices need different amounts: the stages of a pipeline of several
//! blocks.
//!
//! All other memory is computed for one stage, the one that the program's pipeline says
//! ([`pipeline_stages::charge_by_estimate`]): what a search demands of it is a lower bound for
//! every plan. Whether a plan fits is decided here, by all stages.

use shardwise_ir::plan::Plan;
use shardwise_ir::program::Program;

use super::{Memory, of};
use crate::cost::pipeline_stages;
use crate::layouts::composite::ExpandedPlan;

/// The memory of a plan: of the devices that need the most.
pub fn memory(plan: &ExpandedPlan<'_>) -> Memory {
    let of_stage =
        |program: Program| of(&Plan { program, steps: plan.steps.clone() }, plan.dataflow());
    let stages = pipeline_stages::charged_by_stage(&plan.program).into_iter().map(of_stage);
    let most = stages.max_by(|a, b| a.peak_bytes.total_cmp(&b.peak_bytes));
    most.unwrap_or_else(|| memory_as_charged(plan))
}

/// The memory of a plan on the stage that its program says.
pub fn memory_as_charged(plan: &ExpandedPlan<'_>) -> Memory {
    of(plan, plan.dataflow())
}

/// Sets the stage whose memory is that of a plan to the one that needs the most.
pub fn charge_heaviest(plan: &mut Plan) {
    let bytes = |program: &Program| {
        let charged = Plan { program: program.clone(), steps: plan.steps.clone() };
        memory_as_charged(&charged.into()).peak_bytes
    };
    let stages = pipeline_stages::charged_by_stage(&plan.program);
    let most = stages.into_iter().max_by(|a, b| bytes(a).total_cmp(&bytes(b)));
    if let Some(program) = most {
        plan.program = program;
    }
}
