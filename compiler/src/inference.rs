//! Inference sizing: times of a prefill or decode step by the book's formula, for each batch, with
//! the plan's shardings.
//!
//! `step = caches read + max(FLOPs, parameters read)` (*How To Scale Your Model*, Part 7), a
//! device's bytes and FLOPs taken from the plan (`passes::serving`): where everything is sharded
//! evenly this is the book's total over the total bandwidth, and elsewhere it is what the plan
//! pays. Other batches keep the plan and change the size of one dimension; `sweep` plans every
//! batch. The statements of a program decide its phase: a program that reads caches is a decode
//! step, one whose tokens attend to each other a prefill.

mod table;

use std::fmt;

use serde::Serialize;
use shardwise_ir::Role;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::plan::Plan;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::Sharding;
use shardwise_ir::total;
use shardwise_passes::crossover;
use shardwise_passes::liveness;
use shardwise_passes::local_shape;
use shardwise_passes::report::report;
use shardwise_passes::serving::{self, Load, NotServing, Serving};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::Planned;

pub(crate) use table::lines;

/// The phase of a serving step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A pass over complete prompts.
    Prefill,
    /// A step that reads caches, with few tokens a sequence.
    Decode,
}

impl Phase {
    /// As options and tables write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// Whether a program is sized as a serving step, and in which phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum RequestedPhase {
    /// Decode if the program reads caches, prefill if its tokens attend to each other.
    #[default]
    Auto,
    /// A pass over complete prompts, whatever the program does.
    Prefill,
    /// A step that reads caches, whatever the program does.
    Decode,
    /// Not as a serving step.
    None,
}

impl RequestedPhase {
    /// As `--phase` writes it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    /// Whether to size, and in which phase.
    pub phase: RequestedPhase,
    /// Sizes of the batch, a row each.
    pub batches: Vec<u64>,
}

/// A serving step: the bytes that it reads, its least time, and the largest batch that fits into
/// memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inference {
    /// Prefill or decode.
    pub phase: Phase,
    /// The dimension of sequences.
    pub batch_dim: String,
    /// The caches that it reads, or produces if it reads none.
    pub cache: Cache,
    /// The step at the program's own batch.
    pub step: Row,
    /// The batch from which FLOPs take longer than reading the parameters; absent where they never
    /// do.
    pub critical: Option<Critical>,
    /// The largest batch that fits into memory; absent where the capacity is not known, 0 where no
    /// batch fits.
    pub largest_batch: Option<u64>,
    /// The requested batches.
    pub batches: Vec<Row>,
}

/// Caches that a step reads or produces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cache {
    /// Bytes a token, over all layers; 0 where caches have no length, or different ones.
    pub token_bytes: f64,
    /// Bytes a sequence.
    pub sequence_bytes: f64,
    /// Bytes of caches that sequences share.
    pub shared_bytes: f64,
    /// Tokens of the longest cache.
    pub context: u64,
    /// Whether the step reads them; else it produces them.
    pub is_read: bool,
}

/// The batch at which FLOPs and the reading of parameters take the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Critical {
    /// Sequences; not always a whole number.
    pub batch: f64,
    /// Tokens of the step.
    pub tokens: f64,
}

/// A step at one batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Sequences.
    pub batch: u64,
    /// Tokens of the step.
    pub tokens: f64,
    /// Bytes of all parameters and caches of the unsharded program.
    pub held_bytes: f64,
    /// The largest number of bytes on a device.
    pub device_bytes: u64,
    /// Whether that fits; absent where the capacity is not known.
    pub fits: Option<bool>,
    /// FLOPs of attention on a device: scores, and their products with values.
    pub attention_flops: f64,
    /// Bytes that attention reads and writes on a device if scores never leave the chip.
    pub attention_bytes: f64,
    /// Seconds of attention: the longer of reading the caches (in a prefill, its reads and writes)
    /// and its arithmetic.
    pub attention_s: f64,
    /// Seconds of reading the parameters.
    pub parameters_s: f64,
    /// Seconds of arithmetic with the parameters.
    pub flops_s: f64,
    /// A lower bound in seconds: `attention_s + max(parameters_s, flops_s)`.
    pub step_s: f64,
    /// The largest number of tokens per second of the mesh.
    pub tokens_per_s: f64,
    /// Seconds of this plan at this batch, communication and element-wise work included.
    pub plan_s: f64,
    /// The longest part: `cache`, `attention`, `parameters` or `flops`.
    pub bound: &'static str,
}

/// Why a plan is not sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsized {
    /// The request excludes it.
    NotRequested,
    /// Its program is not a serving step.
    NotServing(NotServing),
    /// It reads no caches, its tokens do not attend to each other, and the request does not set a
    /// phase.
    Unclear,
    /// The memory bandwidth of the hardware is not known.
    UnknownMemory,
}

