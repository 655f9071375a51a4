//! The rows for people: what varies, then what it costs, in at most 100 columns.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{Outcome, Point, Swept};
use crate::display::units;

/// No line is wider.
const WIDTH: usize = 100;

/// A column: its head and what it says of a point.
struct Column {
    head: String,
    cell: Box<dyn Fn(&Point) -> String>,
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
    let mut out = fit(format!("  {}{}", padded(&heads, &widths), costs_head(swept))) + "\n";
    for (point, row) in swept.points.iter().zip(&rows) {
        let mark = if point.wins { '*' } else { ' ' };
        let costs = match (&point.plan, &point.infeasible) {
            (Some(plan), _) => costs(swept, plan),
            (None, reason) => format!("  {}", reason.as_deref().unwrap_or("no plan")),
        };
        out += &(fit(format!("{mark} {}{costs}", padded(row, &widths))) + "\n");
    }
    let _ = writeln!(out, "\n{}", legend(swept));
    out
}

/// The columns that tell points apart; the mesh always.
fn coordinates(swept: &Swept) -> Vec<Column> {
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

fn padded(cells: &[String], widths: &[usize]) -> String {
    let mut out = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        out.push_str(cell);
        out.push_str(&" ".repeat(width - cell.width() + 1));
    }
    out
}

fn costs_head(swept: &Swept) -> String {
    let textbook =
        if swept.strategy == "search" { format!("{:>8}", "textbook") } else { String::new() };
    format!("{:>8} {:>8} {:>8} {textbook} {:>8}  bound by", "compute", "links", "serial", "memory")
}

fn costs(swept: &Swept, plan: &Outcome) -> String {
    let [compute, links, serial, textbook] =
        [plan.cost.compute_s, plan.cost.links_s, plan.cost.serial_s, plan.textbook.serial_s]
            .map(units::seconds);
    let textbook =
        if swept.strategy == "search" { format!("{textbook:>8}") } else { String::new() };
    format!(
        "{compute:>8} {links:>8} {serial:>8} {textbook} {:>8}  {}",
        units::bytes(plan.peak_bytes),
        plan.bound_by
    )
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

fn legend(swept: &Swept) -> String {
    let infeasible = swept.points.iter().filter(|point| point.plan.is_none()).count();
    let feasible =
        if infeasible > 0 { format!(", {infeasible} of them infeasible") } else { String::new() };
    format!(
        "* least time if all communication overlaps: the larger of compute and the busiest links, \
            then serial\n{} points{feasible}; {} programs planned ({})",
        swept.points.len(),
        swept.planned,
        swept.strategy
    )
}
