//! From a first plan and bound to the proof, for programs that elimination cannot close as they
//! are.
//!
//! Rounds of three steps, each making the others' work less: the dual ([`crate::solver::dual`]) raises the
//! bound and says of every choice what a plan with it costs at least; elimination over the few best
//! choices of every operation gives a plan; what must cost more than that plan is dropped. When so
//! few choices are left that elimination over all of them is exact, the plan is optimal and that is
//! the proof. If the rounds stop winning anything, or the work allowed is done, the bound and the
//! plan are what is known, and their difference is the stated gap.
//!
//! Work is counted, never timed, so the same program gives the same plan on every machine; a
//! caller's deadline comes on top.

use std::time::Instant;

use rayon::prelude::*;

use crate::search::problem::Problem;
use crate::solver::decode::Decoder;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::dual::Dual;
use crate::solver::eliminate::{Limits, Minimum};
use crate::solver::factor::source_price;
use crate::solver::marginals::{Metric, NEVER, seconds};
use crate::solver::tabulate::{Prices, looks, unary};
use crate::solver::weight::Weight;

/// Tables for the few best choices: a few milliseconds each.
const FEW: Limits = Limits { table: 1 << 16, work: 1 << 20 };

/// Looks at states while all these tables are filled: a tenth of a second.
const MOST_LOOKS: usize = 1 << 25;

/// Tables for all that are left.
const ALL: Limits = Limits { table: 1 << 21, work: 1 << 26 };

/// Looks at states that the first try at a proof may take, and the bits by which that grows from
/// round to round: sweeps make tables smaller.
const FIRST_PROOF: usize = 1 << 22;
const GROWTH_OF_PROOFS: usize = 3;

/// Numbers that the dual may look at: a few seconds.
const MOST_WORK: usize = 1_500_000_000;

/// Sweeps in a round, and what each of the last few must add to the bound (as a share of it) for
/// the next.
const SWEEPS: &[usize] = &[4, 4, 8, 16, 32];
const WORTHWHILE: f64 = 1e-5;

/// Rounds at most.
const ROUNDS: usize = 8;

/// How many choices of every operation are tried, as long as tables stay small.
const WIDTHS: [usize; 7] = [2, 3, 5, 8, 12, 20, 32];

/// What was found.
pub struct Closed<'a> {
    /// A choice for each variable, of the problem as it was given; nothing if none was found that
    /// can be realised.
    pub assignment: Option<Vec<usize>>,
    /// No plan is cheaper.
    pub bound: Weight,
    /// Why the assignment attains it, if it does.
    pub(crate) proof: Option<Proof<'a>>,
}

impl Closed<'_> {
    /// Whether the assignment attains the bound by proof.
    pub fn is_proven(&self) -> bool {
        self.proof.is_some()
    }
}

/// What is left when all that must cost more than a known plan is gone: every plan that is no
/// dearer, and its exact minimum.
pub struct Proof<'a> {
    /// With the choices that are left.
    pub(crate) problem: Problem<'a>,
    pub(crate) prices: Prices,
    pub(crate) minimum: Minimum,
}

/// Searches, where a plan of `known` is at hand already. `price` says what an assignment really
/// costs.
pub fn close<'a>(
    problem: &Problem<'a>,
    trees: &mut [Trees<'_>],
    known: Weight,
    deadline: Option<Instant>,
    price: &mut dyn FnMut(&[usize], &mut [Trees<'_>]) -> Weight,
) -> Closed<'a> {
    let metrics: Vec<Metric> =
        problem.tables.all.par_iter().map(|table| Metric::new(table.graph())).collect();
    let mut dual = Dual::new(problem, &metrics);
    dual.known_s = seconds(known);
    let mut best: Option<(Weight, Vec<usize>)> = None;
    let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut before = (0.0, NEVER, usize::MAX);
    let mut bound_s = 0.0_f64;
    for number in 0..ROUNDS {
        raise(&mut dual, &late, SWEEPS[number.min(SWEEPS.len() - 1)]);
        let decoded = Decoder::new(&mut dual).run();
        let best_so_far = best.as_ref().map(|(_, assignment)| &assignment[..]);
        let eliminated = eliminated(problem, trees, &dual.beyond, best_so_far);
        let descended = eliminated.and_then(|found| Decoder::from(&mut dual, &found).run());
        for found in decoded.into_iter().chain(descended) {
            if is_realisable(problem, &found, trees) {
                let cost = price(&found, trees);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, found));
                }
            }
        }
        dual.known_s = dual.known_s.min(best.as_ref().map_or(NEVER, |(cost, _)| seconds(*cost)));
        // What is too dear goes, and what then has no partner.
        dual.sweep();
        let left = left(&dual);
        let now = (dual.bound_s(), dual.known_s, left.iter().map(Vec::len).sum());
        let stuck =
            now.0 <= before.0 * (1.0 + WORTHWHILE) && now.1 >= before.1 && now.2 == before.2;
        let done =
            stuck || now.0 >= now.1 || late() || dual.work > MOST_WORK || number + 1 == ROUNDS;
        let most = if done { usize::MAX } else { FIRST_PROOF << (GROWTH_OF_PROOFS * number) };
        if let Some(proof) = whole(problem, trees, &left, most) {
            let assignment = taken(&left, &proof.minimum.assignment);
            return Closed {
                assignment: Some(assignment),
                bound: proof.minimum.bound,
                proof: Some(proof),
            };
        }
        bound_s = bound_s.max(now.0.min(now.1));
        if done {
            break;
        }
        before = now;
    }
    let bound = Weight::seconds(bound_s);
    Closed { assignment: best.map(|(_, assignment)| assignment), bound, proof: None }
}

