//! Strategies written by hand, planned with the same options as the candidates, and placed among
//! those found.
//!
//! Memory is no limit to them: a configuration that people run and that is predicted not to fit is
//! worth knowing, and the line says so.

mod space;

use schemars::JsonSchema;
use serde::Serialize;
use shardwise_ir::print;

use super::candidate::Candidate;
use super::template::Template;
use super::{Refused, Request, Strategy, Tuned, table};
use crate::display::units;
use crate::driver::plan;
use crate::options::{AxisParts, Options};

/// The relative difference of FLOPs below which two programs are taken for one model.
const SAME_WORK: f64 = 0.01;

/// A strategy written by hand.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Against {
    /// Its program.
    pub name: String,
    /// Its figures.
    pub strategy: Strategy,
    /// Bytes that a device has, where the plan needs more.
    pub exceeds_bytes: Option<f64>,
    /// The choice of it that no candidate makes; none where it is in the space.
    pub outside: Option<String>,
}

/// The plans of what a request compares with, and whether they are among the candidates.
pub(super) fn planned(
    template: &Template<'_>,
    candidates: &[Candidate],
    request: &Request,
    options: &Options,
) -> Result<Vec<Against>, Refused> {
    let (memory, parts) = (Some(f64::INFINITY), AxisParts::AsWritten);
    let unlimited = Options { memory, parts, timeout: request.timeout, ..options.clone() };
    let one = |(name, text): &(String, String)| {
        let planned = plan(name, text, &unlimited).map_err(Refused::Program)?;
        let mesh = &planned.plan.program.mesh;
        if mesh.devices() != request.chips {
            return Err(Refused::Options(format!(
                "`{name}` has a mesh of {}, and --chips is {}; compare equal numbers",
                units::counted(mesh.devices(), "device"),
                request.chips
            )));
        }
        let capacity = options.memory.or(planned.plan.program.hardware.hbm_bytes);
        let peak = planned.report.memory.peak_bytes;
        Ok(Against {
            name: name.clone(),
            strategy: Strategy::as_written(print::mesh(mesh).join(", "), &planned),
            exceeds_bytes: capacity.filter(|&bytes| peak > bytes),
            outside: space::outside(template, candidates, options, (&planned.plan.program, text)),
        })
    };
    request.against.iter().map(one).collect()
}

impl Against {
    /// How much more or less its time is than that of the best strategy found, as a share.
    pub fn excess(&self, tuned: &Tuned) -> f64 {
        let best = tuned.strategies.first().map_or(0.0, |best| best.objective_s);
        if best > 0.0 { self.strategy.objective_s / best - 1.0 } else { 0.0 }
    }

    /// The strategies found, of those printed, that are better.
    pub fn better(&self, tuned: &Tuned) -> usize {
        let is_better = |of: &&Strategy| of.objective_s < self.strategy.objective_s;
        tuned.strategies.iter().filter(is_better).count()
    }

    /// The line below the table.
    pub(super) fn in_words(&self, tuned: &Tuned) -> String {
        let Self { name, strategy, .. } = self;
        let (time, words) = (units::seconds(strategy.objective_s), strategy.in_words());
        let mut line = format!("{name} ({words}) takes {time}: {}", self.beside(tuned));
        if let Some(bytes) = self.exceeds_bytes {
            let (peak, own) = (units::bytes(strategy.peak_bytes), units::bytes(bytes));
            line += &format!("; it needs {peak}, and a device has {own}");
        }
        if let Some(what) = &self.outside {
            line += &format!("; no candidate has {what}");
        }
        line + &self.other_work(tuned).unwrap_or_default()
    }

    /// In which part of the time it takes more than the best strategy found by most:
    /// `compute: 10.6 s against 13.8 s`.
    pub fn reason(&self, tuned: &Tuned) -> Option<String> {
        table::largest_difference(tuned.strategies.first()?, &self.strategy)
    }

    fn beside(&self, tuned: &Tuned) -> String {
        let percent = 100.0 * self.excess(tuned);
        if percent < -0.05 {
            return format!("{:.1}% less than the first", -percent);
        }
        if percent < 0.05 {
            return "as long as the first".to_owned();
        }
        let why = self.reason(tuned).map_or_else(String::new, |part| format!(", by its {part}"));
        let better = match self.better(tuned) {
            all if all == tuned.strategies.len() => format!("all {all} above are better"),
            count => format!("{} better", units::counted(count as u64, "strategy above is")),
        };
        format!("{percent:.1}% more than the first{why}; {better}")
    }

    /// That the two programs do not compute the same.
    fn other_work(&self, tuned: &Tuned) -> Option<String> {
        let (own, first) = (self.strategy.model_flops, tuned.strategies[0].model_flops);
        let differs = (own - first).abs() > SAME_WORK * first.max(own);
        differs.then(|| {
            let (own, first) = (units::flops(own), units::flops(first));
            format!("; its model takes {own}, that of the first {first}: they are not the same")
        })
    }
}
