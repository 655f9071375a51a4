//! Chooses between keeping and rematerialising values from the forward to the backward pass under a
//! memory limit: a Lagrangian bound, and assignments near it.
//!
//! Layers of the forward part gather their weights, and layers of the backward part read them
//! gathered too. Kept from one to the other, they need the bytes of all layers at the step in
//! between; rematerialised, they are gathered twice. The search in which keeping is free
//! ([`crate::search::memory::feasible`], whose rows are linear in single choices) has a weak bound:
//! it misses all the second gathers. This file therefore adds the memory at one step, the *cut
//! point*: the first operation of the backward part. What is there whatever the sides keep counts,
//! too: resident values, and the sums of gradients that microbatches add to. Every value used on
//! both sides of it has two definitions, one for each side. The second starts where the value was
//! declared or is computed again (rematerialised), or in any sharding at a price per byte for
//! keeping it (`Graph::with_store`); of other values that are produced on the first side, the
//! sharding in which they are produced has a price, too. The steps that produce a kept sharding
//! belong to the first side, and are not counted where the first side does not take them. So
//!
//! ```text
//! plan that fits ≥ min (steps + price · bytes kept) − price · (capacity − bytes always there)
//! ```
//!
//! for every price: a Lagrangian bound in one multiplier. It is concave in the price, and its
//! maximum is found by cutting planes. Where a gap to the best plan is left, parts of the plans are
//! bounded one by one ([`branching`]). [`crate::search::memory::limit`] turns the solutions into
//! plans.
//!
//! Parameters of layers, and other values declared before the microbatches, are either gathered in
//! each microbatch, or once and kept while all run: both sides may use that, at half the price each
//! and half the time of gathering it once. So the graph of such a value has a copy of each of its
//! shardings (`Graph::with_copy`): steps between copies take half as long as once in a step, and
//! every copy leads back to the sharding itself at the price of keeping it. What plans really take
//! is the time of one tree that reaches what both sides read, which is no less than the larger of
//! the sides' own trees, and so than the two halves. A value resharded once before a block of one
//! side only keeps one definition and is kept at no price. Alternatives: keeping as a choice of
//! every value would double the number of choices and sum the bytes of all values in one row, for
//! which elimination is too large; a knapsack over values, each at its best rate of seconds per
//! byte, is a weaker bound of the same kind.

mod branching;

use std::sync::Arc;

use indexmap::IndexMap;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Blocks, Op, Phase, Program};

use crate::cost::held::is_resident;
use crate::cost::pipeline_stages;
use crate::layouts::local_shape;
use crate::problem::{Definition, Demand, Problem, Rematerialized};
use crate::reshard::tables::Tables;
use crate::search::memory::demand::{self, LiveAcross, MemoryDemand};
use crate::search::memory::rematerialize::branching::{KeptBytes, Parts};
use crate::solver::cutting_plane::maximize_concave;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::Minimum;
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{End, Model, Term, UnaryCosts};
use crate::solver::reprice::LagrangianSubproblem;
use crate::solver::weight::Weight;

/// The limit of prices; each takes a solution.
const MOST_EVALUATIONS: usize = 12;

/// The counts of work after which a quick search has no more prices but the first few: about a
/// tenth of a second. With twelve, the four large programs that were compared have the same plans,
/// bounds and refusals, in up to twice the time.
const QUICK_WORK: usize = 1 << 27;
const FEW_EVALUATIONS: usize = 3;

/// The first price, as a share of the one at which the capacity is worth the total time: steps
/// mostly save a small part of that. And the factor from one price to the next.
const FIRST: f64 = 1e-2;
const STRIDE: f64 = 8.0;

/// The result.
pub(crate) struct Retention {
    /// The lower bound of all plans that fit, in seconds.
    pub(crate) lower_bound_s: f64,
    /// Minimal assignments at some prices of a byte, those nearest to the best price first.
    pub(crate) solutions: Vec<Solution>,
}

/// An assignment, and what it says of the values that it keeps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Solution {
    /// The choice of each variable.
    pub(crate) assignment: Vec<usize>,
    /// The time of its steps, in seconds.
    pub(crate) seconds: f64,
    /// Whether what it keeps fits at the cut point.
    pub(crate) fits: bool,
}

