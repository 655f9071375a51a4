//! Loops: what they pass from one iteration to the next, read and leave.

use indexmap::IndexMap;

use super::super::json::{BlockJson, NodeJson, Operation, StepJson};
use super::body::Writer;
use super::flow::{Exit, Key};
use super::layout::tuple;
use super::{Result, unsupported};

/// How a value left a loop, and the variable that has it.
pub(super) type Left = ((Key, Exit), String);

/// What a loop passes from one iteration to the next, reads and leaves.
#[derive(Default)]
pub(in crate::export) struct Frame {
    /// First values, names inside, what is passed on, and names of what is left.
    pub(in crate::export) carried: Vec<[String; 4]>,
    /// How many of these are passed on by the program; the others are sums.
    yields: usize,
    /// Arrays of all iterations, and the name of one iteration's part.
    pub(in crate::export) read: Vec<[String; 2]>,
    /// Values of one iteration, and the name of all of them.
    pub(in crate::export) kept: Vec<[String; 2]>,
}

impl<'p> Writer<'p> {
    /// A loop: one iteration, and how often.
    pub(super) fn iterate(
        &mut self,
        number: usize,
        body: &[NodeJson],
        indent: usize,
        loops: &mut usize,
    ) -> Result<()> {
        let block = &self.plan.blocks[self.flow.loops[number].block];
        let reverse = block.reverses.is_some();
        let is_staged = self.stages_of(self.flow.loops[number].block).is_some();
        let word = match block {
            BlockJson { microbatches: true, .. } => "microbatch",
            BlockJson { scan: true, .. } => "step",
            _ if is_staged => "weights",
            _ => "layer",
        };
        let is_function = self.expressions.dialect.has_loop_functions();
        let backward = if reverse && is_function { "_backward" } else { "" };
        let mut outside = self.names.clone();
        let name = self.names.fresh(&format!("{word}{backward}"));
        if is_function {
            outside = self.names.clone();
        }
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
        self.names.leave(outside);
        let block = self.flow.loops[number].block;
        let count = match self.stages_of(block) {
            Some(_) => self.slots(block),
            None => format!("n.{}", super::sizes::count_name(self.plan, block)),
        };
        let (name, body, frame, count) = (&*name, &*text, &frame, &*count);
        self.write_loop(&Iterated { name, body, frame, count, reverse, indent }, left);
        Ok(())
    }

