//! What calculon's optimiser finds, beside what `tune` finds for the same model and chips: each is
//! priced by both.
//!
//! Its answers are in `tests/measured/calculon.json`, with its price of our winner. That is of
//! one strategy, and the row has none where another one wins.

use serde_json::Value;
use shardwise::tune::{Recompute, Request};
use shardwise::units;

use super::beside;
use super::page::{in_words, times};
use crate::measured::{Case, calculon_cases};
use crate::read;

/// A case of calculon's, and its row on the page.
pub struct Compared {
    /// The case.
    pub case: Case,
    /// What is searched beside it.
    space: Request,
    /// Our winner that it priced, and its price, seconds.
    priced: (String, f64),
}

/// All cases.
pub fn calculon() -> Vec<Compared> {
    let json: Value =
        serde_json::from_str(&read("tests/measured/calculon.json")).expect("it is JSON");
    let own = json["cases"].as_array().cloned().unwrap_or_default();
    let one = |(case, json): (Case, &Value)| Compared {
        space: space(&case, &json["space"]),
        priced: (
            json["ours"].as_str().unwrap_or_default().to_owned(),
            json["ours_priced_s"].as_f64().unwrap_or_default(),
        ),
        case,
    };
    calculon_cases().into_iter().zip(&own).map(one).collect()
}

fn space(case: &Case, json: &Value) -> Request {
    let numbers = |name: &str| -> Vec<u64> {
        json[name].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
    };
    let axes = case.parts[0].mesh.split(',');
    let sizes = axes.filter_map(|axis| axis.split(['=', ' ']).nth(1)?.parse::<u64>().ok());
    Request {
        axes: Some(json["axes"].as_u64().unwrap_or(2) as usize),
        stages: numbers("stages"),
        microbatches: numbers("microbatches"),
        chunks: numbers("chunks"),
        recompute: vec![Recompute::Nothing, Recompute::Attention, Recompute::Layers],
        free: true,
        best: 2,
        ..Request::of_chips(sizes.product())
    }
}

impl Compared {
    /// Its row: both strategies, priced by both.
    pub fn row(&self) -> String {
        let Self { case, space, priced } = self;
        let head = format!("| {} | {} | {}", case.id, space.chips, case.what);
        let tuned = match beside(case, space.clone()) {
            Ok(tuned) => tuned,
            Err(refused) => return format!("{head} | {refused} |"),
        };
        let (first, theirs) = (&tuned.strategies[0], &tuned.against[0].strategy);
        let words = in_words(first);
        let price = if words == priced.0 { units::seconds(priced.1) } else { "-".to_owned() };
        format!(
            "{head} | {} | {} | {words} | {} | {price} | {} / {} | {:.1}% |",
            units::seconds(case.measured),
            times(theirs),
            times(first),
            units::bytes(theirs.peak_bytes),
            units::bytes(first.peak_bytes),
            100.0 * tuned.gap()
        )
    }
}
