//! Limits on a change: on the time of the second plan, and on how much slower it is than the first.

use shardwise_passes::report::Report;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use super::{Diff, Total};
use crate::display::units;

/// A total time of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Quantity {
    /// The sum of all steps.
    #[default]
    Serial,
    /// The plan's own schedule.
    Scheduled,
    /// The busiest resource.
    Overlap,
    /// The sum of all local operations.
    Compute,
    /// The sum of all collectives.
    Comm,
}

impl Quantity {
    /// As an `assert` names it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Seconds.
    pub(super) fn of(self, report: &Report) -> f64 {
        match self {
            Self::Serial => report.serial_s,
            Self::Scheduled => report.schedule.makespan_s,
            Self::Overlap => report.overlap_s,
            Self::Compute => report.compute_s,
            Self::Comm => report.comm_s,
        }
    }
}

/// Limits on a change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Which time is limited.
    pub by: Quantity,
    /// Seconds that the second plan may take.
    pub budget_s: Option<f64>,
    /// The relative slowdown that is allowed: 0.05 for 5%.
    pub max_regression: Option<f64>,
}

/// The relative tolerance of sums of equal steps in another order.
const ROUNDING: f64 = 1e-9;

impl Limits {
    pub(super) fn broken(&self, diff: &Diff) -> Vec<String> {
        let Some(total) = diff.total(self.by.name()) else { return Vec::new() };
        self.over_budget(total).into_iter().chain(self.regression(total)).collect()
    }

    fn over_budget(&self, total: &Total) -> Option<String> {
        let budget_s =
            self.budget_s.filter(|budget_s| total.after > budget_s * (1.0 + ROUNDING))?;
        Some(format!(
            "{} is {}, over the budget of {}",
            total.name,
            units::seconds(total.after),
            units::seconds(budget_s)
        ))
    }

    fn regression(&self, total: &Total) -> Option<String> {
        let most = self
            .max_regression
            .filter(|most| total.after > total.before * (1.0 + most + ROUNDING))?;
        let (before, after, most) = (
            units::seconds(total.before),
            units::seconds(total.after),
            units::number(100.0 * most),
        );
        Some(match total.relative() {
            Some(part) => format!(
                "{} grew by {:.1}% ({before} -> {after}), more than {most}%",
                total.name,
                100.0 * part
            ),
            None => format!("{} grew from nothing to {after}, more than {most}%", total.name),
        })
    }
}

impl Total {
    /// The change relative to the first plan; `None` where that is 0.
    pub fn relative(&self) -> Option<f64> {
        (self.before > 0.0).then(|| (self.after - self.before) / self.before)
    }
}
