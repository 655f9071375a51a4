//! The cheapest plan that a device has room for.
//!
//! Memory couples all choices: what is resident counts everywhere, what is held long counts at
//! every step. The search is branch and bound over choices, and its bound is Lagrange's (Everett
//! 1963; Fisher 1981): each operation's need of memory ([`crate::search::memory::demand`]), which is linear in single
//! choices, is charged at a price a byte, the charged problem is solved exactly by elimination, and
//! the price is moved towards where the need is. For any prices the result, less what the room is
//! worth, is below every plan that fits. Every charged optimum is also made into a plan, and the
//! cheapest that really fits is kept; where that leaves a wide gap, so are plans at prices from the
//! dearest down, which are of all sizes. A node splits the choices of the variable that needs most
//! where too much is needed, into the smaller ones and the rest.
//!
//! Steps that cannot fit by themselves are dropped beforehand: reshards to blocks larger than what
//! is left beside the fixed resident bytes, and operations whose operands and result are. The order
//! of steps and the rule that each value's reshard tree is the cheapest for its ends are the
//! unlimited search's; where only another tree could fit, the bound stays below the plan and the
//! gap is stated. Dominated layouts stay, for they may be the smaller ones.
//!
//! Alternatives: searching with whole memory profiles as states is exact and explodes; a penalty
//! without a bound proves nothing.

use std::time::Instant;

use rayon::prelude::*;
use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory;
use crate::insert_collectives::plan;
use crate::propagate::composite::ExpandedPlan;
use crate::search::memory::demand::Room;
use crate::search::problem::Problem;
use crate::solver::anytime::is_realisable;
use crate::solver::branch_and_bound::{Node, Outcome, Part, explore, is_beaten};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::marginals::Metric;
use crate::solver::reprice::Solver;
use crate::solver::tabulate::{Unary, unary};
use crate::solver::weight::Weight;

/// Charged problems solved in one search, for small ones; fewer for larger, so that the time stays
/// within seconds.
pub const MOST_SOLUTIONS: usize = 500;

/// Variables times solutions, at most.
const MOST_WORK: usize = 20_000;

/// Combinations looked at in one search: a second or two.
const MOST_LOOKS: usize = 600_000_000;

/// Moves of the prices in the first node, and in later ones.
const MOVES: (usize, usize) = (40, 8);

/// A gap between the best plan and the bound, as their ratio, that plans of other sizes are tried
/// for; how many, and what a byte of the next costs less.
const WIDE: f64 = 1.02;
const SIZES: usize = 14;
const CHEAPER: f64 = 2.0;

/// What was found.
pub struct Fitting {
    /// The cheapest plan found that fits, and its price in seconds.
    pub plan: Option<(Plan, f64)>,
    /// No plan that fits is cheaper, in seconds.
    pub lower_bound_s: f64,
}

impl Fitting {
    /// What the plan costs; infinite if there is none.
    pub fn seconds(&self) -> f64 {
        self.plan.as_ref().map_or(f64::INFINITY, |(_, seconds)| *seconds)
    }
}

/// Searches for the cheapest plan whose peak is at most `capacity` bytes; `price` says what a plan
/// costs. With one solution at most, the cheapest plan of all is tried and nothing else.
pub fn search(
    problem: &mut Problem<'_>,
    capacity: f64,
    deadline: Option<Instant>,
    price: &dyn Fn(&Plan) -> f64,
    most_solutions: usize,
) -> Fitting {
    let room = drop_the_impossible(problem, capacity);
    let nothing = Fitting { plan: None, lower_bound_s: f64::INFINITY };
    if problem.variables.iter().any(|variable| variable.choices.is_empty()) {
        return nothing;
    }
    let mut trees: Vec<Trees<'_>> =
        problem.tables.all.iter().map(|table| Trees::new(table.graph())).collect();
    let metrics: Vec<Metric> =
        problem.tables.all.par_iter().map(|table| Metric::new(table.graph())).collect();
    let problem = &*problem;
    let solver = Solver::new(problem, &metrics, &mut trees);
    let solutions =
        solver.solutions((MOST_WORK / problem.variables.len().max(1)).max(20).min(most_solutions));
    let mut search = Search {
        problem,
        room,
        solver,
        trees,
        capacity,
        price,
        deadline,
        solutions,
        looks: MOST_LOOKS,
        best: nothing,
    };
    search.run();
    search.best
}

