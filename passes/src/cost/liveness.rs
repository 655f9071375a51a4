//! Memory of a device: resident bytes, and the peak of the live materializations, in program order
//! (and of what frameworks hold beside: `training/frameworks.rs`).
//!
//! Parameters and state are resident for the whole program in their declared sharding. Every other
//! materialization (a gathered parameter included) is live from the step that produces it to the
//! last step that reads it; inputs from the start, outputs to the end. A materialization that is
//! produced twice (gathered a second time after the forward part) has two live ranges; so has an
//! element-wise result that the backward part computes again from what is kept: it is not kept from
//! one to the other, and what it is computed from is.
//!
//! A kernel reads the operands of its product as long as it runs: they are live until what follows
//! from it has been written ([`on_chip`]).
//!
//! The values of a block are live for one layer at a time, except those that its reverse reads and
//! outputs: of these there is one per layer, of layers in layers one per layer of each outer one.
//! Parameters and state of a block are resident for all its layers; their updates are in place. A
//! value that a block reads from outside is live until its last layer.
//!
//! One microbatch is live at a time, whatever their number; its rows of a batch are a view and need
//! no bytes. Accumulated and joined values are live from the first microbatch on, for every layer;
//! so are retained weights.
//!
//! In a pipeline a device has the layers of its stage only, and for each the values that gradients
//! of the in-flight microbatches need. Values that do not depend on the batch are live across
//! microbatches: retained weights and accumulated gradients, for all layers of the stage; with
//! `1f1b`, whose stages alternate between forward and backward, values that the forward pass
//! retains or reads from outside are live until the last gradient.

mod again;
mod layers;
mod live_at;
mod of_stages;
mod on_chip;
mod on_host;
mod sweep;

use std::ops::RangeInclusive;

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::dataflow::{self, Dataflow, Node, NodeIndex};
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{Blocks, CollectiveKind, MapForm, Op, OpKind, Phase, Program};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::sharding::Pin;
use shardwise_ir::unroll::is_loop_exit;

use crate::cost::liveness::on_chip::OnChip;
use crate::cost::{held, pipeline_stages};
use crate::layouts::local_shape;
use crate::training::frameworks::Frameworks;

use layers::block_of_one_copy;
pub use live_at::{Live, live_at, live_ranges};
pub use of_stages::{charge_by_estimate, charge_heaviest, memory, memory_as_charged};
use sweep::{LiveRange, Shrinking};

/// Bytes of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Parameters and state.
    pub resident_bytes: f64,
    /// Resident and live together, at the worst step.
    pub peak_bytes: f64,
    /// The step at which the peak is reached, if the plan has steps.
    pub peak_step: Option<usize>,
    /// What waits for gradients in the memory of the host, all of it together.
    pub host_bytes: f64,
}

impl Memory {
    /// What the allocator holds beside the peak: a share of all that does not stay on the device.
    /// It yields to what fits, so that a plan within `capacity` stays within it.
    pub fn allocator_bytes(&self, share: f64, capacity: Option<f64>) -> f64 {
        let left = capacity.unwrap_or(f64::INFINITY) - self.peak_bytes;
        (share * (self.peak_bytes - self.resident_bytes)).min(left).max(0.0)
    }
}

/// A live materialization.
struct OpenRange {
    life: LiveRange,
    /// The block in which it is produced.
    began: Option<RepeatId>,
    /// Whether it is live for all layers of that block.
    of_all_layers: bool,
    /// The last step of other layers that reads it, or of layers in those.
    last_read: usize,
}

/// The live range of what each node of the dataflow produces.
struct LiveRanges<'p> {
    plan: &'p Plan,
    dataflow: &'p Dataflow<usize>,
    ranges: Vec<Option<OpenRange>>,
    /// The second ranges of what the backward part computes again.
    again: IndexMap<NodeIndex, LiveRange>,
    /// The last step for which what it is computed again from is kept.
    extended: IndexMap<NodeIndex, usize>,
    /// For each step, whether it belongs to the backward part.
    goes_back: Vec<bool>,
    /// What its kernels leave on the chip.
    on_chip: OnChip,
    /// For each block, its first and its last step.
    steps_of: IndexMap<RepeatId, (usize, usize)>,
    /// Values that are complete only after all microbatches of a pipeline.
    late: IndexSet<ValueId>,
    frameworks: Frameworks,
}

