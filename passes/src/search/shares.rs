//! Shares of resources and chains: what a second of each weighs in a sum that bounds the longest.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Lp};

use crate::cost::collective::CostModel;
use crate::reshard::tables::Tables;
use crate::search::chain::ChainWeights;
use crate::search::objective::Objective;

/// Shares tried at most.
pub(super) const ROUNDS: usize = 24;

/// Consecutive shares that raise no bound and find no better plan, after which no others are tried.
pub(super) const MOST_IN_VAIN: usize = 4;

/// Sets of shares that bound subproblems: those with the best bounds at the root, beside each
/// resource alone, which bounds a subproblem in which everything is chosen.
const KEPT: usize = 3;

/// Shares that add up to one.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// Of compute and of every axis.
    pub resources: Vec<f64>,
    /// Of chains.
    pub chains: ChainWeights,
}

/// A lower bound of all plans, and the shares from which it follows.
pub(super) struct Bound {
    pub seconds: f64,
    pub shares: Shares,
}

impl Shares {
    /// Of resources alone.
    pub(super) fn of_resources(resources: Vec<f64>) -> Self {
        Self { resources, chains: ChainWeights::default() }
    }

    /// Tables that weight a second of each axis by its share.
    pub(super) fn weighted<'a>(&self, tables: &Tables<'a>, objective: Objective) -> Tables<'a> {
        let waits = objective == Objective::Scheduled;
        let links = Some(self.resources[1..].to_vec());
        tables.repriced(CostModel { links, waits, ..tables.cost_model.clone() })
    }

    /// The weight of a second of compute.
    pub(super) fn compute(&self) -> f64 {
        self.resources[0]
    }
}

/// The best of some bounds.
pub(super) fn highest(bounds: &[Bound]) -> Option<&Bound> {
    bounds.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// What no plan takes less than by some bounds.
pub(super) fn least_s(bounds: &[Bound]) -> f64 {
    highest(bounds).map_or(0.0, |bound| bound.seconds)
}

/// The shares that bound subproblems.
pub(super) fn kept(mut bounds: Vec<Bound>, resources: usize) -> Vec<Shares> {
    bounds.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let alone = |resource: usize| {
        let share = |other: usize| f64::from(u8::from(other == resource));
        Shares::of_resources((0..resources).map(share).collect())
    };
    let best = bounds.into_iter().take(KEPT).map(|bound| bound.shares);
    best.chain((0..resources).map(alone)).collect()
}

/// The shares under which the known plan with the least weighted time has the most, and that time,
/// above which no shares have a bound. Each plan has the seconds of everything that has a share.
pub(super) fn best(plans: &[Vec<f64>], count: usize) -> (Vec<f64>, f64) {
    let unit = shortest(plans);
    let mut lp = Lp::new(OptimizationDirection::Maximize);
    let least = lp.add_var(1.0, (0.0, f64::INFINITY));
    let shares: Vec<_> = (0..count).map(|_| lp.add_var(0.0, (0.0, 1.0))).collect();
    lp.add_constraint(shares.iter().map(|&share| (share, 1.0)), ComparisonOp::Eq, 1.0);
    for plan in plans {
        let weighted = shares.iter().zip(plan).map(|(&share, seconds)| (share, seconds / unit));
        lp.add_constraint(weighted.chain([(least, -1.0)]), ComparisonOp::Ge, 0.0);
    }
    let Ok(solution) = lp.solve() else {
        return (vec![1.0 / count as f64; count], f64::INFINITY);
    };
    (shares.iter().map(|&share| solution[share].max(0.0)).collect(), solution[least] * unit)
}

/// The shares of known plans on whose average what takes longest is shortest: those for which
/// [`best`] shares are best.
pub(super) fn of_plans(plans: &[Vec<f64>]) -> Vec<f64> {
    let unit = shortest(plans);
    let mut lp = Lp::new(OptimizationDirection::Minimize);
    let longest = lp.add_var(1.0, (0.0, f64::INFINITY));
    let shares: Vec<_> = plans.iter().map(|_| lp.add_var(0.0, (0.0, 1.0))).collect();
    lp.add_constraint(shares.iter().map(|&share| (share, 1.0)), ComparisonOp::Eq, 1.0);
    for part in 0..plans.first().map_or(0, Vec::len) {
        let weighted = shares.iter().zip(plans).map(|(&share, plan)| (share, plan[part] / unit));
        lp.add_constraint(weighted.chain([(longest, -1.0)]), ComparisonOp::Le, 0.0);
    }
    let solved = lp.solve();
    let share = |share| solved.as_ref().map_or(0.0, |solution| solution[share].max(0.0));
    shares.into_iter().map(share).collect()
}

/// The time of the plan with the shortest longest one, as a unit for the solver's sake.
fn shortest(plans: &[Vec<f64>]) -> f64 {
    let longest = plans.iter().map(|plan| plan.iter().copied().fold(f64::MIN_POSITIVE, f64::max));
    longest.fold(f64::INFINITY, f64::min)
}
