//! Lower bounds of the memory demand of single choices: the capacity of the model.
//!
//! While an operation runs, device memory contains the resident values, the operation's operands
//! and result, and at least the smallest block of every other live value under any sharding. The
//! first three follow from the choices of the operation, of the open declarations, and of the sums
//! that microbatches add to; the last is a constant; so
//!
//! ```text
//! peak ≥ demand[op] = base[op] + Σ live_across[another's choice] + own[op's choice]
//! ```
//!
//! which is linear in the choices taken one by one: a moment of the solver's capacity for each
//! operation. The real peak (see [`crate::cost::liveness`]) may be higher: a value may be live in
//! more than one sharding, or in a larger one than its smallest, and a collective needs its operand
//! and its result.

use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::plan::Materialization;
use shardwise_ir::program::{Blocks, Op, OpKind, Phase, Program};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::sharding::Pin;
use shardwise_ir::unroll::is_loop_exit;

use crate::cost::held::{is_resident, resident_bytes};
use crate::cost::pipeline_stages;
use crate::layouts::local_shape;
use crate::problem::{Choice, Decision, Problem, Variable};
use crate::reshard::tables::Tables;
use crate::solver::model::{Capacity, Demand};
use crate::training::frameworks::Frameworks;

/// The memory demand of all choices.
pub(crate) struct MemoryDemand {
    /// For each operation's variable, the constant bytes; zero for declarations.
    pub(crate) base: Vec<f64>,
    /// For each variable, the bytes that each choice adds: while it runs, for an operation; always,
    /// for a resident declaration.
    own: Vec<Arc<[f64]>>,
    /// Values that are live while other operations run.
    pub(crate) live_across: Vec<LiveAcross>,
    /// For each variable, the block of microbatches that contains its operation.
    among: Vec<Option<RepeatId>>,
    /// For each variable, whether it is an operation's.
    runs: Vec<bool>,
}

/// The bytes that a variable's choice adds while others run: a resident declaration, or a sum that
/// microbatches accumulate.
#[derive(Clone)]
pub(crate) struct LiveAcross {
    /// The variable.
    pub(crate) variable: usize,
    /// The bytes of each choice.
    pub(crate) bytes: Arc<[f64]>,
    /// The block during which it is live; `None`: always.
    during: Option<RepeatId>,
}

impl LiveAcross {
    /// Whether it is always live.
    pub(crate) fn is_resident(&self) -> bool {
        self.during.is_none()
    }
}

impl MemoryDemand {
    /// The demand of every choice of a problem.
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        let own: Vec<Arc<[f64]>> = problem
            .variables
            .iter()
            .map(|v| v.choices.iter().map(|choice| own(problem, v, choice)).collect())
            .collect();
        let live_across =
            (0..problem.variables.len()).filter_map(|v| live_across(problem, v, &own[v])).collect();
        let fixed = fixed_bytes(problem.program);
        let live_through = live_through(problem);
        let base = |variable: &Variable| {
            variable.decides.operation().map_or(0.0, |op| fixed + live_through[op.index()])
        };
        let repeats = &problem.program.repeats;
        let among = |variable: &Variable| {
            repeats.microbatches(problem.program.ops[variable.decides.operation()?].repeat)
        };
        let runs = |variable: &Variable| variable.decides.operation().is_some();
        let variables = problem.variables.iter();
        Self {
            base: variables.clone().map(base).collect(),
            own,
            live_across,
            among: variables.clone().map(among).collect(),
            runs: variables.map(runs).collect(),
        }
    }

    /// Whether something is live while a variable's operation runs.
    fn is_live(&self, live: &LiveAcross, variable: usize) -> bool {
        live.variable != variable && (live.during.is_none() || live.during == self.among[variable])
    }

    /// What other choices keep while a variable's operation runs.
    pub(crate) fn live_beside(&self, variable: usize) -> Vec<LiveAcross> {
        self.live_across.iter().filter(|live| self.is_live(live, variable)).cloned().collect()
    }

    /// The bytes demanded while each operation runs, limited by the capacity.
    pub(crate) fn capacity(&self, limit: f64) -> Capacity {
        let moments: Vec<usize> = (0..self.own.len()).filter(|&v| self.runs[v]).collect();
        let own = moments.iter().enumerate().map(|(moment, &variable)| Demand {
            variable,
            live: moment..moment + 1,
            numbers: Arc::clone(&self.own[variable]),
        });
        let across = self.live_across.iter().flat_map(|live| {
            let is_live = |&variable: &usize| self.is_live(live, variable);
            runs(moments.iter().map(is_live)).into_iter().map(|during| Demand {
                variable: live.variable,
                live: during,
                numbers: Arc::clone(&live.bytes),
            })
        });
        let demands = own.chain(across).collect();
        let constants = moments.iter().map(|&variable| self.base[variable]).collect();
        Capacity { constants, demands, limit }
    }

    /// The least demand with one choice of a variable.
    pub(crate) fn least(&self, variable: usize, choice: usize) -> f64 {
        let least = |live: &LiveAcross| live.bytes.iter().copied().fold(f64::INFINITY, f64::min);
        let beside = |of: &dyn Fn(&LiveAcross) -> bool| {
            self.live_across.iter().filter(|live| of(live)).map(least).sum::<f64>()
        };
        let running = self.base[variable]
            + self.own[variable][choice]
            + beside(&|live| self.is_live(live, variable));
        let itself =
            self.live_across.iter().find(|live| live.variable == variable && !live.is_resident());
        let adding = itself.map_or(0.0, |live| {
            live.bytes[choice]
                + beside(&|other| other.variable != variable && other.during == live.during)
        });
        running.max(adding)
    }
}