/// The request.
pub(crate) struct CutRequest {
    /// The weight of a second of compute.
    pub(crate) compute: f64,
    /// The capacity of a device, in bytes.
    pub(crate) capacity: f64,
    /// About the cost of a plan, in seconds.
    pub(crate) about_s: f64,
    /// A bound of so many seconds ends the search for better ones.
    pub(crate) enough_s: f64,
    /// A plan that takes so many seconds, with which parts of the plans are compared; none where
    /// plans are not to be searched in parts.
    pub(crate) known_s: Option<f64>,
    /// Whether what is computed again takes no bytes in any sharding: a weaker bound, and solutions
    /// that are mostly nearer to good plans.
    pub(crate) again_is_free: bool,
    /// Whether large programs have few prices.
    pub(crate) is_quick: bool,
}

/// The best bound, where plans may keep `candidates` or drop them after use. `None` where the
/// program has no two sides, or the sides share no value that could be kept.
pub(crate) fn retain_across(
    tables: &Tables<'_>,
    candidates: &[ValueId],
    asked: &CutRequest,
    interrupt: &Interrupt,
) -> Option<Retention> {
    let before = backward_part(tables.program)?;
    let share = |&value: &ValueId| Some((value, shared(tables.program, value, before)?));
    let values: IndexMap<ValueId, Share> = candidates.iter().filter_map(share).collect();
    let problem = Problem::rematerializing(
        tables,
        asked.compute,
        Rematerialized { values: Some(&values.keys().copied().collect()), before: Some(before) },
    );
    let retainable = retainable(&problem, &values, before, asked.again_is_free);
    let first = problem
        .variables
        .iter()
        .position(|variable| variable.decides.operation() == Some(before))?;
    let demand = MemoryDemand::new(&problem);
    let left = asked.capacity - demand.base[first];
    let live_across = demand.live_beside(first);
    if left <= 0.0 || retainable.is_empty() {
        return None;
    }
    let cut = CutPoint::new(&problem, left, live_across, retainable);
    let all = cut.of_all_plans(asked, interrupt);
    let mut lower_bound_s = all.iter().map(|of| of.bound_s).max_by(f64::total_cmp)?;
    let mut evaluations = all;
    if let Some(known_s) = asked.known_s {
        let mut parts = Parts { cut: &cut, known_s, interrupt, found: evaluations };
        lower_bound_s = lower_bound_s.max(parts.lower_bound_s());
        evaluations = parts.found;
    }
    evaluations.retain(|of| of.bound_s.is_finite());
    evaluations.sort_by(|a, b| b.bound_s.total_cmp(&a.bound_s));
    let mut solutions: IndexMap<Vec<usize>, Evaluation> = IndexMap::new();
    for of in evaluations {
        solutions.entry(of.assignment.clone()).or_insert(of);
    }
    let solutions = solutions.into_values().map(|of| Solution {
        seconds: of.bound_s + of.price * (left - of.retained_bytes),
        fits: of.retained_bytes <= left,
        assignment: of.assignment,
    });
    Some(Retention { lower_bound_s, solutions: solutions.collect() })
}

/// The first operation of the backward part, or of the block of layers that contains it.
fn backward_part(program: &Program) -> Option<OpId> {
    let (first, op) = program.ops.iter_enumerated().find(|(_, op)| op.phase == Phase::Backward)?;
    let blocks = program.repeats.outwards(op.repeat);
    let layers = blocks.filter(|&block| !program.repeats.is_of_microbatches(block)).last();
    let beside =
        |other: &Op| layers.is_some_and(|block| program.repeats.is_inside(other.repeat, block));
    program
        .ops
        .iter_enumerated()
        .find(|(_, other)| beside(other))
        .map(|(start, _)| start)
        .or(Some(first))
}

/// The share of the price of keeping a value that each side pays.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    /// The second pays: the first has the value anyway.
    Second,
    /// Both pay half: the value is gathered before both.
    Half,
}

impl Share {
    fn of_price(self) -> f64 {
        match self {
            Self::Second => 1.0,
            Self::Half => 0.5,
        }
    }
}

/// How the price of keeping a value across `before` is shared, if it is used on both sides and the
/// bound stays valid when it is dropped there.
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

/// A definition that may start from a kept sharding.
struct Retainable {
    definition: usize,
    /// The number of its value among those that are kept.
    value: usize,
    share: Share,
    /// Whether it always starts from one: the sharding in which its value is produced is none that
    /// is there anyway.
    starts_kept: bool,
    /// The price of keeping each sharding, at a price of one per byte.
    charges: Vec<f64>,
    /// The bytes that the value takes for each that this is charged for.
    bytes_of_charge: f64,
}

