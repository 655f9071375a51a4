//! Configurations that people published and measured, beside what `tune` finds in a space around
//! them: the cases of `tests/measured`, at measured rates.
//!
//! The space of a case has every mesh of as many axes as the published one, at least two; its
//! stages or none; its microbatches, half and a quarter of them, and for gradients none; one chunk
//! and its chunks; each layer computed again, or nothing. A larger one takes hours for all cases,
//! and would not tell more of what was published.

mod calculon;
mod page;
mod space;

use shardwise::tune::{Refused, Request, Tuned, tune};

pub use calculon::{Compared, calculon};
pub use page::{SECTIONS, Section, row, with_section};

use crate::measured::{Case, Part, options};

/// How many of the best strategies are proven: a published one that is not among them is printed
/// as after them.
const BEST: usize = 5;

/// A case and what was found beside it.
pub struct Found {
    /// The case.
    pub case: Case,
    /// Chips.
    pub chips: u64,
    /// What was found, or why nothing was.
    pub tuned: Result<Tuned, Refused>,
    /// The best with the published recomputation, seconds.
    pub as_recomputed_s: Option<f64>,
}

/// The program of a part with its own mesh.
fn with_mesh(part: &Part) -> String {
    let mesh = format!("mesh {}", part.mesh.replace(',', ", "));
    let line = |line: &str| if line.starts_with("mesh ") { mesh.clone() } else { line.to_owned() };
    part.source().lines().map(|text| line(text) + "\n").collect()
}

/// Tunes the first part of a case in the space around it, and places the published one.
pub fn found(case: &Case) -> Found {
    let part = &case.parts[0];
    let text = with_mesh(part);
    let checked = shardwise::check(&case.id, &text, &options(part));
    let program = checked.program.unwrap_or_else(|| panic!("{}: {}", case.id, checked.findings));
    let request = Request { free: true, best: BEST, ..space::around(&program) };
    let same = Request { best: 1, recompute: vec![space::recomputed(&text)], ..request.clone() };
    Found {
        case: case.clone(),
        chips: program.mesh.devices(),
        tuned: beside(case, request),
        as_recomputed_s: beside(case, same).ok().map(|tuned| tuned.strategies[0].objective_s),
    }
}

/// The best in a space, beside the case.
fn beside(case: &Case, request: Request) -> Result<Tuned, Refused> {
    let (part, name) = (&case.parts[0], &case.id);
    let text = with_mesh(part);
    let request = Request { against: vec![(name.clone(), text.clone())], ..request };
    tune(name, &text, &request, &options(part), &|_| ())
}
