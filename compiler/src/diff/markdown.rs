//! A difference as a comment on a pull request: a heading with the main change, the totals, and the
//! lines in a table.

use std::fmt::Write as _;

use super::text::{arrow, cells, counts, criticality, setting, time, times};
use super::{Diff, Line};
use crate::display::units;

/// The comment.
pub(super) fn markdown(diff: &Diff) -> String {
    let mut out = format!("### `{}`: {}\n\n", diff.after, verdict(diff));
    for line in &diff.settings {
        let _ = writeln!(out, "* {}", setting(line));
    }
    if !diff.settings.is_empty() {
        out.push('\n');
    }
    out.push_str("| total | before | after | change | |\n| --- | ---: | ---: | ---: | ---: |\n");
    for total in &diff.totals {
        let [before, after, change, relative] = cells(total);
        let _ = writeln!(out, "| {} | {before} | {after} | {change} | {relative} |", total.name);
    }
    let rows = rows(diff);
    if !rows.is_empty() {
        out.push_str(
            "\n| | step | bytes | time | needed by |\n| --- | --- | ---: | ---: | --- |\n",
        );
        out.push_str(&rows.concat());
    }
    let _ = writeln!(out, "\n{}.", counts(diff));
    out
}

/// `serial 3.88 ms -> 2.86 ms, -26.3%`.
fn verdict(diff: &Diff) -> String {
    let Some(total) = diff.total("serial") else { return String::new() };
    let [before, after, _, relative] = cells(total);
    match (diff.is_empty(), relative.is_empty()) {
        (true, _) => format!("unchanged, serial {after}"),
        (false, true) => format!("serial {}", arrow(&before, &after)),
        (false, false) => format!("serial {before} -> {after}, {relative}"),
    }
}

fn rows(diff: &Diff) -> Vec<String> {
    let row = |[before, after]: [Option<&Line>; 2]| match (before, after) {
        (Some(before), Some(after)) => Some(both(before, after)),
        (None, Some(after)) => Some(single("added", "+", after)),
        (Some(before), None) => Some(single("removed", "-", before)),
        (None, None) => None,
    };
    diff.lines().filter_map(row).collect()
}

fn single(what: &str, sign: &str, line: &Line) -> String {
    let critical = if line.critical && !line.needed_by.is_empty() { ", critical" } else { "" };
    let (bytes, time) = (units::bytes(line.bytes), units::seconds(line.time_s));
    format!(
        "| {what}{critical} | {}{} | {bytes} | {sign}{time} | {} |\n",
        code(&line.text),
        times(line, line),
        line.needed_by.join(", ")
    )
}

fn both(before: &Line, after: &Line) -> String {
    let times = times(before, after);
    let text = if before.text == after.text {
        code(&after.text) + &times
    } else {
        format!("{}{times}<br>was {}", code(&after.text), code(&before.text))
    };
    let bytes = arrow(&units::bytes(before.bytes), &units::bytes(after.bytes));
    let critical = if after.needed_by.is_empty() { "" } else { criticality(before, after) };
    format!(
        "| changed{critical} | {text} | {bytes} | {} | {} |\n",
        time(before, after),
        after.needed_by.join(", ")
    )
}

/// Code inside a table, where a bar would end the cell.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}