impl<'p> LiveRanges<'p> {
    fn new(plan: &'p Plan, dataflow: &'p Dataflow<usize>) -> Self {
        let mut steps_of: IndexMap<RepeatId, (usize, usize)> = IndexMap::new();
        for (number, step) in plan.steps.iter().enumerate() {
            for block in plan.program.repeats.path(step.repeat) {
                steps_of.entry(block).or_insert((number, number)).1 = number;
            }
        }
        let goes_back = goes_back(plan, dataflow);
        Self {
            plan,
            dataflow,
            ranges: dataflow.graph().node_indices().map(|_| None).collect(),
            again: IndexMap::new(),
            extended: IndexMap::new(),
            on_chip: OnChip::new(plan, dataflow, &goes_back),
            goes_back,
            steps_of,
            late: IndexSet::new(),
            frameworks: Frameworks::of(&plan.program),
        }
    }

    fn begin(
        &mut self,
        node: NodeIndex,
        bytes: f64,
        when: RangeInclusive<usize>,
        began: Option<RepeatId>,
    ) -> &mut OpenRange {
        let life = LiveRange::new(bytes, when);
        self.ranges[node.index()].insert(OpenRange {
            life,
            began,
            of_all_layers: false,
            last_read: 0,
        })
    }

    /// Begins the ranges of declared values; returns the bytes of the resident ones.
    fn begin_declared(&mut self) -> f64 {
        let program = &self.plan.program;
        let mut resident_bytes = 0.0;
        for (value, declared) in
            program.values.iter_enumerated().filter(|(_, value)| value.is_declared())
        {
            let Some(sharding) = declared.declared_sharding.as_ref().and_then(Pin::exact) else {
                continue;
            };
            let resident = held::resident_bytes(program, value);
            resident_bytes += resident.unwrap_or_default();
            let live = || {
                pipeline_stages::all_copies(program, value)
                    * self.frameworks.share(value)
                    * local_shape::local_bytes(program, value, &sharding)
            };
            let live_bytes = if resident.is_some() { 0.0 } else { live() };
            self.begin(self.dataflow.node_of(value), live_bytes, 0..=0, None);
        }
        resident_bytes
    }

    /// Extends the ranges of a step's operands, and begins that of its result.
    fn run(&mut self, step: &Step, number: usize) {
        let program = &self.plan.program;
        let op = if let StepKind::Local(op) = step.kind { Some(&program.ops[op]) } else { None };
        let resident = self.is_resident(&step.result)
            || op.is_some_and(|op| is_part(op) || op.is_stored_on_host())
            || self.on_chip.has_result_of(number)
            || op.is_some_and(is_loop_exit) && self.is_unread(number);
        let node = dataflow::index(number);
        let bytes = if resident {
            0.0
        } else {
            self.frameworks.copies(program, step.result.value)
                * local_shape::local_bytes(program, step.result.value, &step.result.sharding)
        };
        let out_of = op
            .filter(|op| is_loop_exit(op))
            .and_then(|op| program.exited_block(op.repeat, op.operands[0].value));
        if let Some(block) =
            out_of.filter(|&block| program.repeats[block].microbatches_of.is_some())
        {
            self.accumulate(step, bytes, number, block);
            return;
        }
        self.read_operands(step, op, number);
        self.keep_gradient(step, number);
        // A sum over layers is live from the first of them on, and so is a stack of steps.
        let grows = out_of.filter(|_| op.is_some_and(|op| !op.is(&MapForm::Last)));
        let from =
            grows.and_then(|block| self.steps_of.get(&block)).map_or(number, |steps| steps.0);
        if let Some(block) = stays_during(self.plan, step, &self.late) {
            let (from, to) = self.of_stay(block).unwrap_or((number, number));
            let copies = pipeline_stages::in_flight_copies(program, step.result.value);
            self.begin(node, bytes * copies, from..=to, None);
        } else {
            self.begin(node, bytes, from..=number, step.repeat);
        }
        if is_late(program, step, &self.late) {
            self.late.insert(step.result.value);
        }
    }

