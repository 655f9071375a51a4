//! Branch and bound over how much of each value is kept.
//!
//! At one price of a byte, equal weights are kept all or not at all, however many of them fit: of
//! three of 30 GB each where two fit, the bound keeps nearly all three. So the plans are split in
//! two, those that keep at most some bytes of a value and those that keep more, and each part is
//! bounded at prices of its own. In the second part the bytes are paid whether or not they are
//! used; that is valid, since every plan in it takes them, and it leaves less for the others.
//!
//! Parts are taken best first, so that the least bound of those that are open bounds all plans. The
//! value is the one of which the solutions on either side of the capacity keep most differently,
//! and the bytes are half way between the two.
//!
//! Alternatives: branching on layouts ([`crate::solver::lagrangian`]) leaves many parts that keep
//! the same; a second price for the largest values closes what one of them leaves open, not three.

use std::collections::BinaryHeap;

use crate::search::memory::rematerialize::{CutPoint, Evaluation};
use crate::solver::branch_and_bound::{OpenNode, can_prune};
use crate::solver::cutting_plane::maximize_concave;
use crate::solver::interrupt::Interrupt;

/// The prices for each part, and the factor between them.
const EVALUATIONS_OF_A_PART: usize = 6;
const STRIDE: f64 = 3.0;

/// The limit of prices for all parts, times the variables of the problem: a second or two; and in
/// very large programs, whose prices take seconds each, the counts of work after which no part is
/// split any more.
const MOST_EVALUATIONS: usize = 6000;
const MOST_WORK: usize = 1 << 32;

/// What the bytes that a solution leaves cost in its bound, as a share of it, if it is as good as
/// one that leaves none.
const NOTHING: f64 = 1e-5;

/// The least and the most bytes that a value keeps in a part of the plans.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptBytes {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl KeptBytes {
    pub(super) const ANY: Self = Self { least: 0.0, most: f64::INFINITY };
}

/// A part of the plans: what each value keeps, and the solutions nearest to the capacity on either
/// side of it.
struct Part {
    kept: Vec<KeptBytes>,
    over: Evaluation,
    under: Evaluation,
}

/// The search over parts.
pub(super) struct Parts<'c, 'p, 'a> {
    pub(super) cut: &'c CutPoint<'p, 'a>,
    /// A plan that takes so many seconds is known.
    pub(super) known_s: f64,
    pub(super) interrupt: &'c Interrupt,
    /// All solutions so far.
    pub(super) found: Vec<Evaluation>,
}

impl Parts<'_, '_, '_> {
    /// A bound of all plans from those of parts, where `found` are the solutions without parts.
    pub(super) fn lower_bound_s(&mut self) -> f64 {
        let most = self.interrupt.allowed(MOST_EVALUATIONS) / self.cut.variables().max(1);
        let most = self.found.len() + most;
        let work = |found: &[Evaluation]| found.iter().map(|of| of.work).sum::<usize>();
        let most_work = work(&self.found) + self.interrupt.allowed(MOST_WORK);
        let kept = vec![KeptBytes::ANY; self.cut.values()];
        let found = std::mem::take(&mut self.found);
        let (root_s, part) = self.part(kept, &found);
        self.found = found;
        let mut closed_s = if part.is_none() { root_s } else { f64::INFINITY };
        let nodes = part.map(|subproblem| OpenNode { bound_s: root_s, number: 0, subproblem });
        let mut open: BinaryHeap<OpenNode<Part>> = nodes.into_iter().collect();
        let mut made = 1;
        while let Some(node) = open.pop() {
            let is_over = self.found.len() >= most
                || work(&self.found) >= most_work
                || self.interrupt.is_due();
            if is_over || can_prune(node.bound_s, self.known_s) {
                return closed_s.min(node.bound_s);
            }
            let Some(halves) = self.halves(&node.subproblem) else {
                closed_s = closed_s.min(node.bound_s);
                continue;
            };
            for kept in halves {
                let found = self.evaluated(&kept, node.subproblem.under.price);
                let (own_s, part) = self.part(kept, &found);
                self.found.extend(found);
                let bound_s = own_s.max(node.bound_s);
                match part {
                    Some(subproblem) => {
                        open.push(OpenNode { bound_s, number: made, subproblem });
                        made += 1;
                    }
                    None => closed_s = closed_s.min(bound_s),
                }
            }
        }
        closed_s
    }

    /// The solutions of a part at some prices, from one on; none if it holds no plan.
    fn evaluated(&self, kept: &[KeptBytes], price: f64) -> Vec<Evaluation> {
        let mut found = Vec::new();
        if self.cut.left_beside(kept) < 0.0 {
            return found;
        }
        maximize_concave((price, STRIDE), EVALUATIONS_OF_A_PART, |price| {
            let evaluation = self.cut.evaluate(price, kept, self.interrupt);
            let (bound_s, slope) = (evaluation.bound_s, evaluation.retained_bytes - self.cut.left);
            found.push(evaluation);
            let is_over = self.interrupt.is_due() || can_prune(bound_s, self.known_s);
            (!is_over).then_some((bound_s, slope))
        });
        found
    }

    /// The bound of a part by its solutions, infinite if there are none, and the part itself, if it
    /// can be split.
    fn part(&self, kept: Vec<KeptBytes>, found: &[Evaluation]) -> (f64, Option<Part>) {
        let bound_s = found.iter().map(|of| of.bound_s).max_by(f64::total_cmp);
        let nearest = |is_over: bool| {
            let own = found.iter().filter(|of| (of.retained_bytes > self.cut.left) == is_over);
            own.max_by(|a, b| a.bound_s.total_cmp(&b.bound_s)).cloned()
        };
        let sides = nearest(true).zip(nearest(false));
        let part = sides.map(|(over, under)| Part { kept, over, under });
        (bound_s.unwrap_or(f64::INFINITY), part)
    }

    /// The two halves of a part; none if its solutions keep the same, or the capacity is free.
    fn halves(&self, part: &Part) -> Option<[Vec<KeptBytes>; 2]> {
        let unused_s = part.under.price * (self.cut.left - part.under.retained_bytes);
        if unused_s <= NOTHING * part.under.bound_s {
            return None;
        }
        let [over, under] = [&part.over, &part.under].map(|of| &of.kept_bytes);
        let differs = |&value: &usize| (over[value] - under[value]).abs();
        let value = (0..over.len()).max_by(|a, b| differs(a).total_cmp(&differs(b)))?;
        let middle = f64::midpoint(over[value], under[value]);
        let KeptBytes { least, most } = part.kept[value];
        let more = self.cut.least_above(value, middle).filter(|&more| more <= most);
        if differs(&value) == 0.0 {
            return None;
        }
        let with = |limits: KeptBytes| {
            let mut kept = part.kept.clone();
            kept[value] = limits;
            kept
        };
        let rest = KeptBytes { least: more.unwrap_or(f64::INFINITY), most };
        Some([with(KeptBytes { least, most: middle }), with(rest)])
    }
}
