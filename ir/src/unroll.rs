//! What a `repeat` means, by writing its layers out one after another: every layer gets operations and values of its own.
//!
//! This is the language's definition of blocks, for whoever executes programs or wants to see layers side by side. Planning never unrolls: a body
//! is planned once, however many layers there are.
//!
//! Layers of a pipeline are written out like others, with the stage that each copy is on: microbatches change no number, so the whole batch goes
//! through at once. What is taken out of the layers is a partial sum over the stages: that of a stage that has no part in it is zero.

use index_vec::IndexVec;
use indexmap::IndexMap;

use crate::ids::{AxisId, OpId, RepeatId, ValueId};
use crate::plan::{Materialization, Plan, Step, StepKind};
use crate::program::{Budget, Layers, MapFn, MapForm, Op, OpKind, Operand, Output, Program, Value};

/// A plan without blocks, and where each of its steps comes from.
pub struct Unrolled {
    /// The plan.
    pub plan: Plan,
    /// For each step, the step that it is a copy of, and the layer.
    pub from: Vec<(usize, u64)>,
    /// The stage that has a value, of those that only one has.
    pub stages: IndexVec<ValueId, Option<Stage>>,
}

/// A stage of a pipeline: devices with one place along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The axis along which stages lie.
    pub axis: AxisId,
    /// Which of them.
    pub number: u64,
}

/// `program` with `layers` of each block written out.
pub fn program(program: &Program, layers: &dyn Fn(RepeatId) -> u64) -> Program {
    Writer::new(program, layers).program
}

/// `plan` with `layers` of each block written out.
pub fn plan(plan: &Plan, layers: &dyn Fn(RepeatId) -> u64) -> Unrolled {
    let writer = Writer::new(&plan.program, layers);
    let within: Vec<Option<RepeatId>> = plan.steps.iter().map(|step| step.repeat).collect();
    let copies = writer
        .order(&within)
        .into_iter()
        .flat_map(|(number, layer)| writer.steps(&plan.steps[number], layer).into_iter().map(move |step| (step, (number, layer))));
    let (steps, from) = copies.unzip();
    Unrolled { plan: Plan { program: writer.program, steps }, from, stages: writer.stages }
}

struct Writer<'p> {
    old: &'p Program,
    layers: &'p dyn Fn(RepeatId) -> u64,
    /// For each value, its copy in layer 0; those of the other layers follow.
    first: IndexVec<ValueId, ValueId>,
    stages: IndexVec<ValueId, Option<Stage>>,
    copies: IndexMap<(OpId, u64), OpId>,
    /// For each `total`, the additions that it becomes.
    sums: IndexMap<OpId, Vec<OpId>>,
    program: Program,
}

