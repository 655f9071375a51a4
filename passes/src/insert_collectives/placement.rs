//! Places the steps of a plan, in and out of blocks.
//!
//! A reshard is placed where its value is defined: one of a value from outside a block runs once,
//! before the block; one of a block's own value runs in the block, once per layer. Running the
//! first inside too would cost its time in every layer, although the value is the same in all of
//! them. Likewise with microbatches: a value that all of them read is resharded once, before them.
//! In layers in layers, a value of an outer layer is resharded before the inner block.
//! A layer's parameter is resharded where the first microbatch reads it: the result is retained for
//! the others if all layers fit into memory (`hold`).

use indexmap::IndexMap;
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{Blocks, CollectiveKind, Program};

use crate::fusion;
use crate::reshard::sharding_space::{State, describe};
use crate::reshard::tables::Tables;

/// `StepPlacer` so far.
#[derive(Default)]
pub(crate) struct StepPlacer {
    /// The steps, in order.
    pub all: Vec<Step>,
    /// The current block.
    pub block: Option<RepeatId>,
    /// The blocks around it and itself, the outermost first, each with the index of its first step.
    starts: Vec<(RepeatId, usize)>,
}

impl StepPlacer {
    /// Continues in another block, or outside all.
    pub(crate) fn enter(&mut self, program: &Program, block: Option<RepeatId>) {
        let path = program.repeats.path(block);
        let same = self.starts.iter().zip(&path).take_while(|((open, _), block)| open == *block);
        let same = same.count();
        let here = self.all.len();
        self.starts.truncate(same);
        self.starts.extend(path[same..].iter().map(|&block| (block, here)));
        self.block = block;
    }

    /// The blocks that end before a statement in `next`, the innermost first.
    pub(crate) fn ends_before(&self, program: &Program, next: Option<RepeatId>) -> Vec<RepeatId> {
        let ends = |block: &RepeatId| !program.repeats.is_inside(next, *block);
        program.repeats.outwards(self.block).filter(ends).collect()
    }

    /// Appends a step.
    pub(crate) fn push(&mut self, step: Step) {
        self.all.push(step);
    }

    /// Appends a reshard that is needed here.
    pub(crate) fn place_here(&mut self, step: Step) {
        self.all.push(Step { repeat: self.block, ..step });
    }

    /// Inserts a reshard that is needed here, before the block if its value is from outside.
    pub(crate) fn place(&mut self, program: &Program, step: Step) {
        let lives = program.values[step.result.value].repeat;
        if !program.in_scope(self.block, step.result.value) {
            // A value that leaves a block without being used in it.
            let end = self
                .all
                .iter()
                .rposition(|other| other.repeat == lives)
                .map_or(self.all.len(), |last| last + 1);
            self.all.insert(end, Step { repeat: lives, ..step });
            return;
        }
        let is_per_layer = program.is_per_layer(step.result.value);
        let comes_from_outside = |block: RepeatId| {
            let is_shared = is_per_layer && program.repeats.is_of_microbatches(block);
            !is_shared && !program.repeats.iterates_over(lives, block)
        };
        let Some(level) = self.starts.iter().position(|&(block, _)| comes_from_outside(block))
        else {
            return self.place_here(step);
        };
        let around = level.checked_sub(1).map(|level| self.starts[level].0);
        self.all.insert(self.starts[level].1, Step { repeat: around, ..step });
        self.starts[level..].iter_mut().for_each(|(_, start)| *start += 1);
    }
}

/// Records in a plan's blocks the values that they keep gathered for their microbatches: results of
/// collectives on those parameters and states of layers that `holds` accepts. What is
/// free is not kept.
pub(crate) fn mark_retained(plan: &mut Plan, holds: impl Fn(ValueId) -> bool) {
    for step in &plan.steps {
        let (Some(block), StepKind::Collective(collective, _)) = (step.repeat, &step.kind) else {
            continue;
        };
        let is_shared =
            plan.program.is_shared(step.result.value) && plan.program.is_microbatched(step.repeat);
        let held = &mut plan.program.repeats[block].kept_gathered;
        if is_shared
            && !collective.kind.is_free()
            && holds(step.result.value)
            && !held.contains(&step.result)
        {
            held.push(step.result.clone());
        }
    }
}

/// The plan with these steps, and with the kernels that it has by what they reshard.
pub(crate) fn plan_of(
    tables: &Tables<'_>,
    declared: &IndexMap<ValueId, State>,
    steps: Vec<Step>,
) -> Plan {
    let mut plan = Plan { program: closed(tables, declared), steps };
    fusion::after_reshards(tables.program, &mut plan);
    plan
}

/// The program with every declaration in one sharding: as chosen, else as written, and replicated
/// where left open.
fn closed(tables: &Tables<'_>, chosen: &IndexMap<ValueId, State>) -> Program {
    let mut program = Program::clone(tables.program);
    for (id, value) in program.values.iter_mut_enumerated().filter(|(_, value)| value.is_declared())
    {
        let state = chosen.get(&id).copied().unwrap_or_else(|| tables.declared(id));
        value.declared_sharding = Some(tables.of(id).space.sharding(state).clone().into());
    }
    program
}

/// The step of a plan for one step of a value's reshard table.
pub(crate) fn collective_step(
    tables: &Tables<'_>,
    value: ValueId,
    from: State,
    to: State,
    kind: &CollectiveKind,
) -> Step {
    let space = &tables.of(value).space;
    let (before, after) = (space.sharding(from), space.sharding(to));
    Step {
        kind: StepKind::Collective(describe(kind, before, after), None),
        operands: vec![Materialization { value, sharding: before.clone() }],
        result: Materialization { value, sharding: after.clone() },
        repeat: tables.program.values[value].repeat,
    }
}
