//! The variable on which a node is branched: the one whose two parts have the highest bounds.
//!
//! A variable's choices are split at the mean of what their demands cost at the multipliers, or,
//! where those are equal, into the likeliest choice and the rest. How much past branches on a
//! variable raised the bound (*pseudo-costs*; Bénichou et al. 1971) ranks the candidates; variables
//! branched on less than twice are tried (*reliability branching*; Achterberg, Koch and Martin
//! 2005). Candidates are evaluated side by side, and their results taken in order.

use rayon::prelude::*;

use crate::solver::capacity::node::{Node, State};

/// Candidates compared, and new ones among them that are tried.
const CANDIDATES: usize = 60;
const TRIED: usize = 6;

/// Branches on a variable after which its pseudo-costs are relied on.
const RELIABLE: f64 = 2.0;

/// Rounds in one piece of work on a part, and pieces at most: for a trial, and for the branch
/// taken.
const ROUNDS: usize = 4;
const PIECES: (usize, usize) = (1, 3);

/// The share of the gap that a piece of work gains, and the share of choices it leaves, for
/// another to follow.
const WORTHWHILE: (f64, f64) = (0.02, 0.95);

/// Gains below this share of the bound count as this much.
const LEAST_GAIN: f64 = 1e-6;

/// What undecided choices count beside what their demands cost, as a share of the bound.
const UNDECIDED: f64 = 1e-6;

/// A split of a variable's choices.
struct Split {
    score: f64,
    variable: usize,
    parts: [Vec<usize>; 2],
}

/// A part of a node after work on it.
pub(crate) struct Part {
    /// The node, unless it contains nothing below the cutoff.
    pub(crate) node: Option<Node>,
    /// Whether the last one found is the best that the part contains.
    pub(crate) is_solved: bool,
    /// Assignments found, in terms of the root's network.
    pub(crate) found: Vec<Vec<usize>>,
    /// Entries of tables visited.
    pub(crate) work: usize,
}

/// How much branches raised the bound: for each variable and side, the sum and the number.
#[derive(Default)]
pub(crate) struct PseudoCosts {
    gains: Vec<[(f64, f64); 2]>,
}

/// The parts of a node.
pub(crate) struct Branches {
    /// The parts branched into; none if the node has a single assignment.
    pub(crate) parts: Vec<Part>,
    /// Those of candidates not taken, for what was found there.
    pub(crate) tried: Vec<Part>,
}

impl PseudoCosts {
    /// For a root's network of this many variables.
    pub(crate) fn new(variables: usize) -> Self {
        Self { gains: vec![[(0.0, 0.0); 2]; variables] }
    }

    /// Branches a node in two, below a cutoff.
    pub(crate) fn branch(&mut self, node: &Node, cutoff: f64) -> Branches {
        let mut splits = splits(node);
        splits.truncate(CANDIDATES);
        let is_new = |split: &&Split| self.count(split.variable) < RELIABLE;
        let trials: Vec<&Split> = splits.iter().filter(is_new).take(TRIED).collect();
        let mut tried: Vec<(usize, [Part; 2])> = trials
            .par_iter()
            .map(|split| (split.variable, parts(node, split, cutoff, PIECES.0)))
            .collect();
        for (variable, parts) in &tried {
            self.record(node, *variable, parts, cutoff);
        }
        let least = LEAST_GAIN * node.bound.abs();
        let known = splits.iter().filter(|split| self.count(split.variable) > 0.0);
        let score = |split: &Split| self.score(split.variable, least);
        let best = known.max_by(|a, b| {
            score(a)
                .total_cmp(&score(b))
                .then(a.score.total_cmp(&b.score))
                .then(b.variable.cmp(&a.variable))
        });
        let Some(best) = best else { return Branches { parts: Vec::new(), tried: Vec::new() } };
        let place = tried.iter().position(|(variable, _)| *variable == best.variable);
        let parts = if let Some(place) = place {
            tried.swap_remove(place).1
        } else {
            let parts = parts(node, best, cutoff, PIECES.1);
            self.record(node, best.variable, &parts, cutoff);
            parts
        };
        let tried = tried.into_iter().flat_map(|(_, parts)| parts).collect();
        Branches { parts: parts.into(), tried }
    }

