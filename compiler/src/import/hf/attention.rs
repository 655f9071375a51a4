//! Writes the attention of a layer: with a cache in decode, and with keys of the same tokens else.

use std::collections::BTreeSet;

use super::Step;
use super::architecture::{Attention, Kind, Layer};
use super::dims::window_dim;
use super::writer::{Writer, capped, number};

/// Where keys are: the dimension that they are stored along, and the input with the places of new
/// ones.
#[derive(Clone, Copy)]
struct Keys {
    dim: &'static str,
    place: &'static str,
}

const ALL_KEYS: Keys = Keys { dim: "S", place: "at" };

/// The input with the places of new tokens in the cache of a window.
fn place(dim: &str) -> &'static str {
    if dim == "W" { "place" } else { "place2" }
}

impl Attention {
    /// The dimensions of the heads of queries, and of keys.
    fn head_dims(&self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Grouped { key_heads, .. } if key_heads < self.heads => ("K, G", "K"),
            _ => ("N", "N"),
        }
    }
}

impl Writer<'_> {
    /// Writes `x = x + attention(…) *N,H o_proj`, with its parameters.
    pub(super) fn attention(&mut self, layer: Layer) {
        self.params(&[("input_layernorm", "D")]);
        if self.model.norms.is_sandwich {
            self.params(&[("post_attention_layernorm", "D")]);
        }
        match self.model.attention.kind {
            Kind::Grouped { .. } => self.grouped(layer),
            Kind::Latent { query, .. } => self.latent(layer, query.is_some()),
        }
    }

    /// In decode, the inputs with the places in caches that hold less than a sequence: such a cache
    /// is a ring.
    pub(super) fn places_of_windows(&mut self) {
        if self.step != Step::Decode {
            return;
        }
        let (model, length) = (self.model, self.length);
        let named = model.windows().filter_map(|size| window_dim(model, size, length));
        for dim in named.collect::<BTreeSet<_>>() {
            let place = place(dim);
            self.line(&format!("# The caches of windows are rings: {place} is at modulo {dim}."));
            self.declare("input", &[(&format!("{place}: int32"), "B")]);
        }
    }

    fn keys(&self, layer: Layer) -> Keys {
        let dim = layer.window.and_then(|size| window_dim(self.model, size, self.length));
        dim.filter(|_| self.step == Step::Decode)
            .map_or(ALL_KEYS, |dim| Keys { dim, place: place(dim) })
    }

    fn grouped(&mut self, layer: Layer) {
        let attention = &self.model.attention;
        let (heads, key_heads) = attention.head_dims();
        let keys = self.keys(layer);
        let cache = format!("B, {}, {key_heads}, H", keys.dim);
        self.grouped_params(heads, key_heads);
        if self.step == Step::Decode {
            self.declare("state", &[("k_cache", &cache), ("v_cache", &cache)]);
        }
        self.set("a", &self.normed("x", "D", "input_layernorm"));
        self.set("q.0", &self.query_or_key("q"));
        self.set("k.0", &self.query_or_key("k"));
        self.set("q", &self.rotated("q.0", layer));
        self.set("k.1", &self.rotated("k.0", layer));
        self.stored("k", &cache, keys, &self.name("k.1"));
        self.stored("v", &cache, keys, &self.projected("v"));
        let attended = self.attended(layer, keys, "attention");
        self.set("o", &attended);
        let contracted = heads.replace(", ", ",");
        let bias = attention.bias.1.then(|| format!(" + {}", self.name("o_proj.bias")));
        let output = format!("{} *{contracted},H {}", self.name("o"), self.name("o_proj"));
        self.set("out", &(output + &bias.unwrap_or_default()));
        self.add("out", "post_attention_layernorm");
        self.kept(&[("k", &cache), ("v", &cache)]);
    }

    fn grouped_params(&mut self, heads: &str, key_heads: &str) {
        let attention = &self.model.attention;
        let (queries, keys) = (format!("{heads}, H"), format!("{key_heads}, H"));
        let [from_queries, from_keys] = [&queries, &keys].map(|dims| format!("D, {dims}"));
        self.params(&[
            ("q_proj", &from_queries),
            ("k_proj", &from_keys),
            ("v_proj", &from_keys),
            ("o_proj", &format!("{queries}, D")),
        ]);
        if attention.bias.0 {
            let (queries, keys) = (queries.as_str(), keys.as_str());
            self.params(&[("q_proj.bias", queries), ("k_proj.bias", keys), ("v_proj.bias", keys)]);
        }
        if attention.bias.1 {
            self.params(&[("o_proj.bias", "D")]);
        }
        if attention.has_norms {
            self.params(&[("q_norm", "H"), ("k_norm", "H")]);
        }
        if attention.has_sinks {
            self.params(&[("sinks", heads)]);
        }
    }

    /// `a *D q_proj`, with its bias.
    fn projected(&self, which: &str) -> String {
        let product = format!("{} *D {}", self.name("a"), self.name(&format!("{which}_proj")));
        let bias = self.model.attention.bias.0.then(|| self.name(&format!("{which}_proj.bias")));
        product + &bias.map_or_else(String::new, |bias| format!(" + {bias}"))
    }

    /// Queries, or keys, before they are rotated.
    fn query_or_key(&self, which: &str) -> String {
        let projected = self.projected(which);
        if self.model.attention.has_norms {
            self.normed(&projected, "H", &format!("{which}_norm"))
        } else {
            projected
        }
    }

    /// A value rotated by its positions.
    fn rotated(&self, base: &str, layer: Layer) -> String {
        let (value, dim, table) = (self.name(base), self.rotary_dim(), self.table_suffix(layer));
        let half = match self.model.attention.kind {
            Kind::Grouped { head, .. } => head / 2,
            Kind::Latent { rotary, .. } => rotary / 2,
        };
        let at = if self.step == Step::Decode { ".at" } else { "" };
        format!("{value} * rope_cos{table}{at} + roll_{dim}({value}, {half}) * rope_sin{table}{at}")
    }

    /// Keys, or values, as attention reads them: of the same tokens, or with the new row in their
    /// cache.
    fn stored(&mut self, base: &str, dims: &str, keys: Keys, value: &str) {
        if self.step == Step::Decode {
            let (dim, place) = (keys.dim, keys.place);
            let cache = self.name(&format!("{base}_cache"));
            self.set(base, &format!("update_{dim}({cache}, {place}, {value})"));
        } else {
            self.set_as(base, dims, &format!("rename({value})"));
        }
    }

    /// What the step leaves for the next one: new caches, or what they begin with.
    fn kept(&mut self, values: &[(&str, &str)]) {
        match self.step {
            Step::Train => {}
            Step::Prefill => self.declare("output", values),
            Step::Decode => {
                for (base, _) in values {
                    let (cache, value) = (self.name(&format!("{base}_cache")), self.name(base));
                    self.line(&format!("next {cache} = {value}"));
                }
            }
        }
    }

    /// The result of attention for each head. The call stands for the usual case; sinks and caches
    /// take statements of their own.
    fn attended(&mut self, layer: Layer, keys: Keys, call: &str) -> String {
        let attention = &self.model.attention;
        let [q, k, v] = ["q", "k", "v"].map(|base| self.name(base));
        if self.step != Step::Decode && !attention.has_sinks {
            return format!("{call}({q}, {k}, {v}, causal{})", self.options(layer));
        }
        let scores = format!("({} * {q}) *H {k}", number(attention.scale));
        self.masked(&capped(&scores, attention.cap), layer, keys);
        let (scores, dim) = (self.name("scores"), keys.dim);
        self.set("p", &format!("softmax_{dim}({scores})"));
        let attended = format!("{} *{dim} {v}", self.name("p"));
        if !attention.has_sinks {
            return attended;
        }
        let sinks = self.name("sinks");
        format!("({attended}) * sigmoid(logsumexp_{dim}({scores}) - {sinks})")
    }

    /// Scores without those of tokens that a query does not see.
    fn masked(&mut self, scores: &str, layer: Layer, keys: Keys) {
        self.set("s", scores);
        let (s, dim) = (self.name("s"), keys.dim);
        if self.step == Step::Decode {
            self.set("scores", &format!("select(position_{dim}({s}) <= at, {s}, -1e9)"));
            return;
        }
        let causal = format!("causal_{{T,S}}({s})");
        let Some(window) = layer.window else { return self.set("scores", &causal) };
        let window = number(window as f64);
        self.set("near", &format!("position_T({s}) - position_S({s}) < {window}"));
        self.set("scores", &format!("select({}, {causal}, -1e9)", self.name("near")));
    }

    /// The options of `attention` besides `causal`.
    fn options(&self, layer: Layer) -> String {
        let attention = &self.model.attention;
        let usual = match attention.kind {
            Kind::Grouped { head, .. } => head,
            Kind::Latent { head, rotary, .. } => head + rotary,
        };
        let window = layer.window.map(|window| format!(", window={window}"));
        let is_usual = (attention.scale - (usual as f64).powf(-0.5)).abs() < 1e-9;
        let scale = (!is_usual).then(|| format!(", scale={}", number(attention.scale)));
        let cap = attention.cap.map(|cap| format!(", cap={}", number(cap)));
        [window, scale, cap].into_iter().flatten().collect()
    }

    fn latent(&mut self, layer: Layer, has_latent_queries: bool) {
        self.latent_params(has_latent_queries);
        self.set("a", &self.normed("x", "D", "input_layernorm"));
        let a = self.name("a");
        let queries = if has_latent_queries {
            let latent = self.latent_projected("q_a_proj");
            self.set("cq", &self.normed(&latent, "Q", "q_a_layernorm"));
            format!("{} *Q", self.name("cq"))
        } else {
            format!("{a} *D")
        };
        self.set("q.0", &format!("{queries} {}", self.name("q_proj.plain")));
        self.set("q.1", &format!("{queries} {}", self.name("q_proj.rope")));
        self.set("k.1", &self.latent_projected("k_proj.rope"));
        let latent = self.normed(&self.latent_projected("kv_a_proj"), "C", "kv_a_layernorm");
        let attended = if self.step == Step::Decode {
            self.with_latent_cache(layer, &latent)
        } else {
            self.with_expanded_latents(layer, &latent)
        };
        self.set("o", &attended);
        let output = format!("{} *N,J {}", self.name("o"), self.name("o_proj"));
        self.set("out", &self.with_latent_bias(output, "o_proj"));
        self.add("out", "post_attention_layernorm");
        let along = if self.step == Step::Decode { "S" } else { "T" };
        self.kept(&[("c", &format!("B, {along}, C")), ("kr", &format!("B, {along}, R"))]);
    }

    fn latent_params(&mut self, has_latent_queries: bool) {
        if has_latent_queries {
            self.params(&[("q_a_proj", "D, Q"), ("q_a_layernorm", "Q")]);
            self.params(&[("q_proj.plain", "Q, N, H"), ("q_proj.rope", "Q, N, R")]);
        } else {
            self.params(&[("q_proj.plain", "D, N, H"), ("q_proj.rope", "D, N, R")]);
        }
        self.params(&[
            ("kv_a_proj", "D, C"),
            ("kv_a_layernorm", "C"),
            ("k_proj.rope", "D, R"),
            ("k_b_proj", "C, N, H"),
            ("v_b_proj", "C, N, J"),
            ("o_proj", "N, J, D"),
        ]);
        if self.model.attention.bias.0 {
            let of_queries = has_latent_queries.then_some(("q_a_proj.bias", "Q"));
            let others = [("kv_a_proj.bias", "C"), ("k_proj.rope.bias", "R"), ("o_proj.bias", "D")];
            self.params(&of_queries.into_iter().chain(others).collect::<Vec<_>>());
        }
        if self.step == Step::Decode {
            self.declare("state", &[("c_cache", "B, S, C"), ("kr_cache", "B, S, R")]);
        }
    }

    /// `a *D kv_a_proj`, with its bias.
    fn latent_projected(&self, weights: &str) -> String {
        let product = format!("{} *D {}", self.name("a"), self.name(weights));
        self.with_latent_bias(product, weights)
    }

    /// Of latent attention, what leads to latents and what leads from all heads may have a bias.
    fn with_latent_bias(&self, product: String, weights: &str) -> String {
        let bias = self.model.attention.bias.0.then(|| self.name(&format!("{weights}.bias")));
        bias.map_or(product.clone(), |bias| format!("{product} + {bias}"))
    }

    /// Keys and values of all heads, from the latents.
    fn with_expanded_latents(&mut self, layer: Layer, latent: &str) -> String {
        self.set("c", latent);
        self.set("kr", &self.rotated("k.1", layer));
        self.set("qr", &self.rotated("q.1", layer));
        let [q, qr, c, kr] = ["q.0", "qr", "c", "kr"].map(|base| self.name(base));
        let [keys, values] = ["k_b_proj", "v_b_proj"].map(|base| self.name(base));
        self.set("k.0", &format!("{c} *C {keys}"));
        self.set("q", &format!("concat_{{H,R->A}}({q}, {qr})"));
        self.set("k.2", &format!("concat_{{H,R->A}}({}, broadcast_N({kr}))", self.name("k.0")));
        self.stored("k", "B, S, N, A", ALL_KEYS, &self.name("k.2"));
        self.stored("v", "B, S, N, J", ALL_KEYS, &format!("{c} *C {values}"));
        self.attended(layer, ALL_KEYS, "attention_A")
    }

    /// Queries are projected to the latents instead, so that the cache holds nothing else.
    fn with_latent_cache(&mut self, layer: Layer, latent: &str) -> String {
        self.set("c.0", latent);
        self.stored("c", "", ALL_KEYS, &self.name("c.0"));
        self.set("k.2", &self.rotated("k.1", layer));
        self.stored("kr", "", ALL_KEYS, &self.name("k.2"));
        self.set("qr", &self.rotated("q.1", layer));
        let [q, qr, c, kr] = ["q.0", "qr", "c", "kr"].map(|base| self.name(base));
        let [keys, values] = ["k_b_proj", "v_b_proj"].map(|base| self.name(base));
        let scale = number(self.model.attention.scale);
        self.set("q", &format!("{q} *H {keys}"));
        let scores = format!("({scale} * {}) *C {c} + ({scale} * {qr}) *R {kr}", self.name("q"));
        self.masked(&scores, layer, ALL_KEYS);
        self.set("p", &format!("softmax_S({})", self.name("scores")));
        format!("{} *S {c} *C {values}", self.name("p"))
    }
}
