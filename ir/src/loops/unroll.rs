//! Unrolls blocks: every layer and microbatch gets its own operations and values.
//!
//! This is the language's definition of blocks, for code that executes programs or compares layers.
//! Planning never unrolls: a body is planned once, however many layers there are.
//!
//! Layers of a pipeline are unrolled like others, each copy with its stage: microbatches change no
//! value, so the complete batch passes at once. A value that leaves the layers is a partial sum
//! over the stages, zero on the stages that do not compute it.

use index_vec::IndexVec;
use indexmap::IndexMap;

use crate::functions::{Arithmetic, Function};
use crate::ids::{AxisId, OpId, RepeatId, ValueId};
use crate::plan::{Materialization, Plan, Step, StepKind};
use crate::program::{
    BlockKind, Blocks, Budget, MapFn, MapForm, Op, OpKind, Operand, Output, Program, Value,
};
use crate::rearrange::Rearrange;

/// The index of a copy; 0 where there is only one. Of layers in layers, all are counted in one go:
/// with 5 inner layers, the second of the third outer layer is 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Copy {
    /// The layer.
    pub layer: u64,
    /// The microbatch.
    pub microbatch: u64,
}

/// A plan without blocks, and the origin of each of its steps.
pub struct Unrolled {
    /// The plan.
    pub plan: Plan,
    /// For each step, the step that it is a copy of, and the index of the copy.
    pub from: Vec<(usize, Copy)>,
    /// For a value of one stage only, that stage.
    pub stages: IndexVec<ValueId, Option<Stage>>,
    /// For a value between the blocks of a pipeline that is a sum of what several stages have, the
    /// stage axis.
    pub parts: IndexVec<ValueId, Option<AxisId>>,
}

/// A stage of a pipeline: the devices at one coordinate of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The stage axis.
    pub axis: AxisId,
    /// The coordinate.
    pub number: u64,
}

/// `program` with so many layers or microbatches of each block written out.
pub fn program(program: &Program, counts: &dyn Fn(RepeatId) -> u64) -> Program {
    Writer::new(program, counts).program
}

/// `plan` with so many layers or microbatches of each block written out.
pub fn plan(plan: &Plan, counts: &dyn Fn(RepeatId) -> u64) -> Unrolled {
    let writer = Writer::new(&plan.program, counts);
    let within: Vec<Option<RepeatId>> = plan.steps.iter().map(|step| step.repeat).collect();
    let copies = writer.order(&within).into_iter().flat_map(|(number, copy)| {
        writer.steps(&plan.steps[number], copy).into_iter().map(move |step| (step, (number, copy)))
    });
    let (steps, from) = copies.unzip();
    let Writer { program, stages, parts, .. } = writer;
    Unrolled { plan: Plan { program, steps }, from, stages, parts }
}

struct Writer<'p> {
    old: &'p Program,
    counts: &'p dyn Fn(RepeatId) -> u64,
    /// For each block, the blocks around it and itself, and its layers in all of these.
    paths: IndexVec<RepeatId, (Vec<RepeatId>, u64)>,
    /// For each value, its first copy; the others follow, those of one layer side by side.
    first: IndexVec<ValueId, ValueId>,
    stages: IndexVec<ValueId, Option<Stage>>,
    parts: IndexVec<ValueId, Option<AxisId>>,
    copies: IndexMap<(OpId, Copy), OpId>,
    /// For each copy of a `total`, the additions that it becomes.
    sums: IndexMap<(OpId, Copy), Vec<OpId>>,
    program: Program,
}

