//! Writes the program of an architecture: declarations, layers as they repeat, and the end of the
//! step. [`super::attention`] and [`super::feed_forward`] write what is in a layer.

use super::Step;
use super::architecture::{Architecture, Kind, Layer};
use super::dims::{Dim, dims};
use super::layers::{self, Block, suffixes, written};
use super::machine::Machine;

/// The longest line.
const COLUMNS: usize = 100;

/// A program that is written.
pub(super) struct Writer<'m> {
    pub(super) model: &'m Architecture,
    pub(super) step: Step,
    /// Tokens of a sequence, or of a cache.
    pub(super) length: u64,
    text: String,
    depth: usize,
    /// What is appended to the names of the current layer.
    suffix: String,
}

/// The program of a model, with what it leaves out as comments.
pub(super) fn write(
    model: &Architecture,
    machine: &Machine,
    step: Step,
    warnings: &[String],
) -> String {
    let mut writer = Writer {
        model,
        step,
        length: machine.sequence,
        text: String::new(),
        depth: 0,
        suffix: String::new(),
    };
    writer.head(machine, warnings);
    writer.embedding();
    writer.layers();
    writer.end();
    writer.text
}

/// Dimensions, each free: `D, F` becomes `D_?, F_?`.
pub(super) fn free(dims: &str) -> String {
    dims.split(", ").map(|dim| format!("{dim}_?")).collect::<Vec<_>>().join(", ")
}

/// A number as programs write it, to seven digits.
pub(super) fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    format!("{rounded:?}")
}

