//! The statements of a program as edges between sets of live blocks.

use std::cell::Cell;

use rustc_hash::FxHashMap;
use shardwise_ir::program::{Op, OpKind, Phase, Program};
use shardwise_ir::rearrange::Rearrange;
use smallvec::SmallVec;

use crate::problem::{Choice, Decision, Definition, Demand, Problem, Root, Variable};
use crate::reshard::sharding_space::State;
use crate::search::memory::live_blocks::block::{
    Action, Block, Blocks, Edge, Form, LiveBlocks, OnChip, each_reading, mark_read, mark_read_for,
    mark_resharded,
};
use crate::search::memory::live_blocks::conflicts::Conflicts;
use crate::search::memory::live_blocks::uses::{Uses, number_on_chip};
use crate::training::frameworks::Frameworks;

/// Statements of a program.
const MOST_STATEMENTS: usize = 40;

/// Blocks of which all sets are dropped.
const MOST_DROPPED: usize = 14;

/// Rounding errors of sums of bytes.
const ROUNDING: f64 = 1.0 + 1e-12;

/// A program whose plans are paths from one set of live blocks to another.
pub(super) struct Statements<'p, 'a> {
    pub(super) problem: &'p Problem<'a>,
    /// The bytes of a device.
    pub(super) capacity: f64,
    /// What stays there all the time.
    fixed_bytes: f64,
    definitions: Vec<Uses>,
    /// For each variable, its choices by the shardings that they read.
    by_operands: Vec<FxHashMap<SmallVec<[u32; 3]>, Vec<usize>>>,
    /// Whether edges were left out since that was last asked for.
    left_out: Cell<bool>,
    /// The least capacity with which more would have fitted since that was last asked for.
    next_capacity: Cell<f64>,
}

impl<'p, 'a> Statements<'p, 'a> {
    /// `None` if the program has something that no path says.
    pub(super) fn new(problem: &'p Problem<'a>, capacity: f64) -> Option<Self> {
        let program: &Program = problem.program;
        let goes_back = program.ops.iter().any(|op| op.phase == Phase::Backward);
        let computes_again = program.ops.iter().any(|op| op.kernel.is_recomputed());
        let is_plain_program = program.repeats.is_empty()
            && program.ops.len() <= MOST_STATEMENTS
            && !(goes_back && computes_again)
            && program.ops.iter().all(|op| is_plain(program, op))
            && program.outputs.iter().all(|output| output.yields_to.is_none())
            && problem.tables.part.classes.is_none();
        if !is_plain_program {
            return None;
        }
        let frameworks = Frameworks::of(program);
        let definitions: Option<Vec<Uses>> = (0..problem.definitions.len())
            .map(|number| Uses::new(problem, &frameworks, number))
            .collect();
        let mut definitions = definitions?;
        number_on_chip(&mut definitions)?;
        let by_operands = problem.variables.iter().map(by_operands).collect();
        let stays = |(definition, uses): (&Definition, &Uses)| match definition.root {
            Root::Fixed(state) if uses.is_resident => uses.bytes[state],
            _ => 0.0,
        };
        let fixed_bytes = problem.definitions.iter().zip(&definitions).map(stays).sum();
        Some(Self {
            problem,
            capacity,
            fixed_bytes,
            definitions,
            by_operands,
            left_out: Cell::new(false),
            next_capacity: Cell::new(f64::INFINITY),
        })
    }

    /// The statements of the uses of a definition.
    pub(super) fn uses(&self, definition: usize) -> &[usize] {
        &self.definitions[definition].at
    }

    /// Whether a kernel may leave a definition on the chip.
    pub(super) fn may_be_on_chip(&self, definition: usize) -> bool {
        self.definitions[definition].on_chip.is_some()
    }

    /// How many uses of a definition are left.
    pub(super) fn uses_from(&self, definition: usize, next: usize) -> usize {
        self.uses(definition).iter().filter(|at| **at >= next).count()
    }

    /// How often a statement reads a definition.
    fn reads(&self, statement: usize, definition: usize) -> usize {
        self.uses(definition).iter().filter(|at| **at == statement).count()
    }

