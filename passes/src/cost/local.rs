//! Prices a local operation on a device: FLOPs, bytes and seconds under given shardings.

use shardwise_ir::dtype::DType;
use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::program::{Blocks, MapForm, Op, OpKind, Operand, Program};
use shardwise_ir::rates::{KernelRates, Rates};
use shardwise_ir::rearrange::{Rearrange, Route};
use shardwise_ir::sharding::Sharding;
use shardwise_ir::unroll::is_region_boundary;

use crate::layouts::composite;
use crate::layouts::local_shape::{bytes_in, bytes_read, elements_in, local_size, places_in};

/// The cost of a local operation on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LocalWork {
    /// Floating-point (or integer) operations of the program.
    pub flops: f64,
    /// Those that compute again what is not kept.
    pub recomputed_flops: f64,
    /// Bytes read and written: every operand and the result once.
    pub bytes: f64,
    /// Seconds of arithmetic at peak rate, of the busiest device.
    pub flops_s: f64,
    /// Seconds of traffic at HBM bandwidth; 0 where the bandwidth is not known.
    pub hbm_s: f64,
    /// Seconds: the larger of the two, or the time at measured rates.
    pub seconds: f64,
}

/// The cost of `op` with its operands and result in these shardings; a loop-carried value costs
/// nothing.
pub fn work(program: &Program, op: &Op, operands: &[&Sharding], result: &Sharding) -> LocalWork {
    if is_region_boundary(op) {
        return LocalWork::default();
    }
    // A value accumulated over layers or microbatches is read once in each; a device has only the
    // layers of its stage.
    let left = Some(())
        .filter(|()| op.is(&MapForm::Total))
        .and_then(|()| program.exited_block(op.repeat, op.operands[0].value));
    let layers = |at: Option<RepeatId>| program.layers_per_device(at) as f64;
    let times = left
        .map_or(1.0, |block| layers(Some(block)) / layers(program.repeats.parent(block)).max(1.0));
    let flops = times * flops(program, op, operands, result);
    let recomputed_flops = op.kernel.score_flops() * flops;
    let bytes = times * traffic(program, op, operands, result);
    let dtype = dtype(program, op);
    let peak = program.hardware.peak_flops(dtype);
    let bandwidth = program.hardware.hbm_bandwidth.unwrap_or(f64::INFINITY);
    let imbalance = imbalance(program, op, operands, result);
    let flops_s = imbalance * (flops + recomputed_flops) / peak;
    let hbm_s = bytes / bandwidth;
    let seconds = seconds(program, op, dtype, flops_s, hbm_s);
    LocalWork { flops, recomputed_flops, bytes, flops_s, hbm_s, seconds }
}

/// How many times the average of all devices the busiest one computes of `op`: more than once only
/// where a causal mask leaves one device more than another.
pub fn imbalance(program: &Program, op: &Op, operands: &[&Sharding], result: &Sharding) -> f64 {
    op.share.imbalance(&program.dims, |dim| {
        let of_operands = op.operands.iter().map(|operand| operand.value).zip(operands);
        let axes = of_operands.chain([(op.result, &result)]).find_map(|(value, sharding)| {
            let place = program.values[value].dims.iter().position(|&other| other == dim)?;
            Some(&sharding.dims[place])
        });
        axes.into_iter().flatten().map(|axis| axis.size(&program.mesh)).product()
    })
}

/// What the time of an operation consists of, at the rates that are asked for, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Arithmetic.
    pub flops_s: f64,
    /// Traffic.
    pub hbm_s: f64,
    /// What a kernel of any size takes, or waits for its launch.
    pub fixed_s: f64,
}

impl Parts {
    /// Arithmetic and traffic of a product overlap, but not entirely: over the measured kernels,
    /// the root of the sum of squares is closer (11% on H100) than the larger of the two (12%) or
    /// their sum (14%).
    fn seconds(self) -> f64 {
        self.flops_s.hypot(self.hbm_s) + self.fixed_s
    }
}