impl Writer<'_> {
    /// A name of the current layer.
    pub(super) fn name(&self, base: &str) -> String {
        format!("{base}{}", self.suffix)
    }

    pub(super) fn line(&mut self, text: &str) {
        let indent = if text.is_empty() { String::new() } else { "  ".repeat(self.depth) };
        self.text += &format!("{indent}{text}\n");
    }

    /// Declarations of one kind, in as many lines as they take.
    pub(super) fn declare(&mut self, kind: &str, declared: &[(&str, &str)]) {
        let mut line = String::new();
        for (base, dims) in declared {
            let one = self.declaration(base, dims);
            let width = 2 * self.depth + kind.len() + line.len() + one.len() + 3;
            if !line.is_empty() && width > COLUMNS {
                self.line(&format!("{kind} {line}"));
                line.clear();
            }
            line += if line.is_empty() { "" } else { ", " };
            line += &one;
        }
        self.line(&format!("{kind} {line}"));
    }

    /// `ids: int32` and its dimensions, or a name of the current layer and its.
    fn declaration(&self, base: &str, dims: &str) -> String {
        match base.split_once(": ") {
            Some((name, dtype)) => format!("{}: {dtype}[{}]", self.name(name), free(dims)),
            None => format!("{}[{}]", self.name(base), free(dims)),
        }
    }

    pub(super) fn params(&mut self, declared: &[(&str, &str)]) {
        self.declare("param", declared);
    }

    /// `NAME = VALUE`, the name one of the current layer.
    pub(super) fn set(&mut self, base: &str, value: &str) {
        let name = self.name(base);
        self.line(&format!("{name} = {value}"));
    }

    /// `NAME[DIMS] = VALUE`.
    pub(super) fn set_as(&mut self, base: &str, dims: &str, value: &str) {
        let name = self.name(base);
        self.line(&format!("{name}[{}] = {value}", free(dims)));
    }

    /// The dimensions that tokens have.
    pub(super) fn tokens(&self) -> &'static str {
        if self.step == Step::Decode { "B" } else { "B, T" }
    }

    /// A value normalised over a dimension, with the weights of a norm.
    pub(super) fn normed(&self, value: &str, dim: &str, weights: &str) -> String {
        let weights = self.name(weights);
        if self.model.norms.is_offset {
            format!("rmsnorm_{dim}({value}) * ({weights} + 1.0)")
        } else {
            format!("rmsnorm_{dim}({value}) * {weights}")
        }
    }

    fn comment(&mut self, text: &str) {
        let mut line = "#".to_owned();
        for word in text.split(' ') {
            if line.len() + 1 + word.len() > COLUMNS {
                self.text += &format!("{line}\n");
                line = "#  ".to_owned();
            }
            line += " ";
            line += word;
        }
        self.text += &format!("{line}\n");
    }

    fn head(&mut self, machine: &Machine, warnings: &[String]) {
        let step = match self.step {
            Step::Train => "a training step",
            Step::Prefill => "a prefill",
            Step::Decode => "a decode step",
        };
        let model_type = &self.model.model_type;
        self.comment(&format!("{model_type}: {step}, from a Hugging Face configuration."));
        let dim = self.rotary_dim();
        self.comment(&format!(
            "The rotary tables are inputs, scaled as the model scales them; rope_sin is negative \
             in the first half of {dim}."
        ));
        for warning in warnings {
            self.comment(&format!("Not as in the model: {warning}."));
        }
        self.line(&format!("hardware {}", machine.hardware));
        self.line(&format!("mesh {}", machine.mesh));
        let dims = dims(self.model, machine, self.step);
        let declared: Vec<String> =
            dims.iter().map(|Dim(name, size, _)| format!("dim {name}={size}")).collect();
        let width = declared.iter().map(String::len).max().unwrap_or(0);
        for (Dim(_, _, about), declared) in dims.iter().zip(declared) {
            self.line(&format!("{declared:width$}  # {about}"));
        }
        self.line("");
    }

    /// The dimension that positions rotate.
    pub(super) fn rotary_dim(&self) -> &'static str {
        if matches!(self.model.attention.kind, Kind::Latent { .. }) { "R" } else { "H" }
    }

    /// What names of the rotary tables of layers end with: those with a window may have their own.
    pub(super) fn table_suffix(&self, layer: Layer) -> &'static str {
        if self.model.has_local_tables && layer.window.is_some() { ".local" } else { "" }
    }

    fn table_suffixes(&self) -> Vec<&'static str> {
        let mut suffixes: Vec<_> =
            self.model.layers.iter().map(|&layer| self.table_suffix(layer)).collect();
        suffixes.sort_unstable();
        suffixes.dedup();
        suffixes
    }

    fn embedding(&mut self) {
        let tokens = self.tokens();
        let mut inputs = vec![("ids: int32", tokens)];
        match self.step {
            Step::Train => inputs.push(("next: int32", tokens)),
            Step::Decode => inputs.push(("at: int32", "B")),
            Step::Prefill => {}
        }
        self.declare("input", &inputs);
        self.places_of_windows();
        let along = if self.step == Step::Decode { "S" } else { "T" };
        let dims = format!("{along}, {}", self.rotary_dim());
        for suffix in self.table_suffixes() {
            let [cos, sin] = ["rope_cos", "rope_sin"].map(|table| format!("{table}{suffix}"));
            self.declare("input", &[(&cos, &dims), (&sin, &dims)]);
        }
        self.params(&[("embed_tokens", "V, D"), ("norm", "D")]);
        if !self.model.is_tied {
            self.params(&[("lm_head", "V, D")]);
        }
        let scale = self.model.embedding_scale.map(|scale| format!("{} * ", number(scale)));
        let rows = format!("{}take_V(embed_tokens, ids)", scale.unwrap_or_default());
        self.set_as("x", &format!("{tokens}, D"), &rows);
        if self.step == Step::Decode {
            for suffix in self.table_suffixes() {
                self.line(&format!("rope_cos{suffix}.at = take_S(rope_cos{suffix}, at)"));
                self.line(&format!("rope_sin{suffix}.at = take_S(rope_sin{suffix}, at)"));
            }
        }
    }

    fn layers(&mut self) {
        let blocks = layers::blocks(&self.model.layers);
        let mut suffixes = suffixes(&written(&blocks)).into_iter();
        let mut repeats = 0;
        self.blocks(&blocks, &mut suffixes, &mut repeats);
    }

    fn blocks(
        &mut self,
        blocks: &[Block],
        suffixes: &mut impl Iterator<Item = String>,
        repeats: &mut usize,
    ) {
        for block in blocks {
            match block {
                Block::Layer(layer) => {
                    let suffix = suffixes.next().expect("every layer that is written has one");
                    self.layer(*layer, suffix);
                }
                Block::Repeat(count, inner) => {
                    *repeats += 1;
                    let number = if *repeats == 1 { String::new() } else { repeats.to_string() };
                    if self.depth == 0 {
                        self.line("");
                    }
                    self.line(&format!("repeat L{number}={count} {{"));
                    self.depth += 1;
                    self.line("carry x");
                    self.blocks(inner, suffixes, repeats);
                    if self.step == Step::Train {
                        self.line("checkpoint");
                    }
                    self.depth -= 1;
                    self.line("}");
                }
            }
        }
    }

    fn layer(&mut self, layer: Layer, suffix: String) {
        self.suffix = suffix;
        self.attention(layer);
        self.feed_forward(layer);
        self.suffix.clear();
    }

    /// Adds the result of a part of a layer to the residual stream.
    pub(super) fn add(&mut self, base: &str, weights: &str) {
        let value = self.name(base);
        if self.model.norms.is_sandwich {
            let normed = self.normed(&value, "D", weights);
            self.line(&format!("x = x + {normed}"));
        } else {
            self.line(&format!("x = x + {value}"));
        }
    }

    fn end(&mut self) {
        self.line("");
        let head = if self.model.is_tied { "embed_tokens" } else { "lm_head" };
        match self.step {
            Step::Train => self.loss(head),
            Step::Prefill => {
                let last = self.length.saturating_sub(1);
                self.set_as("last", "B, Now, D", &format!("slice_{{T->Now}}(x, {last})"));
                self.logits("B, Now, V", "last", head);
            }
            Step::Decode => self.logits("B, V", "x", head),
        }
    }

    fn loss(&mut self, head: &str) {
        let normed = self.normed("x", "D", "norm");
        self.set("y", &normed);
        self.set("logits", &self.capped(&format!("y *D {head}")));
        self.set("gold", &self.capped(&format!("y *D take_V({head}, next)")));
        self.line("Loss = mean_{B,T}(logsumexp_V(logits) - gold)");
        self.line("backward from Loss");
        self.line("optimizer adamw");
    }

    fn logits(&mut self, dims: &str, value: &str, head: &str) {
        let normed = self.normed(value, "D", "norm");
        let logits = self.capped(&format!("({normed}) *D {head}"));
        self.line(&format!("output logits[{}] = {logits}", free(dims)));
    }

    fn capped(&self, logits: &str) -> String {
        capped(logits, self.model.logit_cap)
    }
}

/// A value under a soft cap, if there is one.
pub(super) fn capped(value: &str, cap: Option<f64>) -> String {
    cap.map_or_else(
        || value.to_owned(),
        |cap| format!("{cap} * tanh(({value}) / {cap})", cap = number(cap)),
    )
}
