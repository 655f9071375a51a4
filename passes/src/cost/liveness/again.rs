//! What the backward part computes again: it has a second live range, and what it is computed from
//! a longer one.

use shardwise_ir::dataflow::{Node, NodeIndex};
use shardwise_ir::ids::RepeatId;
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::{Op, OpKind};
use shardwise_ir::rearrange::Rearrange;

use super::LiveRanges;
use super::sweep::LiveRange;
use crate::fusion::is_element_wise;
use crate::layouts::local_shape;

impl LiveRanges<'_> {
    /// Whether a node is an element-wise result of the forward part that the backward part computes
    /// again.
    pub(super) fn is_recomputed(&self, node: NodeIndex) -> bool {
        match self.dataflow.graph()[node] {
            Node::Statement(step) => match self.plan.steps[step].kind {
                StepKind::Local(op) => self.plan.program.ops[op].kernel.is_recomputed(),
                StepKind::Collective(..) => false,
            },
            _ => false,
        }
    }

    /// Extends the second range of a result that is computed again by the steps for which it is
    /// read, where the reader needs it in memory: an element-wise one computes it on the way.
    pub(super) fn read_again(
        &mut self,
        node: NodeIndex,
        op: Option<&Op>,
        (from, until): (usize, usize),
        place: Option<RepeatId>,
    ) {
        let Some(of) = self.materialization(node) else { return };
        let in_passing = op.is_some_and(|op| is_element_wise(&self.plan.program, op))
            || self.is_read_from_origin(node);
        if !in_passing {
            let bytes = local_shape::local_bytes(&self.plan.program, of.value, &of.sharding);
            let first = || LiveRange::new(bytes, from..=until);
            let range = self.again.entry(node).or_insert_with(first);
            range.to = range.to.max(until);
        }
        self.extend_origins(node, until, place);
    }

    /// Leaves out of second ranges what the first ones last for: a result that is kept, as by a
    /// stage whose directions alternate, is not there twice.
    pub(super) fn join_again(&mut self) {
        for (node, again) in &mut self.again {
            let first = self.ranges[node.index()].as_ref().map(|alive| &alive.life);
            if let Some(first) = first.filter(|first| first.bytes > 0.0 && again.from <= first.to) {
                again.from = first.to + 1;
            }
        }
        self.again.retain(|_, again| again.from <= again.to);
    }

    /// Whether a node takes windows or converts values, which products read from what they are of.
    fn is_read_from_origin(&self, node: NodeIndex) -> bool {
        let Node::Statement(step) = self.dataflow.graph()[node] else { return false };
        let StepKind::Local(op) = self.plan.steps[step].kind else { return false };
        let op = &self.plan.program.ops[op];
        self.plan.program.values[op.result].stored_as.is_some()
            || matches!(op.kind, OpKind::Rearrange(Rearrange::Windows(_)))
    }

    /// Extends the ranges of what a node is computed again from to step `at`.
    fn extend_origins(&mut self, node: NodeIndex, at: usize, place: Option<RepeatId>) {
        let Node::Statement(number) = self.dataflow.graph()[node] else { return };
        if self.extended.insert(node, at) == Some(at) {
            return;
        }
        for (position, operand) in self.plan.steps[number].operands.iter().enumerate() {
            match self.dataflow.source(number, position) {
                Some(source) if self.is_recomputed(source) => {
                    self.extend_origins(source, at, place);
                }
                Some(source) => self.read(source, operand.value, at, place),
                None => {}
            }
        }
    }
}
