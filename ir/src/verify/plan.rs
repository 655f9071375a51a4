//! Verifies plans: every step against the materializations before it, and the plan against the
//! requirements of the program.

use index_vec::IndexVec;
use indexmap::IndexSet;

use super::wording::Words;
use super::{collective, local_result, sharding};
use crate::Diag;
use crate::ids::ValueId;
use crate::plan::{Materialization, Plan, Step, StepKind};
use crate::program::{Mode, Op, OpKind, Operand, Output, Program};
use crate::sharding::{Pin, Sharding};
use crate::unroll::is_loop_exit;

/// The limit of errors.
const MOST_ERRORS: usize = 100;

/// An explicit program as a plan, or the reasons why it is none.
pub fn explicit(program: Program) -> Result<Plan, Vec<Diag>> {
    let steps = program.ops.iter_enumerated().filter_map(|(id, op)| {
        let operands = op.operands.iter().map(used).collect::<Option<Vec<_>>>()?;
        let result = Materialization { value: op.result, sharding: exact(op.result_pin.as_ref())? };
        let kind = match &op.kind {
            OpKind::Collective(kind) => {
                let from = &operands.first()?.sharding;
                StepKind::Collective(
                    collective(&program.mesh, kind, from, &result.sharding).ok()?,
                    Some(id),
                )
            }
            _ => StepKind::Local(id),
        };
        Some(Step { kind, operands, result, repeat: op.repeat })
    });
    let steps = steps.collect();
    let candidate = Plan { program, steps };
    plan(&candidate).map(|()| candidate)
}

fn exact(pin: Option<&Pin>) -> Option<Sharding> {
    pin.and_then(Pin::exact)
}

fn used(operand: &Operand) -> Option<Materialization> {
    Some(Materialization { value: operand.value, sharding: exact(operand.pin.as_ref())? })
}

/// Errors of brackets alone, statement by statement: pinned operands on whose blocks the operation
/// cannot run. In an explicit program also left sides that differ from the result.
pub fn written(program: &Program) -> Vec<Diag> {
    let words = Words { program };
    program.ops.iter().filter_map(|op| written_fault(words, op)).take(MOST_ERRORS).collect()
}

/// Why an operation cannot run on the operands that brackets pin, if it cannot.
pub fn pinned_fault(program: &Program, op: &Op) -> Option<Diag> {
    written_fault(Words { program }, op)
}

fn written_fault(words: Words<'_>, op: &Op) -> Option<Diag> {
    if matches!(op.kind, OpKind::Collective(_)) {
        return None;
    }
    let Some(operands) = op.operands.iter().map(used).collect::<Option<Vec<_>>>() else {
        return words.nonlinear_pin(op);
    };
    let shardings: Vec<&Sharding> = operands.iter().map(|operand| &operand.sharding).collect();
    let wanted = exact(op.result_pin.as_ref());
    match (local_result(words.program, op, &shardings, wanted.as_ref()), wanted) {
        (Err(fault), _) => Some(words.local(op, &operands, &fault)),
        (Ok(given), Some(wanted)) if words.program.mode == Mode::Explicit && given != wanted => {
            Some(words.wrong_result(op, &given, &wanted))
        }
        _ => None,
    }
}

/// Every constraint on a plan.
pub fn plan(plan: &Plan) -> Result<(), Vec<Diag>> {
    let mut check = Check::new(&plan.program);
    for step in &plan.steps {
        if check.diags.len() >= MOST_ERRORS {
            break;
        }
        check.step(step);
    }
    check.declared_shardings();
    check.outputs();
    if check.diags.is_empty() { Ok(()) } else { Err(check.diags) }
}

/// The materializations so far.
struct Check<'p> {
    program: &'p Program,
    words: Words<'p>,
    exists: IndexSet<Materialization>,
    /// For each value its shardings, in order of appearance.
    forms: IndexVec<ValueId, Vec<Sharding>>,
    /// Results of faulty steps, whose missing materializations are not reported.
    tainted: IndexSet<ValueId>,
    diags: Vec<Diag>,
}

impl<'p> Check<'p> {
    fn new(program: &'p Program) -> Self {
        let mut check = Self {
            program,
            words: Words { program },
            exists: IndexSet::new(),
            forms: program.values.iter().map(|_| Vec::new()).collect(),
            tainted: IndexSet::new(),
            diags: Vec::new(),
        };
        for (value, declared) in
            program.values.iter_enumerated().filter(|(_, value)| value.is_declared())
        {
            if let Some(sharding) = exact(declared.declared_sharding.as_ref()) {
                check.add(Materialization { value, sharding });
            }
        }
        check
    }

    fn add(&mut self, given: Materialization) {
        let (value, sharding) = (given.value, given.sharding.clone());
        if self.exists.insert(given) {
            self.forms[value].push(sharding);
        }
    }

