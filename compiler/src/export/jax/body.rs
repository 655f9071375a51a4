//! Functions: the steps of a plan as assignments, and its loops as `lax.scan`.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{NodeJson, Operation, PlanJson, StepJson, TensorJson};
use super::communication::is_collective;
use super::expression::{Expressions, aligned, number_of};
use super::flow::{Exit, Flow, Key};
use super::layout::{self, tuple};
use super::names::{Names, identifier};
use super::{Result, unsupported};

/// Writes one function.
pub(super) struct Writer<'p> {
    plan: &'p PlanJson,
    flow: Flow<'p>,
    pub(super) expressions: Expressions<'p>,
    names: Names,
    /// The variables of each function around a line, the innermost last.
    scopes: Vec<IndexMap<Key, String>>,
    /// What loops leave for later lines.
    left: IndexMap<(Key, Exit), String>,
    text: String,
}

/// How a value left a loop, and the variable that has it.
type Left = ((Key, Exit), String);

/// What a loop passes from one iteration to the next, reads and leaves.
#[derive(Default)]
struct Frame {
    /// First values, names inside, what is passed on, and names of what is left.
    carried: Vec<[String; 4]>,
    /// Arrays of all iterations, and the name of one iteration's part.
    read: Vec<[String; 2]>,
    /// Values of one iteration, and the name of all of them.
    kept: Vec<[String; 2]>,
}