    /// The steps of a loop's own level.
    pub(super) fn own_steps<'b>(
        &self,
        body: &'b [NodeJson],
    ) -> impl Iterator<Item = &'p StepJson> + use<'p, 'b> {
        let plan = self.plan;
        body.iter().filter_map(move |node| match node {
            NodeJson::Step(number) => Some(&plan.steps[*number]),
            NodeJson::Block { .. } => None,
        })
    }

    pub(super) fn carries(
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
        frame.yields = frame.carried.len();
        Ok(())
    }

    /// Sums over the iterations begin with zeros.
    fn totals(&mut self, number: usize, frame: &mut Frame) -> Result<()> {
        for (key, exit) in self.flow.loops[number].leaving.clone() {
            let is_staged = self.stages_of(self.flow.loops[number].block).is_some();
            if is_staged || self.flow.level(number, &key, exit) != Exit::Sum {
                continue;
            }
            let name = self.names.fresh(&format!("{}_total", key.0));
            let zeros = self.zeros(number, &key, None)?;
            frame.carried.push([zeros, name, key.0, key.1]);
        }
        Ok(())
    }

    pub(super) fn zeros(&mut self, number: usize, key: &Key, slots: Option<String>) -> Result {
        let plan = self.plan;
        let made = plan
            .steps
            .iter()
            .position(|step| !self.flow.is_nothing(step) && self.flow.key(&step.result) == *key);
        let Some(made) = made else { return unsupported(&key.0, "a total of a declared value") };
        let step = &plan.steps[made];
        let depth = self.flow.loops[number].path.len();
        let inner = self.flow.paths[made].iter().skip(depth);
        let inner = inner
            .map(|&of| format!("n.{}", super::sizes::count_name(plan, self.flow.loops[of].block)));
        let mut shape: Vec<String> = slots.into_iter().chain(inner).collect();
        shape.extend(self.expressions.shape(&step.result));
        let dtype = self.expressions.dtype_of(&key.0).to_owned();
        let dtype = self.expressions.dtype(&dtype)?;
        Ok(format!("{}.zeros({}, dtype={dtype})", self.expressions.np(), tuple(&shape)))
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
            let all = self.entering(&key, exit)?;
            let name = self.names.fresh(&key.0);
            frame.read.push([all, name.clone()]);
            // A total is found as what a loop left.
            if let Some(exit @ (Exit::Sum | Exit::Last)) = exit {
                self.left.insert((key.clone(), exit), name.clone());
            }
            inside.insert(key, name);
        }
        self.read_in_parts(number, body, frame, inside)
    }

    /// The array of all iterations of what enters a loop.
    pub(super) fn entering(&self, key: &Key, exit: Option<Exit>) -> Result {
        let Some(exit) = exit else {
            return Ok(self.find(key).unwrap_or_else(|| format!("given[{:?}]", key.0)));
        };
        // Inside another loop over layers, the part that this one got.
        let outer = self.find(key).filter(|_| exit == Exit::All);
        let all = outer.or_else(|| self.left.get(&(key.clone(), exit)).cloned());
        all.map_or_else(|| unsupported(&key.0, "a value of a layer that is not kept"), Ok)
    }

    /// What an iteration passes on and what stays of it; the variables that hold that afterwards.
    fn leave(&mut self, number: usize, frame: &mut Frame, reverse: bool) -> Result<Vec<Left>> {
        let mut left = Vec::new();
        let leaving = self.flow.loops[number].leaving.clone();
        let yields = frame.yields;
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
            let all = self.kept(frame, own, &key);
            let is_staged = self.stages_of(self.flow.loops[number].block).is_some();
            let name = match self.flow.level(number, &key, exit) {
                Exit::Last if is_staged => {
                    return unsupported(&key.0, "this value of the last layer of a pipeline");
                }
                Exit::Sum if is_staged => self.sum_of_layers(number, &all),
                Exit::Last => format!("{all}{}", if reverse { "[0]" } else { "[-1]" }),
                _ => all,
            };
            left.push(((key, exit), name));
        }
        Ok(left)
    }

    /// The variable of the values of all iterations.
    pub(super) fn kept(&mut self, frame: &mut Frame, own: String, key: &Key) -> String {
        if let Some([_, all]) = frame.kept.iter().find(|[value, _]| *value == own) {
            return all.clone();
        }
        let all = self.names.fresh_through_loops(&format!("{}_all", key.0));
        frame.kept.push([own, all.clone()]);
        all
    }

    /// A value of this iteration, or what a loop inside left of it.
    pub(super) fn own(&self, key: &Key, exit: Exit) -> Result {
        let inner = || self.left.get(&(key.clone(), exit)).cloned();
        let found = self.scopes.last().and_then(|scope| scope.get(key).cloned());
        let found = found.or_else(inner).or_else(|| self.find(key));
        found.map_or_else(|| unsupported(&key.0, "a value that is not made in its loop"), Ok)
    }

    fn write_loop(&mut self, of: &Iterated<'_>, left: Vec<Left>) {
        let dialect = self.expressions.dialect;
        dialect.iterated(self, of);
        for (key, name) in left {
            let (word, _) = name.split_once('[').unwrap_or((&name, ""));
            self.names.fresh(word);
            self.left.insert(key, name);
        }
    }
}

/// A loop whose iteration is written.
pub(in crate::export) struct Iterated<'l> {
    /// The name of one iteration.
    pub(in crate::export) name: &'l str,
    pub(in crate::export) body: &'l str,
    pub(in crate::export) frame: &'l Frame,
    pub(in crate::export) count: &'l str,
    pub(in crate::export) reverse: bool,
    pub(in crate::export) indent: usize,
}
