//! Random models, from a list of numbers: blocks, pipelines, microbatches, checkpoints, optimizers,
//! attention, scans, convolutions, experts with and without dropped tokens and sequences in zigzag
//! order, which `random_program` has none of.
//!
//! A model is lines that are picked from lists, each of which is valid after any other: a grammar
//! of right sides would be more varied, and refused more often than planned, since blocks carry
//! values of one shape.

mod layers;

use std::fmt::Write as _;

use crate::random::Dice;
use layers::{IN_ANY_ORDER, IN_SEQUENCE};

const HARDWARE: [&str; 7] =
    ["tpu-v5p", "tpu-v5e", "h100", "a100", "tpu-v5p rates measured", "h100 rates measured", "b200"];

const CHECKPOINTS: [&str; 8] = [
    "",
    "",
    "checkpoint\n",
    "checkpoint keep products\n",
    "checkpoint x\n",
    "checkpoint\n",
    "checkpoint offload x\n",
    "checkpoint\ncheckpoint offload x\n",
];
const SPLITS: [&str; 5] =
    ["[B, T, D]", "[B_X, T, D]", "[B_X, T, D_Y]", "[B, T_Y, D]", "[B_?, T, D_?]"];
const LOSSES: [&str; 4] = [
    "Loss = sum_{B,T,D}(x * t)\n",
    "Loss = mean_{B,T,D}(square(x - t))\n",
    "Logits = x *D U\nLoss = sum_{B,T}(logsumexp_M(Logits))\n",
    "e[B_?, T_?, D_?] = take_M(W, ids)\nLoss = sum_{B,T,D}(x * e)\n",
];
const OPTIMIZERS: [&str; 7] = [
    "",
    "optimizer adam\n",
    "optimizer sgd\n",
    "optimizer adam over X\n",
    "optimizer adam over X, master=f32\n",
    "optimizer muon\n",
    "optimizer adam, tables=0.01\n",
];
const SCHEDULES: [&str; 6] = [
    "",
    ", schedule=1f1b",
    ", schedule=1f1b, chunks=2",
    ", schedule=zb-h1",
    ", schedule=dualpipe-v",
    ", layers=[1, 3]",
];

/// How the layers are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Flat,
    Block,
    Nested,
    Pipeline,
}

struct Sketch<'a> {
    dice: Dice<'a>,
    /// The number of the next layer.
    next: usize,
    frame: Frame,
    /// Whether the sequence is in zigzag order.
    zigzag: bool,
    text: String,
}

/// A model, and sometimes its training step.
pub fn model(numbers: &[u32]) -> String {
    let mut dice = Dice::new(numbers);
    let frame = *dice.pick(&[Frame::Flat, Frame::Block, Frame::Nested, Frame::Pipeline]);
    let zigzag = dice.one_in(6);
    let mut sketch = Sketch { dice, next: 0, frame, zigzag, text: String::new() };
    sketch.header();
    sketch.body();
    sketch.end();
    sketch.text
}

