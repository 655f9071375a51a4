//! The critical path of a problem: a lower bound of the makespan of every plan.
//!
//! However much overlaps, an operation starts after its operands exist in the shardings in which it
//! reads them, and after all compute that it depends on. So the earliest time of each sharding of
//! each value follows from those before it: an operation adds its own time, a reshard the distance
//! between two shardings. Every value takes the layout that is best for it alone, different ones
//! for different readers; that makes the result a bound, found in one pass over the program.
//! [`crate::cost::chains`] says what blocks and pipelines add. A loop-carried value enters each
//! layer in the same sharding, so a cycle is found for each of them, where that is little work.
//!
//! An operation that expands into several steps counts as nothing: that shortens chains only.

use std::ops::Range;

use shardwise_ir::ids::RepeatId;
use shardwise_ir::program::{MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::Rearrange;

use crate::cost::chains::{At, Chained, Computed, Cycles, Run, Times, longest};
use crate::layouts::composite;
use crate::problem::{Choice, Definition, Demand, Problem, Root, Variable};
use crate::solver::dreyfus_wagner::Terminal;
use crate::solver::graph::Graph;
use crate::solver::model::UnaryCosts;
use crate::solver::weight::Weight;

/// Choices and edges that cycles of single shardings visit, at most: a tenth of a second.
const MOST_VISITED: usize = 1 << 26;

/// The chains of a problem that counts seconds of compute and of collectives alike.
pub(crate) struct CriticalPath<'a> {
    problem: Problem<'a>,
    /// The time of each choice of each variable, for one execution.
    seconds: Vec<Vec<Weight>>,
    /// For each variable, which others its operation depends on.
    ancestors: Vec<Vec<bool>>,
    /// The costs of all choices.
    all: UnaryCosts,
    /// The cycles of blocks, whatever is chosen.
    cycles: Cycles,
}

impl<'a> CriticalPath<'a> {
    /// Of a problem in which a second of compute has weight 1.
    pub(crate) fn new(problem: Problem<'a>) -> Self {
        let once = |variable: &Variable| {
            variable.choices.iter().map(|choice| seconds(&problem, variable, choice)).collect()
        };
        let seconds = problem.variables.iter().map(once).collect();
        let (ancestors, all) = (ancestors(&problem), problem.model().unary);
        let mut path = Self { problem, seconds, ancestors, all, cycles: Cycles::default() };
        path.cycles = Cycles::new(&Allowed { path: &path, allowed: &path.all });
        path
    }

