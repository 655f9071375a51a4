//! What the rest of a plan takes at least at its peak, whatever else is live.
//!
//! Each statement takes what its layout demands ([`crate::search::memory::demand`]), and each
//! reshard its operand and its result beside the smallest blocks of other values
//! ([`crate::search::memory::blocks`]). So for each use of a value and each sharding of it there is
//! a path of reshards of which the largest is as small as it can be; with several live blocks, the
//! best of them counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::problem::{Choice, Demand, Problem, Root};
use crate::reshard::sharding_space::State;
use crate::search::memory::blocks::ReshardDemand;
use crate::search::memory::demand::MemoryDemand;
use crate::search::memory::live_blocks::block::{Block, Form, LiveBlocks};
use crate::solver::finite::Finite;

/// Lower bounds of the peak of the rest of a plan.
pub(super) struct PeakBound {
    /// For each statement, what it and those after it take at least.
    statements: Vec<f64>,
    definitions: Vec<OfDefinition>,
}

/// Of one definition.
struct OfDefinition {
    /// Which statement produces it, if any.
    root: Option<usize>,
    /// What it takes until its last use, from any root.
    least: f64,
    uses: Vec<OfUse>,
}

/// Of one use, for each sharding.
struct OfUse {
    /// Its statement.
    at: usize,
    /// What it takes to read a block as it is.
    as_is: Vec<f64>,
    /// To reshard it until it can be read.
    resharded: Vec<f64>,
    /// The same through the declared sharding.
    through_declared: Vec<f64>,
}

impl PeakBound {
    /// `resident` bytes are on the device all the time, beside those whose sharding is written.
    pub(super) fn new(problem: &Problem<'_>, resident: f64) -> Self {
        let reshards = ReshardDemand::new(problem.tables);
        let demand = MemoryDemand::new(problem);
        let of_variable = |number: usize| -> Vec<f64> {
            let choices = 0..problem.variables[number].choices.len();
            choices.map(|choice| demand.least(number, choice)).collect()
        };
        let variables = (0..problem.variables.len()).map(of_variable).collect::<Vec<_>>();
        let mut statements = vec![0.0; variables.len() + 1];
        for (number, choices) in variables.iter().enumerate().rev() {
            let least = choices.iter().copied().fold(f64::INFINITY, f64::min);
            statements[number] = least.max(statements[number + 1]);
        }
        let definitions = (0..problem.definitions.len())
            .map(|number| {
                let steps = steps_to(problem, &reshards, resident, number);
                OfDefinition::new(problem, &steps, &variables, number)
            })
            .collect();
        Self { statements, definitions }
    }

    /// The least peak of all steps that follow; infinite if nothing leads to the end.
    pub(super) fn peak_to_go(&self, live: &LiveBlocks) -> f64 {
        let definitions = self.definitions.iter().zip(live.by_definition());
        let peaks = definitions.map(|(definition, own)| definition.peak_to_go(own, live.next));
        peaks.fold(self.statements[live.next], f64::max)
    }
}