/// The parts of the time of `op`, whose cost is `work`.
pub fn parts(program: &Program, op: &Op, work: &LocalWork) -> Parts {
    let LocalWork { flops_s, hbm_s, .. } = *work;
    match program.hardware.rates {
        _ if work.seconds == 0.0 => Parts { flops_s: 0.0, hbm_s: 0.0, fixed_s: 0.0 },
        Rates::Peak => Parts { flops_s, hbm_s, fixed_s: 0.0 },
        Rates::Measured => measured_parts(program, op, dtype(program, op), flops_s, hbm_s),
    }
}

/// The widest dtype of the operands; of products of attention with scores in `f32`, that of what
/// these are multiplied by, if it has 16 bits: kernels cast scores to it.
fn dtype(program: &Program, op: &Op) -> DType {
    let is_score =
        |place: usize| op.kernel.is_attention && op.is_product() && op.kernel.has_on_chip(place);
    let dtype = |operand: &Operand| program.values[operand.value].dtype;
    let read = op.operands.iter().enumerate().filter(|(place, _)| !is_score(*place));
    let read = read.map(|(_, operand)| dtype(operand)).reduce(DType::promote);
    let cast = read.filter(|read| matches!(read, DType::Bf16 | DType::F16));
    let widest = cast.or_else(|| op.operands.iter().map(dtype).reduce(DType::promote));
    widest.unwrap_or(program.values[op.result].dtype)
}

/// The time, at the rates that are asked for, of what takes `flops_s` and `hbm_s` at peak.
fn seconds(program: &Program, op: &Op, dtype: DType, flops_s: f64, hbm_s: f64) -> f64 {
    match program.hardware.rates {
        Rates::Peak => flops_s.max(hbm_s),
        Rates::Measured => measured_parts(program, op, dtype, flops_s, hbm_s).seconds(),
    }
}

/// What the kernel of an operation reaches.
fn kernel_rates(program: &Program, op: &Op, dtype: DType) -> KernelRates {
    let measured = program.hardware.measured_kernels();
    if op.kernel.is_attention {
        measured.attention_kernels()
    } else if op.kernel.is_of_experts {
        measured.products_of_experts(dtype)
    } else if op.is_product() {
        measured.products(dtype)
    } else {
        measured.passes()
    }
}

/// The parts at measured rates of what takes `flops_s` and `hbm_s` at peak.
fn measured_parts(program: &Program, op: &Op, dtype: DType, flops_s: f64, hbm_s: f64) -> Parts {
    let kernel = kernel_rates(program, op, dtype);
    let (flops_s, hbm_s) = (flops_s / kernel.compute, hbm_s / kernel.memory);
    let fixed_s = if op.kernel.is_launched_elsewhere || op.is_view() || is_implicit(program, op) {
        0.0
    } else {
        kernel.fixed_s.max(program.hardware.launch_s() - flops_s.hypot(hbm_s))
    };
    Parts { flops_s, hbm_s, fixed_s }
}

/// Seconds of a product in chunks, as many along each of `split` dimensions as it says. A chunk
/// reads its part of operands that have them and all of others; where the result has none, each
/// adds to what the ones before have summed.
pub(crate) fn in_chunks_s(
    program: &Program,
    op: &Op,
    operands: &[&Sharding],
    result: &Sharding,
    split: &[(DimId, f64)],
) -> f64 {
    let chunks: f64 = split.iter().map(|(_, parts)| parts).product();
    let passes = |value: ValueId| {
        let dims = &program.values[value].dims;
        let others = split.iter().filter(|(dim, _)| !dims.contains(dim));
        others.map(|(_, parts)| parts).product::<f64>()
    };
    let bytes = |value, sharding| bytes_in(program, op.repeat, value, sharding);
    let given = op.operands.iter().zip(operands).enumerate();
    let read = given.filter(|(position, _)| !op.kernel.has_on_chip(*position));
    let read = read.map(|(position, (operand, sharding))| {
        let share = chosen_share(program, op, position, operands);
        passes(operand.value) * share * bytes_read(program, op.repeat, operand.value, sharding)
    });
    let written = f64::from(!op.kernel.result_on_chip) * bytes(op.result, result);
    let bytes = read.sum::<f64>() + (2.0 * passes(op.result) - 1.0) * written;
    let whole = work(program, op, operands, result);
    let hbm_s = bytes / program.hardware.hbm_bandwidth.unwrap_or(f64::INFINITY);
    let dtype = dtype(program, op);
    chunks * seconds(program, op, dtype, whole.flops_s / chunks, hbm_s / chunks)
}

