//! The critical path of a problem: a lower bound of the makespan of every plan.
//!
//! However much overlaps, an operation starts after its operands exist in the shardings in which it
//! reads them. So the earliest time of each sharding of each value follows from those before it: an
//! operation adds its own time, a reshard the distance between two shardings. Every value takes the
//! layout that is best for it alone, different ones for different readers; that makes the result a
//! bound, found in one pass over the program.
//!
//! Blocks count as one of their layers, and an operation that expands into several steps as
//! nothing: both lengthen chains only.

use shardwise_ir::program::MapForm;

use crate::layouts::composite;
use crate::problem::{Choice, Definition, Demand, Problem, Root, Variable};
use crate::solver::dreyfus_wagner::Terminal;
use crate::solver::model::UnaryCosts;
use crate::solver::weight::Weight;

/// The chains of a problem that counts seconds of compute and of collectives alike.
pub(crate) struct CriticalPath<'a> {
    problem: Problem<'a>,
    /// The time of each choice of each variable, for one execution.
    seconds: Vec<Vec<Weight>>,
}

impl<'a> CriticalPath<'a> {
    /// Of a problem in which a second of compute has weight 1; nothing for a program with
    /// pipelines, whose stages are scheduled apart.
    pub(crate) fn new(problem: Problem<'a>) -> Option<Self> {
        let program = problem.program;
        let has_pipeline =
            program.repeats.indices().any(|block| program.pipeline(Some(block)).is_some());
        let once = |variable: &Variable| {
            variable.choices.iter().map(|choice| seconds(&problem, variable, choice)).collect()
        };
        let seconds = problem.variables.iter().map(once).collect();
        (!has_pipeline).then_some(Self { problem, seconds })
    }

    /// No plan of choices with finite cost in `allowed` has a shorter schedule, in seconds.
    pub(crate) fn lower_bound_s(&self, allowed: &UnaryCosts) -> f64 {
        let definitions = &self.problem.definitions;
        let mut earliest: Vec<Option<Vec<Weight>>> = definitions
            .iter()
            .map(|definition| match definition.root {
                Root::Fixed(state) => Some(self.reached(definition, &[(state, Weight::ZERO)])),
                Root::Produced(_) => None,
            })
            .collect();
        let mut last = Weight::ZERO;
        for (number, variable) in self.problem.variables.iter().enumerate() {
            let ends = self.ends(number, &allowed[number], &earliest);
            last = last.max(ends.iter().map(|(_, end)| *end).min().unwrap_or(Weight::ZERO));
            let result = self.reached(&definitions[variable.result], &ends);
            earliest[variable.result] = Some(result);
        }
        for (definition, earliest) in definitions.iter().zip(&earliest) {
            let Some(earliest) = earliest else { continue };
            for demand in &definition.demands {
                if let Demand::Fixed(states) = demand {
                    last = last.max(soonest(earliest, states));
                }
            }
        }
        if last.is_finite() { last.as_seconds() } else { f64::INFINITY }
    }

    /// For each choice of a variable that is allowed, the state of its result and when it exists.
    fn ends(
        &self,
        number: usize,
        allowed: &[Weight],
        earliest: &[Option<Vec<Weight>>],
    ) -> Vec<(usize, Weight)> {
        let variable = &self.problem.variables[number];
        let starts = |operands: &[usize]| {
            // What a later statement yields is not waited for in the first layer.
            let read = variable.operands.iter().zip(operands);
            read.filter_map(|(&definition, &state)| Some(earliest[definition].as_ref()?[state]))
                .max()
                .unwrap_or(Weight::ZERO)
        };
        let choices = variable.choices.iter().zip(&self.seconds[number]).zip(allowed);
        choices
            .filter(|(_, cost)| cost.is_finite())
            .map(|((choice, &seconds), _)| (choice.result, starts(&choice.operands) + seconds))
            .collect()
    }

    /// When each state of a definition is reached, from the states in which it is produced.
    fn reached(&self, definition: &Definition, produced: &[(usize, Weight)]) -> Vec<Weight> {
        let graph = self.problem.table(definition.value).graph();
        let mut earliest = vec![Weight::INFINITE; graph.nodes()];
        for &(state, end) in produced {
            earliest[state] = earliest[state].min(end);
        }
        graph.out.relax(&mut earliest, Weight::INFINITE, |weight| weight);
        if let Some(declared) = &definition.declared {
            for (state, time) in earliest.iter_mut().enumerate() {
                if !declared.contains(&state) {
                    *time = Weight::INFINITE;
                }
            }
            graph.out.relax(&mut earliest, Weight::INFINITE, |weight| weight);
        }
        earliest
    }
}

/// When the first of some states is reached.
fn soonest(earliest: &[Weight], states: &Terminal) -> Weight {
    states.iter().map(|&state| earliest[state]).min().unwrap_or(Weight::ZERO)
}

/// The time of one execution of an operation; nothing for one that becomes several steps.
fn seconds(problem: &Problem<'_>, variable: &Variable, choice: &Choice) -> Weight {
    let Some(op) = variable.decides.operation() else { return choice.weight };
    let op = &problem.program.ops[op];
    let operand = choice
        .operands
        .first()
        .map(|&state| problem.table(op.operands[0].value).space.sharding(state));
    if op.is(&MapForm::Total) || composite::is_split(problem.program, op, operand) {
        return Weight::ZERO;
    }
    let turns = problem.program.trip_count_of(op);
    let turns = problem.tables.cost_model.turns(turns, problem.compute).max(1);
    choice.weight.divided(turns)
}
