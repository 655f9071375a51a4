//! Finds the uses of a step's result: the statement, brackets or output that a collective is for,
//! read from the plan's dataflow graph.
//!
//! `diff` (to match collectives) and `explain` (to explain them) both use it.

use shardwise_ir::dataflow::{Dataflow, Node};
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_passes::report::StepCost;

use crate::Planned;

/// A use of a value in a certain sharding. The order is that in which they are
/// reported: a declared sharding first, outputs last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// The brackets on the left side of the statement that defines the value.
    DeclaredSharding(ValueId),
    /// A local operation: the number of its step, and the operation.
    Statement(usize, OpId),
    /// An output declaration, by its place among the program's.
    Output(usize),
}

/// A plan and its dataflow.
#[derive(Clone, Copy)]
pub(crate) struct UseDef<'p> {
    plan: &'p Plan,
    dataflow: &'p Dataflow<usize>,
}

impl<'p> UseDef<'p> {
    pub(crate) fn of(planned: &'p Planned) -> Self {
        Self { plan: &planned.plan, dataflow: planned.plan.dataflow() }
    }

    /// The operation that gives a value; `None` for a declared one.
    pub(crate) fn operation(self, value: ValueId) -> Option<OpId> {
        match self.plan.steps[self.dataflow.definition(value)?].kind {
            StepKind::Local(op) => Some(op),
            StepKind::Collective(_, op) => op,
        }
    }

    /// The step that produces an operand of step `number`; `None` where it is declared so.
    pub(crate) fn producer(self, number: usize, operand: usize) -> Option<usize> {
        match self.dataflow.producer(number, operand)? {
            Node::Statement(producer) => Some(producer),
            Node::Declared(_) | Node::Output(_) => None,
        }
    }

    /// Everything that uses what step `number` produces, through the collectives in between.
    pub(crate) fn users(self, number: usize) -> Vec<User> {
        let mut found = Vec::new();
        let mut open = vec![number];
        while let Some(step) = open.pop() {
            found.extend(self.declared_sharding(step));
            found.extend(self.dataflow.outputs(step).map(User::Output));
            for (later, _) in self.dataflow.readers(step) {
                match self.plan.steps[later].kind {
                    StepKind::Local(op) => found.push(User::Statement(later, op)),
                    StepKind::Collective(..) => open.push(later),
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The left side's brackets, if a collective reshards the value to them.
    fn declared_sharding(self, number: usize) -> Option<User> {
        let Step { kind: StepKind::Collective(..), result, .. } = &self.plan.steps[number] else {
            return None;
        };
        let value = &self.plan.program.values[result.value];
        let arrives = !value.is_declared()
            && value.declared_sharding.as_ref().is_some_and(|pin| pin.accepts(&result.sharding));
        arrives.then_some(User::DeclaredSharding(result.value))
    }
}

/// Whether a step communicates: a slice does not, and neither does a collective over axes of one
/// device.
pub(crate) fn moves_data(step: &Step, cost: &StepCost) -> bool {
    cost.is_move(step) && cost.seconds > 0.0
}
