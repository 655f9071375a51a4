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
//! operation. Where a value is rematerialised, the next region starts from the sharding in which it
//! is produced; so that one is live from one region to the other, rather than the smallest, and
//! follows from the choice of the operation that produces it. The real peak (see
//! [`crate::cost::liveness`]) may be higher: a value may be live in more than one sharding, or in a
//! larger one than its smallest, and a collective needs its operand and its result.

mod kept;
mod kernels;
mod lives;

use std::ops::Range;
use std::sync::Arc;

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
use crate::search::memory::demand::kept::kept_by_choice;
use crate::search::memory::demand::kernels::read_by_kernels;
use crate::search::memory::demand::lives::{copies, live_through, lives};
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
    /// For each variable, its operation.
    operations: Vec<Option<OpId>>,
}

/// The bytes that a variable's choice adds while others run.
#[derive(Clone)]
pub(crate) struct LiveAcross {
    /// The variable.
    pub(crate) variable: usize,
    /// The bytes of each choice.
    pub(crate) bytes: Arc<[f64]>,
    during: During,
}

/// When a choice adds its bytes.
#[derive(Clone, PartialEq)]
enum During {
    /// Always: a resident declaration.
    Always,
    /// While a block of microbatches runs: a sum that they add to.
    Microbatches(RepeatId),
    /// While these operations run: a sum of a stage, or a value that waits for another region.
    Operations(Vec<usize>),
}

impl LiveAcross {
    fn is_sum(&self) -> bool {
        matches!(self.during, During::Microbatches(_))
    }
}

impl MemoryDemand {
    /// The demand of every choice of a problem.
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        let frameworks = Frameworks::of(problem.program);
        let lives = lives(problem, &frameworks);
        let own = |variable: &Variable| {
            let choices = variable.choices.iter();
            choices.map(|choice| own(problem, &frameworks, variable, choice)).collect()
        };
        let own: Vec<Arc<[f64]>> = problem.variables.iter().map(own).collect();
        let live_across = (0..problem.variables.len())
            .filter_map(|v| live_across(problem, v, &own[v]))
            .chain(kept_by_choice(problem, &lives))
            .collect();
        let fixed = fixed_bytes(problem.program);
        let live_through = live_through(problem.program, &lives);
        let read = read_by_kernels(problem, &frameworks, &lives);
        let base = |variable: &Variable| {
            let beside = |op: OpId| live_through[op.index()] + read[op.index()];
            variable.decides.operation().map_or(0.0, |op| fixed + beside(op))
        };
        let repeats = &problem.program.repeats;
        let among = |variable: &Variable| {
            repeats.microbatches(problem.program.ops[variable.decides.operation()?].repeat)
        };
        let operation = |variable: &Variable| variable.decides.operation();
        let variables = problem.variables.iter();
        Self {
            base: variables.clone().map(base).collect(),
            own,
            live_across,
            among: variables.clone().map(among).collect(),
            operations: variables.map(operation).collect(),
        }
    }

    /// Whether something is live while a variable's operation runs.
    fn is_live(&self, live: &LiveAcross, variable: usize) -> bool {
        live.variable != variable
            && match &live.during {
                During::Always => true,
                During::Microbatches(block) => self.among[variable] == Some(*block),
                During::Operations(during) => self.operations[variable]
                    .is_some_and(|op| during.binary_search(&op.index()).is_ok()),
            }
    }

    /// What is resident, and the sums of microbatches, while a variable's operation runs.
    pub(crate) fn live_beside(&self, variable: usize) -> Vec<LiveAcross> {
        let stays = |live: &&LiveAcross| !matches!(live.during, During::Operations(_));
        let live = self.live_across.iter().filter(stays);
        live.filter(|live| self.is_live(live, variable)).cloned().collect()
    }

    /// The bytes demanded while each operation runs, limited by the capacity.
    pub(crate) fn capacity(&self, limit: f64) -> Capacity {
        let moments: Vec<usize> =
            (0..self.own.len()).filter(|&v| self.operations[v].is_some()).collect();
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
            self.live_across.iter().find(|live| live.variable == variable && live.is_sum());
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
            Some(LiveAcross { variable, bytes: Arc::clone(own), during: During::Always })
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
            let during = During::Microbatches(during);
            is_loop_exit(op).then_some(LiveAcross { variable, bytes, during })
        }
    }
}

/// Whether a value has no bytes of its own unless it is resharded: it is a view of the rows of
/// another one in a microbatch, stays on the chip, or leaves layers though nothing reads it.
pub(crate) fn takes_no_bytes(program: &Analyzed, value: ValueId) -> bool {
    let dataflow = program.dataflow();
    let is_unread =
        || dataflow.uses_of(value).next().is_none() && dataflow.outputs_of(value).next().is_none();
    let producer = dataflow.definition(value).map(|op| &program.ops[op]);
    producer.is_some_and(|op| {
        op.kernel.result_on_chip
            || op.is_stored_on_host()
            || is_view(op)
            || is_loop_exit(op) && is_unread()
    })
}

/// Whether a result is rows of another value.
fn is_view(op: &Op) -> bool {
    matches!(op.kind, OpKind::Rearrange(Rearrange::Part { .. }))
}

/// Whether the backward part computes a value again rather than keeping it.
pub(crate) fn is_recomputed(program: &Analyzed, value: ValueId) -> bool {
    let producer = program.dataflow().definition(value);
    producer.is_some_and(|op| program.ops[op].kernel.is_recomputed())
}

/// Whether the backward part computes a value again for one of its readers.
fn is_computed_again(program: &Analyzed, value: ValueId, reader: OpId) -> bool {
    program.ops[reader].phase == Phase::Backward && is_recomputed(program, value)
}

/// Bytes of the params and states whose sharding is written.
pub(crate) fn fixed_bytes(program: &Program) -> f64 {
    program.values.indices().filter_map(|value| resident_bytes(program, value)).sum()
}

/// The bytes of the operands that are not resident in that sharding, each once, and of the result;
/// or of a declaration.
fn own(
    problem: &Problem<'_>,
    frameworks: &Frameworks,
    variable: &Variable,
    choice: &Choice,
) -> f64 {
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
    let bytes = |of: &Materialization| {
        frameworks.share(of.value) * local_shape::local_bytes(program, of.value, &of.sharding)
    };
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

/// The smallest block that any sharding of a value leaves on a device.
pub(crate) fn smallest_bytes(tables: &Tables<'_>, value: ValueId) -> f64 {
    if takes_no_bytes(tables.program, value) { 0.0 } else { smallest_block(tables, value) }
}

fn smallest_block(tables: &Tables<'_>, value: ValueId) -> f64 {
    let shardings = tables.of(value).space.shardings();
    shardings
        .map(|sharding| local_shape::local_bytes(tables.program, value, sharding))
        .fold(f64::INFINITY, f64::min)
}
