//! Who reads what a step gives: the link from a collective to the statement, the brackets or the
//! output that it is there for.
//!
//! Comparing plans (which collective is the same one) and explaining them (why it is there) read
//! the same answer.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_passes::cost::report::StepCost;

/// Something that needs a value in a certain sharding. The order is that in which they are told: a
/// home first, outputs last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reader {
    /// The brackets on the left side of the statement that gives the value.
    Home(ValueId),
    /// A local operation: the number of its step, and the operation.
    Statement(usize, OpId),
    /// An output declaration, by its place among the program's.
    Output(usize),
}

/// For each step of a plan, what reads its result.
pub(crate) struct Readers<'p> {
    plan: &'p Plan,
    /// For each step, the steps that give its operands; absent for declared ones.
    givers: Vec<Vec<Option<usize>>>,
    reading: Vec<Vec<usize>>,
    /// For each step, the outputs that leave with what it gives.
    leaving: Vec<Vec<usize>>,
}

impl<'p> Readers<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Self {
        let mut given: IndexMap<&Materialization, usize, FxBuildHasher> = IndexMap::default();
        let mut reading = vec![Vec::new(); plan.steps.len()];
        let mut givers = Vec::with_capacity(plan.steps.len());
        for (number, step) in plan.steps.iter().enumerate() {
            let from: Vec<Option<usize>> =
                step.operands.iter().map(|operand| given.get(operand).copied()).collect();
            from.iter().flatten().for_each(|&giver| reading[giver].push(number));
            givers.push(from);
            given.insert(&step.result, number);
        }
        let mut leaving = vec![Vec::new(); plan.steps.len()];
        for (place, output) in plan.program.outputs.iter().enumerate() {
            let accepted = given
                .iter()
                .filter(|(of, _)| of.value == output.value && output.pin.accepts(&of.sharding));
            accepted.for_each(|(_, &step)| leaving[step].push(place));
        }
        Self { plan, givers, reading, leaving }
    }

    /// The step that gives an operand of step `number`; `None` where it is declared so.
    pub(crate) fn giver(&self, number: usize, operand: usize) -> Option<usize> {
        self.givers[number][operand]
    }

    /// Everything that reads what step `number` gives, through the collectives in between.
    pub(crate) fn of(&self, number: usize) -> Vec<Reader> {
        let mut found = Vec::new();
        let mut open = vec![number];
        while let Some(step) = open.pop() {
            found.extend(self.home(step));
            found.extend(self.leaving[step].iter().map(|&output| Reader::Output(output)));
            for &later in &self.reading[step] {
                match self.plan.steps[later].kind {
                    StepKind::Local(op) => found.push(Reader::Statement(later, op)),
                    StepKind::Collective(..) => open.push(later),
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The left side's brackets, if a collective brings the value there.
    fn home(&self, number: usize) -> Option<Reader> {
        let Step { kind: StepKind::Collective(..), result, .. } = &self.plan.steps[number] else {
            return None;
        };
        let value = &self.plan.program.values[result.value];
        let arrives = value.producer.is_some()
            && value.declared_sharding.as_ref().is_some_and(|home| home.accepts(&result.sharding));
        arrives.then_some(Reader::Home(result.value))
    }
}

/// Whether a step moves data between devices: a slice does not, and neither does a collective over
/// axes of one device.
pub(crate) fn moves_data(step: &Step, cost: &StepCost) -> bool {
    cost.is_move(step) && cost.seconds > 0.0
}
