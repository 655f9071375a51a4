//! Bytes that a device holds: what is resident, and the peak of what is live beside it, in program order.
//!
//! Parameters and state stay for the whole program in the sharding they are declared with. Every other materialisation (a gathered parameter
//! included) lives from the step that gives it to the last step that reads it; inputs from the start, outputs to the end. What is given twice
//! (gathered again behind the forward part) lives twice, and is not held between.
//!
//! Of a block, one layer's values live at a time, but for those that its reverse reads or that leave the program: of these there is one for each
//! layer. Parameters and state of a block are resident for all its layers. What a block reads from before it lives until its last layer.
//!
//! In a pipeline a device has its stage's layers only, and of each what is kept for the gradients of the microbatches on their way. What the batch
//! has no part in is kept from microbatch to microbatch: gathered weights, and gradients while they are added up, of all layers of the stage.

use std::ops::RangeInclusive;

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::Role;
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{MapForm, Program};
use shardwise_ir::sharding::Pin;
use shardwise_ir::unroll::is_border;

use crate::composite;
use crate::local;
use crate::staged;

/// Bytes of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Parameters and state.
    pub resident_bytes: f64,
    /// Resident and live together, at the worst step.
    pub peak_bytes: f64,
    /// The step at which the peak is reached, if the plan has steps.
    pub peak_step: Option<usize>,
    /// What the chip has, where that is known.
    pub capacity_bytes: Option<f64>,
}

/// From which to which step something is live, both included.
struct Life {
    bytes: f64,
    from: usize,
    to: usize,
}

type Lives = Vec<(Materialization, Life)>;

/// What lives so far, the latest life of each, and in which block it began.
struct Living<'p> {
    plan: &'p Plan,
    ended: Lives,
    lives: IndexMap<Materialization, (Life, Option<RepeatId>), FxBuildHasher>,
    /// For each block, its last step.
    last_of: IndexMap<RepeatId, usize>,
}

impl<'p> Living<'p> {
    fn new(plan: &'p Plan) -> Self {
        let ends = plan.steps.iter().enumerate().filter_map(|(number, step)| Some((step.repeat?, number)));
        Self { plan, ended: Lives::new(), lives: IndexMap::default(), last_of: ends.collect() }
    }

    fn begin(&mut self, of: Materialization, bytes: f64, when: RangeInclusive<usize>, block: Option<RepeatId>) {
        let before = self.lives.insert(of.clone(), (Life { bytes, from: *when.start(), to: *when.end() }, block));
        self.ended.extend(before.map(|(life, _)| (of, life)));
    }

    fn first_of(&self, block: Option<RepeatId>) -> Option<usize> {
        self.plan.steps.iter().position(|step| block.is_some() && step.repeat == block)
    }

    /// The last step of the block that a step stands in.
    fn end_of(&self, step: &Step, number: usize) -> usize {
        step.repeat.and_then(|block| self.last_of.get(&block).copied()).unwrap_or(number)
    }

    fn is_resident(&self, of: &Materialization) -> bool {
        self.lives.get(of).is_some_and(|(life, _)| life.bytes <= 0.0)
    }

    /// Keeps what is read until `at`. What comes from before the reader's block is read in every layer; what another block gave, there is of each
    /// layer, unless only the last one's is taken out of its block.
    fn read(&mut self, of: &Materialization, at: usize, block: Option<RepeatId>) {
        let program = &self.plan.program;
        if let Some((life, began)) = self.lives.get_mut(of) {
            let every_layer = block.filter(|_| *began != block).and_then(|block| self.last_of.get(&block).copied());
            life.to = life.to.max(every_layer.unwrap_or(at));
            if block.is_some() && began.is_some() && *began != block {
                life.bytes *= staged::kept(program, of.value);
                *began = None;
            }
        }
    }

    fn leave(&mut self, value: ValueId, pin: &Pin) {
        let last = self.plan.steps.len().saturating_sub(1);
        let program = &self.plan.program;
        for (_, (life, began)) in self.lives.iter_mut().filter(|(of, _)| of.value == value && pin.accepts(&of.sharding)) {
            life.to = last;
            if began.take().is_some() {
                life.bytes *= staged::all_of(program, value);
            }
        }
    }

    fn all(mut self) -> Lives {
        self.ended.extend(self.lives.into_iter().map(|(of, (life, _))| (of, life)));
        self.ended
    }
}

