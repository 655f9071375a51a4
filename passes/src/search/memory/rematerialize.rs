//! What is worth keeping across the middle of a program, where memory is short: a bound, and
//! assignments that are near it.
//!
//! The forward part's layers gather their weights and the backward part's need them again. Kept
//! from one to the other they take, at the moment in between, the bytes of all layers;
//! rematerialised they are gathered twice. The search with all kept for nothing
//! ([`crate::search::memory::feasible`], whose rows are linear in single choices) bounds that
//! badly, by all second gathers together. So one moment is looked at more closely, the *cut point*:
//! the first operation of the backward part. Every value used on both sides of it has two
//! definitions there, one for each side. The second can begin where the value was declared or
//! produced, as if it had been dropped, or in any sharding at all at a price a byte for keeping
//! that (`Graph::with_store`); what it costs to make what is kept is the first side's, and is left
//! out where that does not make it. So
//!
//! ```text
//! plan that fits ≥ min (steps + price · bytes kept) − price · (capacity − bytes always there)
//! ```
//!
//! for every price: Lagrange's bound, in one dimension. It is concave in the price, and its maximum
//! is found by cutting planes. The solutions on the way are made into plans by
//! [`crate::search::memory::limit`].
//!
//! What microbatches read of a layer's parameters, or of what is declared in front of them, is
//! either gathered in each, or once and kept while they run: both sides can have it so, at half the
//! price each. What is moved once before a block that only one side goes through keeps one
//! definition and is kept for nothing. Alternatives: keeping as a choice of every value would
//! double the number of choices and put all values' bytes into one sum, which elimination cannot; a
//! knapsack over values, each at its best rate of seconds a byte, is a weaker bound of the same
//! kind.

use std::sync::Arc;
use std::time::Instant;

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Blocks, Op, Phase, Program};

use crate::cost::pipeline_stages;
use crate::layouts::local_shape;
use crate::problem::{Demand, Problem, Rematerialized};
use crate::reshard::tables::Tables;
use crate::search::memory::demand::{self, MemoryDemand};
use crate::solver::cutting_plane::maximize_concave;
use crate::solver::eliminate::Minimum;
use crate::solver::model::{Model, Term, UnaryCosts};
use crate::solver::reprice::LagrangianSubproblem;
use crate::solver::weight::Weight;

/// Prices that are tried; each takes a solution.
const MOST_EVALUATIONS: usize = 12;

/// The first, as a share of the one at which the room is worth all the time there is: steps mostly
/// save a small part of that.
const FIRST: f64 = 1e-2;

/// What was found.
pub(crate) struct Retention {
    /// No plan that fits is cheaper, in seconds.
    pub(crate) lower_bound_s: f64,
    /// What is cheapest at some prices of a byte, a choice for each variable; those nearest to the
    /// best price first.
    pub(crate) assignments: Vec<Vec<usize>>,
}

/// What is asked.
pub(crate) struct CutRequest {
    /// What a second of compute counts.
    pub(crate) compute: f64,
    /// Bytes that a device may hold.
    pub(crate) capacity: f64,
    /// About what it costs to hold nothing, in seconds.
    pub(crate) rematerialized_s: f64,
}