impl<'p> Writer<'p> {
    pub(super) fn new(
        plan: &'p PlanJson,
        whole: bool,
        offsets: &'p IndexSet<String>,
    ) -> Result<Self> {
        Ok(Self {
            plan,
            flow: Flow::of(plan, whole)?,
            expressions: Expressions { plan, whole, helpers: IndexSet::new(), offsets },
            names: Names::default(),
            scopes: vec![IndexMap::new()],
            left: IndexMap::new(),
            text: String::new(),
        })
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

    fn line(&mut self, indent: usize, text: &str) {
        self.text += &layout::line(indent, text);
    }

    /// Variables for what is declared once.
    fn declared(&mut self) {
        for value in self.plan.values.iter().filter(|value| value.block.is_none()) {
            let Some(given) = &value.given else { continue };
            let name = self.names.fresh(&value.value);
            let parts = if self.expressions.whole || given.unreduced.is_empty() {
                String::new()
            } else {
                format!("[{}]", vec!["0"; given.unreduced.len()].join(", "))
            };
            let comment = described(given);
            self.commented(4, &format!("{name} = given[{:?}]{parts}", value.value), &comment);
            let key = self.flow.key(given);
            self.bind(key, name);
        }
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

    fn find(&self, key: &Key) -> Option<String> {
        self.scopes.iter().rev().find_map(|scope| scope.get(key).cloned())
    }

    fn variable(&self, of: &TensorJson) -> Result {
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
        if self.expressions.whole || of.unreduced.is_empty() {
            return Ok(variable);
        }
        Ok(format!("{variable}[{}]", vec!["None"; of.unreduced.len()].join(", ")))
    }

    fn nodes(&mut self, body: &[NodeJson], indent: usize, loops: &mut usize) -> Result<()> {
        for node in body {
            match node {
                NodeJson::Step(number) => self.step(*number, indent)?,
                NodeJson::Block { body, .. } => {
                    let number = *loops;
                    *loops += 1;
                    self.scan(number, body, indent, loops)?;
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
            Some(Operation::Carry | Operation::Part { .. }) => return Ok(()),
            Some(Operation::Last) => self.exit(step, Exit::Last)?,
            Some(Operation::Total) => self.exit(step, Exit::Sum)?,
            Some(Operation::Join { from, to }) => self.joined(step, from, to)?,
            Some(operation) if is_collective(step) => {
                let operand = self.variable(&step.operands[0])?;
                if self.expressions.whole {
                    operand
                } else {
                    let operand = barred(step, operand);
                    self.expressions.collective(step, operation, &operand)?
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

    fn joined(&mut self, step: &StepJson, from: &str, to: &str) -> Result {
        self.expressions.helper("joined");
        let operand = &step.operands[0];
        let variable = self.variable(operand)?;
        let call = format!("joined({variable}, {})", number_of(operand, from));
        let dims: Vec<&str> = operand
            .dims
            .iter()
            .map(|dim| if dim.dim == from { to } else { dim.dim.as_str() })
            .collect();
        let order: Vec<&str> = step.result.dims.iter().map(|dim| dim.dim.as_str()).collect();
        Ok(aligned(&call, &dims, &order))
    }

    /// A loop: a function of one iteration, and the call of `lax.scan`.
    fn scan(
        &mut self,
        number: usize,
        body: &[NodeJson],
        indent: usize,
        loops: &mut usize,
    ) -> Result<()> {
        let block = &self.plan.blocks[self.flow.loops[number].block];
        let reverse = block.reverses.is_some();
        let word = if block.microbatches { "microbatch" } else { "layer" };
        let word = if reverse { format!("{word}_backward") } else { word.to_owned() };
        let function = self.names.fresh(&word);
        let outside = self.names.clone();
        let mut frame = Frame::default();
        let mut inside = IndexMap::new();
        self.carries(number, body, &mut frame, &mut inside)?;
        self.totals(number, &mut frame)?;
        self.enter(number, body, &mut frame, &mut inside)?;
        let before = std::mem::take(&mut self.text);
        self.scopes.push(inside);
        self.nodes(body, indent + 4, loops)?;
        let left = self.leave(number, &mut frame, reverse)?;
        let text = std::mem::replace(&mut self.text, before);
        self.scopes.pop();
        self.names = outside;
        let count =
            format!("n.{}", super::module::count_name(self.plan, self.flow.loops[number].block));
        self.write_scan((&function, &text), frame, (&count, reverse), (left, indent));
        Ok(())
    }

    /// The steps of a loop's own level.
    fn own_steps<'b>(
        &self,
        body: &'b [NodeJson],
    ) -> impl Iterator<Item = &'p StepJson> + use<'p, 'b> {
        let plan = self.plan;
        body.iter().filter_map(move |node| match node {
            NodeJson::Step(number) => Some(&plan.steps[*number]),
            NodeJson::Block { .. } => None,
        })
    }

    fn carries(
        &mut self,
        number: usize,
        body: &[NodeJson],
        frame: &mut Frame,
        inside: &mut IndexMap<Key, String>,
    ) -> Result<()> {
        let yields = &self.plan.blocks[self.flow.loops[number].block].yields;
        for step in self.own_steps(body) {
            if step.operation != Some(Operation::Carry) {
                continue;
            }
            let Some(yielded) = yields.iter().find(|one| one.to == step.value) else {
                return unsupported(&step.value, "a loop-carried value that nothing is yielded to");
            };
            let first = self.variable(&step.operands[0])?;
            let name = self.names.fresh(&step.value);
            inside.insert(self.flow.key(&step.result), name.clone());
            // Found by its key when the body is written.
            let passed = self.flow.key(&yielded.tensor);
            frame.carried.push([first, name, passed.0, passed.1]);
        }
        Ok(())
    }

    /// Sums over the iterations begin with zeros.
    fn totals(&mut self, number: usize, frame: &mut Frame) -> Result<()> {
        for (key, exit) in self.flow.loops[number].leaving.clone() {
            if self.flow.level(number, &key, exit) != Exit::Sum {
                continue;
            }
            let name = self.names.fresh(&format!("{}_total", key.0));
            let zeros = self.zeros(number, &key)?;
            frame.carried.push([zeros, name, key.0, key.1]);
        }
        Ok(())
    }

    fn zeros(&mut self, number: usize, key: &Key) -> Result {
        let plan = self.plan;
        let made = plan
            .steps
            .iter()
            .position(|step| !self.flow.is_nothing(step) && self.flow.key(&step.result) == *key);
        let Some(made) = made else { return unsupported(&key.0, "a total of a declared value") };
        let step = &plan.steps[made];
        let depth = self.flow.loops[number].path.len();
        let inner = self.flow.paths[made].iter().skip(depth);
        let mut shape: Vec<String> = inner
            .map(|&of| format!("n.{}", super::module::count_name(plan, self.flow.loops[of].block)))
            .collect();
        shape.extend(self.expressions.shape(&step.result));
        let dtype = self.expressions.dtype_of(&key.0).to_owned();
        let dtype = self.expressions.dtype(&dtype);
        Ok(format!("jnp.zeros({}, {dtype})", tuple(&shape)))
    }

    /// What each iteration gets a part of: values of layers, and rows of microbatches.
    fn enter(
        &mut self,
        number: usize,
        body: &[NodeJson],
        frame: &mut Frame,
        inside: &mut IndexMap<Key, String>,
    ) -> Result<()> {
        for (key, exit) in self.flow.loops[number].entering.clone() {
            let all = match exit {
                None => self.find(&key).unwrap_or_else(|| format!("given[{:?}]", key.0)),
                Some(exit) => match self.left.get(&(key.clone(), exit)) {
                    Some(all) => all.clone(),
                    None => return unsupported(&key.0, "a value of a layer that is not kept"),
                },
            };
            let name = self.names.fresh(&key.0);
            frame.read.push([all, name.clone()]);
            // A total is found as what a loop left.
            if let Some(exit @ (Exit::Sum | Exit::Last)) = exit {
                self.left.insert((key.clone(), exit), name.clone());
            }
            inside.insert(key, name);
        }
        for step in self.own_steps(body) {
            let Some(Operation::Part { from, to }) = &step.operation else { continue };
            self.expressions.helper("microbatches");
            let of = &step.operands[0];
            let batch = self.variable(of)?;
            let count = super::module::count_name(self.plan, self.flow.loops[number].block);
            let rows = format!("microbatches({batch}, n.{count}, {})", number_of(of, from));
            let dims: Vec<&str> = of
                .dims
                .iter()
                .map(|dim| if dim.dim == *from { to.as_str() } else { dim.dim.as_str() })
                .collect();
            let order: Vec<&str> = step.result.dims.iter().map(|dim| dim.dim.as_str()).collect();
            if dims != order {
                return unsupported(&step.value, "a microbatch with its dimensions reordered");
            }
            let name = self.names.fresh(&step.value);
            frame.read.push([rows, name.clone()]);
            inside.insert(self.flow.key(&step.result), name);
        }
        Ok(())
    }

    /// What an iteration passes on and what stays of it; the variables that hold that afterwards.
    fn leave(&mut self, number: usize, frame: &mut Frame, reverse: bool) -> Result<Vec<Left>> {
        let mut left = Vec::new();
        let leaving = self.flow.loops[number].leaving.clone();
        let yields = self.plan.blocks[self.flow.loops[number].block].yields.len();
        for (place, carried) in frame.carried.iter_mut().enumerate() {
            let key = (std::mem::take(&mut carried[2]), std::mem::take(&mut carried[3]));
            let exit = if place < yields { Exit::Last } else { Exit::Sum };
            let own = self.own(&key, exit)?;
            carried[2] = if exit == Exit::Sum { format!("{} + {own}", carried[1]) } else { own };
            carried[3] = "_".to_owned();
            if leaving.contains(&(key.clone(), exit)) && self.flow.level(number, &key, exit) == exit
            {
                let after = if exit == Exit::Last { "last" } else { "total" };
                carried[3] = self.names.fresh(&format!("{}_{after}", key.0));
                left.push(((key, exit), carried[3].clone()));
            }
        }
        for (key, exit) in leaving {
            if left.iter().any(|((other, how), _)| *other == key && *how == exit) {
                continue;
            }
            let own = self.own(&key, exit)?;
            let known = frame.kept.iter().find(|[value, _]| *value == own);
            let all = known.map(|[_, all]| all.clone());
            let all = all.unwrap_or_else(|| {
                let all = self.names.fresh(&format!("{}_all", key.0));
                frame.kept.push([own, all.clone()]);
                all
            });
            let is_last = self.flow.level(number, &key, exit) == Exit::Last;
            let last = if reverse { "[0]" } else { "[-1]" };
            let name = if is_last { format!("{all}{last}") } else { all };
            left.push(((key, exit), name));
        }
        Ok(left)
    }

    /// A value of this iteration, or what a loop inside left of it.
    fn own(&self, key: &Key, exit: Exit) -> Result {
        let inner = || self.left.get(&(key.clone(), exit)).cloned();
        let found = self.scopes.last().and_then(|scope| scope.get(key).cloned());
        let found = found.or_else(inner).or_else(|| self.find(key));
        found.map_or_else(|| unsupported(&key.0, "a value that is not made in its loop"), Ok)
    }

    fn write_scan(
        &mut self,
        (function, body): (&str, &str),
        frame: Frame,
        (count, reverse): (&str, bool),
        (left, indent): (Vec<Left>, usize),
    ) {
        let column = |n: usize| frame.carried.iter().map(|it| it[n].clone()).collect::<Vec<_>>();
        let (first, inside, passed, after) = (column(0), column(1), column(2), column(3));
        let pair = |rows: &[[String; 2]], n: usize| {
            rows.iter().map(|it| it[n].clone()).collect::<Vec<_>>()
        };
        let or_none = |items: &[String]| {
            if items.is_empty() { "None".to_owned() } else { tuple(items) }
        };
        self.text += "\n";
        self.line(indent, &format!("def {function}(carried, given_part):"));
        if !inside.is_empty() {
            self.text += &layout::unpacked(indent + 4, &inside, "carried");
        }
        let parts = pair(&frame.read, 1);
        if !parts.is_empty() {
            self.text += &layout::unpacked(indent + 4, &parts, "given_part");
        }
        self.text += body;
        let kept = pair(&frame.kept, 0);
        let value =
            |items: &[String]| if items.is_empty() { "()".to_owned() } else { tuple(items) };
        self.line(indent + 4, &format!("return {}, {}", value(&passed), value(&kept)));
        self.text += "\n";
        let arrays = or_none(&pair(&frame.read, 0));
        let reverse = if reverse { ", reverse=True" } else { "" };
        let call =
            format!("lax.scan({function}, {}, {arrays}, length={count}{reverse})", value(&first));
        let kept = pair(&frame.kept, 1);
        let last = if after.iter().all(|name| name == "_") { "_" } else { "last" };
        let all = if kept.is_empty() { "_" } else { "kept" };
        self.line(indent, &format!("{last}, {all} = {call}"));
        if last != "_" {
            self.text += &layout::unpacked(indent, &after, last);
        }
        if !kept.is_empty() {
            self.text += &layout::unpacked(indent, &kept, all);
        }
        for (key, name) in left {
            let (word, _) = name.split_once('[').unwrap_or((&name, ""));
            self.names.fresh(word);
            self.left.insert(key, name);
        }
    }
}

/// An operand that is communicated for a second time: the compiler would merge the two, and keep
/// the first result.
fn barred(step: &StepJson, operand: String) -> String {
    if step.again { format!("lax.optimization_barrier({operand})") } else { operand }
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