/// Whether every value can be brought from where these choices give it to where they need it.
pub(crate) fn is_realisable(
    problem: &Problem<'_>,
    assignment: &[usize],
    trees: &mut [Trees<'_>],
) -> bool {
    problem.sources.iter().all(|source| {
        source_price(problem, source, assignment, &mut trees[source.table]).is_finite()
    })
}

/// Sweeps until they add little.
fn raise(dual: &mut Dual<'_, '_>, late: &dyn Fn() -> bool, most: usize) {
    let mut bound_s = dual.bound_s();
    let mut idle = 0;
    for _ in 0..most {
        let raised_s = dual.sweep();
        idle = if raised_s > bound_s * (1.0 + WORTHWHILE) { 0 } else { idle + 1 };
        bound_s = raised_s;
        if idle >= 3 || late() || dual.work > MOST_WORK || !bound_s.is_finite() {
            return;
        }
    }
}

/// The choices that are left, in their order.
fn left(dual: &Dual<'_, '_>) -> Vec<Vec<usize>> {
    dual.beyond
        .iter()
        .map(|beyond| (0..beyond.len()).filter(|&choice| beyond[choice] < NEVER).collect())
        .collect()
}

/// Choices of a restricted problem in numbers of the whole one.
fn taken(kept: &[Vec<usize>], assignment: &[usize]) -> Vec<usize> {
    kept.iter().zip(assignment).map(|(kept, &choice)| kept[choice]).collect()
}

/// The minimum over all that is left, if it can be had exactly.
fn whole<'a>(
    problem: &Problem<'a>,
    trees: &mut [Trees<'_>],
    left: &[Vec<usize>],
    most_looks: usize,
) -> Option<Proof<'a>> {
    if left.iter().any(Vec::is_empty) {
        return None;
    }
    let problem = problem.restricted(left);
    if looks(&problem) > most_looks {
        return None;
    }
    let prices = Prices::whole(&problem, trees, ALL)?;
    let minimum =
        prices.minimise_exactly(&unary(&problem)).filter(|minimum| minimum.bound.is_finite())?;
    Some(Proof { problem, prices, minimum })
}

/// The best assignment among ever more of the choices nearest to the bound, as long as tables stay
/// small.
fn eliminated(
    problem: &Problem<'_>,
    trees: &mut [Trees<'_>],
    beyond: &[Vec<f64>],
    best: Option<&[usize]>,
) -> Option<Vec<usize>> {
    let mut ranked: Vec<Vec<usize>> =
        beyond.iter().map(|beyond| (0..beyond.len()).collect()).collect();
    for (ranked, beyond) in ranked.iter_mut().zip(beyond) {
        ranked.sort_by(|&a, &b| beyond[a].total_cmp(&beyond[b]).then(a.cmp(&b)));
    }
    let mut found = None;
    for width in WIDTHS {
        let kept: Vec<Vec<usize>> = ranked
            .iter()
            .enumerate()
            .map(|(v, ranked)| nearest(ranked, width, best.map(|best| best[v])))
            .collect();
        let restricted = problem.restricted(&kept);
        if looks(&restricted) > MOST_LOOKS {
            break;
        }
        let exact = Prices::whole(&restricted, trees, FEW)
            .and_then(|prices| prices.minimise_exactly(&unary(&restricted)));
        let Some(minimum) = exact else { break };
        found = Some(taken(&kept, &minimum.assignment));
    }
    found
}

/// Of every operation the choice nearest to the bound.
pub(crate) fn nearest_to_the_bound(beyond: &[Vec<f64>]) -> Vec<usize> {
    let nearest = |beyond: &Vec<f64>| {
        (0..beyond.len()).min_by(|&a, &b| beyond[a].total_cmp(&beyond[b])).unwrap_or(0)
    };
    beyond.iter().map(nearest).collect()
}

/// The first few, and what was best so far.
fn nearest(ranked: &[usize], width: usize, best: Option<usize>) -> Vec<usize> {
    let mut kept: Vec<usize> = ranked.iter().copied().take(width).collect();
    kept.extend(best.filter(|best| !kept.contains(best)));
    kept.sort_unstable();
    kept
}