    /// The bytes of the largest block of a definition that fits beside so many.
    pub(super) fn most_bytes(&self, definition: usize, beside: f64) -> f64 {
        let sizes = &self.definitions[definition].sizes;
        let free = self.free_bytes() - beside;
        let fitting = sizes.partition_point(|&bytes| bytes <= free);
        if let Some(next) = sizes.get(fitting) {
            self.note_more(beside + next);
        }
        fitting.checked_sub(1).map_or(0.0, |last| sizes[last])
    }

    /// Before the first statement.
    pub(super) fn start(&self) -> LiveBlocks {
        let mut blocks = SmallVec::new();
        for (number, definition) in self.problem.definitions.iter().enumerate() {
            let is_used = self.definitions[number].last.is_some();
            if let Root::Fixed(state) = definition.root
                && (is_used || !self.definitions[number].is_resident)
            {
                blocks.push(Block::new(number, state, self.form_as_declared(number)));
            }
        }
        LiveBlocks { next: 0, blocks }
    }

    fn form_as_declared(&self, definition: usize) -> Form {
        if self.definitions[definition].is_resident { Form::Resident } else { Form::Memory }
    }

    pub(super) fn bytes(&self, block: Block) -> f64 {
        let definition = &self.definitions[block.definition()];
        let is_fixed = || {
            let root = &self.problem.definitions[block.definition()].root;
            matches!(root, Root::Fixed(_))
        };
        match block.form {
            Form::OnChip => 0.0,
            Form::Resident if is_fixed() => 0.0,
            _ => definition.bytes[block.state()],
        }
    }

    /// The least bytes of the declarations that stay on the device in a sharding that is open.
    pub(super) fn least_resident(&self) -> f64 {
        let definitions = self.problem.definitions.iter().zip(&self.definitions);
        let is_open = |definition: &Definition| matches!(definition.root, Root::Produced(_));
        let open = definitions.filter(|(definition, uses)| uses.is_resident && is_open(definition));
        open.map(|(_, uses)| uses.sizes[0]).sum()
    }

    /// What those that are declared take beyond that.
    pub(super) fn resident_excess(&self, live: &LiveBlocks) -> f64 {
        let resident = live.blocks.iter().filter(|block| block.form == Form::Resident);
        let excess = |&block: &Block| {
            let bytes = self.bytes(block);
            if bytes > 0.0 { bytes - self.definitions[block.definition()].sizes[0] } else { 0.0 }
        };
        resident.map(excess).sum()
    }

    /// Whether nothing is left to do.
    pub(super) fn is_end(&self, live: &LiveBlocks) -> bool {
        let is_served = |(number, states): (usize, &[State])| {
            live.blocks.iter().any(|block| {
                block.definition() == number
                    && block.is_readable()
                    && block.form != Form::OnChip
                    && states.contains(&(block.state()))
            })
        };
        let outputs =
            self.problem.definitions.iter().enumerate().flat_map(|(number, definition)| {
                definition.demands.iter().filter_map(move |demand| match demand {
                    Demand::Fixed(states) => Some((number, &states[..])),
                    Demand::Operand(..) => None,
                })
            });
        self.is_last(live)
            && live.blocks.iter().all(|block| block.is_readable())
            && outputs.into_iter().all(is_served)
    }

    /// Whether all statements have run.
    fn is_last(&self, live: &LiveBlocks) -> bool {
        live.next == self.problem.variables.len()
    }

    /// Whether edges were left out since this was last asked.
    pub(super) fn has_left_out(&self) -> bool {
        self.left_out.take()
    }

    /// The least capacity with which more would have fitted since this was last asked.
    pub(super) fn next_capacity(&self) -> f64 {
        self.next_capacity.replace(f64::INFINITY)
    }

    /// Notes that so many bytes do not fit.
    fn note_more(&self, bytes: f64) {
        self.next_capacity.set(self.next_capacity.get().min(bytes + self.fixed_bytes));
    }

