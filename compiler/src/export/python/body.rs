//! Functions: the steps of a plan as assignments.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{NodeJson, Operation, PlanJson, StepJson, TensorJson};
use super::collectives::is_collective;
use super::dialect::Dialect;
use super::expression::Expressions;
use super::flow::{Exit, Flow, Key};
use super::layout;
use super::names::{Names, identifier};
use super::{Result, unsupported};

/// Writes one function.
pub(in crate::export) struct Writer<'p> {
    pub(super) plan: &'p PlanJson,
    pub(super) flow: Flow<'p>,
    pub(super) expressions: Expressions<'p>,
    pub(in crate::export) names: Names,
    /// The variables of each function around a line, the innermost last.
    pub(super) scopes: Vec<IndexMap<Key, String>>,
    /// What loops leave for later lines.
    pub(super) left: IndexMap<(Key, Exit), String>,
    pub(in crate::export) text: String,
}

impl<'p> Writer<'p> {
    pub(super) fn new(
        plan: &'p PlanJson,
        whole: bool,
        (offsets, dialect): (&'p IndexSet<String>, &'p dyn Dialect),
    ) -> Self {
        let expressions = Expressions::new(plan, whole, offsets, dialect);

        Self {
            plan,
            flow: Flow::of(plan, whole),
            expressions,
            names: Names::reserving(dialect.helpers().iter().map(|(name, _)| *name)),
            scopes: vec![IndexMap::new()],
            left: IndexMap::new(),
            text: String::new(),
        }
    }

    /// The body of the function, which takes arrays by name in `given`, and returns its outputs by
    /// name.
    pub(super) fn body(mut self) -> Result<(String, Expressions<'p>)> {
        self.declared();
        let plan = self.plan;
        let mut loops = 0;
        self.nodes(&plan.body, 4, &mut loops)?;
        let mut outputs = Vec::new();
        for output in &plan.outputs {
            outputs.push(format!("{:?}: {}", output.tensor.value, self.output(&output.tensor)?));
        }
        outputs.dedup();
        self.line(4, &format!("return {{{}}}", outputs.join(", ")));
        Ok((self.text, self.expressions))
    }

    pub(in crate::export) fn line(&mut self, indent: usize, text: &str) {
        self.text += &layout::line(indent, text);
    }

    /// Variables for what is declared once.
    fn declared(&mut self) {
        for value in self.plan.values.iter().filter(|value| value.block.is_none()) {
            let Some(given) = &value.given else { continue };
            let name = self.names.fresh(&value.value);
            let parts = if self.has_parts(given) {
                format!("[{}]", vec!["0"; given.unreduced.len()].join(", "))
            } else {
                String::new()
            };
            let comment = described(given);
            self.commented(4, &format!("{name} = given[{:?}]{parts}", value.value), &comment);
            let key = self.flow.key(given);
            self.bind(key, name);
        }
    }

    /// Whether an argument or output has a dimension for each pending axis.
    fn has_parts(&self, of: &TensorJson) -> bool {
        let is_pending = !self.expressions.whole && !of.unreduced.is_empty();
        is_pending && self.expressions.dialect.has_pending_dims()
    }

    fn commented(&mut self, indent: usize, text: &str, comment: &str) {
        let comment = if self.expressions.whole { "" } else { comment };
        let line = format!("{text}  # {comment}");
        if comment.is_empty() {
            self.line(indent, text);
        } else if line.chars().count() + indent <= layout::WIDTH {
            self.text += &format!("{}{line}\n", " ".repeat(indent));
        } else {
            self.text += &format!("{}# {comment}\n", " ".repeat(indent));
            self.line(indent, text);
        }
    }

