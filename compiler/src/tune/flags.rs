//! The winner as the flags of training frameworks: degrees, microbatches, recomputation and dtypes,
//! and below them as comments what the framework has no flag for.
//!
//! A plan gives every value a sharding; frameworks have one number for each kind of parallelism.
//! An axis is assigned to the kind that most of what it splits is for ([`ActingAxis`]). Its other
//! roles are flags where a framework has them (sequence parallelism on the axis of tensors, sharded
//! parameters on those of data, positions and experts), and remarks where not. To take the first
//! kind of a fixed order instead would make every axis that splits a vocabulary one of tensors.
//!
//! What the program's own `checkpoint` computes again is compared with the statements that `tune`
//! itself would write.

mod degrees;

use std::fmt::Write as _;

use shardwise_ir::products::Products;
use shardwise_ir::stages::Schedule;

use degrees::Degrees;

use super::{Recompute, Staging, Tuned};

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
    flag("tensor-model-parallel-size", of.tensor.all);
    flag("pipeline-model-parallel-size", of.pipeline.all);
    if let Some(staging) = of.staging.filter(|staging| staging.names_chunks()) {
        flag("num-virtual-stages-per-pipeline-rank", staging.chunks);
    }
    flag("context-parallel-size", of.context.all);
    flag("expert-model-parallel-size", of.expert.all);
    of.batch.iter().for_each(|&batch| flag("global-batch-size", batch));
    of.micro_batch().iter().for_each(|&batch| flag("micro-batch-size", batch));
    if of.sharded.all > 1 && of.replicated.all > 1 {
        flag("num-distributed-optimizer-instances", of.replicated.all);
    }
    if let Some(factor) = of.capacity_factor {
        let _ = writeln!(out, "--moe-expert-capacity-factor {factor}");
        out += "--moe-pad-expert-input-to-capacity\n";
    }
    if of.sequence {
        out += "--sequence-parallel\n";
    }
    if of.gathers {
        out += MEGATRON_FSDP;
    }
    out += "--use-distributed-optimizer\n--bf16\n";
    if !of.precision.has_wide_gradients {
        out += "--grad-reduce-in-bf16\n";
    }
    of.lacks_narrow_updates(
        "Megatron-LM keeps a master copy of each in f32, sharded as optimizer states",
    );
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
    let notes = if of.multiplies(Products::Fp8) && of.gathers { &[bytes][..] } else { &[] };
    Ok(out + &of.remarks(notes))
}

