//! Chains of statements that wait for each other: no schedule is shorter than the longest.
//!
//! A statement starts after its operands exist, however much overlaps, and a device computes one
//! statement at a time. So one that computes starts after all compute that it depends on, one after
//! another: of those that start at `t` or later, the sum of their times after `t`. A plan computes
//! blocks in the order of the program, so that each of its steps starts after the one before. A
//! chain goes along either kind of edge, through collectives and products, and its length is the
//! sum of their times.
//!
//! A block is passed once, however many layers it has. One layer's *cycle* is the longest chain
//! from a loop-carried value to itself in the next layer, or in a plan from the first step that
//! computes to the last. The last of `L` layers begins at least `L - 1` cycles after the first, so
//! the statements of the block are passed as those of the last layer, and what comes after the
//! block waits for these. Cycles of inner blocks are part of those around them. Chains that go from
//! one loop-carried value to another are left out; writing out layers would have them, but takes as
//! long as there are layers.
//!
//! Stages of a pipeline are scheduled apart: a statement in them waits for what is in them only,
//! and is part of the cycle of its block, which each microbatch takes once for each layer of a
//! stage. What stages do once per step is in no chain.
//!
//! A plan has one chain of steps, and a problem one for each choice of shardings, so values here
//! have *states*, each with the time at which it exists: one state in a plan, all shardings in a
//! problem ([`crate::search::critical_path`]).

use std::ops::Range;

use indexmap::IndexMap;
use rayon::prelude::*;
use shardwise_ir::ids::RepeatId;
use shardwise_ir::program::{Blocks, Program};

use crate::solver::weight::Weight;

mod of_steps;

pub(crate) use of_steps::StepChains;

/// A state of a value, by its number, and a time.
pub(crate) type At = (usize, Weight);

/// Statements in program order, in which chains are found.
pub(crate) trait Chained: Sync {
    /// The program.
    fn program(&self) -> &Program;

    /// The number of statements.
    fn statements(&self) -> usize;

    /// The number of values that they read and produce.
    fn values(&self) -> usize;

    /// The innermost block around a statement.
    fn block(&self, statement: usize) -> Option<RepeatId>;

    /// Whether a statement is how a loop-carried value enters its block.
    fn is_entry(&self, statement: usize) -> bool;

    /// Whether a device computes it, one statement after another, rather than sends data.
    fn computes(&self, statement: usize) -> bool;

    /// Whether a statement in a pipeline runs for each microbatch.
    fn is_per_microbatch(&self, statement: usize) -> bool;

    /// The value that a statement produces.
    fn result(&self, statement: usize) -> usize;

    /// When a statement runs; never where no chain leads to it.
    fn run(&self, statement: usize, times: &Times) -> Run;

    /// When each state of a value exists that is produced in these.
    fn reached(&self, value: usize, produced: &[At]) -> Vec<Weight>;

    /// When what a loop-carried value becomes in the next layer exists as it enters in `state`.
    fn yielded(&self, entry: usize, state: usize, times: &Times) -> Option<Weight>;

    /// The states in which a loop-carried value can enter.
    fn entered(&self, entry: usize) -> Vec<usize>;

    /// Whether each of these states should have a cycle of its own, rather than the shortest of
    /// all: `statements` are passed once for each.
    fn has_cycle_by_state(&self, entry: usize, statements: Range<usize>) -> bool;
}

/// When a statement runs at the earliest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The states in which it can produce its result, each with the time at which it then ends.
    pub produced: Vec<At>,
    /// Its earliest start.
    pub start: Weight,
    /// Its shortest time.
    pub least: Weight,
}

/// What a device computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computed {
    /// The statement; `None`: what other layers compute.
    pub statement: Option<usize>,
    /// Its earliest start.
    pub start: Weight,
    /// Its shortest time.
    pub least: Weight,
    /// The earliest end of it and of all before it.
    pub end: Weight,
}

/// When what a chain leads to exists at the earliest.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// For each value, each of its states; `None`: no chain leads to it.
    pub of: Vec<Option<Vec<Weight>>>,
    /// The start of what needs no other; `None` where chains begin elsewhere.
    pub begin: Option<Weight>,
    /// What has been computed, in program order.
    pub computed: Vec<Computed>,
    /// The end of the longest chain so far.
    pub last: Weight,
}

impl Times {
    /// Of values that no chain leads to.
    pub(crate) fn new(values: usize) -> Self {
        Self { of: vec![None; values], begin: None, computed: Vec::new(), last: Weight::ZERO }
    }

    /// The end of what has been computed in program order.
    pub(crate) fn in_order(&self) -> Option<Weight> {
        self.computed.last().map(|last| last.end)
    }

