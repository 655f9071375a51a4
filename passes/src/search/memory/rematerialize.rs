//! What is worth holding across the middle of a program, where memory is short: a bound, and
//! assignments that are near it.
//!
//! The forward part's layers gather their weights and the backward part's need them again. Held
//! from one to the other they take, at the moment in between, the bytes of all layers; dropped they
//! are gathered twice. The search with all held for nothing ([`crate::search::memory::lagrangian`], whose needs are
//! linear in single choices) bounds that badly, by all second gathers together. So one moment is
//! looked at more closely: the first operation of the backward part. Every value used on both sides
//! of it has two sources there, one for each side. The second can begin where the value was
//! declared or given, as if it had been dropped, or in any sharding at all at a price a byte for
//! holding that (`Graph::with_store`); what it costs to make what is held is the first side's,
//! and is left out where that does not make it. So
//!
//! ```text
//! every plan that fits ≥ min (steps + price · bytes held) − price · (capacity − what is there whatever is chosen)
//! ```
//!
//! for every price (Lagrange's bound, as in [`crate::search::memory::lagrangian`], in one dimension). It is concave in
//! the price, and the best is climbed to. The solutions on the way are made into plans by
//! `capacity`.
//!
//! What microbatches read of a layer's parameters, or of what is declared in front of them, is
//! either gathered in each, or once and held while they run: both sides can have it so, at half the
//! price each. What is moved once before a block that only one side goes through keeps one source
//! and is held for nothing. Alternatives: holding as a choice of every value would double the
//! number of choices and put all values' bytes into one sum, which elimination cannot; a knapsack
//! over values, each at its best rate of seconds a byte, is a weaker bound of the same kind.

use std::time::Instant;

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Blocks, Op, Phase, Program};

use crate::cost::local;
use crate::cost::pipeline_stages;
use crate::reshard::tables::Tables;
use crate::search::memory::demand::{self, Room};
use crate::search::problem::{Demand, Dropped, Problem};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::Minimum;
use crate::solver::factor::source_price;
use crate::solver::graph::Graph;
use crate::solver::marginals::Metric;
use crate::solver::reprice::Solver;
use crate::solver::tabulate::{Unary, unary};
use crate::solver::weight::Weight;

/// Prices that are tried; each takes a solution.
const MOST_LOOKS: usize = 12;

/// The first, as a share of the one at which the room is worth all the time there is: steps mostly
/// save a small part of that.
const FIRST: f64 = 1e-2;

/// What was found.
pub struct Holding {
    /// No plan that fits is cheaper, in seconds.
    pub lower_bound_s: f64,
    /// What is cheapest at some prices of a byte, a choice for each variable; those nearest to the
    /// best price first.
    pub assignments: Vec<Vec<usize>>,
}

/// What is asked.
pub struct Asked {
    /// What a second of compute counts.
    pub compute: f64,
    /// Bytes that a device may hold.
    pub capacity: f64,
    /// About what it costs to hold nothing, in seconds.
    pub dropped_s: f64,
}

/// The best bound, where plans may hold `candidates` or drop them after use. Nothing where the
/// program has no two sides, or they share nothing that could be held.
pub fn holding(
    tables: &Tables<'_>,
    candidates: &[ValueId],
    asked: &Asked,
    deadline: Option<Instant>,
) -> Option<Holding> {
    let before = backward_part(tables.program)?;
    let share = |&value: &ValueId| Some((value, shared(tables.program, value, before)?));
    let values: IndexMap<ValueId, Share> = candidates.iter().filter_map(share).collect();
    let mut problem = Problem::dropping(
        tables,
        asked.compute,
        Dropped { values: Some(&values.keys().copied().collect()), before: Some(before) },
    );
    let held = held(&mut problem, &values, before);
    let first = problem
        .variables
        .iter()
        .position(|variable| variable.decides.operation() == Some(before))?;
    let room = Room::new(&problem);
    let left = asked.capacity - room.base[first];
    if left <= 0.0 || held.is_empty() {
        return None;
    }
    let middle = Middle { room, held, problem: &problem };
    let mut looks: Vec<Look> = Vec::new();
    climb(FIRST * asked.dropped_s / left, MOST_LOOKS, |price| {
        let look = middle.at(price, left);
        let (bound_s, slope) = (look.bound_s, look.held_bytes - left);
        looks.push(look);
        deadline.is_none_or(|deadline| Instant::now() < deadline).then_some((bound_s, slope))
    });
    looks.sort_by(|a, b| b.bound_s.total_cmp(&a.bound_s));
    let lower_bound_s = looks.first()?.bound_s;
    let assignments: IndexSet<Vec<usize>> = looks.into_iter().map(|look| look.assignment).collect();
    Some(Holding { lower_bound_s, assignments: assignments.into_iter().collect() })
}