    /// All edges from a set of live blocks: the next statement, reshards of what it reads, and
    /// others where the capacity may keep them from waiting. `waiting` are blocks that were
    /// made for the statement beside what they were made from.
    pub(super) fn edges(&self, live: &LiveBlocks, waiting: &[Block], edges: &mut Vec<Edge>) {
        let mut conflicts = Conflicts::new(self, live);
        if !self.is_last(live) {
            self.run(live, edges, &mut conflicts);
        }
        let is_needed = |block: &Block| {
            let own = |other: &&Block| other.definition == block.definition && *other != block;
            let reads = self.reads(live.next, block.definition());
            let arrives_last = block.form == Form::Undeclared && self.is_last(live);
            waiting.iter().filter(own).count() < reads || arrives_last
        };
        let can_move = live.blocks.iter().filter(|block| {
            let is_used = || self.definitions[block.definition()].last >= Some(live.next);
            block.form != Form::OnChip && (block.form == Form::Undeclared || is_used())
        });
        let (needed, others): (Vec<Block>, Vec<Block>) =
            can_move.partition(|block| is_needed(block));
        for block in needed {
            for (result, seconds) in self.reshards(live, block) {
                conflicts.add_step(self, result);
                self.reshard(live, (block, result), (seconds, true), edges);
            }
        }
        for block in others.into_iter().filter(|block| block.form != Form::Resident) {
            for (result, seconds) in self.reshards(live, block) {
                if conflicts.may_include(self, result) {
                    self.reshard(live, (block, result), (seconds, false), edges);
                }
            }
        }
    }

    /// The bytes of some blocks, beside what stays on the device.
    pub(super) fn sum(&self, blocks: &[Block]) -> f64 {
        blocks.iter().map(|&block| self.bytes(block)).sum()
    }

    /// The bytes of a device beside what stays there.
    pub(super) fn free_bytes(&self) -> f64 {
        self.capacity * ROUNDING - self.fixed_bytes
    }

    /// Whether so many bytes fit beside what stays on the device.
    pub(super) fn fits(&self, bytes: f64) -> bool {
        let fits = bytes <= self.free_bytes();
        if !fits {
            self.note_more(bytes);
        }
        fits
    }

    /// Runs the next statement in all layouts that read what is live.
    fn run(&self, live: &LiveBlocks, edges: &mut Vec<Edge>, conflicts: &mut Conflicts) {
        let number = live.next;
        let variable = &self.problem.variables[number];
        each_reading(live, &variable.operands, &mut SmallVec::new(), &mut |read: &[Block]| {
            let key: SmallVec<[u32; 3]> = read.iter().map(|block| block.state).collect();
            for &choice in self.by_operands[number].get(&key).into_iter().flatten() {
                let own = &variable.choices[choice];
                for form in self.forms(variable, own) {
                    let result = Block::new(variable.result, own.result, form);
                    conflicts.add_step(self, result);
                    for mut blocks in self.beside(live, read, result) {
                        let load = self.sum(&blocks);
                        let next = match variable.decides {
                            Decision::Operation(_) => {
                                self.read(&mut blocks, read, result);
                                self.after(number + 1, blocks)
                            }
                            Decision::Declaration(_) => {
                                Some(LiveBlocks { next: number + 1, blocks })
                            }
                        };
                        edges.extend(next.map(|next| Edge {
                            action: Action::Run { variable: number, choice },
                            seconds: own.weight.as_seconds(),
                            load,
                            read: read.iter().copied().collect(),
                            next,
                        }));
                    }
                }
            }
        });
    }

    /// The forms that a result may have.
    fn forms(&self, variable: &Variable, choice: &Choice) -> SmallVec<[Form; 2]> {
        let definition = &self.problem.definitions[variable.result];
        if variable.decides.operation().is_none() {
            return SmallVec::from_slice(&[self.form_as_declared(variable.result)]);
        }
        let is_elsewhere =
            definition.declared.as_ref().is_some_and(|states| !states.contains(&choice.result));
        if is_elsewhere {
            SmallVec::from_slice(&[Form::Undeclared])
        } else if self.may_be_on_chip(variable.result) {
            let space = &self.problem.table(definition.value).space;
            let can_be_resharded = space.edges(choice.result).next().is_some();
            let written = can_be_resharded.then_some(Form::Written);
            [Form::OnChip].into_iter().chain(written).collect()
        } else {
            SmallVec::from_slice(&[Form::Memory])
        }
    }