    fn bind(&mut self, key: Key, name: String) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, name);
        }
    }

    pub(super) fn find(&self, key: &Key) -> Option<String> {
        self.scopes.iter().rev().find_map(|scope| scope.get(key).cloned())
    }

    pub(super) fn variable(&self, of: &TensorJson) -> Result {
        let key = self.flow.key(of);
        let left = || self.left.get(&(key.clone(), Exit::All)).cloned();
        self.find(&key).or_else(left).ok_or_else(|| super::Unsupported {
            value: of.value.clone(),
            what: "a value that is read where no loop passes it".to_owned(),
        })
    }

    fn output(&mut self, of: &TensorJson) -> Result {
        let layers = self.plan.values.iter().find(|value| value.value == of.value);
        let declared = layers.is_some_and(|value| value.role.is_some() && value.block.is_some());
        let variable = if declared { format!("given[{:?}]", of.value) } else { self.variable(of)? };
        if !self.has_parts(of) {
            return Ok(variable);
        }
        Ok(format!("{variable}[{}]", vec!["None"; of.unreduced.len()].join(", ")))
    }

    pub(super) fn nodes(
        &mut self,
        body: &[NodeJson],
        indent: usize,
        loops: &mut usize,
    ) -> Result<()> {
        for node in body {
            match node {
                NodeJson::Step(number) => self.step(*number, indent)?,
                NodeJson::Block { body, .. } => {
                    let number = *loops;
                    *loops += 1;
                    match self.microbatched(number, body) {
                        Some(stages) => self.run_stages(number, (stages, body), indent, loops)?,
                        None => self.iterate(number, body, indent, loops)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, number: usize, indent: usize) -> Result<()> {
        let plan = self.plan;
        let step = &plan.steps[number];
        if self.flow.is_nothing(step) {
            return Ok(());
        }
        let key = self.flow.key(&step.result);
        let text = match &step.operation {
            // Bound where the loop begins.
            Some(Operation::Carry | Operation::Part { .. } | Operation::Chunk { .. }) => {
                return Ok(());
            }
            Some(Operation::Last) => self.exit(step, Exit::Last)?,
            Some(Operation::Total) => self.exit(step, Exit::Sum)?,
            Some(Operation::Join { from, to }) => self.joined(step, from, to)?,
            Some(Operation::Stack { from, to }) => self.stacked(step, from.as_deref(), to)?,
            Some(operation) if is_collective(step) => {
                let operand = self.variable(&step.operands[0])?;
                if self.expressions.whole {
                    operand
                } else {
                    let dialect = self.expressions.dialect;
                    dialect.collective(&mut self.expressions, step, operation, &operand)?
                }
            }
            _ => {
                let operands: Vec<String> =
                    step.operands.iter().map(|of| self.variable(of)).collect::<Result<_>>()?;
                self.expressions.local(step, &operands)?
            }
        };
        let name = self.name(number, step);
        self.commented(indent, &format!("{name} = {text}"), &described(&step.result));
        self.bind(key, name);
        Ok(())
    }

    /// A variable for the result of a step: that of the same value in another sharding, if nothing
    /// reads it later.
    fn name(&mut self, number: usize, step: &StepJson) -> String {
        let is_over = |key: &Key| self.flow.last_read.get(key).is_none_or(|&last| last <= number);
        let scope = self.scopes.last();
        let old = scope
            .and_then(|scope| scope.iter().find(|(key, _)| key.0 == step.value && is_over(key)));
        let old = old.map(|(key, name)| (key.clone(), name.clone()));
        if let (Some((key, name)), Some(scope)) = (old, self.scopes.last_mut()) {
            scope.shift_remove(&key);
            return name;
        }
        let suffix = match step.operation {
            _ if self.scopes.iter().all(|scope| scope.keys().all(|key| key.0 != step.value)) => "",
            Some(Operation::AllGather { .. }) => "_gathered",
            Some(Operation::ReduceScatter { .. }) => "_scattered",
            Some(Operation::AllReduce { .. }) => "_reduced",
            Some(Operation::AllToAll { .. } | Operation::Permute { .. }) => "_moved",
            Some(Operation::Slice { .. }) => "_part",
            _ => "",
        };
        self.names.fresh(&(step.value.clone() + suffix))
    }

    /// What a loop left: a `last` or a `total`.
    fn exit(&self, step: &StepJson, exit: Exit) -> Result {
        let key = self.flow.key(&step.operands[0]);
        let found = self.find(&key).or_else(|| self.left.get(&(key, exit)).cloned());
        found.map_or_else(|| unsupported(&step.value, "a value of a loop that is not left"), Ok)
    }
}

/// `In[B_X, D] {U_Y}`, without the name: a sharding as plans write it.
fn described(of: &TensorJson) -> String {
    let dims = of.dims.iter().map(|dim| match dim.axes.as_slice() {
        [] => dim.dim.clone(),
        axes => format!("{}_{}", dim.dim, axes.concat()),
    });
    let dims = dims.collect::<Vec<_>>().join(", ");
    let pending = match of.reduction.as_deref() {
        None => String::new(),
        Some(how) => {
            let how = if how == "sum" { "U" } else { how };
            format!(" {{{how}_{}}}", of.unreduced.concat())
        }
    };
    format!("{}[{dims}]{pending}", identifier(&of.value))
}