    /// Whether nothing reads the result of a step.
    fn is_unread(&self, step: usize) -> bool {
        let node = dataflow::index(step);
        self.dataflow.readers(step).next().is_none()
            && self.dataflow.outputs_from(node).next().is_none()
    }

    fn read_operands(&mut self, step: &Step, op: Option<&Op>, number: usize) {
        let renames = op.is_some_and(|op| op.is(&MapForm::LoopCarried) || op.is(&MapForm::Last));
        let looked_at = op.map_or(usize::MAX, |op| op.sharded_operands().len().max(1));
        // Another name for the same bytes: they count once.
        let entered = op.filter(|op| op.is(&MapForm::LoopCarried)).and(step.repeat);
        let around = entered.map(|block| self.plan.program.repeats.parent(block));
        for (position, operand) in step.operands.iter().enumerate().take(looked_at) {
            let (until, place) = if renames {
                (number.saturating_sub(1), around.unwrap_or(step.repeat))
            } else {
                let until = self.on_chip.reads_until(number, position);
                (until, self.plan.steps[until].repeat)
            };
            if let Some(source) = self.dataflow.source(number, position) {
                if self.goes_back[number] && self.is_recomputed(source) {
                    self.read_again(source, op, (number.min(until), until), place);
                } else {
                    self.read(source, operand.value, until, place);
                }
            }
        }
    }

    /// Keeps the gradient that a step updates a parameter with for all layers and until the end of
    /// the program, where frameworks do; one that is all-reduced is in a buffer from the beginning.
    fn keep_gradient(&mut self, step: &Step, number: usize) {
        let program = &self.plan.program;
        let Some(position) = self.frameworks.kept_operand(program, step) else { return };
        let copies = pipeline_stages::all_copies(program, step.operands[position].value);
        let Some(node) = self.dataflow.source(number, position) else { return };
        let is_buffered = self.is_all_reduced(node);
        let Some(alive) = &mut self.ranges[node.index()] else { return };
        alive.life.to = self.plan.steps.len().saturating_sub(1);
        alive.times(copies);
        if is_buffered {
            alive.life.from = 0;
            alive.life.grows = None;
        } else {
            self.grow(node, copies, |_| true);
        }
    }

    fn is_all_reduced(&self, node: NodeIndex) -> bool {
        let Node::Statement(step) = self.dataflow.graph()[node] else { return false };
        let StepKind::Collective(collective, _) = &self.plan.steps[step].kind else { return false };
        matches!(collective.kind, CollectiveKind::AllReduce)
    }

    /// The first and the last step of a block.
    fn of_block(&self, block: Option<RepeatId>) -> Option<(usize, usize)> {
        self.steps_of.get(&block?).copied()
    }

    /// The first and the last step of a block during which a value is kept or read: for stages that
    /// alternate between forward and backward, those of both directions.
    fn of_stay(&self, block: RepeatId) -> Option<(usize, usize)> {
        let program = &self.plan.program;
        let (from, to) = self.of_block(Some(block))?;
        let in_turns =
            program.pipeline(Some(block)).is_some_and(|pipeline| pipeline.schedule.alternates());
        let back = pipeline_stages::reverse(program, block).filter(|_| in_turns);
        Some((from, self.of_block(back).map_or(to, |steps| steps.1)))
    }

    /// Whether a materialization takes no bytes of its own: the first of its value does not, as one
    /// of a parameter or of rows of a microbatch, and is the same.
    fn is_resident(&self, of: &Materialization) -> bool {
        let first = self.dataflow.node_of(of.value);
        let alive = self.ranges[first.index()].as_ref();
        alive.is_some_and(|alive| alive.life.bytes <= 0.0)
            && self.materialization(first).is_some_and(|first| first == *of)
    }

    /// What a node produces.
    fn materialization(&self, node: NodeIndex) -> Option<Materialization> {
        match self.dataflow.graph()[node] {
            Node::Statement(step) => Some(self.plan.steps[step].result.clone()),
            Node::Declared(value) => {
                let declared = self.plan.program.values[value].declared_sharding.as_ref();
                declared.and_then(Pin::exact).map(|sharding| Materialization { value, sharding })
            }
            Node::Output(_) => None,
        }
    }

