//! Deployments for people.

use super::{Deployment, Kind, Pool, Served};
use crate::display::table::{markdown_table, paragraphs};
use crate::display::units;
use crate::display::units::counted;
use crate::metrics;
use crate::tune::table;

/// The heads of the columns.
const HEADS: [&str; 8] =
    ["", "phases", "prefill", "decode", "requests/s", "tokens/s/chip", "first token", "next token"];

/// Columns of text.
const TEXTS: [&str; 3] = ["phases", "prefill", "decode"];

pub(super) fn text(served: &Served) -> String {
    table::lines(&heads(served), &rows(served), &TEXTS) + "\n" + &remarks(served)
}

pub(super) fn markdown(served: &Served) -> String {
    markdown_table(&heads(served), &rows(served), &TEXTS) + "\n" + &paragraphs(&remarks(served))
}

/// The heads of the columns, with one for prices where a chip-hour has one.
fn heads(served: &Served) -> Vec<&'static str> {
    let price = is_priced(served).then_some(metrics::PRICE_HEAD);
    HEADS.into_iter().chain(price).collect()
}

fn is_priced(served: &Served) -> bool {
    served.deployments.iter().any(|of| of.price_of_million.is_some())
}

fn rows(served: &Served) -> Vec<Vec<String>> {
    served.deployments.iter().enumerate().map(|(i, of)| row(i + 1, of)).collect()
}

fn row(rank: usize, of: &Deployment) -> Vec<String> {
    let kind = match of.kind {
        Kind::Apart => "apart",
        Kind::Together => "together",
    };
    let mut cells = vec![
        rank.to_string(),
        kind.to_owned(),
        pool(&of.prefill),
        pool(&of.decode),
        units::count(of.requests_per_s),
        units::count(of.tokens_per_s_and_chip),
        units::seconds(of.first_s),
        units::seconds(of.next_s),
    ];
    cells.extend(of.price_of_million.map(metrics::price));
    cells
}

/// `6 x 8: TP8 batch 64`.
fn pool(of: &Pool) -> String {
    format!("{} x {}: {}", of.replicas, of.chips, of.strategy.in_words())
}

fn remarks(served: &Served) -> String {
    let gap = 100.0 * served.gap();
    let bound = if gap < 0.05 {
        "no deployment of these replicas serves more than the first".to_owned()
    } else {
        format!(
            "no deployment of these replicas serves more than {} requests a second; the first is \
                within {gap:.1}% of that",
            units::count(served.bound_per_s)
        )
    };
    let price =
        if is_priced(served) { format!("{}\n", metrics::PRICE_LEGEND) } else { String::new() };
    let remarks: String = served.remarks.iter().map(|line| line.clone() + "\n").collect();
    format!(
        "{bound} (requests of {} on {})\n{} of {} compared\n{remarks}{price}",
        counted(served.tokens, "token"),
        counted(served.chips, "chip"),
        counted(served.compared as u64, "deployment"),
        counted(served.tuned as u64, "replica")
    )
}
