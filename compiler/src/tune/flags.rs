//! The winner as the flags of training frameworks: degrees, microbatches, recomputation and dtypes,
//! and below them as comments what the framework has no flag for.
//!
//! A plan gives every value a sharding; frameworks have one number for each kind of parallelism.
//! An axis is assigned to the first kind of its roles: pipeline, tensor, expert, context, data. Its
//! other roles are flags where a framework has them (sequence parallelism on the axis of tensors,
//! sharded parameters on the axis of data), and remarks where not.

use std::fmt::Write as _;

use shardwise_ir::products::Products;
use shardwise_ir::stages::Schedule;

use super::{ActingAxis, Recompute, Staging, Strategy, Tuned};
use crate::planned::parallelism::Role;

/// The degrees of a strategy as frameworks count them.
struct Degrees {
    pipeline: u64,
    tensor: u64,
    expert: u64,
    context: u64,
    /// Copies of the model with batches of their own, on axes that do not shard parameters.
    replicated: u64,
    /// Devices along the axes of data that shard parameters.
    sharded: u64,
    /// Whether optimizer states are split over copies of the model.
    splits_states: bool,
    /// Whether an axis of tensors also splits positions.
    sequence: bool,
    microbatches: u64,
    recompute: &'static str,
    dtypes: &'static str,
    /// The pipeline, where there is one.
    staging: Option<Staging>,
    /// The layers of all its stages.
    layers: u64,
    batch: Option<u64>,
    /// What no flag expresses.
    lacks: Vec<String>,
}

impl Degrees {
    fn of(tuned: &Tuned) -> Result<Self, String> {
        let strategy = tuned.strategies.first().ok_or("there is no strategy")?;
        let Some(microbatches) = strategy.microbatches else {
            return Err("flags of training need a program with `backward` whose microbatches are \
                not pinned; write --format text"
                .to_owned());
        };
        let mut degrees = Self {
            pipeline: 1,
            tensor: 1,
            expert: 1,
            context: 1,
            replicated: 1,
            sharded: 1,
            splits_states: false,
            sequence: false,
            microbatches,
            recompute: strategy.recompute,
            dtypes: strategy.dtypes,
            staging: strategy.pipeline,
            layers: strategy.staged_layers.unwrap_or(0),
            batch: tuned.batch,
            lacks: Vec::new(),
        };
        strategy.axes_roles.iter().for_each(|axis| degrees.add(axis));
        degrees.lacks.extend(mixed(strategy));
        Ok(degrees)
    }

    fn add(&mut self, axis: &ActingAxis) {
        let acts = |role: Role| axis.roles.contains(&role.name());
        let degree = if acts(Role::Pipeline) {
            &mut self.pipeline
        } else if acts(Role::Tensor) {
            self.sequence |= acts(Role::Sequence);
            &mut self.tensor
        } else if acts(Role::Expert) {
            &mut self.expert
        } else if acts(Role::Sequence) {
            &mut self.context
        } else if acts(Role::FullySharded) {
            &mut self.sharded
        } else {
            self.splits_states |= axis.splits_states;
            &mut self.replicated
        };
        *degree *= axis.size;
    }

    /// Devices with batches of their own: experts are spread over those of data.
    fn data(&self) -> u64 {
        self.replicated * self.sharded * self.expert
    }

    /// Whether this is what is computed again.
    fn recomputes(&self, what: Recompute) -> bool {
        self.recompute == what.name()
    }

    /// Whether every layer is computed again.
    fn recomputes_layers(&self) -> bool {
        self.recomputes(Recompute::Layers) || self.recomputes(Recompute::Offload)
    }

    /// A remark for frameworks that cannot send to the host.
    fn lacks_offload(&mut self) {
        if self.recomputes(Recompute::Offload) {
            self.lacks.push("inputs of layers wait in the memory of the host".to_owned());
        }
    }

    /// Whether products read this dtype.
    fn multiplies(&self, products: Products) -> bool {
        self.dtypes == products.name()
    }

    /// A remark for frameworks without a flag for products in these dtypes.
    fn lacks_products(&mut self, dtypes: &[Products]) {
        if dtypes.iter().any(|&dtype| self.multiplies(dtype)) {
            self.lacks.push(format!("products of layers in {}", self.dtypes));
        }
    }

    /// Whether something is computed again.
    fn recomputes_any(&self) -> bool {
        !self.recomputes(Recompute::Nothing)
    }

