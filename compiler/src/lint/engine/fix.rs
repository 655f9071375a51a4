//! Applies fixes in rounds: first those that do not overlap, then those that earlier ones uncover.

use super::settings::Settings;
use super::{Linted, lint};
use crate::lint::definition::{Edit, Fix, Safety, edited};
use crate::lint::rules::find;
use crate::options::Options;

/// `source` after all fixes that do not overlap an earlier one, and their number.
pub fn apply<'f>(source: &str, fixes: impl IntoIterator<Item = &'f Fix>) -> (String, usize) {
    let mut edits: Vec<&Edit> = Vec::new();
    let mut applied = 0;
    for fix in fixes {
        let is_free = |edit: &Edit| {
            edits
                .iter()
                .all(|other| edit.span.end < other.span.start || other.span.end < edit.span.start)
        };
        if fix.edits.iter().all(is_free) {
            edits.extend(&fix.edits);
            applied += 1;
        }
    }
    (edited(source, edits), applied)
}

/// The limit of rounds: it is reached only if two fixes undo each other.
const ROUNDS: usize = 16;

/// The findings of `linted` after applying safe fixes until there are none, and the number of fixes
/// applied.
///
/// A round that would introduce an error is not applied.
pub fn fixed(linted: Linted, options: &Options, settings: &Settings) -> (Linted, usize) {
    let mut current = linted;
    let mut count = 0;
    for _ in 0..ROUNDS {
        let fixes = current.findings.iter().filter_map(|finding| finding.fix.as_ref());
        let (source, applied) =
            apply(&current.source, fixes.filter(|fix| fix.safety == Safety::Safe));
        if applied == 0 || source == current.source {
            break;
        }
        let next = lint(&current.name, &source, options, settings);
        if next.refused() && !current.refused() {
            break;
        }
        (current, count) = (next, count + applied);
    }
    (current, count)
}

impl Linted {
    /// Whether the program itself has errors, apart from lints.
    fn refused(&self) -> bool {
        self.findings.iter().any(|finding| find(finding.diag.code).is_none())
    }
}
