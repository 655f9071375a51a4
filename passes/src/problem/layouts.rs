//! The layouts of an operation as choices of a variable.

use shardwise_ir::ids::OpId;
use shardwise_ir::program::Op;

use crate::cost::pipeline_stages;
use crate::cost::report;
use crate::layouts::composite;
use crate::problem::Choice;
use crate::reshard::layout_states::{LayoutStates, OwnTime};
use crate::reshard::tables::Tables;
use crate::solver::weight::Weight;

/// All layouts of `op` that its pins allow; none for a collective, whose shardings its author
/// wrote. A second of compute has weight `compute`.
pub(super) fn choices(tables: &Tables<'_>, compute: f64, op: OpId) -> Vec<Choice> {
    let choice = |layout: &LayoutStates| {
        let weight = |time| own_price(tables, compute, &tables.program.ops[op], time);
        Choice {
            operands: layout.operands.clone(),
            result: layout.result,
            weight: layout.takes.iter().map(weight).min().unwrap_or(Weight::INFINITE),
        }
    };
    tables.layout_states(op).iter().map(choice).collect()
}

/// The cost of an operation that takes some time, as often as it counts: for a composite, the sum
/// of the statements and reductions that it expands to.
fn own_price(tables: &Tables<'_>, compute: f64, op: &Op, time: &OwnTime) -> Weight {
    let Tables { program, cost_model, .. } = tables;
    let turns = program.trip_count_of(op);
    let often = cost_model.turns(turns, compute);
    let runs_alone = pipeline_stages::is_computed_alone(program, op);
    let (priced, second) = cost_model.of_step(runs_alone, compute);
    match time {
        OwnTime::Compute(seconds) => {
            let often = cost_model.turns_of_compute(turns, compute);
            Weight::seconds(second * seconds).times(often)
        }
        OwnTime::Sent(seconds, axes) => report::moved(*seconds, axes, &priced).times(often),
        OwnTime::Expanded(operand) => {
            let plan = composite::alone(program, op, operand);
            report::weight(&plan, second, &priced).times(often)
        }
    }
}