/// The memory of a plan; where composites are still to be written out in it, of the plan that comes of that.
pub fn memory(plan: &Plan) -> Memory {
    let plan = &*composite::written_out(plan);
    let (resident_bytes, lives) = lives(plan);
    let (peak_step, live) = peak(lives.iter().map(|(_, life)| life), plan.steps.len());
    Memory { resident_bytes, peak_bytes: resident_bytes + live, peak_step, capacity_bytes: plan.program.hardware.hbm_bytes }
}

/// What is live beside the resident while a step runs, largest first.
pub fn live_at(plan: &Plan, step: usize) -> Vec<(Materialization, f64)> {
    let live = |life: &Life| life.from <= step && step <= life.to && life.bytes > 0.0;
    let mut held: Vec<(Materialization, f64)> =
        lives(plan).1.into_iter().filter(|(_, life)| live(life)).map(|(of, life)| (of, life.bytes)).collect();
    held.sort_by(|a, b| b.1.total_cmp(&a.1));
    held
}

/// The bytes that are resident, and from where to where everything else is live.
fn lives(plan: &Plan) -> (f64, Lives) {
    let program = &plan.program;
    let mut resident_bytes = 0.0;
    let mut living = Living::new(plan);
    let mut late: IndexSet<ValueId> = IndexSet::new();
    for (value, declared) in program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
        let Some(sharding) = declared.home.as_ref().and_then(Pin::exact) else {
            continue;
        };
        let bytes = staged::all_of(program, value) * local::local_bytes(program, value, &sharding);
        let stays = matches!(declared.role, Some(Role::Param | Role::State));
        resident_bytes += if stays { bytes } else { 0.0 };
        living.begin(Materialization { value, sharding }, if stays { 0.0 } else { bytes }, 0..=0, None);
    }
    for (number, step) in plan.steps.iter().enumerate() {
        let border = matches!(step.kind, StepKind::Local(op) if is_border(&program.ops[op]));
        for operand in &step.operands {
            // Another name for the same bytes: they are not held under both.
            let until = if border { number.saturating_sub(1) } else { number };
            living.read(operand, until, step.repeat.filter(|_| !border));
        }
        // A sum over layers grows while they are gone through.
        let total = matches!(step.kind, StepKind::Local(op) if program.ops[op].is(&MapForm::Total));
        let from = if total { living.first_of(program.values[step.operands[0].value].repeat).unwrap_or(number) } else { number };
        let resident = living.is_resident(&step.result);
        let bytes = if resident { 0.0 } else { local::local_bytes(program, step.result.value, &step.result.sharding) };
        if stays_in_stage(plan, step, &late) {
            let start = living.first_of(step.repeat).unwrap_or(number);
            living.begin(step.result.clone(), bytes * staged::kept(program, step.result.value), start..=living.end_of(step, number), None);
        } else {
            living.begin(step.result.clone(), bytes, from..=number, step.repeat);
        }
        if is_late(program, step, &late) {
            late.insert(step.result.value);
        }
    }
    for output in program.outputs.iter().filter(|output| output.hands_to.is_none()) {
        living.leave(output.value, &output.pin);
    }
    (resident_bytes, living.all())
}

/// Whether a step in a pipeline gives what is complete only when all microbatches have come by: a sum over the batch, or what follows from one.
fn is_late(program: &Program, step: &Step, late: &IndexSet<ValueId>) -> bool {
    let without_batch = staged::is_staged(program, step) && !program.has_batch(step.repeat, step.result.value);
    without_batch && (staged::by_microbatch(program, step) || step.operands.iter().any(|operand| late.contains(&operand.value)))
}

/// Whether a stage keeps what a step gives for all its layers and microbatches; what follows from complete sums it makes layer by layer, at the end.
fn stays_in_stage(plan: &Plan, step: &Step, late: &IndexSet<ValueId>) -> bool {
    let program = &plan.program;
    let without_batch = staged::is_staged(program, step) && !program.has_batch(step.repeat, step.result.value);
    without_batch && (staged::by_microbatch(program, step) || !is_late(program, step, late))
}

/// The worst step and what is live there: a sweep over where lives begin and end.
fn peak<'l>(lives: impl Iterator<Item = &'l Life>, steps: usize) -> (Option<usize>, f64) {
    let mut change = vec![0.0; steps + 2];
    for life in lives {
        change[life.from] += life.bytes;
        change[life.to + 1] -= life.bytes;
    }
    let mut live = 0.0;
    let mut best = (None, 0.0);
    for (step, delta) in change.iter().enumerate().take(steps.max(1)) {
        live += delta;
        if live > best.1 {
            best = ((step < steps).then_some(step), live);
        }
    }
    best
}