impl<'p> Writer<'p> {
    fn new(old: &'p Program, counts: &'p dyn Fn(RepeatId) -> u64) -> Self {
        let empty = Program {
            values: IndexVec::new(),
            ops: IndexVec::new(),
            repeats: IndexVec::new(),
            outputs: Vec::new(),
            asserts: old.asserts.clone(),
            mode: old.mode,
            hardware: old.hardware.clone(),
            fusion: old.fusion,
            collectives: old.collectives,
            products: old.products,
            mesh: old.mesh.clone(),
            dims: old.dims.clone(),
            backward: None,
            gradients_until: old.gradients_until,
            gathered_weights: old.gathered_weights,
            optimizer: None,
        };
        let mut writer = Self {
            old,
            counts,
            paths: IndexVec::new(),
            first: IndexVec::new(),
            stages: IndexVec::new(),
            parts: IndexVec::new(),
            copies: IndexMap::new(),
            sums: IndexMap::new(),
            program: empty,
        };
        writer.paths = old.repeats.indices().map(|block| writer.path(block)).collect();
        writer.values();
        writer.ops();
        writer.between_blocks();
        writer.outputs();
        writer
    }

    /// The number of layers of a block, the same in both directions; or the number of microbatches.
    fn count(&self, block: RepeatId) -> u64 {
        (self.counts)(self.old.repeats.forward_block(block)).max(1)
    }

    fn path(&self, block: RepeatId) -> (Vec<RepeatId>, u64) {
        let path = self.old.repeats.path(Some(block));
        let layers = path.iter().filter(|&&block| !self.old.repeats.is_of_microbatches(block));
        let count = layers.map(|&block| self.count(block)).product();
        (path, count)
    }

    /// The number of layers of a place, of all blocks around it.
    fn layers(&self, place: Option<RepeatId>) -> u64 {
        place.map_or(1, |block| self.paths[block].1)
    }

    /// The blocks that a value has copies for: that of its layers, that of its microbatches.
    fn blocks_of(&self, value: ValueId) -> (Option<RepeatId>, Option<RepeatId>) {
        let place = self.old.values[value].repeat;
        let microbatches =
            self.old.repeats.microbatches(place).filter(|_| !self.old.is_declared(value));
        (self.old.repeats.layer_block(place), microbatches)
    }

    fn values(&mut self) {
        for (id, value) in self.old.values.iter_enumerated() {
            let (layers, microbatches) = self.blocks_of(id);
            self.first.push(ValueId::new(self.program.values.len()));
            for number in 0..self.layers(layers) {
                for microbatch in 0..microbatches.map_or(1, |block| self.count(block)) {
                    let layer = layers.map_or(String::new(), |_| format!("@{number}"));
                    let microbatch =
                        microbatches.map_or(String::new(), |_| format!("@{microbatch}"));
                    self.program.values.push(Value {
                        name: value.name.clone() + &layer + &microbatch,
                        repeat: None,
                        ..value.clone()
                    });
                    self.stages.push(layers.and_then(|block| self.stage(block, number)));
                    self.parts.push(self.between(value.repeat));
                }
            }
        }
    }

    /// The stage that a layer of a block is on.
    fn stage(&self, block: RepeatId, layer: u64) -> Option<Stage> {
        let pipeline = self.old.pipeline(Some(block))?;
        if self.old.repeats[block].kind == BlockKind::Pipeline {
            return None;
        }
        let inner = self.layers(Some(block)) / self.layers(self.old.staged_block(Some(block)));
        Some(Stage { axis: pipeline.axis, number: pipeline.stages.stage_of(layer / inner) })
    }

    /// The axis of the stages, for a value between the blocks of a pipeline.
    fn between(&self, place: Option<RepeatId>) -> Option<AxisId> {
        let block = &self.old.repeats[place?];
        let pipeline = block.pipeline.as_ref().filter(|_| block.kind == BlockKind::Pipeline);
        pipeline.map(|pipeline| pipeline.axis)
    }

    /// The stages of what is between the blocks of a pipeline: those of what it is computed from.
    fn between_blocks(&mut self) {
        let is_between: IndexVec<ValueId, bool> = self.parts.iter().map(Option::is_some).collect();
        for op in self.program.ops.iter().filter(|op| is_between[op.result]) {
            let read = || op.operands.iter().map(|operand| operand.value);
            let has_parts = read().any(|value| is_between[value] && self.parts[value].is_some());
            let mut stages = read().filter_map(|value| self.stages[value]);
            let first = stages.next();
            let is_of_one = !has_parts && stages.all(|stage| Some(stage) == first);
            if is_of_one {
                (self.stages[op.result], self.parts[op.result]) = (first, None);
            }
        }
    }