impl Unsized {
    /// Whether the program reads caches as a step of serving does.
    pub(crate) fn reads_caches(self) -> bool {
        matches!(self, Self::NotServing(NotServing::CachesApart | NotServing::Mixed))
    }
}

impl fmt::Display for Unsized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRequested => "--batches sizes a step of serving; leave --phase none out",
            Self::NotServing(NotServing::Trains) => {
                "it has gradients, and a step of serving has \
                none; leave `backward` out"
            }
            Self::NotServing(NotServing::WithoutBatch) => {
                "a step of serving multiplies a `param` with a batch, a dimension that no `param` \
                    has; there is no such product"
            }
            Self::NotServing(NotServing::CachesApart) => {
                "no cache (`state`) that it reads has a dimension that the batch has, by which it \
                    would grow; give the cache that dimension"
            }
            Self::NotServing(NotServing::Mixed) => {
                "its tokens are those of several steps, of which each reads its own caches \
                    (`state`), and one step is sized; write the requests that decode as one \
                    program, and the prompts as another"
            }
            Self::Unclear => {
                "it reads no caches (`state`), and no tokens attend to each other; give --phase \
                    decode or --phase prefill"
            }
            Self::UnknownMemory => {
                "it is not known how fast the memory of this hardware is; give \
                `memory_bandwidth` in its hardware file"
            }
        })
    }
}

impl std::error::Error for Unsized {}

/// The sizing of a plan, or why there is none.
pub(crate) fn inference(planned: &Planned, sizing: &Sizing) -> Result<Inference, Unsized> {
    let program = &planned.plan.program;
    if sizing.phase == RequestedPhase::None {
        return Err(Unsized::NotRequested);
    }
    let serving = Serving::of(program).map_err(Unsized::NotServing)?;
    program.hardware.hbm_bandwidth.ok_or(Unsized::UnknownMemory)?;
    let seen = match (serving.reads_cache, serving.attends) {
        (true, _) => Some(Phase::Decode),
        (false, true) => Some(Phase::Prefill),
        (false, false) => None,
    };
    let phase = match sizing.phase {
        RequestedPhase::Prefill => Phase::Prefill,
        RequestedPhase::Decode => Phase::Decode,
        RequestedPhase::Auto | RequestedPhase::None => seen.ok_or(Unsized::Unclear)?,
    };
    let mut sizer = Sizer { planned, plan: Plan::clone(&planned.plan), serving };
    let batch = program.dims[sizer.serving.batch].size;
    Ok(Inference {
        phase,
        batch_dim: program.dims[sizer.serving.batch].name.clone(),
        cache: cache(program, &sizer.serving),
        step: sizer.row(batch),
        critical: sizer.critical(),
        largest_batch: sizer.largest(),
        batches: sizing.batches.iter().map(|&batch| sizer.row(batch)).collect(),
    })
}

fn whole_bytes(program: &Program, value: ValueId) -> f64 {
    let copies = program.iterations(program.values[value].repeat) as f64;
    copies
        * local_shape::local_bytes(
            program,
            value,
            &Sharding::replicated(program.values[value].dims.len()),
        )
}

fn cache(program: &Program, serving: &Serving) -> Cache {
    let mut cache = Cache { is_read: serving.reads_cache, ..Cache::default() };
    let mut lengths = Vec::new();
    let size = |dim: DimId| program.dims[dim].size;
    let caches = if serving.reads_cache {
        serving::read_caches(program)
    } else {
        serving::given_caches(program, serving)
    };
    for value in caches {
        let bytes = whole_bytes(program, value);
        if !program.values[value].dims.contains(&serving.batch) {
            cache.shared_bytes += bytes;
            continue;
        }
        let sequence = bytes / size(serving.batch) as f64;
        cache.sequence_bytes += sequence;
        let context = serving.context(program, value);
        if !context.is_empty() {
            let tokens = context.into_iter().map(size).product::<u64>();
            cache.token_bytes += sequence / tokens as f64;
            lengths.push(tokens);
        }
    }
    cache.context = lengths.iter().copied().max().unwrap_or(0);
    if lengths.iter().any(|&length| length != cache.context) {
        cache.token_bytes = 0.0;
    }
    cache
}

/// A plan that is sized at many batches.
struct Sizer<'p> {
    planned: &'p Planned,
    plan: Plan,
    serving: Serving,
}

/// The granule of the batch: the parts into which declarations split it. Brackets chosen by the
/// plan are ignored, since another batch could have others.
fn granule(program: &Program, serving: &Serving) -> u64 {
    let parts = |dim: DimId| {
        let declared_shardings = program
            .values
            .iter()
            .filter(|value| value.is_declared())
            .filter_map(|value| Some((value, value.declared_sharding.as_ref()?)));
        let split = declared_shardings.filter_map(|(value, declared)| {
            Some(declared.dims[value.dims.iter().position(|&other| other == dim)?].named())
        });
        split
            .map(|axes| local_shape::parts(&program.mesh, axes))
            .fold(1, crossover::least_common_multiple)
    };
    let units = parts(serving.grows).saturating_mul(serving.unit(program));
    crossover::least_common_multiple(units, parts(serving.batch))
}

