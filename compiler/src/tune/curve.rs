//! The best strategies of several numbers of chips: how the time of one step falls with chips, and
//! where it stops to pay.
//!
//! The work stays the same (strong scaling). The *efficiency* of a number of chips is the chip-time
//! of the step on the fewest chips that it fits on, over its own: 100% where twice the chips take
//! half the time.

use schemars::JsonSchema;
use serde::Serialize;

use super::shared_time::SharedTime;
use super::{Refused, Report, Request, Strategy, Tuned, plot, table, tune};
use crate::display::table::{markdown_table, paragraphs};
use crate::display::units::counted;
use crate::display::{Format, csv};
use crate::metrics;
use crate::options::Options;

/// Below this efficiency more chips count as not worthwhile.
const WORTHWHILE: f64 = 0.8;

/// The best strategies of several numbers of chips.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Curve {
    /// Always `shardwise.tune-curve/1`.
    pub schema: &'static str,
    /// The program's name.
    pub program: String,
    /// The time that is minimized.
    pub objective: &'static str,
    /// One for each number of chips, ascending.
    pub points: Vec<Point>,
}

/// A number of chips.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Point {
    /// Chips.
    pub chips: u64,
    /// The chip-time of the first number with a plan over that of this one.
    pub efficiency: Option<f64>,
    /// The best strategy, and what is proven.
    pub tuned: Option<Tuned>,
    /// Why there is none.
    pub refused: Option<String>,
}

impl Point {
    fn best(&self) -> Option<&Strategy> {
        self.tuned.as_ref()?.strategies.first()
    }
}

/// The numbers of chips of a curve: doubled from the first to the last.
pub fn doubled(first: u64, last: u64) -> Vec<u64> {
    let all = std::iter::successors(Some(first.max(1)), |chips| chips.checked_mul(2));
    all.take_while(|&chips| chips <= last).collect()
}

/// Finds the best strategies on each of `chips`; a number on which nothing fits has the reason. The
/// error is that of the last number if all have one.
///
/// # Errors
///
/// That of the last number of chips, where no number has a strategy.
pub fn curve(
    name: &str,
    source: &str,
    (request, chips): (&Request, &[u64]),
    options: &Options,
    report: Report<'_>,
) -> Result<Curve, Refused> {
    let mut points: Vec<Point> = Vec::new();
    let (mut first, mut refusal, mut objective) = (None, None, options.objective.name());
    let mut time = SharedTime::new(request.timeout, chips.len());
    for &chips in chips {
        let request = Request { chips, timeout: time.next(), ..request.clone() };
        let (tuned, refused) = match tune(name, source, &request, options, report) {
            Ok(tuned) => (Some(tuned), None),
            Err(refused) => {
                let reason = refused.to_string();
                refusal = Some(refused);
                (None, Some(reason))
            }
        };
        let chip_s = tuned.as_ref().map(|tuned| chips as f64 * tuned.strategies[0].rank());
        first = first.or(chip_s);
        let efficiency = first.zip(chip_s).map(|(first, own)| first / own);
        objective = tuned.as_ref().map_or(objective, |tuned| tuned.objective);
        points.push(Point { chips, efficiency, tuned, refused });
        if options.cancellation.is_cancelled() {
            break;
        }
    }
    match refusal {
        Some(refused) if points.iter().all(|point| point.tuned.is_none()) => Err(refused),
        _ => Ok(Curve {
            schema: "shardwise.tune-curve/1",
            program: name.to_owned(),
            objective,
            points,
        }),
    }
}

/// The formats of a curve.
pub const CURVE_FORMATS: &[Format<Curve>] = &[
    Format { name: "text", about: "A table", write: |curve| Ok(text(curve)) },
    Format { name: "md", about: "A table in Markdown", write: |curve| Ok(markdown(curve)) },
    Format {
        name: "csv",
        about: "CSV, a line a number of chips",
        write: |curve| Ok(records(curve)),
    },
    Format {
        name: "json",
        about: "JSON, `shardwise.tune-curve/1`",
        write: |curve| Ok(serde_json::to_string_pretty(curve).unwrap_or_default() + "\n"),
    },
    Format { name: "svg", about: "A plot of time against chips", write: plot::of_curve },
];

