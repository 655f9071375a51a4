//! The best strategies as a page: a table with bars, what is proven, and the winner's program and
//! plan.

use askama::Template;

use super::{Strategy, Tuned, table};
use crate::display::units;
use crate::page::{self, Cell, NO_DATA, Row, Section, Table};

/// A text in a section of its own.
#[derive(Template)]
#[template(path = "text.html")]
struct Text<'a> {
    id: &'static str,
    title: &'static str,
    lines: &'a str,
}

/// The page.
pub(super) fn html(tuned: &Tuned) -> Result<String, String> {
    let names =
        ["rank#", "strategy", "mesh", "microbatches#", "computed again", "time#", "step#", "MFU#"];
    let mut heads = page::heads(&names);
    heads.extend(page::heads(&["memory#", "bound by"]));
    let most = |of: fn(&Strategy) -> f64| tuned.strategies.iter().map(of).fold(0.0, f64::max);
    let (longest, largest) = (most(|of| of.objective_s), most(|of| of.peak_bytes));
    let rows = tuned.strategies.iter().enumerate();
    let title = format!(
        "{} on {} of {}",
        tuned.program,
        units::counted(tuned.chips, "chip"),
        tuned.hardware
    );
    let strategies = Table {
        id: "strategies",
        title: title.clone(),
        notes: table::remarks(tuned).lines().map(str::to_owned).collect(),
        heads,
        rows: rows.map(|(rank, of)| row(rank, of, longest, largest)).collect(),
    };
    let program = Text { id: "program", title: "The first as a program", lines: &tuned.winner };
    let plan = Text { id: "plan", title: "Its plan", lines: &tuned.plan };
    let sections = vec![
        Section::new("strategies", "Strategies", &strategies),
        Section::new("program", "Program", &program),
        Section::new("plan", "Plan", &plan),
    ];
    page::page(&title, sections, NO_DATA)
}

fn row(rank: usize, of: &Strategy, longest: f64, largest: f64) -> Row {
    let cells = vec![
        Cell::number((rank + 1).to_string(), rank as f64),
        Cell::text(of.in_words()),
        Cell::code(of.mesh.clone()),
        Cell::text(of.parts_in_words()),
        Cell::text(of.recompute),
        Cell::bar(units::seconds(of.objective_s), of.objective_s, longest),
        Cell::number(units::seconds(of.step_s), of.step_s),
        Cell::number(format!("{:.1}%", 100.0 * of.mfu), of.mfu),
        Cell::bar(units::bytes(of.peak_bytes), of.peak_bytes, largest),
        Cell::text(of.bound_by.clone()),
    ];
    Row { cells, is_marked: rank == 0, step: None }
}
