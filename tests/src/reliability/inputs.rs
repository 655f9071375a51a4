//! Inputs from numbers: the same number is the same input on every machine.

use std::sync::{LazyLock, OnceLock};

use shardwise::{Findings, Options, Planned};

use crate::random::{Dice, numbers_of_case};
use crate::{paths_below, random_model, random_program, read};

/// What an input is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A random program of expressions.
    Program,
    /// A random model with blocks, and its training step.
    Model,
    /// A program with a few characters, words or lines changed.
    Mutant,
    /// Bytes of all kinds.
    Bytes,
    /// A file of hardware, changed like a program.
    Hardware,
}

/// An input.
#[derive(Debug)]
pub struct Input {
    /// What it is made from.
    pub kind: Kind,
    /// Its text.
    pub text: String,
    /// Which laws that are tried on few inputs are tried on this one.
    pub choice: u32,
    plan: OnceLock<Result<Planned, Findings>>,
}

/// The programs of the tests.
static PROGRAMS: LazyLock<Vec<String>> = LazyLock::new(|| texts(".shard"));

/// The files of hardware of the tests.
static CHIPS: LazyLock<Vec<String>> = LazyLock::new(|| texts(".toml"));

/// Texts of the tests that are short enough to be changed and read many times.
fn texts(ending: &str) -> Vec<String> {
    let paths = paths_below("tests/programs", ending);
    let texts = paths.iter().map(|path| read(path)).filter(|text| text.len() < 4000);
    texts.collect()
}

impl Input {
    /// An input with a text.
    pub fn new(kind: Kind, text: String, choice: u32) -> Self {
        Self { kind, text, choice, plan: OnceLock::new() }
    }

    /// The input of a number. Of a hundred, two are programs that are planned, since that takes as
    /// long as reading thousands of texts.
    pub fn numbered(number: u64) -> Self {
        let seed = (number ^ (number >> 32)) as u32;
        let numbers = numbers_of_case(seed.wrapping_mul(0x9e37_79b9));
        let (choices, own) = numbers.split_at(20);
        let (kind, text) = match number % 100 {
            0 => (Kind::Program, program(own)),
            1 => (Kind::Model, random_model::model(own)),
            2 => (Kind::Bytes, bytes(own)),
            3..10 => (Kind::Hardware, mutant(choices, pick(own, &CHIPS))),
            10..30 => (Kind::Mutant, mutant(choices, &program(own))),
            30..50 => (Kind::Mutant, mutant(choices, &random_model::model(own))),
            _ => (Kind::Mutant, mutant(choices, pick(own, &PROGRAMS))),
        };
        Self::new(kind, text, choices[0])
    }

    /// The input that a fuzzer's bytes stand for, of one of `kinds`. The first byte chooses the
    /// kind, the next two what it is made from. The others are its text, or numbers that a program
    /// is made from; of a mutant 40 of them are the numbers of its changes. So a changed byte is a
    /// changed statement and not only a changed character.
    pub fn chosen(kinds: &[Kind], bytes: &[u8]) -> Option<Self> {
        let [kind, source, choice, rest @ ..] = bytes else { return None };
        let kind = kinds[usize::from(*kind) % kinds.len()];
        let (changes, own) = rest.split_at(rest.len().min(40));
        let (choices, numbers) = (pairs(changes), pairs(own));
        let made = |numbers: &[u32]| match source % 4 {
            0 => pick(&[u32::from(*choice) << 2 | u32::from(*source) >> 6], &PROGRAMS).to_owned(),
            1 => program(numbers),
            2 => random_model::model(numbers),
            _ => String::from_utf8_lossy(own).into_owned(),
        };
        let text = match kind {
            Kind::Program => program(&pairs(rest)),
            Kind::Model => random_model::model(&pairs(rest)),
            Kind::Mutant => mutant(&choices, &made(&numbers)),
            Kind::Hardware if source % 2 == 0 => {
                mutant(&choices, pick(&[u32::from(*choice)], &CHIPS))
            }
            Kind::Bytes | Kind::Hardware => String::from_utf8_lossy(rest).into_owned(),
        };
        Some(Self::new(kind, text, u32::from(*choice)))
    }

    /// Its plan without a limit of memory, or why there is none.
    pub(super) fn plan(&self) -> Result<&Planned, &Findings> {
        let plan = || shardwise::plan("input", &self.text, &unlimited());
        self.plan.get_or_init(plan).as_ref()
    }
}

/// Options of plans without a limit of memory.
pub(super) fn unlimited() -> Options {
    Options { memory: Some(f64::INFINITY), ..Options::default() }
}

