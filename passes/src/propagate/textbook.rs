//! The textbook strategy: applies the book's rules statement by statement.
//!
//! * Case 1: shardings flow forward.
//! * Case 2, a contracting dimension sharded in one operand only: the sharded operand is gathered.
//!   Where one of the two is an intermediate (whose layout the compiler chooses, not the author),
//!   the replicated one is sliced instead, which is free; that is how the sources write the layer
//!   after a reduced activation. Two operands sharded differently keep the common axes and gather
//!   the rest; where a weight is sharded further, and the axis is in use elsewhere in an
//!   intermediate, the axis is moved there.
//! * Case 3, sharded alike: the result is unreduced and reduced at once, by ReduceScatter where the
//!   wanted result has the axis, else by AllReduce. A sum that is pending already, and that the
//!   wanted result keeps pending, stays so where the statement passes it on.
//! * Case 4, one axis on two kept indices: the operand whose axis the wanted result does not keep
//!   is gathered, else the cheaper one.
//! * An index kept from both operands: the replicated operand is sliced, or its axis moved there.
//! * What is computed from no operand (a constant, the dimensions that a broadcast adds) is
//!   computed in parts, as it is wanted, or as the other operands of its first reader are split.
//! * A rename or reshape has the layout that the product after it wants.
//! * A product that is only added to something is sharded from the start as the sum is wanted,
//!   where slicing its operands does that for free.
//!
//! A part of an expression that is only added to something is wanted as the sum is. Values
//! accumulated over layers are reduced after that.
//!
//! A reshard takes the fewest steps. The *wanted* result is given by brackets on the left side,
//! else by the value's output declaration. A gathered value is reused, except that copies of
//! declared values are freed where the forward part ends: a weight gathered for it is gathered a
//! second time for its gradient. Where the rules do not fit the brackets at the operands, or lead
//! to a sharding that is not tabulated, the cheapest layout that does neither is used.

mod wanted;

use indexmap::IndexMap;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{Blocks, CollectiveKind, MapForm, Op, OpKind, Operand, Phase, Value};
use shardwise_ir::sharding::{Pin, Sharding};

use crate::cost::local;
use crate::insert_collectives::placement::{self, StepPlacer, collective_step};
use crate::layouts::op_layouts;
use crate::propagate::matmul_cases;
use crate::reshard::sharding_space::{State, describe};
use crate::reshard::tables::Tables;
use crate::solver::weight::Weight;

/// Why a program has no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Infeasible {
    /// No sharding of an operation fits its brackets.
    Operation(OpId),
    /// No collectives lead to the sharding of an output.
    Output(ValueId),
}

/// The textbook plan.
pub fn plan(tables: &Tables<'_>) -> Result<Plan, Infeasible> {
    let mut planner = TextbookPlanner::new(tables);
    let mut phase = Phase::Forward;
    for (op_id, op) in tables.program.ops.iter_enumerated() {
        if op.repeat != planner.steps.block {
            planner.end_blocks(op.repeat).ok_or(Infeasible::Operation(op_id))?;
            let around = |place| tables.program.repeats.microbatches(place);
            if around(planner.steps.block)
                .is_some_and(|microbatches| around(op.repeat) != Some(microbatches))
            {
                planner.drop_copies(|_| true);
            }
            planner.steps.enter(tables.program, op.repeat);
        }
        if phase == Phase::Forward && op.phase == Phase::Backward {
            // Values that microbatches read are resharded once, before them.
            let among = tables.program.repeats.microbatches(op.repeat).is_some();
            planner.drop_copies(|value| !among || value.repeat.is_some());
            phase = Phase::Backward;
        }
        planner.operation(op_id, op).ok_or(Infeasible::Operation(op_id))?;
        planner.outputs(op.result)?;
    }
    planner.end_blocks(None).ok_or(Infeasible::Operation(OpId::new(0)))?;
    planner.steps.enter(tables.program, None);
    for id in tables.program.values.indices() {
        if tables.program.values[id].is_declared() {
            planner.outputs(id)?;
        }
    }
    let mut plan = placement::plan_of(tables, &IndexMap::new(), planner.steps.all);
    // Stages keep their weights gathered for all microbatches; without a pipeline, microbatches
    // drop them layer by layer.
    placement::mark_retained(&mut plan, |value| {
        tables.program.pipeline(tables.program.values[value].repeat).is_some()
    });
    Ok(plan)
}

struct TextbookPlanner<'a> {
    tables: &'a Tables<'a>,
    steps: StepPlacer,
    /// The state in which each value is declared or produced, from which its uses reshard.
    declared: Vec<State>,
    /// Every state in which each value is available so far.
    available: Vec<Vec<State>>,
    /// Those of them that the program writes: declarations, and results of written collectives.
    written: Vec<Vec<State>>,
    /// The shardings in which each value is an output.
    outputs: Vec<Vec<Pin>>,
}

