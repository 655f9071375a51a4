//! Branch and bound where rounds improve nothing more and tables over all remaining choices would
//! be too large: the choices of one variable are split in two, until elimination over the rest of a
//! part is exact (*cutset conditioning*; Dechter 1990, with bounds).
//!
//! It finds solutions as well as bounds. Where many choices are equally good by the dual's prices,
//! rounding takes those of distant variables without regard to each other; here the prices carry
//! one decision to the others before the next. So models that are too large for elimination, grids
//! of products, are branched too, where their gap is very wide.
//!
//! In every part the dual continues from its prices: it rises, and choices above the upper bound
//! disappear. Parts are taken best first, so that the least bound of the open ones, which bounds
//! all assignments, rises with every part. The variable is the one whose split makes elimination
//! cheapest. Its choices are split in the middle of those that the bound does not distinguish, in
//! which similar shardings are near each other: costly ones alone would be refuted at once, and
//! leave the other part as large as before.
//!
//! Alternatives: the variable whose two parts have the highest bounds (*strong branching*;
//! Applegate et al. 1995) takes several times as many parts in small programs. To halve many
//! variables at a time, to keep one choice or a quarter of them, or to follow one half without a
//! look at the other finds worse solutions in grids of 36 to 196 products: choices then contradict
//! each other. So do costs with small random differences, which leave one choice the best.

use std::collections::BinaryHeap;

use crate::solver::anytime::{Rounds, left};
use crate::solver::branch_and_bound::{OpenNode, can_prune};
use crate::solver::dual::Dual;
use crate::solver::marginals::UNREACHABLE;
use crate::solver::minimize::StopReason;
use crate::solver::primal_heuristic::PrimalHeuristic;
use crate::solver::tabulate::Classified;

/// Evaluations of a model up to which the splits of several variables are compared, of a part up to
/// which its tables are made, and of all parts together: some seconds.
const MOST_EVALUATIONS: usize = 1 << 38;
const OF_A_PART: usize = 1 << 29;
const OF_ALL_PARTS: usize = 1 << 32;

/// Estimates of what elimination takes, times the numbers of the model: about 15 s where an
/// optimizer makes hundreds of operations, and the 17 estimates of a node take longer than all
/// else. Grids of 36 to 400 products stay below.
const MOST_ESTIMATES: usize = 100_000_000;

/// A gap at which larger models are branched as well, without more effort. (At 1.5% to 3.5% that
/// took ten seconds and found nothing.)
const VERY_WIDE: f64 = 0.05;

/// Variables that are compared at each node.
const CANDIDATES: usize = 8;

/// The share of the gap up to which choices count as equally good.
const NEAR: f64 = 0.1;

/// Sweeps in each part.
const SWEEPS: usize = 1;

/// Numbers that open nodes may hold together: 400 MB.
const MOST_NUMBERS: usize = 50_000_000;

/// A part of the space, with the dual's prices in it.
type Node<'m> = OpenNode<Dual<'m>>;

impl<'m> Rounds<'_, 'm, '_> {
    /// Branches until no part is left that can improve on the best solution, or the work allowed is
    /// done; raises the bound, and says why it ended. None where it is not worth that.
    pub(super) fn branch(&mut self, bound: &mut f64) -> Option<StopReason> {
        let all = left(&self.dual);
        if all.iter().any(Vec::is_empty) || !self.is_worth_branching(&all, *bound) {
            return None;
        }
        let root = Node { bound_s: self.dual.bound(), number: 0, subproblem: self.dual.clone() };
        let numbers = numbers(&root.subproblem).max(1);
        let most_open = (MOST_NUMBERS / numbers).max(2);
        let most_estimates = self.limits.interrupt.allowed(MOST_ESTIMATES / numbers);
        let mut work_left = self.limits.interrupt.allowed(OF_ALL_PARTS);
        let mut open = BinaryHeap::from([root]);
        let mut made = 1;
        while let Some(mut node) = open.pop() {
            *bound = bound.max(node.bound_s.min(self.dual.upper_bound));
            self.limits.interrupt.report(self.dual.upper_bound, *bound);
            if can_prune(node.bound_s, self.dual.upper_bound) {
                break;
            }
            if self.is_closed(node.bound_s) {
                return Some(StopReason::BoundReached);
            }
            if self.limits.interrupt.is_due() {
                return Some(StopReason::Interrupted);
            }
            let is_over = work_left == 0 || self.estimated > most_estimates;
            if is_over || open.len() > most_open {
                return Some(StopReason::WorkLimit);
            }
            self.offer_rounded(&mut node.subproblem, &mut work_left);
            for part in self.parts(&node) {
                if let Some(dual) = self.explore(part, &mut work_left) {
                    let bound_s = dual.bound().max(node.bound_s);
                    open.push(Node { bound_s, number: made, subproblem: dual });
                    made += 1;
                }
            }
        }
        *bound = self.dual.upper_bound;
        Some(StopReason::BoundReached)
    }

