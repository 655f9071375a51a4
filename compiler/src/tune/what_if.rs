//! What more of a resource would buy: the best strategy with one more gigabyte on each chip, and
//! with twice the bandwidth of each kind of link.
//!
//! All of the search runs again for each of them, since the strategy that wins then may be another
//! one, and one that did not fit or was cut before. The shadow price of a limit of memory would be
//! quicker, but is that of the winner alone, and of a small change.

use schemars::JsonSchema;
use serde::Serialize;
use shardwise_ir::hardware::Hardware;

use super::shared_time::SharedTime;
use super::{Request, Strategy, Tuned, tune};
use crate::display::units;
use crate::options::Options;

/// Bytes that a chip has more.
const MORE_BYTES: f64 = 1e9;

/// Relative differences below this are no gain.
const NO_GAIN: f64 = 1e-3;

/// The best strategy on a better machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WhatIf {
    /// What it has more: `1 GB more memory`.
    pub what: String,
    /// The best strategy with that.
    pub best: Strategy,
}

/// The best strategies on machines that have more of one thing each, which share the time limit;
/// and a line for each without one. What fits this machine fits those, so a search without an
/// answer is one that was interrupted.
pub(super) fn answers(
    name: &str,
    source: &str,
    (request, hardware): (&Request, &Hardware),
    options: &Options,
) -> (Vec<WhatIf>, Vec<String>) {
    let machines = better(hardware, options);
    let mut time = SharedTime::new(request.timeout, machines.len());
    let one = Request { best: 1, against: Vec::new(), what_if: false, ..request.clone() };
    let is_stopped = || options.cancellation.is_cancelled();
    let mut best = |options: &Options| {
        let request = Request { timeout: time.next(), ..one.clone() };
        let tuned = tune(name, source, &request, options, &|_| ()).ok()?;
        tuned.strategies.into_iter().next()
    };
    let (mut answers, mut without) = (Vec::new(), Vec::new());
    for (what, options) in machines {
        if let Some(best) = (!is_stopped()).then(|| best(&options)).flatten() {
            answers.push(WhatIf { what, best });
        } else {
            let when = if is_stopped() { "it was stopped" } else { "the time was over" };
            without.push(format!("with {what}: no plan was found before {when}"));
        }
    }
    (answers, without)
}

/// What the machines have more, each with the options of planning for it.
fn better(hardware: &Hardware, options: &Options) -> Vec<(String, Options)> {
    let memory = options.memory.or(hardware.hbm_bytes).filter(|bytes| bytes.is_finite());
    let larger = memory.map(|bytes| {
        let options = Options { memory: Some(bytes + MORE_BYTES), ..options.clone() };
        (format!("{} more memory", units::bytes(MORE_BYTES)), options)
    });
    let faster = faster(hardware).into_iter().map(|(what, faster)| {
        let (own, mut known) = (Some(faster.name.clone()), options.known.clone());
        known.push(faster);
        (format!("twice the bandwidth {what}"), Options { hardware: own, known, ..options.clone() })
    });
    larger.into_iter().chain(faster).collect()
}

/// The chip with faster links, for each kind that it has.
fn faster(hardware: &Hardware) -> Vec<(&'static str, Hardware)> {
    let Hardware { name, link_bandwidth, dcn_bandwidth, .. } = hardware;
    let twice = |of: &Option<f64>| of.map(|bandwidth| 2.0 * bandwidth);
    let named = |suffix: &str| Hardware {
        name: format!("{name}-{suffix}"),
        file: None,
        ..hardware.clone()
    };
    let links = Hardware { link_bandwidth: twice(link_bandwidth), ..named("fast-links") };
    let network = Hardware { dcn_bandwidth: twice(dcn_bandwidth), ..named("fast-network") };
    let has = [link_bandwidth.is_some(), dcn_bandwidth.is_some()];
    let all = [("of links", links), ("of the network", network)];
    all.into_iter().zip(has).filter_map(|(of, has)| has.then_some(of)).collect()
}

impl WhatIf {
    /// The line below the table.
    pub(super) fn in_words(&self, tuned: &Tuned) -> String {
        let (first, Self { what, best }) = (&tuned.strategies[0], self);
        if best.rank() > first.rank() * (1.0 - NO_GAIN) {
            return format!("with {what}: no strategy found takes less");
        }
        let saved = 100.0 * (1.0 - best.rank() / first.rank());
        let words = [best.in_words(), best.parts_in_words(), best.recompute.to_owned()];
        let words: Vec<&str> =
            words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        format!(
            "with {what}: {} -> {}, {saved:.1}% less ({})",
            units::seconds(first.objective_s),
            units::seconds(best.objective_s),
            words.join(", ")
        )
    }
}
