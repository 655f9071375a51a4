//! Places each statement before the microbatches, in them or after them, by the form of its result.

use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{
    BatchSplit, BlockKind, Blocks, KernelPart, MapFn, MapForm, Op, OpKind, Operand, Program,
    Repeat, Share, Value,
};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::shape::infer_shape;
use shardwise_ir::sharding::Pin;

use super::forms::{MicrobatchForm, MicrobatchForms};
use super::{Batch, Parts, dims, fresh};
use crate::training::optimizer;

/// Returns the program with the batch split into microbatches, its values not yet in topological
/// order.
pub(super) fn rewrite(
    program: Analyzed,
    batch: Batch,
    parts: &Parts,
    forms: &MicrobatchForms,
) -> Program {
    let updates = Some(&program)
        .filter(|program| program.optimizer.is_some())
        .map_or_else(Vec::new, optimizer::trained);
    let updates = updates.into_iter().map(|(_, gradient)| gradient).collect();
    let mut program = program.into_program();
    let cut = BatchSplit { batch: batch.dim, microbatch: parts[&batch.dim] };
    let name = program.dims[batch.dim].name.clone();
    let repeat = Repeat {
        name,
        count: batch.count,
        reversed: None,
        checkpoint: None,
        offload: None,
        kept_gathered: Vec::new(),
        within: None,
        kind: BlockKind::Layers,
        microbatches_of: Some(cut),
        scan: None,
        pipeline: None,
        span: batch.span,
    };
    let microbatches = program.repeats.push(repeat);
    for &block in &forms.inside {
        program.repeats[block].within.get_or_insert(microbatches);
    }
    let old: Vec<Op> = std::mem::take(&mut program.ops).into_iter().collect();
    let mut rewriter = MicrobatchRewriter {
        program,
        forms,
        parts,
        cut,
        microbatches,
        rows: IndexMap::new(),
        combined: IndexMap::new(),
        counterpart: IndexMap::new(),
        lists: Lists::default(),
    };
    rewriter.needed_after(&old, updates);
    rewriter.name_parts();
    rewriter.write(&old);
    rewriter.program
}

/// The statements of the rewritten program, in four groups.
#[derive(Default)]
struct Lists {
    before: Vec<Op>,
    parts: Vec<Op>,
    inside: Vec<Op>,
    after: Vec<Op>,
}

struct MicrobatchRewriter<'s> {
    program: Program,
    forms: &'s MicrobatchForms,
    parts: &'s Parts,
    cut: BatchSplit,
    microbatches: RepeatId,
    /// For a declared value of the batch, the rows that a microbatch reads in a block.
    rows: IndexMap<(ValueId, Option<RepeatId>), ValueId>,
    /// For a value of each microbatch, the result combined over all: joined rows, or a sum.
    combined: IndexMap<ValueId, ValueId>,
    /// For a block in the microbatches, the one after them that iterates over the same layers.
    counterpart: IndexMap<RepeatId, RepeatId>,
    lists: Lists,
}

