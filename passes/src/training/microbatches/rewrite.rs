//! Places statements by their stage: before the microbatches, in them, or after them.

use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{
    BatchSplit, Blocks, MapFn, MapForm, Op, OpKind, Operand, Program, Repeat, Value,
};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::sharding::{Pin, Unreduced};

use super::stages::{Stage, Stages};
use super::{Batch, Parts, dims, fresh};
use crate::training::optimizer;

/// The program cut, its values not yet in order.
pub(super) fn rewrite(program: Program, batch: Batch, parts: &Parts, stages: &Stages) -> Program {
    let mut program = program;
    let cut = BatchSplit { batch: batch.dim, microbatch: parts[&batch.dim] };
    let name = program.dims[batch.dim].name.clone();
    let repeat = Repeat {
        name,
        count: batch.count,
        reversed: None,
        saved: None,
        kept_gathered: Vec::new(),
        within: None,
        microbatches_of: Some(cut),
        pipeline: None,
        span: batch.span,
    };
    let microbatches = program.repeats.push(repeat);
    for &block in &stages.inside {
        program.repeats[block].within = Some(microbatches);
    }
    let updates = Some(&program)
        .filter(|program| program.optimizer.is_some())
        .map_or_else(Vec::new, optimizer::trained);
    let updates = updates.into_iter().map(|(_, gradient)| gradient).collect();
    let old: Vec<Op> = std::mem::take(&mut program.ops).into_iter().collect();
    let mut writer = Writer {
        program,
        stages,
        parts,
        cut,
        microbatches,
        rows: IndexMap::new(),
        whole: IndexMap::new(),
        once_more: IndexMap::new(),
        lists: Lists::default(),
    };
    writer.needed_behind(&old, updates);
    writer.name_parts();
    writer.write(&old);
    writer.program
}

/// Statements so far.
#[derive(Default)]
struct Lists {
    before: Vec<Op>,
    parts: Vec<Op>,
    inside: Vec<Op>,
    behind: Vec<Op>,
}

struct Writer<'s> {
    program: Program,
    stages: &'s Stages,
    parts: &'s Parts,
    cut: BatchSplit,
    microbatches: RepeatId,
    /// Of what is declared for the batch, the rows that a microbatch reads in a block.
    rows: IndexMap<(ValueId, Option<RepeatId>), ValueId>,
    /// Of what each microbatch gives, what is made of all.
    whole: IndexMap<ValueId, ValueId>,
    /// For a block among the microbatches, the one behind them that goes through the same layers.
    once_more: IndexMap<RepeatId, RepeatId>,
    lists: Lists,
}