/// Whether it is done by a product: windows that are not written, sums of those that it yields, or
/// what it converts.
fn is_implicit(program: &Program, op: &Op) -> bool {
    match op.kind {
        _ if program.values[op.result].stored_as.is_some() => true,
        OpKind::Rearrange(Rearrange::Windows(_)) => op.kernel.result_on_chip,
        OpKind::Rearrange(Rearrange::Overlap(_)) => op.kernel.has_on_chip(0),
        _ => false,
    }
}

/// Bytes of the operands whose elements are read, each once, and of the result: of those that the
/// kernel does not have on the chip.
fn traffic(program: &Program, op: &Op, operands: &[&Sharding], result: &Sharding) -> f64 {
    let all = || {
        op.operands.iter().zip(operands).enumerate().map(|(position, (operand, sharding))| {
            let is_read = !op.kernel.has_on_chip(position);
            f64::from(is_read)
                * read_share(program, op, position, operands)
                * bytes_read(program, op.repeat, operand.value, sharding)
        })
    };
    let size = bytes_in(program, op.repeat, op.result, result);
    let written = f64::from(!op.kernel.result_on_chip) * size;
    match &op.kind {
        // The same bytes under other names, unless they come from the chip.
        OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)) => {
            if op.kernel.has_on_chip(0) { written } else { 0.0 }
        }
        // Windows that products take are read for each of them from what they are of.
        OpKind::Rearrange(Rearrange::Windows(_)) => {
            let times = if op.kernel.is_recomputed() { 2.0 } else { 1.0 };
            written + times * all().sum::<f64>()
        }
        // Each step of a scan reads its own chunk, and writes its own part of a stack.
        OpKind::Rearrange(
            Rearrange::Slice(_)
            | Rearrange::Roll(_)
            | Rearrange::Chunk { .. }
            | Rearrange::Stack { .. },
        ) => 2.0 * size,
        // As many rows of the table are read as the result has.
        OpKind::Gather { .. } => size + written + all().skip(1).sum::<f64>(),
        OpKind::ScatterAdd { .. } => written + all().take(2).sum::<f64>(),
        // In place, rows are read and written; every device is charged as the one that stores all
        // the indices.
        OpKind::Update { .. } => {
            let copied =
                if program.is_in_place(op) { 0.0 } else { written + all().take(1).sum::<f64>() };
            copied + all().skip(1).sum::<f64>() + all().skip(2).sum::<f64>()
        }
        OpKind::Map(_) if !op.loads_operands() => op.share.of_all * written,
        OpKind::Map(_) => op.share.of_all * written + all().sum::<f64>(),
        _ => written + all().sum::<f64>(),
    }
}

/// The share of an operand whose elements are read.
fn read_share(program: &Program, op: &Op, position: usize, operands: &[&Sharding]) -> f64 {
    // Of what is updated in place, rows are read and written that the gradient has.
    let is_filled = program.values[op.operands[position].value].filled.is_part();
    if op.is_product() || is_filled {
        chosen_share(program, op, position, operands)
    } else {
        op.share.of_all
    }
}

/// Whether an operation reads all of its operands: no view, and nothing that reads or moves some
/// elements of an array.
pub(crate) fn reads_all(op: &Op) -> bool {
    let is_whole = matches!(
        op.kind,
        OpKind::Einsum { .. }
            | OpKind::Map(_)
            | OpKind::Reduce { .. }
            | OpKind::Composite { .. }
            | OpKind::Along(_)
            | OpKind::Route(_)
    );
    is_whole && op.loads_operands()
}

