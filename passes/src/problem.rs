//! The sharding problem: one choice of layout for each operation, one tree of reshard steps for
//! each definition of a value.
//!
//! A *definition* is a declaration of a value, the operation that produces it, or a collective that
//! its author wrote. Every use of the value starts from a definition; a use with brackets names the
//! definition that was written so, any other takes the latest. The price of a plan is the
//! operations' own time plus, for each definition, the cheapest tree that brings the value from
//! where it is defined (by way of its declared sharding, if the author wrote one) to all of its
//! uses: a function of the layouts of its producer and its consumers only. So the problem is a
//! model of the solver's ([`Problem::model`]): a variable an operation, a Steiner-tree term a
//! definition.
//!
//! A block is in the problem once; what belongs to it counts as often as it has layers. That what
//! one layer yields is in the sharding in which the next takes it is a demand of the operation that
//! lets it enter. What comes from before a block is moved before it, once.
//!
//! A value that is *rematerialised* has a definition for each region of the program that uses it
//! (each block, the forward and the backward part): what is gathered in one is not kept for the
//! next, but gathered again from where the value was declared or produced. A layer's parameter that
//! is not rematerialised is kept gathered for all microbatches, too, and moved once a step. The
//! memory limit asks for two regions only, in front of an operation and from it on.
//!
//! The folder stands below the search, which solves the problem, and below the insertion of
//! collectives, which makes an assignment a plan, so that the two need not know each other's types.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use shardwise_ir::dataflow::Analyzed;
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
    pub operands: Vec<State>,
    /// The state in which the result comes out.
    pub result: State,
    /// The operation's own price.
    pub weight: Weight,
}

/// Where a definition's value first is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// In one state: declared so, or given by a written collective.
    Fixed(State),
    /// Wherever the variable's choice puts it.
    Produced(usize),
}

/// A use of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Operand `.1` of variable `.0`.
    Operand(usize, usize),
    /// Leaves the program (or feeds a written collective) in one of these states.
    Fixed(Terminal),
}

/// One coming-to-be of a value.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Which value.
    pub value: ValueId,
    /// The written collective that gives it, if one does.
    pub written: Option<OpId>,
    /// Where it comes to be.
    pub root: Root,
    /// Where it is brought first, if its author said so.
    pub declared: Option<Terminal>,
    /// Who uses it.
    pub demands: Vec<Demand>,
    /// How often its steps are taken: once a layer of the block that it belongs to.
    pub multiplicity: u64,
    /// Whether what they give is kept gathered from microbatch to microbatch.
    pub kept_gathered: bool,
    /// Whether its steps stand where it is used, rather than where the value lives.
    pub per_use: bool,
}

/// Values that are rematerialised after use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rematerialized<'d> {
    /// Which, if any.
    pub values: Option<&'d IndexSet<ValueId>>,
    /// At what: at the end of every part of the program, unless it is only in front of one
    /// operation.
    pub before: Option<OpId>,
}

/// A region of the program: a block's forward or backward part; or, where values are rematerialised
/// before one operation, what is in front of it or not.
type Region = (Option<RepeatId>, bool);

impl Rematerialized<'_> {
    fn region(self, program: &Program, op: OpId) -> Region {
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
    /// For each operand, the definition that it uses; after those, for what enters a block, the
    /// one that is yielded.
    pub operands: Vec<usize>,
    /// The definition that it gives.
    pub result: usize,
    /// Its possible layouts, in an order in which the first of equals is preferred.
    pub choices: Vec<Choice>,
}

/// Everything the search needs; no names, no text.
#[derive(Clone)]
pub struct Problem<'a> {
    /// The program, with its dataflow.
    pub program: &'a Analyzed,
    /// What a second of compute counts.
    pub compute: f64,
    /// Reshard tables.
    pub tables: &'a Tables<'a>,
    /// Operations that may choose.
    pub variables: Vec<Variable>,
    /// All definitions, in program order.
    pub definitions: Vec<Definition>,
    /// The price of what was written and stays: collectives, whatever is chosen.
    pub fixed: Weight,
}

impl<'a> Problem<'a> {
    /// Sets the problem up, where a second of compute counts `compute` and one of a collective what
    /// the tables say. Domains hold every layout of every operation; see
    /// [`dominance`] for what may be left out.
    pub fn new(tables: &'a Tables<'a>, compute: f64) -> Self {
        Self::rematerializing(tables, compute, Rematerialized::default())
    }

