//! The claim in the text of a plan: how the plan was found.
//!
//! Planning the text of a plan must return the same text, byte for byte, but the statements of an
//! explicit program do not contain the proof of a search. So the printed plan ends in a line
//! `# found: … [fingerprint]`, and planning an explicit program keeps that line if the fingerprint
//! is still that of its statements, and with it the notes of what was regrouped or computed once. A
//! plan edited by hand loses them.

use std::hash::Hasher;

use rustc_hash::FxHasher;
use shardwise_passes::{Optimality, regathers_by_default};

use super::{Origin, Planned};
use crate::display::units;

const MARK: &str = "# found: ";

/// The least gap that is written, in percent: none is zero where nothing is proven.
const LEAST_GAP: f64 = 0.1;

/// How many times the bound a plan takes from which the bound says little.
const FAR: f64 = 10.0;

/// The claim with the fingerprint of the plan that it is about.
pub(crate) fn sign(claim: &str, plan: &str) -> String {
    format!("{claim} [{:016x}]", fingerprint(plan))
}

/// The claim in `source`, if it is about `plan`.
pub(crate) fn read(source: &str, plan: &str) -> Option<String> {
    let claim = source.lines().rev().find_map(|line| line.strip_prefix(MARK))?.trim_end();
    claim.ends_with(&format!(" [{:016x}]", fingerprint(plan))).then(|| claim.to_owned())
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// What begins a note in the text of a plan.
const NOTES: [&str; 2] = ["# regrouped", "# computed once"];

/// The notes in `source` about how its statements came to be.
pub(crate) fn notes(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|line| NOTES.iter().any(|note| line.starts_with(note)));
    lines.filter_map(|line| line.strip_prefix("# ")).map(str::to_owned).collect()
}

impl Planned {
    /// How the plan was found, for the last line of its text.
    pub(crate) fn found_line(&self) -> Option<String> {
        let claim = match &self.origin {
            Origin::Explicit => {
                return self.carried_claim.as_ref().map(|claim| format!("found: {claim}"));
            }
            Origin::Textbook => "by the textbook's rules".to_owned(),
            Origin::Searched(found) => self.search_claim(found.optimality),
        };
        Some(format!("found: {}", sign(&claim, &self.plan.to_string())))
    }

    fn search_claim(&self, optimality: Optimality) -> String {
        let (own, book) = (self.objective_s(&self.report), self.objective_s(&self.textbook));
        let proof = match optimality {
            Optimality::Optimal => "optimal".to_owned(),
            Optimality::Bounded { .. } => above_bound(own, self.lower_bound_s()),
        };
        let saving = self.beside_the_textbook(own, book);
        let alternatives = self.alternatives();
        let equal = if alternatives.is_empty() {
            String::new()
        } else {
            format!("; as cheap from {}", alternatives.join(" or "))
        };
        let among = if regathers_by_default(&self.plan) { ", weights=regathered" } else { "" };
        format!("{proof} ({}{among}); {saving}{equal}", self.objective.name())
    }

    /// How a plan of `own` seconds compares with the textbook's of `book`.
    fn beside_the_textbook(&self, own: f64, book: f64) -> String {
        if self.rules_fail {
            return "the textbook's rules find no plan".to_owned();
        }
        let per_cent = 100.0 * (book - own).abs() / book;
        let time = units::seconds(book);
        let capacity_bytes = self.capacity_bytes.unwrap_or(f64::INFINITY);
        if own < book && self.textbook.memory.peak_bytes > capacity_bytes {
            format!("{per_cent:.1}% under the textbook's {time}, which does not fit")
        } else if own < book {
            format!("{per_cent:.1}% under the textbook's {time}")
        } else if book == 0.0 && own > 0.0 {
            "the textbook's takes no time, and does not fit".to_owned()
        } else if own > book * (1.0 + 1e-9) {
            format!("{per_cent:.1}% over the textbook's {time}, which does not fit")
        } else {
            "as cheap as the textbook's".to_owned()
        }
    }
}

/// How far a plan is above the bound of the optimum: what is not proven has a gap.
fn above_bound(own_s: f64, bound_s: f64) -> String {
    let times = if own_s > 0.0 { own_s / bound_s } else { 1.0 };
    if times.is_infinite() {
        "with no bound of the optimum".to_owned()
    } else if times > FAR {
        format!("at most {times:.0} times the optimum, a bound that says little")
    } else {
        format!("within {:.1}% of the optimum", (100.0 * (times - 1.0)).max(LEAST_GAP))
    }
}

#[cfg(test)]
mod tests {
    use super::above_bound;

    #[test]
    fn a_bound_that_is_far_below_is_put_in_words() {
        let cases = [
            (0.0, 0.0, "within 0.1% of the optimum"),
            (3.0, 2.0, "within 50.0% of the optimum"),
            (64.0, 2.0, "at most 32 times the optimum, a bound that says little"),
            (1.0, 0.0, "with no bound of the optimum"),
        ];
        for (own_s, bound_s, words) in cases {
            assert_eq!(above_bound(own_s, bound_s), words);
        }
    }
}