impl Retainable {
    /// What keeping each sharding costs at a price per byte, beside the least that the value keeps.
    fn offers(&self, price: f64, kept: &[KeptBytes]) -> Vec<Weight> {
        let KeptBytes { least, most } = kept[self.value];
        let offer = |&charge: &f64| {
            let is_allowed = charge * self.bytes_of_charge <= most;
            let beyond = (charge - least / self.bytes_of_charge).max(0.0);
            if is_allowed { Weight::seconds(price * beyond) } else { Weight::INFINITE }
        };
        self.charges.iter().map(offer).collect()
    }

    /// The cost of the definition under an assignment, in seconds.
    fn seconds(&self, model: &Model, assignment: &[usize]) -> f64 {
        let Term::Tree(tree) = &model.terms[self.definition] else { return 0.0 };
        let mut trees = Trees::new(&model.graphs[tree.graph]);
        tree.cost(assignment, &mut trees).as_seconds()
    }
}

/// All such definitions.
fn retainable(
    problem: &Problem<'_>,
    values: &IndexMap<ValueId, Share>,
    before: OpId,
    again_is_free: bool,
) -> Vec<Retainable> {
    let is_after = |demand: &Demand| match demand {
        Demand::Operand(variable, _) => {
            problem.variables[*variable].decides.operation().is_some_and(|op| op >= before)
        }
        Demand::Fixed(_) => false,
    };
    let of = |definition: usize| {
        let own = &problem.definitions[definition];
        let (value, _, &share) = values.get_full(&own.value).filter(|_| own.per_use)?;
        let after = own.demands.first().is_some_and(is_after);
        let starts_kept = share == Share::Second && !is_there(problem.program, own.value);
        let charges = charges(problem, definition, share, again_is_free);
        let bytes_of_charge = own.multiplicity.max(1) as f64 / share.of_price();
        let retainable =
            Retainable { definition, value, share, starts_kept, charges, bytes_of_charge };
        (after || share == Share::Half).then_some(retainable)
    };
    (0..problem.definitions.len()).filter_map(of).collect()
}

/// Whether the sharding that a value is declared or produced in takes no bytes at the cut point, or
/// the same whether or not it is kept; it is there anyway.
fn is_there(program: &Analyzed, value: ValueId) -> bool {
    is_resident(program, value)
        || demand::takes_no_bytes(program, value)
        || demand::is_recomputed(program, value)
}

/// For each sharding, the bytes that keeping it adds, divided by how often the definition's steps
/// run.
fn charges(
    problem: &Problem<'_>,
    definition: usize,
    share: Share,
    again_is_free: bool,
) -> Vec<f64> {
    let definition = &problem.definitions[definition];
    let (program, value) = (problem.program, definition.value);
    let bytes = |sharding| local_shape::local_bytes(program, value, sharding);
    let shardings = || problem.table(value).space.shardings();
    // Of any other value some sharding is live anyway.
    let there = if is_there(program, value) {
        0.0
    } else {
        shardings().map(bytes).fold(f64::INFINITY, f64::min)
    };
    let part = match share {
        _ if again_is_free && demand::is_recomputed(program, value) => 0.0,
        share => share.of_price(),
    };
    let times = part * pipeline_stages::in_flight_copies(program, value)
        / definition.multiplicity.max(1) as f64;
    shardings().map(|sharding| times * (bytes(sharding) - there)).collect()
}

/// The problem with its two sides, and a price for values kept between them.
struct CutPoint<'p, 'a> {
    problem: &'p Problem<'a>,
    /// The bytes beside those that are always there.
    left: f64,
    /// Terms of retainable definitions have graphs of their own, after the others.
    model: Model,
    /// What choices keep at the cut point whatever the two sides keep.
    live_across: Vec<LiveAcross>,
    retainable: Vec<Retainable>,
}

/// The minimum at a price of a byte.
#[derive(Clone)]
struct Evaluation {
    price: f64,
    bound_s: f64,
    assignment: Vec<usize>,
    /// What is kept of each value.
    kept_bytes: Vec<f64>,
    /// The same together, with what choices keep beside it.
    retained_bytes: f64,
    /// What it took, in the solver's counts.
    work: usize,
}

/// The relative change of the price that measures how many bytes are kept.
const PERTURBED: f64 = 1.0 + 1e-3;

impl<'p, 'a> CutPoint<'p, 'a> {
    fn new(
        problem: &'p Problem<'a>,
        left: f64,
        live_across: Vec<LiveAcross>,
        retainable: Vec<Retainable>,
    ) -> Self {
        let mut model = problem.model();
        for (number, Retainable { definition, starts_kept, .. }) in retainable.iter().enumerate() {
            if let Term::Tree(tree) = &mut model.terms[*definition] {
                if *starts_kept {
                    let store = model.graphs[tree.graph].nodes();
                    tree.root = End::Fixed(store);
                }
                tree.graph = model.graphs.len() + number;
            }
        }
        Self { problem, left, model, live_across, retainable }
    }

