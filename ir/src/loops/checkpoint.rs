//! The values of a block that `checkpoint` keeps for gradients, and those that it computes again.
//!
//! Kinds of values are found by what computes them, not by their names: published recipes
//! (selective recomputation of attention, of the MLP, "everything but products") are the same
//! statement for every model.
//!
//! Where attention is one kernel, nothing writes its scores, and so no policy keeps them or sends
//! them to the host: whatever a checkpoint says of them, the kernel of their gradients computes
//! them again. Statements for that are written only where they give what is computed again, too, as
//! the result of attention with `checkpoint` alone. Frameworks have the same from an attention that
//! is one operation to them: policies that keep products keep its result and not those inside. The
//! alternative, to keep scores because their product is one, tears the kernel apart, for more time
//! and memory than without a checkpoint.

use indexmap::IndexSet;

use crate::Diag;
use crate::Role;
use crate::blocks::{NamedValues, Repeat, ValueGroup};
use crate::codes::repeat as codes;
use crate::functions::{Composite, Function, ReduceFn};
use crate::ids::{DimId, RepeatId, ValueId};
use crate::program::{Fusion, MapForm, Op, OpKind, Program};

impl ValueGroup {
    /// As programs write it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Program {
    /// Whether a value of a block with a checkpoint is kept for gradients; loop-carried values are.
    pub fn is_kept_for_gradients(&self, block: RepeatId) -> impl Fn(ValueId) -> bool + use<> {
        let checkpoint = self.repeats[block].checkpoint.clone();
        let recomputes_named = checkpoint.as_ref().is_some_and(|it| it.recomputes_named);
        let named = checkpoint.map(|it| self.named(block, &it.named)).unwrap_or_default();
        let unwritten = self.unwritten_scores(block);
        // What the kernel yields; where that is computed again, so are the scores for it.
        let reads = |op: &&Op| op.operands.iter().any(|it| unwritten.contains(&it.value));
        let mut yielded = self.block_ops(block).filter(reads).map(|op| op.result);
        let is_again = |value: ValueId| !unwritten.contains(&value) && named.contains(&value);
        let keeps_scores = recomputes_named && !yielded.any(is_again);
        move |value| {
            if unwritten.contains(&value) {
                keeps_scores
            } else {
                named.contains(&value) != recomputes_named
            }
        }
    }

    /// Replaces the checkpoints by a mark on the values that they name, once gradients are derived:
    /// then the statements say what is computed again. The mark is on what computes a value, in its
    /// block, and not on what moves it, which may be in the reversed block.
    pub fn mark_kept(&mut self) {
        for repeat in &mut self.repeats {
            repeat.offload = None;
            let named = repeat.checkpoint.take().filter(|checkpoint| !checkpoint.recomputes_named);
            let kept = named.map_or_else(Vec::new, |checkpoint| checkpoint.named.values);
            let makes = |op: &&mut Op| {
                !matches!(op.kind, OpKind::Collective(_)) && kept.contains(&op.result)
            };
            for op in self.ops.iter_mut().filter(makes) {
                op.is_kept = true;
            }
        }
    }

    /// The values of a block that wait for its gradients in the host's memory. Of what a layer
    /// yields to the next, that is what enters it.
    pub fn offloaded(&self, block: RepeatId) -> IndexSet<ValueId> {
        let enters = |value: ValueId| {
            let yields = self.outputs.iter().filter(|output| output.value == value);
            let carried = yields.filter_map(|output| self.carried_into(output));
            carried.into_iter().find(|&enters| self.values[enters].repeat == Some(block))
        };
        let named = self.repeats[block].offload.as_ref().map(|named| self.named(block, named));
        let unwritten = self.unwritten_scores(block);
        let named = named.into_iter().flatten().filter(|value| !unwritten.contains(value));
        named.map(|value| enters(value).unwrap_or(value)).collect()
    }

    /// The scores of a block that no kernel writes: those of attention that is one, unless they
    /// leave the block.
    fn unwritten_scores(&self, block: RepeatId) -> IndexSet<ValueId> {
        let scores: IndexSet<ValueId> = match self.fusion {
            Fusion::Attention => self.group(block, ValueGroup::Attention).into_iter().collect(),
            Fusion::None | Fusion::ElementWise => IndexSet::new(),
        };
        let outside = self.ops.iter().filter(|op| op.repeat != Some(block));
        let read = outside.flat_map(|op| op.operands.iter().map(|operand| operand.value));
        let mut leaving = self.outputs.iter().map(|output| output.value).chain(read);
        if leaving.any(|value| scores.contains(&value)) { IndexSet::new() } else { scores }
    }

