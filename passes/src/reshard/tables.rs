//! The reshard tables of a program: one for each distinct shape of a value.

use std::sync::{Arc, OnceLock};

use index_vec::IndexVec;
use indexmap::IndexSet;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Op, OpKind, Operand, Program};
use shardwise_ir::rearrange::Route;
use shardwise_ir::sharding::{Pin, Reduction, Sharding};

use crate::cost::collective::{CostModel, Refinement};
use crate::cost::pipeline_stages;
use crate::layouts::op_layouts::{self, Layout};
use crate::reshard::alike;
use crate::reshard::layout_states::{self, LayoutStates};
use crate::reshard::part::Part;
use crate::reshard::paths::Reshards;
use crate::reshard::sharding_space::{BlockLimit, ShardingSpace, State};
use crate::reshard::step_table::{ValueShape, step_tables};
use crate::solver::dreyfus_wagner::{Terminal, Trees};
use crate::solver::interrupt::Interrupt;

/// All tables, and the table of each value.
pub struct Tables<'a> {
    /// The program, with its dataflow.
    pub program: &'a Analyzed,
    /// How collectives are priced.
    pub cost_model: CostModel,
    /// Distinct tables.
    pub all: Vec<Reshards>,
    table_of: Vec<usize>,
    partial: Vec<Option<Reduction>>,
    /// The shardings that they have.
    pub(crate) part: Arc<Part>,
    /// The layouts of each operation: those of all cost models. Only the first of several that are
    /// [alike] has them.
    layout_states: Arc<IndexVec<OpId, OnceLock<Vec<LayoutStates>>>>,
    /// For each operation, the first one that it is like.
    first_alike: Arc<IndexVec<OpId, OpId>>,
}

impl<'a> Tables<'a> {
    /// Whether the tables of a program have all shardings of every value.
    pub fn has_all(program: &Program) -> bool {
        Part::first(program).is_whole
    }

    /// Tabulates every shape that occurs: all of its shardings, or a part where there are too many.
    pub fn new(program: &'a Analyzed, refinement: Refinement) -> Self {
        let part = Part::first(program).into();
        Self::within(program, CostModel::time(refinement), part, &Interrupt::NEVER)
            .expect("nothing ends it")
    }

    /// The same shardings under another cost model.
    pub(crate) fn repriced(&self, cost_model: CostModel) -> Self {
        self.with(cost_model, &vec![BlockLimit::NONE; self.all.len()])
    }

    /// The same without the steps that take more than is allowed of the values of a table.
    pub(crate) fn limited(&self, of_values: &IndexVec<ValueId, BlockLimit>) -> Self {
        self.with(self.cost_model.clone(), &loosest(&self.table_of, of_values))
    }

    /// The same shardings under another cost model and other limits.
    fn with(&self, cost_model: CostModel, limits: &[BlockLimit]) -> Self {
        let repriced = |(table, &limit): (&Reshards, &BlockLimit)| {
            Reshards::new(table.space.repriced(&cost_model, limit))
        };
        let all = self.all.iter().zip(limits).map(repriced).collect();
        let (table_of, partial) = (self.table_of.clone(), self.partial.clone());
        let part = Arc::clone(&self.part);
        let layout_states = Arc::clone(&self.layout_states);
        let first_alike = Arc::clone(&self.first_alike);
        let program = self.program;
        Self { program, cost_model, all, table_of, partial, part, layout_states, first_alike }
    }

    /// Tabulates a part of all shardings; `None` if the time is over before that is done.
    pub(crate) fn within(
        program: &'a Analyzed,
        cost_model: CostModel,
        part: Arc<Part>,
        interrupt: &Interrupt,
    ) -> Option<Self> {
        debug_assert!(
            program.backward.is_none(),
            "gradients are derived before anything is planned"
        );
        let partial = partial_kinds(program);
        let mut shapes: IndexSet<ValueShape, FxBuildHasher> = IndexSet::default();
        let mut table_of = Vec::with_capacity(program.values.len());
        let on_host = program.on_host();
        for (id, value) in program.values.iter_enumerated() {
            let sizes = value
                .dims
                .iter()
                .map(|&dim| (program.size_in(value.repeat, dim), program.dims[dim].pad))
                .collect();
            let staged_over = program.pipeline(value.repeat).map(|pipeline| pipeline.axis);
            let shape = ValueShape {
                sizes,
                bits: value.dtype.bits(),
                share: value.filled.share.to_bits(),
                busiest: busiest(program, id),
                partial: partial[id.index()],
                staged_over,
                is_on_host: on_host.contains(&id),
                is_resharded_alone: pipeline_stages::is_resharded_alone(program, id),
            };
            table_of.push(shapes.insert_full(shape).0);
        }
        let more = beside_groups(program, &part, (&table_of, &partial), interrupt)?;
        let shapes: Vec<ValueShape> = shapes.into_iter().collect();
        let all = step_tables(program, &shapes, cost_model.refinement, (&part, &more), interrupt)?
            .into_iter()
            .map(|table| Reshards::new(ShardingSpace::new(table, &cost_model)))
            .collect();
        let layout_states = program.ops.iter().map(|_| OnceLock::new()).collect();
        let layout_states = Arc::new(layout_states);
        let first_alike = alike::first_alike(program, &part, (&table_of, &partial)).into();
        Some(Self { program, cost_model, all, table_of, partial, part, layout_states, first_alike })
    }

