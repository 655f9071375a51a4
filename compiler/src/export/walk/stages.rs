//! Loops over the layers of a pipeline: one layer for one microbatch, and what is given to it.
//!
//! They are walked as other loops are, but that a value of a layer is on one stage only, and that a
//! value with rows is there once for each microbatch.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{NodeJson, Operation, StagesJson, TensorJson};
use super::body::Walk;
use super::flow::{Exit, Key};
use super::loops::{Frame, Left};
use super::target::{Count, Microbatches, Taken, Target};
use super::{Result, phases, unsupported};

/// What is given to a layer: arrays of all, and the part of one.
pub(in crate::export) struct Given<A> {
    /// To each layer.
    pub(in crate::export) layers: Vec<(A, A)>,
    /// To each layer for each microbatch.
    pub(in crate::export) rows: Vec<(A, A)>,
    /// To each microbatch.
    pub(in crate::export) batches: Vec<(A, A)>,
}

/// What is summed up over microbatches.
pub(in crate::export) struct Summed<A> {
    /// The value of a layer.
    pub(in crate::export) own: A,
    /// Zeros for all layers of a device.
    pub(in crate::export) zeros: A,
    /// The sums of all layers of a device.
    pub(in crate::export) all: A,
}

/// The layers of a pipeline, one of which is written for one microbatch.
pub(in crate::export) struct Staged<'l, A> {
    pub(in crate::export) block: usize,
    pub(in crate::export) reverse: bool,
    pub(in crate::export) frame: &'l Frame<A>,
    pub(in crate::export) given: &'l Given<A>,
    pub(in crate::export) sums: &'l [Summed<A>],
}

/// What is summed up over microbatches, and the arrays that hold what left the layers.
type LeftStages<A> = (Vec<Summed<A>>, Vec<Left<A>>);

/// The stage and the number of layers of each chunk, in the order of layers. Where chunks turn
/// around, the last stage has two after each other.
pub(in crate::export) fn chunks(stages: &StagesJson) -> Vec<(u64, usize)> {
    let is_v = stages.schedule.ends_with("-v");
    let last = stages.stage_of_layer.iter().max();
    let runs = stages.stage_of_layer.chunk_by(|a, b| a == b).flat_map(|run| {
        let turns = is_v && run.first() == last && run.len() > 1;
        let first = if turns { run.len() / 2 } else { run.len() };
        let parts = [first, run.len() - first].into_iter().filter(|layers| *layers > 0);
        parts.map(|layers| (run[0], layers)).collect::<Vec<_>>()
    });
    runs.collect()
}