impl<'p> Writer<'p> {
    fn new(old: &'p Program, layers: &'p dyn Fn(RepeatId) -> u64) -> Self {
        let empty = Program {
            values: IndexVec::new(),
            ops: IndexVec::new(),
            repeats: IndexVec::new(),
            outputs: Vec::new(),
            asserts: old.asserts.clone(),
            mode: old.mode,
            hardware: old.hardware.clone(),
            mesh: old.mesh.clone(),
            dims: old.dims.clone(),
            backward: None,
        };
        let mut writer = Self {
            old,
            layers,
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

    /// How many layers a block goes through; both directions through as many.
    fn count(&self, block: RepeatId) -> u64 {
        (self.layers)(self.old.repeats.layers(block)).max(1)
    }

    fn values(&mut self) {
        for value in &self.old.values {
            let copies = value.repeat.map_or(1, |block| self.count(block));
            self.first.push(ValueId::new(self.program.values.len()));
            for layer in 0..copies {
                let mut copy = value.clone();
                if copy.repeat.take().is_some() {
                    copy.name = format!("{}@{layer}", value.name);
                }
                self.program.values.push(copy);
                self.stages.push(value.repeat.and_then(|block| self.stage(block, layer)));
            }
        }
    }

    /// The stage that a layer of a block is on: chunks of consecutive layers go round the stages.
    fn stage(&self, block: RepeatId, layer: u64) -> Option<Stage> {
        let pipeline = self.old.pipeline(Some(block))?;
        let stages = self.old.mesh.axes[pipeline.axis].size;
        let layers = (self.count(block) / (stages * pipeline.chunks)).max(1);
        Some(Stage { axis: pipeline.axis, number: layer / layers % stages })
    }

    /// The copy of a value in a layer; the only one of a value outside all blocks.
    fn value(&self, value: ValueId, layer: u64) -> ValueId {
        let offset = if self.old.values[value].repeat.is_some() { layer as usize } else { 0 };
        ValueId::new(self.first[value].index() + offset)
    }

    /// Places of `within` (each says in which block it is), in the order in which they are carried out, with their layers.
    fn order(&self, within: &[Option<RepeatId>]) -> Vec<(usize, u64)> {
        let mut order = Vec::new();
        let mut start = 0;
        for run in within.chunk_by(|a, b| a == b) {
            let places = start..start + run.len();
            start = places.end;
            let Some(block) = run[0] else {
                order.extend(places.map(|place| (place, 0)));
                continue;
            };
            order.extend(self.sequence(block).into_iter().flat_map(|layer| places.clone().map(move |place| (place, layer))));
        }
        order
    }

    /// The layers of a block in the order in which it goes through them.
    fn sequence(&self, block: RepeatId) -> Vec<u64> {
        let layers = 0..self.count(block);
        if self.old.repeats[block].reversed.is_some() { layers.rev().collect() } else { layers.collect() }
    }

    /// The layer that a block goes through before `layer`.
    fn before(&self, block: RepeatId, layer: u64) -> Option<u64> {
        let sequence = self.sequence(block);
        let place = sequence.iter().position(|&other| other == layer)?;
        place.checked_sub(1).map(|place| sequence[place])
    }

    fn ops(&mut self) {
        let within: Vec<Option<RepeatId>> = self.old.ops.iter().map(|op| op.repeat).collect();
        for (place, layer) in self.order(&within) {
            let id = OpId::new(place);
            let op = &self.old.ops[id];
            if op.is(&MapForm::Total) {
                self.total(id, op);
                continue;
            }
            let operands = op.operands.iter().map(|operand| Operand { value: self.operand(op, operand.value, layer), ..operand.clone() });
            let copy = Op { operands: operands.collect(), result: self.value(op.result, layer), repeat: None, ..op.clone() };
            let result = copy.result;
            let new = self.program.ops.push(copy);
            self.copies.insert((id, layer), new);
            if self.old.values[op.result].producer == Some(id) {
                self.program.values[result].producer = Some(new);
            }
        }
    }

    /// The sum of all layers, one after another; a copy where there is one.
    fn total(&mut self, id: OpId, op: &Op) {
        let block = self.old.values[op.operands[0].value].repeat;
        let layers = block.map_or_else(Vec::new, |block| self.sequence(block));
        let parts: Vec<ValueId> = layers.iter().map(|&layer| self.value(op.operands[0].value, layer)).collect();
        let mut so_far = parts[0];
        let mut sums = Vec::new();
        for (number, part) in parts.iter().enumerate().skip(usize::from(parts.len() > 1)) {
            let is_last = number + 1 == parts.len();
            let result = if is_last { self.value(op.result, 0) } else { self.partial_total(op.result, number) };
            let (form, read) = if parts.len() == 1 {
                (MapForm::Call { name: "copy".to_owned(), extra: Vec::new() }, vec![*part])
            } else {
                (MapForm::Infix('+'), vec![so_far, *part])
            };
            let operands = read.into_iter().map(|value| Operand { value, pin: None, span: op.span }).collect();
            let pin = op.result_pin.clone().filter(|_| is_last);
            let copy = Op { kind: OpKind::Map(MapFn::new(form)), operands, result, result_pin: pin, repeat: None, ..op.clone() };
            let new = self.program.ops.push(copy);
            self.program.values[result].producer = Some(new);
            sums.push(new);
            so_far = result;
        }
        self.sums.insert(id, sums);
    }

    fn partial_total(&mut self, of: ValueId, number: usize) -> ValueId {
        let value = &self.old.values[of];
        self.stages.push(None);
        self.program.values.push(Value { name: format!("{}@{number}", value.name), home: None, ..value.clone() })
    }

    /// What `op` reads as `value` in `layer`: what the layer before handed on, where it lets that enter; what the last layer gave, where it takes
    /// that out.
    fn operand(&self, op: &Op, value: ValueId, layer: u64) -> ValueId {
        if let (true, Some(block)) = (op.is(&MapForm::Enter), op.repeat)
            && let Some(before) = self.before(block, layer)
            && let Some(handed_on) = self.old.outputs.iter().find(|output| output.hands_to == Some(op.result))
        {
            return self.value(handed_on.value, before);
        }
        if let (true, Some(block)) = (op.is(&MapForm::Last), self.old.values[value].repeat) {
            return self.value(value, self.sequence(block).last().copied().unwrap_or(0));
        }
        self.value(value, layer)
    }

    fn outputs(&mut self) {
        for output in self.old.outputs.iter().filter(|output| output.hands_to.is_none()) {
            let layers = self.old.values[output.value].repeat.map_or(1, |block| self.count(block));
            let copies = (0..layers).map(|layer| Output { value: self.value(output.value, layer), ..output.clone() });
            self.program.outputs.extend(copies.collect::<Vec<_>>());
        }
        let mut asserts = std::mem::take(&mut self.program.asserts);
        for assert in &mut asserts {
            if let Budget::StaysSharded(value) = &mut assert.budget {
                *value = self.value(*value, 0);
            }
        }
        self.program.asserts = asserts;
    }

    fn steps(&self, step: &Step, layer: u64) -> Vec<Step> {
        let StepKind::Local(op) = step.kind else { return vec![self.step(step, layer)] };
        let Some(sums) = self.sums.get(&op) else { return vec![self.step(step, layer)] };
        let so_far = |value: ValueId| Materialization { value, sharding: step.result.sharding.clone() };
        // What only one stage has is not yet a sum over stages.
        let part = |value: ValueId| Materialization { value, sharding: step.operands[0].sharding.clone() };
        let is_part = |value: ValueId| self.stages[value].is_some();
        let addition = |&id: &OpId| {
            let op = &self.program.ops[id];
            let read = op.operands.iter().map(|operand| operand.value);
            let operands = read.map(|value| if is_part(value) { part(value) } else { so_far(value) }).collect();
            Step { kind: StepKind::Local(id), operands, result: so_far(op.result), repeat: None }
        };
        sums.iter().map(addition).collect()
    }

    fn step(&self, step: &Step, layer: u64) -> Step {
        let copy = |id: OpId| self.copies.get(&(id, layer)).copied().unwrap_or(id);
        let kind = match &step.kind {
            StepKind::Local(op) => StepKind::Local(copy(*op)),
            StepKind::Collective(moved, op) => StepKind::Collective(moved.clone(), op.map(copy)),
        };
        let op = if let StepKind::Local(op) = step.kind { Some(&self.old.ops[op]) } else { None };
        let read = |of: &Materialization| {
            let value = op.map_or_else(|| self.value(of.value, layer), |op| self.operand(op, of.value, layer));
            Materialization { value, sharding: of.sharding.clone() }
        };
        let result = Materialization { value: self.value(step.result.value, layer), sharding: step.result.sharding.clone() };
        Step { kind, operands: step.operands.iter().map(read).collect(), result, repeat: None }
    }
}

/// Whether an operation takes a value out of its block.
pub fn takes_out(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Map(function) if matches!(function.form, MapForm::Last | MapForm::Total))
}

/// Whether an operation only lets a value into a block or out of it.
pub fn is_border(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Map(function) if matches!(function.form, MapForm::Enter | MapForm::Last))
}