    /// Whether elimination may close the gap in the end, or it is very wide, or there is time.
    fn is_worth_branching(&mut self, left: &[Vec<usize>], bound: f64) -> bool {
        self.dual.upper_bound > bound * (1.0 + VERY_WIDE)
            || self.limits.interrupt.work > 1.0
            || self.evaluations(left) <= MOST_EVALUATIONS
    }

    /// Whether nothing at this bound is wanted.
    fn is_closed(&self, bound_s: f64) -> bool {
        can_prune(bound_s * (1.0 + self.limits.enough), self.dual.upper_bound)
    }

    /// What elimination over these choices evaluates.
    fn evaluations(&mut self, left: &[Vec<usize>]) -> usize {
        self.estimated += 1;
        let model = self.model.restricted(left);
        let model = Classified::new(&model);
        let tables = model.evaluations();
        if tables > MOST_EVALUATIONS {
            return tables;
        }
        tables.saturating_add(model.combinations(&self.limits.interrupt))
    }

    /// The two parts of a node; none if it has a single assignment.
    fn parts(&mut self, node: &Node<'m>) -> Vec<Dual<'m>> {
        let Some((variable, first)) = self.split(node) else { return Vec::new() };
        let is_first = |choice: usize| first.contains(&choice);
        let part = |removed: &dyn Fn(usize) -> bool| {
            let mut dual = node.subproblem.clone();
            (dual.upper_bound, dual.work) = (self.dual.upper_bound, 0);
            for (choice, reduced) in dual.reduced_cost[variable].iter_mut().enumerate() {
                if removed(choice) {
                    *reduced = UNREACHABLE;
                }
            }
            dual
        };
        vec![part(&|choice| !is_first(choice)), part(&is_first)]
    }

    /// The variable to be split, and the choices of the first part.
    fn split(&mut self, node: &Node<'m>) -> Option<(usize, Vec<usize>)> {
        let gap = self.dual.upper_bound - node.bound_s;
        let all = left(&node.subproblem);
        let width = |&variable: &usize| {
            (all[variable].len() as f64).ln()
                * node.subproblem.edges_of_variable[variable].len() as f64
        };
        let mut variables: Vec<usize> = (0..all.len()).filter(|&v| all[v].len() > 1).collect();
        variables.sort_by(|a, b| width(b).total_cmp(&width(a)).then(a.cmp(b)));
        let first_of = |variable: usize| first_half(&node.subproblem.reduced_cost[variable], gap);
        if self.evaluations(&all) > MOST_EVALUATIONS {
            return variables.first().map(|&widest| (widest, first_of(widest)));
        }
        let splits = variables.into_iter().take(CANDIDATES).map(|variable| {
            let first = first_of(variable);
            let mut kept = all.clone();
            kept[variable].retain(|choice| first.contains(choice));
            let of_first = self.evaluations(&kept);
            kept[variable] = all[variable].clone();
            kept[variable].retain(|choice| !first.contains(choice));
            (of_first.saturating_add(self.evaluations(&kept)), (variable, first))
        });
        splits
            .min_by_key(|(evaluations, (variable, _))| (*evaluations, *variable))
            .map(|best| best.1)
    }

    /// Rounds the prices of a part to a solution, and offers it.
    fn offer_rounded(&mut self, part: &mut Dual<'m>, work_left: &mut usize) {
        part.work = 0;
        if let Some(found) = PrimalHeuristic::new(part).run() {
            self.offer(found);
        }
        *work_left = work_left.saturating_sub(part.work);
    }

    /// Raises the bound of a part, and finds the best solution in it where elimination can; the
    /// part, where it cannot.
    fn explore(&mut self, mut part: Dual<'m>, work_left: &mut usize) -> Option<Dual<'m>> {
        for _ in 0..SWEEPS {
            part.sweep();
            if self.is_closed(part.bound()) {
                return None;
            }
        }
        *work_left = work_left.saturating_sub(part.work);
        let left = left(&part);
        if left.iter().any(Vec::is_empty) {
            return None;
        }
        if let Some(minimum) = self.proof(&left, OF_A_PART) {
            *work_left = work_left.saturating_sub(self.evaluations(&left));
            if minimum.is_feasible() {
                self.offer(minimum.assignment());
            }
            return None;
        }
        Some(part)
    }
}

/// Of the choices within a share of the gap, the first half; of a single one, that.
fn first_half(reduced_cost: &[f64], gap: f64) -> Vec<usize> {
    let least = reduced_cost.iter().copied().fold(UNREACHABLE, f64::min);
    let is_near = |&choice: &usize| {
        reduced_cost[choice] < UNREACHABLE && reduced_cost[choice] <= least + NEAR * gap
    };
    let mut near: Vec<usize> = (0..reduced_cost.len()).filter(is_near).collect();
    near.truncate(near.len().div_ceil(2));
    near
}

/// The numbers that a dual holds.
fn numbers(dual: &Dual<'_>) -> usize {
    let prices: usize = dual.edges.iter().map(|edge| edge.count()).sum();
    let choices: usize = dual.unary.iter().map(Vec::len).sum();
    2 * (prices + choices)
}
