//! The longest chain of a plan, or of the average of several.
//!
//! One pass over the program, as in [`crate::cost::chains`], of one state each: a statement ends
//! after the last of its operands has arrived, or, in a block, after what is computed before it.
//! Going back from the end of the program along what each statement waited for gives the chain. A
//! block is passed once; where the chain enters it, the longest cycle that leads to the same place
//! in the next layer counts once for each other layer. So do the layers of the stages of a
//! pipeline.
//!
//! Schedules compute in program order where there are blocks. Layers follow each other in that
//! order, and mostly take what they compute one statement after another. Outside of blocks the
//! order is not part of a chain: programs without blocks have schedules in others, too.

use indexmap::IndexMap;
use shardwise_ir::ids::RepeatId;
use shardwise_ir::program::{Blocks, Program};

use crate::cost::chains::{Chained, is_staged, range_of};
use crate::problem::{Choice, Definition, Demand, Problem, Root};
use crate::search::chain::{Chain, Way};
use crate::search::critical_path::CriticalPath;
use crate::solver::dreyfus_wagner::Terminal;
use crate::solver::weight::Weight;

/// How long statements and the ways of values take in a plan, or on the average of several.
pub(super) struct Durations<'c, 'a> {
    path: &'c CriticalPath<'a>,
    statements: Vec<Weight>,
    /// For each definition, the ways to its demands.
    ways: Vec<Vec<Weight>>,
}

impl<'c, 'a> Durations<'c, 'a> {
    /// Of choices of the path's problem.
    pub(super) fn new(path: &'c CriticalPath<'a>, choices: &[usize]) -> Self {
        let statements = choices.iter().enumerate();
        let statements =
            statements.map(|(statement, &choice)| path.seconds(statement)[choice]).collect();
        Self { path, statements, ways: ways(path, choices) }
    }

    /// The average of several, with shares that add up to one.
    pub(super) fn average(all: &[(&Self, f64)]) -> Option<Self> {
        let path = all.first()?.0.path;
        let weighted = |of: &dyn Fn(&Self) -> Weight| {
            all.iter().map(|(it, share)| of(it).scaled(*share)).sum()
        };
        let statement = |it: usize| weighted(&|of| of.statements[it]);
        let way = |definition: usize, demand: usize| weighted(&|of| of.ways[definition][demand]);
        let first = all.first()?.0;
        let statements = (0..first.statements.len()).map(statement).collect();
        let ways = first.ways.iter().enumerate();
        let ways = ways
            .map(|(definition, ways)| (0..ways.len()).map(|it| way(definition, it)).collect())
            .collect();
        Some(Self { path, statements, ways })
    }

    /// The length of a chain.
    pub(super) fn of(&self, chain: &Chain) -> f64 {
        chain.length(|statement| self.statement(statement), |way| self.way(way)).as_seconds()
    }

    /// The longest chain.
    pub(super) fn longest(&self) -> Chain {
        let cycles = Cycles::new(self);
        let mut pass = Pass::new(self, &cycles, None, Start::Program);
        pass.run();
        let mut chain = pass.longest();
        let program = self.program();
        for block in program.repeats.indices().filter(|&block| is_staged(program, block)) {
            if let Some(layer) = cycles.layer(self, block) {
                chain.add(&layer.chain, program.trip_count(Some(block), true).waited);
            }
        }
        chain
    }

    fn program(&self) -> &Program {
        self.path.problem().program
    }

    fn statement(&self, statement: usize) -> Weight {
        self.statements[statement]
    }

    fn way(&self, way: Way) -> Weight {
        self.ways[way.definition][way.demand]
    }

    /// The way of an operand of a statement, and what produces it.
    fn read(&self, statement: usize, operand: usize) -> Option<(Way, Root)> {
        let problem = self.path.problem();
        let definition = *problem.variables[statement].operands.get(operand)?;
        let own = Demand::Operand(statement, operand);
        let demand = problem.definitions[definition].demands.iter().position(|it| *it == own)?;
        Some((Way { definition, demand }, problem.definitions[definition].root.clone()))
    }