    /// Notes an end of compute, of no statement of its own.
    fn computed_until(&mut self, end: Weight) {
        self.computed.push(Computed { statement: None, start: end, least: Weight::ZERO, end });
    }
}

/// The cycles of the blocks of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cycles {
    /// For each entry of a loop-carried value, that of each state in which it enters.
    of_entries: IndexMap<usize, Vec<At>>,
    /// For each block, that of what it computes.
    of_compute: IndexMap<RepeatId, Weight>,
}

impl Cycles {
    /// The cycles of all blocks, innermost first.
    pub(crate) fn new(chained: &impl Chained) -> Self {
        let mut cycles = Self::default();
        let repeats = &chained.program().repeats;
        let mut blocks: Vec<RepeatId> = repeats.indices().collect();
        blocks.sort_by_key(|&block| std::cmp::Reverse(repeats.outwards(Some(block)).count()));
        for block in blocks {
            let range = range_of(chained, block);
            let entries: Vec<(usize, Vec<At>)> = entries(chained, block, range.clone())
                .map(|entry| (entry, cycles.of_entry(chained, block, range.clone(), entry)))
                .collect();
            cycles.of_entries.extend(entries);
            let mut times = Times::new(chained.values());
            times.computed_until(Weight::ZERO);
            Pass { chained, cycles: &cycles, of: Some(block) }.run(range, &mut times);
            cycles.of_compute.insert(block, times.in_order().unwrap_or(Weight::ZERO));
        }
        cycles
    }

    fn of_entry(
        &self,
        chained: &impl Chained,
        block: RepeatId,
        range: Range<usize>,
        entry: usize,
    ) -> Vec<At> {
        let value = chained.result(entry);
        let states = chained.entered(entry);
        let from = |states: &[usize]| {
            let mut times = Times::new(chained.values());
            let produced: Vec<At> = states.iter().map(|&state| (state, Weight::ZERO)).collect();
            times.of[value] = Some(chained.reached(value, &produced));
            if chained.computes(entry) {
                times.computed_until(Weight::ZERO);
            }
            Pass { chained, cycles: self, of: Some(block) }.run(range.clone(), &mut times);
            times
        };
        let cycle = |state: usize, times: &Times| {
            (state, chained.yielded(entry, state, times).unwrap_or(Weight::ZERO))
        };
        if chained.has_cycle_by_state(entry, range.clone()) {
            return states.par_iter().map(|&state| cycle(state, &from(&[state]))).collect();
        }
        let times = from(&states);
        states.iter().map(|&state| cycle(state, &times)).collect()
    }

    /// What one layer of a block takes at least.
    pub(crate) fn layer(&self, chained: &impl Chained, block: RepeatId) -> Weight {
        let shortest = |entry: usize| {
            let states = self.of_entries.get(&entry).into_iter().flatten();
            states.map(|&(_, cycle)| cycle).min().unwrap_or(Weight::ZERO)
        };
        let computed = self.of_compute.get(&block).copied().unwrap_or(Weight::ZERO);
        entries(chained, block, range_of(chained, block)).map(shortest).fold(computed, Weight::max)
    }
}

/// The longest chain of a program: with what `times` says, what its blocks take, and, once a
/// microbatch, the layers of its pipelines.
pub(crate) fn longest(chained: &impl Chained, cycles: &Cycles, times: &mut Times) -> Weight {
    Pass { chained, cycles, of: None }.run(0..chained.statements(), times);
    let program = chained.program();
    let staged = program.repeats.indices().filter(|&block| is_staged(program, block));
    let in_stages = |block: RepeatId| {
        let turns = program.trip_count(Some(block), true).waited;
        cycles.layer(chained, block).times(turns)
    };
    times.last + staged.map(in_stages).sum::<Weight>()
}

/// Whether the layers of a block are on stages: it has layers of a pipeline, and no block of it
/// inside.
pub(crate) fn is_staged(program: &Program, block: RepeatId) -> bool {
    let has_pipeline =
        |block: RepeatId| program.repeats[program.repeats.forward_block(block)].pipeline.is_some();
    let is_around = |inner: RepeatId| {
        inner != block && has_pipeline(inner) && program.repeats.is_inside(Some(inner), block)
    };
    has_pipeline(block) && !program.repeats.indices().any(is_around)
}

/// The entries of loop-carried values into a block.
fn entries(
    chained: &impl Chained,
    block: RepeatId,
    range: Range<usize>,
) -> impl Iterator<Item = usize> {
    range.filter(move |&statement| {
        chained.is_entry(statement) && chained.block(statement) == Some(block)
    })
}

