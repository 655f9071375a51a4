//! The rows in machine-readable form: CSV (seconds and bytes, full precision) and JSON.

use super::{Point, Price, Swept};
use crate::diagnostics::escaped;
use crate::display;

/// Seconds such as `serial_s`, as the columns of CSV.
fn price_columns(prefix: &str) -> Vec<String> {
    ["serial_s", "compute_s", "comm_s", "links_s", "overlap_s", "scheduled_s"]
        .iter()
        .map(|name| format!("{prefix}{name}"))
        .collect()
}

fn price_cells(price: &Price) -> Vec<String> {
    let cells = [
        price.serial_s,
        price.compute_s,
        price.comm_s,
        price.links_s,
        price.overlap_s,
        price.scheduled_s,
    ];
    cells.iter().map(f64::to_string).collect()
}

pub(super) fn csv(swept: &Swept) -> String {
    let sizes = swept.points.first().map_or(&[][..], |point| &point.sizes);
    let mut head: Vec<String> = ["program", "hardware", "mesh"].map(str::to_owned).to_vec();
    head.extend(sizes.iter().map(|size| size.dim.clone()));
    head.extend(["strategy", "status", "wins", "bound_by"].map(str::to_owned));
    head.extend(price_columns(""));
    head.extend(price_columns("textbook_"));
    head.extend(
        ["resident_bytes", "peak_bytes", "price_of_million", "infeasible"].map(str::to_owned),
    );
    let columns = head.len();
    let rows = swept.points.iter().map(|point| row(swept, point, columns));
    display::csv(std::iter::once(head).chain(rows))
}

fn row(swept: &Swept, point: &Point, columns: usize) -> Vec<String> {
    let mut cells = [&point.program, &point.hardware, &point.mesh].map(|word| plain(word)).to_vec();
    cells.extend(point.sizes.iter().map(|size| size.size.to_string()));
    cells.push(swept.strategy.to_owned());
    if let Some(plan) = &point.plan {
        cells.extend([plan.status.to_owned(), point.wins.to_string(), plan.bound_by.clone()]);
        cells.extend(price_cells(&plan.cost));
        cells.extend(price_cells(&plan.textbook));
        cells.extend([plan.resident_bytes.to_string(), plan.peak_bytes.to_string()]);
        cells.extend(plan.price_of_million.map(|price| price.to_string()));
    }
    cells.resize(columns - 1, String::new());
    cells.push(plain(point.infeasible.as_deref().unwrap_or_default()));
    cells
}

/// A text that no spreadsheet computes: one that could be a formula begins with an apostrophe.
fn plain(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("{}{}", if is_formula { "'" } else { "" }, escaped(text))
}

pub(super) fn json(swept: &Swept) -> String {
    serde_json::to_string_pretty(swept).unwrap_or_default() + "\n"
}
