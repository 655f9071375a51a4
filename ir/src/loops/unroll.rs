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
use crate::program::{Blocks, Budget, MapFn, MapForm, Op, OpKind, Operand, Output, Program, Value};
use crate::rearrange::Rearrange;

/// The index of a copy; 0 where there is only one.
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
    Unrolled { plan: Plan { program: writer.program, steps }, from, stages: writer.stages }
}

struct Writer<'p> {
    old: &'p Program,
    counts: &'p dyn Fn(RepeatId) -> u64,
    /// For each value, its first copy; the others follow, those of one layer side by side.
    first: IndexVec<ValueId, ValueId>,
    stages: IndexVec<ValueId, Option<Stage>>,
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
            mesh: old.mesh.clone(),
            dims: old.dims.clone(),
            backward: None,
            gradients_until: old.gradients_until,
            optimizer: None,
        };
        let mut writer = Self {
            old,
            counts,
            first: IndexVec::new(),
            stages: IndexVec::new(),
            copies: IndexMap::new(),
            sums: IndexMap::new(),
            program: empty,
        };
        writer.values();
        writer.ops();
        writer.outputs();
        writer
    }

    /// The number of layers of a block, the same in both directions; or the number of microbatches.
    fn count(&self, block: RepeatId) -> u64 {
        (self.counts)(self.old.repeats.forward_block(block)).max(1)
    }

    /// The blocks that a value has copies for: those of layers, those of microbatches.
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
            for number in 0..layers.map_or(1, |block| self.count(block)) {
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
                }
            }
        }
    }

    /// The stage that a layer of a block is on.
    fn stage(&self, block: RepeatId, layer: u64) -> Option<Stage> {
        let pipeline = self.old.pipeline(Some(block))?;
        Some(Stage { axis: pipeline.axis, number: pipeline.stages.stage_of(layer) })
    }

    /// A copy of a value; the only one of a value outside all blocks.
    fn value(&self, value: ValueId, copy: Copy) -> ValueId {
        let (layers, microbatches) = self.blocks_of(value);
        let a_layer = microbatches.map_or(1, |block| self.count(block));
        let offset = layers.map_or(0, |_| copy.layer * a_layer)
            + microbatches.map_or(0, |_| copy.microbatch);
        ValueId::new(self.first[value].index() + offset as usize)
    }

    /// Statements, given by their blocks in `within`, in the order of execution, with their copies.
    fn order(&self, within: &[Option<RepeatId>]) -> Vec<(usize, Copy)> {
        let mut order = Vec::new();
        let mut start = 0;
        let around = |place: &Option<RepeatId>| self.old.repeats.microbatches(*place);
        for run in within.chunk_by(|a, b| around(a) == around(b)) {
            for microbatch in 0..around(&run[0]).map_or(1, |block| self.count(block)) {
                self.order_of_one(run, start, microbatch, &mut order);
            }
            start += run.len();
        }
        order
    }

    /// The same for one microbatch, of places from `start` on.
    fn order_of_one(
        &self,
        within: &[Option<RepeatId>],
        mut start: usize,
        microbatch: u64,
        order: &mut Vec<(usize, Copy)>,
    ) {
        for run in within.chunk_by(|a, b| a == b) {
            let places = start..start + run.len();
            start = places.end;
            let layers = self
                .old
                .repeats
                .layer_block(run[0])
                .map_or_else(|| vec![0], |block| self.sequence(block));
            order.extend(layers.into_iter().flat_map(|layer| {
                places.clone().map(move |place| (place, Copy { layer, microbatch }))
            }));
        }
    }

    /// The layers of a block in the order of iteration, or the microbatches.
    fn sequence(&self, block: RepeatId) -> Vec<u64> {
        let all = 0..self.count(block);
        if self.old.repeats[block].reversed.is_some() { all.rev().collect() } else { all.collect() }
    }

    /// The layer before `layer` in the order of iteration.
    fn before(&self, block: RepeatId, layer: u64) -> Option<u64> {
        let sequence = self.sequence(block);
        let place = sequence.iter().position(|&other| other == layer)?;
        place.checked_sub(1).map(|place| sequence[place])
    }

    /// The values of all iterations that `op` exports from a block, in order.
    fn all_copies(&self, op: &Op, copy: Copy) -> Vec<ValueId> {
        let value = op.operands[0].value;
        let Some(block) = self.old.exited_block(op.repeat, value) else {
            return vec![self.value(value, copy)];
        };
        let of_layers = self.old.repeats[block].microbatches_of.is_none();
        let one = |number: u64| {
            if of_layers {
                Copy { layer: number, ..copy }
            } else {
                Copy { microbatch: number, ..copy }
            }
        };
        self.sequence(block).into_iter().map(|number| self.value(value, one(number))).collect()
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
                OpKind::Rearrange(Rearrange::Join { .. }) => self
                    .all_copies(op, copy)
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
            let result = self.value(op.result, copy);
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

    fn partial_total(&mut self, of: ValueId, number: usize) -> ValueId {
        self.stages.push(None);
        let value = &self.program.values[of];
        self.program.values.push(Value {
            name: format!("{}@{number}", value.name),
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
                .unwrap_or_else(|| self.value(value, copy));
        }
        self.value(value, copy)
    }

    fn outputs(&mut self) {
        for output in
            self.old.outputs.iter().filter(|output| self.old.carried_into(output).is_none())
        {
            let layers = self.blocks_of(output.value).0.map_or(1, |block| self.count(block));
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
        let is_part = |value: ValueId| self.stages[value].is_some();
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
            value: self.value(step.result.value, copy),
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
                    // Joined from the parts of all microbatches, which have the same sharding.
                    [of] if matches!(op.kind, OpKind::Rearrange(Rearrange::Join { .. })) => {
                        self.program.ops[id]
                            .operands
                            .iter()
                            .map(|operand| read(operand.value, of))
                            .collect()
                    }
                    // The operand as the step has it: the verifier checks whether it agrees with
                    // the program.
                    all => {
                        all.iter().map(|of| read(self.operand(op, of.value, copy), of)).collect()
                    }
                };
                (StepKind::Local(id), operands)
            }
            StepKind::Collective(moved, op) => {
                let read =
                    step.operands.iter().map(|of| read(self.value(of.value, copy), of)).collect();
                (StepKind::Collective(moved.clone(), op.and_then(new)), read)
            }
        };
        Step { kind, operands, result, repeat: None }
    }
}

/// Whether an operation exports a value from its block.
pub fn is_loop_exit(op: &Op) -> bool {
    op.is(&MapForm::Last)
        || op.is(&MapForm::Total)
        || matches!(op.kind, OpKind::Rearrange(Rearrange::Join { .. }))
}

/// Whether an operation only passes a value into a block or out of it.
pub fn is_region_boundary(op: &Op) -> bool {
    let cuts =
        matches!(op.kind, OpKind::Rearrange(Rearrange::Part { .. } | Rearrange::Join { .. }));
    cuts || op.is(&MapForm::LoopCarried) || op.is(&MapForm::Last)
}