/// The statements of a block, which follow each other.
pub(crate) fn range_of(chained: &impl Chained, block: RepeatId) -> Range<usize> {
    let repeats = &chained.program().repeats;
    let is_inside = |&statement: &usize| repeats.is_inside(chained.block(statement), block);
    let first = (0..chained.statements()).find(is_inside).unwrap_or(0);
    let end = (first..chained.statements()).take_while(is_inside).last();
    first..end.map_or(first, |last| last + 1)
}

/// A pass over statements, whose results get their times.
struct Pass<'a, C> {
    chained: &'a C,
    cycles: &'a Cycles,
    /// The block of which one layer is passed; `None`: the program.
    of: Option<RepeatId>,
}

impl<C: Chained> Pass<'_, C> {
    fn run(&self, statements: Range<usize>, times: &mut Times) {
        self.within(self.of, statements, times);
    }

    /// Passes statements in a block, those of blocks inside it as of their last layers.
    fn within(&self, block: Option<RepeatId>, statements: Range<usize>, times: &mut Times) {
        let program = self.chained.program();
        let mut next = statements.start;
        while next < statements.end {
            let at = self.chained.block(next);
            let Some(inner) = program.repeats.outermost(at, block) else {
                self.statement(next, times);
                next += 1;
                continue;
            };
            let is_inside =
                |&other: &usize| program.repeats.is_inside(self.chained.block(other), inner);
            let end = (next..statements.end).take_while(is_inside).last().map_or(next, |it| it + 1);
            let enters_stages =
                program.pipeline(self.of).is_none() && program.pipeline(Some(inner)).is_some();
            if !enters_stages {
                self.layers(inner, next..end, times);
            }
            next = end;
        }
    }

    fn statement(&self, statement: usize, times: &mut Times) {
        let in_pipeline = self.chained.program().pipeline(self.chained.block(statement)).is_some();
        let is_own_entry =
            self.chained.is_entry(statement) && self.chained.block(statement) == self.of;
        if is_own_entry || in_pipeline && !self.chained.is_per_microbatch(statement) {
            return;
        }
        let run = self.chained.run(statement, times);
        self.note(statement, &run, times);
    }

    /// Notes when a statement runs.
    fn note(&self, statement: usize, run: &Run, times: &mut Times) {
        let &Run { ref produced, start, least } = run;
        let Some(end) = produced.iter().map(|&(_, end)| end).min() else { return };
        times.last = times.last.max(end);
        if self.chained.computes(statement) {
            let end = times.in_order().map_or(end, |before| before.max(end));
            times.computed.push(Computed { statement: Some(statement), start, least, end });
        }
        let result = self.chained.result(statement);
        times.of[result] = Some(self.chained.reached(result, produced));
    }

    /// Passes the last layer of a block.
    fn layers(&self, block: RepeatId, statements: Range<usize>, times: &mut Times) {
        let repeats = &self.chained.program().repeats;
        let more = repeats[repeats.forward_block(block)].count.saturating_sub(1);
        let entries: Vec<usize> = entries(self.chained, block, statements.clone()).collect();
        let entered: Vec<(usize, Run)> =
            entries.iter().map(|&entry| (entry, self.last_entry(entry, more, times))).collect();
        let cycle = self.cycles.of_compute.get(&block).copied().unwrap_or(Weight::ZERO);
        if let Some(computed) = times.in_order() {
            times.computed_until(computed + cycle.times(more));
        }
        for (entry, run) in &entered {
            self.note(*entry, run, times);
        }
        let mut next = statements.start;
        while next < statements.end {
            let run = (next..statements.end).take_while(|other| !entries.contains(other));
            let end = run.last().map_or(next, |last| last + 1);
            self.within(Some(block), next..end, times);
            next = end.max(next + 1);
        }
    }

    /// When a loop-carried value enters the last layer: so many cycles after the first.
    fn last_entry(&self, entry: usize, more: u64, times: &Times) -> Run {
        let cycles = self.cycles.of_entries.get(&entry);
        let cycle = |state: usize| {
            let of_state = cycles.into_iter().flatten().filter(|(other, _)| *other == state);
            of_state.map(|&(_, cycle)| cycle).min().unwrap_or(Weight::ZERO)
        };
        let first = self.chained.run(entry, times);
        let later = |(state, end): At| (state, end + cycle(state).times(more));
        let produced: Vec<At> = first.produced.into_iter().map(later).collect();
        let start = produced.iter().map(|&(_, end)| end).min().unwrap_or(first.start);
        Run { produced, start, least: Weight::ZERO }
    }
}
