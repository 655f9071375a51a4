//! The solver against enumeration, on random models of a few variables: solutions reported optimal
//! attain the minimum, and bounds are below it, whichever methods are allowed.
//!
//! The trees are enumerated as well, as sets of edges, so that nothing here shares code with
//! [`crate::solver::dreyfus_wagner`].

use std::sync::Arc;

use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};
use smallvec::smallvec;

use crate::solver::*;

const NONE: TableLimits = TableLimits { table: 0, term: 0, work: 0 };

/// Numbers drawn by the test runner, one after another.
struct Draws<'n> {
    numbers: &'n [u32],
    next: usize,
}

impl Draws<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let number = self.numbers[self.next % self.numbers.len()];
        self.next += 1;
        (number as usize + self.next) % limit
    }

    fn cost(&mut self) -> Weight {
        match self.below(12) {
            11 => Weight::INFINITE,
            cost => Weight::seconds(cost as f64),
        }
    }
}

/// A model, and the edges of its only graph.
struct Case {
    model: Model,
    edges: Vec<(Node, Node, Weight)>,
}

fn case(numbers: &[u32]) -> Case {
    let mut draws = Draws { numbers, next: 0 };
    let variables = 1 + draws.below(4);
    let unary: UnaryCosts =
        (0..variables).map(|_| (0..=draws.below(4)).map(|_| draws.cost()).collect()).collect();
    let domains: Vec<usize> = unary.iter().map(Vec::len).collect();
    let nodes = 2 + draws.below(4);
    let edges: Vec<(Node, Node, Weight)> = (0..draws.below(7))
        .map(|_| {
            let (from, to) = (draws.below(nodes), draws.below(nodes));
            (from, to, Weight::seconds(draws.below(6) as f64))
        })
        .collect();
    let of_node = |node: Node| {
        edges.iter().filter(|edge| edge.0 == node).map(|edge| (edge.1, edge.2)).collect()
    };
    let graph = Graph::new(&(0..nodes).map(of_node).collect::<Vec<_>>());
    let tables = (0..draws.below(3)).map(|_| table(&mut draws, &domains)).collect::<Vec<_>>();
    let trees = (0..draws.below(4)).map(|_| tree(&mut draws, &domains, nodes)).collect::<Vec<_>>();
    let terms = tables.into_iter().chain(trees).collect();
    let constant = Weight::seconds(draws.below(3) as f64);
    let graphs = vec![Arc::new(graph)];
    Case { model: Model { unary, terms, graphs, capacity: Capacity::default(), constant }, edges }
}

fn table(draws: &mut Draws<'_>, domains: &[usize]) -> Term {
    let first = draws.below(domains.len());
    let second = draws.below(domains.len());
    let scope = if first == second { vec![first] } else { vec![first, second] };
    let sizes: Vec<usize> = scope.iter().map(|&variable| domains[variable]).collect();
    let costs: Vec<Weight> = (0..sizes.iter().product()).map(|_| draws.cost()).collect();
    let place = |choices: &[usize]| choices[0] + choices.get(1).map_or(0, |c| c * sizes[0]);
    Term::Table(CostTable::new(scope, &sizes, |choices| costs[place(choices)]))
}

fn tree(draws: &mut Draws<'_>, domains: &[usize], nodes: usize) -> Term {
    let placement = |draws: &mut Draws<'_>| {
        let variable = draws.below(domains.len());
        let nodes = (0..domains[variable]).map(|_| draws.below(nodes) as u32).collect();
        Placement { variable, nodes }
    };
    let root = match draws.below(2) {
        0 => End::Fixed(draws.below(nodes)),
        _ => End::Chosen(placement(draws)),
    };
    let group = |draws: &mut Draws<'_>| (0..=draws.below(2)).map(|_| draws.below(nodes)).collect();
    let terminal = |draws: &mut Draws<'_>| match draws.below(3) {
        0 => End::Fixed(group(draws)),
        _ => End::Chosen(placement(draws)),
    };
    let terminals = (0..draws.below(5)).map(|_| terminal(draws)).collect();
    let via = (draws.below(3) == 0).then(|| group(draws));
    Term::Tree(SteinerTerm {
        graph: 0,
        root,
        via,
        terminals,
        multiplicity: 1 + draws.below(3) as u64,
    })
}