/// The best bound, where plans may hold `candidates` or drop them after use. Nothing where the
/// program has no two sides, or they share nothing that could be held.
pub(crate) fn retain_across(
    tables: &Tables<'_>,
    candidates: &[ValueId],
    asked: &CutRequest,
    deadline: Option<Instant>,
) -> Option<Retention> {
    let before = backward_part(tables.program)?;
    let share = |&value: &ValueId| Some((value, shared(tables.program, value, before)?));
    let values: IndexMap<ValueId, Share> = candidates.iter().filter_map(share).collect();
    let problem = Problem::rematerializing(
        tables,
        asked.compute,
        Rematerialized { values: Some(&values.keys().copied().collect()), before: Some(before) },
    );
    let retainable = retainable(&problem, &values, before);
    let first = problem
        .variables
        .iter()
        .position(|variable| variable.decides.operation() == Some(before))?;
    let demand = MemoryDemand::new(&problem);
    let left = asked.capacity - demand.base[first];
    if left <= 0.0 || retainable.is_empty() {
        return None;
    }
    let cut = CutPoint::new(&problem, demand, retainable);
    let mut evaluations: Vec<Evaluation> = Vec::new();
    maximize_concave(FIRST * asked.rematerialized_s / left, MOST_EVALUATIONS, |price| {
        let found = cut.evaluate(price, left);
        let (bound_s, slope) = (found.bound_s, found.retained_bytes - left);
        evaluations.push(found);
        deadline.is_none_or(|deadline| Instant::now() < deadline).then_some((bound_s, slope))
    });
    evaluations.sort_by(|a, b| b.bound_s.total_cmp(&a.bound_s));
    let lower_bound_s = evaluations.first()?.bound_s;
    let assignments: IndexSet<Vec<usize>> =
        evaluations.into_iter().map(|of| of.assignment).collect();
    Some(Retention { lower_bound_s, assignments: assignments.into_iter().collect() })
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
fn shared(program: &Analyzed, value: ValueId, before: OpId) -> Option<Share> {
    let at = &program.values[value];
    let dataflow = program.dataflow();
    let uses = dataflow
        .uses_of(value)
        .filter(|&(id, position)| position < program.ops[id].sharded_operands().len());
    let (there, after): (Vec<_>, Vec<_>) =
        uses.map(|(id, _)| (id, program.ops[id].repeat)).partition(|(id, _)| *id < before);
    let definition = dataflow.definition(value);
    let on_both_sides =
        !after.is_empty() && definition.map_or(!there.is_empty(), |given| given < before);
    if !on_both_sides || program.pipeline(at.repeat).is_some() {
        return None;
    }
    let turns = |repeat| program.trip_count(repeat, program.has_batch(repeat, value));
    let around_both = |repeat| {
        let again = program.repeats.outermost(repeat, at.repeat);
        again.is_some_and(|block| program.repeats.path(program.ops[before].repeat).contains(&block))
    };
    let mut used_in = there.iter().chain(&after).map(|&(_, repeat)| repeat);
    let comes_again = program.is_shared(value) && program.is_microbatched(at.repeat);
    if !comes_again && used_in.clone().all(|repeat| turns(repeat) == turns(at.repeat)) {
        Some(Share::Second)
    } else if comes_again || (definition.is_none() && used_in.all(around_both)) {
        Some(Share::Half)
    } else {
        None
    }
}

/// A definition that may begin in what is kept.
struct Retainable {
    definition: usize,
    /// What keeping each sharding costs at a price of one for a byte.
    charges: Vec<f64>,
}

/// The definitions that may.
fn retainable(
    problem: &Problem<'_>,
    values: &IndexMap<ValueId, Share>,
    before: OpId,
) -> Vec<Retainable> {
    let is_after = |demand: &Demand| match demand {
        Demand::Operand(variable, _) => {
            problem.variables[*variable].decides.operation().is_some_and(|op| op >= before)
        }
        Demand::Fixed(_) => false,
    };
    let part_of_price = |definition: usize| {
        let definition = &problem.definitions[definition];
        let after = definition.demands.first().is_some_and(is_after);
        match values.get(&definition.value).filter(|_| definition.per_use)? {
            Share::Second => after.then_some(1.0),
            Share::Half => Some(0.5),
        }
    };
    let parts = (0..problem.definitions.len())
        .filter_map(|definition| Some((definition, part_of_price(definition)?)));
    parts
        .map(|(definition, part)| Retainable {
            definition,
            charges: charges(problem, definition, part),
        })
        .collect()
}

/// For each sharding, the bytes that keeping it adds, as a definition pays for them each time its
/// steps are taken.
fn charges(problem: &Problem<'_>, definition: usize, part: f64) -> Vec<f64> {
    let definition = &problem.definitions[definition];
    let (program, value) = (problem.program, definition.value);
    let bytes = |sharding| local_shape::local_bytes(program, value, sharding);
    let shardings = || problem.table(value).space.shardings();
    // Some sharding of what is not resident is there anyway.
    let there = if demand::is_resident(program, value) {
        0.0
    } else {
        shardings().map(bytes).fold(f64::INFINITY, f64::min)
    };
    let times = part * pipeline_stages::in_flight_copies(program, value)
        / definition.multiplicity.max(1) as f64;
    shardings().map(|sharding| times * (bytes(sharding) - there)).collect()
}

/// The problem with its two sides, at prices of what is kept between them.
struct CutPoint<'p, 'a> {
    problem: &'p Problem<'a>,
    /// Its terms of retainable definitions have graphs of their own, after the others.
    model: Model,
    demand: MemoryDemand,
    retainable: Vec<Retainable>,
}

/// What is cheapest at a price of a byte.
struct Evaluation {
    bound_s: f64,
    assignment: Vec<usize>,
    retained_bytes: f64,
}

/// By how much costlier a byte is made to see how many are kept.
const PERTURBED: f64 = 1.0 + 1e-3;

impl<'p, 'a> CutPoint<'p, 'a> {
    fn new(problem: &'p Problem<'a>, demand: MemoryDemand, retainable: Vec<Retainable>) -> Self {
        let mut model = problem.model();
        for (number, Retainable { definition, .. }) in retainable.iter().enumerate() {
            if let Term::Tree(tree) = &mut model.terms[*definition] {
                tree.graph = model.graphs.len() + number;
            }
        }
        Self { problem, model, demand, retainable }
    }

    /// The least of steps and what is kept, at `price` seconds a byte, less what the `left` bytes
    /// are worth.
    fn evaluate(&self, price: f64, left: f64) -> Evaluation {
        let model = self.priced(price);
        let mut trees = model.tree_tables();
        let Minimum { bound, assignment, .. } =
            LagrangianSubproblem::new(&model, &mut trees).minimize(&self.charged(price));
        let more_s = self.retained_s(&self.priced(price * PERTURBED), &assignment)
            - self.retained_s(&model, &assignment);
        let resident = self
            .demand
            .live_across
            .iter()
            .filter(|live| live.is_resident())
            .map(|live| live.bytes[assignment[live.variable]]);
        let retained_bytes = more_s / (price * PERTURBED - price) + resident.sum::<f64>();
        Evaluation { bound_s: bound.as_seconds() - price * left, assignment, retained_bytes }
    }

    /// The model where what may be kept can be had, from anywhere, each sharding at `price` seconds
    /// a byte.
    fn priced(&self, price: f64) -> Model {
        let with_store = |Retainable { definition, charges }: &Retainable| {
            let offers: Vec<Weight> =
                charges.iter().map(|bytes| Weight::seconds(price * bytes)).collect();
            let value = self.problem.definitions[*definition].value;
            Arc::new(self.problem.table(value).graph().with_store(&offers))
        };
        let graphs = self.model.graphs.iter().cloned();
        let graphs = graphs.chain(self.retainable.iter().map(with_store)).collect();
        Model { graphs, ..self.model.clone() }
    }

    /// What the definitions cost that may begin in what is kept, in seconds.
    fn retained_s(&self, model: &Model, assignment: &[usize]) -> f64 {
        let mut trees = model.tree_tables();
        let terms = self.retainable.iter().map(|retainable| &model.terms[retainable.definition]);
        terms.map(|term| term.cost(assignment, &mut trees).as_seconds()).sum()
    }

    /// The choices' own prices, and those of what they hold while everything runs.
    fn charged(&self, price: f64) -> UnaryCosts {
        let mut charged = self.model.unary.clone();
        for live in self.demand.live_across.iter().filter(|live| live.is_resident()) {
            for (weight, bytes) in charged[live.variable].iter_mut().zip(&*live.bytes) {
                *weight = *weight + Weight::seconds(price * bytes);
            }
        }
        charged
    }
}