impl<'a> TextbookPlanner<'a> {
    fn new(tables: &'a Tables<'a>) -> Self {
        let declared: Vec<State> = tables
            .program
            .values
            .iter_enumerated()
            .map(|(id, value)| {
                let written = || {
                    value
                        .declared_sharding
                        .as_ref()
                        .and_then(Pin::exact)
                        .and_then(|s| tables.of(id).space.find(&s))
                        .unwrap_or(0)
                };
                if value.is_declared() { tables.declared(id) } else { written() }
            })
            .collect();
        let written: Vec<Vec<State>> = declared
            .iter()
            .zip(&tables.program.values)
            .map(|(&state, value)| if value.is_declared() { vec![state] } else { Vec::new() })
            .collect();
        let mut outputs = vec![Vec::new(); declared.len()];
        let sharding_of =
            |of: ValueId| Pin::from(tables.of(of).space.sharding(tables.declared(of)).clone());
        for output in tables
            .program
            .outputs
            .iter()
            .filter(|output| tables.program.carried_into(output).is_none())
        {
            outputs[output.value.index()].push(
                tables.program.updates(output).map_or_else(|| output.pin.clone(), sharding_of),
            );
        }
        Self {
            tables,
            steps: StepPlacer::default(),
            declared,
            available: written.clone(),
            written,
            outputs,
        }
    }

    /// Forgets copies of declared values made by reshards; intermediate results stay available for
    /// their gradients.
    fn drop_copies(&mut self, of: impl Fn(&Value) -> bool) {
        let values = self.program().values.iter();
        for ((available, written), _) in self
            .available
            .iter_mut()
            .zip(&self.written)
            .zip(values)
            .filter(|(_, value)| value.is_declared() && of(value))
        {
            available.clone_from(written);
        }
    }