    /// Extends the range of an operand to step `at`. A value from before the reader's block is read
    /// in each of its iterations; a value of another block is kept for every layer, unless only
    /// that of the last layer leaves its block.
    fn read(&mut self, of: NodeIndex, value: ValueId, at: usize, place: Option<RepeatId>) {
        let repeats = &self.plan.program.repeats;
        let Some(began) = self.ranges[of.index()].as_ref().map(|alive| alive.began) else { return };
        let around = repeats.outermost(place, began).and_then(|block| self.of_stay(block));
        let inner = self.of_block(block_of_one_copy(repeats, place, began));
        let Some(alive) = &mut self.ranges[of.index()] else { return };
        alive.life.to = alive.life.to.max(around.map_or(at, |steps| steps.1));
        if repeats.are_apart(place, began) {
            let copies = pipeline_stages::in_flight_copies(&self.plan.program, value);
            alive.times(copies);
            alive.last_read = alive.last_read.max(inner.map_or(at, |steps| steps.1));
            let in_order = self.plan.program.pipeline(place).is_none();
            let one = 1.0 / copies.max(1.0);
            alive.life.shrinks = around.filter(|_| in_order).map(|(first, last)| Shrinking {
                steps: first..=last,
                one,
                read: alive.last_read,
            });
            self.grow(of, copies, |block| !repeats.is_inside(place, block));
        }
    }

    /// Extends the ranges of what leaves the program to its end.
    fn leave(&mut self) {
        let (program, last) = (&self.plan.program, self.plan.steps.len().saturating_sub(1));
        for node in self.dataflow.graph().node_indices() {
            for place in self.dataflow.outputs_from(node) {
                let output = &program.outputs[place];
                let copies = pipeline_stages::all_copies(program, output.value);
                if let Some(alive) = &mut self.ranges[node.index()]
                    && program.carried_into(output).is_none()
                {
                    alive.life.to = last;
                    alive.times(copies);
                    self.grow(node, copies, |_| true);
                }
            }
        }
    }

    /// An update is written in place of its parameter or state, if nothing reads the old value
    /// afterwards.
    fn alias_in_place(&mut self, value: ValueId, of: Option<ValueId>) {
        let Some((of, declared)) = of.and_then(|of| {
            Some((
                of,
                self.plan.program.values[of].declared_sharding.as_ref().and_then(Pin::exact)?,
            ))
        }) else {
            return;
        };
        let old = Materialization { value: of, sharding: declared.clone() };
        let readers = self.nodes(&old).flat_map(|node| self.dataflow.readers_of(node));
        let last_read = readers.map(|(reader, _)| reader).max().unwrap_or(0);
        let new = self.nodes(&Materialization { value, sharding: declared }).last();
        if let Some(alive) = new.and_then(|node| self.ranges[node.index()].as_mut())
            && last_read <= alive.life.from
        {
            alive.life.bytes = 0.0;
        }
    }

    /// Values that `microbatches` accumulate or join are live from their first step on, for all
    /// layers.
    fn accumulate(&mut self, step: &Step, bytes: f64, number: usize, microbatches: RepeatId) {
        let from = self.steps_of.get(&microbatches).map_or(number, |steps| steps.0);
        let around = self.plan.program.repeats.outwards(step.repeat).last();
        let to = self.of_block(around).map_or(number, |steps| steps.1);
        let copies = pipeline_stages::all_copies(&self.plan.program, step.result.value);
        self.begin(dataflow::index(number), bytes, from..=to, step.repeat).times(copies);
    }

    /// The step of the peak, its bytes, and the layer during which it is reached.
    fn peak(&self) -> (Option<usize>, f64, sweep::Layer) {
        let lives: Vec<&LiveRange> = self
            .ranges
            .iter()
            .flatten()
            .map(|alive| &alive.life)
            .chain(self.again.values())
            .collect();
        sweep::peak(&lives, self.plan.steps.len())
    }