    fn named(&self, block: RepeatId, named: &NamedValues) -> IndexSet<ValueId> {
        let groups = named.groups.iter().flat_map(|&group| self.group(block, group));
        groups.chain(named.values.iter().copied()).collect()
    }

    /// The values of a kind that a block computes.
    fn group(&self, block: RepeatId, group: ValueGroup) -> Vec<ValueId> {
        let ops = self.block_ops(block).filter(|op| !op.is(&MapForm::LoopCarried));
        match group {
            ValueGroup::Carried => {
                let enters = self.block_ops(block).filter(|op| op.is(&MapForm::LoopCarried));
                enters.map(|op| op.result).collect()
            }
            ValueGroup::Products => ops.filter(|op| op.is_product()).map(|op| op.result).collect(),
            ValueGroup::Attention => {
                let scores = self.scores(block);
                let is_score =
                    |op: &&Op| scores.iter().any(|dims| self.has_exactly(op.result, dims));
                ops.filter(is_score).map(|op| op.result).collect()
            }
            ValueGroup::Mlp => {
                let hidden = self.hidden_dims(block);
                let is_hidden =
                    |op: &&Op| self.values[op.result].dims.iter().any(|dim| hidden.contains(dim));
                ops.filter(is_hidden).map(|op| op.result).collect()
            }
        }
    }

    fn block_ops(&self, block: RepeatId) -> impl Iterator<Item = &Op> {
        self.ops.iter().filter(move |op| op.repeat == Some(block))
    }

    fn has_exactly(&self, value: ValueId, dims: &[DimId]) -> bool {
        let own = &self.values[value].dims;
        own.len() == dims.len() && own.iter().all(|dim| dims.contains(dim))
    }

    /// For each attention of a block the products that its scores are a sum of.
    fn scoring_products(&self, block: RepeatId) -> Vec<&Op> {
        let is_param = |value: ValueId| self.values[value].role == Some(Role::Param);
        let weights = self.block_ops(block).filter(|op| self.gives_weights(block, op));
        let products = weights.flat_map(|op| self.scored_by(block, op));
        products.filter(|op| op.operands.iter().all(|operand| !is_param(operand.value))).collect()
    }

    /// Whether results are weights of a sum: of a softmax, or of one that is written out, an `exp`
    /// whose sum is taken and by which a product sums.
    fn gives_weights(&self, block: RepeatId, op: &Op) -> bool {
        let dims = &self.values[op.result].dims;
        let has_dims =
            |other: &Op| other.operands.iter().any(|operand| self.has_exactly(operand.value, dims));
        let sums = |other: &Op| {
            matches!(other.kind, OpKind::Reduce { function: ReduceFn::Sum, .. })
                && other.operands[0].value == op.result
        };
        let is_exp = op.is(&MapForm::call(Function::Exp));
        matches!(op.kind, OpKind::Composite { function: Composite::Softmax, .. })
            || is_exp
                && self.block_ops(block).any(sums)
                && self.block_ops(block).any(|other| other.is_product() && has_dims(other))
    }

    /// The products before a softmax, with element-wise operations between them.
    fn scored_by(&self, block: RepeatId, softmax: &Op) -> Vec<&Op> {
        let dims = &self.values[softmax.result].dims;
        let scores = |op: &Op| -> Vec<ValueId> {
            let operands = op.operands.iter().map(|operand| operand.value);
            operands.filter(|&value| self.has_exactly(value, dims)).collect()
        };
        let mut found: IndexSet<ValueId> = scores(softmax).into_iter().collect();
        let mut products = Vec::new();
        let mut next = 0;
        while let Some(&value) = found.get_index(next) {
            next += 1;
            let Some(op) = self.block_ops(block).find(|op| op.result == value) else { continue };
            let is_element_wise = matches!(&op.kind, OpKind::Map(_) | OpKind::Einsum { .. });
            if op.is_product() {
                products.push(op);
            } else if is_element_wise && !op.is(&MapForm::LoopCarried) {
                found.extend(scores(op));
            }
        }
        products
    }

