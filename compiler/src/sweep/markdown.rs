//! The rows as a table in Markdown, for pull requests and pages.

use super::table::{Column, coordinates, costs, costs_head, legend};
use super::{Point, Swept};
use crate::display::table::{markdown_table, paragraphs};

pub(super) fn markdown(swept: &Swept) -> String {
    let (columns, costs) = (coordinates(swept), costs_head(swept));
    let is_shown: Vec<bool> = costs.iter().map(|head| !head.is_empty()).collect();
    let mut heads = vec![""];
    heads.extend(columns.iter().map(|column| column.head.as_str()));
    let texts = [&heads[..], &["bound by"]].concat();
    heads.extend(costs.iter().map(String::as_str).filter(|head| !head.is_empty()));
    let rows = swept.points.iter().map(|point| row(swept, point, &columns, &is_shown));
    let rows: Vec<Vec<String>> = rows.collect();
    // A star would make a list of the line that it begins.
    let legend = legend(swept).replacen('*', "\\*", 1);
    markdown_table(&heads, &rows, &texts) + "\n" + &paragraphs(&legend)
}

/// The cells of a point: its reason stands in the last where it has no plan.
fn row(swept: &Swept, point: &Point, columns: &[Column], is_shown: &[bool]) -> Vec<String> {
    let mut cells = vec![if point.wins { "\\*" } else { "" }.to_owned()];
    cells.extend(columns.iter().map(|column| (column.cell)(point)));
    let costs = point.plan.as_ref().map_or_else(
        || {
            let mut empty = vec![String::new(); is_shown.len() - 1];
            empty.push(point.infeasible.clone().unwrap_or_else(|| "no plan".to_owned()));
            empty
        },
        |plan| costs(swept, plan),
    );
    let shown = costs.into_iter().zip(is_shown).filter(|(_, is_shown)| **is_shown);
    cells.extend(shown.map(|(cell, _)| cell));
    cells
}
