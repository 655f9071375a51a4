//! `tune` for frameworks: degrees multiply to the chips, and what a framework needs to begin is
//! there, or named as not expressed.

use shardwise::Options;
use shardwise::tune::{FORMATS, Recompute, Request, Tuned, tune};
use shardwise_ir::stages::Schedule;

/// Layers in training.
const LAYERS: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, D]\n\
    repeat L=4 {\n  carry x\n  param win[D, F], wout[F, D]\n  x = x + gelu(x *D win) *F wout\n}\n\
    backward from x given dy\n";

/// A gradient without layers, whose parameter is sharded over one axis of data of two.
const HYBRID: &str = "hardware h100\nmesh X=2, Y=2\ndim B=262144, D=4096, F=4096\n\
    input x[B_XY, D], dy[B_XY, F]\nparam w[D_Y, F]\ny = x *D w\n\
    backward from y given dy\noptimizer adam\n";

fn tuned(source: &str, request: &Request, options: &Options) -> Tuned {
    tune("program", source, request, options, &|_| ()).unwrap_or_else(|no| panic!("{no:?}"))
}

fn small(chips: u64) -> Request {
    Request { microbatches: vec![1, 2, 4], stages: vec![1, 2], ..Request::of_chips(chips) }
}

fn written(tuned: &Tuned, name: &str) -> Result<String, String> {
    let format = FORMATS.iter().find(|format| format.name == name).expect("a format");
    (format.write)(tuned)
}

/// The number after a flag.
fn flag(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.trim_start_matches(['=', ' ']).parse().ok());
    number.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn flags_of_frameworks_multiply_to_the_chips() {
    for stages in [1, 2] {
        let request = Request { stages: vec![stages], ..small(8) };
        let tuned = tuned(LAYERS, &request, &Options { memory: Some(40e6), ..Options::default() });
        let best = &tuned.strategies[0];
        let megatron = written(&tuned, "megatron").expect("flags");
        let parts = ["tensor", "pipeline"]
            .map(|kind| flag(&megatron, &format!("--{kind}-model-parallel-size")));
        assert_eq!(parts[1], stages, "{megatron}");
        assert_eq!(flag(&megatron, "--global-batch-size"), 512);
        let count = best.microbatches.expect("it is trained");
        let context = flag(&megatron, "--context-parallel-size");
        let data = 8 / (parts[0] * parts[1] * context);
        assert_eq!(flag(&megatron, "--micro-batch-size") * data * count, 512, "{megatron}");
        let recomputes = megatron.contains("--recompute-granularity full");
        assert_eq!(recomputes, best.recompute == "layers", "{megatron}");
        assert!(megatron.contains("--bf16\n"), "{megatron}");
        let is_fsdp = megatron.contains("--use-megatron-fsdp\n");
        assert_eq!(is_fsdp, megatron.contains("--ckpt-format fsdp_dtensor\n"), "{megatron}");
        let maxtext = written(&tuned, "maxtext").expect("flags");
        let kinds = ["data", "fsdp", "tensor", "context", "expert", "pipeline"];
        let ways = kinds.map(|kind| flag(&maxtext, &format!("ici_{kind}_parallelism")));
        assert_eq!(ways.iter().product::<u64>(), 8, "{maxtext}");
        let titan = written(&tuned, "torchtitan").expect("flags");
        let kinds = [
            "data_parallel_replicate",
            "data_parallel_shard",
            "tensor_parallel",
            "context_parallel",
            "pipeline_parallel",
        ];
        let ways = kinds.map(|kind| flag(&titan, &format!("--parallelism.{kind}_degree")));
        assert_eq!(ways.iter().product::<u64>(), 8, "{titan}");
        let deepspeed = written(&tuned, "deepspeed").expect("a configuration");
        let config: serde_json::Value = serde_json::from_str(&deepspeed).expect("JSON");
        assert_eq!(config["gradient_accumulation_steps"], count);
        assert_eq!(config["tensor_parallel"]["autotp_size"], parts[0]);
    }
    let forward = LAYERS.replace("backward from x given dy", "output x[B, D]");
    let forward = tuned(&forward, &Request::of_chips(8), &Options::default());
    assert!(written(&forward, "megatron").is_err_and(|text| text.contains("backward")));
}