    /// An empty table of the cheapest trees for each of [`Tables::all`].
    pub fn trees(&self) -> Vec<Trees<'_>> {
        self.all.iter().map(|table| Trees::new(table.graph())).collect()
    }

    /// The number of ways to make a step between the shardings of all values.
    pub(crate) fn ways(&self) -> usize {
        self.all.iter().map(|table| table.space.ways()).sum()
    }

    /// The number of a value's table among [`Tables::all`].
    pub fn number(&self, value: ValueId) -> usize {
        self.table_of[value.index()]
    }

    /// The table of a value.
    pub fn of(&self, value: ValueId) -> &Reshards {
        &self.all[self.table_of[value.index()]]
    }

    /// The reduction of a value's partial results, if it can have any.
    pub fn partial(&self, value: ValueId) -> Option<Reduction> {
        self.partial[value.index()]
    }

    /// The state of a declared value; replicated where its author left it open.
    pub fn declared(&self, value: ValueId) -> State {
        let pin = self.program.values[value].declared_sharding.as_ref();
        let states = pin.map(|pin| self.states(value, pin)).unwrap_or_default();
        let axes = |state: &State| self.of(value).space.sharding(*state).axes().count();
        states.into_iter().min_by_key(|state| (axes(state), *state)).unwrap_or(0)
    }

    /// The layouts of an operation, as states.
    pub(crate) fn layout_states(&self, op: OpId) -> &[LayoutStates] {
        let first = self.first_alike[op];
        self.layout_states[first].get_or_init(|| layout_states::of_operation(self, first))
    }

    /// The layouts of an operation in the groups of axes that its part has for it.
    pub(crate) fn layouts_of_part(&self, op: &Op) -> Vec<Layout> {
        layouts_of_part(self.program, &self.part, op, &self.partial)
    }

    /// The layouts of an operation that fit its brackets and the shardings of its values.
    pub fn layouts(&self, op: &Op) -> Vec<Layout> {
        let fits = |operand: &Operand, sharding: &Sharding| {
            operand.pin.as_ref().is_none_or(|pin| self.part.accepts(pin, sharding))
                && self.of(operand.value).space.find(sharding).is_some()
        };
        let mut layouts = self.layouts_of_part(op);
        layouts.retain(|layout| {
            op.operands.iter().zip(&layout.operands).all(|(operand, to)| fits(operand, to))
                && self.of(op.result).space.find(&layout.result).is_some()
        });
        layouts
    }

    /// The states of a value that a pin accepts.
    pub fn states(&self, value: ValueId, pin: &Pin) -> Terminal {
        let space = &self.of(value).space;
        if let Some(exact) = pin.exact() {
            return space.find(&exact).into_iter().collect();
        }
        let accepted = |&state: &State| self.part.accepts(pin, space.sharding(state));
        (0..space.len()).filter(accepted).collect()
    }
}

/// The dimension of a value by which experts are split, and the numbers of tokens.
fn busiest(program: &Program, value: ValueId) -> Option<(usize, Route)> {
    let value = &program.values[value];
    let route = value.filled.uneven?;
    let place = value.dims.iter().position(|&dim| dim == route.experts)?;
    Some((place, route))
}

fn layouts_of_part(
    program: &Analyzed,
    part: &Part,
    op: &Op,
    partial: &[Option<Reduction>],
) -> Vec<Layout> {
    let partial: Vec<Option<Reduction>> =
        op.operands.iter().map(|operand| partial[operand.value.index()]).collect();
    let in_order = part.classes.is_some();
    op_layouts::layouts_by(program, op, &partial, &part.groups_of(program, op), in_order)
}

/// For each table, the loosest limit of the values that have it.
fn loosest(table_of: &[usize], of_values: &IndexVec<ValueId, BlockLimit>) -> Vec<BlockLimit> {
    let tables = table_of.iter().max().map_or(0, |last| last + 1);
    let mut loosest: Vec<Option<BlockLimit>> = vec![None; tables];
    for (&table, &limit) in table_of.iter().zip(of_values) {
        loosest[table] = Some(loosest[table].map_or(limit, |other| other.or(limit)));
    }
    loosest.into_iter().map(|limit| limit.unwrap_or(BlockLimit::NONE)).collect()
}