    /// The same with some values rematerialised after use.
    pub fn rematerializing(
        tables: &'a Tables<'a>,
        compute: f64,
        rematerialized: Rematerialized<'_>,
    ) -> Self {
        builder::build(tables, compute, rematerialized, &layouts::choices)
    }

    /// The same problem with other values rematerialised: its choices keep their numbers.
    #[must_use]
    pub(crate) fn rematerializing_others(&self, rematerialized: Rematerialized<'_>) -> Self {
        let variables = self
            .variables
            .iter()
            .filter_map(|variable| Some((variable.decides.operation()?, &variable.choices)));
        let choices_of: IndexMap<OpId, &Vec<Choice>> = variables.collect();
        // Without results, whose shardings are added when a use asks for them.
        let read_only = |choice: &Choice, op: &Op| Choice {
            operands: choice.operands.iter().copied().take(op.operands.len()).collect(),
            ..choice.clone()
        };
        builder::build(self.tables, self.compute, rematerialized, &|problem, op| {
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
    fn weighted(&self, block: Option<RepeatId>, value: ValueId, kept_gathered: bool) -> u64 {
        self.tables
            .cost_model
            .turns(self.program.reshard_trip_count(block, value, kept_gathered), self.compute)
    }

    /// The reshard table of a value.
    pub fn table(&self, value: ValueId) -> &Reshards {
        self.tables.of(value)
    }

    /// The problem as a model of the solver: a variable for each of its own, a Steiner-tree term
    /// for each definition. Assignments of the one are assignments of the other.
    pub fn model(&self) -> Model {
        let unary = |variable: &Variable| {
            variable.choices.iter().map(|choice| choice.weight).collect::<Vec<Weight>>()
        };
        let terms = self.definitions.iter().map(|definition| Term::Tree(self.term(definition)));
        let graphs = self.tables.all.par_iter().map(|table| Arc::clone(table.graph())).collect();
        Model {
            unary: self.variables.iter().map(unary).collect(),
            terms: terms.collect(),
            graphs,
            rows: Vec::new(),
            constant: self.fixed,
        }
    }

    fn term(&self, definition: &Definition) -> SteinerTerm {
        let placed = |variable: usize, node: &dyn Fn(&Choice) -> State| Placement {
            variable,
            nodes: self.variables[variable].choices.iter().map(|c| node(c) as u32).collect(),
        };
        let root = match definition.root {
            Root::Fixed(state) => End::Fixed(state),
            Root::Produced(variable) => End::Chosen(placed(variable, &|choice| choice.result)),
        };
        let terminals = definition.demands.iter().map(|demand| match demand {
            Demand::Fixed(states) => End::Fixed(states.clone()),
            Demand::Operand(variable, k) => {
                End::Chosen(placed(*variable, &|choice| choice.operands[*k]))
            }
        });
        SteinerTerm {
            graph: self.tables.number(definition.value),
            root,
            via: definition.declared.clone(),
            terminals: terminals.collect(),
            multiplicity: definition.multiplicity,
        }
    }

    /// The uses of a definition under an assignment, in the order of its demands, and the state it
    /// is defined in.
    pub(crate) fn realised(
        &self,
        definition: &Definition,
        assignment: &[usize],
    ) -> (State, Vec<Terminal>) {
        let choice = |variable: usize| &self.variables[variable].choices[assignment[variable]];
        let root = match definition.root {
            Root::Fixed(state) => state,
            Root::Produced(variable) => choice(variable).result,
        };
        let uses = definition.demands.iter().map(|demand| match demand {
            Demand::Operand(variable, k) => vec![choice(*variable).operands[*k]],
            Demand::Fixed(states) => states.clone(),
        });
        (root, uses.collect())
    }

    /// Whether every value can be brought from where these choices give it to where they need it.
    pub(crate) fn is_realisable(&self, assignment: &[usize], trees: &mut [Trees<'_>]) -> bool {
        self.definitions.iter().all(|definition| {
            let (root, uses) = self.realised(definition, assignment);
            let trees = &mut trees[self.tables.number(definition.value)];
            trees.cost_via(root, definition.declared.as_deref(), &uses).is_finite()
        })
    }
}
