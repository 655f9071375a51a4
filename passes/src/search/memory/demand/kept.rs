//! What is kept in a sharding that follows from one operation's choice.

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{Blocks, Op, Phase, Program};
use shardwise_ir::sharding::Sharding;

use super::lives::{Life, others};
use super::{During, LiveAcross, is_view, smallest_block, takes_no_bytes};
use crate::cost::pipeline_stages;
use crate::layouts::local_shape;
use crate::problem::{Choice, Problem};
use crate::reshard::sharding_space::State;

/// What is kept in a sharding that follows from one operation's choice, while others run.
struct Kept<'l> {
    life: &'l Life,
    /// How many of it are live together.
    copies: f64,
    /// The operations during which it is.
    during: Vec<usize>,
    /// The last of them for which all copies are live: after it that of its layer is not.
    last: usize,
    /// What is counted of it anyway.
    counted: f64,
}

impl Kept<'_> {
    /// The demands of a variable each choice of which keeps a value in a sharding.
    fn across<'s>(
        self,
        problem: &Problem<'_>,
        variable: usize,
        sharding: impl Fn(&Choice) -> &'s Sharding,
    ) -> [LiveAcross; 2] {
        let Self { life, copies, during, last, counted } = self;
        let bytes = |choice: &Choice| {
            local_shape::local_bytes(problem.program, life.value, sharding(choice)) - counted
        };
        let is_read = |&op: &usize| op > last || life.is_read_by(op);
        let (read, unread) = during.into_iter().partition(is_read);
        [(copies, unread), (others(copies), read)].map(|(copies, during)| {
            let choices = problem.variables[variable].choices.iter();
            let bytes = choices.map(|choice| copies * bytes(choice)).collect();
            LiveAcross { variable, bytes, during: During::Operations(during) }
        })
    }
}

/// What operations keep as they produce it: sums over the microbatches of a pipeline, and
/// rematerialised values that wait for another region. Of those that the backward part computes
/// again, the operands are kept as they read them.
pub(super) fn kept_by_choice(problem: &Problem<'_>, lives: &[Life]) -> Vec<LiveAcross> {
    let program = problem.program;
    let definitions = problem.definitions.iter();
    let rematerialized: IndexSet<ValueId> =
        definitions.filter(|of| of.per_use).map(|of| of.value).collect();
    let life_of: IndexMap<ValueId, &Life> = lives.iter().map(|life| (life.value, life)).collect();
    let mut across = Vec::new();
    for (number, variable) in problem.variables.iter().enumerate() {
        let Some(id) = variable.decides.operation() else { continue };
        let op = &program.ops[id];
        let is_rematerialized = rematerialized.contains(&op.result);
        let state = |value: ValueId, state: State| problem.table(value).space.sharding(state);
        let life = life_of.get(&op.result).filter(|_| !takes_no_bytes(program, op.result));
        if let Some(kept) =
            life.and_then(|life| kept_as_produced(program, op, life, is_rematerialized))
        {
            across.extend(kept.across(problem, number, |choice| state(op.result, choice.result)));
        }
        if !(is_rematerialized && op.kernel.is_recomputed()) {
            continue;
        }
        for (place, operand) in op.operands.iter().enumerate() {
            let life = life_of.get(&operand.value);
            if let Some(kept) = life.and_then(|life| kept_to_compute_again(problem, id, life)) {
                let read = |choice: &Choice| state(operand.value, choice.operands[place]);
                across.extend(kept.across(problem, number, read));
            }
        }
    }
    across
}

fn kept_as_produced<'l>(
    program: &Program,
    op: &Op,
    life: &'l Life,
    is_rematerialized: bool,
) -> Option<Kept<'l>> {
    if let Some(block) = program.sum_of_stage(op) {
        let during = operations_of(program, block);
        return Some(Kept { life, copies: life.copies, during, last: usize::MAX, counted: 0.0 });
    }
    let waits = life.is_saved && is_rematerialized;
    let during = life.during.clone().collect();
    let last = life.uses.last().copied().unwrap_or(usize::MAX);
    waits.then_some(Kept { life, copies: life.copies, during, last, counted: life.smallest })
}

/// What an operation reads, until the backward part has computed its result again for the last
/// time. An operand that is computed again, too, is not kept as it is produced; but as it is read
/// where that is another sharding, and where it is the same, what it is computed from is kept in
/// one as large.
fn kept_to_compute_again<'l>(problem: &Problem<'_>, id: OpId, life: &'l Life) -> Option<Kept<'l>> {
    let program = problem.program;
    let producer = program.dataflow().definition(life.value).map(|op| &program.ops[op]);
    let readers = program.dataflow().uses_of(program.ops[id].result).map(|(reader, _)| reader);
    let last = readers.filter(|&reader| program.ops[reader].phase == Phase::Backward).max()?;
    let is_elsewhere = producer.is_some_and(|op| is_view(op) || op.is_stored_on_host());
    (!is_elsewhere).then(|| Kept {
        life,
        copies: pipeline_stages::in_flight_copies(program, life.value),
        during: (id.index() + 1..last.index()).collect(),
        last: last.index(),
        counted: smallest_block(problem.tables, life.value),
    })
}

/// The operations of a block, and of those in it.
fn operations_of(program: &Program, block: RepeatId) -> Vec<usize> {
    let is_inside = |op: &Op| program.repeats.is_inside(op.repeat, block);
    let operations = program.ops.iter_enumerated().filter(|(_, op)| is_inside(op));
    operations.map(|(id, _)| id.index()).collect()
}
