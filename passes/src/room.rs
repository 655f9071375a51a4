//! How much memory a choice needs at least: what makes a limit on memory a matter of single choices.
//!
//! While an operation runs, a device holds what is resident, the operation's operands and result, and of every other value that is still to be
//! used at least the smallest block that any sharding leaves of it. The first three follow from the choices of the operation and of the open
//! declarations, the last is a constant; so
//!
//! ```text
//! peak ≥ needed[op] = base[op] + Σ resident[open declaration's choice] + own[op's choice]
//! ```
//!
//! which is linear in the choices taken one by one. The real peak (see [`crate::memory`]) may be higher: a value may be held in more than one
//! sharding, or in a larger one than its smallest, and a collective holds its operand and its result.

use index_vec::IndexVec;
use indexmap::IndexMap;
use shardwise_ir::Role;
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::Materialization;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::Pin;

use crate::local;
use crate::problem::{Choice, Decision, Problem, Variable};
use crate::staged;
use crate::tables::Tables;

/// The bytes that choices need.
pub struct Room {
    /// For each operation's variable, what is held whatever is chosen; nothing for declarations.
    pub base: Vec<f64>,
    /// For each variable, what each of its choices adds: while it runs, for an operation; always, for a resident declaration.
    pub own: Vec<Vec<f64>>,
    /// Variables of declarations that stay on the devices.
    pub resident: Vec<usize>,
}

impl Room {
    /// The needs of every choice of a problem.
    pub fn new(problem: &Problem<'_>) -> Self {
        let own: Vec<Vec<f64>> =
            problem.variables.iter().map(|v| v.choices.iter().map(|choice| own(problem, v, choice)).collect()).collect();
        let stays = |variable: &Variable| matches!(variable.decides, Decision::Declaration(value) if is_resident(problem.program, value));
        let resident = (0..problem.variables.len()).filter(|&v| stays(&problem.variables[v])).collect();
        let fixed = fixed_bytes(problem.program);
        let bystanders = bystanders(problem);
        let base = |variable: &Variable| variable.decides.operation().map_or(0.0, |op| fixed + bystanders[op.index()]);
        Self { base: problem.variables.iter().map(base).collect(), own, resident }
    }

    /// What is needed while an operation's variable runs, at least.
    pub fn needed(&self, variable: usize, assignment: &[usize]) -> f64 {
        let resident: f64 = self.resident.iter().map(|&r| self.own[r][assignment[r]]).sum();
        self.base[variable] + resident + self.own[variable][assignment[variable]]
    }

    /// The least that open resident declarations need together.
    pub fn least_resident(&self) -> f64 {
        self.resident.iter().map(|&r| self.own[r].iter().copied().fold(f64::INFINITY, f64::min)).sum()
    }
}

/// How many of a value a device has where all stay: one for each layer of its block, in a pipeline one for each microbatch.
fn copies(program: &Program, value: ValueId) -> f64 {
    staged::all_of(program, value)
}

/// Whether a declared value stays on the devices.
fn is_resident(program: &Program, value: ValueId) -> bool {
    matches!(program.values[value].role, Some(Role::Param | Role::State))
}

/// Bytes of the params and states whose sharding is written.
pub fn fixed_bytes(program: &Program) -> f64 {
    let written = |value: ValueId| program.values[value].home.as_ref().and_then(Pin::exact);
    let resident = program.values.indices().filter(|&value| is_resident(program, value));
    let bytes = |value: ValueId| Some(copies(program, value) * local::local_bytes(program, value, &written(value)?));
    resident.filter_map(bytes).sum()
}

/// Operands that are not where they reside, each once, and the result; or what a declaration holds.
fn own(problem: &Problem<'_>, variable: &Variable, choice: &Choice) -> f64 {
    let program = problem.program;
    let sharding = |value: ValueId, state| problem.table(value).space.sharding(state).clone();
    let gives = problem.sources[variable.gives].value;
    let Some(op) = variable.decides.operation() else {
        return copies(program, gives) * local::local_bytes(program, gives, &sharding(gives, choice.gives));
    };
    let mut held = vec![Materialization { value: gives, sharding: sharding(gives, choice.gives) }];
    for (operand, &need) in program.ops[op].operands.iter().zip(&choice.needs) {
        let read = Materialization { value: operand.value, sharding: sharding(operand.value, need) };
        let at_home = is_resident(program, operand.value)
            && program.values[operand.value].home.as_ref().is_none_or(|home| home.accepts(&read.sharding));
        if !at_home && !held.contains(&read) {
            held.push(read);
        }
    }
    held.iter().map(|of| local::local_bytes(program, of.value, &of.sharding)).sum()
}

/// For each operation, the bytes that values need which are held across it: where declared, until their first use; after that their smallest.
/// What another block reads of a block is held for every layer, what a block reads from before it until its end.
fn bystanders(problem: &Problem<'_>) -> Vec<f64> {
    let program = problem.program;
    let mut bytes = vec![0.0; program.ops.len()];
    let last_of: IndexMap<RepeatId, usize> = program.ops.iter_enumerated().filter_map(|(id, op)| Some((op.repeat?, id.index()))).collect();
    let mut uses_of: IndexVec<ValueId, Vec<usize>> = program.values.iter().map(|_| Vec::new()).collect();
    for (op_id, op) in program.ops.iter_enumerated() {
        op.operands.iter().for_each(|operand| uses_of[operand.value].push(op_id.index()));
    }
    for (id, value) in program.values.iter_enumerated().filter(|(id, _)| !is_resident(program, *id)) {
        let uses = &uses_of[id];
        let leaves = program.outputs.iter().any(|output| output.value == id && output.hands_to.is_none());
        let from = value.producer.map_or(0, |op| op.index() + 1);
        let elsewhere = |&op: &usize| program.ops[op].repeat.filter(|_| program.ops[op].repeat != value.repeat);
        let ends = uses.iter().filter_map(elsewhere).map(|block| last_of[&block]);
        let last = uses.last().copied().into_iter().chain(ends).max().unwrap_or(0);
        let to = if leaves { program.ops.len() } else { last };
        let saved = value.repeat.is_some() && (leaves || uses.iter().any(|op| elsewhere(op).is_some()));
        let copies = match (saved, leaves) {
            (true, true) => copies(program, id),
            (true, false) => staged::kept(program, id),
            (false, _) => 1.0,
        };
        let first = uses.first().copied().unwrap_or(to);
        let smallest = smallest_bytes(problem.tables, id);
        let declared = value.home.as_ref().and_then(Pin::exact).filter(|_| value.producer.is_none());
        let whole = declared.map_or(smallest, |home| local::local_bytes(program, id, &home));
        for op in (from..to).filter(|op| uses.binary_search(op).is_err()) {
            bytes[op] += copies * if op < first { whole } else { smallest };
        }
    }
    bytes
}

/// The smallest block that any sharding of a value leaves on a device.
fn smallest_bytes(tables: &Tables<'_>, value: ValueId) -> f64 {
    let shardings = tables.of(value).space.shardings();
    shardings.map(|sharding| local::local_bytes(tables.program, value, sharding)).fold(f64::INFINITY, f64::min)
}
