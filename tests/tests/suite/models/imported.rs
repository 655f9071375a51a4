//! `import hf`: models from their configurations. Each has as many parameters as were published,
//! and its steps are planned and verified, at two layers of each kind.

use serde_json::{Value, json};
use shardwise::import::hf::{Imported, Setting, Step, program};
use shardwise::verify::{Setup, verify};
use shardwise::{Options, Role, Strategy};
use shardwise_ir::ids::DimId;
use shardwise_tests::{files, read};

/// Parameters as published: those of the checkpoints, without the layers that predict further
/// tokens (DeepSeek-V3) and the vision tower (Gemma 3).
const PUBLISHED: &[(&str, u64)] = &[
    ("deepseek-v2", 235_741_434_880),
    ("deepseek-v2-lite", 15_706_484_224),
    ("deepseek-v3", 671_026_419_200),
    ("gemma-2-27b", 27_227_128_320),
    ("gemma-2-9b", 9_241_705_984),
    ("gemma-2b", 2_506_172_416),
    ("gemma-3-1b", 999_885_952),
    ("gemma-3-27b", 27_009_346_304),
    ("gemma-7b", 8_537_680_896),
    ("gpt-oss-120b", 116_829_156_672),
    ("gpt-oss-20b", 20_914_757_184),
    ("llama-2-7b", 6_738_415_616),
    ("llama-3.1-405b", 405_853_388_800),
    ("llama-3.1-70b", 70_553_706_496),
    ("llama-3.1-8b", 8_030_261_248),
    ("llama-3.2-1b", 1_235_814_400),
    ("mistral-7b-v0.1", 7_241_732_096),
    ("mistral-nemo", 12_247_782_400),
    ("mixtral-8x22b", 140_630_071_296),
    ("mixtral-8x7b", 46_702_792_704),
    ("qwen1.5-moe-a2.7b", 14_315_784_192),
    ("qwen2.5-0.5b", 494_032_768),
    ("qwen2.5-7b", 7_615_616_512),
    ("qwen3-0.6b", 596_049_920),
    ("qwen3-235b-a22b", 235_093_634_560),
    ("qwen3-30b-a3b", 30_532_122_624),
    ("qwen3-32b", 32_762_123_264),
];

const STEPS: [Step; 3] = [Step::Train, Step::Prefill, Step::Decode];