/// Bytes of an operand that `op`, which reads all of it, reads where its kernel has not before.
pub(crate) fn read_bytes(
    program: &Program,
    op: &Op,
    position: usize,
    operands: &[&Sharding],
) -> f64 {
    let value = op.operands[position].value;
    read_share(program, op, position, operands)
        * bytes_read(program, op.repeat, value, operands[position])
}

/// Seconds in which the kernel of `op` reads so many bytes more.
pub(crate) fn read_s(program: &Program, op: &Op, bytes: f64) -> f64 {
    let seconds = bytes / program.hardware.hbm_bandwidth.unwrap_or(f64::INFINITY);
    match program.hardware.rates {
        Rates::Peak => seconds,
        Rates::Measured => seconds / kernel_rates(program, op, dtype(program, op)).memory,
    }
}

/// The share of an operand that a product reads: of the weights of experts that have slots for all
/// tokens, those of experts that tokens choose, as many as if they chose at random. (Alternative:
/// as many as they can choose at most, which is up to 1.6 times as many.)
pub fn chosen_share(program: &Program, op: &Op, position: usize, operands: &[&Sharding]) -> f64 {
    if !op.is_product() {
        return 1.0;
    }
    let dims = &program.values[op.operands[position].value].dims;
    let others = op.operands.iter().zip(operands).enumerate().filter(|(of, _)| *of != position);
    let shares = others.filter_map(|(_, (operand, sharding))| {
        let value = &program.values[operand.value];
        let of_experts =
            |route: &Route| dims.contains(&route.experts) && !dims.contains(&route.capacity);
        let route = value.filled.route.filter(of_experts)?;
        let tokens = value.dims.iter().zip(&sharding.dims).filter(|(dim, _)| !dims.contains(dim));
        let tokens = tokens.map(|(&dim, axes)| local_size(program, op.repeat, dim, axes) as f64);
        let chosen = route.choices as f64 / program.dims[route.experts].size as f64;
        Some(1.0 - (1.0 - chosen).max(0.0).powf(tokens.product()))
    });
    shares.fold(1.0, f64::min)
}

/// Two per multiply-add over every index of a contraction, one per element otherwise (of the
/// operand, for a reduction).
fn flops(program: &Program, op: &Op, operands: &[&Sharding], result: &Sharding) -> f64 {
    let elements =
        |value: ValueId, sharding: &Sharding| elements_in(program, op.repeat, value, sharding);
    match &op.kind {
        OpKind::Einsum { contracted } => {
            let summed: f64 =
                contracted.iter().filter_map(|dim| along(program, op, operands[0], *dim)).product();
            let per_point = if contracted.is_empty() { 1.0 } else { 2.0 };
            let places = places_in(program, op.repeat, op.result, result);
            op.share.of_all * per_point * summed * places
        }
        OpKind::Map(function) => op.share.of_all * function.flops() * elements(op.result, result),
        OpKind::Reduce { .. } | OpKind::ScatterAdd { .. } => {
            elements(op.operands[0].value, operands[0])
        }
        OpKind::Composite { function, dims } => {
            let whole = elements(op.operands[0].value, operands[0]);
            let along: f64 =
                dims.iter().filter_map(|dim| along(program, op, operands[0], *dim)).product();
            composite::flops(*function, dims, whole, whole / along.max(1.0))
        }
        OpKind::Along(along) => {
            let picked = program.dims[along.to].size as f64;
            (along.function.row().flops)(picked) * elements(op.operands[0].value, operands[0])
        }
        OpKind::Route(route) => route.choices as f64 * elements(op.operands[0].value, operands[0]),
        // How many an opaque function takes is not known: its bytes are counted.
        OpKind::Opaque(_)
        | OpKind::Rearrange(_)
        | OpKind::Gather { .. }
        | OpKind::Update { .. }
        | OpKind::Collective(_) => 0.0,
    }
}

/// The size of the first operand along a dimension.
fn along(program: &Program, op: &Op, sharding: &Sharding, dim: DimId) -> Option<f64> {
    let position =
        program.values[op.operands[0].value].dims.iter().position(|&other| other == dim)?;
    Some(local_size(program, op.repeat, dim, &sharding.dims[position]) as f64)
}
