//! Answers for people: the best strategies, why the first one wins, what is proven, and what a
//! smaller memory would cost.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{AXES, Strategy, Tuned};
use crate::display::table::{self, Column, markdown_table, paragraphs};
use crate::display::units;
use crate::display::units::counted;
use crate::metrics;

/// The share of a time that is no difference in what is printed.
const NO_DIFFERENCE: f64 = 1e-4;

/// The heads of the columns.
const HEADS: [&str; 10] =
    ["", "strategy", "mesh", "parts", "again", "time", "step", "MFU", "memory", "bound by"];

/// The head of the column that is there where several dtypes are compared, and its place.
const DTYPES: (&str, usize) = ("dtypes", 5);

/// Columns of text; the others are of numbers.
pub(super) const TEXTS: [&str; 5] = ["strategy", "mesh", "again", DTYPES.0, "bound by"];

pub(super) fn text(tuned: &Tuned) -> String {
    lines(&heads(tuned), &rows(tuned), &TEXTS) + "\n" + &remarks(tuned)
}

pub(super) fn markdown(tuned: &Tuned) -> String {
    markdown_table(&heads(tuned), &rows(tuned), &TEXTS) + "\n" + &paragraphs(&remarks(tuned))
}

/// A line for the heads and each row; columns with these heads are text, the others numbers.
pub(super) fn lines(heads: &[&str], rows: &[Vec<String>], texts: &[&str]) -> String {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].width());
        widths.fold(heads[column].width(), usize::max)
    };
    let columns: Vec<Column> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| match texts.contains(head) {
            true if column + 1 == heads.len() => Column::Left(0),
            true => Column::Left(width(column)),
            false => Column::Right(width(column)),
        })
        .collect();
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&heads).chain(rows) {
        out += table::row(&columns, row).trim_end();
        out.push('\n');
    }
    out
}

fn heads(tuned: &Tuned) -> Vec<&'static str> {
    let mut heads = HEADS.to_vec();
    if tuned.compares_dtypes() {
        heads.insert(DTYPES.1, DTYPES.0);
    }
    if is_priced(tuned) {
        heads.insert(heads.len() - 1, metrics::PRICE_HEAD);
    }
    heads
}

/// Whether the strategies have a price: where a chip-hour has one.
fn is_priced(tuned: &Tuned) -> bool {
    tuned.strategies.iter().any(|strategy| strategy.price_of_million.is_some())
}

fn rows(tuned: &Tuned) -> Vec<Vec<String>> {
    let row = |(i, strategy): (usize, &Strategy)| {
        let mut cells = cells(i + 1, strategy).to_vec();
        if tuned.compares_dtypes() {
            cells[1] = strategy.roles_in_words();
            cells.insert(DTYPES.1, strategy.dtypes.to_owned());
        }
        if is_priced(tuned) {
            let price = strategy.price_of_million.map_or_else(String::new, metrics::price);
            cells.insert(cells.len() - 1, price);
        }
        cells
    };
    tuned.strategies.iter().enumerate().map(row).collect()
}

pub(super) fn cells(rank: usize, strategy: &Strategy) -> [String; 10] {
    [
        rank.to_string(),
        strategy.in_words(),
        strategy.mesh.clone(),
        strategy.parts_in_words(),
        strategy.recompute.to_owned(),
        units::seconds(strategy.objective_s),
        units::seconds(strategy.step_s),
        format!("{:.1}%", 100.0 * strategy.mfu),
        units::bytes(strategy.peak_bytes),
        strategy.bound_by.clone(),
    ]
}

/// What stands below the table.
pub(super) fn remarks(tuned: &Tuned) -> String {
    let mut out = proof(tuned) + "\n" + &space(tuned) + "\n";
    out.extend(tuned.left_out.iter().map(|line| line.clone() + "\n"));
    out.extend(margin(tuned).map(|line| line + "\n"));
    out.extend(shorter_step(tuned).map(|line| line + "\n"));
    out.extend(tuned.against.iter().map(|other| other.in_words(tuned) + "\n"));
    out.extend(front(tuned).map(|line| line + "\n"));
    out.extend(is_priced(tuned).then(|| format!("{}\n", metrics::PRICE_LEGEND)));
    out.extend(tuned.what_if.iter().map(|of| of.in_words(tuned) + "\n"));
    out
}

fn proof(tuned: &Tuned) -> String {
    let best = &tuned.strategies[0];
    let gap = 100.0 * tuned.gap();
    let each = each(best);
    let bound = if gap < 0.05 {
        format!("nothing in this space takes less{each} than the first")
    } else if gap.is_infinite() {
        "there is no bound of the whole space".to_owned()
    } else {
        format!(
            "nothing in this space takes less{each} than {}; the first is within {gap:.1}% of that",
            units::seconds(tuned.lower_bound_s / best.batch.unwrap_or(1) as f64)
        )
    };
    format!(
        "{bound} ({} time, {} on {} of {})",
        tuned.objective,
        units::seconds(best.objective_s),
        units::counted(tuned.chips, "chip"),
        tuned.hardware
    )
}