    fn program(&self) -> &'a Analyzed {
        self.tables.program
    }

    fn sharding(&self, value: ValueId, state: State) -> &'a Sharding {
        self.tables.of(value).space.sharding(state)
    }

    fn operation(&mut self, op_id: OpId, op: &Op) -> Option<()> {
        if let OpKind::Collective(kind) = &op.kind {
            return self.written(op_id, op, kind);
        }
        let needs = self.operand_states(op)?;
        for (operand, &need) in op.operands.iter().zip(&needs) {
            let start = self.start(operand.value, operand.pin.as_ref());
            self.reshard(operand.value, start, need)?;
        }
        let operands: Vec<Sharding> = op
            .operands
            .iter()
            .zip(&needs)
            .map(|(o, &need)| self.sharding(o.value, need).clone())
            .collect();
        let gives = op_layouts::result_sharding(self.program(), op, &operands)?;
        let gives = self.of_wanted_part(op, gives);
        let state = self.tables.of(op.result).space.find(&gives)?;
        let read = op
            .operands
            .iter()
            .zip(operands)
            .map(|(o, sharding)| Materialization { value: o.value, sharding });
        let result = Materialization { value: op.result, sharding: gives };
        self.steps.push(Step {
            kind: StepKind::Local(op_id),
            operands: read.collect(),
            result,
            repeat: op.repeat,
        });
        self.available[op.result.index()].push(state);
        let to = self.reduce_result(op, state)?;
        self.declared[op.result.index()] = to;
        if op.is(&MapForm::LoopCarried) {
            self.entered(op.result, to);
        }
        if op.result_pin.is_some() {
            // Every use starts from the declared sharding: intermediate states are not available to
            // others.
            self.available[op.result.index()] = vec![to];
        }
        Some(())
    }

    /// A loop-carried value is yielded by the body: from here on the yielded value is wanted in the
    /// same sharding.
    fn entered(&mut self, enters: ValueId, state: State) {
        let yielded = self.program().outputs.iter().find(|output| output.yields_to == Some(enters));
        if let Some(output) = yielded {
            let pin = self.sharding(enters, state).clone().into();
            self.outputs[output.value.index()].push(pin);
        }
    }

    /// Ends the blocks that a statement in `next` is not in.
    fn end_blocks(&mut self, next: Option<RepeatId>) -> Option<()> {
        for block in self.steps.ends_before(self.program(), next) {
            self.steps.enter(self.program(), Some(block));
            self.reshard_carried()?;
        }
        Some(())
    }

    /// At the end of a block, its yielded values are resharded to the shardings in which they enter
    /// it.
    fn reshard_carried(&mut self) -> Option<()> {
        let (program, block) = (self.program(), self.steps.block);
        for output in program
            .outputs
            .iter()
            .filter(|output| block.is_some() && program.values[output.value].repeat == block)
        {
            if let Some(enters) = program.carried_into(output) {
                let entered = self.sharding(enters, self.declared[enters.index()]);
                let wanted = self.tables.of(output.value).space.find(entered)?;
                self.reshard(output.value, self.declared[output.value.index()], wanted)?;
            }
        }
        Some(())
    }

    fn written(&mut self, op_id: OpId, op: &Op, kind: &CollectiveKind) -> Option<()> {
        let (operand, pin) = (&op.operands[0], op.operands[0].pin.as_ref()?);
        let from = self.tables.of(operand.value).space.find(&pin.exact()?)?;
        let to_sharding = op.result_pin.as_ref()?.exact()?;
        let to = self.tables.of(op.result).space.find(&to_sharding)?;
        let start = self.start(operand.value, Some(pin));
        self.reshard(operand.value, start, from)?;
        let from_sharding = self.sharding(operand.value, from).clone();
        let collective = describe(kind, &from_sharding, &to_sharding);
        self.steps.push(Step {
            kind: StepKind::Collective(collective, Some(op_id)),
            operands: vec![Materialization { value: operand.value, sharding: from_sharding }],
            result: Materialization { value: op.result, sharding: to_sharding },
            repeat: op.repeat,
        });
        self.declared[op.result.index()] = to;
        self.available[op.result.index()].push(to);
        self.written[op.result.index()].push(to);
        Some(())
    }

    /// The state from which a use reshards: the materialisation that its brackets name, else the
    /// declared one.
    fn start(&self, value: ValueId, pin: Option<&Pin>) -> State {
        let named =
            pin.and_then(Pin::exact).and_then(|exact| self.tables.of(value).space.find(&exact));
        named
            .filter(|state| self.available[value.index()].contains(state))
            .unwrap_or(self.declared[value.index()])
    }

    /// The state in which each operand is read.
    fn operand_states(&self, op: &Op) -> Option<Vec<State>> {
        let starts: Vec<Sharding> = op
            .operands
            .iter()
            .map(|operand| {
                let pinned = operand.pin.as_ref().and_then(Pin::exact);
                pinned.unwrap_or_else(|| {
                    self.sharding(operand.value, self.declared[operand.value.index()]).clone()
                })
            })
            .collect();
        if let Some(pin) = op.result_pin.as_ref().filter(|_| op.is(&MapForm::LoopCarried)) {
            return self.initial_state(op, &starts[0], pin).map(|state| vec![state]);
        }
        if !op.reads_elements() || op.is(&MapForm::Total) {
            return self.find_all(op, &starts);
        }
        let mut targets = self
            .before_use(op, &starts)
            .unwrap_or_else(|| matmul_cases::targets(self.tables, op, &starts, self.wanted(op)));
        if let Some(pin) = self.wanted_of_sum(op).cloned() {
            matmul_cases::slice_for(self.program(), op, &mut targets, &pin);
        }
        if let Some(pin) = self.wanted(op) {
            matmul_cases::leave_pending(op, &starts, &mut targets, pin);
        }
        let found = self.find_all(op, &targets);
        let found = found.filter(|needs| self.can_run(op, &targets) && self.reaches(op, needs));
        found.or_else(|| self.cheapest_operand_states(op))
    }

    /// The state in which the initial value of a loop-carried one is read.
    fn initial_state(&self, op: &Op, start: &Sharding, pin: &Pin) -> Option<State> {
        let table = self.tables.of(op.result);
        let accepted = self.tables.states(op.result, pin);
        // A value that a pipeline cuts may be split into more parts than a microbatch has rows.
        let entry = match table.space.find(start) {
            Some(start) => table.nearest(start, &accepted)?,
            None => *accepted.first()?,
        };
        // The same sharding of another value: in a pipeline it has a microbatch's rows, and its own
        // state numbers.
        self.tables.of(op.operands[0].value).space.find(table.space.sharding(entry))
    }

    /// The states of operands with these shardings.
    fn find_all(&self, op: &Op, shardings: &[Sharding]) -> Option<Vec<State>> {
        let find = |(operand, sharding): (&Operand, &Sharding)| {
            self.tables.of(operand.value).space.find(sharding)
        };
        op.operands.iter().zip(shardings).map(find).collect()
    }

    /// Whether `op` can run on operands with these shardings, and its brackets accept them.
    fn can_run(&self, op: &Op, shardings: &[Sharding]) -> bool {
        let result_exists = || {
            op_layouts::result_sharding(self.program(), op, shardings)
                .is_some_and(|result| self.tables.of(op.result).space.find(&result).is_some())
        };
        let mut operands = op.operands.iter().zip(shardings);
        operands.all(|(operand, to)| operand.pin.as_ref().is_none_or(|pin| pin.accepts(to)))
            && matmul_cases::fit_together(self.program(), op, shardings)
            && (self.tables.part.is_whole && !op.is(&MapForm::LoopCarried) || result_exists())
    }

    /// Whether there are steps to these states. A part of all shardings may not have them.
    fn reaches(&self, op: &Op, needs: &[State]) -> bool {
        let reaches = |(operand, &need): (&Operand, &State)| {
            let start = self.start(operand.value, operand.pin.as_ref());
            self.tables.of(operand.value).distance(start, need).is_finite()
        };
        self.tables.part.is_whole || op.operands.iter().zip(needs).all(reaches)
    }

    /// The layout that fits the brackets and is cheapest from here, the operation's own time
    /// included.
    fn cheapest_operand_states(&self, op: &Op) -> Option<Vec<State>> {
        let layouts = self.tables.layouts_of_part(op);
        let priced = layouts
            .iter()
            .filter_map(|layout| self.price(op, layout))
            .filter(|(weight, _)| weight.is_finite());
        let cheapest = priced.min_by_key(|(weight, _)| *weight).map(|(_, needs)| needs)?;
        let others = op
            .operands
            .iter()
            .skip(cheapest.len())
            .map(|operand| self.declared[operand.value.index()]);
        Some(cheapest.iter().copied().chain(others).collect())
    }

    fn price(&self, op: &Op, layout: &op_layouts::Layout) -> Option<(Weight, Vec<State>)> {
        let mut needs = Vec::new();
        let read: Vec<&Sharding> = layout.operands.iter().collect();
        let mut weight =
            Weight::seconds(local::work(self.program(), op, &read, &layout.result).seconds);
        for (operand, need) in op.operands.iter().zip(&layout.operands) {
            if operand.pin.as_ref().is_some_and(|pin| !pin.accepts(need)) {
                return None;
            }
            let table = self.tables.of(operand.value);
            let state = table.space.find(need)?;
            weight = weight + table.distance(self.declared[operand.value.index()], state);
            needs.push(state);
        }
        let table = self.tables.of(op.result);
        let gives = table.space.find(&layout.result)?;
        if let Some(pin) = &op.result_pin {
            let accepted = self.tables.states(op.result, pin);
            weight = weight + table.to_group(gives, &accepted);
        }
        Some((weight, needs))
    }

    /// Reduces what is pending and reshards to the declared sharding; returns its state.
    fn reduce_result(&mut self, op: &Op, state: State) -> Option<State> {
        let value = op.result;
        let mut at = state;
        let wanted = self.wanted(op);
        let mut readers = self
            .program()
            .dataflow()
            .uses_of(value)
            .map(|(reader, _)| &self.program().ops[reader])
            .filter(|reader| reader.reads_elements());
        let later = self.outputs[value.index()].is_empty()
            && readers.next().is_some_and(|reader| reader.is(&MapForm::Total))
            && readers.next().is_none();
        if later && op.result_pin.is_none() {
            return Some(state);
        }
        for (kind, target) in matmul_cases::reduce_pending(self.sharding(value, at), wanted) {
            let Some(to) = self.tables.of(value).space.find(&target) else {
                continue;
            };
            let exists = self.tables.of(value).space.edges(at).any(|edge| edge.to == to);
            if exists {
                self.hop(value, at, to, &kind);
                at = to;
            }
        }
        let Some(pin) = &op.result_pin else {
            return Some(at);
        };
        let to = self.tables.of(value).nearest(at, &self.tables.states(value, pin))?;
        self.reshard(value, at, to)?;
        Some(to)
    }

    /// `StepPlacer` from one state to another, without those that are available already.
    fn reshard(&mut self, value: ValueId, from: State, to: State) -> Option<()> {
        if self.available[value.index()].contains(&to) {
            return Some(());
        }
        for hop in self.tables.of(value).shortest_path(from, to)? {
            if !self.available[value.index()].contains(&hop.to) {
                self.hop(value, hop.from, hop.to, &hop.kind);
            }
        }
        Some(())
    }

    fn hop(&mut self, value: ValueId, from: State, to: State, kind: &CollectiveKind) {
        self.steps.place(self.program(), collective_step(self.tables, value, from, to, kind));
        self.available[value.index()].push(to);
    }

    fn outputs(&mut self, value: ValueId) -> Result<(), Infeasible> {
        for pin in self.outputs[value.index()].clone() {
            let accepted = self.tables.states(value, &pin);
            if accepted.iter().any(|state| self.available[value.index()].contains(state)) {
                continue;
            }
            let from = self.declared[value.index()];
            let target = self.tables.of(value).nearest(from, &accepted);
            let found = target.and_then(|target| self.reshard(value, from, target));
            found.ok_or(Infeasible::Output(value))?;
        }
        Ok(())
    }
}