/// The intervals in which something is so.
fn runs(is_so: impl Iterator<Item = bool>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (place, _) in is_so.enumerate().filter(|(_, is_so)| *is_so) {
        match runs.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ => runs.push(place..place + 1),
        }
    }
    runs
}

/// The bytes that a variable adds while others run.
fn live_across(problem: &Problem<'_>, variable: usize, own: &Arc<[f64]>) -> Option<LiveAcross> {
    let program = problem.program;
    match problem.variables[variable].decides {
        Decision::Declaration(value) if is_resident(program, value) => {
            Some(LiveAcross { variable, bytes: Arc::clone(own), during: None })
        }
        Decision::Declaration(_) => None,
        Decision::Operation(op) => {
            let op = &program.ops[op];
            let during = program.repeats.exited_microbatches(
                op.repeat,
                program.values[op.operands.first()?.value].repeat,
            )?;
            let space = &problem.table(op.result).space;
            let bytes = |gives| {
                program.layer_count(op.repeat) as f64
                    * local_shape::local_bytes(program, op.result, space.sharding(gives))
            };
            let bytes = problem.variables[variable]
                .choices
                .iter()
                .map(|choice| bytes(choice.result))
                .collect();
            is_loop_exit(op).then_some(LiveAcross { variable, bytes, during: Some(during) })
        }
    }
}

/// The number of copies of a value that are live together: one for each layer of its block, in a
/// pipeline one for each microbatch.
fn copies(program: &Program, value: ValueId) -> f64 {
    pipeline_stages::all_copies(program, value)
}

/// Whether a value has no bytes of its own unless it is resharded: it is a view of the rows of
/// another one in a microbatch, or stays on the chip.
fn takes_no_bytes(program: &Analyzed, value: ValueId) -> bool {
    let producer = program.dataflow().definition(value).map(|op| &program.ops[op]);
    producer.is_some_and(|op| {
        op.kernel.result_on_chip
            || op.is_stored_on_host()
            || matches!(op.kind, OpKind::Rearrange(Rearrange::Part { .. }))
    })
}

/// Whether the backward part computes a value again for one of its readers.
fn is_computed_again(program: &Analyzed, value: ValueId, reader: OpId) -> bool {
    program.ops[reader].phase == Phase::Backward && is_recomputed(program, value)
}

/// Whether the backward part computes a value again rather than keeping it.
pub(crate) fn is_recomputed(program: &Analyzed, value: ValueId) -> bool {
    let producer = program.dataflow().definition(value);
    producer.is_some_and(|op| program.ops[op].kernel.is_recomputed())
}

/// Bytes of the params and states whose sharding is written.
pub(crate) fn fixed_bytes(program: &Program) -> f64 {
    program.values.indices().filter_map(|value| resident_bytes(program, value)).sum()
}

/// The bytes of the operands that are not resident in that sharding, each once, and of the result;
/// or of a declaration.
fn own(problem: &Problem<'_>, variable: &Variable, choice: &Choice) -> f64 {
    let program = problem.program;
    let sharding = |value: ValueId, state| problem.table(value).space.sharding(state).clone();
    let gives = problem.definitions[variable.result].value;
    let Some(op) = variable.decides.operation() else {
        return copies(program, gives)
            * local_shape::local_bytes(program, gives, &sharding(gives, choice.result));
    };
    let result = Materialization { value: gives, sharding: sharding(gives, choice.result) };
    // An update may take the place of what it updates.
    let mut held = if program.is_update(gives) || takes_no_bytes(program, gives) {
        Vec::new()
    } else {
        vec![result]
    };
    for (operand, &need) in program.ops[op].operands.iter().zip(&choice.operands) {
        let read =
            Materialization { value: operand.value, sharding: sharding(operand.value, need) };
        let is_declared_sharding = is_resident(program, operand.value)
            && program.values[operand.value]
                .declared_sharding
                .as_ref()
                .is_none_or(|declared| declared.accepts(&read.sharding));
        if !is_declared_sharding && !takes_no_bytes(program, operand.value) && !held.contains(&read)
        {
            held.push(read);
        }
    }
    let bytes = |of: &Materialization| local_shape::local_bytes(program, of.value, &of.sharding);
    held.iter().map(|of| retained_layers(problem, variable, of) * bytes(of)).sum()
}

