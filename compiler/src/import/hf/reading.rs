//! Reads a configuration into an [`Architecture`], and says what it leaves out.

use serde_json::{Map, Value};
use shardwise_ir::suggest;

use super::architecture::{
    Activation, Architecture, Attention, Experts, Kind, Layer, Limit, Norms,
};
use super::config::{Config, wrong};
use super::families::{self, Family, Routing, Sliding, Traits};
use super::{Step, model_types};
use crate::source::BYTE_ORDER_MARK;

type Result<T> = std::result::Result<T, String>;

/// The model of a configuration, and what a program of this step does not have of it.
pub(super) fn read(text: &str, step: Step) -> Result<(Architecture, Vec<String>)> {
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(fields) = value else {
        return Err("not a JSON object, as a `config.json` is".to_owned());
    };
    let mut warnings = Vec::new();
    let fields = language_model(fields, &mut warnings)?;
    let family = family(&fields)?;
    let mut config = Config::new(fields, family.defaults);
    let architecture = architecture(&mut config, family)?;
    left_out(&mut config, &architecture, step, &mut warnings)?;
    Ok((architecture, warnings))
}

/// The fields of the language model, which models of several modalities have in an object.
fn language_model(
    mut fields: Map<String, Value>,
    warnings: &mut Vec<String>,
) -> Result<Map<String, Value>> {
    let Some(inner) = fields.remove("text_config") else { return Ok(fields) };
    let Value::Object(mut inner) = inner else {
        return Err(wrong("text_config", &inner, "an object"));
    };
    let model_type = fields.get("model_type").and_then(Value::as_str).unwrap_or("this model");
    warnings.push(format!("only the language model of `{model_type}` is imported"));
    for shared in ["tie_word_embeddings", "quantization_config", "torch_dtype", "dtype"] {
        if let Some(value) = fields.remove(shared) {
            inner.entry(shared).or_insert(value);
        }
    }
    Ok(inner)
}

fn family(fields: &Map<String, Value>) -> Result<&'static Family> {
    let value = fields.get("model_type").ok_or("there is no field `model_type`")?;
    let model_type = value.as_str().ok_or_else(|| wrong("model_type", value, "a text"))?;
    families::find(model_type).ok_or_else(|| {
        let known = model_types().collect::<Vec<_>>().join(", ");
        let message = format!("`model_type` is `{model_type}`, which is none of {known}");
        match suggest::nearest(model_type, model_types()).filter(|near| is_typo(model_type, near)) {
            Some(near) => format!("{message}; did you mean `{near}`?"),
            None => format!(
                "{message}\n  help: `shardwise import torch` imports a module of any model that \
                 PyTorch can trace: `shardwise docs import-torch`"
            ),
        }
    })
}

/// Whether a name is a misspelling of a known one, word by word: another version of a family,
/// `llama4`, and another model of it, `qwen3_next`, are none.
fn is_typo(name: &str, known: &str) -> bool {
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    let words = |name: &str| name.split('_').map(str::to_owned).collect::<Vec<_>>();
    let (given, meant) = (words(name), words(known));
    let mut pairs = given.iter().zip(&meant);
    let is_near = pairs.all(|(given, meant)| {
        given == meant || suggest::nearest(given, [meant.as_str()]).is_some()
    });
    is_near && given.len() == meant.len() && digits(name) == digits(known)
}

fn architecture(config: &mut Config, family: &Family) -> Result<Architecture> {
    let traits = family.traits;
    let width = config.whole(&["hidden_size"])?;
    let heads = config.whole(&["num_attention_heads"])?;
    let attention = attention(config, traits, width, heads)?;
    let experts = experts(config, traits)?;
    Ok(Architecture {
        model_type: family.model_type.to_owned(),
        vocabulary: config.whole(&["vocab_size"])?,
        width,
        longest: config.maybe_whole(&["max_position_embeddings"])?,
        layers: layers(config, traits, experts.is_some())?,
        attention,
        hidden: config.whole(&["intermediate_size"])?,
        activation: activation(config, traits)?,
        hidden_bias: config.flag("mlp_bias")?,
        experts,
        norms: Norms { is_offset: traits.is_gemma, is_sandwich: traits.is_sandwich },
        embedding_scale: traits.is_gemma.then(|| (width as f64).sqrt()),
        is_tied: config.flag("tie_word_embeddings")?,
        logit_cap: config.positive("final_logit_softcapping")?,
        has_local_tables: config.has("rope_local_base_freq"),
    })
}