/// The first operation of the backward part, or of the block of layers that it stands in.
fn backward_part(program: &Program) -> Option<OpId> {
    let (first, op) = program.ops.iter_enumerated().find(|(_, op)| op.phase == Phase::Backward)?;
    let layers = program.repeats.layer_block(op.repeat);
    let beside =
        |other: &Op| layers.is_some() && program.repeats.layer_block(other.repeat) == layers;
    program
        .ops
        .iter_enumerated()
        .find(|(_, other)| beside(other))
        .map(|(start, _)| start)
        .or(Some(first))
}

/// What of the price of holding a value each side pays that uses it so.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    /// The second: the first has it anyway.
    Second,
    /// Both, half each: it is made in front of both.
    Half,
}

/// How a value is held across `before`, if it is used on both sides of that and dropping it there
/// says nothing untrue.
fn shared(program: &Program, value: ValueId, before: OpId) -> Option<Share> {
    let at = &program.values[value];
    let uses = program
        .ops
        .iter_enumerated()
        .filter(|(_, op)| op.sharded_operands().iter().any(|operand| operand.value == value));
    let (there, behind): (Vec<_>, Vec<_>) =
        uses.map(|(id, op)| (id, op.repeat)).partition(|(id, _)| *id < before);
    let on_both_sides =
        !behind.is_empty() && at.producer.map_or(!there.is_empty(), |given| given < before);
    if !on_both_sides || program.pipeline(at.repeat).is_some() {
        return None;
    }
    let turns = |repeat| program.trip_count(repeat, program.has_batch(repeat, value));
    let around_both = |repeat| {
        let again = program.repeats.outermost(repeat, at.repeat);
        again.is_some_and(|block| program.repeats.path(program.ops[before].repeat).contains(&block))
    };
    let mut used_in = there.iter().chain(&behind).map(|&(_, repeat)| repeat);
    let comes_again = program.is_shared(value) && program.is_microbatched(at.repeat);
    if !comes_again && used_in.clone().all(|repeat| turns(repeat) == turns(at.repeat)) {
        Some(Share::Second)
    } else if comes_again || (at.producer.is_none() && used_in.all(around_both)) {
        Some(Share::Half)
    } else {
        None
    }
}

/// A source that may begin in what is held.
struct Held {
    source: usize,
    /// What holding each sharding costs at a price of one for a byte.
    charges: Vec<f64>,
}

/// The sources that may, each with a table of its own.
fn held(problem: &mut Problem<'_>, values: &IndexMap<ValueId, Share>, before: OpId) -> Vec<Held> {
    let is_behind = |demand: &Demand| match demand {
        Demand::Operand(variable, _) => {
            problem.variables[*variable].decides.operation().is_some_and(|op| op >= before)
        }
        Demand::Fixed(_) => false,
    };
    let part_of_price = |source: usize| {
        let source = &problem.sources[source];
        let behind = source.demands.first().is_some_and(is_behind);
        match values.get(&source.value).filter(|_| source.again)? {
            Share::Second => behind.then_some(1.0),
            Share::Half => Some(0.5),
        }
    };
    let parts =
        (0..problem.sources.len()).filter_map(|source| Some((source, part_of_price(source)?)));
    let held: Vec<Held> = parts
        .map(|(source, part)| Held { source, charges: charges(problem, source, part) })
        .collect();
    for (number, held) in held.iter().enumerate() {
        problem.sources[held.source].table = problem.tables.all.len() + number;
    }
    held
}

/// For each sharding, the bytes that holding it adds, as a source pays for them each time its steps
/// are taken.
fn charges(problem: &Problem<'_>, source: usize, part: f64) -> Vec<f64> {
    let source = &problem.sources[source];
    let (program, value) = (problem.program, source.value);
    let bytes = |sharding| local::local_bytes(program, value, sharding);
    let shardings = || problem.table(value).space.shardings();
    // Some sharding of what is not resident is there anyway.
    let there = if demand::is_resident(program, value) {
        0.0
    } else {
        shardings().map(bytes).fold(f64::INFINITY, f64::min)
    };
    let times =
        part * pipeline_stages::in_flight_copies(program, value) / source.times.max(1) as f64;
    shardings().map(|sharding| times * (bytes(sharding) - there)).collect()
}

/// The problem with its two sides, at prices of what is held between them.
struct Middle<'p, 'a> {
    problem: &'p Problem<'a>,
    room: Room,
    held: Vec<Held>,
}

/// What is cheapest at a price of a byte.
struct Look {
    bound_s: f64,
    assignment: Vec<usize>,
    held_bytes: f64,
}

/// By how much dearer a byte is made to see how many are held.
const DEARER: f64 = 1.0 + 1e-3;