    fn count(&self, variable: usize) -> f64 {
        let [first, second] = self.gains[variable];
        first.1.min(second.1)
    }

    /// The product of the mean gains of both sides.
    fn score(&self, variable: usize, least: f64) -> f64 {
        self.gains[variable].iter().map(|(sum, count)| (sum / count).max(least)).product()
    }

    fn record(&mut self, node: &Node, variable: usize, parts: &[Part; 2], cutoff: f64) {
        let most = if cutoff.is_finite() { cutoff - node.bound } else { node.bound.abs() };
        for ((sum, count), part) in self.gains[variable].iter_mut().zip(parts) {
            let gain = part.node.as_ref().map_or(most, |part| part.bound - node.bound);
            *sum += gain.clamp(0.0, most.max(0.0));
            *count += 1.0;
        }
    }
}

/// A split of each open variable, those that matter most first.
fn splits(node: &Node) -> Vec<Split> {
    let network = &node.messages.network;
    let open = network.variables().filter(|&v| network.size(v) > 1);
    let mut splits: Vec<Split> = open.map(|variable| split(node, variable)).collect();
    splits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.variable.cmp(&b.variable)));
    splits
}

fn split(node: &Node, variable: usize) -> Split {
    let messages = &node.messages;
    let probabilities = messages.probabilities(variable, node.temperature);
    let charged = messages.charged[variable].iter().zip(&messages.network.unary[variable]);
    let prices: Vec<f64> = charged.map(|(charged, own)| charged - own).collect();
    let mean: f64 = prices.iter().zip(&probabilities).map(|(price, p)| price * p).sum();
    let spread: f64 =
        prices.iter().zip(&probabilities).map(|(price, p)| (price - mean).abs() * p).sum();
    let choices = 0..prices.len();
    let likeliest = choices
        .clone()
        .max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]).then(b.cmp(&a)))
        .unwrap_or(0);
    let (cheap, costly): (Vec<usize>, Vec<usize>) =
        choices.clone().partition(|&choice| prices[choice] <= mean);
    let differs = spread > 1e-9 * node.bound.abs() && !cheap.is_empty() && !costly.is_empty();
    let (first, second) =
        if differs { (cheap, costly) } else { choices.partition(|&choice| choice == likeliest) };
    let undecided = UNDECIDED * node.bound.abs() * (1.0 - probabilities[likeliest]);
    Split { score: spread + undecided, variable, parts: [first, second] }
}

/// Works on both parts of a split.
fn parts(node: &Node, split: &Split, cutoff: f64, pieces: usize) -> [Part; 2] {
    let [first, second] = &split.parts;
    let part = |kept: &Vec<usize>| part(node, split.variable, kept.clone(), cutoff, pieces);
    let (first, second) = rayon::join(|| part(first), || part(second));
    [first, second]
}

fn part(node: &Node, variable: usize, kept: Vec<usize>, cutoff: f64, pieces: usize) -> Part {
    let mut part = Part { node: None, is_solved: false, found: Vec::new(), work: 0 };
    let Some(mut child) = node.child(variable, kept) else { return part };
    for _ in 0..pieces {
        let (bound, choices) = (child.bound, child.choices());
        let state = child.work(ROUNDS, cutoff, &mut part.found);
        part.work = child.messages.work;
        match state {
            State::Closed => return part,
            State::Solved => {
                part.is_solved = true;
                break;
            }
            State::Open => {}
        }
        let has_gained = child.bound - bound >= WORTHWHILE.0 * (cutoff - bound).abs();
        if !has_gained && child.choices() as f64 > WORTHWHILE.1 * choices as f64 {
            break;
        }
    }
    part.node = Some(child);
    part
}
