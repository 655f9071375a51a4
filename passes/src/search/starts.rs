//! The plans from which a search for what is no sum starts: those of sums within the memory, where
//! the search itself has no limit on it.
//!
//! For the schedule they are also the plans of sums in which a second on the links of one axis
//! counts less than one of compute: in a schedule, what moves parameters along an axis mostly runs
//! beside compute, and what moves activations is waited for. Axes that have both kinds are counted
//! with two weights, and all axes together with one. So a plan may communicate more than that with
//! the least sum, and take less time. So are they for the busiest resource where the limit on
//! memory makes the plans of plain sums costlier.
//!
//! Alternatives: *weights from a schedule*, the share of an axis's time that is waited for, jump
//! between two plans, and found a shorter schedule than the fixed weights in none of six strategies
//! of `LLaMA-3` 70B; *a search among neighbours of a plan* schedules each of them, which takes much
//! longer than to price it.

use std::sync::Arc;

use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::Program;

use crate::cost::collective::{CostModel, shift_seconds};
use crate::reshard::tables::Tables;
use crate::search::objective::{Objective, objective_s};
use crate::search::outcome::{Effort, Found, Goal, Refusal, Request};
use crate::search::{balanced, summed};

/// Weights of a second on the links of one axis, where one of compute and of other axes is 1.
const OF_ONE_AXIS: [f64; 2] = [0.1, 0.3];

/// The weight of a second on the links of every axis.
const OF_ALL_AXES: f64 = 0.1;

/// Starts above the goal by more than this ratio end a quick search: with other weights, plans of
/// `LLaMA-3` 70B were up to 6% faster.
const FAR: f64 = 1.15;

/// A start within this ratio of the bound ends it, too.
const NEAR_BOUND: f64 = 1.005;

/// The share of the time for the first two starts.
const FOR_FIRST: f64 = 0.7;

/// The share of what is left of it for the sum of all steps alone, where no start fits: beside
/// another one it had half of the cores.
const FOR_ALL_STEPS: f64 = 0.9;

/// Plans of a search that needs no weighted sums: those of the two plain ones, and what it made of
/// them.
const OF_PLAIN_SUMS: usize = 3;

/// Starts of a program with however many shardings; and how many steps between shardings may be
/// priced for all starts together, which takes some seconds.
const FEWEST: usize = 6;
const MOST_REPRICED: usize = 1 << 22;

/// Bytes by which axes are compared.
const BYTES: f64 = 1e9;

/// What a start minimises.
enum Sum {
    /// All steps, or all collectives.
    Of(Objective),
    /// All steps, with a weight for a second on each axis.
    Weighted(Vec<f64>),
    /// The busiest resource, from the starts before it.
    Busiest,
}

/// The starts that fit; the first refusal if there are none. No plan takes less than `least_s`.
pub(super) fn plans(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
    least_s: f64,
) -> Result<Vec<Plan>, Refusal> {
    let sums = worthwhile(tables, request);
    let search = Search { tables, textbook, request };
    match request.effort {
        Effort::Quick => search.one_after_another(&sums, least_s),
        Effort::Normal | Effort::High => search.side_by_side(&sums, Starts::default()),
    }
}

/// The same beside those of another objective, where these are not of weighted sums already.
pub(super) fn beside(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
    known: &[Plan],
) -> Result<Vec<Plan>, Refusal> {
    if known.len() > OF_PLAIN_SUMS {
        return Ok(known.to_vec());
    }
    let mut sums = worthwhile(tables, request);
    sums.retain(|sum| matches!(sum, Sum::Weighted(_)));
    let starts = Starts { plans: known.to_vec(), ..Starts::default() };
    Search { tables, textbook, request }.side_by_side(&sums, starts)
}

/// The sums, as many as are worth their work.
fn worthwhile(tables: &Tables<'_>, request: &Request) -> Vec<Sum> {
    let mut sums = sums(tables.program, request);
    sums.truncate(FEWEST.max(MOST_REPRICED / tables.ways().max(1)));
    sums
}

/// What all starts have in common.
struct Search<'s, 't> {
    tables: &'s Tables<'t>,
    textbook: &'s Plan,
    request: &'s Request,
}

/// The starts found so far.
#[derive(Default)]
struct Starts {
    plans: Vec<Plan>,
    /// Whether the limit on memory makes some of them costlier.
    are_limited: bool,
    /// The first refusal.
    refusal: Option<Refusal>,
}

impl Starts {
    fn add(&mut self, found: Result<Option<Found>, Refusal>) {
        match found {
            Ok(found) => {
                self.are_limited |= found.as_ref().is_some_and(|of| of.unlimited_s.is_some());
                self.plans.extend(found.map(|found| found.plan));
            }
            Err(refused) => self.refusal = self.refusal.take().or(Some(refused)),
        }
    }

    fn found(self) -> Result<Vec<Plan>, Refusal> {
        match self.refusal {
            Some(refusal) if self.plans.is_empty() => Err(refusal),
            _ => Ok(self.plans),
        }
    }
}

impl Search<'_, '_> {
    /// All starts, two at a time. The first two are those that others start from.
    fn side_by_side(&self, sums: &[Sum], mut starts: Starts) -> Result<Vec<Plan>, Refusal> {
        for (number, pair) in sums.chunks(2).enumerate() {
            let is_over = self.request.interrupt.is_due() && !starts.plans.is_empty();
            if self.request.interrupt.is_cancelled() || is_over || self.are_enough(&starts) {
                break;
            }
            // The first are good plans; then as much time for each pair as for the search that
            // starts from all of them.
            let pairs_left = sums.len().div_ceil(2) - number;
            let share = if number == 0 { FOR_FIRST } else { 1.0 / (pairs_left + 1) as f64 };
            for found in in_pairs(pair, |sum| self.plan(sum, &starts.plans, share)) {
                starts.add(found);
            }
            if starts.plans.is_empty() && self.request.interrupt.deadline.is_some() {
                starts.add(self.plan(&Sum::Of(Objective::Serial), &[], FOR_ALL_STEPS));
            }
        }
        starts.found()
    }

