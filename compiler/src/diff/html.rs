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
                Row { cells: row, ..Row::default() }
            })
            .collect(),
    };
    let steps = Table {
        id: "steps",
        title: "Steps".to_owned(),
        notes: vec![
            counts(diff) + ".",
            "Steps that are critical now are bold. A step that is written differently now has its \
                old text below it; bars are changes of time."
                .to_owned(),
        ],
        heads: page::heads(&["", "time#", "bytes#", "times#", "step", "needed by"]),
        rows: steps(diff),
    };
    let sections =
        vec![Section::new("totals", "Totals", &totals), Section::new("steps", "Steps", &steps)];
    page::page(&title, sections, NO_DATA)
}

fn steps(diff: &Diff) -> Vec<Row> {
    let longest = diff.lines().map(change_s).fold(0.0, f64::max);
    let row = |pair: [Option<&Line>; 2]| {
        let (what, time) = match pair {
            [Some(before), Some(after)] => ("changed", time(before, after)),
            [None, Some(after)] => ("added", format!("+{}", units::seconds(after.time_s))),
            [Some(before), None] => ("removed", format!("-{}", units::seconds(before.time_s))),
            [None, None] => return None,
        };
        Some(row(what, pair, Cell::bar(time, change_s(pair), longest)))
    };
    diff.lines().filter_map(row).collect()
}

/// By how much a step takes longer or shorter.
fn change_s([before, after]: [Option<&Line>; 2]) -> f64 {
    let time_s = |line: Option<&Line>| line.map_or(0.0, |line| line.time_s);
    (time_s(after) - time_s(before)).abs()
}

fn row(what: &str, [before, after]: [Option<&Line>; 2], time: Cell) -> Row {
    let Some(now) = after.or(before) else { return Row::default() };
    let old = before.filter(|before| before.text != now.text).map_or("", |before| &before.text);
    let bytes = |line: &Line| units::bytes(line.bytes);
    let bytes = match (before, after) {
        (Some(before), Some(after)) => arrow(&bytes(before), &bytes(after)),
        _ => bytes(now),
    };
    let number = |line: &Line| units::number(line.times);
    let times = arrow(&number(before.unwrap_or(now)), &number(now));
    let is_collective = !now.needed_by.is_empty();
    let cells = vec![
        Cell::text(what),
        time,
        Cell::number(bytes, now.bytes),
        Cell::number(times, now.times),
        Cell::code(now.text.clone()).with_below(old),
        Cell::text(now.needed_by.join(", ")),
    ];
    Row { cells, is_marked: is_collective && now.critical, step: None }
}