    /// The variables of the problem, and the values that may be kept.
    fn variables(&self) -> usize {
        self.model.unary.len()
    }

    fn values(&self) -> usize {
        self.retainable.iter().map(|of| of.value + 1).max().unwrap_or(0)
    }

    /// The bytes that are left beside the least that values keep.
    fn left_beside(&self, kept: &[KeptBytes]) -> f64 {
        self.left - kept.iter().map(|of| of.least).sum::<f64>()
    }

    /// The least bytes above some that a value keeps in any sharding, if there are any.
    fn least_above(&self, value: usize, bytes: f64) -> Option<f64> {
        let own = self.retainable.iter().filter(|of| of.value == value);
        let kept = own.flat_map(|of| of.charges.iter().map(|charge| charge * of.bytes_of_charge));
        kept.filter(|&kept| kept > bytes).min_by(f64::total_cmp)
    }

    /// The minima at the prices that lead to the best bound of all plans.
    fn of_all_plans(&self, asked: &CutRequest, interrupt: &Interrupt) -> Vec<Evaluation> {
        let kept = vec![KeptBytes::ANY; self.values()];
        let first = FIRST * asked.about_s / self.left;
        let mut all: Vec<Evaluation> = Vec::new();
        maximize_concave((first, STRIDE), MOST_EVALUATIONS, |price| {
            let found = self.evaluate(price, &kept, interrupt);
            let (bound_s, slope) = (found.bound_s, found.retained_bytes - self.left);
            all.push(found);
            let work: usize = all.iter().map(|of| of.work).sum();
            let is_over = asked.is_quick && all.len() >= FEW_EVALUATIONS && work > QUICK_WORK;
            let goes_on = !is_over && !interrupt.is_due() && bound_s < asked.enough_s;
            goes_on.then_some((bound_s, slope))
        });
        all
    }

    /// The least sum of steps and kept bytes at `price` seconds a byte, less the price of the bytes
    /// that are left.
    fn evaluate(&self, price: f64, kept: &[KeptBytes], interrupt: &Interrupt) -> Evaluation {
        let model = self.priced(price, kept);
        let mut trees = model.tree_tables();
        let Minimum { bound, assignment, evaluations: work, .. } =
            LagrangianSubproblem::new(&model, &mut trees, interrupt).minimize(&self.charged(price));
        let more = self.priced(price * PERTURBED, kept);
        let of_a_second = 1.0 / (price * PERTURBED - price);
        let mut kept_bytes: Vec<f64> = kept.iter().map(|of| of.least).collect();
        for of in &self.retainable {
            let seconds = |of_model: &Model| of.seconds(of_model, &assignment);
            kept_bytes[of.value] += (seconds(&more) - seconds(&model)) * of_a_second;
        }
        let beside = self.live_across.iter().map(|live| live.bytes[assignment[live.variable]]);
        let retained_bytes = kept_bytes.iter().sum::<f64>() + beside.sum::<f64>();
        let bound_s = bound.as_seconds() - price * self.left_beside(kept);
        Evaluation { price, bound_s, assignment, kept_bytes, retained_bytes, work }
    }

    /// The model in which retainable definitions may start in any sharding at `price` seconds a
    /// byte.
    fn priced(&self, price: f64, kept: &[KeptBytes]) -> Model {
        let with_store = |of: &Retainable| {
            let offers = of.offers(price, kept);
            let Definition { value, multiplicity, .. } = self.problem.definitions[of.definition];
            let graph = self.problem.table(value).graph();
            Arc::new(match of.share {
                Share::Second => graph.with_store(&offers),
                Share::Half => {
                    let turns = self.problem.turns_kept(value);
                    let half_once = |weight: Weight| weight.times(turns).divided(2 * multiplicity);
                    graph.with_copy(half_once, &offers)
                }
            })
        };
        let graphs = self.model.graphs.iter().cloned();
        let graphs = graphs.chain(self.retainable.iter().map(with_store)).collect();
        Model { graphs, ..self.model.clone() }
    }

    /// The unary costs, with the price of the bytes that choices keep all the time, or in sums that
    /// microbatches add to.
    fn charged(&self, price: f64) -> UnaryCosts {
        let mut charged = self.model.unary.clone();
        for live in &self.live_across {
            for (weight, bytes) in charged[live.variable].iter_mut().zip(&*live.bytes) {
                *weight = *weight + Weight::seconds(price * bytes);
            }
        }
        charged
    }
}
