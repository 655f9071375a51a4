//! The reshard tables of a program: one for each distinct shape of a value.

use indexmap::IndexSet;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Op, OpKind, Operand, Program};
use shardwise_ir::sharding::{Pin, Reduction, Sharding};

use crate::cost::collective::{CostModel, Refinement};
use crate::layouts::op_layouts::{self, Layout};
use crate::reshard::paths::Reshards;
use crate::reshard::sharding_space::{ShardingSpace, State, ValueShape};
use crate::solver::dreyfus_wagner::{Terminal, Trees};

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
}

impl<'a> Tables<'a> {
    /// The first value whose shardings are more than can be tabulated, if there is one: their
    /// number grows with the factorial of the axes.
    pub fn too_large(program: &Program) -> Option<ValueId> {
        let axes = program.mesh.splitting().count();
        program
            .values
            .iter_enumerated()
            .find(|(_, value)| states_at_most(axes, value.dims.len()) > MOST_STATES)
            .map(|(id, _)| id)
    }

    /// Tabulates every shape that occurs.
    pub fn new(program: &'a Analyzed, refinement: Refinement) -> Self {
        Self::on(program, CostModel::time(refinement))
    }

    /// The same under another cost model.
    pub fn on(program: &'a Analyzed, cost_model: CostModel) -> Self {
        debug_assert!(
            program.backward.is_none(),
            "gradients are derived before anything is planned"
        );
        let partial = partial_kinds(program);
        let mut shapes: IndexSet<ValueShape, FxBuildHasher> = IndexSet::default();
        let mut table_of = Vec::with_capacity(program.values.len());
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
                partial: partial[id.index()],
                staged_over,
            };
            table_of.push(shapes.insert_full(shape).0);
        }
        let shapes: Vec<ValueShape> = shapes.into_iter().collect();
        let all = shapes
            .par_iter()
            .map(|shape| Reshards::new(ShardingSpace::new(program, shape, &cost_model)))
            .collect();
        Self { program, cost_model, all, table_of, partial }
    }

    /// An empty table of the cheapest trees for each of [`Tables::all`].
    pub fn trees(&self) -> Vec<Trees<'_>> {
        self.all.iter().map(|table| Trees::new(table.graph())).collect()
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

    /// The layouts of an operation that fit its brackets and the shardings of its values.
    pub fn layouts(&self, op: &Op) -> Vec<Layout> {
        let partial: Vec<Option<Reduction>> =
            op.operands.iter().map(|operand| self.partial(operand.value)).collect();
        let fits = |operand: &Operand, sharding: &Sharding| {
            operand.pin.as_ref().is_none_or(|pin| pin.accepts(sharding))
                && self.of(operand.value).space.find(sharding).is_some()
        };
        let mut layouts = op_layouts::layouts(self.program, op, &partial);
        layouts.retain(|layout| {
            op.operands.iter().zip(&layout.operands).all(|(operand, to)| fits(operand, to))
                && self.of(op.result).space.find(&layout.result).is_some()
        });
        layouts
    }

    /// The states of a value that a pin accepts.
    pub fn states(&self, value: ValueId, pin: &Pin) -> Terminal {
        let space = &self.of(value).space;
        match pin.exact() {
            Some(exact) => space.find(&exact).into_iter().collect(),
            None => (0..space.len()).filter(|&state| pin.accepts(space.sharding(state))).collect(),
        }
    }
}

/// Shardings of one value: a table of all distances then takes under half a gigabyte.
const MOST_STATES: u64 = 4500;

/// The number of shardings of `rank` dimensions on `axes` axes, ignoring divisibility: used axes
/// are ordered in lists, each other axis is pending or not.
fn states_at_most(axes: usize, rank: usize) -> u64 {
    let (axes, rank) = (axes as u64, rank as u64);
    let mut total = 0_u64;
    let mut arranged = 1_u64;
    for used in 0..=axes {
        total = total.saturating_add(arranged.saturating_mul(1 << (axes - used)));
        arranged = arranged.saturating_mul(axes - used).saturating_mul(rank + used) / (used + 1);
    }
    total
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
        if may_stay_pending(program, op.result) {
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
