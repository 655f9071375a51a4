//! Minimises a model of tables under a capacity, with proof where the work allows.
//!
//! The model becomes a *network* of variables and tables over pairs of them; a table over more is a
//! variable of its own, whose choices are the combinations. Then, in this order:
//!
//! * **Presolve** ([`presolve`], [`consistency`], [`dominance`], [`moments`]): exact reductions
//!   that see what choices demand.
//! * **The dual** ([`message_passing`], [`multipliers`]): message passing on the tables and Newton
//!   steps on the multipliers of moments together, at falling temperatures. Its bound is that of
//!   the linear relaxation with all moments in it, up to a part in a thousand or better.
//! * **Reduced-cost fixing**, after which presolve applies again ([`node`]).
//! * **A dynamic programme over frontiers** ([`frontier`]) that closes what fixing leaves.
//! * **Diving** ([`diving`]), then **phases below guesses of the value** ([`guesses`]), each by
//!   fixing and by **branch and bound** with pseudo-costs ([`search`], [`branching`]).
//! * **Moments as they are exceeded**, and **large neighbourhoods** ([`neighbourhoods`]).
//!
//! Work is counted in entries of tables, never timed. Alternatives: a mixed-integer programme with
//! one variable per entry has the same relaxation, and takes a general solver minutes to hours on
//! instances that this closes in seconds ([`crate::solver::lagrangian`] remains for trees that have
//! no table); toulbar2's soft arc consistency has no rows of capacity in its bound.

pub(crate) mod branching;
pub(crate) mod consistency;
pub(crate) mod diving;
pub(crate) mod dominance;
pub(crate) mod frontier;
pub(crate) mod guesses;
pub(crate) mod message_passing;
pub(crate) mod moments;
pub(crate) mod multipliers;
pub(crate) mod neighbourhoods;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod open_nodes;
pub(crate) mod presolve;
pub(crate) mod rounding;
pub(crate) mod search;

use rustc_hash::FxHashMap;

use crate::solver::capacity::network::{Demand, INFINITE, Moment, Network};
use crate::solver::capacity::search::{Effort, MOST_NUMBERS, Search};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::TableLimits;
use crate::solver::factor::Factor;
use crate::solver::interrupt::Interrupt;
use crate::solver::lagrangian::{Bounded, Offer};
use crate::solver::model::Model;
use crate::solver::tabulate::{Classified, TabulatedTerms};
use crate::solver::weight::Weight;

/// Tables of single terms, and the work for them.
const TABLES: TableLimits = TableLimits { table: 1 << 24, term: 1 << 21, work: 1 << 18 };

/// Entries of all tables of the network.
const MOST_ENTRIES: usize = 1 << 26;

/// Combinations of the choices of a table over more than two variables.
const MOST_COMBINATIONS: usize = 1 << 12;

/// The limits of a search under a capacity.
#[derive(Clone, Copy)]
pub(crate) struct CapacityLimits<'i> {
    /// Entries of tables to visit.
    pub(crate) work: usize,
    pub(crate) interrupt: &'i Interrupt,
}

/// Minimises a model under its capacity; `None` if its terms have no tables of a size that can be
/// kept.
pub(crate) fn minimize_within<'m>(
    model: &'m Model,
    trees: &mut [Trees<'m>],
    limits: CapacityLimits<'_>,
    offer: &mut Offer<'_>,
) -> Option<Bounded> {
    let mut converted = Converted::new(model, trees, limits.interrupt)?;
    converted.network.presolve(&|| limits.interrupt.is_due());
    let (small, left) = converted.network.compact();
    let mut best_s = INFINITE;
    let mut accept = |assignment: &[usize], _: f64| {
        let mut all = vec![0; converted.network.unary.len()];
        left.iter().zip(assignment).for_each(|(&variable, &choice)| all[variable] = choice);
        let choices = converted.choices(&converted.network.decode(&all));
        let value_s = offer(&choices, trees, best_s)?;
        best_s = value_s;
        Some(Weight::seconds(value_s).femtoseconds())
    };
    let CapacityLimits { work, interrupt } = limits;
    let effort =
        Effort { work, nodes: usize::MAX, numbers: MOST_NUMBERS, neighbourhoods: true, interrupt };
    let mut search = Search::new(small, INFINITE, effort, &mut accept);
    search.run();
    let (value, bound, was_cut_short) = (search.value, search.bound, search.is_over());
    let lower_bound_s = if bound >= value { best_s } else { Weight::as_seconds_of(bound) };
    Some(Bounded { best_s, lower_bound_s, was_cut_short })
}

/// A model as a network, with costs in femtoseconds.
struct Converted {
    network: Network,
    /// For each variable of the model, its choices in the network.
    kept: Vec<Vec<usize>>,
}

