//! Pipelines: the layers of a block are placed on stages along a mesh axis, and the batch runs
//! through them in microbatches.
//!
//! A pipeline is an attribute of a block, not another kind of block: it has the meaning of the
//! block. The values are the same, whichever device computes a layer and in however many parts the
//! batch arrives, as long as no row of the batch depends on another; [`faults`] checks that. So
//! gradients, unrolling and checking need no rules for microbatches. The alternative, a loop over
//! microbatches with operations that split and join the batch, would express the same with four
//! more kinds of statements.
//!
//! A value of one microbatch is smaller ([`Program::size_in`]) and computed more often; a value
//! that does not depend on the batch (a gathered weight, an accumulated gradient) is computed once
//! per step. A value that leaves a stage for the statements after the block exists on the devices
//! of that stage only: it is a partial sum over the axis, to which the other stages contribute
//! zero.

use crate::Diag;
pub use crate::blocks::Pipeline;
use crate::codes::pipeline as codes;
use crate::counted;
use crate::ids::{AxisId, DimId, RepeatId, ValueId};
use crate::program::{BlockKind, Blocks, MapFn, MapForm, Op, OpKind, Opaque, Program, Repeat};
use crate::rearrange::{Rearrange, Window};
use crate::sharding::{AxisRef, DimPin, Pin};
pub use crate::stages::{Run, Schedule, Stages, TripCount};
use crate::unroll::is_loop_exit;

impl Program {
    /// The pipeline that the layers of a block are in.
    pub fn pipeline(&self, block: Option<RepeatId>) -> Option<&Pipeline> {
        self.repeats.outwards(block).find_map(|block| self.repeats[block].pipeline.as_ref())
    }

    /// The block around a place whose layers are on stages.
    pub fn staged_block(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        self.repeats.outwards(at).find(|&block| self.repeats[block].pipeline.is_some())
    }

    /// The number of layers of a place for each layer of its pipeline.
    pub fn layers_per_staged(&self, at: Option<RepeatId>) -> u64 {
        self.layers_below(at, self.staged_block(at))
    }

    /// The number of stages of a block.
    pub fn stages(&self, block: Option<RepeatId>) -> u64 {
        self.pipeline(block).map_or(1, |pipeline| self.mesh.axes[pipeline.axis].size)
    }

    /// Whether an axis is the stage axis of a block, so that its devices run different layers.
    pub fn is_staged_along(&self, block: Option<RepeatId>, axis: AxisId) -> bool {
        self.pipeline(block).is_some_and(|pipeline| pipeline.axis == axis)
    }

    /// The number of layers of a block on a device; of the stage that has the most.
    pub fn layers_per_device(&self, block: Option<RepeatId>) -> u64 {
        let Some(pipeline) = self.pipeline(block) else { return self.layer_count(block) };
        pipeline.stages.most_held().saturating_mul(self.layers_per_staged(block))
    }

    /// The number of layers of a block in the memory of a device: of the stage whose memory is that
    /// of the plan.
    pub fn layers_in_memory(&self, block: Option<RepeatId>) -> u64 {
        let Some(pipeline) = self.pipeline(block) else { return self.layer_count(block) };
        pipeline.stages.most_charged().saturating_mul(self.layers_per_staged(block))
    }

    /// Whether a dimension is the batch, or a product that it is a factor of.
    pub fn holds_batch(&self, dim: DimId, batch: DimId) -> bool {
        dim == batch || self.dims[dim].factors.iter().any(|&factor| self.holds_batch(factor, batch))
    }

    /// The size of a dimension for the statements of a block: in a pipeline, the batch has the size
    /// of a microbatch.
    pub fn size_in(&self, block: Option<RepeatId>, dim: DimId) -> u64 {
        let size = self.dims[dim].size;
        match self.pipeline(block) {
            Some(pipeline) if self.holds_batch(dim, pipeline.batch) => {
                size.div_ceil(pipeline.microbatches)
            }
            _ => size,
        }
    }

    /// Whether a value has rows of the batch that a block's pipeline splits.
    pub fn has_batch(&self, block: Option<RepeatId>, value: ValueId) -> bool {
        self.pipeline(block).is_some_and(|pipeline| {
            self.values[value].dims.iter().any(|&dim| self.holds_batch(dim, pipeline.batch))
        })
    }