impl OfDefinition {
    fn new(
        problem: &Problem<'_>,
        steps: &[Vec<(State, f64)>],
        variables: &[Vec<f64>],
        number: usize,
    ) -> Self {
        let definition = &problem.definitions[number];
        let of_use = |demand: &Demand| {
            let (at, as_is) = match demand {
                Demand::Operand(variable, place) => {
                    let choices = &problem.variables[*variable].choices;
                    let read = |choice: &Choice| choice.operands[*place];
                    (*variable, least_of_each(steps.len(), choices, &variables[*variable], read))
                }
                Demand::Fixed(states) => {
                    let bytes = |state| if states.contains(&state) { 0.0 } else { f64::INFINITY };
                    (problem.variables.len(), (0..steps.len()).map(bytes).collect())
                }
            };
            let resharded = least_peaks(steps, &as_is);
            let through_declared = definition.declared.as_ref().map(|declared| {
                let mut from_declared = vec![f64::INFINITY; steps.len()];
                for &state in declared {
                    from_declared[state] = resharded[state];
                }
                least_peaks(steps, &from_declared)
            });
            let through_declared = through_declared.unwrap_or_else(|| resharded.clone());
            OfUse { at, as_is, resharded, through_declared }
        };
        let uses: Vec<OfUse> = definition.demands.iter().map(of_use).collect();
        let is_declared = |state: State| {
            definition.declared.as_ref().is_none_or(|declared| declared.contains(&state))
        };
        let root =
            if let Root::Produced(variable) = definition.root { Some(variable) } else { None };
        let from_choice = |(choice, &bytes): (&Choice, &f64)| {
            let state = choice.result;
            let of_use = |of: &OfUse| {
                if is_declared(state) { of.resharded[state] } else { of.through_declared[state] }
            };
            uses.iter().map(of_use).fold(bytes, f64::max)
        };
        let least = root.map_or(0.0, |root| {
            let choices = problem.variables[root].choices.iter().zip(&variables[root]);
            choices.map(from_choice).fold(f64::INFINITY, f64::min)
        });
        Self { root, least, uses }
    }

    /// Of the blocks of this definition that are live before statement `next`.
    fn peak_to_go(&self, blocks: &[Block], next: usize) -> f64 {
        if self.root.is_some_and(|root| root >= next) {
            return self.least;
        }
        let left = self.uses.iter().filter(|of| of.at >= next);
        let least =
            |of: &OfUse| blocks.iter().map(|&block| of.from(block)).fold(f64::INFINITY, f64::min);
        left.map(least).fold(0.0, f64::max)
    }
}

impl OfUse {
    /// From a live block.
    fn from(&self, block: Block) -> f64 {
        let bytes = match block.form {
            Form::OnChip => &self.as_is,
            Form::Undeclared => &self.through_declared,
            Form::Resident | Form::Memory | Form::Unread | Form::Written => &self.resharded,
        };
        bytes[block.state()]
    }
}

/// For each sharding in which an operand may be read, the least that a choice takes.
fn least_of_each(
    states: usize,
    choices: &[Choice],
    bytes: &[f64],
    read: impl Fn(&Choice) -> State,
) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; states];
    for (choice, &bytes) in choices.iter().zip(bytes) {
        let least = &mut least[read(choice)];
        *least = least.min(bytes);
    }
    least
}

/// For each sharding of a definition, those from which a step leads there, and what it takes.
fn steps_to(
    problem: &Problem<'_>,
    reshards: &ReshardDemand,
    resident: f64,
    number: usize,
) -> Vec<Vec<(State, f64)>> {
    let value = problem.definitions[number].value;
    let space = &problem.table(value).space;
    let mut steps = vec![Vec::new(); space.len()];
    for from in 0..space.len() {
        for edge in space.edges(from) {
            let between = (space.sharding(from), space.sharding(edge.to));
            let bytes = resident + reshards.bytes(problem.program, value, between);
            steps[edge.to].push((from, bytes));
        }
    }
    steps
}

/// For each sharding, the least peak of a path to one of some ends, each with a peak of its own.
fn least_peaks(steps: &[Vec<(State, f64)>], ends: &[f64]) -> Vec<f64> {
    let mut least = ends.to_vec();
    let finite = ends.iter().enumerate().filter(|(_, bytes)| bytes.is_finite());
    let by_peak = |bytes: f64, state: State| Reverse((Finite(bytes), state));
    let mut queue: BinaryHeap<_> = finite.map(|(state, &bytes)| by_peak(bytes, state)).collect();
    while let Some(Reverse((Finite(bytes), state))) = queue.pop() {
        if bytes > least[state] {
            continue;
        }
        for &(from, step) in &steps[state] {
            let peak = bytes.max(step);
            if peak < least[from] {
                least[from] = peak;
                queue.push(by_peak(peak, from));
            }
        }
    }
    least
}