/// For each table, the shardings of a part that are not by its groups: those that it adds for
/// values, and those of the layouts of operations. `None` if the time is over before.
fn beside_groups(
    program: &Analyzed,
    part: &Part,
    (table_of, partial): (&[usize], &[Option<Reduction>]),
    interrupt: &Interrupt,
) -> Option<Vec<IndexSet<Sharding, FxBuildHasher>>> {
    let tables = table_of.iter().max().map_or(0, |last| last + 1);
    let mut more = vec![IndexSet::default(); tables];
    if part.is_whole {
        return Some(more);
    }
    for (id, &table) in program.values.indices().zip(table_of) {
        more[table].extend(part.more(id).cloned());
    }
    let layouts = |op: usize| {
        let op = &program.ops[OpId::new(op)];
        interrupt.before_due(|| layouts_of_part(program, part, op, partial))
    };
    let layouts: Vec<Vec<Layout>> =
        (0..program.ops.len()).into_par_iter().map(layouts).collect::<Option<_>>()?;
    for (op, layouts) in program.ops.iter().zip(layouts) {
        for Layout { operands, result } in layouts {
            for (operand, sharding) in op.operands.iter().zip(operands) {
                more[table_of[operand.value.index()]].insert(sharding);
            }
            more[table_of[op.result.index()]].insert(result);
        }
    }
    Some(more)
}

/// For each value, the kind of its partial results, if it can have any: as written, produced by a
/// reduction, passed through, or met by a value with pending sums, so that `x + y {U_X}` can stay
/// pending with `x {U_X}`. Where more than one kind could pass, that of the first is kept.
fn partial_kinds(program: &Analyzed) -> Vec<Option<Reduction>> {
    let pending = |pin: &Option<Pin>| {
        pin.as_ref().filter(|pin| !pin.unreduced.is_empty()).map(|pin| pin.unreduced.kind())
    };
    let mut kinds: Vec<Option<Reduction>> =
        program.values.iter().map(|value| pending(&value.declared_sharding)).collect();
    for output in &program.outputs {
        let kind = &mut kinds[output.value.index()];
        *kind = kind.or(pending(&Some(output.pin.clone())));
    }
    for op in &program.ops {
        for operand in &op.operands {
            let kind = &mut kinds[operand.value.index()];
            *kind = kind.or(pending(&operand.pin));
        }
        // Brackets may ask for a pending sum that is reduced right after the operation.
        let is_written = op.operands.iter().any(|operand| pending(&operand.pin).is_some());
        if is_written || may_stay_pending(program, op.result) {
            for value in op_layouts::joined_by_sums(op, |value| kinds[value.index()]) {
                kinds[value.index()] = Some(Reduction::Sum);
            }
        }
        let taken = program.stage_axis(op).map(|_| Reduction::Sum);
        let given = given_partial(&kinds, op).or(taken).or(pending(&op.result_pin));
        let kind = &mut kinds[op.result.index()];
        *kind = kind.or(given);
    }
    kinds
}

/// Whether anything reads a value's pending sum: else it is reduced at once, and nothing is gained
/// by adding to the sum before. What leaves a layer or a step is complete.
fn may_stay_pending(program: &Analyzed, value: ValueId) -> bool {
    let passes = |(op, operand): (OpId, usize)| op_layouts::passes_sums(&program.ops[op], operand);
    let leaves = |output: usize| !program.outputs[output].pin.unreduced.is_empty();
    let flow = program.dataflow();
    flow.uses_of(value).any(passes) || flow.outputs_of(value).any(leaves)
}

fn given_partial(kinds: &[Option<Reduction>], op: &Op) -> Option<Reduction> {
    let operands: Vec<Option<Reduction>> =
        op.operands.iter().map(|operand| kinds[operand.value.index()]).collect();
    let own = match &op.kind {
        OpKind::Einsum { contracted } => (!contracted.is_empty()).then_some(Reduction::Sum),
        OpKind::Reduce { .. } | OpKind::Gather { .. } | OpKind::ScatterAdd { .. } => {
            Some(op_layouts::reduction(op))
        }
        OpKind::Collective(_) => operands[0],
        OpKind::Map(_)
        | OpKind::Update { .. }
        | OpKind::Rearrange(_)
        | OpKind::Route(_)
        | OpKind::Along(_)
        | OpKind::Opaque(_)
        | OpKind::Composite { .. } => None,
    };
    own.or_else(|| op_layouts::linearity_rules(op, &operands).first().map(|rule| rule.result))
}