impl Middle<'_, '_> {
    /// The least of steps and what is held, at `price` seconds a byte, less what the `left` bytes
    /// are worth.
    fn at(&self, price: f64, left: f64) -> Look {
        let own = self.with_held(price);
        let tables = self.problem.tables.all.iter().map(|table| &**table.graph());
        let graphs: Vec<&Graph> = tables.chain(&own).collect();
        let metrics: Vec<Metric> = graphs.iter().map(|graph| Metric::new(graph)).collect();
        let mut trees: Vec<Trees<'_>> = graphs.iter().map(|graph| Trees::new(graph)).collect();
        let Minimum { bound, assignment, .. } =
            Solver::new(self.problem, &metrics, &mut trees).minimise(&self.charged(price));
        let more_s = self.held_s(&self.with_held(price * DEARER), &assignment)
            - self.held_s(&own, &assignment);
        let stay = self
            .room
            .held
            .iter()
            .filter(|held| held.stays())
            .map(|held| held.bytes[assignment[held.variable]]);
        let held_bytes = more_s / (price * DEARER - price) + stay.sum::<f64>();
        Look { bound_s: bound.as_seconds() - price * left, assignment, held_bytes }
    }

    /// The ways of what may be held, each sharding at `price` seconds a byte.
    fn with_held(&self, price: f64) -> Vec<Graph> {
        let ways = |held: &Held| {
            let weights: Vec<Weight> =
                held.charges.iter().map(|bytes| Weight::seconds(price * bytes)).collect();
            self.problem.table(self.problem.sources[held.source].value).graph().with_store(&weights)
        };
        self.held.iter().map(ways).collect()
    }

    /// What the sources cost that may begin in what is held, in seconds.
    fn held_s(&self, ways: &[Graph], assignment: &[usize]) -> f64 {
        let cost = |(held, ways): (&Held, &Graph)| {
            source_price(
                self.problem,
                &self.problem.sources[held.source],
                assignment,
                &mut Trees::new(ways),
            )
            .as_seconds()
        };
        self.held.iter().zip(ways).map(cost).sum()
    }

    /// The choices' own prices, and those of what they hold while everything runs.
    fn charged(&self, price: f64) -> Unary {
        let mut charged = unary(self.problem);
        for held in self.room.held.iter().filter(|held| held.stays()) {
            for (weight, bytes) in charged[held.variable].iter_mut().zip(&held.bytes) {
                *weight = *weight + Weight::seconds(price * bytes);
            }
        }
        charged
    }
}

/// How much further the next look is while all are on one side of the greatest.
const STRIDE: f64 = 8.0;

/// What a further look must be able to add, as a share.
const WORTHWHILE: f64 = 1e-4;

/// A straight line that a concave function is nowhere above.
#[derive(Clone, Copy)]
struct Tangent {
    at: f64,
    value: f64,
    slope: f64,
}

impl Tangent {
    /// Where it meets one that falls where this rises, and how high.
    fn meets(&self, falling: &Self) -> (f64, f64) {
        let ahead = falling.at - self.at;
        let at =
            (falling.value - falling.slope * ahead - self.value) / (self.slope - falling.slope);
        (self.at + at, self.value + self.slope * at)
    }
}

/// Looks where a concave function of a positive number is greatest, from `start` on and at most
/// `looks` times; `look` gives its value and how it goes on from there, as long as it is worth
/// going on. On each side of the greatest one tangent is kept, and the next look is where they meet
/// (Kelley 1960, in one dimension).
fn climb(start: f64, looks: usize, mut look: impl FnMut(f64) -> Option<(f64, f64)>) {
    let (mut rising, mut falling): (Option<Tangent>, Option<Tangent>) = (None, None);
    let mut best = f64::NEG_INFINITY;
    let mut at = start;
    for _ in 0..looks {
        let Some((value, slope)) = look(at) else { return };
        best = best.max(value);
        *(if slope > 0.0 { &mut rising } else { &mut falling }) =
            Some(Tangent { at, value, slope });
        at = match (&rising, &falling) {
            (Some(rising), Some(falling)) => {
                let (meeting, most) = rising.meets(falling);
                if most <= best * (1.0 + WORTHWHILE) {
                    return;
                }
                let margin = 0.1 * (falling.at - rising.at);
                meeting.max(rising.at + margin).min(falling.at - margin)
            }
            (Some(_), None) => at * STRIDE,
            (None, _) => at / STRIDE,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::climb;

    #[test]
    fn the_greatest_of_a_concave_function_is_found() {
        let lines = [(0.0, 10.0), (30.0, 3.0), (55.0, -1.0), (100.0, -8.0)];
        let mut looked: Vec<f64> = Vec::new();
        climb(0.01, 20, |at| {
            looked.push(at);
            lines
                .map(|(value, slope)| (value + slope * at, slope))
                .into_iter()
                .min_by(|a, b| a.0.total_cmp(&b.0))
        });
        // The second and the third meet there.
        assert!(looked.iter().any(|at| (at - 6.25).abs() < 0.01), "{looked:?}");
        assert!(looked.len() < 15, "{looked:?}");
    }
}