fn space(tuned: &Tuned) -> String {
    let space = &tuned.space;
    let mut text = format!(
        "{} on {}: {} planned, {} cut by bounds",
        counted(space.candidates as u64, "candidate"),
        counted(space.shapes as u64, "mesh shape"),
        space.planned,
        space.cut
    );
    if space.over_memory > 0 {
        let _ = write!(text, ", {} over memory", space.over_memory);
    }
    if space.over_latency > 0 {
        let _ = write!(text, ", {} too slow", space.over_latency);
    }
    if space.left > 0 {
        let when = if space.stopped { "it was stopped" } else { "the time was over" };
        let _ = write!(text, ", {} left when {when}", space.left);
    }
    if space.illegal > 0 {
        let _ = write!(text, ", {} not legal", space.illegal);
    }
    let because = space.illegal_because.as_ref();
    text + &because.map_or_else(String::new, |because| format!(" ({because})"))
}

/// Why the first wins over the second: the part of its time with the largest difference, or the
/// time itself where none is shorter, as with schedules.
fn margin(tuned: &Tuned) -> Option<String> {
    let [first, second, ..] = &tuned.strategies[..] else { return None };
    let each = each(first);
    if let Some(part) = largest_difference(first, second) {
        return Some(format!("the first wins over the second by its {part}{each}"));
    }
    if second.rank() <= first.rank() * (1.0 + NO_DIFFERENCE) {
        return Some(format!("the second takes as long{each}"));
    }
    let [first_s, second_s] = [first, second].map(|of| units::seconds(of.rank()));
    Some(format!("the first takes {first_s}{each}, the second {second_s}"))
}

/// What times are for where batches of several sizes are compared.
fn each(strategy: &Strategy) -> &'static str {
    if strategy.batch.is_some() { " for an element of the batch" } else { "" }
}

/// That another one has the shorter schedule, and how to search for the shortest.
fn shorter_step(tuned: &Tuned) -> Option<String> {
    let (who, shorter, which) = if let Some(other) = &tuned.shorter_unprinted {
        ("a plan that is not printed".to_owned(), other, which(other))
    } else {
        let number = tuned.shorter_step?;
        (format!("number {number}"), &tuned.strategies[number - 1], String::new())
    };
    let first = &tuned.strategies[0];
    let [shorter_s, first_s] = [shorter, first].map(|of| units::seconds(of.step_of_element_s()));
    let axes = shorter.mesh.split(", ").count();
    let axes = if axes > AXES { format!(" --axes {axes}") } else { String::new() };
    Some(format!(
        "{who} has a shorter step{}: {shorter_s} against {first_s} of the first{which}; \
            `--objective scheduled{axes}` searches for the shortest",
        each(first)
    ))
}

/// ` (DP16 FSDP16, X=16 over 2x8, 4, layers)`: which one it is that no row shows.
fn which(strategy: &Strategy) -> String {
    let words = [strategy.in_words(), strategy.mesh.clone(), strategy.parts_in_words()];
    let words = words.iter().map(String::as_str).chain([strategy.recompute]);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    format!(" ({})", words.join(", "))
}

/// `communication: 1.5 ms against 2 ms`: the part of the time in which the first one takes less
/// than the other by most, for an element where batches differ.
pub(super) fn largest_difference(first: &Strategy, other: &Strategy) -> Option<String> {
    let part = |name: &'static str, seconds: fn(&Strategy) -> f64| {
        (name, seconds(first) / first.elements(), seconds(other) / other.elements())
    };
    let parts = [
        part("compute", |of| of.compute_s),
        part("communication", |of| of.comm_s),
        part("bubble", |of| of.bubble_s),
    ];
    let (what, less, more) =
        parts.into_iter().max_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)))?;
    (less < more)
        .then(|| format!("{what}: {} against {}", units::seconds(less), units::seconds(more)))
}

/// What less memory costs, of the plans made: what was cut may need less.
fn front(tuned: &Tuned) -> Option<String> {
    let points: Vec<String> = tuned
        .pareto
        .iter()
        .map(|of| {
            let batch = of.batch.map_or_else(String::new, |size| format!(" for a batch of {size}"));
            format!("{}{batch} in {}", units::seconds(of.objective_s), units::bytes(of.peak_bytes))
        })
        .collect();
    let plans = match tuned.space.planned {
        planned if planned == tuned.space.candidates => "of all plans".to_owned(),
        planned => format!("of the {} that were made", counted(planned as u64, "plan")),
    };
    (points.len() > 1).then(|| format!("time against memory, {plans}: {}", points.join(", ")))
}
