//! Writes the feed-forward part of a layer: one for all tokens, or experts.

use super::Step;
use super::architecture::{Activation, Experts, Layer, Limit};
use super::writer::{Writer, number};

/// How names of the parameters of the shared expert begin.
const SHARED: &str = "shared_experts.";

impl Writer<'_> {
    /// Writes `x = x + mlp(…)`, with its parameters.
    pub(super) fn feed_forward(&mut self, layer: Layer) {
        let is_sandwich = self.model.norms.is_sandwich;
        let (before, after) = if is_sandwich {
            ("pre_feedforward_layernorm", "post_feedforward_layernorm")
        } else {
            ("post_attention_layernorm", "")
        };
        self.params(&[(before, "D")]);
        if is_sandwich {
            self.params(&[(after, "D")]);
        }
        let normed = self.normed("x", "D", before);
        let experts = self.model.experts.as_ref().filter(|_| layer.has_experts);
        let value = match experts {
            Some(experts) => self.experts(experts, &normed),
            None => self.dense(&normed),
        };
        self.set("f", &value);
        self.add("f", after);
    }

    fn dense(&mut self, normed: &str) -> String {
        self.params(&[("gate_proj", "D, F"), ("up_proj", "D, F"), ("down_proj", "F, D")]);
        let has_bias = self.model.hidden_bias;
        if has_bias {
            let biases = [("gate_proj.bias", "F"), ("up_proj.bias", "F"), ("down_proj.bias", "D")];
            self.params(&biases);
        }
        self.set("m", normed);
        self.gated("m", "", "F", has_bias)
    }

    /// `(silu(m *D gate_proj) * (m *D up_proj)) *F down_proj`, of parameters with this prefix.
    fn gated(&mut self, tokens: &str, prefix: &str, hidden: &str, has_bias: bool) -> String {
        let tokens = self.name(tokens);
        let product = |writer: &Self, value: &str, dim: &str, which: &str| {
            let weights = writer.name(&format!("{prefix}{which}_proj"));
            let bias = writer.name(&format!("{prefix}{which}_proj.bias"));
            let bias = if has_bias { format!(" + {bias}") } else { String::new() };
            format!("{value} *{dim} {weights}{bias}")
        };
        let of = if prefix == SHARED { "shared." } else { "" };
        let [gate, up, between] = ["gate", "up", "hidden"].map(|base| format!("{of}{base}"));
        self.clamped(&gate, &product(self, &tokens, "D", "gate"), false);
        self.clamped(&up, &product(self, &tokens, "D", "up"), true);
        let value = self.model.activation.gated(&self.name(&gate), &self.name(&up));
        self.set(&between, &value);
        product(self, &self.name(&between), hidden, "down")
    }

    /// A gate, or what it is multiplied with: limited from above, or from both sides, where the
    /// activation says so.
    fn clamped(&mut self, base: &str, value: &str, is_from_below: bool) {
        let Activation::Clamped(limit) = self.model.activation else {
            return self.set(base, value);
        };
        let free = format!("{base}.0");
        self.set(&free, value);
        let above = format!("minimum({}, {})", self.name(&free), number(limit));
        let both = format!("maximum({above}, {})", number(-limit));
        self.set(base, if is_from_below { &both } else { &above });
    }

    fn experts(&mut self, experts: &Experts, normed: &str) -> String {
        self.expert_params(experts);
        let (groups, whole) = match self.step {
            Step::Decode => ("Groups, Tokens", "B"),
            Step::Train | Step::Prefill => ("B, Groups, Tokens", "B, T"),
        };
        self.set("m", normed);
        self.set_as("h", &format!("{groups}, D"), &format!("reshape({})", self.name("m")));
        self.routed(experts, groups);
        let [sent, h, gates] = ["sent", "h", "gates"].map(|base| self.name(base));
        self.set("picked", &format!("{sent} *Tokens {h}"));
        let computed = self.gated("picked", "experts.", "M", experts.has_bias);
        self.set("computed", &computed);
        let mut combined = format!("{gates} *E,Slots {}", self.name("computed"));
        if experts.is_normalised {
            combined = format!("({combined}) / (sum_{{E,Slots}}({gates}) + 1e-9)");
        }
        if (experts.scale - 1.0).abs() > 1e-9 {
            combined = format!("{} * ({combined})", number(experts.scale));
        }
        self.set("combined", &combined);
        let combined = self.name("combined");
        self.set_as("moe", &format!("{whole}, D"), &format!("reshape({combined})"));
        if experts.shared.is_none() {
            return self.name("moe");
        }
        let shared = self.gated("m", SHARED, "U", false);
        self.set("shared", &shared);
        let [moe, shared] = ["moe", "shared"].map(|base| self.name(base));
        if !experts.has_shared_gate {
            return format!("{moe} + {shared}");
        }
        let (m, gate) = (self.name("m"), self.name("shared_expert_gate"));
        format!("{moe} + sigmoid({m} *D {gate}) * {shared}")
    }

    fn expert_params(&mut self, experts: &Experts) {
        self.params(&[("router", "D, E")]);
        if experts.has_correction {
            self.declare("frozen param", &[("router.correction", "E")]);
        }
        self.params(&[
            ("experts.gate_proj", "E, D, M"),
            ("experts.up_proj", "E, D, M"),
            ("experts.down_proj", "E, M, D"),
        ]);
        if experts.has_bias {
            self.params(&[
                ("router.bias", "E"),
                ("experts.gate_proj.bias", "E, M"),
                ("experts.up_proj.bias", "E, M"),
                ("experts.down_proj.bias", "E, D"),
            ]);
        }
        if experts.shared.is_some() {
            self.params(&[
                ("shared_experts.gate_proj", "D, U"),
                ("shared_experts.up_proj", "D, U"),
                ("shared_experts.down_proj", "U, D"),
            ]);
        }
        if experts.has_shared_gate {
            self.params(&[("shared_expert_gate", "D")]);
        }
    }

    /// Which tokens are sent to which slots of which experts, and their weights.
    fn routed(&mut self, experts: &Experts, groups: &str) {
        let (h, router) = (self.name("h"), self.name("router"));
        let bias = experts.has_bias.then(|| format!(" + {}", self.name("router.bias")));
        let logits = format!("{h} *D {router}{}", bias.unwrap_or_default());
        let function = if experts.is_sigmoid { "sigmoid" } else { "softmax_E" };
        self.set("weight", &format!("{function}({logits})"));
        let mut choice = self.name("weight");
        if experts.has_correction {
            self.set("score", &format!("{choice} + {}", self.name("router.correction")));
            choice = self.name("score");
        }
        if let Some(limit) = experts.limit {
            choice = self.limited(limit, groups, &choice);
        }
        self.set("sent", &format!("route_{{Tokens,E->Slots}}({choice}, {})", experts.chosen));
        self.set("gates", &format!("{} * {}", self.name("sent"), self.name("weight")));
    }

    /// The scores of experts in the best groups; all others are far below.
    fn limited(&mut self, limit: Limit, groups: &str, choice: &str) -> String {
        self.set_as("grouped", &format!("{groups}, Nodes, Each"), &format!("reshape({choice})"));
        let grouped = self.name("grouped");
        let best = match limit.best {
            1 => format!("max_Each({grouped})"),
            _ => format!("sum_Two(topk_{{Each->Two}}({grouped}))"),
        };
        self.set("best", &best);
        let best = self.name("best");
        self.set("least", &format!("min_Kept(topk_{{Nodes->Kept}}({best}))"));
        self.set("open", &format!("select({best} >= {}, {grouped}, -1e9)", self.name("least")));
        let open = self.name("open");
        self.set_as("choice", &format!("{groups}, E"), &format!("reshape({open})"));
        self.name("choice")
    }
}

impl Activation {
    /// The hidden activations of a gated layer.
    fn gated(self, gate: &str, up: &str) -> String {
        match self {
            Self::Silu => format!("silu({gate}) * {up}"),
            Self::Relu => format!("relu({gate}) * {up}"),
            Self::GeluTanh => format!("gelu({gate}) * {up}"),
            Self::Gelu => format!("0.5 * {gate} * (erf(0.7071068 * {gate}) + 1.0) * {up}"),
            Self::Clamped(_) => format!("({up} + 1.0) * {gate} * sigmoid(1.702 * {gate})"),
        }
    }
}