impl Writer<'_> {
    fn is_inside(&self, value: ValueId) -> bool {
        !self.program.is_declared(value) && self.stages.of(value).is_inside()
    }

    /// Notes what of the microbatches is read behind them, leaves, or is what an optimizer will
    /// read.
    fn needed_behind(&mut self, old: &[Op], updates: Vec<ValueId>) {
        let behind = old
            .iter()
            .enumerate()
            .filter(|(id, op)| self.stages.of_op(OpId::new(*id), op) == Stage::After);
        let read = behind.flat_map(|(_, op)| &op.operands).map(|operand| operand.value);
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
            let repeat = block.map(|block| self.once_more(block));
            let home = self.program.values[value]
                .declared_sharding
                .clone()
                .filter(|_| self.stages.of(value) != Stage::Rows);
            let whole = Value {
                declared_sharding: home,
                repeat,
                producer: None,
                dtype_written: false,
                ..self.program.values[value].clone()
            };
            let whole = self.program.values.push(whole);
            self.whole.insert(value, whole);
        }
        let enters: Vec<bool> = self
            .program
            .outputs
            .iter()
            .map(|output| self.program.carried_into(output).is_some())
            .collect();
        for (output, _) in self.program.outputs.iter_mut().zip(enters).filter(|(_, enters)| !enters)
        {
            output.value = self.whole.get(&output.value).copied().unwrap_or(output.value);
        }
    }

    /// The block behind the microbatches that goes through the layers of `block`.
    fn once_more(&mut self, block: RepeatId) -> RepeatId {
        if let Some(&known) = self.once_more.get(&block) {
            return known;
        }
        let layers = self.program.repeats.forward_block(block);
        let Repeat { name, count, span, .. } = self.program.repeats[block].clone();
        let repeat = Repeat {
            name,
            count,
            reversed: Some(layers),
            saved: None,
            kept_gathered: Vec::new(),
            within: None,
            microbatches_of: None,
            pipeline: None,
            span,
        };
        let new = self.program.repeats.push(repeat);
        self.once_more.insert(block, new);
        new
    }

    /// What a microbatch has of values: their rows, and names of its own where the whole is there,
    /// too.
    fn name_parts(&mut self) {
        let old = self.stages.stage.len();
        for index in 0..old {
            let id = ValueId::new(index);
            if !self.is_inside(id) {
                continue;
            }
            if self.whole.contains_key(&id) {
                self.program.values[id].name =
                    fresh(&self.program, &self.program.values[id].name, "part");
            }
            let share = self.stages.of(id) == Stage::Share;
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
            self.take_out(run, ids.start);
            for (id, op) in ids.zip(run) {
                let id = OpId::new(id);
                match self.stages.of_op(id, op) {
                    Stage::Before => {
                        let op = self.reading(id, op, Stage::Before);
                        self.lists.before.push(op);
                    }
                    Stage::After => self.behind(id, op),
                    stage => self.inside(id, op, stage),
                }
            }
        }
        let Lists { before, parts, inside, behind } = std::mem::take(&mut self.lists);
        self.program.ops = before
            .into_iter()
            .chain(parts)
            .chain(inside)
            .chain(behind)
            .collect::<IndexVec<OpId, Op>>();
    }

    /// Makes wholes of what a run of statements gives and something behind the microbatches needs.
    fn take_out(&mut self, run: &[Op], start: usize) {
        for (offset, op) in run.iter().enumerate() {
            let gives = self.program.values[op.result].producer == Some(OpId::new(start + offset));
            let Some(&whole) = self.whole.get(&op.result).filter(|_| gives) else { continue };
            let kind = match self.stages.of(op.result) {
                Stage::Rows => OpKind::Rearrange(Rearrange::Join {
                    from: self.cut.microbatch,
                    to: self.cut.batch,
                }),
                Stage::Share => OpKind::Map(MapFn::new(MapForm::Total)),
                _ => OpKind::Map(MapFn::new(MapForm::Last)),
            };
            let operands = vec![Operand { value: op.result, pin: None, span: op.span }];
            let (result_pin, repeat) = (
                self.program.values[whole].declared_sharding.clone(),
                self.program.values[whole].repeat,
            );
            self.lists.behind.push(Op {
                kind,
                operands,
                result: whole,
                result_pin,
                repeat,
                share: 1.0,
                ..op.clone()
            });
        }
    }

    fn behind(&mut self, id: OpId, op: &Op) {
        let mut op = self.reading(id, op, Stage::After);
        for operand in &mut op.operands {
            operand.value = self.whole.get(&operand.value).copied().unwrap_or(operand.value);
        }
        if let Some(block) = op.repeat.filter(|block| self.stages.inside.contains(block)) {
            let block = self.once_more(block);
            op.repeat = Some(block);
            self.program.values[op.result].repeat = Some(block);
        }
        self.lists.behind.push(op);
    }

    fn inside(&mut self, id: OpId, op: &Op, stage: Stage) {
        let mut op = self.reading(id, op, stage);
        op.repeat = op.repeat.or(Some(self.microbatches));
        dims::cut(self.parts, &mut op.kind);
        for operand in &mut op.operands {
            if self.program.is_declared(operand.value)
                && self.stages.of(operand.value) == Stage::Rows
            {
                operand.value = self.rows_of(operand.value, op.repeat);
            }
            let is_share = self.stages.stage.get(operand.value.index()) == Some(&Stage::Share);
            if is_share && !matches!(op.kind, OpKind::Collective(_)) {
                operand.pin = None;
            }
        }
        if stage == Stage::Share && !matches!(op.kind, OpKind::Collective(_)) {
            // Only its left side says what such a statement leads to.
            let leads =
                matches!(op.kind, OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)));
            let rank = self.program.values[op.result].dims.len();
            op.result_pin =
                leads.then(|| Pin { dims: vec![None; rank], unreduced: Unreduced::default() });
            self.program.values[op.result].declared_sharding.clone_from(&op.result_pin);
        }
        self.lists.inside.push(op);
    }

    /// An operation with what it only looks at the dimensions of replaced by something that is
    /// there.
    fn reading(&self, id: OpId, op: &Op, stage: Stage) -> Op {
        let mut op = op.clone();
        if let Some(like) = self.stages.like[id.index()].filter(|_| stage != Stage::After) {
            op.operands[0].value = like;
            op.operands[0].pin = None;
        }
        op
    }

    /// The rows that a microbatch has of what is declared for the batch.
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
            producer: None,
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
            share: 1.0,
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