    /// Whether an operation runs for each microbatch: it reads or produces rows of the batch.
    pub fn is_per_microbatch(&self, op: &Op) -> bool {
        let values = op.operands.iter().map(|operand| operand.value).chain([op.result]);
        values.into_iter().any(|value| self.has_batch(op.repeat, value))
    }

    /// The block of a stage that keeps the result of an operation for all of its layers until it
    /// ends, since microbatches add to it.
    pub fn sum_of_stage(&self, op: &Op) -> Option<RepeatId> {
        let is_sum = self.is_per_microbatch(op)
            && !is_loop_exit(op)
            && !self.is_shared(op.result)
            && !self.has_batch(op.repeat, op.result);
        self.staged_block(op.repeat).filter(|_| is_sum)
    }

    /// How often statements of a block run, `by_microbatch` or once per step.
    pub fn trip_count(&self, block: Option<RepeatId>, by_microbatch: bool) -> TripCount {
        match self.pipeline(block) {
            Some(Pipeline { stages, microbatches, .. }) if by_microbatch => {
                stages.trip_count(*microbatches, self.layers_per_staged(block), self.trains(block))
            }
            Some(Pipeline { stages, .. }) => stages.once_count(self.layers_per_staged(block)),
            None => {
                let layers = self.layers_per_device(block);
                let microbatches = self.repeats.microbatches(block);
                let times = microbatches.map_or(1, |block| self.repeats[block].count);
                let done = layers.saturating_mul(times);
                TripCount { per_device: done, including_bubble: done, waited: done }
            }
        }
    }

    /// How often an operation runs.
    pub fn trip_count_of(&self, op: &Op) -> TripCount {
        if self.is_stage_send(op) {
            self.stage_sends(op.repeat)
        } else {
            self.trip_count(op.repeat, self.is_per_microbatch(op))
        }
    }

    /// Whether an operation makes a value loop-carried in a pipeline: stages send it to their
    /// neighbours.
    pub fn is_stage_send(&self, op: &Op) -> bool {
        let enters_stages = op.repeat.is_some_and(|block| {
            let Repeat { pipeline, kind, .. } = &self.repeats[block];
            pipeline.is_some() && *kind == BlockKind::Layers
        });
        op.is(&MapForm::LoopCarried) && enters_stages
    }

    /// How often a stage of a block's pipeline sends to the next one.
    pub fn stage_sends(&self, block: Option<RepeatId>) -> TripCount {
        match self.pipeline(block) {
            Some(Pipeline { stages, microbatches, .. }) => {
                stages.receives(*microbatches, self.trains(block))
            }
            None => TripCount { per_device: 1, including_bubble: 1, waited: 1 },
        }
    }

    /// How often an operation runs on all stages together.
    pub fn trip_count_everywhere(&self, op: &Op) -> u64 {
        let microbatches = self
            .pipeline(op.repeat)
            .filter(|_| self.is_per_microbatch(op))
            .map_or(1, |pipeline| pipeline.microbatches);
        match self.pipeline(op.repeat) {
            Some(_) => self.layer_count(op.repeat).saturating_mul(microbatches),
            None => self.trip_count(op.repeat, false).per_device,
        }
    }

    /// How often a device runs an operation, on average over the stages of its pipeline.
    pub fn trip_count_on_average(&self, op: &Op) -> f64 {
        let Some(Pipeline { stages, microbatches, .. }) = self.pipeline(op.repeat) else {
            return self.trip_count_of(op).per_device as f64;
        };
        let microbatches = self.is_per_microbatch(op).then_some(*microbatches);
        stages.average_count(microbatches, self.layers_per_staged(op.repeat))
    }

    /// The mesh axis over which a value exported from a pipeline is pending: one stage has it, or
    /// each stage a part.
    pub fn stage_axis(&self, op: &Op) -> Option<AxisRef> {
        let block = self.values[op.operands.first()?.value].repeat;
        let leaves = is_loop_exit(op) && self.pipeline(op.repeat).is_none();
        let pipeline = self.repeats[block?].pipeline.as_ref().filter(|_| leaves)?;
        let axis = AxisRef::whole(pipeline.axis);
        (axis.size(&self.mesh) > 1).then_some(axis)
    }
}