/// The number of layers for which a device keeps an operand: all of them, where parameters are kept
/// gathered for all microbatches; a slice is not kept.
fn retained_layers(problem: &Problem<'_>, variable: &Variable, of: &Materialization) -> f64 {
    let program = problem.program;
    let is_retained = variable.operands.iter().any(|&definition| {
        problem.definitions[definition].value == of.value
            && problem.definitions[definition].kept_gathered
    });
    let declared = program.values[of.value]
        .declared_sharding
        .as_ref()
        .and_then(Pin::exact)
        .filter(|_| is_retained);
    let grown = declared.is_some_and(|declared| {
        local_shape::local_bytes(program, of.value, &of.sharding)
            > local_shape::local_bytes(program, of.value, &declared)
    });
    if grown { pipeline_stages::in_flight_copies(program, of.value) } else { 1.0 }
}

/// For each operation, the bytes of values that are live across it: in their declared sharding
/// until their first use, after that in their smallest. A value of a block that another block reads
/// is kept for every layer; a value from before a block that the block reads is live until its end.
fn live_through(problem: &Problem<'_>) -> Vec<f64> {
    let program = problem.program;
    let frameworks = Frameworks::of(program);
    let mut bytes = vec![0.0; program.ops.len()];
    let blocks_of = |(id, op): (OpId, &Op)| {
        program.repeats.path(op.repeat).into_iter().map(move |block| (block, id.index()))
    };
    let last_of: IndexMap<RepeatId, usize> =
        program.ops.iter_enumerated().flat_map(blocks_of).collect();
    for (id, value) in program.values.iter_enumerated().filter(|(id, _)| !is_resident(program, *id))
    {
        // A value that leaves microbatches is added to their accumulated result, and not kept.
        let stays = |op: &OpId| {
            let place = program.ops[*op].repeat;
            program.repeats.exited_microbatches(place, value.repeat).is_none()
        };
        let keeps = |op: &OpId| !is_computed_again(program, id, *op);
        let readers = program.dataflow().uses_of(id).map(|(op, _)| op);
        let uses: Vec<usize> = readers.filter(stays).filter(keeps).map(OpId::index).collect();
        let mut outputs = program.dataflow().outputs_of(id);
        let leaves =
            outputs.any(|place| program.outputs[place].yields_to.is_none()) || frameworks.keep(id);
        let definition = program.dataflow().definition(id);
        let from = definition.map_or(0, |op| op.index() + 1);
        let elsewhere =
            |&op: &usize| program.repeats.outermost(program.ops[op].repeat, value.repeat);
        let ends = uses.iter().filter_map(elsewhere).map(|block| last_of[&block]);
        let last = uses.last().copied().into_iter().chain(ends).max().unwrap_or(0);
        let to = if leaves { program.ops.len() } else { last };
        let is_apart =
            |&op: &usize| program.repeats.are_apart(program.ops[op].repeat, value.repeat);
        let saved = value.repeat.is_some() && (leaves || uses.iter().any(is_apart));
        let copies = frameworks.copies(program, id)
            * match (saved, leaves) {
                (true, true) => copies(program, id),
                (true, false) => pipeline_stages::in_flight_copies(program, id),
                (false, _) => 1.0,
            };
        let first = uses.first().copied().unwrap_or(to);
        let smallest = smallest_bytes(problem.tables, id);
        let declared =
            value.declared_sharding.as_ref().and_then(Pin::exact).filter(|_| value.role.is_some());
        let initial =
            declared.map_or(smallest, |declared| local_shape::local_bytes(program, id, &declared));
        // Gradients that are kept become more while layers run.
        let layers = program.repeats.outwards(value.repeat).last().filter(|_| frameworks.keep(id));
        let grown = layers.map_or(0, |block| last_of[&block]);
        for op in (from..to).filter(|op| uses.binary_search(op).is_err()) {
            let copies = if op <= grown { 1.0 } else { copies };
            bytes[op] += copies * if op < first { initial } else { smallest };
        }
    }
    bytes
}

/// The smallest block that any sharding of a value leaves on a device.
pub(crate) fn smallest_bytes(tables: &Tables<'_>, value: ValueId) -> f64 {
    if takes_no_bytes(tables.program, value) {
        return 0.0;
    }
    let shardings = tables.of(value).space.shardings();
    shardings
        .map(|sharding| local_shape::local_bytes(tables.program, value, sharding))
        .fold(f64::INFINITY, f64::min)
}
