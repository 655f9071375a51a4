//! Builds a sharding problem from a program, statement by statement.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::plan::Materialization;
use shardwise_ir::program::{Blocks, CollectiveKind, MapForm, Op, OpKind};
use shardwise_ir::sharding::{AxisList, Pin, Sharding};
use shardwise_ir::unroll::is_loop_exit;

use crate::cost::pipeline_stages;
use crate::layouts::local_shape;
use crate::problem::{
    Choice, Decision, Definition, Demand, Problem, Region, Rematerialized, Root, Variable,
    kernel_reads,
};
use crate::reshard::sharding_space::State;
use crate::reshard::tables::Tables;
use crate::solver::dreyfus_wagner::Terminal;
use crate::solver::weight::Weight;
use crate::training::frameworks::regathered;

/// Reads a program into a problem, with the layouts of all operations.
pub(super) fn build<'a>(
    tables: &'a Tables<'a>,
    compute: f64,
    rematerialized: Rematerialized<'_>,
    layouts: Vec<Vec<Choice>>,
) -> Problem<'a> {
    let program = tables.program;
    let fixed = Weight::ZERO;
    let (variables, definitions, kernel_reads) = (Vec::new(), Vec::new(), Vec::new());
    let mut problem =
        Problem { program, compute, tables, variables, definitions, fixed, kernel_reads };
    let mut builder = Builder {
        current: vec![Vec::new(); program.values.len()],
        rematerialized,
        regathered: regathered(program),
        per_region: IndexMap::default(),
    };
    builder.declared(&mut problem);
    for ((op_id, op), choices) in program.ops.iter_enumerated().zip(layouts) {
        match &op.kind {
            OpKind::Collective(kind) => builder.written(&mut problem, op_id, op, kind),
            _ => builder.variable(&mut problem, op_id, choices),
        }
    }
    for output in &program.outputs {
        if output
            .yields_to
            .is_some_and(|enters| builder.yield_value(&mut problem, output.value, enters))
        {
            continue;
        }
        let definition = builder.definition_for(&problem, output.value, Some(&output.pin));
        let states = problem.tables.states(output.value, &output.pin);
        problem.definitions[definition].demands.push(Demand::Fixed(states));
    }
    problem.kernel_reads = kernel_reads::of_problem(&problem);
    problem
}

/// Which definitions exist so far, while the program is read in order.
struct Builder<'d> {
    /// Definitions of each value, oldest first.
    current: Vec<Vec<usize>>,
    rematerialized: Rematerialized<'d>,
    /// Weights that are rematerialised at the end of every region in any case.
    regathered: IndexSet<ValueId>,
    /// The definitions of rematerialised values.
    per_region: IndexMap<(ValueId, Region), usize, FxBuildHasher>,
}

