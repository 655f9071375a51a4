//! Loops: what they pass from one iteration to the next, read and leave.

use indexmap::IndexMap;

use super::super::json::{NodeJson, Operation, StepJson};
use super::body::Walk;
use super::flow::{Exit, Key};
use super::target::{Count, Taken, Target};
use super::{Result, unsupported};

/// How a value left a loop: the array that has it, and what is read of that.
pub(super) struct Left<A> {
    pub(super) key: Key,
    pub(super) exit: Exit,
    pub(super) all: A,
    pub(super) taken: Taken,
}

/// What an iteration passes to the next.
pub(in crate::export) struct Carried<A> {
    /// The first value.
    pub(in crate::export) first: A,
    /// The value inside.
    pub(in crate::export) inside: A,
    /// What is passed on.
    pub(in crate::export) passed: A,
    /// The value after the last iteration, where it is read.
    pub(in crate::export) after: Option<A>,
    /// What is passed on, found when the body is written.
    pub(super) key: Key,
}

/// What a loop passes from one iteration to the next, reads and leaves.
pub(in crate::export) struct Frame<A> {
    pub(in crate::export) carried: Vec<Carried<A>>,
    /// How many of these are passed on by the program; the others are sums.
    yields: usize,
    /// Arrays of all iterations, and one iteration's part.
    pub(in crate::export) read: Vec<(A, A)>,
    /// Values of one iteration, and all of them.
    pub(in crate::export) kept: Vec<(A, A)>,
}

impl<A> Default for Frame<A> {
    fn default() -> Self {
        Self { carried: Vec::new(), yields: 0, read: Vec::new(), kept: Vec::new() }
    }
}

impl<A: Clone> Frame<A> {
    /// A carried value; what is passed on is known later.
    pub(super) fn carry(&mut self, first: A, inside: A, key: Key) {
        let passed = inside.clone();
        self.carried.push(Carried { first, inside, passed, after: None, key });
    }
}

/// A loop whose iteration is written.
pub(in crate::export) struct Iterated<'l, A> {
    pub(in crate::export) frame: &'l Frame<A>,
    pub(in crate::export) count: Count,
    pub(in crate::export) reverse: bool,
}

impl<'p, T: Target> Walk<'p, T> {
    /// A loop: one iteration, and how often.
    pub(super) fn iterate(&mut self, number: usize, body: &[NodeJson]) -> Result<()> {
        let block = self.flow.loops[number].block;
        let reverse = self.plan.blocks[block].reverses.is_some();
        let is_staged = self.stages_of(block).is_some();
        let count = if is_staged { Count::Slots(block) } else { Count::Trips(block) };
        let mut entry = self.target.enter_loop(block, is_staged);
        let mut frame = Frame::default();
        let mut inside = IndexMap::new();
        self.carries((number, false), body, &mut frame, &mut inside)?;
        self.totals(number, &mut frame)?;
        self.enter(number, body, &mut frame, &mut inside)?;
        self.target.begin_body(&mut entry);
        self.scopes.push(inside);
        self.nodes(body)?;
        let left = self.leave(number, &mut frame, count)?;
        self.scopes.pop();
        self.target.write_loop(entry, &Iterated { frame: &frame, count, reverse })?;
        for Left { key, exit, all, taken } in left {
            let array = self.target.taken(&all, taken, block);
            self.left.insert((key, exit), array);
        }
        Ok(())
    }