    /// The dimensions of the scores of each attention of a block.
    fn scores(&self, block: RepeatId) -> Vec<Vec<DimId>> {
        let products = self.scoring_products(block).into_iter();
        products.map(|op| self.values[op.result].dims.clone()).collect()
    }

    /// The dimensions that a product with a parameter makes and another sums over, without those
    /// of loop-carried values and of attention.
    fn hidden_dims(&self, block: RepeatId) -> Vec<DimId> {
        let of_attention: Vec<DimId> = self
            .scoring_products(block)
            .into_iter()
            .flat_map(|op| op.operands.iter().flat_map(|it| &self.values[it.value].dims))
            .copied()
            .collect();
        let carried = self.block_ops(block).filter(|op| op.is(&MapForm::LoopCarried));
        let carried: Vec<DimId> =
            carried.flat_map(|op| self.values[op.result].dims.clone()).collect();
        let weighted: Vec<&Op> = self
            .block_ops(block)
            .filter(|op| {
                let role = |value: ValueId| self.values[value].role;
                op.is_product() && op.operands.iter().any(|it| role(it.value) == Some(Role::Param))
            })
            .collect();
        let makes = |op: &Op, dim: DimId| {
            let has = op.operands.iter().filter(|it| self.values[it.value].dims.contains(&dim));
            self.values[op.result].dims.contains(&dim) && has.count() == 1
        };
        let sums = |op: &Op, dim: DimId| match &op.kind {
            OpKind::Einsum { contracted } => contracted.contains(&dim),
            _ => false,
        };
        self.dims
            .indices()
            .filter(|dim| !of_attention.contains(dim) && !carried.contains(dim))
            .filter(|&dim| weighted.iter().any(|op| makes(op, dim)))
            .filter(|&dim| weighted.iter().any(|op| sums(op, dim)))
            .collect()
    }
}

/// Checkpoints that name nothing of their blocks.
pub fn faults(program: &Program) -> Vec<Diag> {
    let of_block = |(block, repeat): (RepeatId, &Repeat)| {
        let again = repeat.checkpoint.as_ref().filter(|checkpoint| checkpoint.recomputes_named);
        let again = again.map(|checkpoint| (&checkpoint.named, "computed again in it"));
        let offload = repeat.offload.as_ref().map(|named| (named, "kept by its layers"));
        let outside = again.into_iter().chain(offload);
        let outside =
            outside.flat_map(move |(named, what)| outside_of(program, block, named, what));
        let empty = repeat.named_values().flat_map(move |named| empty(program, block, named));
        outside.chain(empty).collect::<Vec<_>>()
    };
    program.repeats.iter_enumerated().flat_map(of_block).collect()
}

fn fault(
    program: &Program,
    (block, named): (RepeatId, &NamedValues),
    message: String,
    help: &str,
) -> Diag {
    let diag = Diag::error(codes::CHECKPOINT, message, named.span, "names nothing here");
    diag.and(program.repeats[block].span, "the block").help(help)
}

/// Named values that a block does not compute, and that cannot be `what`.
fn outside_of(program: &Program, block: RepeatId, named: &NamedValues, what: &str) -> Vec<Diag> {
    let outside = named.values.iter().filter(|&&value| program.values[value].repeat != Some(block));
    let outside = outside.map(|&value| {
        let name = &program.values[value].name;
        let message = format!("`{name}` is not computed in this block, and cannot be {what}");
        fault(program, (block, named), message, "name values of the block")
    });
    outside.collect()
}

/// Named kinds of values that a block does not have.
fn empty(program: &Program, block: RepeatId, named: &NamedValues) -> Vec<Diag> {
    let fault = |message: String, help: &str| fault(program, (block, named), message, help);
    let empty = named.groups.iter().filter(|&&group| program.group(block, group).is_empty());
    let empty = empty.map(|group| match group {
        ValueGroup::Products => {
            fault("the block has no products".to_owned(), "name values, or write `checkpoint`")
        }
        ValueGroup::Carried => {
            fault("the block carries nothing".to_owned(), "name values, or `carry` them")
        }
        ValueGroup::Attention => fault(
            "the block has no attention".to_owned(),
            "attention is a softmax over a product of two values that are no parameters",
        ),
        ValueGroup::Mlp => fault(
            "the block has no MLP".to_owned(),
            "an MLP makes a dimension by a product with a parameter, and sums over it by another",
        ),
    });
    empty.collect()
}