/// No batch is larger.
const LARGEST: u64 = 1 << 40;

impl Sizer<'_> {
    fn resize(&mut self, batch: u64) {
        let unit = self.serving.unit(&self.plan.program);
        crossover::resize(&mut self.plan.program, self.serving.grows, batch.div_ceil(unit));
    }

    fn load(&mut self, batch: u64) -> Load {
        self.resize(batch);
        self.serving.load(&self.plan)
    }

    fn bandwidth(&self) -> f64 {
        self.plan.program.hardware.hbm_bandwidth.unwrap_or(f64::INFINITY)
    }

    fn row(&mut self, batch: u64) -> Row {
        let load = self.load(batch);
        let program = &self.plan.program;
        let report = report(&(&self.plan).into(), self.planned.refinement);
        let stays = program
            .values
            .iter_enumerated()
            .filter(|(_, value)| matches!(value.role, Some(Role::Param | Role::State)));
        let attention_bytes =
            if self.serving.reads_cache { load.cache_bytes } else { load.attention_bytes };
        let (cache_s, parameters_s) =
            (attention_bytes / self.bandwidth(), load.weight_bytes / self.bandwidth());
        let attention_s = cache_s.max(load.attention_s);
        let step_s = attention_s + parameters_s.max(load.flops_s);
        // A batch that is not a whole number of granules is rounded down.
        let tokens = self.serving.tokens(program) * batch as f64
            / program.dims[self.serving.batch].size as f64;
        let peak_bytes = report.memory.peak_bytes;
        let read = if self.serving.reads_cache { "cache" } else { "attention" };
        let named = [
            (read, cache_s),
            ("attention", load.attention_s),
            ("parameters", parameters_s),
            ("flops", load.flops_s),
        ];
        let bound =
            named.into_iter().reduce(|most, other| if other.1 > most.1 { other } else { most });
        Row {
            batch,
            tokens,
            held_bytes: total(stays.map(|(id, _)| whole_bytes(program, id))),
            device_bytes: peak_bytes.round() as u64,
            fits: self.planned.capacity_bytes.map(|capacity| peak_bytes <= capacity),
            attention_flops: load.attention_flops,
            attention_bytes: load.attention_bytes,
            attention_s,
            parameters_s,
            flops_s: load.flops_s,
            step_s,
            tokens_per_s: tokens / step_s,
            plan_s: report.schedule.makespan_s,
            bound: bound.map_or("parameters", |(name, _)| name),
        }
    }

    /// Seconds by which arithmetic exceeds the reading of parameters.
    fn excess(&mut self, batch: u64) -> f64 {
        let load = self.load(batch);
        load.flops_s - load.weight_bytes / self.bandwidth()
    }

    /// By bisection between batches that declarations split evenly, and linear interpolation
    /// between two of them.
    fn critical(&mut self) -> Option<Critical> {
        let granule = granule(&self.plan.program, &self.serving);
        let mut high = 1;
        while self.excess(high * granule) < 0.0 {
            high *= 2;
            if high.saturating_mul(granule) > LARGEST {
                return None;
            }
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.excess(middle * granule) < 0.0 { low = middle } else { high = middle }
        }
        let above = self.excess(high * granule);
        // An empty batch computes nothing, and reads the same parameters.
        let below = if low == 0 {
            -self.load(granule).weight_bytes / self.bandwidth()
        } else {
            self.excess(low * granule)
        };
        let share = below / (below - above);
        let batch = (low as f64 + if share.is_finite() { share } else { 1.0 }) * granule as f64;
        self.resize(granule);
        Some(Critical {
            batch,
            tokens: batch * self.serving.tokens(&self.plan.program) / granule as f64,
        })
    }

    /// The largest batch that declarations split evenly and that fits.
    fn largest(&mut self) -> Option<u64> {
        let capacity = self.planned.capacity_bytes?;
        let granule = granule(&self.plan.program, &self.serving);
        let mut fits = |multiple: u64| {
            self.resize(multiple * granule);
            liveness::memory(&(&self.plan).into()).peak_bytes <= capacity
        };
        let mut high = 1;
        while fits(high) {
            high *= 2;
            if high.saturating_mul(granule) > LARGEST {
                return None;
            }
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        Some(low * granule)
    }
}

impl Planned {
    /// The plan as the requested serving step, or why it is not one.
    ///
    /// # Errors
    ///
    /// Why it is none: [`Unsized`], which prints as a sentence.
    pub fn inference(&self, sizing: &Sizing) -> Result<Inference, Unsized> {
        inference(self, sizing)
    }
}
