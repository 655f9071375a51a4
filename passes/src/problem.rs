//! The sharding problem: one choice of layout for each operation, one tree of reshard steps for
//! each definition of a value.
//!
//! A *definition* is a declaration of a value, the operation that produces it, or a collective that
//! its author wrote. Every use of the value starts from a definition; a use with brackets names the
//! definition that was written so, any other takes the latest. The price of a plan is the
//! operations' own time plus, for each definition, the cheapest tree of reshards from the sharding
//! in which it is defined (through its declared sharding, if the author wrote one) to those of all
//! its uses: a function of the layouts of its producer and its consumers only. So the problem is a
//! model of the solver ([`Problem::model`]): one variable per operation, one Steiner-tree term per
//! definition, and a table where a kernel reads a value for several operations.
//!
//! A block is in the problem once; its costs count once per layer. The operation by which a
//! loop-carried value enters the block demands that the value yielded by one layer has the sharding
//! in which the next layer reads it. A value from before a block is resharded before it, once.
//!
//! A value that is *rematerialised* has a definition for each region of the program that uses it
//! (each block, the forward and the backward part): it is not kept gathered for the next region,
//! but gathered again from the sharding in which it was declared or produced. A layer's parameter
//! that is not rematerialised is also kept gathered for all microbatches, and communicated once per
//! step. The memory limit uses two regions only: before an operation, and from it on.
//!
//! The search, which solves the problem, and the insertion of collectives, which turns an
//! assignment into a plan, both depend on this folder, so that they need not know each other's
//! types.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{Op, Phase, Program};
use smallvec::smallvec;

use crate::reshard::paths::Reshards;
use crate::reshard::sharding_space::State;
use crate::reshard::tables::Tables;
use crate::solver::dreyfus_wagner::{Terminal, Trees};
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{Capacity, End, Model, Placement, SteinerTerm, Term};
use crate::solver::weight::Weight;

mod builder;
pub mod dominance;
mod kernel_reads;
mod layouts;

use kernel_reads::KernelRead;

/// A layout of one operation, as states of its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The state in which each operand is read.
    pub operands: Vec<State>,
    /// The state of the result.
    pub result: State,
    /// The operation's own price.
    pub weight: Weight,
}

/// The state in which a definition starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// A fixed state: declared, or the result of a written collective.
    Fixed(State),
    /// The state that the variable's choice produces.
    Produced(usize),
}

/// A use of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Operand `.1` of variable `.0`.
    Operand(usize, usize),
    /// An output of the program (or the operand of a written collective), in one of these states.
    Fixed(Terminal),
}

/// A definition of a value.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The value.
    pub value: ValueId,
    /// The written collective that produces it, if any.
    pub written: Option<OpId>,
    /// The state in which it is defined.
    pub root: Root,
    /// The states of its declared sharding, if its author wrote one.
    pub declared: Option<Terminal>,
    /// Its uses.
    pub demands: Vec<Demand>,
    /// How often its steps run: once per layer of its block.
    pub multiplicity: u64,
    /// Whether their result is kept gathered from microbatch to microbatch.
    pub kept_gathered: bool,
    /// Whether its steps are placed at its uses, rather than in the block of the value.
    pub per_use: bool,
}

/// Values that are rematerialised after use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rematerialized<'d> {
    /// The values.
    pub values: Option<&'d IndexSet<ValueId>>,
    /// Where they are dropped: at the end of every region of the program, or only before one
    /// operation.
    pub before: Option<OpId>,
}

/// A region of the program: a block's forward or backward part; or, where values are rematerialised
/// before one operation, the part before it or the part from it on.
type Region = (Option<RepeatId>, bool);

impl Rematerialized<'_> {
    fn region(self, program: &Program, op: OpId) -> Region {
        let Op { repeat, phase, .. } = program.ops[op];
        self.before.map_or((repeat, phase == Phase::Backward), |before| (None, op >= before))
    }
}

/// The decision of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The layout of an operation.
    Operation(OpId),
    /// The sharding of a declaration that its author left open (`_?`).
    Declaration(ValueId),
}

impl Decision {
    /// The operation, if the variable belongs to one.
    pub fn operation(self) -> Option<OpId> {
        if let Self::Operation(op) = self { Some(op) } else { None }
    }
}

/// A variable: an operation and its layouts, or an open declaration and its shardings.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its decision.
    pub decides: Decision,
    /// For each operand, the definition that it uses; after those, for a loop-carried value, the
    /// definition that is yielded.
    pub operands: Vec<usize>,
    /// The definition that it produces.
    pub result: usize,
    /// Its possible layouts, in an order in which the first of equals is preferred.
    pub choices: Vec<Choice>,
}

/// The sharding problem of a program; it has no names and no text.
#[derive(Clone)]
pub struct Problem<'a> {
    /// The program, with its dataflow.
    pub program: &'a Analyzed,
    /// The weight of a second of compute.
    pub compute: f64,
    /// Reshard tables.
    pub tables: &'a Tables<'a>,
    /// The variables: operations and open declarations.
    pub variables: Vec<Variable>,
    /// All definitions, in program order.
    pub definitions: Vec<Definition>,
    /// The constant price of written collectives.
    pub fixed: Weight,
    /// What kernels read for several of their operations.
    kernel_reads: Vec<KernelRead>,
}