/// Frameworks add gradients up in f32 and keep a master copy unless they are asked not to: flags
/// that leave this out describe a run that takes more memory than the winner.
#[test]
fn flags_of_frameworks_have_the_dtypes_of_training() {
    let of = |source: &str, name: &str| {
        let request = Request { microbatches: vec![1], ..Request::of_chips(8) };
        written(&tuned(source, &request, &Options::default()), name).expect("flags")
    };
    let narrow = format!("{LAYERS}optimizer adam\n");
    let wide = format!("{LAYERS}optimizer adam, master=f32\n")
        .replace("given dy", "given dy, gradients=f32");
    let updated = "not expressed: parameters updated in bf16";
    let megatron = [&narrow, &wide].map(|source| of(source, "megatron"));
    assert!(megatron[0].contains("--grad-reduce-in-bf16\n"), "{}", megatron[0]);
    assert!(!megatron[1].contains("--grad-reduce-in-bf16"), "{}", megatron[1]);
    let titan = [&narrow, &wide].map(|source| of(source, "torchtitan"));
    for [narrow, wide] in [&megatron, &titan] {
        assert!(narrow.contains(updated) && !wide.contains(updated), "{narrow}{wide}");
    }
    let maxtext = [&narrow, &wide].map(|source| of(source, "maxtext"));
    assert!(maxtext[0].contains("weight_dtype=bfloat16\n"), "{}", maxtext[0]);
    assert!(!maxtext[1].contains("weight_dtype"), "{}", maxtext[1]);
    let deepspeed = [&narrow, &wide].map(|source| of(source, "deepspeed"));
    assert!(deepspeed[0].contains("\"grad_accum_dtype\": \"bf16\""), "{}", deepspeed[0]);
    assert!(deepspeed[1].contains("\"grad_accum_dtype\": \"fp32\""), "{}", deepspeed[1]);
}

#[test]
fn flags_of_frameworks_say_how_layers_stand_on_stages() {
    let of_stages = |name: &str, layers: &str, schedule: Schedule, chunks: u64| {
        let request = Request {
            stages: vec![2],
            schedules: vec![schedule],
            chunks: vec![chunks],
            microbatches: vec![4],
            ..small(16)
        };
        let tuned = tuned(&LAYERS.replace("L=4", layers), &request, &Options::default());
        written(&tuned, name).expect("flags")
    };
    // MaxText begins only where stages, repeats and layers of each multiply to the model's layers.
    let maxtext = of_stages("maxtext", "L=12", Schedule::GPipe, 2);
    assert_eq!(flag(&maxtext, "num_pipeline_repeats"), 2);
    assert_eq!(flag(&maxtext, "num_layers_per_pipeline_stage"), 3);
    assert!(!maxtext.contains("the schedule"), "{maxtext}");
    let other = of_stages("maxtext", "L=12", Schedule::OneForwardOneBackward, 1);
    assert!(other.contains("# not expressed: the schedule 1f1b"), "{other}");
    for name in ["maxtext", "megatron"] {
        let unequal = of_stages(name, "L=5", Schedule::OneForwardOneBackward, 1);
        assert!(unequal.contains("5 layers are not equally many"), "{unequal}");
    }
    let interleaved = of_stages("torchtitan", "L=12", Schedule::OneForwardOneBackward, 3);
    assert!(interleaved.contains("schedule=Interleaved1F1B"), "{interleaved}");
    assert_eq!(flag(&interleaved, "--parallelism.pipeline_parallel_layers_per_stage"), 2);
    assert_eq!(flag(&interleaved, "--parallelism.pipeline_parallel_last_stage_less_layers"), 0);
    let looped = of_stages("torchtitan", "L=12", Schedule::GPipe, 2);
    assert!(looped.contains("schedule=LoopedBFS"), "{looped}");
}