impl Sketch<'_> {
    fn header(&mut self) {
        let hardware = self.dice.pick(&HARDWARE);
        let (x, y) = (self.dice.pick(&[2, 4, 1, 2]), self.dice.pick(&[2, 1, 4]));
        let stages = if self.frame == Frame::Pipeline { "Z=2, " } else { "" };
        let scale = self.dice.pick(&[1, 1, 16, 128]);
        let (b, t, d) = (8 * scale, 8 * scale, 16 * scale);
        let input = *self.dice.pick(&SPLITS);
        let parts = if *y == 4 && *scale == 16 { " as 2x2" } else { "" };
        let order = if self.zigzag { " zigzag 4" } else { "" };
        let _ = write!(
            self.text,
            "hardware {hardware}\nmesh {stages}X={x}, Y={y}{parts}\n\
             dim B={b}, T={t}{order}, S=T, C=T/4, D={d}, F={}, K=4, H=8, E=4, Slots={t}, All=T\n\
             dim N=4, Q=6, P=N*Q, M=64, Near=3, W=6, G=2\n\
             input x{input}, t[B, T, D]\n",
            2 * d,
        );
    }

    fn body(&mut self) {
        match self.frame {
            Frame::Flat => {
                let layers = numbered(&self.layers(3));
                self.text += &layers;
            }
            Frame::Block => {
                let block = self.block(3);
                self.text += &block;
            }
            Frame::Nested => {
                let (first, inner, last) = (self.layers(1), self.block(2), self.layers(1));
                let count = 2 + self.dice.roll(2);
                let _ = write!(
                    self.text,
                    "repeat R={count} {{\ncarry x\n{first}{}{last}}}\n",
                    inner.replace("repeat L", "repeat L2")
                );
            }
            Frame::Pipeline => {
                let schedule = *self.dice.pick(&SCHEDULES);
                let block = self.block(2);
                let _ =
                    write!(self.text, "pipeline Z, microbatches=4 of B{schedule} {{\n{block}}}\n");
            }
        }
    }

    fn block(&mut self, most: usize) -> String {
        let count = if self.frame == Frame::Pipeline { 4 } else { *self.dice.pick(&[2, 3, 32]) };
        let checkpoint = *self.dice.pick(&CHECKPOINTS);
        format!("repeat L={count} {{\ncarry x\n{}{checkpoint}}}\n", self.layers(most))
    }

    /// Layers, with their parameters before them.
    fn layers(&mut self, most: usize) -> String {
        let mut text = String::new();
        for _ in 0..=self.dice.roll(most) {
            let (declared, statements) = self.layer();
            let number = self.next.to_string();
            self.next += 1;
            let role = if self.dice.one_in(8) { "frozen param" } else { "param" };
            if !declared.is_empty() {
                let _ = writeln!(text, "{role} {}", declared.replace('#', &number));
            }
            text += &statements.replace('#', &number);
        }
        text
    }

    /// A layer; one that needs neighbours in the sequence only where these are next to each other.
    fn layer(&mut self) -> (&'static str, &'static str) {
        if !self.zigzag && self.dice.one_in(3) {
            *self.dice.pick(&IN_SEQUENCE)
        } else {
            *self.dice.pick(&IN_ANY_ORDER)
        }
    }

    fn end(&mut self) {
        let trains = !self.dice.one_in(4);
        if !trains {
            let brackets = self.dice.pick(&SPLITS).replace("_?", "");
            let _ = writeln!(self.text, "output x{brackets}");
            return;
        }
        let loss = *self.dice.pick(&LOSSES);
        let declared = match loss {
            _ if loss.contains("U\n") => "param U[D, M_Y]\n",
            _ if loss.contains("ids") => "param W[M, D]\ninput ids: int32[B_X, T]\n",
            _ => "",
        };
        self.text += declared;
        self.text += loss;
        let cut = self.frame != Frame::Pipeline && self.dice.one_in(3);
        self.text +=
            if cut { "backward from Loss, microbatches=2 of B\n" } else { "backward from Loss\n" };
        self.text += *self.dice.pick(&OPTIMIZERS);
        self.text += "output Loss[]\n";
    }
}

/// Statements about `x` with a name for each of its values, the last of which is `x` again.
fn numbered(layers: &str) -> String {
    let mut current = "x0".to_owned();
    let mut count = 0;
    let mut text = String::new();
    for line in layers.lines() {
        let is_left = line.starts_with("x = ");
        let right = if is_left { &line[4..] } else { line };
        let right = with_word(right, "x", &current);
        if is_left {
            count += 1;
            current = format!("x{count}");
            let _ = writeln!(text, "{current} = {right}");
        } else {
            let _ = writeln!(text, "{right}");
        }
    }
    text
}

/// A text with another word for one of its words.
fn with_word(text: &str, word: &str, by: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let (name, end) =
            part.split_at(part.trim_end_matches(|c: char| !c.is_alphanumeric()).len());
        out += if name == word { by } else { name };
        out += end;
    }
    out
}