/// Drops choices that need more than the capacity whatever else is chosen; the needs of the others.
fn drop_the_impossible(problem: &mut Problem<'_>, capacity: f64) -> Room {
    let room = Room::new(problem);
    for (number, variable) in problem.variables.iter_mut().enumerate() {
        let mut choice = 0;
        variable.choices.retain(|_| {
            choice += 1;
            room.least(number, choice - 1) <= capacity
        });
    }
    Room::new(problem)
}

struct Search<'p, 'a> {
    problem: &'p Problem<'a>,
    room: Room,
    solver: Solver<'p, 'a>,
    trees: Vec<Trees<'a>>,
    capacity: f64,
    price: &'p dyn Fn(&Plan) -> f64,
    deadline: Option<Instant>,
    /// How many charged problems may still be solved.
    solutions: usize,
    /// How many combinations may still be looked at.
    looks: usize,
    best: Fitting,
}

/// What is known of a node.
struct Bound {
    lower_s: f64,
    assignment: Vec<usize>,
}

impl Search<'_, '_> {
    fn run(&mut self) {
        let unrefuted_s = explore(self, Self::best_s, Self::out_of_time, Self::look);
        if self.best_s() > unrefuted_s * WIDE && unrefuted_s.is_finite() {
            self.spread(unrefuted_s);
        }
        self.best.lower_bound_s = unrefuted_s.min(self.best_s());
    }

    /// Plans of all sizes: a byte is charged the same wherever it is needed, and ever less.
    fn spread(&mut self, lower_s: f64) {
        let allowed = unary(self.problem);
        let mut price = lower_s / self.capacity;
        for _ in 0..SIZES {
            if self.is_late() {
                return;
            }
            let charged = self.charged(&allowed, &vec![price; self.problem.variables.len()]);
            let solved = self.solver.minimise(&charged);
            self.keep(&solved.assignment);
            price /= CHEAPER;
        }
    }

    fn look(&mut self, node: &Node) -> Outcome {
        let Some(bound) = self.bound(node) else { return Outcome::Empty };
        if is_beaten(bound.lower_s, self.best_s()) {
            return Outcome::Closed(bound.lower_s);
        }
        match self.split(&node.part, &bound.assignment) {
            None => Outcome::Closed(bound.lower_s),
            Some(parts) => Outcome::Split(bound.lower_s, parts),
        }
    }

    fn best_s(&self) -> f64 {
        self.best.seconds()
    }

