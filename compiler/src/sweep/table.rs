//! The rows as a table: what varies, then the costs, in at most 100 columns.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{Outcome, Point, Swept};
use crate::display::table::Column::{Left, Right};
use crate::display::units::counted;
use crate::display::{table, units};
use crate::metrics;

/// The width of a line.
const WIDTH: usize = 100;

/// A column: its head and its cell for a point.
pub(super) struct Column {
    pub(super) head: String,
    pub(super) cell: Box<dyn Fn(&Point) -> String>,
}

pub(super) fn table(swept: &Swept) -> String {
    let columns = coordinates(swept);
    let rows: Vec<Vec<String>> = swept
        .points
        .iter()
        .map(|point| columns.iter().map(|column| (column.cell)(point)).collect())
        .collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|i| rows.iter().map(|row| row[i].width()).fold(columns[i].head.width(), usize::max))
        .collect();
    let heads: Vec<String> = columns.iter().map(|column| column.head.clone()).collect();
    let mut out = fit(line(swept, &widths, (" ", &heads), costs_head(swept))) + "\n";
    for (point, row) in swept.points.iter().zip(&rows) {
        let mark = if point.wins { "*" } else { " " };
        let text = match (&point.plan, &point.infeasible) {
            (Some(plan), _) => line(swept, &widths, (mark, row), costs(swept, plan)),
            (None, reason) => {
                let reason = reason.as_deref().unwrap_or("no plan");
                format!("{}   {reason}", coordinates_line(&widths, mark, row))
            }
        };
        out += &(fit(text) + "\n");
    }
    let _ = writeln!(out, "\n{}", legend(swept));
    out
}

/// The columns that tell points apart; the mesh always.
pub(super) fn coordinates(swept: &Swept) -> Vec<Column> {
    let several =
        |of: fn(&Point) -> &str| swept.points.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
    let mut columns = Vec::new();
    if several(|point| &point.program) {
        columns.push(Column {
            head: "program".to_owned(),
            cell: Box::new(|point| point.program.clone()),
        });
    }
    if several(|point| &point.hardware) {
        columns.push(Column {
            head: "hardware".to_owned(),
            cell: Box::new(|point| point.hardware.clone()),
        });
    }
    for (i, size) in swept.points.first().map_or(&[][..], |point| &point.sizes).iter().enumerate() {
        columns.push(Column {
            head: size.dim.clone(),
            cell: Box::new(move |point| point.sizes[i].size.to_string()),
        });
    }
    columns.push(Column {
        head: "mesh".to_owned(),
        cell: Box::new(|point| point.mesh.replace(", ", ",")),
    });
    columns
}

fn coordinates_line(widths: &[usize], mark: &str, cells: &[String]) -> String {
    let columns: Vec<_> = std::iter::once(1).chain(widths.iter().copied()).map(Left).collect();
    let cells: Vec<&str> = std::iter::once(mark).chain(cells.iter().map(String::as_str)).collect();
    table::row(&columns, &cells)
}

/// A point's coordinates, then its costs.
fn line(
    swept: &Swept,
    widths: &[usize],
    (mark, cells): (&str, &[String]),
    costs: Vec<String>,
) -> String {
    // Of textbook plans the textbook's time is not repeated; its column stays, empty.
    let textbook = if swept.strategy == "search" { 8 } else { 0 };
    let mut columns = vec![Right(8), Right(8), Right(8), Right(textbook), Right(8), Left(0)];
    if is_priced(swept) {
        columns.insert(PRICE_AT, Right(8));
    }
    format!("{} {}", coordinates_line(widths, mark, cells), table::row(&columns, &costs))
}

/// The place of the price of tokens, where a chip-hour has one.
const PRICE_AT: usize = 5;

/// Whether the points have a price.
fn is_priced(swept: &Swept) -> bool {
    let mut plans = swept.points.iter().filter_map(|point| point.plan.as_ref());
    plans.any(|plan| plan.price_of_million.is_some())
}

pub(super) fn costs_head(swept: &Swept) -> Vec<String> {
    let textbook = if swept.strategy == "search" { "textbook" } else { "" };
    let mut heads = vec!["compute", "links", "serial", textbook, "memory", "bound by"];
    if is_priced(swept) {
        heads.insert(PRICE_AT, metrics::PRICE_HEAD);
    }
    heads.into_iter().map(str::to_owned).collect()
}

pub(super) fn costs(swept: &Swept, plan: &Outcome) -> Vec<String> {
    let [compute, links, serial, textbook] =
        [plan.cost.compute_s, plan.cost.links_s, plan.cost.serial_s, plan.textbook.serial_s]
            .map(units::seconds);
    let textbook = if swept.strategy == "search" { textbook } else { String::new() };
    let memory = units::bytes(plan.peak_bytes as f64);
    let mut cells = vec![compute, links, serial, textbook, memory, plan.bound_by.clone()];
    if is_priced(swept) {
        let price = plan.price_of_million.map_or_else(String::new, metrics::price);
        cells.insert(PRICE_AT, price);
    }
    cells
}

fn fit(line: String) -> String {
    let line = line.trim_end();
    if line.width() <= WIDTH {
        return line.to_owned();
    }
    let mut short = String::new();
    for character in line.chars() {
        if short.width() + 2 > WIDTH {
            break;
        }
        short.push(character);
    }
    short + "…"
}

pub(super) fn legend(swept: &Swept) -> String {
    let infeasible = swept.points.iter().filter(|point| point.plan.is_none()).count();
    let feasible =
        if infeasible > 0 { format!(", {infeasible} of them infeasible") } else { String::new() };
    let price = is_priced(swept).then_some(metrics::PRICE_LEGEND);
    let price = price.map_or_else(String::new, |legend| format!("{legend}\n"));
    format!(
        "* least time if all communication overlaps: the larger of compute and the busiest links, \
            then serial\n{price}{}{feasible}; {} planned ({})",
        counted(swept.points.len() as u64, "point"),
        counted(swept.planned as u64, "program"),
        swept.strategy
    )
}
