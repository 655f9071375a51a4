//! A program read into a sharding problem, statement by statement.

use indexmap::IndexMap;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::plan::Materialization;
use shardwise_ir::program::{Blocks, CollectiveKind, MapForm, Op, OpKind};
use shardwise_ir::sharding::{AxisList, Pin, Sharding};
use shardwise_ir::unroll::is_loop_exit;

use crate::layouts::local_shape;
use crate::problem::{
    Choice, Decision, Demand, Dropped, PartOfProgram, Problem, Root, Source, Variable,
};
use crate::reshard::sharding_space::State;
use crate::reshard::tables::Tables;
use crate::solver::dreyfus_wagner::Terminal;
use crate::solver::weight::Weight;

/// Reads a program into a problem, where `choices` are the layouts of each operation.
pub(super) fn build<'a>(
    tables: &'a Tables<'a>,
    compute: f64,
    dropped: Dropped<'_>,
    choices: &(dyn Fn(&Problem<'a>, OpId) -> Vec<Choice> + Sync),
) -> Problem<'a> {
    let program = tables.program;
    let fixed = Weight::ZERO;
    let mut problem =
        Problem { program, compute, tables, variables: Vec::new(), sources: Vec::new(), fixed };
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
        problem.sources.push(Source {
            value,
            written,
            root,
            home,
            demands: Vec::new(),
            times,
            held,
            again: false,
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
        let bytes = local_shape::local_bytes(
            problem.program,
            operand,
            crate::cost::collective::volume_side(kind, &from, &to),
        );
        let axes = crate::cost::collective::participating_axes(kind, &from, &to);
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
