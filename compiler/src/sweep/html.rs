//! A sweep as a page: its plot, and a row a point, with bars for its times.

use askama::Template;

use super::plot;
use super::table::{Column, coordinates};
use super::{Outcome, Point, Swept};
use crate::display::units;
use crate::page::{self, Cell, NO_DATA, Row, Section, Table};

/// The plot, the same as with `--format svg`.
#[derive(Template)]
#[template(path = "plot.html")]
struct Plot {
    svg: String,
}

/// The page.
pub(super) fn html(swept: &Swept) -> Result<String, String> {
    let columns = coordinates(swept);
    let mut heads: Vec<page::Head> =
        columns.iter().map(|column| (column.head.clone(), false)).collect();
    heads.extend(page::heads(&["overlap#", "compute#", "busiest links#", "serial#", "memory#"]));
    heads.extend(page::heads(&["bound by"]));
    let plans = || swept.points.iter().filter_map(|point| point.plan.as_ref());
    let longest = plans().map(|plan| plan.cost.overlap_s).fold(0.0, f64::max);
    let infeasible = swept.points.len() - plans().count();
    let programs: Vec<&str> = swept.points.iter().map(|point| point.program.as_str()).collect();
    let title = programs.first().copied().unwrap_or("sweep");
    let mut notes = vec![
        "The best of its hardware and sizes is bold: the smallest overlap, which is the busiest of \
            compute and links, among equals the smallest serial time."
            .to_owned(),
    ];
    if infeasible > 0 {
        notes.push(format!("{infeasible} without a plan, with the reason in the last column."));
    }
    let table = Table {
        id: "points",
        title: format!("{title}: {}", units::counted(swept.points.len() as u64, "point")),
        notes,
        heads,
        rows: swept.points.iter().map(|point| row(point, &columns, longest)).collect(),
    };
    // Where nothing can be drawn, or too much, the table says it all.
    let plot = plot::svg(swept).ok().map(|svg| Section::new("plot", "Plot", &Plot { svg }));
    let sections = plot.into_iter().chain([Section::new("points", "Points", &table)]);
    page::page(title, sections.collect(), NO_DATA)
}

fn row(point: &Point, columns: &[Column], longest: f64) -> Row {
    let mut cells: Vec<Cell> =
        columns.iter().map(|column| Cell::text((column.cell)(point))).collect();
    if let Some(plan) = &point.plan {
        cells.extend(costs(plan, longest));
    } else {
        cells.extend(vec![Cell::default(); 5]);
        cells.push(Cell::text(point.infeasible.as_deref().unwrap_or("no plan")));
    }
    Row { cells, is_marked: point.wins, step: None }
}

fn costs(plan: &Outcome, longest: f64) -> [Cell; 6] {
    let time = |seconds: f64| Cell::bar(units::seconds(seconds), seconds, longest);
    let cost = &plan.cost;
    [
        time(cost.overlap_s),
        time(cost.compute_s),
        time(cost.links_s),
        Cell::number(units::seconds(cost.serial_s), cost.serial_s),
        Cell::number(units::bytes(plan.peak_bytes as f64), plan.peak_bytes as f64),
        Cell::text(plan.bound_by.clone()),
    ]
}
