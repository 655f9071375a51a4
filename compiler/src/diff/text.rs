//! A difference as a terminal shows it: `+` added, `-` removed, `~` changed, then the totals.

use std::fmt::Write as _;

use super::{Change, Diff, Line, Setting, Statement, Total};
use crate::display::table::Column::{self, Left, Right};
use crate::display::{table, units};

/// A total: its name, before, the arrow, after, the change, and the relative change.
const COLUMNS: [Column; 6] = [Left(10), Right(8), Right(2), Right(8), Right(12), Right(8)];

/// The difference as text.
pub(super) fn text(diff: &Diff) -> String {
    let mut out = format!("{} -> {}\n", diff.before, diff.after);
    for setting in &diff.settings {
        let _ = writeln!(out, "{}", self::setting(setting));
    }
    out.push('\n');
    for line in diff
        .removed
        .iter()
        .map(|line| single('-', line))
        .chain(diff.added.iter().map(|line| single('+', line)))
    {
        let _ = writeln!(out, "{line}");
    }
    for line in diff.changed.iter().map(changed).chain(diff.statements.iter().filter_map(statement))
    {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "{}\n", counts(diff));
    let _ = writeln!(out, "{}", table::row(&COLUMNS, &["", "before", "", "after", "change"]));
    for total in &diff.totals {
        let _ = writeln!(out, "{}", total_line(total));
    }
    out
}

pub(super) fn setting(setting: &Setting) -> String {
    let side = |text: &str| if text.is_empty() { "(none)".to_owned() } else { text.to_owned() };
    format!("{}: {} -> {}", setting.what, side(&setting.before), side(&setting.after))
}

/// `1 added, 2 removed, 1 changed, 4 unchanged collectives`.
pub(super) fn counts(diff: &Diff) -> String {
    let (added, removed, changed) = (diff.added.len(), diff.removed.len(), diff.changed.len());
    format!(
        "collectives: {added} added, {removed} removed, {changed} changed, {} unchanged",
        diff.unchanged
    )
}

/// `+1 AllGather_X 134 MB, +746 us, critical: Win[D, F_Y] = AllGather_X(Win[D_X, F_Y]) for Tmp`.
fn single(sign: char, line: &Line) -> String {
    let critical = if line.critical { ", critical" } else { "" };
    let (bytes, time) = (units::bytes(line.bytes), units::seconds(line.time_s));
    format!(
        "{sign}1 {} {bytes}, {sign}{time}{critical}: {}{}",
        label(line, line),
        line.text,
        needed_by(line)
    )
}

/// ` for Tmp, output`.
pub(super) fn needed_by(line: &Line) -> String {
    if line.needed_by.is_empty() {
        String::new()
    } else {
        format!(" for {}", line.needed_by.join(", "))
    }
}

/// `AllGather_X x40`, `AllGather_X x40 -> x80`, `AllGather_X x2 -> AllReduce_X x2`.
fn label(before: &Line, after: &Line) -> String {
    if before.what == after.what {
        return after.what.clone() + &times(before, after);
    }
    let alone = |line: &Line| line.what.clone() + &times(line, line);
    arrow(&alone(before), &alone(after))
}

/// How often a step runs, if it is more than once: ` x40`, ` x40 -> x80`.
pub(super) fn times(before: &Line, after: &Line) -> String {
    if before.times.max(after.times) <= 1.0 {
        return String::new();
    }
    let [before, after] = [before, after].map(|line| format!("x{}", units::number(line.times)));
    format!(" {}", arrow(&before, &after))
}

fn changed(change: &Change) -> String {
    let Change { before, after } = change;
    let what = label(before, after);
    let bytes = arrow(&units::bytes(before.bytes), &units::bytes(after.bytes));
    format!(
        "~ {what} {bytes}, {}{}: {}{}{}",
        time(before, after),
        criticality(before, after),
        after.text,
        needed_by(after),
        was(before, after)
    )
}

/// The old line, on a line of its own, if it differs.
fn was(before: &Line, after: &Line) -> String {
    if before.text == after.text { String::new() } else { format!("\n     was {}", before.text) }
}

/// `280 us -> 560 us (+280 us)`.
pub(super) fn time(before: &Line, after: &Line) -> String {
    let (old, new) = (units::seconds(before.time_s), units::seconds(after.time_s));
    if before.time_s.to_bits() == after.time_s.to_bits() {
        new
    } else {
        format!("{} ({})", arrow(&old, &new), units::seconds_change(after.time_s - before.time_s))
    }
}

pub(super) fn criticality(before: &Line, after: &Line) -> &'static str {
    match (before.critical, after.critical) {
        (false, true) => ", now critical",
        (true, false) => ", no longer critical",
        (true, true) => ", critical",
        (false, false) => "",
    }
}

fn statement(statement: &Statement) -> Option<String> {
    match (&statement.before, &statement.after) {
        (None, Some(after)) => {
            let time = units::seconds(after.time_s);
            Some(format!("+1 {}, +{time}: {}", label(after, after), after.text))
        }
        (Some(before), None) => {
            let time = units::seconds(before.time_s);
            Some(format!("-1 {}, -{time}: {}", label(before, before), before.text))
        }
        (Some(before), Some(after)) => {
            let what = label(before, after);
            let (time, was) = (time(before, after), was(before, after));
            Some(format!("~ {what} {time}: {}{was}", after.text))
        }
        (None, None) => None,
    }
}

/// `280 us -> 560 us`, or once where both are the same.
pub(super) fn arrow(before: &str, after: &str) -> String {
    if before == after { after.to_owned() } else { format!("{before} -> {after}") }
}

fn total_line(total: &Total) -> String {
    let [before, after, change, relative] = cells(total);
    // Two blanks before it, however wide it is.
    let relative = format!(" {relative:>7}");
    let cells = [total.name.as_str(), &before, "->", &after, &change, &relative];
    table::row(&COLUMNS, &cells).trim_end().to_owned()
}

/// Before, after, the change, and the relative change.
pub(super) fn cells(total: &Total) -> [String; 4] {
    let (before, after) = (total.before, total.after);
    let [before, after, change] = if total.unit == "bytes" {
        [units::bytes(before), units::bytes(after), units::bytes_change(after - before)]
    } else {
        [units::seconds(before), units::seconds(after), units::seconds_change(after - before)]
    };
    let relative = total.relative().filter(|part| part.abs() >= 5e-4);
    let relative = relative.map_or_else(String::new, |part| format!("{:+.1}%", 100.0 * part));
    [before, after, change, relative]
}