fn attention(config: &mut Config, traits: Traits, width: u64, heads: u64) -> Result<Attention> {
    let kind = if traits.is_latent { latent(config)? } else { grouped(config, width, heads)? };
    let has_bias = config.flag("attention_bias")?;
    let scale = match (kind, config.positive("query_pre_attn_scalar")?) {
        (_, Some(scalar)) => scalar.powf(-0.5),
        (Kind::Grouped { head, .. }, None) => (head as f64).powf(-0.5),
        (Kind::Latent { head, rotary, .. }, None) => {
            ((head + rotary) as f64).powf(-0.5) * long_context_scale(config).powi(2)
        }
    };
    Ok(Attention {
        heads,
        kind,
        scale,
        cap: config.positive("attn_logit_softcapping")?,
        bias: (has_bias || traits.has_input_biases, has_bias && !traits.has_input_biases),
        has_norms: traits.has_query_norms,
        has_sinks: traits.has_sinks,
    })
}

/// What `DeepSeek` multiplies queries and keys with where sequences are longer than those of
/// training (`YaRN`, Peng et al. 2023).
fn long_context_scale(config: &Config) -> f64 {
    let factor = config.inside("rope_scaling", "factor").unwrap_or(1.0).max(1.0);
    let share = config.inside("rope_scaling", "mscale_all_dim").unwrap_or(0.0);
    0.1 * share * factor.ln() + 1.0
}

fn grouped(config: &mut Config, width: u64, heads: u64) -> Result<Kind> {
    let key_heads = config.maybe_whole(&["num_key_value_heads"])?.unwrap_or(heads);
    if !heads.is_multiple_of(key_heads) {
        return Err(format!(
            "`num_attention_heads` is {heads}, no multiple of `num_key_value_heads`, {key_heads}"
        ));
    }
    let head = config.maybe_whole(&["head_dim"])?.unwrap_or(width / heads).max(1);
    Ok(Kind::Grouped { key_heads, head })
}

fn latent(config: &mut Config) -> Result<Kind> {
    // There is a key for each query head, whatever this says.
    config.maybe_whole(&["num_key_value_heads"])?;
    Ok(Kind::Latent {
        query: config.maybe_whole(&["q_lora_rank"])?,
        latent: config.whole(&["kv_lora_rank"])?,
        head: config.whole(&["qk_nope_head_dim"])?,
        rotary: config.whole(&["qk_rope_head_dim"])?,
        value: config.whole(&["v_head_dim"])?,
    })
}

fn activation(config: &mut Config, traits: Traits) -> Result<Activation> {
    let name = config.text(&["hidden_activation", "hidden_act"])?;
    if traits.routing == Routing::Biased {
        return Ok(Activation::Clamped(config.positive("swiglu_limit")?.unwrap_or(7.0)));
    }
    Ok(match name.as_deref() {
        // Gemma's code computes the tanh form where its first files say `gelu`.
        Some("gelu") if !traits.is_gemma => Activation::Gelu,
        None | Some("gelu" | "gelu_pytorch_tanh" | "gelu_new") => Activation::GeluTanh,
        Some("silu" | "swish") => Activation::Silu,
        Some("relu") => Activation::Relu,
        Some(other) => {
            return Err(format!(
                "`hidden_act` is `{other}`, which is none of silu, gelu, gelu_pytorch_tanh, relu"
            ));
        }
    })
}