fn program(numbers: &[u32]) -> String {
    let [axes, operations, rest @ ..] = numbers else { return String::new() };
    random_program::program(rest, 1 + *axes as usize % 3, 1 + *operations as usize % 10)
}

/// Numbers of two bytes each.
fn pairs(bytes: &[u8]) -> Vec<u32> {
    let number = |pair: &[u8]| pair.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
    bytes.chunks(2).map(number).collect()
}

fn pick<'t>(numbers: &[u32], of: &'t [String]) -> &'t str {
    &of[numbers[0] as usize % of.len()]
}

fn bytes(numbers: &[u32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Words that mean something, and some that are hard to read.
const WORDS: [&str; 71] = [
    "mesh ",
    "dim ",
    "input ",
    "param ",
    "state ",
    "output ",
    "assert ",
    "hardware ",
    "repeat L=2 {",
    "}",
    "{",
    "pipeline X, microbatches=2 {",
    "carry x",
    "checkpoint",
    "backward from ",
    "optimizer adam",
    "softmax_D(",
    "take_V(",
    "conv_{T,R}(",
    "windows_{T->C,R}(",
    "overlap_{C,R->T}(",
    "scan T in C {",
    "stack(",
    " zigzag 4",
    "tables=0.01",
    "route_{T,E->S}(",
    "topk_D(",
    "one_hot_D(",
    "rename(",
    "reshape(",
    "slice(",
    "cumsum_T(",
    "roll_T(",
    "attention(",
    "[B_X, D]",
    "[B_{X,Y}, D_?]",
    "_XY",
    " *D ",
    " * ",
    " + ",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    "0",
    "-1",
    "1e308",
    "1e-320",
    "18446744073709551615",
    "9223372036854775808",
    "4611686018427387904",
    "inf",
    "nan",
    "-inf",
    "0.5",
    "\u{202e}",
    "\u{1b}[2J",
    "\0",
    "\r",
    "\t",
    "µ",
    "#",
    "\"",
    "'",
    "max ",
    "{U_X}",
    ": int32",
    "given ",
    " pad",
];

/// A text with a few changes.
fn mutant(numbers: &[u32], text: &str) -> String {
    let mut dice = Dice::new(numbers);
    let mut text = text.to_owned();
    for _ in 0..=dice.roll(3) {
        text = changed(&text, &mut dice);
    }
    text
}

fn changed(text: &str, dice: &mut Dice<'_>) -> String {
    let (a, b) = (place(text, dice), place(text, dice));
    let (from, to) = (a.min(b), a.max(b));
    let near =
        text[from..].char_indices().nth(1 + dice.roll(6)).map_or(text.len(), |(at, _)| from + at);
    match dice.roll(8) {
        0 => [&text[..from], &text[near..]].concat(),
        1 => [&text[..near], &text[from..]].concat(),
        2 => [&text[..from], *dice.pick(&WORDS), &text[from..]].concat(),
        3 => [&text[..from], *dice.pick(&WORDS), &text[near..]].concat(),
        4 => without_line(text, dice),
        5 => swapped_lines(text, dice),
        6 => other_number(text, dice),
        _ if to - from < 200 => [&text[..to], &text[from..to], &text[to..]].concat(),
        _ => text[..from].to_owned(),
    }
}

/// A place between two characters.
fn place(text: &str, dice: &mut Dice<'_>) -> usize {
    let near = dice.roll(text.len() + 1);
    (0..=near).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

fn without_line(text: &str, dice: &mut Dice<'_>) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if !lines.is_empty() {
        lines.remove(dice.roll(lines.len()));
    }
    lines.concat()
}

fn swapped_lines(text: &str, dice: &mut Dice<'_>) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if !lines.is_empty() {
        let (a, b) = (dice.roll(lines.len()), dice.roll(lines.len()));
        lines.swap(a, b);
    }
    lines.concat()
}

/// The text with one of its numbers replaced.
fn other_number(text: &str, dice: &mut Dice<'_>) -> String {
    const NUMBERS: [&str; 12] =
        ["0", "1", "2", "3", "7", "12", "64", "100000", "4294967296", "1e18", "-4", "0.5"];
    let starts: Vec<usize> = text
        .char_indices()
        .filter(|&(at, c)| {
            c.is_ascii_digit() && !text[..at].ends_with(|c: char| c.is_alphanumeric())
        })
        .map(|(at, _)| at)
        .collect();
    if starts.is_empty() {
        return text.to_owned();
    }
    let from = starts[dice.roll(starts.len())];
    let length = text[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - from);
    [&text[..from], *dice.pick(&NUMBERS), &text[from + length..]].concat()
}