const HEADS: [&str; 10] =
    ["chips", "strategy", "mesh", "parts", "again", "time", "step", "MFU", "efficiency", "proven"];

/// Columns of text.
const TEXTS: [&str; 4] = ["strategy", "mesh", "again", "proven"];

/// The heads of the columns, with one for prices where a chip-hour has one.
fn heads(curve: &Curve) -> Vec<&'static str> {
    let mut heads = HEADS.to_vec();
    if is_priced(curve) {
        heads.insert(PRICE_AT, metrics::PRICE_HEAD);
    }
    heads
}

/// The place of the column of prices: after the MFU.
const PRICE_AT: usize = 8;

fn is_priced(curve: &Curve) -> bool {
    curve.points.iter().filter_map(Point::best).any(|best| best.price_of_million.is_some())
}

fn rows(curve: &Curve) -> Vec<Vec<String>> {
    let priced = |point: &Point| {
        let mut row = row(point);
        if is_priced(curve) {
            let none = || "-".to_owned();
            let price = point.best().and_then(|best| best.price_of_million);
            row.insert(PRICE_AT, price.map_or_else(none, metrics::price));
        }
        row
    };
    curve.points.iter().map(priced).collect()
}

fn row(point: &Point) -> Vec<String> {
    let chips = point.chips.to_string();
    let Some((best, tuned)) = point.best().zip(point.tuned.as_ref()) else {
        let none = std::iter::repeat_n("-".to_owned(), HEADS.len() - 1);
        return std::iter::once(chips).chain(none).collect();
    };
    let [_, strategy, mesh, parts, again, time, step, mfu, ..] = table::cells(1, best);
    let efficiency = point.efficiency.map_or_else(String::new, percent);
    let gap = match tuned.gap() {
        gap if gap.is_finite() => format!("within {}", percent(gap)),
        _ => "no bound".to_owned(),
    };
    vec![chips, strategy, mesh, parts, again, time, step, mfu, efficiency, gap]
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn text(curve: &Curve) -> String {
    table::lines(&heads(curve), &rows(curve), &TEXTS) + "\n" + &remarks(curve)
}

fn markdown(curve: &Curve) -> String {
    markdown_table(&heads(curve), &rows(curve), &TEXTS) + "\n" + &paragraphs(&remarks(curve))
}

/// Where the efficiency falls off, and why numbers of chips have no strategy.
fn remarks(curve: &Curve) -> String {
    let falls = |point: &&Point| point.efficiency.is_some_and(|share| share < WORTHWHILE);
    let worthwhile = percent(WORTHWHILE);
    let falls_off = match curve.points.iter().find(falls) {
        Some(point) => {
            format!("falls below {worthwhile} at {}", counted(point.chips, "chip"))
        }
        None => format!("stays above {worthwhile}"),
    };
    let mut out =
        format!("efficiency {falls_off} (chip-time of a step, {} time)\n", curve.objective);
    for point in &curve.points {
        if let Some(refused) = &point.refused {
            out += &format!("{}: {refused}\n", counted(point.chips, "chip"));
        }
    }
    if is_priced(curve) {
        out += &format!("{}\n", metrics::PRICE_LEGEND);
    }
    out
}

fn records(curve: &Curve) -> String {
    let head = [
        "chips",
        "mesh",
        "objective_s",
        "lower_bound_s",
        "step_s",
        "mfu",
        "efficiency",
        "price_of_million",
    ];
    let number = |of: Option<f64>| of.map_or_else(String::new, |of| of.to_string());
    let row = |point: &Point| {
        let best = point.best();
        vec![
            point.chips.to_string(),
            best.map_or_else(String::new, |best| best.mesh.clone()),
            number(best.map(|best| best.objective_s)),
            number(point.tuned.as_ref().map(|tuned| tuned.lower_bound_s)),
            number(best.map(|best| best.step_s)),
            number(best.map(|best| best.mfu)),
            number(point.efficiency),
            number(best.and_then(|best| best.price_of_million)),
        ]
    };
    csv(std::iter::once(head.map(str::to_owned).to_vec()).chain(curve.points.iter().map(row)))
}