    /// The problem.
    pub(super) fn problem(&self) -> &Problem<'a> {
        &self.problem
    }

    /// The time of each choice of a statement, for one execution.
    pub(super) fn seconds(&self, statement: usize) -> &[Weight] {
        &self.seconds[statement]
    }

    /// The steps between the states of a definition, in seconds.
    pub(super) fn graph(&self, definition: usize) -> &Graph {
        self.problem.table(self.problem.definitions[definition].value).graph()
    }

    /// The statements of the problem, with every choice.
    pub(super) fn chained(&self) -> impl Chained + '_ {
        Allowed { path: self, allowed: &self.all }
    }

    /// The costs of all choices of the problem.
    pub(crate) fn all(&self) -> &UnaryCosts {
        &self.all
    }

    /// No plan of choices with finite cost in `allowed` has a shorter schedule, in seconds.
    pub(crate) fn lower_bound_s(&self, allowed: &UnaryCosts) -> f64 {
        let chained = Allowed { path: self, allowed };
        let definitions = &self.problem.definitions;
        let of = definitions
            .iter()
            .map(|definition| match definition.root {
                Root::Fixed(state) => Some(self.reached(definition, &[(state, Weight::ZERO)])),
                Root::Produced(_) => None,
            })
            .collect();
        let mut times = Times { of, begin: Some(Weight::ZERO), ..Times::new(0) };
        let mut last = longest(&chained, &self.cycles, &mut times);
        for (definition, earliest) in definitions.iter().zip(&times.of) {
            let Some(earliest) = earliest else { continue };
            for demand in &definition.demands {
                if let Demand::Fixed(states) = demand {
                    last = last.max(soonest(earliest, states));
                }
            }
        }
        if last.is_finite() { last.as_seconds() } else { f64::INFINITY }
    }

    /// When each state of a definition is reached, from the states in which it is produced.
    pub(super) fn reached(&self, definition: &Definition, produced: &[At]) -> Vec<Weight> {
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

/// The chains of choices with finite cost.
struct Allowed<'p, 'a> {
    path: &'p CriticalPath<'a>,
    allowed: &'p UnaryCosts,
}

impl Allowed<'_, '_> {
    fn variable(&self, number: usize) -> &Variable {
        &self.path.problem.variables[number]
    }

    fn op(&self, number: usize) -> Option<&Op> {
        let op = self.variable(number).decides.operation()?;
        Some(&self.path.problem.program.ops[op])
    }

    /// When all compute that a statement depends on is done at the earliest, if that is known: of
    /// what starts at some time or later, one after another from then on.
    fn computed_before(&self, statement: usize, times: &Times) -> Option<Weight> {
        let before = &self.path.ancestors[statement];
        let is_before = |other: &&Computed| other.statement.is_some_and(|other| before[other]);
        let mut computed: Vec<&Computed> = times.computed.iter().filter(is_before).collect();
        computed.sort_by_key(|other| std::cmp::Reverse(other.start));
        let mut sum = Weight::ZERO;
        let ends = computed.into_iter().map(|other| {
            sum = sum + other.least;
            other.start + sum
        });
        ends.max()
    }

    fn allowed(&self, number: usize) -> impl Iterator<Item = (&Choice, Weight)> {
        let choices = self.variable(number).choices.iter().zip(&self.path.seconds[number]);
        let choices = choices.zip(&self.allowed[number]).filter(|(_, cost)| cost.is_finite());
        choices.map(|((choice, &seconds), _)| (choice, seconds))
    }
}

impl Chained for Allowed<'_, '_> {
    fn program(&self) -> &Program {
        self.path.problem.program
    }

    fn statements(&self) -> usize {
        self.path.problem.variables.len()
    }

    fn values(&self) -> usize {
        self.path.problem.definitions.len()
    }

    fn block(&self, statement: usize) -> Option<RepeatId> {
        self.op(statement)?.repeat
    }

    fn is_entry(&self, statement: usize) -> bool {
        self.op(statement).is_some_and(|op| op.is(&MapForm::LoopCarried))
    }

    fn computes(&self, statement: usize) -> bool {
        let sends = |op: &Op| {
            let shifts = matches!(
                op.kind,
                OpKind::Rearrange(
                    Rearrange::Roll(_) | Rearrange::Windows(_) | Rearrange::Overlap(_)
                )
            );
            shifts || self.program().is_stage_send(op) || op.host_transfer().is_some()
        };
        self.op(statement).is_some_and(|op| !sends(op))
    }

    fn is_per_microbatch(&self, statement: usize) -> bool {
        self.op(statement).is_some_and(|op| self.program().is_per_microbatch(op))
    }

    fn result(&self, statement: usize) -> usize {
        self.variable(statement).result
    }

    fn run(&self, statement: usize, times: &Times) -> Run {
        let operands = &self.variable(statement).operands;
        let exists = |&definition: &usize| times.of[definition].is_some();
        if times.begin.is_none() && !operands.iter().any(exists) {
            return Run::default();
        }
        let computed =
            self.computes(statement).then(|| self.computed_before(statement, times)).flatten();
        let start = |choice: &Choice| {
            // What a later statement yields is not waited for in the first layer.
            let read = operands.iter().zip(&choice.operands);
            let read =
                read.map(|(&definition, &state)| Some(times.of[definition].as_ref()?[state]));
            let start = read.chain([times.begin, computed]).flatten().max();
            start.unwrap_or(Weight::ZERO)
        };
        let (mut first, mut least) = (Weight::INFINITE, Weight::INFINITE);
        let mut produced = Vec::new();
        for (choice, seconds) in self.allowed(statement) {
            let start = start(choice);
            (first, least) = (first.min(start), least.min(seconds));
            produced.push((choice.result, start + seconds));
        }
        Run { produced, start: first, least }
    }

    fn reached(&self, value: usize, produced: &[At]) -> Vec<Weight> {
        self.path.reached(&self.path.problem.definitions[value], produced)
    }

    fn yielded(&self, entry: usize, state: usize, times: &Times) -> Option<Weight> {
        let own = self.op(entry)?.operands.len();
        let yielded = times.of[*self.variable(entry).operands.get(own)?].as_ref()?;
        let into_state = self.allowed(entry).filter(|(choice, _)| choice.result == state);
        into_state.map(|(choice, _)| yielded[choice.operands[own]]).min()
    }

    fn entered(&self, entry: usize) -> Vec<usize> {
        let mut states: Vec<usize> = self.allowed(entry).map(|(choice, _)| choice.result).collect();
        states.sort_unstable();
        states.dedup();
        states
    }

    fn has_cycle_by_state(&self, entry: usize, statements: Range<usize>) -> bool {
        let visited = |statement: usize| {
            let definition = &self.path.problem.definitions[self.result(statement)];
            let nodes = self.path.problem.table(definition.value).graph().nodes();
            self.variable(statement).choices.len() + nodes * nodes
        };
        let visited: usize = statements.map(visited).sum();
        visited.saturating_mul(self.entered(entry).len()) <= MOST_VISITED
    }
}

/// For each variable, those that produce what it reads, what these read, and so on; in one layer of
/// a block.
fn ancestors(problem: &Problem<'_>) -> Vec<Vec<bool>> {
    let variables = problem.variables.len();
    let mut ancestors: Vec<Vec<bool>> = Vec::with_capacity(variables);
    for (number, variable) in problem.variables.iter().enumerate() {
        let mut own = vec![false; variables];
        for &definition in &variable.operands {
            let Root::Produced(producer) = problem.definitions[definition].root else { continue };
            // What a later statement yields is of the layer before.
            if producer < number {
                own[producer] = true;
                own.iter_mut().zip(&ancestors[producer]).for_each(|(own, &other)| *own |= other);
            }
        }
        ancestors.push(own);
    }
    ancestors
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
