//! The families of models that can be imported, one row each: what their code does without saying
//! it in the configuration, and the defaults that their configurations rely on.

/// A family.
pub(super) struct Family {
    /// `model_type` in its configurations.
    pub(super) model_type: &'static str,
    pub(super) traits: Traits,
    /// Fields that a configuration may lack, as JSON.
    pub(super) defaults: &'static str,
}

/// What the family's code does.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property that families have or lack")]
pub(super) struct Traits {
    pub(super) sliding: Sliding,
    /// Queries, keys and values have biases, the output has none, whatever the fields say.
    pub(super) has_input_biases: bool,
    /// Queries and keys are normalised.
    pub(super) has_query_norms: bool,
    /// Keys and values come from a latent vector.
    pub(super) is_latent: bool,
    pub(super) has_sinks: bool,
    /// Weights of norms are stored less one, and looked up rows are scaled by the root of the
    /// width.
    pub(super) is_gemma: bool,
    /// What layers compute is normalised, too.
    pub(super) is_sandwich: bool,
    pub(super) routing: Routing,
}

/// Which layers have a window, where `layer_types` does not say so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sliding {
    Never,
    /// All, if there is a `sliding_window`.
    Always,
    /// Those from `max_window_layers`, if `use_sliding_window`.
    Late,
    /// All but every so-many-eth.
    AllButEvery(u64),
}

/// How experts are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Routing {
    /// By a softmax; `norm_topk_prob` says whether weights are normalised.
    Softmax,
    /// By a softmax, and normalised.
    Normalised,
    /// As `Normalised`, with biases and clamped activations (GPT-OSS).
    Biased,
    /// As `scoring_func` and `topk_method` say, for the layers after the first dense ones.
    DeepSeek,
}

const PLAIN: Traits = Traits {
    sliding: Sliding::Never,
    has_input_biases: false,
    has_query_norms: false,
    is_latent: false,
    has_sinks: false,
    is_gemma: false,
    is_sandwich: false,
    routing: Routing::Softmax,
};

const QWEN2: Traits = Traits { sliding: Sliding::Late, has_input_biases: true, ..PLAIN };
const QWEN3: Traits = Traits { sliding: Sliding::Late, has_query_norms: true, ..PLAIN };
const GEMMA: Traits = Traits { is_gemma: true, ..PLAIN };
const GEMMA2: Traits = Traits { sliding: Sliding::AllButEvery(2), is_sandwich: true, ..GEMMA };
const GEMMA3: Traits = Traits { sliding: Sliding::AllButEvery(6), has_query_norms: true, ..GEMMA2 };
const DEEPSEEK: Traits = Traits { is_latent: true, routing: Routing::DeepSeek, ..PLAIN };
const GPT_OSS: Traits =
    Traits { sliding: Sliding::AllButEvery(2), has_sinks: true, routing: Routing::Biased, ..PLAIN };

/// Every family, in the order of names.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        model_type: "deepseek_v2",
        traits: DEEPSEEK,
        defaults: r#"{"hidden_act": "silu", "scoring_func": "softmax", "topk_method": "greedy"}"#,
    },
    Family {
        model_type: "deepseek_v3",
        traits: DEEPSEEK,
        defaults: r#"{"hidden_act": "silu", "scoring_func": "sigmoid", "topk_method": "noaux_tc",
            "norm_topk_prob": true}"#,
    },
    Family {
        model_type: "gemma",
        traits: GEMMA,
        defaults: r#"{"tie_word_embeddings": true, "head_dim": 256}"#,
    },
    Family {
        model_type: "gemma2",
        traits: GEMMA2,
        defaults: r#"{"tie_word_embeddings": true, "head_dim": 256, "query_pre_attn_scalar": 256,
            "sliding_window": 4096, "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0}"#,
    },
    Family {
        model_type: "gemma3_text",
        traits: GEMMA3,
        defaults: r#"{"tie_word_embeddings": true, "head_dim": 256, "query_pre_attn_scalar": 256,
            "sliding_window": 4096, "num_attention_heads": 8, "num_key_value_heads": 4,
            "vocab_size": 262208, "rope_local_base_freq": 10000.0}"#,
    },
    Family {
        model_type: "gpt_oss",
        traits: GPT_OSS,
        defaults: r#"{"attention_bias": true, "head_dim": 64, "sliding_window": 128,
            "swiglu_limit": 7.0, "hidden_act": "silu"}"#,
    },
    Family { model_type: "llama", traits: PLAIN, defaults: r#"{"hidden_act": "silu"}"# },
    Family {
        model_type: "mistral",
        traits: Traits { sliding: Sliding::Always, ..PLAIN },
        defaults: r#"{"hidden_act": "silu", "num_key_value_heads": 8, "sliding_window": 4096}"#,
    },
    Family {
        model_type: "mixtral",
        traits: Traits { sliding: Sliding::Always, routing: Routing::Normalised, ..PLAIN },
        defaults: r#"{"hidden_act": "silu", "num_key_value_heads": 8}"#,
    },
    Family { model_type: "qwen2", traits: QWEN2, defaults: r#"{"hidden_act": "silu"}"# },
    Family {
        model_type: "qwen2_moe",
        traits: QWEN2,
        defaults: r#"{"hidden_act": "silu", "decoder_sparse_step": 1}"#,
    },
    Family {
        model_type: "qwen3",
        traits: QWEN3,
        defaults: r#"{"hidden_act": "silu", "head_dim": 128}"#,
    },
    Family {
        model_type: "qwen3_moe",
        traits: QWEN3,
        defaults: r#"{"hidden_act": "silu", "decoder_sparse_step": 1}"#,
    },
];

/// The family of a `model_type`.
pub(super) fn find(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.model_type == model_type)
}