    /// The operands that a statement reads in its own layer.
    fn operands(&self, statement: usize) -> usize {
        let variable = &self.path.problem().variables[statement];
        let op = variable.decides.operation();
        op.map_or(0, |op| self.program().ops[op].operands.len().min(variable.operands.len()))
    }

    /// The layers of a block after the first.
    fn more(&self, block: RepeatId) -> u64 {
        let repeats = &self.program().repeats;
        repeats[repeats.forward_block(block)].count.saturating_sub(1)
    }
}

/// The choices of the path's problem that are those of a problem with some of them.
pub(super) fn choices_of(
    path: &CriticalPath<'_>,
    problem: &Problem<'_>,
    assignment: &[usize],
) -> Vec<usize> {
    let chosen = problem.variables.iter().zip(assignment);
    let chosen = chosen.map(|(variable, &choice)| &variable.choices[choice]);
    let own = path.problem().variables.iter().zip(chosen).map(|(variable, chosen)| {
        let is_chosen =
            |choice: &Choice| choice.result == chosen.result && choice.operands == chosen.operands;
        variable.choices.iter().position(is_chosen).unwrap_or(0)
    });
    own.collect()
}

/// The ways of each definition to its demands, in the choices of a plan.
fn ways(path: &CriticalPath<'_>, choices: &[usize]) -> Vec<Vec<Weight>> {
    let problem = path.problem();
    let of = |definition: &Definition| {
        let (root, uses) = problem.realised(definition, choices);
        let reached = path.reached(definition, &[(root, Weight::ZERO)]);
        let way = |states: &Terminal| states.iter().map(|&state| reached[state]).min();
        uses.iter().map(|states| way(states).unwrap_or(Weight::ZERO)).collect()
    };
    problem.definitions.iter().map(of).collect()
}

/// A chain from a place in a block to the same place in the next layer.
struct Cycle {
    length: Weight,
    chain: Chain,
}

/// The cycles of all blocks.
#[derive(Default)]
struct Cycles {
    /// By the entry of a loop-carried value.
    of_entries: IndexMap<usize, Cycle>,
    /// Of what a block computes.
    of_compute: IndexMap<RepeatId, Cycle>,
}

impl Cycles {
    /// Those of a plan, innermost first.
    fn new(durations: &Durations<'_, '_>) -> Self {
        let mut cycles = Self::default();
        let chained = durations.path.chained();
        let repeats = &durations.program().repeats;
        let mut blocks: Vec<RepeatId> = repeats.indices().collect();
        blocks.sort_by_key(|&block| std::cmp::Reverse(repeats.outwards(Some(block)).count()));
        for block in blocks {
            let is_entry = |&it: &usize| chained.is_entry(it) && chained.block(it) == Some(block);
            let entries = range_of(&chained, block).filter(is_entry);
            let of_entries: Vec<(usize, Cycle)> = entries
                .filter_map(|entry| Some((entry, cycles.of_entry(durations, block, entry)?)))
                .collect();
            let of_compute = cycles.of_compute(durations, block);
            cycles.of_entries.extend(of_entries);
            cycles.of_compute.extend(of_compute.map(|cycle| (block, cycle)));
        }
        cycles
    }

    fn of_entry(
        &self,
        durations: &Durations<'_, '_>,
        block: RepeatId,
        entry: usize,
    ) -> Option<Cycle> {
        let mut pass = Pass::new(durations, self, Some(block), Start::Entry(entry));
        pass.run();
        let (way, root) = durations.read(entry, durations.operands(entry))?;
        let Root::Produced(producer) = root else { return None };
        let length = pass.ends[producer]?.at + durations.way(way);
        let mut chain = pass.to(producer);
        chain.add_way(way, 1);
        Some(Cycle { length, chain })
    }