    /// The steps of a loop's own level.
    pub(super) fn own_steps<'b>(
        &self,
        body: &'b [NodeJson],
    ) -> impl Iterator<Item = &'p StepJson> + use<'p, 'b, T> {
        let plan = self.plan;
        body.iter().filter_map(move |node| match node {
            NodeJson::Step(number) => Some(&plan.steps[*number]),
            NodeJson::Block { .. } => None,
        })
    }

    /// What iterations pass on; `is_staged` is whether it is of microbatches that pass stages.
    pub(super) fn carries(
        &mut self,
        (number, is_staged): (usize, bool),
        body: &[NodeJson],
        frame: &mut Frame<T::Array>,
        inside: &mut IndexMap<Key, T::Array>,
    ) -> Result<()> {
        let yields = &self.plan.blocks[self.flow.loops[number].block].yields;
        for step in self.own_steps(body) {
            if step.operation != Some(Operation::Carry) {
                continue;
            }
            let Some(yielded) = yields.iter().find(|one| one.to == step.value) else {
                return unsupported(&step.value, "a loop-carried value that nothing is yielded to");
            };
            let all = self.variable(&step.operands[0])?;
            let (first, own) = if is_staged {
                let first = self.parts_of(&all, &step.operands[0], false)?;
                (first.clone(), self.target.named_part(&first, &step.value, 1))
            } else {
                (all.clone(), self.target.named_like(&all, &step.value))
            };
            inside.insert(self.flow.key(&step.result), own.clone());
            frame.carry(first, own, self.flow.key(&yielded.tensor));
        }
        frame.yields = frame.carried.len();
        Ok(())
    }

    /// Sums over the iterations begin with zeros.
    fn totals(&mut self, number: usize, frame: &mut Frame<T::Array>) -> Result<()> {
        for (key, exit) in self.flow.loops[number].leaving.clone() {
            let is_staged = self.stages_of(self.flow.loops[number].block).is_some();
            if is_staged || self.flow.level(number, &key, exit) != Exit::Sum {
                continue;
            }
            let zeros = self.zeros(number, &key, None)?;
            let own = self.target.named_like(&zeros, &format!("{}_total", key.0));
            frame.carry(zeros, own, key);
        }
        Ok(())
    }

    pub(super) fn zeros(
        &mut self,
        number: usize,
        key: &Key,
        slots: Option<Count>,
    ) -> Result<T::Array> {
        let plan = self.plan;
        let made = plan
            .steps
            .iter()
            .position(|step| !self.flow.is_nothing(step) && self.flow.key(&step.result) == *key);
        let Some(made) = made else { return unsupported(&key.0, "a total of a declared value") };
        let depth = self.flow.loops[number].path.len();
        let inner = self.flow.paths[made].iter().skip(depth);
        let inner = inner.map(|&of| Count::Trips(self.flow.loops[of].block));
        let first: Vec<Count> = slots.into_iter().chain(inner).collect();
        self.target.zeros(&first, &plan.steps[made].result)
    }

    /// What each iteration gets a part of: values of layers, and rows of microbatches.
    fn enter(
        &mut self,
        number: usize,
        body: &[NodeJson],
        frame: &mut Frame<T::Array>,
        inside: &mut IndexMap<Key, T::Array>,
    ) -> Result<()> {
        for (key, exit) in self.flow.loops[number].entering.clone() {
            let all = self.entering(&key, exit)?;
            let own = self.target.named_part(&all, &key.0, 1);
            frame.read.push((all, own.clone()));
            // A total is found as what a loop left.
            if let Some(exit @ (Exit::Sum | Exit::Last)) = exit {
                self.left.insert((key.clone(), exit), own.clone());
            }
            inside.insert(key, own);
        }
        self.read_in_parts(number, body, frame, inside)
    }

    /// The array of all iterations of what enters a loop.
    pub(super) fn entering(&self, key: &Key, exit: Option<Exit>) -> Result<T::Array> {
        let Some(exit) = exit else {
            return Ok(self.find(key).unwrap_or_else(|| self.target.of_layers(&key.0)));
        };
        // Inside another loop over layers, the part that this one got.
        let outer = self.find(key).filter(|_| exit == Exit::All);
        let all = outer.or_else(|| self.left.get(&(key.clone(), exit)).cloned());
        all.map_or_else(|| unsupported(&key.0, "a value of a layer that is not kept"), Ok)
    }

    /// What an iteration passes on and what stays of it; the arrays that hold that afterwards.
    fn leave(
        &mut self,
        number: usize,
        frame: &mut Frame<T::Array>,
        count: Count,
    ) -> Result<Vec<Left<T::Array>>> {
        let mut left: Vec<Left<T::Array>> = Vec::new();
        let leaving = self.flow.loops[number].leaving.clone();
        let reverse = self.plan.blocks[self.flow.loops[number].block].reverses.is_some();
        let is_staged = matches!(count, Count::Slots(_));
        for (place, carried) in frame.carried.iter_mut().enumerate() {
            let key = carried.key.clone();
            let exit = if place < frame.yields { Exit::Last } else { Exit::Sum };
            let own = self.own(&key, exit)?;
            let is_sum = exit == Exit::Sum;
            carried.passed = if is_sum { self.target.plus(&carried.inside, &own) } else { own };
            if leaving.contains(&(key.clone(), exit)) && self.flow.level(number, &key, exit) == exit
            {
                let after = if is_sum { "total" } else { "last" };
                let all = self.target.named_like(&carried.inside, &format!("{}_{after}", key.0));
                carried.after = Some(all.clone());
                left.push(Left { key, exit, all, taken: Taken::All });
            }
        }
        for (key, exit) in leaving {
            if left.iter().any(|left| left.key == key && left.exit == exit) {
                continue;
            }
            let own = self.own(&key, exit)?;
            let all = self.kept(frame, own, &key, &[count]);
            let taken = match self.flow.level(number, &key, exit) {
                Exit::Last if is_staged => {
                    return unsupported(&key.0, "this value of the last layer of a pipeline");
                }
                Exit::Sum if is_staged => Taken::SumOfLayers,
                Exit::Last => Taken::Last { reverse },
                _ => Taken::All,
            };
            left.push(Left { key, exit, all, taken });
        }
        Ok(left)
    }

    /// The array of the values of all iterations.
    pub(super) fn kept(
        &mut self,
        frame: &mut Frame<T::Array>,
        own: T::Array,
        key: &Key,
        first: &[Count],
    ) -> T::Array {
        if let Some((_, all)) = frame.kept.iter().find(|(value, _)| *value == own) {
            return all.clone();
        }
        let all = self.target.named_all(&own, &format!("{}_all", key.0), first);
        frame.kept.push((own, all.clone()));
        all
    }

    /// A value of this iteration, or what a loop inside left of it.
    pub(super) fn own(&self, key: &Key, exit: Exit) -> Result<T::Array> {
        let inner = || self.left.get(&(key.clone(), exit)).cloned();
        let found = self.scopes.last().and_then(|scope| scope.get(key).cloned());
        let found = found.or_else(inner).or_else(|| self.find(key));
        found.map_or_else(|| unsupported(&key.0, "a value that is not made in its loop"), Ok)
    }
}