#[test]
fn parameters_that_are_whole_on_several_groups_of_devices_are_copies() {
    let request = Request { microbatches: vec![1], best: 20, ..Request::of_chips(16) };
    let mut hybrid = tuned(HYBRID, &request, &Options::default());
    let roles = |of: &shardwise::tune::Strategy| {
        of.axes_roles.iter().map(|axis| axis.roles.clone()).collect::<Vec<_>>()
    };
    let only = |place: &usize| {
        let roles = roles(&hybrid.strategies[*place]);
        roles.contains(&vec!["DP"]) && roles.contains(&vec!["DP", "FSDP"])
    };
    let place = (0..hybrid.strategies.len()).find(only).expect("a strategy of both");
    hybrid.strategies.swap(0, place);
    let copies = hybrid.strategies[0].axes_roles.iter().find(|axis| axis.roles == ["DP"]);
    let copies = copies.expect("an axis of copies").size;
    let megatron = written(&hybrid, "megatron").expect("flags");
    assert_eq!(flag(&megatron, "--num-distributed-optimizer-instances"), copies);
    assert_eq!(flag(&megatron, "--tensor-model-parallel-size"), 1);
    let deepspeed = written(&hybrid, "deepspeed").expect("a configuration");
    assert!(deepspeed.contains(&format!("{copies} copies of what is sharded")), "{deepspeed}");
}

#[test]
fn what_is_computed_again_is_what_a_checkpoint_says() {
    let request = Request { microbatches: vec![1], best: 1, ..Request::of_chips(16) };
    let without = tuned(HYBRID, &request, &Options::default());
    assert_eq!(without.strategies[0].recompute, "none");
    let deepspeed = written(&without, "deepspeed").expect("a configuration");
    assert!(!deepspeed.contains("computed again"), "{deepspeed}");
    let titan = written(&without, "torchtitan").expect("flags");
    assert!(titan.contains("--activation_checkpoint.mode=none\n"), "{titan}");
    let megatron = |source: &str| {
        written(&tuned(source, &small(8), &Options::default()), "megatron").expect("flags")
    };
    let layer = "  x = x + gelu(x *D win)";
    let all = LAYERS.replace(layer, &format!("  checkpoint\n{layer}"));
    let full = megatron(&all);
    assert!(full.contains("--recompute-granularity full\n"), "{full}");
    assert!(!full.contains("not expressed: what"), "{full}");
    let named = LAYERS.replace(layer, "  h = x *D win\n  checkpoint h\n  x = x + gelu(h)");
    let one_of_two = all.replace(
        "backward",
        "repeat M=2 {\n  carry x\n  param a[D, F], b[F, D]\n  x = x + gelu(x *D a) *F b\n}\n\
            backward",
    );
    for other in [named, one_of_two] {
        let flags = megatron(&other);
        assert!(flags.contains("not expressed: what the program's `checkpoint`"), "{flags}");
    }
}

