//! Steps, in their order.

use indexmap::IndexMap;

use super::super::json::{NodeJson, Operation, PlanJson, StepJson, TensorJson};
use super::collectives::is_collective;
use super::flow::{Exit, Flow, Key};
use super::target::Target;
use super::{Result, Unsupported, unsupported};

/// Walks a plan.
pub(in crate::export) struct Walk<'p, T: Target> {
    pub(super) plan: &'p PlanJson,
    /// Whether all devices are one.
    pub(super) whole: bool,
    pub(super) flow: Flow<'p>,
    /// The arrays of each function around a step, the innermost last.
    pub(super) scopes: Vec<IndexMap<Key, T::Array>>,
    /// What loops leave for later steps.
    pub(super) left: IndexMap<(Key, Exit), T::Array>,
    /// Inside the stages of a pipeline, the dimensions that are shorter there.
    pub(super) rows: Option<indexmap::IndexSet<String>>,
    /// The number of the next loop.
    next_loop: usize,
    pub(super) target: T,
}

/// Outputs in order, each in the sharding that it leaves in.
pub(in crate::export) type Outputs<'p, A> = Vec<(&'p TensorJson, A)>;

impl<'p, T: Target> Walk<'p, T> {
    /// The walk of a plan; as on one device where it is the `whole` program.
    pub(in crate::export) fn new(plan: &'p PlanJson, whole: bool, target: T) -> Self {
        Self {
            plan,
            whole,
            flow: Flow::of(plan, whole),
            scopes: vec![IndexMap::new()],
            left: IndexMap::new(),
            rows: None,
            next_loop: 0,
            target,
        }
    }

    /// Writes all steps; returns the target and the outputs.
    pub(in crate::export) fn run(mut self) -> Result<(T, Outputs<'p, T::Array>)> {
        self.declared();
        let plan = self.plan;
        self.nodes(&plan.body)?;
        let output = |output: &'p super::super::json::OutputJson| {
            Ok((&output.tensor, self.output(&output.tensor)?))
        };
        let outputs = plan.outputs.iter().map(output).collect::<Result<_>>()?;
        Ok((self.target, outputs))
    }

    /// Arrays of what is declared once.
    fn declared(&mut self) {
        for value in self.plan.values.iter().filter(|value| value.block.is_none()) {
            let Some(given) = &value.given else { continue };
            let array = self.target.declared(value, given);
            let key = self.flow.key(given);
            self.bind(key, array);
        }
    }

    fn bind(&mut self, key: Key, array: T::Array) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, array);
        }
    }

    pub(super) fn find(&self, key: &Key) -> Option<T::Array> {
        self.scopes.iter().rev().find_map(|scope| scope.get(key).cloned())
    }

    pub(super) fn variable(&self, of: &TensorJson) -> Result<T::Array> {
        let key = self.flow.key(of);
        let left = || self.left.get(&(key.clone(), Exit::All)).cloned();
        self.find(&key).or_else(left).ok_or_else(|| Unsupported {
            value: of.value.clone(),
            what: "a value that is read where no loop passes it".to_owned(),
        })
    }

    fn output(&self, of: &TensorJson) -> Result<T::Array> {
        let layers = self.plan.values.iter().find(|value| value.value == of.value);
        let declared = layers.is_some_and(|value| value.role.is_some() && value.block.is_some());
        if declared { Ok(self.target.of_layers(&of.value)) } else { self.variable(of) }
    }

    pub(super) fn nodes(&mut self, body: &[NodeJson]) -> Result<()> {
        for node in body {
            match node {
                NodeJson::Step(number) => self.step(*number)?,
                NodeJson::Block { body, .. } => {
                    let number = self.next_loop;
                    self.next_loop += 1;
                    match self.microbatched(number, body) {
                        Some(stages) => self.run_stages(number, (stages, body))?,
                        None => self.iterate(number, body)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, number: usize) -> Result<()> {
        let plan = self.plan;
        let step = &plan.steps[number];
        if self.flow.is_nothing(step) {
            return Ok(());
        }
        let made = match &step.operation {
            // Bound where the loop begins.
            Some(Operation::Carry | Operation::Part { .. } | Operation::Chunk { .. }) => {
                return Ok(());
            }
            Some(Operation::Last) => self.exit(step, Exit::Last)?,
            Some(Operation::Total) => self.exit(step, Exit::Sum)?,
            Some(Operation::Join { from, to }) => {
                let of = self.variable(&step.operands[0])?;
                self.target.joined(step, &of, from, to)
            }
            Some(Operation::Stack { from, to }) => {
                let of = self.variable(&step.operands[0])?;
                self.target.stacked(step, &of, from.as_deref(), to)
            }
            Some(operation) if is_collective(step) => {
                let of = self.variable(&step.operands[0])?;
                if self.whole { of } else { self.target.collective(step, operation, &of)? }
            }
            _ => {
                let of: Vec<T::Array> =
                    step.operands.iter().map(|of| self.variable(of)).collect::<Result<_>>()?;
                self.target.local(step, &of)?
            }
        };
        let old = self.outdated(number, step);
        let is_first = self.scopes.iter().all(|scope| scope.keys().all(|key| key.0 != step.value));
        let array = self.target.assigned(step, made, old, is_first);
        self.bind(self.flow.key(&step.result), array);
        Ok(())
    }

    /// The value of a step in another sharding, if nothing reads it later: it is forgotten.
    fn outdated(&mut self, number: usize, step: &StepJson) -> Option<T::Array> {
        let is_over = |key: &Key| self.flow.last_read.get(key).is_none_or(|&last| last <= number);
        let scope = self.scopes.last_mut()?;
        let old = scope.keys().find(|key| key.0 == step.value && is_over(key)).cloned()?;
        scope.shift_remove(&old)
    }

    /// What a loop left: a `last` or a `total`.
    fn exit(&self, step: &StepJson, exit: Exit) -> Result<T::Array> {
        let key = self.flow.key(&step.operands[0]);
        let found = self.find(&key).or_else(|| self.left.get(&(key, exit)).cloned());
        found.map_or_else(|| unsupported(&step.value, "a value of a loop that is not left"), Ok)
    }
}
