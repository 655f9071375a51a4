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
use crate::problem::{Choice, Problem};
use crate::reshard::sharding_space::State;
use crate::solver::weight::Weight;

/// All layouts of `op` that its pins allow; none for a collective, whose shardings its author
/// wrote.
pub(super) fn choices(problem: &Problem<'_>, op: OpId) -> Vec<Choice> {
    let program = problem.program;
    let best_so_far = problem.tables.part.best_layout(op.index());
    let op = &program.ops[op];
    if matches!(op.kind, OpKind::Collective(_)) {
        return Vec::new();
    }
    let mut best: IndexMap<(Vec<State>, State), Weight, FxBuildHasher> = IndexMap::default();
    for layout in problem.tables.layouts_of_part(op).into_iter().chain(best_so_far.cloned()) {
        let allowed = op.operands.iter().zip(&layout.operands).all(|(operand, need)| {
            operand.pin.as_ref().is_none_or(|pin| problem.tables.part.accepts(pin, need))
        });
        let needs: Option<Vec<State>> = op
            .operands
            .iter()
            .zip(&layout.operands)
            .map(|(operand, need)| problem.table(operand.value).space.find(need))
            .collect();
        let gives = problem.table(op.result).space.find(&layout.result);
        let enters = !op.is(&MapForm::LoopCarried)
            || op
                .result_pin
                .as_ref()
                .is_none_or(|pin| problem.tables.part.accepts(pin, &layout.result));
        let (true, Some(needs), Some(gives)) = (allowed && enters, needs, gives) else {
            continue;
        };
        let own = own_price(problem, op, &layout);
        let weight = best.entry((needs, gives)).or_insert(Weight::INFINITE);
        *weight = (*weight).min(own);
    }
    best.into_iter()
        .map(|((needs, gives), weight)| Choice { operands: needs, result: gives, weight })
        .collect()
}

/// The cost of an operation in a layout, as often as it counts: for a composite, the sum of the
/// statements and reductions that it expands to.
fn own_price(problem: &Problem<'_>, op: &Op, layout: &op_layouts::Layout) -> Weight {
    let (cost_model, turns) = (&problem.tables.cost_model, problem.program.trip_count_of(op));
    let often = cost_model.turns(turns, problem.compute);
    let runs_alone = pipeline_stages::is_computed_alone(problem.program, op);
    let (priced, compute) = cost_model.of_step(runs_alone, problem.compute);
    if composite::is_split(problem.program, op, layout.operands.first()) {
        let plan = composite::alone(problem.program, op, &layout.operands[0]);
        return report::weight(&plan, compute, &priced).times(often);
    }
    if let Some(Sent { seconds, axes, .. }) = send_recv::sent(problem.program, op, &layout.result) {
        return report::moved(seconds, &axes, &priced).times(often);
    }
    let sharded: Vec<&Sharding> = layout.operands.iter().collect();
    let seconds = local::work(problem.program, op, &sharded, &layout.result).seconds;
    Weight::seconds(compute * seconds).times(cost_model.turns_of_compute(turns, problem.compute))
}