    /// A copy of a value; the only one of a value outside all blocks.
    fn value(&self, value: ValueId, copy: Copy) -> ValueId {
        let (layers, microbatches) = self.blocks_of(value);
        let a_layer = microbatches.map_or(1, |block| self.count(block));
        let offset = layers.map_or(0, |_| copy.layer * a_layer)
            + microbatches.map_or(0, |_| copy.microbatch);
        ValueId::new(self.first[value].index() + offset as usize)
    }

    /// The value that a copy of a statement in `at` sees: of outer layers, that of its own.
    fn seen(&self, value: ValueId, copy: Copy, at: Option<RepeatId>) -> ValueId {
        let inner = self.layers(at) / self.layers(self.old.values[value].repeat).max(1);
        self.value(value, Copy { layer: copy.layer / inner.max(1), ..copy })
    }

    /// Statements, given by their blocks in `within`, in the order of execution, with their copies.
    fn order(&self, within: &[Option<RepeatId>]) -> Vec<(usize, Copy)> {
        let mut order = Vec::new();
        self.order_inside(within, (0, 0), Copy::default(), &mut order);
        order
    }

    /// The same for statements from `start` on that are in the same `depth` blocks, for one turn of
    /// these.
    fn order_inside(
        &self,
        within: &[Option<RepeatId>],
        (mut start, depth): (usize, usize),
        copy: Copy,
        order: &mut Vec<(usize, Copy)>,
    ) {
        let next = |place: &Option<RepeatId>| self.paths[(*place)?].0.get(depth).copied();
        for run in within.chunk_by(|a, b| next(a) == next(b)) {
            let places = start..start + run.len();
            match next(&run[0]) {
                None => order.extend(places.clone().map(|place| (place, copy))),
                Some(block) => {
                    for number in self.sequence(block) {
                        let copy = self.turn(copy, block, number);
                        self.order_inside(run, (start, depth + 1), copy, order);
                    }
                }
            }
            start = places.end;
        }
    }

    /// The copies in one iteration of a block.
    fn turn(&self, around: Copy, block: RepeatId, number: u64) -> Copy {
        if self.old.repeats.is_of_microbatches(block) {
            Copy { microbatch: number, ..around }
        } else {
            Copy { layer: around.layer * self.count(block) + number, ..around }
        }
    }

    /// The layers of a block in the order of iteration, or the microbatches.
    fn sequence(&self, block: RepeatId) -> Vec<u64> {
        let all = 0..self.count(block);
        if self.old.repeats[block].reversed.is_some() { all.rev().collect() } else { all.collect() }
    }

    /// The layer before `layer` in the order of iteration, in the same layer of outer blocks.
    fn before(&self, block: RepeatId, layer: u64) -> Option<u64> {
        let count = self.count(block);
        if self.old.repeats[block].reversed.is_some() {
            (!(layer + 1).is_multiple_of(count)).then(|| layer + 1)
        } else {
            (!layer.is_multiple_of(count)).then(|| layer - 1)
        }
    }

    /// The values of all iterations that `op` exports from a block, in order.
    fn all_copies(&self, op: &Op, copy: Copy) -> Vec<ValueId> {
        let value = op.operands[0].value;
        let Some(block) = self.old.exited_block(op.repeat, value) else {
            return vec![self.seen(value, copy, op.repeat)];
        };
        let turns = self.sequence(block).into_iter();
        turns.map(|number| self.value(value, self.turn(copy, block, number))).collect()
    }

    /// The same in the order of the elements, whatever the order of iteration.
    fn collected(&self, op: &Op, copy: Copy) -> Vec<ValueId> {
        let mut copies = self.all_copies(op, copy);
        copies.sort();
        copies
    }

