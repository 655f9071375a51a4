//! Executes a plan on all devices, and compares it with the unsharded program after every
//! statement.

use std::borrow::Cow;
use std::ops::Range;

use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use ndarray::{ArrayD, ArrayViewMutD, Axis, Slice};
use rustc_hash::{FxHashMap, FxHashSet};
use shardwise_ir::ids::{AxisId, DimId, OpId, ValueId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::{Collective, Materialization, Plan, Step, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{CollectiveKind, MapForm, Op, OpKind, Program, Value};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::sharding::{AxisRef, DimPin, Pin, Sharding};
use shardwise_ir::unroll::Stage;

use super::devices::{Blocks, Devices, Extent};
use super::evaluate::Place;
use super::scale::{self, Batch};
use super::unsharded::{Expected, Truth, shape};
use super::verdict::{Fault, Mismatch};
use super::{collectives, evaluate};

/// For each value the stage that has it, and the axis along which stages have parts of it.
type StagesOfValues<'a> =
    (&'a IndexVec<ValueId, Option<Stage>>, &'a IndexVec<ValueId, Option<AxisId>>);

pub(super) struct Run<'a> {
    plan: &'a Plan,
    /// The unsharded values, by the plan's ids, where the program has them.
    truth: IndexVec<ValueId, Option<Expected>>,
    /// For a value of one stage only, that stage; its blocks on other stages are undefined.
    stages: &'a IndexVec<ValueId, Option<Stage>>,
    /// For a value of which several stages have parts, their axis.
    parts: &'a IndexVec<ValueId, Option<AxisId>>,
    pub(super) mesh: Devices,
    extents: IndexVec<DimId, Extent>,
    held: IndexMap<Materialization, Blocks>,
    /// All that was held, for the outputs.
    made: IndexSet<Materialization>,
    tolerance: f64,
    pub(super) largest_error: f64,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        (stages, parts): StagesOfValues<'a>,
        (truth, batches): (Truth, &[Batch]),
        (seed, tolerance): (u64, f64),
    ) -> Self {
        let program = &plan.program;
        let truth: IndexVec<ValueId, _> =
            program.values.iter().map(|value| truth.of(program, value, batches)).collect();
        let mut run = Self {
            plan,
            truth,
            stages,
            parts,
            mesh: Devices::new(&program.mesh),
            extents: scale::extents(plan),
            held: IndexMap::new(),
            made: IndexSet::new(),
            tolerance,
            largest_error: 0.0,
        };
        for (value, declared) in
            program.values.iter_enumerated().filter(|(_, value)| value.is_declared())
        {
            let sharding = declared.declared_sharding.as_ref().and_then(Pin::exact);
            if let (Some(sharding), Some(Expected { whole, .. })) = (sharding, &run.truth[value]) {
                let mut blocks =
                    run.mesh.distribute(whole, &run.extents_of(value), &sharding, seed);
                run.only_on_its_stage(value, &mut blocks);
                run.hold(Materialization { value, sharding }, blocks);
            }
        }
        run
    }

    fn hold(&mut self, of: Materialization, blocks: Blocks) {
        self.made.insert(of.clone());
        self.held.insert(of, blocks);
    }

    fn extents_of(&self, value: ValueId) -> Vec<Extent> {
        self.plan.program.values[value].dims.iter().map(|&dim| self.extents[dim]).collect()
    }

    /// Runs all statements; returns the first mismatch.
    pub(super) fn all(
        &mut self,
        program: &Program,
        progress: &dyn Fn(usize, usize),
    ) -> Option<Mismatch> {
        let steps = self.plan.steps.len();
        let freed = freed_after(self.plan);
        for (number, freed) in freed.iter().enumerate() {
            if let Err(fault) = self.step(number) {
                return Some(Mismatch {
                    statement: print::step(&self.plan.program, &self.plan.steps[number]),
                    fault,
                });
            }
            for of in freed {
                self.held.swap_remove(*of);
            }
            progress(number + 1, steps);
        }
        self.missing(program)
    }

    fn step(&mut self, number: usize) -> Result<(), Fault> {
        let step = &self.plan.steps[number];
        let blocks = match &step.kind {
            StepKind::Local(op) if self.exchanges(*op, step.operands.first()) => {
                self.with_neighbours(*op, &step.operands[0], &step.result)?
            }
            StepKind::Local(op) => self.computed(*op, step)?,
            StepKind::Collective(collective, _) => self.communicated(collective, step)?,
        };
        self.compare(&step.result, &blocks)?;
        self.hold(step.result.clone(), blocks);
        Ok(())
    }

    /// Runs a local operation on the blocks of each device.
    fn computed(&self, op: OpId, step: &Step) -> Result<Blocks, Fault> {
        let op = &self.plan.program.ops[op];
        let operands = step
            .operands
            .iter()
            .map(|operand| self.read(operand))
            .collect::<Result<Vec<_>, _>>()?;
        let local = |device: usize| {
            let read = step.operands.iter().zip(&operands);
            let blocks =
                read.map(|(of, held)| self.staged(op, (of.value, held), step.result.value, device));
            let blocks: Vec<Cow<'_, ArrayD<f64>>> =
                blocks.collect::<Option<_>>().ok_or(Fault::NotApplicable)?;
            let blocks: Vec<&ArrayD<f64>> = blocks.iter().map(AsRef::as_ref).collect();
            let starts = |of: &Materialization| {
                self.mesh.starts(&self.extents_of(of.value), &of.sharding, device)
            };
            let shape =
                self.mesh.shape(&self.extents_of(step.result.value), &step.result.sharding, device);
            let place = Place {
                starts: step.operands.iter().map(starts).collect(),
                start: starts(&step.result),
                shape,
            };
            evaluate::operation(&self.plan.program, op, &blocks, &place)
                .ok_or_else(|| Fault::Unfit { device: self.name(device) })
        };
        let mut blocks = (0..self.mesh.len()).map(local).collect::<Result<Blocks, _>>()?;
        self.only_on_its_stage(step.result.value, &mut blocks);
        Ok(blocks)
    }

    /// Runs a collective on its operand's blocks.
    fn communicated(&self, collective: &Collective, step: &Step) -> Result<Blocks, Fault> {
        let from = &step.operands[0];
        let to = collectives::result(
            &self.plan.program.mesh,
            collective,
            &from.sharding,
            &step.result.sharding,
        )
        .ok_or(Fault::NotApplicable)?;
        if collective.kind == CollectiveKind::Unreduce {
            return Ok(self.mesh.first_only(self.read(from)?, &collective.axes));
        }
        let (blocks, extents) = (self.read(from)?, self.extents_of(from.value));
        let moved = match collective.kind {
            CollectiveKind::AllToAll | CollectiveKind::ReduceScatter => {
                self.mesh.slice_and_move(blocks, &extents, &from.sharding, &to)
            }
            _ => self.mesh.move_blocks(blocks, &extents, &from.sharding, &to),
        };
        moved.ok_or(Fault::NotApplicable)
    }

    /// Whether an operation sends to neighbours: it rolls or takes windows along a sharded
    /// dimension.
    fn exchanges(&self, op: OpId, operand: Option<&Materialization>) -> bool {
        let dim = exchanged(&self.plan.program.ops[op].kind);
        let Some((operand, (dim, _))) = operand.zip(dim) else { return false };
        let dims = &self.plan.program.values[operand.value].dims;
        dims.iter()
            .zip(&operand.sharding.dims)
            .any(|(&other, axes)| other == dim && !axes.is_empty())
    }

    /// A roll or windows along a sharded dimension, by their definition: a device computes all of
    /// the result from what reaches it, and has its block of that.
    fn with_neighbours(
        &self,
        op: OpId,
        operand: &Materialization,
        result: &Materialization,
    ) -> Result<Blocks, Fault> {
        let program = &self.plan.program;
        let op = &program.ops[op];
        let (from, to) = exchanged(&op.kind).ok_or(Fault::NotApplicable)?;
        let axis = |value: ValueId, dim: DimId| {
            let place = program.values[value].dims.iter().position(|&other| other == dim);
            place.ok_or(Fault::NotApplicable)
        };
        let (before, after) = (axis(operand.value, from)?, axis(result.value, to)?);
        let (mut whole, mut new) = (operand.sharding.clone(), result.sharding.clone());
        whole.dims[before].clear();
        new.dims[after].clear();
        let extents = [operand, result].map(|of| self.extents_of(of.value));
        let gathered = self
            .mesh
            .move_blocks(self.read(operand)?, &extents[0], &operand.sharding, &whole)
            .ok_or(Fault::NotApplicable)?;
        let one = |(device, mut block): (usize, ArrayD<f64>)| {
            let own = self.mesh.spans(&extents[0], &operand.sharding, device).swap_remove(before);
            keep_near(program, &op.kind, block.view_mut(), Axis(before), &own);
            let place = Place {
                starts: vec![self.mesh.starts(&extents[0], &whole, device)],
                start: self.mesh.starts(&extents[1], &new, device),
                shape: self.mesh.shape(&extents[1], &new, device),
            };
            let own = self.mesh.spans(&extents[1], &result.sharding, device).swap_remove(after);
            evaluate::operation(program, op, &[&block], &place)
                .map(|all| all.slice_axis(Axis(after), Slice::from(own)).to_owned())
                .ok_or_else(|| Fault::Unfit { device: self.name(device) })
        };
        gathered.into_iter().enumerate().map(one).collect()
    }

    /// Clears the blocks of a value on devices of other stages.
    fn only_on_its_stage(&self, value: ValueId, blocks: &mut Blocks) {
        let Some(stage) = self.stages[value] else { return };
        for (_, block) in
            blocks.iter_mut().enumerate().filter(|(device, _)| !self.mesh.is_on(stage, *device))
        {
            block.fill(f64::NAN);
        }
    }

    /// The block of an operand that a device reads to compute `result`: its own; the one that a
    /// neighbouring stage sends; or zeros, as a part of a sum, for a value that another stage
    /// passes to the statements after the layers. `None` where it would have to come from further
    /// away.
    fn staged<'b>(
        &self,
        op: &Op,
        (value, held): (ValueId, &'b Blocks),
        result: ValueId,
        device: usize,
    ) -> Option<Cow<'b, ArrayD<f64>>> {
        let own = Cow::Borrowed(&held[device]);
        match (self.stages[value], self.stages[result]) {
            (Some(from), Some(to)) if from != to && self.mesh.is_on(to, device) => {
                let received = op.is(&MapForm::LoopCarried) && self.mesh.are_neighbours(from, to);
                received.then(|| Cow::Borrowed(&held[self.mesh.counterpart(from, device)]))
            }
            (Some(from), None) if !self.mesh.is_on(from, device) => {
                Some(Cow::Owned(ArrayD::zeros(held[device].raw_dim())))
            }
            _ => Some(own),
        }
    }

    fn read(&self, operand: &Materialization) -> Result<&Blocks, Fault> {
        let missing =
            || Fault::Missing { operand: print::materialization(&self.plan.program, operand) };
        self.held.get(operand).ok_or_else(missing)
    }

    fn name(&self, device: usize) -> String {
        self.mesh.name(&self.plan.program.mesh, device)
    }

    /// Compares every device's block, with pending parts reduced, with the block of the unsharded
    /// value.
    fn compare(&mut self, result: &Materialization, blocks: &Blocks) -> Result<(), Fault> {
        let Some(Expected { whole, unit }) = &self.truth[result.value] else { return Ok(()) };
        let Sharding { unreduced, .. } = &result.sharding;
        let parts = self.parts[result.value].map(AxisRef::whole);
        let pending: Vec<AxisRef> = unreduced.axes().iter().copied().chain(parts).collect();
        let reduced = self.mesh.reduce(blocks, &pending, unreduced.kind()).ok_or(Fault::Parts)?;
        let extents = self.extents_of(result.value);
        let has_it = |device: usize| {
            self.stages[result.value].is_none_or(|stage| self.mesh.is_on(stage, device))
        };
        for (device, block) in reduced.iter().enumerate().filter(|(device, _)| has_it(*device)) {
            let expected = self.mesh.block(whole, &extents, &result.sharding, device);
            if block.shape() != expected.shape() {
                return Err(Fault::Shape {
                    device: self.name(device),
                    found: shape(block),
                    expected: shape(&expected),
                });
            }
            for (place, (&found, &expected)) in block.iter().zip(&expected).enumerate() {
                let error = difference(found, expected, *unit);
                self.largest_error = self.largest_error.max(error);
                if error > self.tolerance {
                    let index = index(block.shape(), place);
                    return Err(Fault::Number {
                        device: self.name(device),
                        index,
                        found,
                        expected,
                    });
                }
            }
        }
        Ok(())
    }

    /// The shardings that the program's brackets require (outputs and left sides) and the plan
    /// never produces. A plan may omit an intermediate value.
    fn missing(&self, program: &Program) -> Option<Mismatch> {
        let outputs = program.outputs.iter().map(|output| (output.value, &output.pin));
        let own = &self.plan.program;
        let names: FxHashSet<&str> = own.values.iter().map(|value| value.name.as_str()).collect();
        let planned = |value: &Value| names.contains(value.name.as_str());
        let mut made: FxHashMap<&str, Vec<&Materialization>> = FxHashMap::default();
        for of in &self.made {
            made.entry(&own.values[of.value].name).or_default().push(of);
        }
        let made = |value: ValueId| made.get(program.values[value].name.as_str());
        let pinned = program.values.iter_enumerated().filter(|(_, value)| planned(value));
        let declared_shardings =
            pinned.filter_map(|(id, value)| Some((id, value.declared_sharding.as_ref()?)));
        let (value, pin) = outputs.chain(declared_shardings).find(|(value, pin)| {
            !made(*value).is_some_and(|made| self.holds(made, program, *value, pin))
        })?;
        let asked = &program.values[value];
        let statement = asked.name.clone() + &print::Printer::new(program).pin(&asked.dims, pin);
        Some(Mismatch { statement, fault: Fault::NotThere })
    }

    /// Whether one of the `made` is a value of `program` in the sharding of a pin; the two programs
    /// may number their axes and order their dimensions differently.
    fn holds(
        &self,
        made: &[&Materialization],
        program: &Program,
        value: ValueId,
        pin: &Pin,
    ) -> bool {
        let own = &self.plan.program;
        let alike = |held: &[AxisRef], asked: &[AxisRef]| {
            let names = |mesh: &Mesh, axes: &[AxisRef]| {
                axes.iter().map(|axis| mesh.axes[axis.axis()].name.clone()).collect::<Vec<_>>()
            };
            names(&own.mesh, held) == names(&program.mesh, asked)
        };
        let asked = &program.values[value];
        let accepted = |held: &Materialization| {
            let place = |dim: DimId| {
                own.values[held.value]
                    .dims
                    .iter()
                    .position(|&d| own.dims[d].name == program.dims[dim].name)
            };
            let dim = |(&dim, pin): (&DimId, &DimPin)| {
                let first = pin.named();
                pin.is_open()
                    || place(dim).is_some_and(|place| {
                        let axes = &held.sharding.dims[place];
                        let of_pin = axes.len().min(first.len());
                        let written = if pin.exact().is_some() { axes } else { &axes[..of_pin] };
                        alike(written, first)
                    })
            };
            let pending = &held.sharding.unreduced;
            asked.dims.iter().zip(&pin.dims).all(dim)
                && pin.unreduced.kind() == pending.kind()
                && alike(pending.axes(), pin.unreduced.axes())
        };
        made.iter().any(|held| accepted(held))
    }
}