impl Converted {
    /// `None` if the terms have no tables of a size that can be kept.
    fn new(model: &Model, trees: &mut [Trees<'_>], interrupt: &Interrupt) -> Option<Self> {
        let terms = TabulatedTerms::exactly(&Classified::new(model), trees, TABLES, interrupt)?;
        let kept = distinct_choices(model, terms.factors());
        let pick = |variable: usize, numbers: &dyn Fn(usize) -> f64| -> Vec<f64> {
            kept[variable].iter().map(|&choice| numbers(choice)).collect()
        };
        let own = |v: usize| pick(v, &|choice| model.unary[v][choice].femtoseconds());
        let capacity = &model.capacity;
        let moments = capacity.constants.iter().enumerate();
        let moments = moments.map(|(id, constant)| Moment { id, slack: capacity.limit - constant });
        let unary = (0..kept.len()).map(own).collect();
        let mut network = Network::new(unary, moments.collect(), model.constant.femtoseconds());
        for demand in capacity.demands.iter().filter(|demand| !demand.live.is_empty()) {
            let numbers = pick(demand.variable, &|choice| demand.numbers[choice]);
            network.add_demand(demand.variable, Demand { live: demand.live.clone(), numbers });
        }
        let mut entries = 0_usize;
        for factor in terms.factors() {
            entries = entries.saturating_add(entries_of(factor, &kept)?);
            if entries > MOST_ENTRIES {
                return None;
            }
            add_factor(&mut network, factor, &kept);
        }
        Some(Self { network, kept })
    }

    /// The choices of the model's variables in an assignment of the network.
    fn choices(&self, assignment: &[usize]) -> Vec<usize> {
        self.kept.iter().zip(assignment).map(|(kept, &choice)| kept[choice]).collect()
    }
}

/// For each variable, its choices but those that no table distinguishes from another one that
/// costs and demands no more.
fn distinct_choices(model: &Model, factors: &[Factor]) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<&[u32]>> = vec![Vec::new(); model.unary.len()];
    for factor in factors {
        for (&variable, of_choices) in factor.scope.iter().zip(&factor.classes) {
            classes[variable].push(of_choices);
        }
    }
    let mut demands: Vec<Vec<&[f64]>> = vec![Vec::new(); model.unary.len()];
    for demand in &model.capacity.demands {
        demands[demand.variable].push(&demand.numbers);
    }
    let of_variable = |variable: usize| {
        let costs = &model.unary[variable];
        let is_at_most = |a: usize, b: usize| {
            costs[a] <= costs[b] && demands[variable].iter().all(|of| of[a] <= of[b])
        };
        let mut groups: FxHashMap<Vec<u32>, Vec<usize>> = FxHashMap::default();
        for choice in 0..costs.len() {
            let key = classes[variable].iter().map(|classes| classes[choice]).collect();
            let group = groups.entry(key).or_default();
            if !group.iter().any(|&other| is_at_most(other, choice)) {
                group.retain(|&other| !is_at_most(choice, other));
                group.push(choice);
            }
        }
        let mut kept: Vec<usize> = groups.into_values().flatten().collect();
        kept.sort_unstable();
        kept
    };
    (0..model.unary.len()).map(of_variable).collect()
}

/// Entries of the tables of a term; `None` if it has too many combinations.
fn entries_of(factor: &Factor, kept: &[Vec<usize>]) -> Option<usize> {
    let mut sizes = factor.scope.iter().map(|&variable| kept[variable].len());
    if factor.scope.len() <= 2 {
        return Some(sizes.product());
    }
    let combinations = factor.table.len();
    (combinations <= MOST_COMBINATIONS).then(|| combinations * sizes.by_ref().sum::<usize>())
}

/// Adds the table of a term; one over more than two variables as a variable of its own, tied to
/// each of them.
fn add_factor(network: &mut Network, factor: &Factor, kept: &[Vec<usize>]) {
    let cost = |place: usize| factor.table[place].femtoseconds();
    let choices = |i: usize| kept[factor.scope[i]].iter();
    let places = |i: usize| choices(i).map(move |&choice| factor.offset(i, choice));
    match factor.scope[..] {
        [] => network.constant += cost(0),
        [variable] => {
            let more: Vec<f64> = places(0).map(cost).collect();
            network.unary[variable].iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        [first, second] => {
            let costs = places(0).flat_map(|x| places(1).map(move |y| cost(x + y)));
            network.add_table(first, second, costs.collect());
        }
        _ => {
            let combinations = factor.table.len();
            let combined = network.add_variable((0..combinations).map(cost).collect());
            for (i, &variable) in factor.scope.iter().enumerate() {
                let class = |place: usize| place / factor.strides[i] % factor.classes_of(i);
                let tie = |of_choice: usize, place: usize| {
                    if class(place) == of_choice { 0.0 } else { INFINITE }
                };
                let costs = choices(i).flat_map(|&choice| {
                    let of_choice = factor.classes[i][choice] as usize;
                    (0..combinations).map(move |place| tie(of_choice, place))
                });
                network.add_table(variable, combined, costs.collect());
            }
        }
    }
}
