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
//! dropped is held for all microbatches, too, and moved once a step. [`crate::search::memory::rematerialize`] asks for
//! two parts only, in front of an operation and from it on.

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::plan::Materialization;
use shardwise_ir::program::{Blocks, CollectiveKind, MapForm, Op, OpKind, Phase, Program};
use shardwise_ir::sharding::{AxisList, Pin, Reduction, Sharding};
use shardwise_ir::unroll::is_loop_exit;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::cost::local;
use crate::cost::report;
use crate::cost::send_recv::{self, Sent};
use crate::propagate::composite;
use crate::propagate::op_layouts;
use crate::reshard::paths::Reshards;
use crate::reshard::sharding_space::State;
use crate::reshard::tables::Tables;
use crate::solver::dreyfus_wagner::Terminal;
use crate::solver::weight::Weight;

/// What a plan is cheapest by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Objective {
    /// The sum of all steps.
    #[default]
    Serial,
    /// The sum of all collectives.
    Comm,
    /// The busiest resource, compute or an axis's links: what no schedule can be faster than.
    Overlap,
}

impl Objective {
    /// As options and reports write it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What a second of compute counts where steps are added up.
    pub fn compute(self) -> f64 {
        match self {
            Self::Serial | Self::Overlap => 1.0,
            Self::Comm => 0.0,
        }
    }
}

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
    /// Which table its ways are in: that of its value's shape, unless one of its own was made.
    pub table: usize,
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
    /// the tables say. Domains hold every layout of every operation; see [`crate::solver::dominance`] for
    /// what may be left out.
    pub fn new(tables: &'a Tables<'a>, compute: f64) -> Self {
        Self::dropping(tables, compute, Dropped::default())
    }

    /// The same with some values dropped after use.
    pub fn dropping(tables: &'a Tables<'a>, compute: f64, dropped: Dropped<'_>) -> Self {
        Self::build(tables, compute, dropped, &choices)
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
        Self::build(self.tables, self.compute, dropped, &|problem, op| {
            let as_read = |choice: &Choice| read_only(choice, &problem.program.ops[op]);
            choices_of
                .get(&op)
                .into_iter()
                .flat_map(|choices| choices.iter().map(as_read))
                .collect()
        })
    }

    fn build(
        tables: &'a Tables<'a>,
        compute: f64,
        dropped: Dropped<'_>,
        choices: &(dyn Fn(&Self, OpId) -> Vec<Choice> + Sync),
    ) -> Self {
        let program = tables.program;
        let fixed = Weight::ZERO;
        let mut problem =
            Self { program, compute, tables, variables: Vec::new(), sources: Vec::new(), fixed };
        let mut builder = Builder {
            current: vec![Vec::new(); program.values.len()],
            dropped,
            parts: IndexMap::default(),
        };
        builder.declared(&mut problem);
        let layouts: Vec<Vec<Choice>> =
            (0..program.ops.len()).into_par_iter().map(|op| choices(&problem, op.into())).collect();
        for ((op_id, op), choices) in program.ops.iter_enumerated().zip(layouts) {
            match &op.kind {
                OpKind::Collective(kind) => builder.written(&mut problem, op_id, op, kind),
                _ => builder.variable(&mut problem, op_id, choices),
            }
        }
        for output in &program.outputs {
            if output
                .yields_to
                .is_some_and(|enters| builder.hand_on(&mut problem, output.value, enters))
            {
                continue;
            }
            let source = builder.source_for(&problem, output.value, Some(&output.pin));
            let states = problem.tables.states(output.value, &output.pin);
            problem.sources[source].demands.push(Demand::Fixed(states));
        }
        problem
    }

    /// How often a move of a value counts in a block, where what it gives is held for microbatches
    /// or not.
    fn weighted(&self, block: Option<RepeatId>, value: ValueId, held: bool) -> u64 {
        self.tables
            .cost_model
            .turns(self.program.reshard_trip_count(block, value, held), self.compute)
    }

    /// The same with only these choices, each variable's in this order.
    #[must_use]
    pub fn restricted(&self, kept: &[Vec<usize>]) -> Self {
        let mut restricted = self.clone();
        for (variable, kept) in restricted.variables.iter_mut().zip(kept) {
            variable.choices =
                kept.iter().map(|&choice| variable.choices[choice].clone()).collect();
        }
        restricted
    }

    /// The same with other prices of the choices.
    #[must_use]
    pub fn charged(&self, prices: &[Vec<Weight>]) -> Self {
        let mut charged = self.clone();
        for (variable, prices) in charged.variables.iter_mut().zip(prices) {
            variable
                .choices
                .iter_mut()
                .zip(prices)
                .for_each(|(choice, &weight)| choice.weight = weight);
        }
        charged
    }

    /// The reshard table of a value.
    pub fn table(&self, value: ValueId) -> &Reshards {
        self.tables.of(value)
    }

    /// The variables that a source's price depends on, each once, in order.
    pub fn scope(&self, source: &Source) -> Vec<usize> {
        let mut scope = Vec::new();
        if let Root::Produced(variable) = source.root {
            scope.push(variable);
        }
        scope.extend(source.demands.iter().filter_map(|demand| match demand {
            Demand::Operand(variable, _) => Some(*variable),
            Demand::Fixed(_) => None,
        }));
        scope.sort_unstable();
        scope.dedup();
        scope
    }
}