impl Builder<'_> {
    fn is_rematerialized(&self, value: ValueId) -> bool {
        self.rematerialized.values.is_some_and(|values| values.contains(&value))
            || self.regathered.contains(&value)
    }

    /// Where a value is dropped: the request says it for those that it names.
    fn dropped(&self, value: ValueId) -> Rematerialized<'_> {
        if self.regathered.contains(&value) {
            Rematerialized::default()
        } else {
            self.rematerialized
        }
    }

    fn declared(&mut self, problem: &mut Problem<'_>) {
        for (id, value) in problem.program.values.iter_enumerated() {
            if let (true, Some(declared)) = (value.is_declared(), &value.declared_sharding) {
                let states = problem.tables.states(id, declared);
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
            .map(|&gives| Choice { operands: Vec::new(), result: gives, weight: Weight::ZERO })
            .collect();
        problem.variables.push(Variable {
            decides: Decision::Declaration(value),
            operands: Vec::new(),
            result: gives,
            choices,
        });
    }

    fn add(
        &mut self,
        problem: &mut Problem<'_>,
        value: ValueId,
        root: Root,
        declared: Option<Terminal>,
        written: Option<OpId>,
    ) -> usize {
        let definition = problem.definitions.len();
        let block = problem.program.values[value].repeat;
        let kept_gathered = problem.program.is_shared(value)
            && problem.program.is_microbatched(block)
            && !self.is_rematerialized(value);
        let multiplicity = problem.weighted(block, value, kept_gathered);
        problem.definitions.push(Definition {
            value,
            written,
            root,
            declared,
            demands: Vec::new(),
            multiplicity,
            kept_gathered,
            per_use: false,
        });
        self.current[value.index()].push(definition);
        definition
    }

    fn variable(&mut self, problem: &mut Problem<'_>, op_id: OpId, choices: Vec<Choice>) {
        let op = &problem.program.ops[op_id];
        let variable = problem.variables.len();
        let mut operands = Vec::new();
        for (k, operand) in op.sharded_operands().iter().enumerate() {
            let definition = self.definition_for(problem, operand.value, operand.pin.as_ref());
            let definition = self.definition_in_region(problem, definition, op_id, op);
            problem.definitions[definition].demands.push(Demand::Operand(variable, k));
            operands.push(definition);
        }
        // A loop-carried value has the sharding of its brackets, without a reshard.
        let pin = op.result_pin.as_ref().filter(|_| !op.is(&MapForm::LoopCarried));
        let declared = pin.map(|pin| problem.tables.states(op.result, pin));
        let gives = self.add(problem, op.result, Root::Produced(variable), declared, None);
        problem.variables.push(Variable {
            decides: Decision::Operation(op_id),
            operands,
            result: gives,
            choices,
        });
    }

    /// A layer yields a value in the sharding in which the next one reads it; so does a training
    /// step, where that is open. Returns whether there is such a choice.
    fn yield_value(&self, problem: &mut Problem<'_>, value: ValueId, enters: ValueId) -> bool {
        let definition =
            *self.current[value.index()].last().expect("what is yielded is given by its block");
        let definition_of_entry = problem.program.dataflow().definition(enters);
        let entry = definition_of_entry.map_or(Decision::Declaration(enters), Decision::Operation);
        let number = problem.variables.iter().position(|variable| variable.decides == entry);
        if let Some(number) = number {
            let (here, there) = (&problem.tables.of(enters).space, &problem.tables.of(value).space);
            let variable = &mut problem.variables[number];
            problem.definitions[definition]
                .demands
                .push(Demand::Operand(number, variable.operands.len()));
            variable.operands.push(definition);
            let with_need = |mut choice: Choice| {
                choice.operands.push(there.find(here.sharding(choice.result))?);
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
        let definition = self.definition_for(problem, operand, op.operands[0].pin.as_ref());
        let start = problem.table(operand).space.find(&from).into_iter().collect();
        problem.definitions[definition].demands.push(Demand::Fixed(start));
        let is_uneven = problem.program.values[operand].filled.uneven.is_some();
        let bytes = crate::cost::collective::volume(kind, &from, &to, is_uneven, |sharding| {
            local_shape::local_bytes(problem.program, operand, sharding)
        });
        let axes = crate::cost::collective::participating_axes(kind, &from, &to);
        let cost_model = &problem.tables.cost_model;
        let seconds = crate::cost::collective::collective_seconds(
            problem.program,
            kind,
            &axes,
            bytes,
            cost_model.refinement,
        );
        let kept_gathered = problem.program.is_kept_gathered(
            op.repeat,
            &Materialization { value: op.result, sharding: to.clone() },
        );
        let multiplicity = problem.weighted(op.repeat, operand, kept_gathered);
        let links = problem.program.mesh.links(&axes);
        let runs_alone = pipeline_stages::is_resharded_alone(problem.program, op.result);
        let (priced, _) = cost_model.of_step(runs_alone, problem.compute);
        let weight = priced.weight(kind, seconds, &links);
        problem.fixed = problem.fixed + weight.times(multiplicity);
        let state = problem.table(op.result).space.find(&to).unwrap_or(0);
        self.add(problem, op.result, Root::Fixed(state), None, Some(op_id));
    }

    /// The definition of a rematerialised value for the region of the program that `op` is in; any
    /// other is `definition`.
    fn definition_in_region(
        &mut self,
        problem: &mut Problem<'_>,
        definition: usize,
        op_id: OpId,
        op: &Op,
    ) -> usize {
        let value = problem.definitions[definition].value;
        let Definition { written, declared, .. } = &problem.definitions[definition];
        // Operations that run once per step, after all microbatches, belong to neither side.
        let of = &problem.program.values[value];
        let each_time =
            problem.program.trip_count_of(op) == problem.program.trip_count(of.repeat, true);
        let once =
            self.dropped(value).before.is_some() && problem.program.is_shared(value) && !each_time;
        let region = |op: OpId| self.dropped(value).region(problem.program, op);
        let region_of_op = if once { (op.repeat, true) } else { region(op_id) };
        let definition_of_value = problem.program.dataflow().definition(value);
        let where_given = definition_of_value.is_some_and(|given| region(given) == region_of_op);
        let rematerialized = self.is_rematerialized(value) && !where_given;
        let repeats = &problem.program.repeats;
        let microbatches = |place: Option<RepeatId>| repeats.microbatches(place);
        // A parameter gathered in microbatches is not available after them.
        let after = problem.program.is_declared(value)
            && microbatches(problem.program.values[value].repeat) != microbatches(op.repeat);
        let after = after && problem.program.values[value].repeat.is_some();
        // An operation that exports a value from a block reads it in the block.
        let there = is_loop_exit(op) && problem.program.exited_block(op.repeat, value).is_some();
        if there || !(rematerialized || after) || written.is_some() || declared.is_some() {
            return definition;
        }
        let multiplicity = problem.weighted(op.repeat, value, once);
        *self.per_region.entry((value, region_of_op)).or_insert_with(|| {
            let per_use = Definition {
                demands: Vec::new(),
                multiplicity,
                kept_gathered: false,
                per_use: true,
                ..problem.definitions[definition].clone()
            };
            problem.definitions.push(per_use);
            problem.definitions.len() - 1
        })
    }

    /// The definition that a use names by its brackets, else the latest.
    fn definition_for(&self, problem: &Problem<'_>, value: ValueId, pin: Option<&Pin>) -> usize {
        let definitions = &self.current[value.index()];
        let named =
            pin.and_then(Pin::exact).and_then(|exact| problem.table(value).space.find(&exact));
        let is_named = |definition: &Definition| match (&definition.declared, &definition.root) {
            (Some(declared), _) => named.is_some_and(|state| declared[..] == [state]),
            (None, Root::Fixed(state)) => named == Some(*state),
            (None, Root::Produced(_)) => false,
        };
        let by_name = definitions
            .iter()
            .rev()
            .find(|&&definition| is_named(&problem.definitions[definition]));
        *by_name.or(definitions.last()).expect(
            "a resolved program defines values before it uses \
            them",
        )
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