    /// The schedule, if it is one of these with as many chunks as it takes; else a remark.
    fn schedule(&mut self, known: &[(Schedule, &'static str)]) -> Option<&'static str> {
        let staging = self.staging?;
        let found = known.iter().find(|(schedule, _)| *schedule == staging.schedule);
        if found.is_none() {
            self.lacks.push(format!("the schedule {}", staging.in_words()));
        } else if staging.longest.is_some() {
            self.lacks.push("the layers of each stage".to_owned());
        }
        found.map(|(_, name)| *name)
    }

    /// Runs of layers, one after another, on all stages.
    fn runs(&self) -> u64 {
        self.pipeline * self.staging.map_or(1, |staging| staging.chunks)
    }

    /// The layers of a run, where all have equally many; else a remark.
    fn layers_of_run(&mut self) -> Option<u64> {
        let (layers, runs) = (self.layers, self.runs());
        let is_equal = layers.is_multiple_of(runs);
        if !is_equal {
            self.lacks.push(format!("{layers} layers are not equally many in {runs} runs of them"));
        }
        is_equal.then(|| layers / runs)
    }

    /// Samples of a microbatch on one of them, where they are whole.
    fn micro_batch(&self) -> Option<u64> {
        let parts = self.data() * self.microbatches;
        self.batch.filter(|batch| batch.is_multiple_of(parts)).map(|batch| batch / parts)
    }

    /// The remarks below the flags.
    fn remarks(&self, more: &[&str]) -> String {
        let mut out = String::new();
        for lack in self.lacks.iter().map(String::as_str).chain(more.iter().copied()) {
            let _ = writeln!(out, "# not expressed: {lack}");
        }
        if self.batch.is_some() && self.micro_batch().is_none() {
            out +=
                "# not expressed: the batch is not a whole number of samples for each microbatch\n";
        }
        out
    }
}

/// Roles beside the one that an axis has in frameworks.
fn mixed(strategy: &Strategy) -> impl Iterator<Item = String> {
    strategy.axes_roles.iter().filter_map(|axis| {
        let acts = |role: Role| axis.roles.contains(&role.name());
        let ActingAxis { axis: name, size, .. } = axis;
        if acts(Role::Tensor) && (acts(Role::FullySharded) || acts(Role::Data)) {
            Some(format!("{name}={size} splits some weights for use, and gathers others"))
        } else if acts(Role::Sequence) && acts(Role::Data) {
            Some(format!("{name}={size} splits positions of some values and the batch of others"))
        } else {
            None
        }
    })
}

const HEAD: &str = "# The winner of `shardwise tune`; what no flag expresses is below.\n";

/// What Megatron-FSDP is begun with; it refuses other formats of checkpoints.
const MEGATRON_FSDP: &str = "--use-megatron-fsdp\n\
    --data-parallel-sharding-strategy optim_grads_params\n--no-gradient-accumulation-fusion\n\
    --ckpt-format fsdp_dtensor\n";

/// Flags of Megatron-LM.
pub(super) fn megatron(tuned: &Tuned) -> Result<String, String> {
    let mut of = Degrees::of(tuned)?;
    of.schedule(&[(Schedule::OneForwardOneBackward, "")]);
    of.layers_of_run();
    let mut out = HEAD.to_owned();
    let mut flag = |name: &str, value: u64| {
        let _ = writeln!(out, "--{name} {value}");
    };
    flag("tensor-model-parallel-size", of.tensor);
    flag("pipeline-model-parallel-size", of.pipeline);
    if let Some(staging) = of.staging.filter(|staging| staging.names_chunks()) {
        flag("num-virtual-stages-per-pipeline-rank", staging.chunks);
    }
    flag("context-parallel-size", of.context);
    flag("expert-model-parallel-size", of.expert);
    of.batch.iter().for_each(|&batch| flag("global-batch-size", batch));
    of.micro_batch().iter().for_each(|&batch| flag("micro-batch-size", batch));
    if of.sharded > 1 && of.replicated > 1 {
        flag("num-distributed-optimizer-instances", of.replicated);
    }
    if of.sequence {
        out += "--sequence-parallel\n";
    }
    if of.sharded > 1 {
        out += MEGATRON_FSDP;
    }
    out += "--use-distributed-optimizer\n--bf16\n";
    if of.recomputes_layers() {
        out += "--recompute-granularity full\n--recompute-method uniform\n\
            --recompute-num-layers 1\n";
    } else if of.recomputes(Recompute::Attention) {
        out += "--recompute-granularity selective\n--recompute-modules core_attn\n";
    } else if of.recomputes(Recompute::Mlp) {
        out += "--recompute-granularity selective\n--recompute-modules mlp\n";
    }
    if of.recomputes(Recompute::AllButProducts) {
        of.lacks.push("everything but the results of products is computed again".to_owned());
    } else if of.recomputes(Recompute::AsWritten) {
        of.lacks.push("what the program's `checkpoint` computes again".to_owned());
    }
    of.lacks_offload();
    if of.multiplies(Products::Fp8) {
        out += "--fp8-format hybrid\n--fp8-recipe tensorwise\n";
    } else if of.multiplies(Products::Fp4) {
        out += "--fp4-format e2m1\n--fp4-recipe nvfp4\n";
    }
    let bytes =
        "--fp8-param-gather keeps parameters in fp8, beside a master copy, to gather them so";
    let notes = if of.multiplies(Products::Fp8) && of.sharded > 1 { &[bytes][..] } else { &[] };
    Ok(out + &of.remarks(notes))
}

/// Flags of `MaxText`; axes between nodes or slices are `dcn`.
pub(super) fn maxtext(tuned: &Tuned) -> Result<String, String> {
    let mut of = Degrees::of(tuned)?;
    of.schedule(&[(Schedule::GPipe, "")]);
    let mut out = HEAD.to_owned();
    let degrees = [
        ("data", of.replicated),
        ("fsdp", of.sharded),
        ("tensor", of.tensor),
        ("context", of.context),
        ("expert", of.expert),
        ("pipeline", of.pipeline),
    ];
    for (name, ways) in degrees {
        let _ = writeln!(out, "ici_{name}_parallelism={ways}");
    }
    if of.pipeline > 1 {
        let _ = writeln!(out, "num_pipeline_microbatches={}", of.microbatches);
        let chunks = of.staging.map_or(1, |staging| staging.chunks);
        let _ = writeln!(out, "num_pipeline_repeats={chunks}");
        if let Some(layers) = of.layers_of_run() {
            let _ = writeln!(out, "num_layers_per_pipeline_stage={layers}");
        }
        if !of.microbatches.is_multiple_of(of.pipeline) {
            of.lacks.push("microbatches that are no multiple of the stages".to_owned());
        }
    } else {
        let _ = writeln!(out, "gradient_accumulation_steps={}", of.microbatches);
    }
    if let Some(batch) = of.batch {
        let share = batch as f64 / tuned.chips as f64;
        let share = if of.pipeline > 1 { share } else { share / of.microbatches as f64 };
        let _ = writeln!(out, "per_device_batch_size={share}");
    }
    if of.splits_states {
        out += "shard_optimizer_over_data=true\n";
    }
    let is_full = of.recomputes_layers();
    out += if of.recomputes(Recompute::Offload) {
        "remat_policy=custom\ndecoder_layer_input=offload\n"
    } else if is_full {
        "remat_policy=full\n"
    } else {
        "remat_policy=minimal\n"
    };
    if of.multiplies(Products::Fp8) {
        out += "quantization=fp8\n";
    }
    of.lacks_products(&[Products::Fp4]);
    let networks = "axes that leave a slice or a node: move their part to dcn_*_parallelism";
    let kept = "`minimal` keeps the results of products, not what this strategy keeps";
    let is_exact = is_full || of.recomputes(Recompute::AllButProducts);
    let more = if is_exact { &[networks][..] } else { &[networks, kept][..] };
    Ok(out + &of.remarks(more))
}

/// The schedules of torchtitan.
const TITAN_SCHEDULES: [(Schedule, &str); 4] = [
    (Schedule::GPipe, "GPipe"),
    (Schedule::OneForwardOneBackward, "1F1B"),
    (Schedule::ZeroBubbleV, "ZBVZeroBubble"),
    (Schedule::DualPipeV, "DualPipeV"),
];

/// The same with several runs of layers on a stage.
const TITAN_INTERLEAVED: [(Schedule, &str); 2] =
    [(Schedule::GPipe, "LoopedBFS"), (Schedule::OneForwardOneBackward, "Interleaved1F1B")];

/// The schedule and the layers of stages in torchtitan, which has two runs on each unless their
/// length is given, and one layer less in the first and in the last.
fn titan_pipeline(of: &mut Degrees) -> String {
    let is_interleaved = of.staging.is_some_and(Staging::names_chunks);
    let known = if is_interleaved { &TITAN_INTERLEAVED[..] } else { &TITAN_SCHEDULES };
    let mut flags = Vec::new();
    flags.extend(of.schedule(known).map(|name| ("schedule", name.to_owned())));
    if is_interleaved && let Some(layers) = of.layers_of_run() {
        flags.push(("layers_per_stage", layers.to_string()));
    }
    let ends = ["first_stage_less_layers", "last_stage_less_layers"];
    flags.extend(ends.map(|end| (end, "0".to_owned())));
    let line = |(name, value)| format!("--parallelism.pipeline_parallel_{name}={value}\n");
    flags.into_iter().map(line).collect()
}

/// Flags of torchtitan.
pub(super) fn torchtitan(tuned: &Tuned) -> Result<String, String> {
    let mut of = Degrees::of(tuned)?;
    let pipeline = if of.pipeline > 1 { titan_pipeline(&mut of) } else { String::new() };
    let mut out = HEAD.to_owned();
    let mut flag = |name: &str, value: &str| {
        let _ = writeln!(out, "--{name}={value}");
    };
    let degrees = [
        ("data_parallel_replicate_degree", of.replicated),
        ("data_parallel_shard_degree", of.sharded * of.expert),
        ("tensor_parallel_degree", of.tensor),
        ("context_parallel_degree", of.context),
        ("expert_parallel_degree", of.expert),
        ("pipeline_parallel_degree", of.pipeline),
    ];
    for (name, ways) in degrees {
        flag(&format!("parallelism.{name}"), &ways.to_string());
    }
    of.batch.iter().for_each(|batch| flag("training.global_batch_size", &batch.to_string()));
    if let Some(batch) = of.micro_batch() {
        let is_staged = of.pipeline > 1;
        let local = if is_staged { batch * of.microbatches } else { batch };
        flag("training.local_batch_size", &local.to_string());
        if is_staged {
            flag("parallelism.pipeline_parallel_microbatch_size", &batch.to_string());
        }
    }
    let mode = match of.recomputes_any() {
        false => "none",
        true if of.recomputes_layers() => "full",
        true => "selective",
    };
    flag("activation_checkpoint.mode", mode);
    if of.multiplies(Products::Fp8) {
        flag("model.converters", "quantize.linear.float8");
        flag("quantize.linear.float8.filter_fqns", "output");
        out += "--quantize.linear.float8.enable_fsdp_float8_all_gather\n";
    }
    out += &pipeline;
    of.lacks_products(&[Products::Fp4]);
    if of.tensor > 1 && !of.sequence {
        of.lacks
            .push("with tensor parallelism positions are always split between products".to_owned());
    }
    if of.splits_states {
        let copies = of.replicated;
        of.lacks.push(format!(
            "optimizer states split over {copies} copies of the parameters (ZeRO-1): a shard \
            degree splits the parameters, too"
        ));
    }
    of.lacks_offload();
    if mode == "selective" {
        of.lacks.push(format!("what `selective` computes again is not just {}", of.recompute));
    }
    Ok(out + &of.remarks(&[]))
}

/// The configuration of `DeepSpeed`, as JSON; what it cannot express is a list in it.
pub(super) fn deepspeed(tuned: &Tuned) -> Result<String, String> {
    let mut of = Degrees::of(tuned)?;
    of.schedule(&[(Schedule::OneForwardOneBackward, "")]);
    let stage = match (of.sharded, of.pipeline) {
        (1, _) | (_, 2..) => 1,
        _ => 3,
    };
    if of.staging.is_some_and(Staging::names_chunks) {
        of.lacks.push("several runs of layers on a stage".to_owned());
    }
    if of.pipeline > 1 {
        let stages = of.pipeline;
        of.lacks.push(format!("{stages} stages: PipelineModule(num_stages={stages}), with ZeRO-1"));
    }
    if stage == 3 && of.replicated > 1 {
        of.lacks.push(format!(
            "{} copies of what is sharded over {} devices: mics_shard_size={1}, with MiCS_Init",
            of.replicated, of.sharded
        ));
    }
    if of.expert > 1 {
        of.lacks.push(format!("experts on {} devices: MoE(ep_size={0})", of.expert));
    }
    if of.context > 1 {
        of.lacks.push(format!(
            "positions on {} devices: Ulysses, initialize_sequence_parallel",
            of.context
        ));
    }
    of.lacks_products(&[Products::Fp8, Products::Fp4]);
    let is_offloaded = of.recomputes(Recompute::Offload);
    if of.recomputes_any() {
        let what = if is_offloaded { Recompute::Layers.name() } else { of.recompute };
        of.lacks.push(format!("{what} computed again: deepspeed.checkpointing in the model"));
    }
    let config = serde_json::json!({
        "train_batch_size": of.batch,
        "train_micro_batch_size_per_gpu": of.micro_batch(),
        "gradient_accumulation_steps": of.microbatches,
        "bf16": { "enabled": true },
        "zero_optimization": { "stage": stage },
        "tensor_parallel": { "autotp_size": of.tensor },
        "activation_checkpointing": { "cpu_checkpointing": is_offloaded },
        "not_expressed": of.lacks,
    });
    Ok(serde_json::to_string_pretty(&config).map_err(|error| error.to_string())? + "\n")
}
