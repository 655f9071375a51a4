//! The plan beside the one of the textbook's rules: totals, and the collectives of both.

use askama::Template;
use indexmap::IndexMap;
use shardwise_ir::print;
use shardwise_passes::report::Report;

use crate::Planned;
use crate::display::units;
use crate::driver;
use crate::options::{Options, Strategy};
use crate::planned::step_name::category;
use crate::use_def::moves_data;

/// A total of both plans.
struct Total {
    name: &'static str,
    own: String,
    book: String,
    change: String,
}

/// A collective, with all its executions.
struct Line {
    text: String,
    class: &'static str,
    time: String,
    /// Whether the other plan does not have it.
    is_only_here: bool,
}

/// Both plans.
#[derive(Template)]
#[template(path = "comparison.html")]
pub(super) struct Comparison {
    totals: Vec<Total>,
    own: Vec<Line>,
    book: Vec<Line>,
    /// Why there is nothing to compare with; empty where there is.
    missing: &'static str,
}

/// The comparison of a plan with the textbook's.
pub(super) fn comparison(planned: &Planned) -> Comparison {
    let none =
        |missing| Comparison { totals: Vec::new(), own: Vec::new(), book: Vec::new(), missing };
    if planned.strategy_name() != "search" {
        return none("This plan is not searched, so there is nothing to compare it with.");
    }
    if planned.rules_fail {
        return none("The textbook's rules find no plan for this program.");
    }
    let options = Options {
        strategy: Strategy::Textbook,
        memory: Some(f64::INFINITY),
        ..planned.options.clone()
    };
    // Asserts hold of the searched plan, and may not of this one.
    let Ok(book) = driver::plan(&planned.name, &planned.source, &options) else {
        return none("The textbook's plan breaks a limit of the program.");
    };
    let (own, book) = (collectives(planned), collectives(&book));
    Comparison {
        totals: totals(&planned.report, &planned.textbook),
        own: lines(&own, &book),
        book: lines(&book, &own),
        missing: "",
    }
}

fn totals(own: &Report, book: &Report) -> Vec<Total> {
    let times: [(&'static str, f64, f64); 4] = [
        ("scheduled", own.schedule.makespan_s, book.schedule.makespan_s),
        ("serial", own.serial_s, book.serial_s),
        ("compute", own.compute_s, book.compute_s),
        ("communication", own.comm_s, book.comm_s),
    ];
    let total = |name, own: f64, book: f64, write: fn(f64) -> String| {
        let change = if book > 0.0 && (own / book - 1.0).abs() > 5e-4 {
            format!("{:+.1}%", 100.0 * (own / book - 1.0))
        } else {
            "same".to_owned()
        };
        Total { name, own: write(own), book: write(book), change }
    };
    let mut totals: Vec<Total> =
        times.map(|(name, own, book)| total(name, own, book, units::seconds)).into();
    let (own, book) = (own.memory.peak_bytes, book.memory.peak_bytes);
    totals.push(total("peak memory", own, book, units::bytes));
    totals
}

/// The collectives of a plan with their classes and times, those that take longest first.
type Collectives = IndexMap<String, (&'static str, f64)>;

fn collectives(planned: &Planned) -> Collectives {
    let mut all = Collectives::new();
    for (step, cost) in planned.plan.steps.iter().zip(&planned.report.steps) {
        if moves_data(step, cost) {
            let text = print::step(&planned.plan.program, step);
            all.entry(text).or_insert((category(step, cost), 0.0)).1 += cost.total_s();
        }
    }
    all.sort_by(|_, a, _, b| b.1.total_cmp(&a.1));
    all
}

fn lines(own: &Collectives, other: &Collectives) -> Vec<Line> {
    let line = |(text, (class, seconds)): (&String, &(&'static str, f64))| Line {
        text: text.clone(),
        class,
        time: units::seconds(*seconds),
        is_only_here: !other.contains_key(text),
    };
    own.iter().map(line).collect()
}