fn imported(name: &str, config: &str, setting: &Setting) -> Imported {
    program(config, setting).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The parameters of a program, all layers counted.
fn parameters(name: &str, source: &str) -> u64 {
    let checked = shardwise::check(name, source, &Options::default());
    let Some(program) = checked.program else { panic!("{name}: {:?}\n{source}", checked.findings) };
    let program = program.into_program();
    let params = program.values.iter().filter(|value| value.role == Some(Role::Param));
    let count = |dims: &[DimId]| dims.iter().map(|&dim| program.dims[dim].size).product::<u64>();
    params.map(|value| count(value.dims.as_slice()) * program.layer_count(value.repeat)).sum()
}

#[test]
fn models_have_as_many_parameters_as_published() {
    let configs = files("tests/configs", ".json");
    assert!(configs.iter().map(|(name, _)| name.as_str()).eq(PUBLISHED.iter().map(|row| row.0)));
    let mut wrong = Vec::new();
    for ((name, config), (_, published)) in configs.iter().zip(PUBLISHED) {
        for step in STEPS {
            let imported = imported(name, config, &Setting { step, ..Setting::default() });
            let count = parameters(name, &imported.program);
            if count != *published {
                wrong.push(format!("{name} for {}: {count}, not {published}", step.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What leads to latents has them, and the output; the other projections never do.
#[test]
fn latent_attention_may_have_biases() {
    for (name, layers, of_layer) in
        [("deepseek-v2-lite", 27, 512 + 64 + 2048), ("deepseek-v3", 61, 1536 + 512 + 64 + 7168)]
    {
        let config = read(&format!("tests/configs/{name}.json"));
        let mut fields: Value = serde_json::from_str(&config).expect("fixtures are JSON");
        fields["attention_bias"] = json!(true);
        for step in STEPS {
            let count = |config: &str| {
                let imported = imported(name, config, &Setting { step, ..Setting::default() });
                parameters(name, &imported.program)
            };
            let more = count(&fields.to_string()) - count(&config);
            assert_eq!(more, layers * of_layer, "{name} for {}", step.name());
        }
    }
}

/// Small sizes instead of a configuration's own, where it has them.
const SMALL: &[(&str, u64)] = &[
    ("vocab_size", 64),
    ("hidden_size", 32),
    ("intermediate_size", 48),
    ("moe_intermediate_size", 16),
    ("shared_expert_intermediate_size", 16),
    ("num_hidden_layers", 2),
    ("num_attention_heads", 8),
    ("num_key_value_heads", 4),
    ("head_dim", 8),
    ("q_lora_rank", 16),
    ("kv_lora_rank", 8),
    ("qk_nope_head_dim", 8),
    ("qk_rope_head_dim", 4),
    ("v_head_dim", 8),
    ("num_experts", 8),
    ("num_local_experts", 8),
    ("n_routed_experts", 8),
    ("num_experts_per_tok", 2),
    ("experts_per_token", 2),
    ("n_group", 4),
    ("topk_group", 2),
    ("first_k_dense_replace", 1),
    ("sliding_window", 16),
    ("sliding_window_pattern", 2),
];

/// A configuration with two layers of small sizes, of both kinds where the model has two.
fn small(config: &str) -> String {
    let mut config: Value = serde_json::from_str(config).expect("fixtures are JSON");
    let is_nested = config.get("text_config").is_some();
    let fields = if is_nested { &mut config["text_config"] } else { &mut config };
    for (name, size) in SMALL {
        if fields.get(name).is_some_and(|value| !value.is_null()) {
            fields[name] = json!(size);
        }
    }
    if fields["model_type"] == "gemma3_text" {
        fields["sliding_window_pattern"] = json!(2);
    }
    if let Some(types) = fields["layer_types"].as_array_mut() {
        types.truncate(2);
    }
    config.to_string()
}

/// The textbook's plans of a model's steps, and the plan that the search finds to decode, are right
/// on simulated devices.
fn is_right(name: &str) {
    let config = small(&read(&format!("tests/configs/{name}.json")));
    for step in STEPS {
        let mesh = Some("X=4".to_owned());
        let setting =
            Setting { step, batch: Some(8), sequence: Some(32), mesh, ..Setting::default() };
        let source = imported(name, &config, &setting).program;
        let strategies = match step {
            Step::Train | Step::Prefill => &[Strategy::Textbook][..],
            Step::Decode => &[Strategy::Textbook, Strategy::Search],
        };
        for &strategy in strategies {
            let options = Options { strategy, ..Options::default() };
            let verdict = verify(name, &source, &options, &Setup::default())
                .unwrap_or_else(|findings| panic!("{name}: {findings}\n{source}"));
            assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{verdict}\n{source}");
        }
    }
}

macro_rules! families {
    ($($test:ident: $name:literal;)*) => { $(#[test] fn $test() { is_right($name); })* };
}

families! {
    deepseek_v2_is_right: "deepseek-v2";
    deepseek_v2_lite_is_right: "deepseek-v2-lite";
    deepseek_v3_is_right: "deepseek-v3";
    gemma_is_right: "gemma-2b";
    gemma_2_is_right: "gemma-2-27b";
    gemma_3_is_right: "gemma-3-27b";
    gpt_oss_is_right: "gpt-oss-20b";
    llama_2_is_right: "llama-2-7b";
    llama_3_is_right: "llama-3.2-1b";
    mistral_is_right: "mistral-7b-v0.1";
    mixtral_is_right: "mixtral-8x7b";
    qwen2_is_right: "qwen2.5-7b";
    qwen2_moe_is_right: "qwen1.5-moe-a2.7b";
    qwen3_is_right: "qwen3-0.6b";
    qwen3_moe_is_right: "qwen3-30b-a3b";
}

/// Complete models: the search finds a plan that fits into the machine that the import chose.
#[test]
fn complete_models_are_planned() {
    for (name, step) in [
        ("llama-2-7b", Step::Decode),
        ("llama-2-7b", Step::Prefill),
        ("gpt-oss-20b", Step::Prefill),
        ("deepseek-v2-lite", Step::Train),
    ] {
        let config = read(&format!("tests/configs/{name}.json"));
        let source = imported(name, &config, &Setting { step, ..Setting::default() }).program;
        let planned = shardwise::plan(name, &source, &Options::default())
            .unwrap_or_else(|findings| panic!("{name}: {findings}"));
        assert!(planned.cost().parameters.elements >= 6e9, "{planned}");
    }
}

#[test]
fn programs_are_formatted_and_have_short_lines() {
    for (name, config) in files("tests/configs", ".json") {
        for step in STEPS {
            let source = imported(&name, &config, &Setting { step, ..Setting::default() }).program;
            let formatted = shardwise::format(&name, &source).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(formatted, source);
            let long = source.lines().find(|line| line.len() > 100);
            assert_eq!(long, None, "{name} for {}", step.name());
        }
    }
}

/// A field of a small model instead of its own.
fn with(field: &str, value: Value) -> Result<Imported, String> {
    let mut config: Value =
        serde_json::from_str(&read("tests/configs/llama-3.2-1b.json")).expect("fixtures are JSON");
    config[field] = value;
    program(&config.to_string(), &Setting::default())
}

#[test]
fn mistakes_are_named() {
    let error = |field: &str, value| with(field, value).map(|_| ()).expect_err(field);
    assert!(error("model_type", json!("lama")).contains(
        "`model_type` is `lama`, which is none of deepseek_v2, deepseek_v3, gemma, gemma2, \
         gemma3_text, gpt_oss, llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe; did \
         you mean `llama`?"
    ));
    for other in ["gpt2", "gpt_neox", "olmo2", "phi3", "falcon", "granite", "llama4", "qwen3_next"]
    {
        let error = error("model_type", json!(other));
        let has_page = error.contains("\n  help: ") && error.contains("docs import-torch");
        assert!(has_page && !error.contains("did you mean"), "{error}");
    }
    assert_eq!(error("hidden_size", json!(null)), "there is no field `hidden_size`");
    let wrong = "`num_hidden_layers` is \"16\", not a whole number above zero";
    assert_eq!(error("num_hidden_layers", json!("16")), wrong);
    assert_eq!(error("rms_norm_eps", json!([])), "`rms_norm_eps` is [], not a number");
    assert_eq!(error("mlp_bias", json!(1)), "`mlp_bias` is 1, not true or false");
    let wrong = "`final_logit_softcapping` is -1, not a number above zero";
    assert_eq!(error("final_logit_softcapping", json!(-1.0)), wrong);
    assert!(error("attn_logit_softcapping", json!(0)).contains("not a number above zero"));
    assert!(error("query_pre_attn_scalar", json!(-64)).contains("not a number above zero"));
    assert!(error("num_key_value_heads", json!(5)).contains("no multiple"));
    assert!(error("hidden_act", json!("swiglu")).contains("`hidden_act` is `swiglu`"));
    assert!(error("layer_types", json!(["full_attention"])).contains("has 1 elements, not 16"));
    let setting = Setting::default();
    let error = |text: &str| program(text, &setting).map(|_| ()).expect_err(text);
    assert!(error("{").starts_with("not JSON: "));
    assert_eq!(error("[]"), "not a JSON object, as a `config.json` is");
    assert_eq!(error("{}"), "there is no field `model_type`");
    let config = read("tests/configs/llama-3.2-1b.json");
    let given = |setting: Setting| program(&config, &setting).map(|_| ()).expect_err("wrong");
    let mesh = Some("X".to_owned());
    assert!(given(Setting { mesh, ..Setting::default() }).starts_with("--mesh: "));
    for (mesh, expected) in [
        ("X=4 Y=2", "--mesh: `X=4 Y=2` gives more than one size; separate them by commas"),
        ("X=4 fast", "--mesh: `4 fast` in `X=4 fast` is not a size"),
    ] {
        let error = given(Setting { mesh: Some(mesh.to_owned()), ..Setting::default() });
        assert!(error.starts_with(expected), "{error}");
    }
    let hardware = Some("h1000".to_owned());
    assert!(given(Setting { hardware, ..Setting::default() }).contains("no hardware `h1000`"));
}

#[test]
fn numbers_that_no_program_can_have_are_refused() {
    let mut config: Value =
        serde_json::from_str(&read("tests/configs/deepseek-v3.json")).expect("fixtures are JSON");
    let error = |config: &Value| {
        program(&config.to_string(), &Setting::default()).map(|_| ()).expect_err("it is wrong")
    };
    config["rope_scaling"] = json!({"factor": 1e300, "mscale_all_dim": 1e300});
    assert_eq!(error(&config), "its program would be wrong: `scale` cannot be inf");
    config["n_group"] = json!(256);
    let groups = "`n_group` is 256 of 256 experts, and groups are chosen by 2 of each";
    assert_eq!(error(&config), groups);
}

#[test]
fn what_is_left_out_is_a_warning_and_a_comment() {
    let imported = with("mystery_scale", json!(2.0)).unwrap_or_else(|error| panic!("{error}"));
    let warnings = imported.warnings.join("\n");
    assert!(warnings.contains("`rms_norm_eps` is 1e-5, and `rmsnorm` adds 1e-6"), "{warnings}");
    assert!(
        warnings.contains("not known here, and without effect on the program: `mystery_scale`")
    );
    let wide = |name: &str| {
        let imported = with("torch_dtype", json!(name)).unwrap_or_else(|error| panic!("{error}"));
        imported.warnings.join("\n").contains("in the model, and bf16 in the program")
    };
    assert_eq!(["float32", "float16", "torch.bfloat16"].map(wide), [true, false, false]);
    let without = with("rms_norm_eps", json!(0)).unwrap_or_else(|error| panic!("{error}"));
    assert!(without.warnings.join("\n").contains("`rms_norm_eps` is 0, and `rmsnorm` adds 1e-6"));
    for warning in &imported.warnings {
        let comments: String = imported.program.replace("\n#  ", "");
        assert!(comments.contains(warning), "{warning}\n{comments}");
    }
}
