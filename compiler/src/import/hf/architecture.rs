//! What a model computes, in the terms of programs: the same for all families.

/// A model.
#[derive(Clone, Debug)]
pub(super) struct Architecture {
    /// `model_type` of its configuration.
    pub(super) model_type: String,
    /// Tokens of the vocabulary.
    pub(super) vocabulary: u64,
    /// The model's width.
    pub(super) width: u64,
    /// The longest sequence, where it is known.
    pub(super) longest: Option<u64>,
    /// All layers in order.
    pub(super) layers: Vec<Layer>,
    pub(super) attention: Attention,
    /// The width of dense feed-forward layers.
    pub(super) hidden: u64,
    pub(super) activation: Activation,
    /// Biases of dense feed-forward layers.
    pub(super) hidden_bias: bool,
    pub(super) experts: Option<Experts>,
    pub(super) norms: Norms,
    /// What looked up rows are multiplied with.
    pub(super) embedding_scale: Option<f64>,
    /// Whether logits are products with the table that rows are looked up in.
    pub(super) is_tied: bool,
    /// The soft cap of logits.
    pub(super) logit_cap: Option<f64>,
    /// Whether layers with a window have rotary tables of their own.
    pub(super) has_local_tables: bool,
}

/// In what layers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// How many tokens a query sees at most.
    pub(super) window: Option<u64>,
    /// Whether its feed-forward layer has experts.
    pub(super) has_experts: bool,
}

/// Attention: its heads, and the options of its scores.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    /// Query heads.
    pub(super) heads: u64,
    pub(super) kind: Kind,
    /// The factor of scores.
    pub(super) scale: f64,
    /// The soft cap of scores.
    pub(super) cap: Option<f64>,
    /// Biases of queries, keys and values, and of the output.
    pub(super) bias: (bool, bool),
    /// Whether queries and keys are normalised, head by head.
    pub(super) has_norms: bool,
    /// A learned score of no token, for each head.
    pub(super) has_sinks: bool,
}

/// Where keys and values come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// From heads that groups of query heads share.
    Grouped { key_heads: u64, head: u64 },
    /// From a latent vector of all heads (MLA); part of each query, and one key of all heads, are
    /// rotated.
    Latent { query: Option<u64>, latent: u64, head: u64, rotary: u64, value: u64 },
}

/// The function between the two products of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Silu,
    Relu,
    /// GELU in its tanh form.
    GeluTanh,
    /// GELU by the error function.
    Gelu,
    /// `(up + 1) * gate * sigmoid(1.702 * gate)`, both clamped (GPT-OSS).
    Clamped(f64),
}

/// A mixture of experts.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property that models have or lack")]
pub(super) struct Experts {
    pub(super) count: u64,
    /// Experts of a token.
    pub(super) chosen: u64,
    /// The width of an expert.
    pub(super) width: u64,
    /// The width of the expert of all tokens.
    pub(super) shared: Option<u64>,
    /// Whether a token's own gate scales the shared expert.
    pub(super) has_shared_gate: bool,
    /// Scores are logistic functions, not a softmax.
    pub(super) is_sigmoid: bool,
    /// Whether the weights of the chosen experts are divided by their sum.
    pub(super) is_normalised: bool,
    /// The factor of the sum of experts.
    pub(super) scale: f64,
    /// Whether a correction is added to scores to choose by (DeepSeek-V3).
    pub(super) has_correction: bool,
    pub(super) limit: Option<Limit>,
    /// Biases of the router and the experts.
    pub(super) has_bias: bool,
}

/// Experts are chosen in few groups: those with the largest sums of their best scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) groups: u64,
    pub(super) kept: u64,
    /// How many scores of a group are summed: one or two.
    pub(super) best: u64,
}

/// Norms of a layer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Norms {
    /// Weights are stored less one (Gemma).
    pub(super) is_offset: bool,
    /// What attention and the feed-forward layer compute is normalised, too (Gemma 2).
    pub(super) is_sandwich: bool,
}

impl Architecture {
    /// Parameters of the model; few enough are left out (biases, norms) to size a machine.
    pub(super) fn weights(&self) -> f64 {
        let tables = if self.is_tied { 1.0 } else { 2.0 };
        let layers = self.layers.iter().map(|&layer| self.layer_weights(layer));
        tables * self.vocabulary as f64 * self.width as f64 + layers.sum::<f64>()
    }

    fn layer_weights(&self, layer: Layer) -> f64 {
        let experts = self.experts.as_ref().filter(|_| layer.has_experts);
        let hidden = experts.map_or(self.hidden as f64, |experts| {
            experts.count as f64 * experts.width as f64 + experts.shared.unwrap_or(0) as f64
        });
        3.0 * self.width as f64 * hidden + self.attention.weights(self.width as f64)
    }

    pub(super) fn windows(&self) -> impl Iterator<Item = u64> {
        self.layers.iter().filter_map(|layer| layer.window)
    }
}

impl Attention {
    fn weights(&self, width: f64) -> f64 {
        let heads = self.heads as f64;
        match self.kind {
            Kind::Grouped { key_heads, head } => {
                2.0 * width * head as f64 * (heads + key_heads as f64)
            }
            Kind::Latent { query, latent, head, rotary, value } => {
                let [latent, head, rotary, value] =
                    [latent, head, rotary, value].map(|size| size as f64);
                let query = query.map(|size| size as f64);
                let queries = query.unwrap_or(width) * heads * (head + rotary)
                    + query.map_or(0.0, |query| width * query);
                queries
                    + width * (latent + rotary)
                    + heads * (latent * (head + value))
                    + width * heads * value
            }
        }
    }
}