/// The index of the element at a place in row-major order.
fn index(shape: &[usize], mut place: usize) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&length| {
            let at = place % length.max(1);
            place /= length.max(1);
            at
        })
        .collect();
    index.reverse();
    index
}

/// For each step, what no later step reads.
pub(super) fn freed_after(plan: &Plan) -> Vec<Vec<&Materialization>> {
    let mut freed: Vec<Vec<&Materialization>> = plan.steps.iter().map(|_| Vec::new()).collect();
    let mut read_later: IndexSet<&Materialization> = IndexSet::new();
    for (step, freed) in plan.steps.iter().zip(&mut freed).rev() {
        let named = step.operands.iter().chain([&step.result]);
        freed.extend(named.filter(|&of| read_later.insert(of)));
    }
    freed
}

/// The difference relative to the value's unit; two NaNs are equal.
fn difference(a: f64, b: f64, unit: f64) -> f64 {
    #[expect(clippy::float_cmp, reason = "equal infinities have no difference to take")]
    let same = a == b;
    if same || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let error = (a - b).abs() / unit;
    if error.is_nan() { f64::INFINITY } else { error }
}

/// The dimensions of the operand and of the result along which an operation on sharded blocks sends
/// to neighbours.
pub(super) fn exchanged(kind: &OpKind) -> Option<(DimId, DimId)> {
    match kind {
        OpKind::Rearrange(Rearrange::Roll(roll)) => Some((roll.dim, roll.dim)),
        OpKind::Rearrange(Rearrange::Windows(of)) => Some((of.whole, of.places)),
        OpKind::Rearrange(Rearrange::Overlap(of)) => Some((of.places, of.whole)),
        _ => None,
    }
}

/// Removes what does not reach a device whose block is `own`: elements beyond the halo of its
/// windows become undefined, and windows beyond the blocks next to it are not added.
fn keep_near(
    program: &Program,
    kind: &OpKind,
    mut block: ArrayViewMutD<'_, f64>,
    axis: Axis,
    own: &Range<usize>,
) {
    let (before, after, otherwise) = match kind {
        OpKind::Rearrange(Rearrange::Windows(windows)) => {
            let parts = block.len_of(axis) / own.len().max(1);
            let halo = windows.halo(|dim| program.dims[dim].size, parts as u64);
            let sizes = halo.map_or((0, 0), |halo| (halo.before, halo.after));
            (sizes.0 as usize, sizes.1 as usize, f64::NAN)
        }
        OpKind::Rearrange(Rearrange::Overlap(_)) => (own.len(), own.len(), 0.0),
        _ => return,
    };
    let near = own.start.saturating_sub(before)..own.end + after;
    for (place, mut row) in block.axis_iter_mut(axis).enumerate() {
        if !near.contains(&place) {
            row.fill(otherwise);
        }
    }
}
