//! Applies fixes: those of one round that do not touch, then those that they uncover.

use super::settings::Settings;
use super::{Linted, lint};
use crate::lint::definition::{Edit, Fix, Safety};
use crate::lint::rules::find;
use crate::options::Options;

/// `source` after the fixes that do not touch what an earlier one changed, and how many they are.
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
    edits.sort_by_key(|edit| edit.span);
    let mut text = String::with_capacity(source.len());
    let mut at = 0;
    for edit in edits {
        text.push_str(&source[at..edit.span.start]);
        text.push_str(&edit.text);
        at = edit.span.end;
    }
    text.push_str(&source[at..]);
    (text, applied)
}

/// A fix can uncover another; more rounds than this do not happen unless two fixes undo each other.
const ROUNDS: usize = 16;

/// What is left of `linted` after its safe fixes, made again until there are none, and how many
/// were made.
///
/// A round that would bring an error into a program is not made.
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
    /// Whether the program itself is wrong, lints apart.
    fn refused(&self) -> bool {
        self.findings.iter().any(|finding| find(finding.diag.code).is_none())
    }
}