    /// The nodes that produce a materialization, in order.
    fn nodes(&self, of: &Materialization) -> impl Iterator<Item = NodeIndex> + use<'_, 'p> {
        let declared = self.dataflow.node_of(of.value);
        let is_declared = self.plan.program.is_declared(of.value)
            && self.materialization(declared).is_some_and(|declared| declared == *of);
        let of = of.clone();
        let steps = self.plan.steps.iter().enumerate();
        let steps = steps.filter(move |(_, step)| step.result == of);
        let declared = Some(declared).filter(|_| is_declared);
        declared.into_iter().chain(steps.map(|(number, _)| dataflow::index(number)))
    }
}

impl OpenRange {
    /// The number of copies that are live, where they are not counted yet; one for a value from
    /// outside blocks.
    fn times(&mut self, count: f64) {
        if !self.of_all_layers && self.began.is_some() {
            self.life.bytes *= count;
            self.of_all_layers = true;
        }
    }
}

fn of(plan: &Plan, dataflow: &Dataflow<usize>) -> Memory {
    let (resident_bytes, ranges) = lives(plan, dataflow);
    let (peak_step, live, _) = ranges.peak();
    let host_bytes = on_host::bytes(plan);
    Memory { resident_bytes, peak_bytes: resident_bytes + live, peak_step, host_bytes }
}

/// The resident bytes, and the live ranges of everything else.
fn lives<'p>(plan: &'p Plan, dataflow: &'p Dataflow<usize>) -> (f64, LiveRanges<'p>) {
    let program = &plan.program;
    let mut ranges = LiveRanges::new(plan, dataflow);
    let resident_bytes = ranges.begin_declared();
    for (number, step) in plan.steps.iter().enumerate() {
        ranges.run(step, number);
    }
    ranges.leave();
    ranges.join_again();
    for output in &program.outputs {
        ranges.alias_in_place(output.value, program.updates(output));
    }
    (resident_bytes, ranges)
}

/// For each step, whether it belongs to the backward part; a collective belongs where its result is
/// read.
fn goes_back(plan: &Plan, dataflow: &Dataflow<usize>) -> Vec<bool> {
    let mut goes_back = vec![false; plan.steps.len()];
    for (number, step) in plan.steps.iter().enumerate().rev() {
        goes_back[number] = match step.kind {
            StepKind::Local(op) => plan.program.ops[op].phase == Phase::Backward,
            StepKind::Collective(..) => {
                let mut readers = dataflow.readers(number).peekable();
                readers.peek().is_some() && readers.all(|(reader, _)| goes_back[reader])
            }
        };
    }
    goes_back
}

/// Whether the result of an operation is a view of rows of its operand.
fn is_part(op: &Op) -> bool {
    matches!(op.kind, OpKind::Rearrange(Rearrange::Part { .. }))
}

/// Whether the result of a step in a pipeline is complete only after all microbatches: a sum over
/// the batch, or a value that depends on one.
fn is_late(program: &Program, step: &Step, late: &IndexSet<ValueId>) -> bool {
    let without_batch = pipeline_stages::is_staged(program, step)
        && !program.has_batch(step.repeat, step.result.value);
    let follows = || step.operands.iter().any(|operand| late.contains(&operand.value));
    without_batch
        && !program.is_shared(step.result.value)
        && (pipeline_stages::by_microbatch(program, step) || follows())
}

/// The block during which a step's result is kept for all its layers and microbatches: values that
/// microbatches retain, and in a stage values that do not depend on the batch. Values that depend
/// on complete sums are computed layer by layer at the end of a stage.
fn stays_during(plan: &Plan, step: &Step, late: &IndexSet<ValueId>) -> Option<RepeatId> {
    let program = &plan.program;
    if program.is_shared(step.result.value) {
        let held = program.is_kept_gathered(step.repeat, &step.result);
        let around = program.repeats.microbatches(step.repeat);
        return around.or(program.staged_block(step.repeat)).or(step.repeat).filter(|_| held);
    }
    let without_batch = pipeline_stages::is_staged(program, step)
        && !program.has_batch(step.repeat, step.result.value);
    let stays = without_batch
        && (pipeline_stages::by_microbatch(program, step) || !is_late(program, step, late));
    program.staged_block(step.repeat).filter(|_| stays)
}