    fn ops(&mut self) {
        let within: Vec<Option<RepeatId>> = self.old.ops.iter().map(|op| op.repeat).collect();
        for (place, copy) in self.order(&within) {
            let id = OpId::new(place);
            let op = &self.old.ops[id];
            if op.is(&MapForm::Total) {
                self.total(id, op, copy);
                continue;
            }
            let read: Vec<(ValueId, &Operand)> = match &op.kind {
                OpKind::Rearrange(how) if how.collects() => self
                    .collected(op, copy)
                    .into_iter()
                    .map(|value| (value, &op.operands[0]))
                    .collect(),
                _ => op
                    .operands
                    .iter()
                    .map(|operand| (self.operand(op, operand.value, copy), operand))
                    .collect(),
            };
            let operands = read
                .into_iter()
                .map(|(value, operand)| Operand { value, ..operand.clone() })
                .collect();
            let mut kind = op.kind.clone();
            if let OpKind::Rearrange(Rearrange::Part { first, .. }) = &mut kind {
                *first = copy.microbatch;
            }
            if let OpKind::Rearrange(Rearrange::Chunk { step, .. }) = &mut kind {
                *step = copy.layer % op.repeat.map_or(1, |block| self.count(block));
            }
            let result = self.seen(op.result, copy, op.repeat);
            let new =
                self.program.ops.push(Op { kind, operands, result, repeat: None, ..op.clone() });
            self.copies.insert((id, copy), new);
        }
    }

    /// The sum of all copies, one after another; a copy where there is one.
    fn total(&mut self, id: OpId, op: &Op, copy: Copy) {
        let parts = self.all_copies(op, copy);
        let total = self.value(op.result, copy);
        let mut so_far = parts[0];
        let mut sums = Vec::new();
        for (number, part) in parts.iter().enumerate().skip(usize::from(parts.len() > 1)) {
            let is_last = number + 1 == parts.len();
            let result = if is_last { total } else { self.partial_total(total, number) };
            let (form, read) = if parts.len() == 1 {
                (MapForm::call(Function::Copy), vec![*part])
            } else {
                (MapForm::Infix(Arithmetic::Add), vec![so_far, *part])
            };
            let operands =
                read.into_iter().map(|value| Operand { value, pin: None, span: op.span }).collect();
            let pin = op.result_pin.clone().filter(|_| is_last);
            let addition = Op {
                kind: OpKind::Map(MapFn::new(form)),
                operands,
                result,
                result_pin: pin,
                repeat: None,
                ..op.clone()
            };
            let new = self.program.ops.push(addition);
            sums.push(new);
            so_far = result;
        }
        self.sums.insert((id, copy), sums);
    }

    /// A sum of the first copies, called after their number: not as a copy is called.
    fn partial_total(&mut self, of: ValueId, number: usize) -> ValueId {
        self.stages.push(self.stages[of]);
        self.parts.push(self.parts[of]);
        let value = &self.program.values[of];
        self.program.values.push(Value {
            name: format!("{}~{number}", value.name),
            declared_sharding: None,
            ..value.clone()
        })
    }

    /// The value that `op` reads as `value` in one of its copies: that yielded by the previous
    /// layer for a loop-carried value, that of the last iteration for an exported one.
    fn operand(&self, op: &Op, value: ValueId, copy: Copy) -> ValueId {
        if let (true, Some(block)) = (op.is(&MapForm::LoopCarried), op.repeat)
            && let Some(before) = self.before(block, copy.layer)
            && let Some(yielded) =
                self.old.outputs.iter().find(|output| output.yields_to == Some(op.result))
        {
            return self.value(yielded.value, Copy { layer: before, ..copy });
        }
        if op.is(&MapForm::Last) {
            return self
                .all_copies(op, copy)
                .last()
                .copied()
                .unwrap_or_else(|| self.seen(value, copy, op.repeat));
        }
        self.seen(value, copy, op.repeat)
    }

