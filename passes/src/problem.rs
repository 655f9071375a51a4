//! The search problem: one choice of layout for each operation, one tree of reshard steps for each
//! value.
//!
//! A *source* is one coming-to-be of a value: its declaration, the operation that gives it, or a
//! collective that its author wrote. Every use of the value starts from a source; a use with
//! brackets names the source that was written so, any other takes the latest. The price of a plan
//! is the operations' own time plus, for each source, the cheapest tree that brings it from where
//! it comes to be (by way of its home, if the author gave it one) to all of its uses: a function of
//! the layouts of its producer and its consumers only.
//!
//! A block is in the problem once; what belongs to it counts as often as it has layers. That what
//! is handed on is in the sharding in which it enters is a demand of the operation that lets it
//! enter. What comes from before a block is moved before it, once.
//!
//! A value that is *dropped* after use has a source for each part of the program that uses it (each
//! block, the forward and the backward part): what is gathered in one is not held for the next, but
//! gathered again from where the value was declared or given. A layer's parameter that is not
//! dropped is held for all microbatches, too, and moved once a step.
//! [`crate::search::memory::rematerialize`] asks for two parts only, in front of an operation and
//! from it on.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{Op, Phase, Program};

use crate::reshard::paths::Reshards;
use crate::reshard::sharding_space::State;
use crate::reshard::tables::Tables;
use crate::solver::dreyfus_wagner::{Terminal, Trees};
use crate::solver::model::{End, Model, Placement, SteinerTerm, Term};
use crate::solver::weight::Weight;

mod builder;
pub mod dominance;
mod layouts;

/// A layout of one operation, in numbers of the states of its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The state in which each operand must be.
    pub needs: Vec<State>,
    /// The state in which the result comes out.
    pub gives: State,
    /// The operation's own price.
    pub weight: Weight,
}

/// Where a source's value first is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// In one state: declared so, or given by a written collective.
    Fixed(State),
    /// Wherever the variable's choice puts it.
    Produced(usize),
}

/// A use of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Operand `.1` of variable `.0`.
    Operand(usize, usize),
    /// Leaves the program (or feeds a written collective) in one of these states.
    Fixed(Terminal),
}

/// One coming-to-be of a value.
#[derive(Clone, Debug)]
pub struct Source {
    /// Which value.
    pub value: ValueId,
    /// The written collective that gives it, if one does.
    pub written: Option<OpId>,
    /// Where it comes to be.
    pub root: Root,
    /// Where it is brought first, if its author said so.
    pub home: Option<Terminal>,
    /// Who uses it.
    pub demands: Vec<Demand>,
    /// How often its steps are taken: once a layer of the block that it belongs to.
    pub times: u64,
    /// Whether what they give is held from microbatch to microbatch.
    pub held: bool,
    /// Whether its steps stand where it is used, rather than where the value lives.
    pub again: bool,
}

/// Values that are dropped after use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dropped<'d> {
    /// Which, if any.
    pub values: Option<&'d IndexSet<ValueId>>,
    /// At what: at the end of every part of the program, unless it is only in front of one
    /// operation.
    pub before: Option<OpId>,
}

/// A part of the program: a block's forward or backward part; or, where values are dropped before
/// one operation, what is in front of it or not.
type PartOfProgram = (Option<RepeatId>, bool);

impl Dropped<'_> {
    fn part(self, program: &Program, op: OpId) -> PartOfProgram {
        let Op { repeat, phase, .. } = program.ops[op];
        self.before.map_or((repeat, phase == Phase::Backward), |before| (None, op >= before))
    }
}

/// What a variable decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// How an operation is laid out.
    Operation(OpId),
    /// Where a declared value is whose author left it open (`_?`).
    Declaration(ValueId),
}

impl Decision {
    /// The operation, if it is one's.
    pub fn operation(self) -> Option<OpId> {
        if let Self::Operation(op) = self { Some(op) } else { None }
    }
}

/// A variable: an operation and its layouts, or an open declaration and its shardings.
#[derive(Clone, Debug)]
pub struct Variable {
    /// What it decides.
    pub decides: Decision,
    /// For each operand, the source that it uses; behind those, for what enters a block, the one
    /// that is handed on.
    pub operands: Vec<usize>,
    /// The source that it gives.
    pub gives: usize,
    /// Its possible layouts, in an order in which the first of equals is preferred.
    pub choices: Vec<Choice>,
}

/// Everything the search needs; no names, no text.
#[derive(Clone)]
pub struct Problem<'a> {
    /// The program.
    pub program: &'a Program,
    /// What a second of compute counts.
    pub compute: f64,
    /// Reshard tables.
    pub tables: &'a Tables<'a>,
    /// Operations that may choose.
    pub variables: Vec<Variable>,
    /// All sources, in program order.
    pub sources: Vec<Source>,
    /// The price of what was written and stays: collectives, whatever is chosen.
    pub fixed: Weight,
}