/// Which sources exist so far, while the program is read in order.
struct Builder<'d> {
    /// Sources of each value, oldest first.
    current: Vec<Vec<usize>>,
    dropped: Dropped<'d>,
    /// The sources of what is dropped.
    parts: IndexMap<(ValueId, PartOfProgram), usize, FxBuildHasher>,
}

impl Builder<'_> {
    fn declared(&mut self, problem: &mut Problem<'_>) {
        for (id, value) in problem.program.values.iter_enumerated() {
            if let (None, Some(home)) = (value.producer, &value.declared_sharding) {
                let states = problem.tables.states(id, home);
                if states.len() > 1 {
                    self.open(problem, id, &states);
                } else {
                    self.add(problem, id, Root::Fixed(problem.tables.declared(id)), None, None);
                }
            }
        }
    }

    /// A declaration that may be in any of several states.
    fn open(&mut self, problem: &mut Problem<'_>, value: ValueId, states: &[State]) {
        let gives = self.add(problem, value, Root::Produced(problem.variables.len()), None, None);
        let space = &problem.table(value).space;
        let mut states = states.to_vec();
        states.sort_by_key(|&state| (inversions(space.sharding(state)), state));
        let choices = states
            .iter()
            .map(|&gives| Choice { needs: Vec::new(), gives, weight: Weight::ZERO })
            .collect();
        problem.variables.push(Variable {
            decides: Decision::Declaration(value),
            operands: Vec::new(),
            gives,
            choices,
        });
    }

    fn add(
        &mut self,
        problem: &mut Problem<'_>,
        value: ValueId,
        root: Root,
        home: Option<Terminal>,
        written: Option<OpId>,
    ) -> usize {
        let source = problem.sources.len();
        let block = problem.program.values[value].repeat;
        let dropped = self.dropped.values.is_some_and(|values| values.contains(&value));
        let held =
            problem.program.is_shared(value) && problem.program.is_microbatched(block) && !dropped;
        let times = problem.weighted(block, value, held);
        let table = problem.tables.number(value);
        problem.sources.push(Source {
            value,
            written,
            root,
            home,
            demands: Vec::new(),
            times,
            held,
            again: false,
            table,
        });
        self.current[value.index()].push(source);
        source
    }

    fn variable(&mut self, problem: &mut Problem<'_>, op_id: OpId, choices: Vec<Choice>) {
        let op = &problem.program.ops[op_id];
        let variable = problem.variables.len();
        let mut operands = Vec::new();
        for (k, operand) in op.sharded_operands().iter().enumerate() {
            let source = self.source_for(problem, operand.value, operand.pin.as_ref());
            let source = self.source_in_part(problem, source, op_id, op);
            problem.sources[source].demands.push(Demand::Operand(variable, k));
            operands.push(source);
        }
        // What enters a block is where its brackets say, and not brought there.
        let pin = op.result_pin.as_ref().filter(|_| !op.is(&MapForm::LoopCarried));
        let home = pin.map(|pin| problem.tables.states(op.result, pin));
        let gives = self.add(problem, op.result, Root::Produced(variable), home, None);
        problem.variables.push(Variable {
            decides: Decision::Operation(op_id),
            operands,
            gives,
            choices,
        });
    }

    /// What a layer hands on, it has as the next one wants it; so does a step, where it may choose.
    /// Whether there is such a choice.
    fn hand_on(&self, problem: &mut Problem<'_>, value: ValueId, enters: ValueId) -> bool {
        let source =
            *self.current[value.index()].last().expect("what is handed on is given by its block");
        let entry = problem.program.values[enters]
            .producer
            .map_or(Decision::Declaration(enters), Decision::Operation);
        let number = problem.variables.iter().position(|variable| variable.decides == entry);
        if let Some(number) = number {
            let (here, there) = (&problem.tables.of(enters).space, &problem.tables.of(value).space);
            let variable = &mut problem.variables[number];
            problem.sources[source].demands.push(Demand::Operand(number, variable.operands.len()));
            variable.operands.push(source);
            let with_need = |mut choice: Choice| {
                choice.needs.push(there.find(here.sharding(choice.gives))?);
                Some(choice)
            };
            variable.choices =
                std::mem::take(&mut variable.choices).into_iter().filter_map(with_need).collect();
        }
        number.is_some()
    }

    fn written(&mut self, problem: &mut Problem<'_>, op_id: OpId, op: &Op, kind: &CollectiveKind) {
        let (Some(from), Some(to)) = (
            op.operands[0].pin.as_ref().and_then(Pin::exact),
            op.result_pin.as_ref().and_then(Pin::exact),
        ) else {
            return;
        };
        let operand = op.operands[0].value;
        let source = self.source_for(problem, operand, op.operands[0].pin.as_ref());
        let start = problem.table(operand).space.find(&from).into_iter().collect();
        problem.sources[source].demands.push(Demand::Fixed(start));
        let bytes = local::local_bytes(
            problem.program,
            operand,
            crate::reshard::sharding_space::volume_side(kind, &from, &to),
        );
        let axes = crate::reshard::sharding_space::participating_axes(kind, &from, &to);
        let cost_model = &problem.tables.cost_model;
        let seconds = crate::cost::collective::collective_seconds(
            &problem.program.mesh,
            kind,
            &axes,
            bytes,
            cost_model.refinement,
        );
        let held = problem.program.is_kept_gathered(
            op.repeat,
            &Materialization { value: op.result, sharding: to.clone() },
        );
        let times = problem.weighted(op.repeat, operand, held);
        problem.fixed = problem.fixed + cost_model.weight(kind, seconds, &axes).times(times);
        let state = problem.table(op.result).space.find(&to).unwrap_or(0);
        self.add(problem, op.result, Root::Fixed(state), None, Some(op_id));
    }

    /// The source of a dropped value for the part of the program that `op` is in; any other is
    /// `source`.
    fn source_in_part(
        &mut self,
        problem: &mut Problem<'_>,
        source: usize,
        op_id: OpId,
        op: &Op,
    ) -> usize {
        let value = problem.sources[source].value;
        let Source { written, home, .. } = &problem.sources[source];
        // What is done once a step, behind all microbatches, is no side of them: its moves are not
        // theirs.
        let of = &problem.program.values[value];
        let each_time =
            problem.program.trip_count_of(op) == problem.program.trip_count(of.repeat, true);
        let once = self.dropped.before.is_some() && problem.program.is_shared(value) && !each_time;
        let part = if once { (op.repeat, true) } else { self.dropped.part(problem.program, op_id) };
        let where_given = problem.program.values[value]
            .producer
            .is_some_and(|given| self.dropped.part(problem.program, given) == part);
        let dropped =
            self.dropped.values.is_some_and(|values| values.contains(&value)) && !where_given;
        let repeats = &problem.program.repeats;
        let microbatches = |place: Option<RepeatId>| repeats.microbatches(place);
        // What microbatches made of a layer's parameter is not there behind them.
        let behind = problem.program.is_declared(value)
            && microbatches(problem.program.values[value].repeat) != microbatches(op.repeat);
        let behind = behind && problem.program.values[value].repeat.is_some();
        // What takes a value out of a block reads it there.
        let there = is_loop_exit(op) && problem.program.exited_block(op.repeat, value).is_some();
        if there || !(dropped || behind) || written.is_some() || home.is_some() {
            return source;
        }
        let times = problem.weighted(op.repeat, value, once);
        *self.parts.entry((value, part)).or_insert_with(|| {
            let again = Source {
                demands: Vec::new(),
                times,
                held: false,
                again: true,
                ..problem.sources[source].clone()
            };
            problem.sources.push(again);
            problem.sources.len() - 1
        })
    }

    /// The source that a use names by its brackets, else the latest.
    fn source_for(&self, problem: &Problem<'_>, value: ValueId, pin: Option<&Pin>) -> usize {
        let sources = &self.current[value.index()];
        let named =
            pin.and_then(Pin::exact).and_then(|exact| problem.table(value).space.find(&exact));
        let is_named = |source: &Source| match (&source.home, &source.root) {
            (Some(home), _) => named.is_some_and(|state| home == &[state]),
            (None, Root::Fixed(state)) => named == Some(*state),
            (None, Root::Produced(_)) => false,
        };
        let by_name = sources.iter().rev().find(|&&source| is_named(&problem.sources[source]));
        *by_name.or(sources.last()).expect("a resolved program defines values before it uses them")
    }
}

