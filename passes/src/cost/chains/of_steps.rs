//! The chains of a plan: of the steps that it has.

use std::ops::Range;

use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::ids::RepeatId;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{MapForm, Op, Program};

use crate::cost::chains::{At, Chained, Cycles, Run, Times, longest};
use crate::cost::pipeline_stages;
use crate::cost::report::StepCost;
use crate::solver::weight::Weight;

/// The steps of a plan, with their costs and the cycles of its blocks.
pub(crate) struct StepChains<'a> {
    steps: Steps<'a>,
    cycles: Cycles,
}

impl<'a> StepChains<'a> {
    /// Finds the cycles.
    pub(crate) fn new(
        plan: &'a Plan,
        dataflow: &'a Dataflow<usize>,
        costs: &'a [StepCost],
    ) -> Self {
        let steps = Steps { plan, dataflow, costs };
        Self { cycles: Cycles::new(&steps), steps }
    }

    /// What one layer of a block takes at least, in both directions, seconds.
    pub(crate) fn layers_s(&self, block: RepeatId) -> f64 {
        let program = &self.steps.plan.program;
        let back = pipeline_stages::reverse(program, block);
        let directions = [Some(block), back].into_iter().flatten();
        directions.map(|block| self.cycles.layer(&self.steps, block)).sum::<Weight>().as_seconds()
    }

    /// What the plan takes at least, seconds.
    pub(crate) fn longest_s(&self) -> f64 {
        let mut times = Times { begin: Some(Weight::ZERO), ..Times::new(self.steps.values()) };
        longest(&self.steps, &self.cycles, &mut times).as_seconds()
    }
}

/// Each step produces a value of its own, in one state.
struct Steps<'a> {
    plan: &'a Plan,
    dataflow: &'a Dataflow<usize>,
    costs: &'a [StepCost],
}

impl Steps<'_> {
    fn step(&self, number: usize) -> &Step {
        &self.plan.steps[number]
    }

    fn op(&self, number: usize) -> Option<&Op> {
        match self.step(number).kind {
            StepKind::Local(op) => Some(&self.plan.program.ops[op]),
            StepKind::Collective(..) => None,
        }
    }
}

/// When a step ends, if a chain leads to it.
fn end(step: usize, times: &Times) -> Option<Weight> {
    times.of[step].as_ref().map(|states| states[0])
}

impl Chained for Steps<'_> {
    fn program(&self) -> &Program {
        &self.plan.program
    }

    fn statements(&self) -> usize {
        self.plan.steps.len()
    }

    fn values(&self) -> usize {
        self.plan.steps.len()
    }

    fn block(&self, statement: usize) -> Option<RepeatId> {
        self.step(statement).repeat
    }

    fn is_entry(&self, statement: usize) -> bool {
        self.op(statement).is_some_and(|op| op.is(&MapForm::LoopCarried))
    }

    fn computes(&self, statement: usize) -> bool {
        !self.costs[statement].is_move(self.step(statement))
    }

    fn is_per_microbatch(&self, statement: usize) -> bool {
        pipeline_stages::by_microbatch(&self.plan.program, self.step(statement))
    }

    fn result(&self, statement: usize) -> usize {
        statement
    }

    fn run(&self, statement: usize, times: &Times) -> Run {
        let operands = self.dataflow.producers(statement).map(|first| end(first, times));
        let computed = times.in_order().filter(|_| self.computes(statement));
        let Some(start) = operands.chain([times.begin, computed]).flatten().max() else {
            return Run::default();
        };
        // The sum of what layers yield is added up layer by layer.
        let is_total = self.op(statement).is_some_and(|op| op.is(&MapForm::Total));
        let seconds = if is_total { 0.0 } else { self.costs[statement].seconds };
        let least = Weight::seconds(seconds);
        Run { produced: vec![(0, start + least)], start, least }
    }

    fn reached(&self, _: usize, produced: &[At]) -> Vec<Weight> {
        produced.iter().map(|&(_, end)| end).collect()
    }

    fn yielded(&self, entry: usize, _: usize, times: &Times) -> Option<Weight> {
        let Step { repeat, result, .. } = self.step(entry);
        let program = &self.plan.program;
        let mut outputs = program.outputs.iter();
        let yielded =
            outputs.find(|output| program.carried_into(output) == Some(result.value))?.value;
        let is_like_it = |number: &usize| {
            let step = self.step(*number);
            step.repeat == *repeat
                && step.result.value == yielded
                && step.result.sharding == result.sharding
        };
        let last = (entry..self.statements()).rev().find(is_like_it)?;
        end(last, times)
    }

    fn entered(&self, _: usize) -> Vec<usize> {
        vec![0]
    }

    fn has_cycle_by_state(&self, _: usize, _: Range<usize>) -> bool {
        false
    }
}