fn capacity(numbers: &[u32], unary: &UnaryCosts) -> Capacity {
    let mut draws = Draws { numbers, next: 7 };
    let moments = 1 + draws.below(4);
    let demand = |draws: &mut Draws<'_>| {
        let variable = draws.below(unary.len());
        let start = draws.below(moments);
        let live = start..start + 1 + draws.below(moments - start);
        let numbers = unary[variable].iter().map(|_| draws.below(8) as f64).collect();
        Demand { variable, live, numbers }
    };
    let demands = (0..=draws.below(4)).map(|_| demand(&mut draws)).collect();
    let constants = (0..moments).map(|_| draws.below(2) as f64).collect();
    Capacity { constants, demands, limit: (2 + draws.below(10)) as f64 }
}

impl Case {
    /// The cheapest set of edges on which all terminals are reached from `root`.
    fn tree(&self, root: Node, terminals: &[Terminal]) -> Weight {
        let of_set = |set: u32| {
            let picked = self.edges.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            let mut reached = vec![root];
            for _ in 0..self.edges.len() {
                let next = picked.clone().filter(|(_, edge)| reached.contains(&edge.0));
                let next: Vec<Node> = next.map(|(_, edge)| edge.1).collect();
                reached.extend(next);
                reached.sort_unstable();
                reached.dedup();
            }
            let reaches = |terminal: &Terminal| terminal.iter().any(|node| reached.contains(node));
            terminals.iter().all(reaches).then(|| picked.map(|(_, edge)| edge.2).sum::<Weight>())
        };
        (0..1 << self.edges.len()).filter_map(of_set).min().unwrap_or(Weight::INFINITE)
    }

    fn term(&self, term: &Term, assignment: &[usize]) -> Weight {
        let tree = match term {
            Term::Table(table) => return table.factor.price(assignment),
            Term::Tree(tree) => tree,
        };
        let node = |at: &Placement| at.nodes[assignment[at.variable]] as Node;
        let root = match &tree.root {
            End::Fixed(node) => *node,
            End::Chosen(at) => node(at),
        };
        let terminals: Vec<Terminal> = tree
            .terminals
            .iter()
            .map(|end| match end {
                End::Fixed(group) => group.clone(),
                End::Chosen(at) => smallvec![node(at)],
            })
            .collect();
        let once = match &tree.via {
            None => self.tree(root, &terminals),
            Some(via) => via
                .iter()
                .map(|&via| self.tree(root, &[smallvec![via]]) + self.tree(via, &terminals))
                .min()
                .unwrap_or(Weight::INFINITE),
        };
        once.times(tree.multiplicity)
    }

    fn cost(&self, assignment: &[usize]) -> Weight {
        let own = self.model.unary.iter().zip(assignment).map(|(costs, &choice)| costs[choice]);
        let terms = self.model.terms.iter().map(|term| self.term(term, assignment));
        self.model.constant + own.sum() + terms.sum()
    }

    /// The least cost of all assignments that keep the capacity.
    fn optimum(&self) -> Weight {
        let mut assignments = vec![Vec::new()];
        for costs in &self.model.unary {
            let longer = |assignment: &Vec<usize>| {
                let with = |choice| assignment.iter().copied().chain([choice]).collect();
                (0..costs.len()).map(with).collect::<Vec<Vec<usize>>>()
            };
            assignments = assignments.iter().flat_map(longer).collect();
        }
        let keeps = |assignment: &&Vec<usize>| self.model.capacity.holds(assignment);
        let costs = assignments.iter().filter(keeps).map(|assignment| self.cost(assignment));
        costs.min().unwrap_or(Weight::INFINITE)
    }

    /// A solution's invariants, whatever the limits.
    fn check(&self, limits: Limits, optimum: Weight) -> StopReason {
        let solution = minimize(&self.model, &limits);
        let Solution { assignment, value, bound, stop_reason, .. } = &solution;
        let rounding = Weight::seconds(1e-9 * (1.0 + value.as_seconds().min(1e6)));
        assert!(*bound <= optimum + rounding, "{bound:?} bounds {optimum:?}");
        match assignment {
            Some(assignment) => {
                assert_eq!(
                    self.cost(assignment),
                    *value,
                    "the assignment costs the value \
                    reported"
                );
                assert!(*value >= optimum);
                assert!(self.model.capacity.holds(assignment));
            }
            None => assert_eq!(*value, Weight::INFINITE),
        }
        if stop_reason.is_proof() {
            assert_eq!((*value, *bound), (optimum, optimum));
        }
        match stop_reason {
            StopReason::BoundReached => assert!(*value <= optimum + rounding, "{value:?}"),
            StopReason::Infeasible => assert_eq!(optimum, Weight::INFINITE),
            _ => {}
        }
        let again = minimize(&self.model, &limits);
        assert_eq!(
            (&again.assignment, again.value, again.bound, again.stop_reason),
            (assignment, *value, *bound, *stop_reason),
            "a solution is deterministic"
        );
        *stop_reason
    }
}