impl<'a> Problem<'a> {
    /// Sets the problem up, where a second of compute counts `compute` and one of a collective what
    /// the tables say. Domains hold every layout of every operation; see
    /// [`crate::solver::dominance`] for what may be left out.
    pub fn new(tables: &'a Tables<'a>, compute: f64) -> Self {
        Self::dropping(tables, compute, Dropped::default())
    }

    /// The same with some values dropped after use.
    pub fn dropping(tables: &'a Tables<'a>, compute: f64, dropped: Dropped<'_>) -> Self {
        builder::build(tables, compute, dropped, &layouts::choices)
    }

    /// The same problem with other values dropped: its choices keep their numbers.
    #[must_use]
    pub fn dropping_others(&self, dropped: Dropped<'_>) -> Self {
        let variables = self
            .variables
            .iter()
            .filter_map(|variable| Some((variable.decides.operation()?, &variable.choices)));
        let choices_of: IndexMap<OpId, &Vec<Choice>> = variables.collect();
        // Without results, whose shardings are added when a use asks for them.
        let read_only = |choice: &Choice, op: &Op| Choice {
            needs: choice.needs.iter().copied().take(op.operands.len()).collect(),
            ..choice.clone()
        };
        builder::build(self.tables, self.compute, dropped, &|problem, op| {
            let as_read = |choice: &Choice| read_only(choice, &problem.program.ops[op]);
            choices_of
                .get(&op)
                .into_iter()
                .flat_map(|choices| choices.iter().map(as_read))
                .collect()
        })
    }

    /// How often a move of a value counts in a block, where what it gives is held for microbatches
    /// or not.
    fn weighted(&self, block: Option<RepeatId>, value: ValueId, held: bool) -> u64 {
        self.tables
            .cost_model
            .turns(self.program.reshard_trip_count(block, value, held), self.compute)
    }

    /// The reshard table of a value.
    pub fn table(&self, value: ValueId) -> &Reshards {
        self.tables.of(value)
    }

    /// The problem as a model of the solver: a variable for each of its own, a Steiner-tree term
    /// for each source. Assignments of the one are assignments of the other.
    pub fn model(&self) -> Model {
        let unary = |variable: &Variable| {
            variable.choices.iter().map(|choice| choice.weight).collect::<Vec<Weight>>()
        };
        let terms = self.sources.iter().map(|source| Term::Tree(self.term(source)));
        let graphs = self.tables.all.par_iter().map(|table| Arc::clone(table.graph())).collect();
        Model {
            unary: self.variables.iter().map(unary).collect(),
            terms: terms.collect(),
            graphs,
            rows: Vec::new(),
            constant: self.fixed,
        }
    }

    fn term(&self, source: &Source) -> SteinerTerm {
        let placed = |variable: usize, node: &dyn Fn(&Choice) -> State| Placement {
            variable,
            nodes: self.variables[variable].choices.iter().map(|c| node(c) as u32).collect(),
        };
        let root = match source.root {
            Root::Fixed(state) => End::Fixed(state),
            Root::Produced(variable) => End::Chosen(placed(variable, &|choice| choice.gives)),
        };
        let terminals = source.demands.iter().map(|demand| match demand {
            Demand::Fixed(states) => End::Fixed(states.clone()),
            Demand::Operand(variable, k) => {
                End::Chosen(placed(*variable, &|choice| choice.needs[*k]))
            }
        });
        SteinerTerm {
            graph: self.tables.number(source.value),
            root,
            via: source.home.clone(),
            terminals: terminals.collect(),
            multiplicity: source.times,
        }
    }

    /// The uses of a source under an assignment, in the order of its demands, and the state it
    /// comes to be in.
    pub(crate) fn realised(&self, source: &Source, assignment: &[usize]) -> (State, Vec<Terminal>) {
        let choice = |variable: usize| &self.variables[variable].choices[assignment[variable]];
        let root = match source.root {
            Root::Fixed(state) => state,
            Root::Produced(variable) => choice(variable).gives,
        };
        let uses = source.demands.iter().map(|demand| match demand {
            Demand::Operand(variable, k) => vec![choice(*variable).needs[*k]],
            Demand::Fixed(states) => states.clone(),
        });
        (root, uses.collect())
    }

    /// Whether every value can be brought from where these choices give it to where they need it.
    pub(crate) fn is_realisable(&self, assignment: &[usize], trees: &mut [Trees<'_>]) -> bool {
        self.sources.iter().all(|source| {
            let (root, uses) = self.realised(source, assignment);
            let trees = &mut trees[self.tables.number(source.value)];
            trees.cost_via(root, source.home.as_deref(), &uses).is_finite()
        })
    }
}