    /// What a block can be resharded to by one step, and its seconds.
    fn reshards(&self, live: &LiveBlocks, block: Block) -> impl Iterator<Item = (Block, f64)> {
        let number = block.definition();
        let definition = &self.problem.definitions[number];
        let edges = self.problem.table(definition.value).space.edges(block.state());
        edges.filter_map(move |edge| {
            let arrives = || definition.declared.as_ref().is_some_and(|to| to.contains(&edge.to));
            let form = match block.form {
                Form::Undeclared if arrives() => Form::Memory,
                Form::Undeclared => Form::Undeclared,
                _ => Form::Unread,
            };
            let result = Block::new(number, edge.to, form);
            (!live.has(result)).then(|| (result, edge.weight.as_seconds()))
        })
    }

    /// Reshards a block, and keeps it where its value has more uses, or not.
    fn reshard(
        &self,
        live: &LiveBlocks,
        (from, to): (Block, Block),
        (seconds, keeps): (f64, bool),
        edges: &mut Vec<Edge>,
    ) {
        for mut blocks in self.beside(live, &[from], to) {
            let load = self.sum(&blocks);
            if !(keeps || from.is_still_read()) || from.form == Form::Undeclared {
                blocks.retain(|block| *block != from);
            }
            mark_resharded(&mut blocks, from);
            for blocks in self.without_too_many(live.next, blocks, to) {
                let next = self.after(live.next, blocks);
                edges.extend(next.map(|next| Edge {
                    action: Action::Reshard { from, to },
                    seconds,
                    load,
                    read: SmallVec::from_elem(from, 1),
                    next,
                }));
            }
        }
    }

    /// Of the blocks of a value, no more than it has uses; what was just made stays.
    fn without_too_many(&self, next: usize, blocks: Blocks, made: Block) -> Vec<Blocks> {
        let uses = self.uses_from(made.definition(), next).max(1);
        let is_own = |block: &Block| {
            block.definition == made.definition
                && block.form != Form::Resident
                && !block.is_still_read()
        };
        if blocks.iter().filter(|block| is_own(block)).count() <= uses {
            return vec![blocks];
        }
        let others = blocks
            .iter()
            .copied()
            .filter(|block| is_own(block) && *block != made && block.can_go());
        let without = |one: Block| blocks.iter().copied().filter(|block| *block != one).collect();
        others.map(without).collect()
    }

    /// The sets of live blocks with which a step fits that reads some and makes another, and that
    /// one: all, or without as few as necessary.
    fn beside(&self, live: &LiveBlocks, read: &[Block], result: Block) -> SmallVec<[Blocks; 1]> {
        let mut all = live.blocks.clone();
        if let Err(place) = all.binary_search(&result) {
            all.insert(place, result);
        }
        let sum = self.sum(&all);
        if self.fits(sum) {
            return SmallVec::from_elem(all, 1);
        }
        let has_others = |block: &Block| {
            all.iter().filter(|other| other.definition == block.definition).count() > 1
        };
        let can_drop = |block: &Block| {
            let stays = read.contains(block) || *block == result || !block.can_go();
            !stays && has_others(block) && self.bytes(*block) > 0.0
        };
        let mut can_drop: Blocks = all.iter().copied().filter(can_drop).collect();
        self.left_out.set(self.left_out.get() || can_drop.len() > MOST_DROPPED);
        can_drop.truncate(MOST_DROPPED);
        // The bytes of each set of them.
        let mut freed: Vec<f64> = vec![0.0];
        for set in 1..1_usize << can_drop.len() {
            freed
                .push(freed[set & (set - 1)] + self.bytes(can_drop[set.trailing_zeros() as usize]));
        }
        let is_enough = |set: usize| self.fits(sum - freed[set]);
        if !is_enough(freed.len() - 1) {
            return SmallVec::new();
        }
        let is_least = |set: usize| {
            let mut dropped = (0..can_drop.len()).filter(|place| set >> place & 1 == 1);
            dropped.all(|place| !is_enough(set & !(1 << place)))
        };
        let sets = (1..freed.len()).filter(|&set| is_enough(set) && is_least(set));
        let left = |set: usize| {
            let is_dropped = |block: &Block| {
                let place = can_drop.iter().position(|other| other == block);
                place.is_some_and(|place| set >> place & 1 == 1)
            };
            all.iter().copied().filter(|block| !is_dropped(block)).collect()
        };
        sets.map(left).collect()
    }

