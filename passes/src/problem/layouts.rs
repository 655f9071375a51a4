//! The layouts of an operation as choices of a variable.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::OpId;
use shardwise_ir::program::{MapForm, Op, OpKind};
use shardwise_ir::sharding::Sharding;

use crate::cost::local;
use crate::cost::pipeline_stages;
use crate::cost::report;
use crate::cost::send_recv::{self, Sent};
use crate::layouts::composite;
use crate::layouts::op_layouts;
use crate::problem::Choice;
use crate::reshard::sharding_space::State;
use crate::reshard::tables::Tables;
use crate::solver::weight::Weight;

/// All layouts of `op` that its pins allow; none for a collective, whose shardings its author
/// wrote. A second of compute has weight `compute`.
pub(super) fn choices(tables: &Tables<'_>, compute: f64, op: OpId) -> Vec<Choice> {
    let program = tables.program;
    let best_so_far = tables.part.best_layout(op.index());
    let op = &program.ops[op];
    if matches!(op.kind, OpKind::Collective(_)) {
        return Vec::new();
    }
    let mut best: IndexMap<(Vec<State>, State), Weight, FxBuildHasher> = IndexMap::default();
    for layout in tables.layouts_of_part(op).into_iter().chain(best_so_far.cloned()) {
        let allowed = op.operands.iter().zip(&layout.operands).all(|(operand, need)| {
            operand.pin.as_ref().is_none_or(|pin| tables.part.accepts(pin, need))
        });
        let needs: Option<Vec<State>> = op
            .operands
            .iter()
            .zip(&layout.operands)
            .map(|(operand, need)| tables.of(operand.value).space.find(need))
            .collect();
        let gives = tables.of(op.result).space.find(&layout.result);
        let enters = !op.is(&MapForm::LoopCarried)
            || op.result_pin.as_ref().is_none_or(|pin| tables.part.accepts(pin, &layout.result));
        let (true, Some(needs), Some(gives)) = (allowed && enters, needs, gives) else {
            continue;
        };
        let own = own_price(tables, compute, op, &layout);
        let weight = best.entry((needs, gives)).or_insert(Weight::INFINITE);
        *weight = (*weight).min(own);
    }
    best.into_iter()
        .map(|((needs, gives), weight)| Choice { operands: needs, result: gives, weight })
        .collect()
}

/// The cost of an operation in a layout, as often as it counts: for a composite, the sum of the
/// statements and reductions that it expands to.
fn own_price(tables: &Tables<'_>, compute: f64, op: &Op, layout: &op_layouts::Layout) -> Weight {
    let Tables { program, cost_model, .. } = tables;
    let turns = program.trip_count_of(op);
    let often = cost_model.turns(turns, compute);
    let runs_alone = pipeline_stages::is_computed_alone(program, op);
    let (priced, second) = cost_model.of_step(runs_alone, compute);
    if composite::is_split(program, op, layout.operands.first()) {
        let plan = composite::alone(program, op, &layout.operands[0]);
        return report::weight(&plan, second, &priced).times(often);
    }
    if let Some(Sent { seconds, axes, .. }) = send_recv::sent(program, op, &layout.result) {
        return report::moved(seconds, &axes, &priced).times(often);
    }
    let sharded: Vec<&Sharding> = layout.operands.iter().collect();
    let seconds = local::work(program, op, &sharded, &layout.result).seconds;
    Weight::seconds(second * seconds).times(cost_model.turns_of_compute(turns, compute))
}