/// Parameters that are gathered over the devices that split positions.
#[test]
fn parameters_are_sharded_over_axes_of_positions_too() {
    let source = "hardware h100\ndim B=1, T=32768, S=T, D=4096, K=8, G=4, H=128, F=14336\n\
        input x[B, T, D], dy[B, T, D]\nrepeat L=8 {\n  carry x\n  param wq[D, K, G, H], \
        wk[D, K, H], wv[D, K, H], wo[K, G, H, D], win[D, F], wout[F, D]\n  \
        k[B, S, K, H] = rename(x *D wk)\n  v[B, S, K, H] = rename(x *D wv)\n  \
        x = x + attention(x *D wq, k, v, causal) *K,G,H wo\n  x = x + gelu(x *D win) *F wout\n}\n\
        backward from x given dy\noptimizer adam\n";
    let request = Request {
        axes: Some(1),
        stages: vec![1],
        microbatches: vec![1],
        recompute: vec![Recompute::Nothing],
        ..Request::of_chips(8)
    };
    let tuned = tuned(source, &request, &Options::default());
    let roles = &tuned.strategies[0].axes_roles[0].roles;
    assert!(roles.contains(&"SP") && roles.contains(&"FSDP"), "{roles:?}");
    let megatron = written(&tuned, "megatron").expect("flags");
    assert_eq!(flag(&megatron, "--context-parallel-size"), 8, "{megatron}");
    assert!(megatron.contains("--use-megatron-fsdp\n"), "{megatron}");
    let deepspeed = written(&tuned, "deepspeed").expect("a configuration");
    let config: serde_json::Value = serde_json::from_str(&deepspeed).expect("JSON");
    assert_eq!(config["zero_optimization"]["stage"], 3, "{deepspeed}");
}

/// Nodes along an axis, and slots of experts.
#[test]
fn what_is_between_nodes_and_slots_of_experts_have_flags() {
    let request = Request { stages: vec![1], microbatches: vec![1], ..small(16) };
    let of_nodes = tuned(LAYERS, &request, &Options::default());
    let maxtext = written(&of_nodes, "maxtext").expect("flags");
    let kinds = ["data", "fsdp", "tensor", "context", "expert", "pipeline"];
    let inside = kinds.map(|kind| flag(&maxtext, &format!("ici_{kind}_parallelism")));
    assert_eq!(inside.iter().product::<u64>(), 8, "{maxtext}");
    let between = maxtext.lines().filter(|line| line.starts_with("dcn_"));
    let between: u64 = between.map(|line| flag(line, line.split('=').next().expect("="))).product();
    assert_eq!(between, 2, "{maxtext}");
    let routed = "hardware h100\ndim T=4096, D=1024, F=2048, E=8, C=1280\n\
        input x[T, D], dy[T, D]\nparam router[D, E], win[E, D, F], wout[E, F, D]\n\
        gate = x *D router\nplace[T, E, C] = route_{T,E->C}(gate, 2)\n\
        sent = place *T x\ny = place *E,C (gelu(sent *D win) *F wout)\n\
        backward from y given dy\n";
    let request = Request { stages: vec![1], microbatches: vec![1], ..small(8) };
    let routed = tuned(routed, &request, &Options::default());
    let megatron = written(&routed, "megatron").expect("flags");
    assert!(megatron.contains("--moe-expert-capacity-factor 1.25\n"), "{megatron}");
    let titan = written(&routed, "torchtitan").expect("flags");
    assert!(titan.contains("# not expressed: experts with slots for 1.25 times"), "{titan}");
}

/// Adam's states over the copies of whole parameters: ZeRO-1.
#[test]
fn states_that_are_split_over_copies_have_a_flag_or_a_remark() {
    let request = Request { stages: vec![1], microbatches: vec![4], ..small(8) };
    let trained =
        format!("{}optimizer adam over _?, master=f32\n", LAYERS.replace("B=512", "B=262144"));
    let tuned = tuned(&trained, &request, &Options::default());
    let maxtext = written(&tuned, "maxtext").expect("flags");
    let titan = written(&tuned, "torchtitan").expect("flags");
    assert_eq!(flag(&maxtext, "ici_data_parallelism"), 8, "{maxtext}");
    assert!(maxtext.contains("shard_optimizer_over_data=true\n"), "{maxtext}");
    assert!(titan.contains("# not expressed: optimizer states split over 8 copies"), "{titan}");
    let hybrid = self::tuned(HYBRID, &request, &Options::default());
    let maxtext = written(&hybrid, "maxtext").expect("flags");
    assert_eq!(flag(&maxtext, "ici_data_parallelism"), 1, "{maxtext}");
    assert!(!maxtext.contains("shard_optimizer_over_data"), "{maxtext}");
}