    fn of_compute(&self, durations: &Durations<'_, '_>, block: RepeatId) -> Option<Cycle> {
        let mut pass = Pass::new(durations, self, Some(block), Start::Compute);
        pass.run();
        let last = pass.computed?;
        Some(Cycle { length: pass.ends[last]?.at, chain: pass.to(last) })
    }

    /// The longest of a block.
    fn layer(&self, durations: &Durations<'_, '_>, block: RepeatId) -> Option<&Cycle> {
        let chained = durations.path.chained();
        let own = self.of_entries.iter().filter(|(entry, _)| chained.block(**entry) == Some(block));
        let own = own.map(|(_, cycle)| cycle).chain(self.of_compute.get(&block));
        own.max_by_key(|cycle| cycle.length)
    }
}

/// Where chains begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With the program.
    Program,
    /// Where a loop-carried value enters a layer.
    Entry(usize),
    /// With the first statement of a layer that computes.
    Compute,
}

/// What a statement waits for last.
#[derive(Clone, Copy, Debug)]
enum Waits {
    /// Nothing.
    Nothing,
    /// A value, and what produces it.
    For(Way, Option<usize>),
    /// What is computed before it.
    After(usize),
}

/// When a statement ends.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Weight,
    waits: Waits,
}

/// A pass over the program, or over a layer of a block.
struct Pass<'p, 'a> {
    durations: &'p Durations<'p, 'a>,
    cycles: &'p Cycles,
    of: Option<RepeatId>,
    start: Start,
    ends: Vec<Option<End>>,
    /// What computes last.
    computed: Option<usize>,
}

impl<'p, 'a> Pass<'p, 'a> {
    fn new(
        durations: &'p Durations<'p, 'a>,
        cycles: &'p Cycles,
        of: Option<RepeatId>,
        start: Start,
    ) -> Self {
        let mut ends = vec![None; durations.statements.len()];
        let mut computed = None;
        if let Start::Entry(entry) = start {
            ends[entry] = Some(End { at: Weight::ZERO, waits: Waits::Nothing });
            computed = Some(entry);
        }
        Self { durations, cycles, of, start, ends, computed }
    }

    fn run(&mut self) {
        let chained = self.durations.path.chained();
        let statements = match self.of {
            Some(block) => range_of(&chained, block),
            None => 0..self.ends.len(),
        };
        for statement in statements {
            if self.is_apart(statement) {
                continue;
            }
            self.ends[statement] = self.end(statement);
            if self.computes(statement) && self.ends[statement].is_some() {
                self.computed = Some(statement);
            }
        }
    }

    /// Whether a statement is in no chain of this pass.
    fn is_apart(&self, statement: usize) -> bool {
        let chained = self.durations.path.chained();
        let program = self.durations.program();
        let block = chained.block(statement);
        let is_own_entry = self.of.is_some() && chained.is_entry(statement) && block == self.of;
        let is_staged = program.pipeline(block).is_some();
        is_own_entry
            || is_staged
                && (program.pipeline(self.of).is_none() || !chained.is_per_microbatch(statement))
    }

    fn computes(&self, statement: usize) -> bool {
        let chained = self.durations.path.chained();
        chained.computes(statement) && !chained.is_entry(statement)
    }

    /// Whether a statement waits for what is computed before it.
    fn computes_in_order(&self, statement: usize) -> bool {
        self.computes(statement) && self.durations.path.chained().block(statement).is_some()
    }