/// Flags of `MaxText`; what is between nodes or slices is `dcn`.
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
        let _ = writeln!(out, "ici_{name}_parallelism={}", ways.inside());
    }
    for (name, ways) in degrees.into_iter().filter(|(_, ways)| ways.between > 1) {
        let _ = writeln!(out, "dcn_{name}_parallelism={}", ways.between);
    }
    if of.pipeline.all > 1 {
        let _ = writeln!(out, "num_pipeline_microbatches={}", of.microbatches);
        let chunks = of.staging.map_or(1, |staging| staging.chunks);
        let _ = writeln!(out, "num_pipeline_repeats={chunks}");
        if let Some(layers) = of.layers_of_run() {
            let _ = writeln!(out, "num_layers_per_pipeline_stage={layers}");
        }
        if !of.microbatches.is_multiple_of(of.pipeline.all) {
            of.lacks.push("microbatches that are no multiple of the stages".to_owned());
        }
    } else {
        let _ = writeln!(out, "gradient_accumulation_steps={}", of.microbatches);
    }
    if let Some(batch) = of.batch {
        let share = batch as f64 / tuned.chips as f64;
        let share = if of.pipeline.all > 1 { share } else { share / of.microbatches as f64 };
        let _ = writeln!(out, "per_device_batch_size={share}");
    }
    if let Some(factor) = of.capacity_factor {
        let _ = writeln!(out, "sparse_matmul=false\ncapacity_factor={factor}");
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
    if of.precision.updates_narrow {
        out += "weight_dtype=bfloat16\n";
    }
    of.lacks_products(&[Products::Fp4]);
    let kept = "`minimal` keeps the results of products, not what this strategy keeps";
    let is_exact = is_full || of.recomputes(Recompute::AllButProducts);
    let more = if is_exact { &[][..] } else { &[kept][..] };
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
    let pipeline = if of.pipeline.all > 1 { titan_pipeline(&mut of) } else { String::new() };
    let mut out = HEAD.to_owned();
    let mut flag = |name: &str, value: &str| {
        let _ = writeln!(out, "--{name}={value}");
    };
    let degrees = [
        ("data_parallel_replicate_degree", of.replicated.all),
        ("data_parallel_shard_degree", of.sharded.all * of.expert.all),
        ("tensor_parallel_degree", of.tensor.all),
        ("context_parallel_degree", of.context.all),
        ("expert_parallel_degree", of.expert.all),
        ("pipeline_parallel_degree", of.pipeline.all),
    ];
    for (name, ways) in degrees {
        flag(&format!("parallelism.{name}"), &ways.to_string());
    }
    of.batch.iter().for_each(|batch| flag("training.global_batch_size", &batch.to_string()));
    if let Some(batch) = of.micro_batch() {
        let is_staged = of.pipeline.all > 1;
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
    titan_lacks(&mut of);
    of.lacks_narrow_updates("torchtitan keeps shards of them and of gradients in f32");
    of.lacks_offload();
    if mode == "selective" {
        of.lacks.push(format!("what `selective` computes again is not just {}", of.recompute));
    }
    Ok(out + &of.remarks(&[]))
}

/// Remarks on what torchtitan has no flags for.
fn titan_lacks(of: &mut Degrees) {
    if of.tensor.all > 1 && !of.sequence {
        of.lacks
            .push("with tensor parallelism positions are always split between products".to_owned());
    }
    if of.splits_states {
        let copies = of.replicated.all;
        of.lacks.push(format!(
            "optimizer states split over {copies} copies of the parameters (ZeRO-1): a shard \
            degree splits the parameters, too"
        ));
    }
    if let Some(factor) = of.capacity_factor {
        of.lacks.push(format!(
            "experts with slots for {factor} times their share of tokens, which drop others"
        ));
    }
}

/// The configuration of `DeepSpeed`, as JSON; what it cannot express is a list in it.
pub(super) fn deepspeed(tuned: &Tuned) -> Result<String, String> {
    let mut of = Degrees::of(tuned)?;
    of.schedule(&[(Schedule::OneForwardOneBackward, "")]);
    let stage = if of.gathers && of.pipeline.all == 1 { 3 } else { 1 };
    if of.staging.is_some_and(Staging::names_chunks) {
        of.lacks.push("several runs of layers on a stage".to_owned());
    }
    if of.pipeline.all > 1 {
        let stages = of.pipeline.all;
        of.lacks.push(format!("{stages} stages: PipelineModule(num_stages={stages}), with ZeRO-1"));
    }
    if stage == 3 && of.sharded.all > 1 && of.replicated.all > 1 {
        of.lacks.push(format!(
            "{} copies of what is sharded over {} devices: mics_shard_size={1}, with MiCS_Init",
            of.replicated.all, of.sharded.all
        ));
    }
    if of.expert.all > 1 {
        of.lacks.push(format!("experts on {} devices: MoE(ep_size={0})", of.expert.all));
    }
    if let Some(factor) = of.capacity_factor {
        of.lacks.push(format!("the slots of experts: MoE(capacity_factor={factor})"));
    }
    if of.context.all > 1 {
        of.lacks.push(format!(
            "positions on {} devices: Ulysses, initialize_sequence_parallel",
            of.context.all
        ));
    }
    of.lacks_products(&[Products::Fp8, Products::Fp4]);
    let is_offloaded = of.recomputes(Recompute::Offload);
    if of.recomputes_any() {
        let what = if is_offloaded { Recompute::Layers.name() } else { of.recompute };
        of.lacks.push(format!("{what} computed again: deepspeed.checkpointing in the model"));
    }
    of.lacks_narrow_updates("ZeRO keeps a master copy of each in f32, sharded as optimizer states");
    let gradients = if of.precision.has_wide_gradients { "fp32" } else { "bf16" };
    let config = serde_json::json!({
        "train_batch_size": of.batch,
        "train_micro_batch_size_per_gpu": of.micro_batch(),
        "gradient_accumulation_steps": of.microbatches,
        "bf16": { "enabled": true },
        "data_types": { "grad_accum_dtype": gradients },
        "zero_optimization": { "stage": stage },
        "tensor_parallel": { "autotp_size": of.tensor.all },
        "activation_checkpointing": { "cpu_checkpointing": is_offloaded },
        "not_expressed": of.lacks,
    });
    Ok(serde_json::to_string_pretty(&config).map_err(|error| error.to_string())? + "\n")
}