    fn step(&mut self, step: &Step) {
        let materials = || step.operands.iter().chain([&step.result]);
        if materials().any(|m| m.value.index() >= self.program.values.len())
            || !self.carries_out(step)
        {
            self.diags.push(self.words.not_its_statement(step));
            return;
        }
        let before = self.diags.len();
        if let Some((material, fault)) =
            materials().find_map(|m| Some((m, sharding(self.program, m.value, &m.sharding).err()?)))
        {
            self.diags.push(self.words.bad_sharding(step, material, &fault));
        } else {
            for (position, operand) in step.operands.iter().enumerate() {
                if !self.sees(step, operand.value) {
                    self.diags.push(self.words.of_a_layer(step, operand.value));
                } else if !self.exists.contains(operand) && !self.tainted.contains(&operand.value) {
                    self.diags.push(self.words.missing(step, position, &self.forms[operand.value]));
                }
            }
            self.diags.extend(self.fault(step));
        }
        if self.diags.len() > before {
            self.tainted.insert(step.result.value);
        }
        self.add(step.result.clone());
    }

    /// Whether the step has the form of its statement.
    fn carries_out(&self, step: &Step) -> bool {
        match &step.kind {
            StepKind::Local(id) => self.program.ops.get(*id).is_some_and(|op| {
                let same_operands = op.operands.len() == step.operands.len()
                    && op.operands.iter().zip(&step.operands).all(|(a, b)| a.value == b.value);
                let in_its_block = op.repeat == step.repeat;
                in_its_block
                    && same_operands
                    && op.result == step.result.value
                    && !matches!(op.kind, OpKind::Collective(_))
            }),
            StepKind::Collective(_, written) => {
                let [operand] = &step.operands[..] else { return false };
                let op = written.and_then(|id| self.program.ops.get(id));
                let renamed = op.is_some_and(|op| {
                    op.result == step.result.value
                        && op.operands.first().is_some_and(|o| o.value == operand.value)
                });
                operand.value == step.result.value || renamed
            }
        }
    }

    fn fault(&self, step: &Step) -> Option<Diag> {
        match &step.kind {
            StepKind::Collective(moved, _) => {
                let from = &step.operands.first()?.sharding;
                match collective(&self.program.mesh, &moved.kind, from, &step.result.sharding) {
                    Err(fault) => Some(self.words.bad_collective(step, &moved.kind, &fault)),
                    Ok(right) if right != *moved => Some(self.words.misnamed(step, &right)),
                    Ok(_) => None,
                }
            }
            StepKind::Local(id) => {
                let op = &self.program.ops[*id];
                let operands: Vec<&Sharding> =
                    step.operands.iter().map(|operand| &operand.sharding).collect();
                match local_result(self.program, op, &operands, Some(&step.result.sharding)) {
                    Err(fault) => Some(self.words.local(op, &step.operands, &fault)),
                    Ok(given) if given != step.result.sharding => {
                        Some(self.words.wrong_result(op, &given, &step.result.sharding))
                    }
                    Ok(_) => self.unpinned(op, step),
                }
            }
        }
    }

    /// An operand that the program pins differently.
    fn unpinned(&self, op: &Op, step: &Step) -> Option<Diag> {
        let mut pairs = op.operands.iter().zip(&step.operands);
        let (operand, material) = pairs.find(|(operand, material)| {
            operand.pin.as_ref().is_some_and(|pin| !pin.accepts(&material.sharding))
        })?;
        Some(self.words.unpinned(operand, material))
    }

    /// Whether the value is in scope: that of its own layer, or of none; of the last layer for a
    /// step that exports it from its block.
    fn sees(&self, step: &Step, value: ValueId) -> bool {
        let is_export =
            matches!(step.kind, StepKind::Local(op) if is_loop_exit(&self.program.ops[op]));
        if is_export {
            self.program.exited_block(step.repeat, value).is_some()
        } else {
            self.program.in_scope(step.repeat, value)
        }
    }

    fn has(&self, value: ValueId, pin: &Pin) -> bool {
        match pin.exact() {
            Some(sharding) => self.exists.contains(&Materialization { value, sharding }),
            None => self.forms[value].iter().any(|sharding| pin.accepts(sharding)),
        }
    }

    /// Values that a step produces are resharded to their declared shardings.
    fn declared_shardings(&mut self) {
        for (id, value) in self.program.values.iter_enumerated() {
            if let Some(declared) = &value.declared_sharding
                && !self.forms[id].is_empty()
                && !self.tainted.contains(&id)
                && !self.has(id, declared)
                && self.diags.len() < MOST_ERRORS
            {
                self.diags.push(self.words.not_declared_sharding(id, &self.forms[id]));
            }
        }
    }

    fn outputs(&mut self) {
        for output in &self.program.outputs {
            let reported = self.tainted.contains(&output.value) || self.diags.len() >= MOST_ERRORS;
            // A loop-carried value has the sharding of its first form.
            let entered = output.yields_to.and_then(|enters| self.forms[enters].first());
            let wanted = Output {
                pin: entered.map_or_else(|| output.pin.clone(), |form| form.clone().into()),
                ..output.clone()
            };
            if !reported && !self.has(wanted.value, &wanted.pin) {
                self.diags.push(self.words.no_output(&wanted, &self.forms[output.value]));
            }
        }
    }
}