fn experts(config: &mut Config, traits: Traits) -> Result<Option<Experts>> {
    let names = &["num_local_experts", "num_experts", "n_routed_experts"];
    let Some(count) = config.maybe_whole(names)? else { return Ok(None) };
    let routing = traits.routing;
    let chosen = config.whole(&["num_experts_per_tok", "experts_per_token"])?;
    if chosen > count {
        return Err(format!("`num_experts_per_tok` is {chosen}, of {count} experts"));
    }
    let width = match config.maybe_whole(&["moe_intermediate_size"])? {
        Some(width) => width,
        None => config.whole(&["intermediate_size"])?,
    };
    let own = config.maybe_whole(&["shared_expert_intermediate_size"])?;
    let several = config.count("n_shared_experts")?;
    let is_always_normalised = matches!(routing, Routing::Normalised | Routing::Biased);
    let has_correction = config.text(&["topk_method"])?.as_deref() == Some("noaux_tc");
    Ok(Some(Experts {
        count,
        chosen,
        width,
        shared: own.or((several > 0).then_some(several.saturating_mul(width))),
        has_shared_gate: own.is_some(),
        is_sigmoid: config.text(&["scoring_func"])?.as_deref() == Some("sigmoid"),
        is_normalised: config.flag("norm_topk_prob")? || is_always_normalised,
        scale: config.number("routed_scaling_factor")?.unwrap_or(1.0),
        has_correction,
        limit: limit(config, count)?,
        has_bias: routing == Routing::Biased,
    }))
}

/// The groups that experts are chosen in, where some are left out.
fn limit(config: &mut Config, count: u64) -> Result<Option<Limit>> {
    let groups = config.maybe_whole(&["n_group"])?.unwrap_or(1);
    let kept = config.maybe_whole(&["topk_group"])?.unwrap_or(groups);
    let best = match config.text(&["topk_method"])?.as_deref() {
        Some("noaux_tc") => 2,
        Some("group_limited_greedy") => 1,
        _ => return Ok(None),
    };
    if !count.is_multiple_of(groups) {
        return Err(format!("`n_group` is {groups}, which does not divide {count} experts"));
    }
    if kept < groups && count / groups < best {
        return Err(format!(
            "`n_group` is {groups} of {count} experts, and groups are chosen by {best} of each"
        ));
    }
    Ok((kept < groups).then_some(Limit { groups, kept, best }))
}

/// The windows and feed-forward layers of all layers.
fn layers(config: &mut Config, traits: Traits, has_experts: bool) -> Result<Vec<Layer>> {
    let count = config.whole(&["num_hidden_layers"])?;
    if count > 10_000 {
        return Err(format!("`num_hidden_layers` is {count}, more than 10000"));
    }
    let windows = windows(config, traits, count)?;
    let dense = if has_experts { dense_layers(config, count)? } else { vec![true; windows.len()] };
    let both = windows.into_iter().zip(dense);
    Ok(both.map(|(window, is_dense)| Layer { window, has_experts: !is_dense }).collect())
}

fn windows(config: &mut Config, traits: Traits, count: u64) -> Result<Vec<Option<u64>>> {
    let window = config.maybe_whole(&["sliding_window", "sliding_window_size"])?;
    let pattern = config.maybe_whole(&["sliding_window_pattern", "_sliding_window_pattern"])?;
    let is_used = config.flag("use_sliding_window")?;
    if let Some(types) = config.list("layer_types")? {
        if types.len() as u64 != count {
            return Err(format!("`layer_types` has {} elements, not {count}", types.len()));
        }
        return types.iter().map(|name| window_of(name, window)).collect();
    }
    let from = config.maybe_whole(&["max_window_layers"])?.unwrap_or(0);
    let is_sliding = |layer: u64| match traits.sliding {
        Sliding::Never => false,
        Sliding::Always => true,
        Sliding::Late => is_used && layer >= from,
        Sliding::AllButEvery(n) => !(layer + 1).is_multiple_of(pattern.unwrap_or(n)),
    };
    Ok((0..count).map(|layer| window.filter(|_| is_sliding(layer))).collect())
}

