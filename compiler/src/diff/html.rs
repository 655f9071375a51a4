//! A difference as a page: the totals, then what was added, removed and changed.

use super::text::{arrow, cells, counts, setting, time};
use super::{Diff, Line};
use crate::display::units;
use crate::page::{self, Cell, NO_DATA, Row, Section, Table};

/// The page.
pub(super) fn html(diff: &Diff) -> Result<String, String> {
    let title = format!("{} -> {}", diff.before, diff.after);
    let totals = Table {
        id: "totals",
        title: title.clone(),
        notes: diff.settings.iter().map(setting).collect(),
        heads: page::heads(&["total", "before#", "after#", "change#", "#"]),
        rows: diff
            .totals
            .iter()
            .map(|total| {
                let mut row = vec![Cell::text(total.name.clone())];
                row.extend(cells(total).map(Cell::text));
                Row { cells: row, is_marked: false }
            })
            .collect(),
    };
    let steps = Table {
        id: "steps",
        title: "Steps".to_owned(),
        notes: vec![counts(diff) + ".", "Steps that are critical now are bold.".to_owned()],
        heads: page::heads(&["", "step", "before", "bytes#", "time#", "needed by"]),
        rows: steps(diff),
    };
    let sections =
        vec![Section::new("totals", "Totals", &totals), Section::new("steps", "Steps", &steps)];
    page::page(&title, sections, NO_DATA)
}

fn steps(diff: &Diff) -> Vec<Row> {
    let row = |[before, after]: [Option<&Line>; 2]| match (before, after) {
        (Some(before), Some(after)) => Some(both(before, after)),
        (None, Some(after)) => Some(single("added", "+", after)),
        (Some(before), None) => Some(single("removed", "-", before)),
        (None, None) => None,
    };
    diff.lines().filter_map(row).collect()
}

fn single(what: &str, sign: &str, line: &Line) -> Row {
    let time = format!("{sign}{}", units::seconds(line.time_s));
    let texts = [&line.text, ""];
    row(what, texts, units::bytes(line.bytes), time, line)
}

fn both(before: &Line, after: &Line) -> Row {
    let old = if before.text == after.text { "" } else { before.text.as_str() };
    let bytes = arrow(&units::bytes(before.bytes), &units::bytes(after.bytes));
    row("changed", [&after.text, old], bytes, time(before, after), after)
}

fn row(what: &str, [now, before]: [&str; 2], bytes: String, time: String, line: &Line) -> Row {
    let is_collective = !line.needed_by.is_empty();
    let cells = vec![
        Cell::text(what),
        Cell::code(now),
        Cell::code(before),
        Cell::text(bytes),
        Cell::text(time),
        Cell::text(line.needed_by.join(", ")),
    ];
    Row { cells, is_marked: is_collective && line.critical }
}