/// Pairs of axes in one subscript that are not in the order of the mesh: of equally good
/// declarations the one that reads best goes first.
fn inversions(sharding: &Sharding) -> usize {
    let inverted = |axes: &AxisList| {
        (1..axes.len())
            .flat_map(|j| (0..j).map(move |i| (i, j)))
            .filter(|&(i, j)| axes[i] > axes[j])
            .count()
    };
    sharding.dims.iter().map(inverted).sum()
}

/// All layouts of `op` that its pins allow; none of a collective, which its author laid out.
fn choices(problem: &Problem<'_>, op: OpId) -> Vec<Choice> {
    let program = problem.program;
    let op = &program.ops[op];
    if matches!(op.kind, OpKind::Collective(_)) {
        return Vec::new();
    }
    let partial: Vec<Option<Reduction>> =
        op.operands.iter().map(|operand| problem.tables.partial(operand.value)).collect();
    let mut best: IndexMap<(Vec<State>, State), Weight, FxBuildHasher> = IndexMap::default();
    for layout in op_layouts::layouts(program, op, &partial) {
        let allowed = op
            .operands
            .iter()
            .zip(&layout.operands)
            .all(|(operand, need)| operand.pin.as_ref().is_none_or(|pin| pin.accepts(need)));
        let needs: Option<Vec<State>> = op
            .operands
            .iter()
            .zip(&layout.operands)
            .map(|(operand, need)| problem.table(operand.value).space.find(need))
            .collect();
        let gives = problem.table(op.result).space.find(&layout.result);
        let enters = !op.is(&MapForm::LoopCarried)
            || op.result_pin.as_ref().is_none_or(|pin| pin.accepts(&layout.result));
        let (true, Some(needs), Some(gives)) = (allowed && enters, needs, gives) else {
            continue;
        };
        let own = own_price(problem, op, &layout);
        let weight = best.entry((needs, gives)).or_insert(Weight::INFINITE);
        *weight = (*weight).min(
            own.times(problem.tables.cost_model.turns(program.trip_count_of(op), problem.compute)),
        );
    }
    best.into_iter().map(|((needs, gives), weight)| Choice { needs, gives, weight }).collect()
}

/// What an operation laid out so costs by itself: that of the statements and reductions that it is
/// written out in, if it is.
fn own_price(problem: &Problem<'_>, op: &Op, layout: &op_layouts::Layout) -> Weight {
    if composite::is_split(problem.program, op, &layout.operands[0]) {
        let plan = composite::alone(problem.program, op, &layout.operands[0]);
        return report::weight(&plan, problem.compute, &problem.tables.cost_model);
    }
    if let Some(Sent { seconds, axes, .. }) = send_recv::sent(problem.program, op, &layout.result) {
        return report::moved(seconds, &axes, &problem.tables.cost_model);
    }
    let sharded: Vec<&Sharding> = layout.operands.iter().collect();
    Weight::seconds(
        problem.compute * local::work(problem.program, op, &sharded, &layout.result).seconds,
    )
}
