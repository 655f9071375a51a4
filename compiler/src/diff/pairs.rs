//! Matches the lines of two plans.
//!
//! Criteria from the strictest to the weakest, each in program order: the same text; the same
//! value, reader and kind of collective; the same value and reader; the same value and kind.
//! Remaining lines were added or removed. An assignment of least cost would need a measure of
//! similarity that a reader could not check by eye.

use std::collections::VecDeque;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::{Change, Line, Statement, same};

/// Lines of two plans, matched.
pub(super) struct Pairs {
    pub(super) added: Vec<Line>,
    pub(super) removed: Vec<Line>,
    /// In the order of the second plan.
    pub(super) both: Vec<Change>,
}

/// The fields that must be equal for two lines to match, strictest first.
const SIGNS: [fn(&Line) -> String; 4] = [
    |line| line.text.clone(),
    |line| format!("{} {} {}", line.value, need(line), kind(line)),
    |line| format!("{} {}", line.value, need(line)),
    |line| format!("{} {}", line.value, kind(line)),
];

fn need(line: &Line) -> &str {
    line.needed_by.first().map_or("nothing", String::as_str)
}

/// `AllGather` of `AllGather_X`.
fn kind(line: &Line) -> &str {
    line.what.split('_').next().unwrap_or_default()
}

/// Matches collectives.
pub(super) fn pair(before: Vec<Line>, after: Vec<Line>) -> Pairs {
    let mut old: Vec<Option<Line>> = before.into_iter().map(Some).collect();
    let mut partner: Vec<Option<Line>> = vec![None; after.len()];
    for sign in SIGNS {
        let mut waiting: IndexMap<String, Vec<usize>, FxBuildHasher> = IndexMap::default();
        for (number, line) in old.iter().enumerate().rev() {
            if let Some(line) = line {
                waiting.entry(sign(line)).or_default().push(number);
            }
        }
        for (line, partner) in
            after.iter().zip(&mut partner).filter(|(_, partner)| partner.is_none())
        {
            let first = waiting.get_mut(&sign(line)).and_then(Vec::pop);
            *partner = first.and_then(|number| old[number].take());
        }
    }
    let mut pairs =
        Pairs { added: Vec::new(), removed: old.into_iter().flatten().collect(), both: Vec::new() };
    for (after, before) in after.into_iter().zip(partner) {
        match before {
            Some(before) => pairs.both.push(Change { before, after }),
            None => pairs.added.push(after),
        }
    }
    pairs
}

/// Matches local operations by the value that they produce; returns those that differ.
pub(super) fn statements(before: Vec<Line>, after: Vec<Line>) -> Vec<Statement> {
    let by_value = |lines: Vec<Line>| {
        lines.into_iter().map(|line| (line.value.clone(), line)).collect::<Vec<_>>()
    };
    let both = matched(by_value(before), by_value(after));
    let differ = |before: &Option<Line>, after: &Option<Line>| match (before, after) {
        // Whether arithmetic is critical follows from the collectives around it.
        (Some(before), Some(after)) => {
            let is_free = before.time_s == 0.0 && after.time_s == 0.0;
            let is_same = same(&Line { critical: after.critical, ..before.clone() }, after);
            !(is_same || is_free && before.text == after.text)
        }
        _ => true,
    };
    let differing = both.into_iter().filter(|(before, after)| differ(before, after));
    differing.map(|(before, after)| Statement { before, after }).collect()
}

/// Texts that belong together by name; empty where one side has no such name.
pub(super) fn named(
    before: Vec<(String, String)>,
    after: Vec<(String, String)>,
) -> Vec<(String, String)> {
    matched(before, after)
        .into_iter()
        .map(|(before, after)| (before.unwrap_or_default(), after.unwrap_or_default()))
        .collect()
}

/// Joins two lists by name, those of one name in their order: those of the second list, then those
/// that only the first has.
fn matched<T>(before: Vec<(String, T)>, after: Vec<(String, T)>) -> Vec<(Option<T>, Option<T>)> {
    let mut old: IndexMap<String, VecDeque<T>, FxBuildHasher> = IndexMap::default();
    for (name, one) in before {
        old.entry(name).or_default().push_back(one);
    }
    let mut first_of = |name: &str| old.get_mut(name).and_then(VecDeque::pop_front);
    let mut both: Vec<(Option<T>, Option<T>)> =
        after.into_iter().map(|(name, new)| (first_of(&name), Some(new))).collect();
    both.extend(old.into_values().flatten().map(|old| (Some(old), None)));
    both
}