    fn outputs(&mut self) {
        for output in
            self.old.outputs.iter().filter(|output| self.old.carried_into(output).is_none())
        {
            let layers = self.layers(self.blocks_of(output.value).0);
            let copy =
                |value: ValueId, layer: u64| self.value(value, Copy { layer, ..Copy::default() });
            let one = |layer: u64| Output {
                value: copy(output.value, layer),
                yields_to: output.yields_to.map(|of| copy(of, layer)),
                ..output.clone()
            };
            let copies: Vec<Output> = (0..layers).map(one).collect();
            self.program.outputs.extend(copies);
        }
        let mut asserts = std::mem::take(&mut self.program.asserts);
        for assert in &mut asserts {
            if let Budget::StaysSharded(value) = &mut assert.budget {
                *value = self.value(*value, Copy::default());
            }
        }
        self.program.asserts = asserts;
    }

    fn steps(&self, step: &Step, copy: Copy) -> Vec<Step> {
        let StepKind::Local(op) = step.kind else { return vec![self.step(step, copy)] };
        let Some(sums) = self.sums.get(&(op, copy)) else { return vec![self.step(step, copy)] };
        let so_far =
            |value: ValueId| Materialization { value, sharding: step.result.sharding.clone() };
        // A value of one stage only is not yet a sum over stages.
        let part =
            |value: ValueId| Materialization { value, sharding: step.operands[0].sharding.clone() };
        let total = self.seen(step.result.value, copy, step.repeat);
        let is_of_stages =
            |value: ValueId| self.stages[value].is_some() || self.parts[value].is_some();
        let is_part = |value: ValueId| is_of_stages(value) && self.stages[total].is_none();
        let addition = |&id: &OpId| {
            let op = &self.program.ops[id];
            let read = op.operands.iter().map(|operand| operand.value);
            let operands = read
                .map(|value| if is_part(value) { part(value) } else { so_far(value) })
                .collect();
            Step { kind: StepKind::Local(id), operands, result: so_far(op.result), repeat: None }
        };
        sums.iter().map(addition).collect()
    }

    fn step(&self, step: &Step, copy: Copy) -> Step {
        let result = Materialization {
            value: self.seen(step.result.value, copy, step.repeat),
            sharding: step.result.sharding.clone(),
        };
        let new = |id: OpId| self.copies.get(&(id, copy)).copied();
        let read = |value: ValueId, of: &Materialization| Materialization {
            value,
            sharding: of.sharding.clone(),
        };
        let (kind, operands) = match &step.kind {
            StepKind::Local(old) => {
                let (op, id) = (&self.old.ops[*old], new(*old).unwrap_or(*old));
                let operands = match &step.operands[..] {
                    // Collected from all iterations, which have it in the same sharding.
                    [of] if collects(op) => self.program.ops[id]
                        .operands
                        .iter()
                        .map(|operand| read(operand.value, of))
                        .collect(),
                    // The operand as the step has it: the verifier checks whether it agrees with
                    // the program.
                    all => {
                        all.iter().map(|of| read(self.operand(op, of.value, copy), of)).collect()
                    }
                };
                (StepKind::Local(id), operands)
            }
            StepKind::Collective(moved, op) => {
                let read = step
                    .operands
                    .iter()
                    .map(|of| read(self.seen(of.value, copy, step.repeat), of))
                    .collect();
                (StepKind::Collective(moved.clone(), op.and_then(new)), read)
            }
        };
        Step { kind, operands, result, repeat: None }
    }
}

/// Whether an operation exports a value from its block.
pub fn is_loop_exit(op: &Op) -> bool {
    op.is(&MapForm::Last) || op.is(&MapForm::Total) || collects(op)
}

/// Whether an operation collects the values of all iterations of a block.
fn collects(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Rearrange(how) if how.collects())
}

/// Whether an operation only passes a value into a block or out of it.
pub fn is_region_boundary(op: &Op) -> bool {
    let cuts =
        matches!(op.kind, OpKind::Rearrange(Rearrange::Part { .. } | Rearrange::Join { .. }));
    cuts || op.is(&MapForm::LoopCarried) || op.is(&MapForm::Last)
}