    /// Whether no others are needed: the busiest resource is minimised from any plan, but for a
    /// limit on memory, which that search does not know.
    fn are_enough(&self, starts: &Starts) -> bool {
        self.request.objective == Objective::Overlap
            && !starts.are_limited
            && !starts.plans.is_empty()
    }

    /// One start after another, until more are worth little.
    fn one_after_another(&self, sums: &[Sum], least_s: f64) -> Result<Vec<Plan>, Refusal> {
        let mut starts = Starts::default();
        let seconds = |plan: &Plan| objective_s(self.tables, plan, self.request.objective);
        for (number, sum) in sums.iter().enumerate() {
            let share = 1.0 / (sums.len() - number + 1) as f64;
            starts.add(self.plan(sum, &starts.plans, share));
            let best_s = starts.plans.iter().map(seconds).fold(f64::INFINITY, f64::min);
            let is_over = self.request.interrupt.is_due()
                || is_enough(best_s, least_s, self.request.below_s());
            if self.request.interrupt.is_cancelled() || !starts.plans.is_empty() && is_over {
                break;
            }
        }
        starts.found()
    }

    /// The plan of a sum, in a share of the time; none where it needs starts and there are none.
    fn plan(&self, sum: &Sum, starts: &[Plan], share: f64) -> Result<Option<Found>, Refusal> {
        let Self { tables, textbook, request } = *self;
        let interrupt = request.interrupt.part(share).unheard();
        let own = Request { interrupt, most_busy_s: None, ..request.clone() };
        let of = |objective: Objective| Request { objective, goal: None, ..own.clone() };
        let found = match sum {
            Sum::Of(objective) => summed(tables, textbook, &of(*objective))?,
            Sum::Weighted(links) => {
                let of_links = Some(links.clone());
                let model = CostModel { links: of_links, ..tables.cost_model.clone() };
                // A start, of which no proof is needed.
                let goal = below(own.below_s(), links);
                let request = Request { objective: Objective::Serial, goal, ..own.quick() };
                summed(&tables.repriced(model), textbook, &request)?
            }
            Sum::Busiest if starts.is_empty() => return Ok(None),
            Sum::Busiest => {
                let request = of(Objective::Overlap);
                balanced::search(tables, textbook, &request, |_| Ok(starts.to_vec()))?
            }
        };
        Ok(Some(found))
    }
}

/// What a function makes of each item, of two at a time: the largest searches take some hundred
/// megabytes each.
pub(super) fn in_pairs<Item: Sync, Made: Send>(
    items: &[Item],
    make: impl Fn(&Item) -> Made + Sync,
) -> Vec<Made> {
    let pairs = items.chunks(2).map(|pair| match pair {
        [one, other] => {
            let (one, other) = rayon::join(|| make(one), || make(other));
            vec![one, other]
        }
        _ => pair.iter().map(&make).collect(),
    });
    pairs.flatten().collect()
}

/// Whether more starts are worth little: there is one near the bound, or none is near the goal.
fn is_enough(best_s: f64, least_s: f64, below_s: f64) -> bool {
    best_s <= least_s * NEAR_BOUND || best_s > below_s * FAR
}

/// What the weighted sum is below in plans whose schedules reach a goal: none of the resources is
/// busy for longer than the schedule takes.
fn below(seconds: f64, links: &[f64]) -> Option<Arc<Goal>> {
    let below_s = seconds * (1.0 + links.iter().sum::<f64>());
    below_s.is_finite().then(|| Arc::new(Goal::below(below_s)))
}

/// The sums whose plans are starts.
fn sums(program: &Program, request: &Request) -> Vec<Sum> {
    let is_quick = request.effort == Effort::Quick;
    let is_overlap = request.objective == Objective::Overlap;
    let plain = [Sum::Of(Objective::Serial), Sum::Of(Objective::Comm)];
    if is_overlap && is_quick {
        return plain.into();
    }
    let axes = slowest_first(program);
    let alone = |axis: &AxisId| {
        let weights = |weight: f64| {
            let of = |other: AxisId| if other == *axis { weight } else { 1.0 };
            Sum::Weighted(program.mesh.axes.indices().map(of).collect())
        };
        OF_ONE_AXIS.map(weights)
    };
    if is_quick {
        let slowest = axes.first().into_iter().flat_map(alone);
        return slowest.chain([Sum::Of(Objective::Serial)]).collect();
    }
    let every = (axes.len() > 1).then(|| vec![OF_ALL_AXES; program.mesh.axes.len()]);
    let busiest = (!is_overlap).then_some(Sum::Busiest);
    let weighted = every.map(Sum::Weighted).into_iter().chain(axes.iter().flat_map(alone));
    plain.into_iter().chain(busiest).chain(weighted).collect()
}

/// The axes of more than one device that are not the stages of a pipeline, those with the slowest
/// links first.
fn slowest_first(program: &Program) -> Vec<AxisId> {
    let is_stages = |axis: AxisId| {
        program.repeats.iter().any(|of| of.pipeline.as_ref().is_some_and(|of| of.axis == axis))
    };
    let several = |axis: &AxisId| program.mesh.axes[*axis].size > 1 && !is_stages(*axis);
    let mut axes: Vec<AxisId> = program.mesh.axes.indices().filter(several).collect();
    let seconds = |axis: &AxisId| shift_seconds(program, &[*axis], BYTES);
    axes.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    axes
}
