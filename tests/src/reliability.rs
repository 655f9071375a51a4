//! What holds of every input, tried on many: the standing proof that nothing breaks.
//!
//! A law is a sentence about an input and a function that checks it. Inputs are fixtures, random
//! programs and models, mutations of all three, and files of hardware (`inputs`), each from a
//! number, so that a failure can be repeated. `.ci/run` tries inputs for two minutes; counts of a
//! long run are on the page about reliability. The fuzz targets call the same laws on what
//! libFuzzer chooses.
//!
//! A coverage-guided fuzzer alone would find more paths of the parser and fewer programs that can
//! be planned; random programs alone find no mistakes of reading.

pub mod inputs;
mod pairs;
mod plans;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use inputs::{Input, Kind};

/// Whether a law has something to say about an input.
pub enum Outcome {
    /// It holds.
    Holds,
    /// The input is refused, or is not one that the law is about.
    DoesNotApply,
}

/// The result of a check: a text says what does not hold.
pub type Checked = Result<Outcome, String>;

/// A sentence that holds of inputs.
pub struct Law {
    /// Its name: `verify`, `memory ladder`.
    pub name: &'static str,
    /// The sentence.
    pub says: &'static str,
    /// The inputs that it is about.
    pub kinds: &'static [Kind],
    /// One input in so many is tried: laws that plan many times are tried on fewer.
    pub one_in: usize,
    /// The check.
    pub check: fn(&Input) -> Checked,
}

/// All laws: of texts, of plans, and of pairs of programs.
pub fn laws() -> Vec<Law> {
    [texts::laws(), plans::laws(), pairs::laws()].into_iter().flatten().collect()
}

/// What became of the inputs of a law.
#[derive(Default)]
pub struct Tally {
    /// Inputs that it holds of.
    pub held: AtomicUsize,
    /// Inputs that it says nothing about.
    pub skipped: AtomicUsize,
}

/// An input that breaks a law.
#[derive(Debug)]
pub struct Fault {
    /// The law.
    pub law: &'static str,
    /// The number and kind of the input.
    pub input: String,
    /// What does not hold, or the message of a panic.
    pub message: String,
    /// The smallest text found that breaks it in the same way.
    pub text: String,
}

/// The longest that one check took, with the law and the input.
pub type Slowest = (Duration, &'static str, String);

/// Checks an input against a law; a panic is a fault as well.
///
/// # Errors
/// What does not hold.
pub fn check(law: &Law, input: &Input) -> Checked {
    let checked = catch_unwind(AssertUnwindSafe(|| (law.check)(input)));
    checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panics: {}", text.unwrap_or("no message")))
    })
}

/// Checks the input that a fuzzer's bytes stand for against the laws of these names.
///
/// # Panics
/// If one of them does not hold, or there is none of that name.
pub fn try_chosen(names: &[&str], bytes: &[u8]) {
    let laws = laws();
    for name in names {
        let law = laws.iter().find(|law| law.name == *name);
        let law = law.unwrap_or_else(|| panic!("no law is called {name}"));
        let Some(input) = Input::chosen(law.kinds, bytes) else { return };
        if let Err(fault) = (law.check)(&input) {
            panic!("{name}: {fault}\n{}", input.text);
        }
    }
}

/// Checks the input of a number against every law about its kind.
pub fn try_all(laws: &[Law], tallies: &[Tally], number: u64) -> (Option<Fault>, Option<Slowest>) {
    let input = Input::numbered(number);
    let mut slowest: Option<Slowest> = None;
    for (place, (law, tally)) in laws.iter().zip(tallies).enumerate() {
        let is_chosen = (input.choice as usize + place).is_multiple_of(law.one_in);
        if !is_chosen || !law.kinds.contains(&input.kind) {
            continue;
        }
        let start = Instant::now();
        let outcome = check(law, &input);
        let took = start.elapsed();
        if slowest.as_ref().is_none_or(|(longest, ..)| took > *longest) {
            slowest = Some((took, law.name, format!("{number} {:?}", input.kind)));
        }
        match outcome {
            Ok(Outcome::Holds) => tally.held.fetch_add(1, Ordering::Relaxed),
            Ok(Outcome::DoesNotApply) => tally.skipped.fetch_add(1, Ordering::Relaxed),
            Err(message) => return (Some(fault(law, &input, number, message)), slowest),
        };
    }
    (None, slowest)
}

fn fault(law: &Law, input: &Input, number: u64, message: String) -> Fault {
    let text = shrunk(law, input);
    Fault { law: law.name, input: format!("{number} {:?}", input.kind), message, text }
}

/// The text with as many lines left out as the fault allows.
fn shrunk(law: &Law, input: &Input) -> String {
    let mut lines: Vec<&str> = input.text.lines().collect();
    let started = Instant::now();
    let mut at = lines.len();
    while at > 0 && started.elapsed() < Duration::from_secs(60) {
        at -= 1;
        let line = lines.remove(at);
        let smaller = Input::new(input.kind, lines.join("\n") + "\n", input.choice);
        if check(law, &smaller).is_ok() {
            lines.insert(at, line);
        }
    }
    lines.join("\n") + "\n"
}