fn for_all(cases: u32, check: impl Fn(&[u32])) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let numbers = proptest::collection::vec(any::<u32>(), 96);
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    )
    .run(&numbers, |numbers| {
        check(&numbers);
        Ok(())
    })
    .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn elimination_finds_the_minimum() {
    for_all(100, |numbers| {
        let case = case(numbers);
        let optimum = case.optimum();
        let reason = case.check(Limits::default(), optimum);
        let expected =
            if optimum.is_finite() { StopReason::Eliminated } else { StopReason::Infeasible };
        assert_eq!(reason, expected);
    });
}

#[test]
fn bounds_are_below_the_minimum_and_proofs_are_right() {
    for_all(100, |numbers| {
        let case = case(numbers);
        let optimum = case.optimum();
        case.check(Limits { elimination: NONE, ..Limits::default() }, optimum);
        let none = Limits {
            elimination: NONE,
            heuristic: NONE,
            proof: NONE,
            capacity: 0,
            ..Limits::default()
        };
        let reason = case.check(none, optimum);
        assert!(case.model.terms.is_empty() || !reason.is_proof(), "nothing is eliminated");
    });
}

/// Tables hold a few combinations: what is larger is branched until it fits, or has one assignment
/// left.
#[test]
fn branching_closes_what_has_no_tables() {
    for_all(200, |numbers| {
        let case = case(numbers);
        let optimum = case.optimum();
        for most in [0, 4, 16] {
            let proof = TableLimits { table: most, term: most, work: 1 << 10 };
            let interrupt = Interrupt::NEVER.patient();
            let limits = Limits { elimination: NONE, proof, interrupt, ..Limits::default() };
            let reason = case.check(limits, optimum);
            let is_closed = matches!(reason, StopReason::BoundReached | StopReason::Infeasible);
            assert!(is_closed || reason.is_proof(), "{reason:?}");
        }
    });
}

#[test]
fn what_is_not_below_a_limit_is_not_solved_and_what_is_near_enough_ends_the_work() {
    for_all(100, |numbers| {
        let case = case(numbers);
        let optimum = case.optimum();
        let anytime = Limits { elimination: NONE, ..Limits::default() };
        let below = |below: Weight| minimize(&case.model, &Limits { below, ..anytime.clone() });
        for (limit, is_wanted) in [(optimum, false), (optimum + Weight::seconds(1e-9), true)] {
            let found = below(limit);
            assert!(found.bound <= optimum, "the bound holds");
            let is_proof = is_wanted && found.stop_reason.is_proof();
            assert!(!is_proof || found.value == optimum, "{:?}", found.value);
        }
        let near = minimize(&case.model, &Limits { enough: 0.5, ..anytime });
        assert!(near.bound <= optimum && near.value >= optimum);
        let is_near = near.value.as_seconds() <= 1.5 * near.bound.as_seconds() + 1e-9;
        assert!(near.stop_reason != StopReason::BoundReached || is_near, "{:?}", near.value);
    });
}

#[test]
fn a_capacity_is_kept_and_the_minimum_under_it_is_found() {
    for_all(300, |numbers| {
        let mut case = case(numbers);
        case.model.capacity = capacity(numbers, &case.model.unary);
        let optimum = case.optimum();
        let reason = case.check(Limits::default(), optimum);
        assert!(matches!(reason, StopReason::BoundReached | StopReason::Infeasible), "{reason:?}");
        case.check(Limits { capacity: 0, ..Limits::default() }, optimum);
    });
}

#[test]
fn a_deadline_that_has_passed_stops_with_what_is_known() {
    for_all(20, |numbers| {
        let case = case(numbers);
        let interrupt = Interrupt::at(std::time::Instant::now());
        let limits = Limits { elimination: NONE, proof: NONE, interrupt, ..Limits::default() };
        let reason = case.check(limits, case.optimum());
        let stopped = [StopReason::Interrupted, StopReason::BoundReached, StopReason::Infeasible];
        assert!(case.model.terms.is_empty() || stopped.contains(&reason), "{reason:?}");
    });
}