    /// When a statement ends, if a chain leads to it.
    fn end(&self, statement: usize) -> Option<End> {
        let durations = self.durations;
        let reads = (0..durations.operands(statement)).filter_map(|operand| {
            let (way, root) = durations.read(statement, operand)?;
            let arrives = durations.way(way);
            Some(match root {
                Root::Produced(producer) => {
                    let at = self.ends[producer]?.at + arrives;
                    End { at, waits: Waits::For(way, Some(producer)) }
                }
                Root::Fixed(_) if self.start == Start::Program => {
                    End { at: arrives, waits: Waits::For(way, None) }
                }
                Root::Fixed(_) => return None,
            })
        });
        let computes = self.computes_in_order(statement);
        let after = self.computed.filter(|_| computes).and_then(|before| {
            let at = self.ends[before]?.at;
            let layers =
                self.entered(before, statement).map(|(cycle, more)| cycle.length.times(more));
            Some(End { at: at + layers.sum::<Weight>(), waits: Waits::After(before) })
        });
        let begins = match self.start {
            Start::Program => true,
            Start::Compute => computes && self.computed.is_none(),
            Start::Entry(_) => false,
        };
        let begins = begins.then_some(End { at: Weight::ZERO, waits: Waits::Nothing });
        // Of equals the first.
        let ends = reads.chain(after).chain(begins);
        let last = ends.reduce(|best, end| if end.at > best.at { end } else { best })?;
        let layers = self.cycle(statement).map(|(cycle, more)| cycle.length.times(more));
        let own = durations.statement(statement) + layers.unwrap_or(Weight::ZERO);
        Some(End { at: last.at + own, ..last })
    }

    /// The cycle of the block that a statement enters with a loop-carried value, and how often.
    fn cycle(&self, statement: usize) -> Option<(&'p Cycle, u64)> {
        let block = self.durations.path.chained().block(statement)?;
        Some((self.cycles.of_entries.get(&statement)?, self.durations.more(block)))
    }

    /// The cycles of the blocks around a statement that are not around another before it.
    fn entered(
        &self,
        before: usize,
        statement: usize,
    ) -> impl Iterator<Item = (&'p Cycle, u64)> + use<'p, 'a> {
        let (durations, cycles) = (self.durations, self.cycles);
        let chained = durations.path.chained();
        let repeats = &durations.program().repeats;
        let (from, to) = (chained.block(before), chained.block(statement));
        let entered = repeats.outwards(to).filter(move |&block| !repeats.is_inside(from, block));
        entered
            .filter_map(move |block| Some((cycles.of_compute.get(&block)?, durations.more(block))))
    }

    /// The chain to the end of a statement.
    fn to(&self, statement: usize) -> Chain {
        let mut chain = Chain::default();
        let mut next = Some(statement);
        while let Some((at, end)) = next.and_then(|at| Some((at, self.ends[at]?))) {
            if self.start == Start::Entry(at) {
                break;
            }
            chain.add_statement(at, 1);
            if let Some((cycle, more)) = self.cycle(at) {
                chain.add(&cycle.chain, more);
            }
            next = match end.waits {
                Waits::Nothing => None,
                Waits::For(way, producer) => {
                    chain.add_way(way, 1);
                    producer
                }
                Waits::After(before) => {
                    for (cycle, more) in self.entered(before, at) {
                        chain.add(&cycle.chain, more);
                    }
                    Some(before)
                }
            };
        }
        chain
    }

    /// The longest chain to a statement or to an output.
    fn longest(&self) -> Chain {
        let ends = self.ends.iter().enumerate();
        let statements = ends.filter_map(|(it, end)| Some((end.as_ref()?.at, it, None)));
        let definitions = self.durations.path.problem().definitions.iter().enumerate();
        let outputs = definitions.flat_map(|(definition, of)| {
            let fixed =
                of.demands.iter().enumerate().filter(|(_, of)| matches!(of, Demand::Fixed(_)));
            fixed.filter_map(move |(demand, _)| {
                let Root::Produced(producer) = of.root else { return None };
                let way = Way { definition, demand };
                Some((self.ends[producer]?.at + self.durations.way(way), producer, Some(way)))
            })
        });
        let Some((_, last, way)) = statements.chain(outputs).max_by_key(|(at, ..)| *at) else {
            return Chain::default();
        };
        let mut chain = self.to(last);
        if let Some(way) = way {
            chain.add_way(way, 1);
        }
        chain
    }
}