/// Why a program's pipelines cannot run in microbatches, on stages.
pub fn faults(program: &Program) -> Vec<Diag> {
    let is_staged = |block: &RepeatId| program.whole_pipeline(Some(*block)) == Some(*block);
    let blocks = program.repeats.indices().filter(is_staged);
    let mut faults: Vec<(RepeatId, Diag)> = Vec::new();
    for block in blocks {
        // Faults of layers are not reported again for their reverse, which follows
        // from them.
        let layers = program.repeats.forward_block(block);
        if !faults.iter().any(|(other, _)| *other == layers) {
            faults.extend(Check { program, block }.all().into_iter().map(|diag| (layers, diag)));
        }
    }
    faults.into_iter().map(|(_, diag)| diag).collect()
}

struct Check<'p> {
    program: &'p Program,
    block: RepeatId,
}

impl Check<'_> {
    /// Whether a place is in the pipeline's layers.
    fn is_inside(&self, at: Option<RepeatId>) -> bool {
        self.program.repeats.is_inside(at, self.block)
    }

    fn all(&self) -> Vec<Diag> {
        [
            self.on_the_stages_axis(),
            self.too_few_rows(),
            self.mixing(),
            self.between(),
            self.crossing(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Brackets inside that shard a value over the stage axis; one error, for the first.
    fn on_the_stages_axis(&self) -> Option<Diag> {
        let Self { program, block } = *self;
        let pipeline = program.pipeline(Some(block))?;
        let axis = AxisRef::whole(pipeline.axis);
        let uses = |pin: &Option<Pin>| {
            pin.as_ref().is_some_and(|pin| {
                pin.dims
                    .iter()
                    .flat_map(DimPin::named)
                    .chain(pin.unreduced.axes())
                    .any(|&used| used == axis)
            })
        };
        let of_block = |value: ValueId| self.is_inside(program.values[value].repeat);
        let declared = program
            .values
            .iter()
            .filter(|value| self.is_inside(value.repeat) && uses(&value.declared_sharding))
            .map(|value| value.span);
        let written = program.ops.iter().filter(|op| self.is_inside(op.repeat)).flat_map(|op| {
            let operands =
                op.operands.iter().filter(|operand| uses(&operand.pin)).map(|operand| operand.span);
            operands.chain(uses(&op.result_pin).then_some(op.span)).collect::<Vec<_>>()
        });
        let left = program
            .outputs
            .iter()
            .filter(|output| of_block(output.value) && uses(&Some(output.pin.clone())))
            .map(|output| output.span);
        let span = declared.chain(written).chain(left).min_by_key(|span| span.start)?;
        let name = &program.mesh.axes[pipeline.axis].name;
        let message = format!("`{name}` splits something inside its own pipeline");
        let diag = Diag::error(codes::STAGES_AXIS, message, span, "split over the stages")
            .and(pipeline.span, "the pipeline");
        Some(diag.help(format!(
            "the devices along `{name}` have different layers: split over \
            another axis, or leave `{name}` out here"
        )))
    }

    /// Brackets inside that split the batch so often that a microbatch has too few rows; one error,
    /// for the first.
    fn too_few_rows(&self) -> Option<Diag> {
        let Self { program, block } = *self;
        let pipeline = program.pipeline(Some(block))?;
        let parts = |axes: &[AxisRef]| {
            axes.iter().map(|axis| axis.size(&program.mesh)).fold(1_u64, u64::saturating_mul)
        };
        let uneven = |value: ValueId, pin: &Option<Pin>| {
            let dims = program.values[value].dims.iter().zip(pin.iter().flat_map(|pin| &pin.dims));
            let mut split = dims.map(|(&dim, pin)| (dim, parts(pin.named())));
            split.find(|&(dim, parts)| {
                !program.dims[dim].pad && !program.size_in(Some(block), dim).is_multiple_of(parts)
            })
        };
        let uses = program.ops.iter().filter(|op| self.is_inside(op.repeat)).flat_map(|op| {
            let result = uneven(op.result, &op.result_pin).map(|fault| (op.span, fault));
            let read = op
                .operands
                .iter()
                .filter(|operand| self.is_inside(program.values[operand.value].repeat));
            read.filter_map(|operand| Some((operand.span, uneven(operand.value, &operand.pin)?)))
                .chain(result)
                .collect::<Vec<_>>()
        });
        let (span, (dim, parts)) = uses.min_by_key(|(span, _)| span.start)?;
        let (name, rows) = (&program.dims[dim].name, program.size_in(Some(block), dim));
        let message =
            format!("{parts} devices cannot share the {rows} of `{name}` that a microbatch has");
        let diag = Diag::error(codes::UNEVEN, message, span, "split so")
            .and(pipeline.span, counted(pipeline.microbatches, "microbatch"));
        Some(
            diag.help(format!(
                "write fewer microbatches, or split `{name}` over fewer devices here"
            )),
        )
    }

    /// The first statement in which a row of the batch depends on another.
    fn mixing(&self) -> Option<Diag> {
        let Self { program, block } = *self;
        let pipeline = program.pipeline(Some(block))?;
        let mut complete_late = vec![false; program.values.len()];
        for op in program.ops.iter().filter(|op| self.is_inside(op.repeat)) {
            let gives_rows = program.has_batch(op.repeat, op.result);
            let late = op.operands.iter().any(|operand| complete_late[operand.value.index()]);
            let carried = program.is_stage_send(op);
            if (late && gives_rows)
                || mixes(program, op, pipeline.batch)
                || (carried && !gives_rows)
            {
                return Some(self.mixed(op, pipeline, carried && !gives_rows));
            }
            let reads_rows =
                op.operands.iter().any(|operand| program.has_batch(op.repeat, operand.value));
            complete_late[op.result.index()] = !gives_rows && (late || reads_rows);
        }
        None
    }

    fn mixed(&self, op: &Op, pipeline: &Pipeline, carried: bool) -> Diag {
        let batch = &self.program.dims[pipeline.batch].name;
        let name = &self.program.values[op.result].name;
        let message = if carried {
            format!("`{name}` is carried, and has no rows along `{batch}`")
        } else {
            format!("`{name}` needs rows of `{batch}` that come in other microbatches")
        };
        let diag = Diag::error(codes::MIXED, message, op.span, "needs the complete batch")
            .and(pipeline.span, "the pipeline cuts it");
        diag.help(format!(
            "inside a pipeline every row of `{batch}` is computed by itself, and \
            sums over rows only leave it"
        ))
    }

    /// Statements between the end of a pipeline and its gradient, where gradients start before all
    /// microbatches are complete.
    fn between(&self) -> Option<Diag> {
        let Self { program, block } = *self;
        let pipeline =
            program.pipeline(Some(block)).filter(|pipeline| pipeline.schedule.alternates())?;
        let back = program
            .repeats
            .iter_enumerated()
            .find(|(_, repeat)| repeat.reversed == Some(block))
            .map(|(back, _)| back)?;
        let is_of_several = program.repeats[block].kind == BlockKind::Pipeline;
        let mut after = vec![false; program.values.len()];
        for op in &program.ops {
            let from_stages =
                is_loop_exit(op) && program.values[op.operands[0].value].repeat == Some(block);
            let read = op.operands.iter().any(|operand| after[operand.value.index()])
                && !reads_shape_only(op);
            after[op.result.index()] |= from_stages || read;
        }
        let mut before = vec![false; program.values.len()];
        for op in program.ops.iter().rev() {
            let enters = if is_of_several {
                program.repeats.is_inside(op.repeat, back)
            } else {
                op.repeat == Some(back) && op.is(&MapForm::LoopCarried)
            };
            if enters || (before[op.result.index()] && !reads_shape_only(op)) {
                op.operands.iter().for_each(|operand| before[operand.value.index()] = true);
            }
        }
        let outside = |op: &&Op| !program.repeats.iterates_over(op.repeat, block);
        let on_the_way = |op: &&Op| after[op.result.index()] && before[op.result.index()];
        let needs_all = |op: &&Op| {
            !program.has_batch(Some(block), op.result) || mixes(program, op, pipeline.batch)
        };
        let op = program.ops.iter().filter(outside).filter(on_the_way).find(needs_all)?;
        let (batch, name) = (&program.dims[pipeline.batch].name, &program.values[op.result].name);
        let schedule = pipeline.schedule.name();
        let message = format!(
            "`{schedule}` starts gradients before all microbatches are complete, and `{name}` \
                needs all rows of `{batch}`"
        );
        let diag = Diag::error(codes::MIXED, message, op.span, "needs the complete batch")
            .and(pipeline.span, "forward and backward in turns");
        Some(diag.help("write `schedule=gpipe`, which runs all of them forward first"))
    }
}

impl Check<'_> {
    /// A statement in a pipeline of several blocks that reads what another stage computes, and
    /// nothing carries to it.
    fn crossing(&self) -> Option<Diag> {
        let Self { program, block } = *self;
        let Repeat { pipeline, kind, reversed, .. } = &program.repeats[block];
        let pipeline = pipeline.as_ref().filter(|_| *kind == BlockKind::Pipeline)?;
        let is_forward = reversed.is_none();
        let reads = program
            .ops
            .iter()
            .filter(|op| is_forward && self.is_inside(op.repeat) && op.repeat != Some(block));
        let mut reads = reads.flat_map(|op| op.operands.iter().map(move |operand| (op, operand)));
        let (_, operand) = reads.find(|(op, operand)| {
            let is_carried = op.is(&MapForm::LoopCarried);
            let is_between = program.values[operand.value].repeat == Some(block);
            is_between && !is_carried && !self.is_beside(operand.value, op.repeat)
        })?;
        let exported = &program.values[operand.value].name;
        let name = exported.strip_suffix(".end").unwrap_or(exported);
        let message = format!("`{name}` is on another stage");
        let diag = Diag::error(codes::CROSSING, message, operand.span, "read here")
            .and(pipeline.span, "the stages of this pipeline");
        Some(diag.help(format!(
            "compute it before the pipeline, where all stages have it; or let the layers carry it, \
            `carry {name}`, so that each stage sends it to the next"
        )))
    }

    /// Whether the stage of a place, and no other, has a value that the blocks before it give.
    fn is_beside(&self, value: ValueId, at: Option<RepeatId>) -> bool {
        let program = self.program;
        let definition = program.ops.iter().find(|op| op.result == value);
        let Some(op) = definition.filter(|op| is_loop_exit(op)) else { return false };
        let positions = |at: Option<RepeatId>| -> Vec<usize> {
            let layers = program.pipeline(at).map_or(&[][..], |of| of.stages.layers());
            let has_layers = |(position, &count): (usize, &u64)| (count > 0).then_some(position);
            layers.iter().enumerate().filter_map(has_layers).collect()
        };
        let from = positions(program.values[op.operands[0].value].repeat);
        let from =
            if op.is(&MapForm::Last) { &from[from.len().saturating_sub(1)..] } else { &from };
        !from.is_empty() && from == positions(at)
    }
}

/// Whether an operation reads no element of its operand.
fn reads_shape_only(op: &Op) -> bool {
    !op.reads_elements()
}

/// Whether an element of the result depends on several rows of the batch, other than by a sum over
/// all of it.
fn mixes(program: &Program, op: &Op, batch: DimId) -> bool {
    let along = |dim: &DimId| program.holds_batch(*dim, batch);
    match &op.kind {
        OpKind::Composite { dims, .. } => dims.iter().any(along),
        OpKind::Rearrange(
            Rearrange::Slice(Window { from, to, .. }) | Rearrange::Pad(Window { from, to, .. }),
        ) => along(from) || along(to),
        OpKind::Rearrange(Rearrange::Concat { from, to }) => from.iter().chain([to]).any(along),
        OpKind::Rearrange(Rearrange::Rename(pairs)) => {
            pairs.iter().any(|(old, new)| along(old) || along(new))
        }
        OpKind::Rearrange(Rearrange::Roll(roll)) => along(&roll.dim),
        OpKind::Rearrange(Rearrange::Windows(windows) | Rearrange::Overlap(windows)) => {
            [windows.whole, windows.places, windows.kernel].iter().any(along)
        }
        OpKind::Along(function) => along(&function.from) || along(&function.to),
        OpKind::Opaque(Opaque { from, to, .. }) => from.iter().chain(to).any(along),
        OpKind::Rearrange(Rearrange::Part { .. } | Rearrange::Join { .. }) => true,
        OpKind::Route(route) => along(&route.tokens) || along(&route.experts),
        OpKind::Gather { dim }
        | OpKind::ScatterAdd { dim }
        | OpKind::Update { dim }
        | OpKind::Rearrange(
            Rearrange::Chunk { from: dim, .. } | Rearrange::Stack { to: dim, .. },
        )
        | OpKind::Map(MapFn { form: MapForm::Position(dim) | MapForm::Iota(dim), .. }) => {
            along(dim)
        }
        OpKind::Map(MapFn { form: MapForm::Causal { query, key, .. }, .. }) => {
            along(query) || along(key)
        }
        OpKind::Einsum { .. }
        | OpKind::Map(_)
        | OpKind::Reduce { .. }
        | OpKind::Rearrange(Rearrange::Reshape(_))
        | OpKind::Collective(_) => false,
    }
}