    fn out_of_time(&self) -> bool {
        self.solutions == 0 || self.looks == 0 || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The best bound that moving the prices gives, with the assignment it was found at; `None` if
    /// nothing is left.
    fn bound(&mut self, node: &Node) -> Option<Bound> {
        let allowed = node.part.allowed(self.problem);
        let variables = self.problem.variables.len();
        let mut charge = vec![0.0; variables];
        let mut best = Bound { lower_s: node.bound_s, assignment: Vec::new() };
        let moves = if node.number == 0 { MOVES.0 } else { MOVES.1 };
        for _ in 0..moves {
            if best.assignment.is_empty() || !self.out_of_time() {
                self.solutions = self.solutions.saturating_sub(1);
                let charged = self.charged(&allowed, &charge);
                let solved = self.solver.minimise(&charged);
                self.looks = self.looks.saturating_sub(solved.looks);
                if !solved.bound.is_finite() {
                    return None;
                }
                let worth: f64 = charge
                    .iter()
                    .enumerate()
                    .map(|(v, charge)| charge * (self.capacity - self.room.base[v]))
                    .sum();
                let lower_s = solved.bound.as_seconds() - worth;
                self.keep(&solved.assignment);
                if best.assignment.is_empty() || lower_s > best.lower_s {
                    best = Bound {
                        lower_s: lower_s.max(best.lower_s),
                        assignment: solved.assignment.clone(),
                    };
                }
                if is_beaten(best.lower_s, self.best_s())
                    || !self.move_prices(&mut charge, &solved.assignment, lower_s)
                {
                    break;
                }
            }
        }
        Some(best)
    }

    /// What is allowed, with every byte charged: what is held while others run, for all of these
    /// together.
    fn charged(&self, allowed: &Unary, charge: &[f64]) -> Unary {
        let add = |(variable, weights): (usize, &Vec<Weight>)| {
            weights
                .iter()
                .zip(&self.room.own[variable])
                .map(|(&weight, bytes)| weight + Weight::seconds(charge[variable] * bytes))
                .collect()
        };
        let mut charged: Unary = allowed.iter().enumerate().map(add).collect();
        for held in &self.room.held {
            let of_a_byte = self.room.charged(held, charge);
            for (weight, bytes) in charged[held.variable].iter_mut().zip(&held.bytes) {
                *weight = *weight + Weight::seconds(of_a_byte * bytes);
            }
        }
        charged
    }

    /// Polyak's step: towards the operations that need too much, by the distance to the best plan;
    /// `false` where nothing needs too much and nothing is charged.
    fn move_prices(&self, charge: &mut [f64], assignment: &[usize], lower_s: f64) -> bool {
        let over: Vec<f64> = (0..charge.len())
            .map(|v| {
                if self.problem.variables[v].decides.operation().is_some() {
                    self.room.needed(v, assignment) - self.capacity
                } else {
                    0.0
                }
            })
            .collect();
        let moving = |v: usize| over[v] > 0.0 || charge[v] > 0.0;
        let length: f64 = (0..charge.len()).filter(|&v| moving(v)).map(|v| over[v] * over[v]).sum();
        if length == 0.0 || (0..charge.len()).all(|v| !moving(v)) {
            return false;
        }
        let target_s =
            if self.best_s().is_finite() { self.best_s() } else { 1.5 * lower_s.max(1e-9) };
        let step = (target_s - lower_s).max(lower_s.abs() * 1e-3) / length;
        let moved: Vec<usize> = (0..charge.len()).filter(|&v| moving(v)).collect();
        for v in moved {
            charge[v] = (charge[v] + step * over[v]).max(0.0);
        }
        true
    }

    /// Makes the assignment a plan and keeps it if it is the cheapest that fits.
    fn keep(&mut self, assignment: &[usize]) {
        if !is_realisable(self.problem, assignment, &mut self.trees) {
            return;
        }
        let plan = plan::plan(self.problem, assignment, &mut self.trees);
        let seconds = (self.price)(&plan);
        if seconds < self.best_s() && memory(&ExpandedPlan::from(&plan)).peak_bytes <= self.capacity
        {
            self.best.plan = Some((plan, seconds));
        }
    }

    /// The node's choices in two: at the variable that needs most of those that can do with less
    /// where too much is needed, its smaller choices and the rest; else the choice taken and the
    /// rest. `None` if nothing is left to choose.
    fn split(&self, part: &Part, assignment: &[usize]) -> Option<[Part; 2]> {
        let variables = 0..assignment.len();
        let operations =
            variables.clone().filter(|&v| self.problem.variables[v].decides.operation().is_some());
        let worst = operations.max_by(|&a, &b| {
            self.room.needed(a, assignment).total_cmp(&self.room.needed(b, assignment))
        });
        let bytes = |variable: usize| self.room.own[variable][assignment[variable]];
        let largest = |among: &mut dyn Iterator<Item = usize>| {
            among.max_by(|&a, &b| bytes(a).total_cmp(&bytes(b)).then(b.cmp(&a)))
        };
        let left =
            |v: usize, wanted: &dyn Fn(usize) -> bool| part.of(v, self.room.own[v].len(), wanted);
        let smaller = |v: usize| left(v, &|choice| self.room.own[v][choice] < bytes(v));
        let held = self.room.held.iter().map(|held| held.variable);
        let in_the_way = largest(&mut held.chain(worst).filter(|&v| smaller(v).contains(&true)));
        let open = || {
            largest(
                &mut variables
                    .clone()
                    .filter(|&v| left(v, &|choice| choice != assignment[v]).contains(&true)),
            )
        };
        let taken = |v: usize| left(v, &|choice| choice == assignment[v]);
        let (variable, first) =
            in_the_way.map(|v| (v, smaller(v))).or_else(|| open().map(|v| (v, taken(v))))?;
        Some(part.split(variable, first))
    }
}