impl MicrobatchRewriter<'_> {
    fn is_inside(&self, value: ValueId) -> bool {
        !self.program.is_declared(value) && self.forms.of(value).is_inside()
    }

    /// Adds a combined value for each value of the microbatches that is read after them, is an
    /// output, or will be read by the optimizer.
    fn needed_after(&mut self, old: &[Op], updates: Vec<ValueId>) {
        let after = old
            .iter()
            .enumerate()
            .filter(|(id, op)| self.forms.of_op(OpId::new(*id), op) == MicrobatchForm::After);
        let read = after.flat_map(|(_, op)| &op.operands).map(|operand| operand.value);
        let leaving = self
            .program
            .outputs
            .iter()
            .filter(|output| self.program.carried_into(output).is_none())
            .map(|output| output.value);
        let needed: IndexSet<ValueId> =
            read.chain(leaving).chain(updates).filter(|&value| self.is_inside(value)).collect();
        for value in needed {
            let block = self.program.repeats.layer_block(self.program.values[value].repeat);
            let repeat = block.map(|block| self.counterpart(block));
            let declared = self.program.values[value]
                .declared_sharding
                .clone()
                .filter(|_| self.forms.of(value) != MicrobatchForm::Rows);
            let combined = Value {
                declared_sharding: declared,
                repeat,
                dtype_written: false,
                ..self.program.values[value].clone()
            };
            let combined = self.program.values.push(combined);
            self.combined.insert(value, combined);
        }
        let enters: Vec<bool> = self
            .program
            .outputs
            .iter()
            .map(|output| self.program.carried_into(output).is_some())
            .collect();
        for (output, _) in self.program.outputs.iter_mut().zip(enters).filter(|(_, enters)| !enters)
        {
            output.value = self.combined.get(&output.value).copied().unwrap_or(output.value);
        }
    }

    /// The block after the microbatches that iterates over the layers of `block`.
    fn counterpart(&mut self, block: RepeatId) -> RepeatId {
        if let Some(&known) = self.counterpart.get(&block) {
            return known;
        }
        let layers = self.program.repeats.forward_block(block);
        let around = self.program.repeats.layer_block(self.program.repeats[block].within);
        let within = around.map(|around| self.counterpart(around));
        let Repeat { name, count, scan, span, .. } = self.program.repeats[block].clone();
        let repeat = Repeat {
            name,
            count,
            reversed: Some(layers),
            checkpoint: None,
            offload: None,
            kept_gathered: Vec::new(),
            within,
            kind: BlockKind::Layers,
            microbatches_of: None,
            scan,
            pipeline: None,
            span,
        };
        let new = self.program.repeats.push(repeat);
        self.counterpart.insert(block, new);
        new
    }

    /// Values in the microbatches get the dimensions of their rows, and names of their own where
    /// the combined value exists too.
    fn name_parts(&mut self) {
        let old = self.forms.of_values.len();
        for index in 0..old {
            let id = ValueId::new(index);
            if !self.is_inside(id) {
                continue;
            }
            if self.combined.contains_key(&id) {
                self.program.values[id].name =
                    fresh(&self.program, &self.program.values[id].name, "part");
            }
            let share = self.forms.of(id) == MicrobatchForm::Share;
            let value = &mut self.program.values[id];
            for dim in &mut value.dims {
                *dim = dims::part(self.parts, *dim);
            }
            if value.repeat.is_none() {
                value.repeat = Some(self.microbatches);
            }
            if share {
                value.declared_sharding = None;
            }
        }
    }

    fn write(&mut self, old: &[Op]) {
        let mut start = 0;
        for run in old.chunk_by(|a, b| a.repeat == b.repeat) {
            let ids = start..start + run.len();
            start = ids.end;
            self.combine_results(run);
            for (id, op) in ids.zip(run) {
                let id = OpId::new(id);
                match self.forms.of_op(id, op) {
                    MicrobatchForm::Before => {
                        let op = self.reading(id, op, MicrobatchForm::Before);
                        self.lists.before.push(op);
                    }
                    MicrobatchForm::After => self.after(id, op),
                    form => self.inside(id, op, form),
                }
            }
        }
        let Lists { before, parts, inside, after } = std::mem::take(&mut self.lists);
        self.program.ops = before
            .into_iter()
            .chain(parts)
            .chain(inside)
            .chain(after)
            .collect::<IndexVec<OpId, Op>>();
    }

    /// Appends the operations that combine the results of a run of statements, where they are
    /// needed after the microbatches.
    fn combine_results(&mut self, run: &[Op]) {
        for op in run.iter().filter(|op| !op.is_reshard()) {
            let Some(&combined) = self.combined.get(&op.result) else { continue };
            let kind = match self.forms.of(op.result) {
                MicrobatchForm::Rows => OpKind::Rearrange(Rearrange::Join {
                    from: self.cut.microbatch,
                    to: self.cut.batch,
                }),
                MicrobatchForm::Share => OpKind::Map(MapFn::new(MapForm::Total)),
                _ => OpKind::Map(MapFn::new(MapForm::Last)),
            };
            let operands = vec![Operand { value: op.result, pin: None, span: op.span }];
            let (result_pin, repeat) = (
                self.program.values[combined].declared_sharding.clone(),
                self.program.values[combined].repeat,
            );
            self.lists.after.push(Op {
                kind,
                operands,
                result: combined,
                result_pin,
                repeat,
                share: Share::WHOLE,
                is_kept: false,
                kernel: KernelPart::default(),
                ..op.clone()
            });
        }
    }

    fn after(&mut self, id: OpId, op: &Op) {
        let mut op = self.reading(id, op, MicrobatchForm::After);
        for operand in &mut op.operands {
            operand.value = self.combined.get(&operand.value).copied().unwrap_or(operand.value);
        }
        if let Some(block) = op.repeat.filter(|block| self.forms.inside.contains(block)) {
            let block = self.counterpart(block);
            op.repeat = Some(block);
            self.program.values[op.result].repeat = Some(block);
        }
        self.lists.after.push(op);
    }

    fn inside(&mut self, id: OpId, op: &Op, form: MicrobatchForm) {
        let mut op = self.reading(id, op, form);
        op.repeat = op.repeat.or(Some(self.microbatches));
        dims::cut(self.parts, &mut op.kind);
        for operand in &mut op.operands {
            if self.program.is_declared(operand.value)
                && self.forms.of(operand.value) == MicrobatchForm::Rows
            {
                operand.value = self.rows_of(operand.value, op.repeat);
            }
            let is_share =
                self.forms.of_values.get(operand.value.index()) == Some(&MicrobatchForm::Share);
            if is_share && !matches!(op.kind, OpKind::Collective(_)) {
                operand.pin = None;
            }
        }
        if form == MicrobatchForm::Share && !matches!(op.kind, OpKind::Collective(_)) {
            // Such a statement gets its result's dimensions from its left side only.
            let orders = op.is_view() || self.is_reordered(&op);
            op.result_pin = orders.then(|| self.open_pin(op.result));
            self.program.values[op.result].declared_sharding.clone_from(&op.result_pin);
        } else if op.result_pin.is_none() && self.is_reordered(&op) {
            // An output's brackets no longer order its dimensions, so its own have to.
            op.result_pin = Some(self.open_pin(op.result));
            self.program.values[op.result].declared_sharding.clone_from(&op.result_pin);
        }
        self.lists.inside.push(op);
    }

    /// Whether a result has its dimensions in another order than its operands give.
    fn is_reordered(&self, op: &Op) -> bool {
        let values = &self.program.values;
        let operands = op.operands.iter().map(|operand| values[operand.value].dims.as_slice());
        infer_shape(&op.kind, &operands.collect::<Vec<_>>()) != values[op.result].dims
    }

    /// Brackets that leave every axis open.
    fn open_pin(&self, value: ValueId) -> Pin {
        let rank = self.program.values[value].dims.len();
        Pin::open(rank)
    }

    /// An operation that reads only the dimensions of its operand, with the operand replaced by a
    /// value that is available.
    fn reading(&self, id: OpId, op: &Op, form: MicrobatchForm) -> Op {
        let mut op = op.clone();
        if let Some(like) = self.forms.like[id.index()].filter(|_| form != MicrobatchForm::After) {
            op.operands[0].value = like;
            op.operands[0].pin = None;
        }
        op
    }

    /// The rows of a declared value of the batch that a microbatch reads.
    fn rows_of(&mut self, value: ValueId, place: Option<RepeatId>) -> ValueId {
        let of_layers = self.program.values[value].repeat.is_some();
        let place = place.filter(|_| of_layers);
        if let Some(&known) = self.rows.get(&(value, place)) {
            return known;
        }
        let declared = &self.program.values[value];
        let span = declared.span;
        let rows = Value {
            name: fresh(&self.program, &declared.name, "part"),
            dims: declared.dims.iter().map(|&dim| dims::part(self.parts, dim)).collect(),
            dtype_written: false,
            role: None,
            declared_sharding: None,
            repeat: place.or(Some(self.microbatches)),
            ..declared.clone()
        };
        let repeat = rows.repeat;
        let rows = self.program.values.push(rows);
        self.rows.insert((value, place), rows);
        let kind = OpKind::Rearrange(Rearrange::Part {
            from: self.cut.batch,
            to: self.cut.microbatch,
            first: 0,
        });
        let operands = vec![Operand { value, pin: None, span }];
        let op = Op {
            kind,
            operands,
            result: rows,
            result_pin: None,
            phase: shardwise_ir::program::Phase::Forward,
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            repeat,
            span,
        };
        if of_layers {
            self.lists.inside.push(op);
        } else {
            self.lists.parts.push(op);
        }
        rows
    }
}