impl<'p, T: Target> Walk<'p, T> {
    /// The pipeline that a block's layers are in, where devices differ.
    pub(super) fn stages_of(&self, block: usize) -> Option<&'p StagesJson> {
        let plan = self.plan;
        plan.blocks[block].pipeline.as_ref().filter(|_| !self.whole)
    }

    /// The pipeline of a loop that runs for each microbatch.
    pub(super) fn microbatched(&self, number: usize, body: &[NodeJson]) -> Option<&'p StagesJson> {
        let stages = self.stages_of(self.flow.loops[number].block)?;
        let rows = phases::rows(self.plan, &stages.batch);
        let moves = |step: usize| phases::moves_rows(&self.plan.steps[step], &rows);
        phases::steps(body).into_iter().any(moves).then_some(stages)
    }

    /// A loop over the layers of a pipeline.
    pub(super) fn run_stages(
        &mut self,
        number: usize,
        (stages, body): (&'p StagesJson, &[NodeJson]),
    ) -> Result<()> {
        let block = self.flow.loops[number].block;
        let reverse = self.plan.blocks[block].reverses.is_some();
        let rows = phases::rows(self.plan, &stages.batch);
        for step in phases::steps(body) {
            let step = &self.plan.steps[step];
            if phases::depends_on_places(step, &rows) {
                return unsupported(&step.value, "a pipeline in which rows depend on their place");
            }
        }
        let mut entry = self.target.enter_stages(block, &rows);
        self.rows = Some(rows);
        let mut frame = Frame::default();
        let mut inside = IndexMap::new();
        self.carries((number, true), body, &mut frame, &mut inside)?;
        let given = self.given(number, body, &mut inside)?;
        self.target.begin_body(&mut entry);
        self.scopes.push(inside);
        self.nodes(body)?;
        let (sums, left) = self.leave_stages(number, &mut frame)?;
        self.scopes.pop();
        self.rows = None;
        let of = Staged { block, reverse, frame: &frame, given: &given, sums: &sums };
        self.target.write_stages(entry, stages, &of)?;
        for Left { key, exit, all, taken } in left {
            let mut array = self.target.taken(&all, taken, block);
            if taken != Taken::All {
                array = self.target.held(array, &format!("{}_{}", key.0, exit.word()));
            }
            self.left.insert((key, exit), array);
        }
        Ok(())
    }

    /// The microbatches of a value with rows.
    pub(super) fn parts_of(
        &mut self,
        all: &T::Array,
        of: &TensorJson,
        by_layer: bool,
    ) -> Result<T::Array> {
        let plan = self.plan;
        let Some(rows) = &self.rows else { return Ok(all.clone()) };
        let place = of.dims.iter().position(|dim| rows.contains(&dim.dim));
        let batch = plan.blocks.iter().filter_map(|block| block.pipeline.as_ref());
        let batch = batch.map(|stages| &stages.batch).find(|batch| rows.contains(*batch));
        match (place, batch) {
            (Some(place), Some(batch)) if of.dims[place].dim == *batch => {
                Ok(self.target.microbatches(all, &Microbatches { batch, place, by_layer }))
            }
            _ => unsupported(&of.value, "a value that a pipeline cannot split into microbatches"),
        }
    }

    fn has_rows(&self, of: &TensorJson) -> bool {
        self.rows.as_ref().is_some_and(|rows| phases::has_rows(of, rows))
    }

    /// A value in a sharding, by its key.
    fn tensor(&self, key: &Key) -> Option<TensorJson> {
        let steps = self.plan.steps.iter();
        let made = steps.flat_map(|step| step.operands.iter().chain([&step.result]));
        let given = self.plan.values.iter().filter_map(|value| value.given.as_ref());
        made.chain(given).find(|of| self.flow.key(of) == *key).cloned()
    }

    fn is_by_row(&self, key: &Key) -> bool {
        self.tensor(key).is_some_and(|of| self.has_rows(&of))
    }

    fn given(
        &mut self,
        number: usize,
        body: &[NodeJson],
        inside: &mut IndexMap<Key, T::Array>,
    ) -> Result<Given<T::Array>> {
        let mut given = Given { layers: Vec::new(), rows: Vec::new(), batches: Vec::new() };
        for (key, exit) in self.flow.loops[number].entering.clone() {
            let by_row = self.is_by_row(&key);
            let Some(of) = self.tensor(&key) else { continue };
            let mut all = self.entering(&key, exit)?;
            if by_row && exit.is_none() {
                all = self.parts_of(&all, &of, true)?;
            }
            let own = self.target.named_part(&all, &key.0, 1 + usize::from(by_row));
            let rows = if by_row { &mut given.rows } else { &mut given.layers };
            rows.push((all, own.clone()));
            inside.insert(key, own);
        }
        for of in self.read_by_row(body, inside) {
            let all = self.variable(&of)?;
            let parts = self.parts_of(&all, &of, false)?;
            let own = self.target.named_part(&parts, &of.value, 1);
            given.batches.push((parts, own.clone()));
            inside.insert(self.flow.key(&of), own);
        }
        Ok(given)
    }

    /// Values with rows that the layers read from outside.
    fn read_by_row(&self, body: &[NodeJson], inside: &IndexMap<Key, T::Array>) -> Vec<TensorJson> {
        let mut made: IndexSet<Key> = inside.keys().cloned().collect();
        let mut found: IndexMap<Key, TensorJson> = IndexMap::new();
        for number in phases::steps(body) {
            let step = &self.plan.steps[number];
            let is_first =
                step.operation == Some(Operation::Carry) && self.flow.paths[number].len() == 1;
            for of in step.operands.iter().filter(|of| !is_first && self.has_rows(of)) {
                let key = self.flow.key(of);
                if !made.contains(&key) {
                    found.insert(key, of.clone());
                }
            }
            made.insert(self.flow.key(&step.result));
        }
        found.into_values().collect()
    }

    /// What a layer passes on, keeps and sums up; what is summed up, and the arrays that hold all
    /// of that afterwards.
    fn leave_stages(
        &mut self,
        number: usize,
        frame: &mut Frame<T::Array>,
    ) -> Result<LeftStages<T::Array>> {
        let mut left: Vec<Left<T::Array>> = Vec::new();
        let mut sums = Vec::new();
        let block = self.flow.loops[number].block;
        let first = [Count::Slots(block), Count::Microbatches(block)];
        let leaving = self.flow.loops[number].leaving.clone();
        for carried in &mut frame.carried {
            let key = carried.key.clone();
            carried.passed = self.own(&key, Exit::Last)?;
            let is_last = self.flow.level(number, &key, Exit::Last) == Exit::Last;
            if is_last && leaving.contains(&(key.clone(), Exit::Last)) {
                let all = self.target.named_like(&carried.first, &format!("{}_parts", key.0));
                carried.after = Some(all.clone());
                let taken = Taken::Joined(self.place_of_rows(&key)?);
                left.push(Left { key, exit: Exit::Last, all, taken });
            }
        }
        for (key, exit) in leaving {
            if left.iter().any(|left| left.key == key && left.exit == exit) {
                continue;
            }
            let own = self.own(&key, exit)?;
            let by_row = self.is_by_row(&key);
            let all = if by_row {
                self.kept(frame, own, &key, &first)
            } else {
                self.summed(number, &mut sums, own, &key)?
            };
            let taken = self.taken_of_stages(number, (&key, exit), by_row)?;
            left.push(Left { key, exit, all, taken });
        }
        Ok((sums, left))
    }

    /// The sums over microbatches of a value of a layer.
    fn summed(
        &mut self,
        number: usize,
        sums: &mut Vec<Summed<T::Array>>,
        own: T::Array,
        key: &Key,
    ) -> Result<T::Array> {
        if let Some(known) = sums.iter().find(|sum| sum.own == own) {
            return Ok(known.all.clone());
        }
        let slots = Count::Slots(self.flow.loops[number].block);
        let zeros = self.zeros(number, key, Some(slots))?;
        let all = self.target.named_like(&zeros, &format!("{}_sums", key.0));
        sums.push(Summed { own, zeros, all: all.clone() });
        Ok(all)
    }

    /// What is read of what left the layers of a pipeline.
    fn taken_of_stages(
        &self,
        number: usize,
        (key, exit): (&Key, Exit),
        by_row: bool,
    ) -> Result<Taken> {
        match self.flow.level(number, key, exit) {
            Exit::All => Ok(Taken::All),
            Exit::Last => unsupported(&key.0, "this value of the last layer of a pipeline"),
            Exit::Sum if by_row => Ok(Taken::SumJoined(self.place_of_rows(key)?)),
            Exit::Sum => Ok(Taken::SumOfLayers),
        }
    }

    /// Where a value has its rows.
    fn place_of_rows(&self, key: &Key) -> Result<usize> {
        let Some(of) = self.tensor(key) else { return unsupported(&key.0, "a value of a layer") };
        let is_row = |dim: &str| self.rows.as_ref().is_some_and(|rows| rows.contains(dim));
        Ok(of.dims.iter().position(|dim| is_row(&dim.dim)).unwrap_or(0))
    }
}