impl<'a> Problem<'a> {
    /// Builds the problem with weight `compute` for a second of compute and the weights of the
    /// tables for one of a collective. Domains hold every layout of every operation; see
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
        let ops = (0..tables.program.ops.len()).into_par_iter();
        let choices = ops.map(|op| layouts::choices(tables, compute, op.into())).collect();
        builder::build(tables, compute, rematerialized, choices)
    }

    /// [`Problem::new`], with the graphs that its [model](Problem::model) needs; `None` if the time
    /// is over before they are built.
    pub(crate) fn in_time(
        tables: &'a Tables<'a>,
        compute: f64,
        interrupt: &Interrupt,
    ) -> Option<Self> {
        let choices =
            |op: usize| interrupt.before_due(|| layouts::choices(tables, compute, op.into()));
        let ops = (0..tables.program.ops.len()).into_par_iter();
        let choices = ops.map(choices).collect::<Option<_>>()?;
        let build_graph = |table: &Reshards| {
            interrupt.before_due(|| {
                table.graph();
            })
        };
        tables.all.par_iter().map(build_graph).collect::<Option<()>>()?;
        Some(builder::build(tables, compute, Rematerialized::default(), choices))
    }

    /// The problem with these choices of operations alone and with other values rematerialised, and
    /// the same assignment in it: what a plan of the assignment is made of.
    #[must_use]
    pub(crate) fn of_assignment(
        &self,
        assignment: &[usize],
        rematerialized: Rematerialized<'_>,
    ) -> (Self, Vec<usize>) {
        let chosen = || self.variables.iter().zip(assignment);
        let choices_of: IndexMap<OpId, &Choice, FxBuildHasher> = chosen()
            .filter_map(|(variable, &choice)| {
                Some((variable.decides.operation()?, &variable.choices[choice]))
            })
            .collect();
        // Without results, whose shardings are added on demand.
        let read_only = |(id, op): (OpId, &Op)| {
            let choice = choices_of.get(&id)?;
            let operands = choice.operands.iter().copied().take(op.operands.len()).collect();
            Some(Choice { operands, ..(*choice).clone() })
        };
        let ops = self.program.ops.iter_enumerated();
        let choices = ops.map(|op| read_only(op).into_iter().collect()).collect();
        let problem = builder::build(self.tables, self.compute, rematerialized, choices);
        let only = |(variable, &choice): (&Variable, &usize)| match variable.decides {
            Decision::Operation(_) => 0,
            Decision::Declaration(_) => choice,
        };
        (problem, chosen().map(only).collect())
    }

    /// How often a reshard of a value counts in a block, by whether its result is kept gathered for
    /// all microbatches.
    fn weighted(&self, block: Option<RepeatId>, value: ValueId, kept_gathered: bool) -> u64 {
        self.tables
            .cost_model
            .turns(self.program.reshard_trip_count(block, value, kept_gathered), self.compute)
    }

    /// How often a reshard of a value counts that is kept gathered for all microbatches and both
    /// parts of the program.
    pub(crate) fn turns_kept(&self, value: ValueId) -> u64 {
        self.weighted(self.program.values[value].repeat, value, true)
    }

    /// The reshard table of a value.
    pub fn table(&self, value: ValueId) -> &Reshards {
        self.tables.of(value)
    }

    /// The problem as a model of the solver: a variable for each of its own, a Steiner-tree term
    /// for each definition, and then the tables of what kernels read for several operations. Both
    /// have the same assignments.
    pub fn model(&self) -> Model {
        let unary = |variable: &Variable| {
            variable.choices.iter().map(|choice| choice.weight).collect::<Vec<Weight>>()
        };
        let trees = self.definitions.iter().map(|definition| Term::Tree(self.term(definition)));
        let reads = self.kernel_reads.iter().filter_map(|read| read.term(self));
        let graphs = self.tables.all.par_iter().map(|table| Arc::clone(table.graph())).collect();
        Model {
            unary: self.variables.iter().map(unary).collect(),
            terms: trees.chain(reads).collect(),
            graphs,
            capacity: Capacity::default(),
            constant: self.fixed,
        }
    }

    /// The tree of a definition.
    pub(crate) fn term(&self, definition: &Definition) -> SteinerTerm {
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
            Demand::Operand(variable, k) => smallvec![choice(*variable).operands[*k]],
            Demand::Fixed(states) => states.clone(),
        });
        (root, uses.collect())
    }

    /// Whether every value can be resharded from the state it is produced in to those its uses
    /// need.
    pub(crate) fn is_realisable(&self, assignment: &[usize], trees: &mut [Trees<'_>]) -> bool {
        self.definitions.iter().all(|definition| {
            let (root, uses) = self.realised(definition, assignment);
            let trees = &mut trees[self.tables.number(definition.value)];
            trees.cost_via(root, definition.declared.as_deref(), &uses).is_finite()
        })
    }
}