fn window_of(name: &Value, window: Option<u64>) -> Result<Option<u64>> {
    match name.as_str() {
        Some("full_attention") => Ok(None),
        Some("sliding_attention") => {
            window.map(Some).ok_or_else(|| "there is no field `sliding_window`".to_owned())
        }
        _ => Err(wrong("layer_types", name, "`full_attention` or `sliding_attention`")),
    }
}

/// Which layers have no experts though others have.
fn dense_layers(config: &mut Config, count: u64) -> Result<Vec<bool>> {
    let first = config.count("first_k_dense_replace")?;
    let every = config.maybe_whole(&["decoder_sparse_step", "moe_layer_freq"])?.unwrap_or(1);
    // DeepSeek counts layers from zero, Qwen from one.
    let shift = u64::from(config.has("decoder_sparse_step"));
    let listed = config.list("mlp_only_layers")?.unwrap_or_default();
    let listed: Vec<u64> = listed.iter().filter_map(Value::as_u64).collect();
    let is_dense = |layer: u64| {
        layer < first || !(layer + shift).is_multiple_of(every) || listed.contains(&layer)
    };
    Ok((0..count).map(is_dense).collect())
}

/// Element types as large as those of programs; `auto` is that of the checkpoint.
const SIXTEEN_BITS: [&str; 3] = ["bfloat16", "float16", "auto"];

/// What the program does not have of the model.
fn left_out(
    config: &mut Config,
    architecture: &Architecture,
    step: Step,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let epsilon = config.number("rms_norm_eps")?.unwrap_or(1e-6);
    if (epsilon - 1e-6).abs() > 1e-12 {
        let written = format!("{epsilon:e}");
        let written = written.strip_suffix("e0").unwrap_or(&written);
        warnings.push(format!("`rms_norm_eps` is {written}, and `rmsnorm` adds 1e-6"));
    }
    if config.has("quantization_config") {
        warnings.push("`quantization_config`: weights are bf16 in the program".to_owned());
    }
    let dtype = config.text(&["torch_dtype", "dtype"])?;
    let dtype = dtype.as_deref().map(|name| name.strip_prefix("torch.").unwrap_or(name));
    if let Some(wide) = dtype.filter(|name| !SIXTEEN_BITS.contains(name)) {
        warnings.push(format!("elements are `{wide}` in the model, and bf16 in the program"));
    }
    let ahead = config.count("num_nextn_predict_layers")?;
    if ahead > 0 {
        warnings.push(format!("{ahead} layer(s) that predict further tokens are left out"));
    }
    for name in ["attention_dropout", "hidden_dropout", "resid_pdrop"] {
        if step == Step::Train && config.number(name)?.is_some_and(|share| share > 0.0) {
            warnings.push(format!("`{name}` is left out"));
        }
    }
    if let Some(experts) = &architecture.experts {
        routing_left_out(config, experts, step, warnings)?;
    }
    let unread: Vec<String> = config.unread().map(|name| format!("`{name}`")).collect();
    if !unread.is_empty() {
        let names = unread.join(", ");
        warnings.push(format!("not known here, and without effect on the program: {names}"));
    }
    Ok(())
}

fn routing_left_out(
    config: &mut Config,
    experts: &Experts,
    step: Step,
    warnings: &mut Vec<String>,
) -> Result<()> {
    warnings.push(format!(
        "experts have `Slots` for 25% more tokens than their share, and drop others; the model \
         computes all {} experts of each token",
        experts.chosen
    ));
    for name in ["router_aux_loss_coef", "aux_loss_alpha"] {
        let weight = config.number(name)?;
        if step == Step::Train && weight.is_some_and(|weight| weight > 0.0) {
            warnings.push(format!("`{name}`: the loss that balances experts is left out"));
        }
    }
    for name in ["router_jitter_noise", "seq_aux", "router_bias_update_speed"] {
        config.has(name);
    }
    Ok(())
}