    /// The bit of a block that is on the chip.
    fn bit_on_chip(&self, block: &Block) -> OnChip {
        let bit = || self.definitions[block.definition()].on_chip.map(|(bit, _)| bit);
        Some(block).filter(|block| block.form == Form::OnChip).and_then(|_| bit()).unwrap_or(0)
    }

    fn bits_on_chip<'b>(&self, blocks: impl IntoIterator<Item = &'b Block>) -> OnChip {
        blocks.into_iter().fold(0, |bits, block| bits | self.bit_on_chip(block))
    }

    /// Notes that a statement reads some blocks and makes another.
    fn read(&self, blocks: &mut Blocks, read: &[Block], result: Block) {
        mark_read(blocks, read);
        let on_chip = self.bit_on_chip(&result);
        if on_chip != 0 {
            let kernel = self.definitions[result.definition()].kernel;
            let to_end = read.iter().enumerate().filter(|(place, _)| kernel.reads_to_end(*place));
            let to_end: Blocks = to_end.map(|(_, block)| *block).collect();
            mark_read_for(blocks, self.bits_on_chip(read), &to_end, on_chip);
        }
    }

    /// What is live after a step: the blocks of values that are still used, that kernels still
    /// read, or that are not in the sharding yet in which their author wrote them. `None` if a
    /// block was made for a step that cannot follow.
    fn after(&self, next: usize, mut blocks: Blocks) -> Option<LiveBlocks> {
        let is_read_on_chip = |block: &Block| {
            self.definitions[block.definition()].on_chip.is_some_and(|(_, last)| last >= next)
        };
        let on_chip = self.bits_on_chip(blocks.iter().filter(|block| is_read_on_chip(block)));
        blocks.iter_mut().for_each(|block| block.read_for &= on_chip);
        let is_over = |block: &Block| {
            let last = self.definitions[block.definition()].last;
            let stays = match block.form {
                Form::Resident => self.bytes(*block) > 0.0,
                form => form == Form::Undeclared || block.is_still_read(),
            };
            last.is_none_or(|last| last < next) && !stays
        };
        let waits = |block: &Block| matches!(block.form, Form::Unread | Form::Written);
        if blocks.iter().any(|block| is_over(block) && waits(block)) {
            return None;
        }
        blocks.retain(|block| !is_over(block));
        // Of what only kernels still read, no more than its size matters.
        let is_only_read = |block: &Block| {
            block.is_still_read() && self.definitions[block.definition()].last < Some(next)
        };
        for block in blocks.iter_mut().filter(|block| is_only_read(block)) {
            let definition = &self.definitions[block.definition()];
            block.state = definition.first_as_large[block.state()];
        }
        blocks.sort_unstable();
        Some(LiveBlocks { next, blocks })
    }
}

/// Whether what an operation takes follows from the blocks that it reads and makes.
fn is_plain(program: &Program, op: &Op) -> bool {
    !matches!(op.kind, OpKind::Collective(_) | OpKind::Rearrange(Rearrange::Part { .. }))
        && !op.is_stored_on_host()
        && !program.is_update(op.result)
}

fn by_operands(variable: &Variable) -> FxHashMap<SmallVec<[u32; 3]>, Vec<usize>> {
    let mut by_operands: FxHashMap<SmallVec<[u32; 3]>, Vec<usize>> = FxHashMap::default();
    for (number, choice) in variable.choices.iter().enumerate() {
        let read = choice.operands.iter().map(|&state| state as u32).collect();
        by_operands.entry(read).or_default().push(number);
    }
    by_operands
}
