//! Finds which values pass into loops and out of them.
//!
//! A block that is run is a *loop*; a block and its reverse are two loops over the same layers. A
//! value that is made in one loop and read outside leaves it in one of four ways, and a value of a
//! layer enters a loop over the layers. Nothing else crosses the border of a loop but the values of
//! the scopes around it, which a loop may read in all targets.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{NodeJson, Operation, PlanJson, StepJson, TensorJson};
use super::collectives::is_collective;

/// A value in one of its shardings.
pub(super) type Key = (String, String);

/// How a value leaves a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Exit {
    /// Those of all iterations, side by side.
    All,
    /// That of the last.
    Last,
    /// Their sum.
    Sum,
}

impl Exit {
    /// As a part of names.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Last => "last",
            Self::Sum => "total",
        }
    }
}

/// A run of a block.
#[derive(Debug, Default)]
pub(super) struct Loop {
    pub(super) block: usize,
    /// The loops around it, the outermost first, and itself.
    pub(super) path: Vec<usize>,
    pub(super) leaving: IndexSet<(Key, Exit)>,
    /// Values of layers that are passed in: their key, and how they left another loop, if one
    /// made them.
    pub(super) entering: IndexSet<(Key, Option<Exit>)>,
}

/// The loops of a plan, and where its values are made and read.
pub(super) struct Flow<'p> {
    plan: &'p PlanJson,
    /// Whether all devices are one, so that shardings do not matter.
    whole: bool,
    pub(super) loops: Vec<Loop>,
    /// The loops around each step.
    pub(super) paths: Vec<Vec<usize>>,
    made: IndexMap<Key, Vec<usize>>,
    /// For each key, the last step that reads it.
    pub(super) last_read: IndexMap<Key, usize>,
}

impl<'p> Flow<'p> {
    pub(super) fn of(plan: &'p PlanJson, whole: bool) -> Self {
        let paths = vec![Vec::new(); plan.steps.len()];
        let (made, last_read) = (IndexMap::new(), IndexMap::new());
        let mut flow = Self { plan, whole, loops: Vec::new(), paths, made, last_read };
        flow.find_loops(&plan.body, &[]);
        flow.find_made();
        flow.find_reads();
        flow
    }

    /// The key of a value in its sharding.
    pub(super) fn key(&self, of: &TensorJson) -> Key {
        let sharding = if self.whole { String::new() } else { sharding(of) };
        (of.value.clone(), sharding)
    }

    /// Whether a step changes a sharding only, where shardings do not matter.
    pub(super) fn is_nothing(&self, step: &StepJson) -> bool {
        let moves = is_collective(step);
        self.whole && moves && step.operands.iter().all(|of| of.value == step.result.value)
    }

    /// The block whose layers a block iterates over.
    pub(super) fn forward(&self, block: usize) -> usize {
        self.plan.blocks[block].reverses.unwrap_or(block)
    }

    fn find_loops(&mut self, body: &[NodeJson], around: &[usize]) {
        for node in body {
            match node {
                NodeJson::Step(step) => self.paths[*step] = around.to_vec(),
                NodeJson::Block { block, body } => {
                    let path = [around, &[self.loops.len()]].concat();
                    self.loops.push(Loop { block: *block, path: path.clone(), ..Loop::default() });
                    self.find_loops(body, &path);
                }
            }
        }
    }

    fn find_made(&mut self) {
        for (number, step) in self.plan.steps.iter().enumerate() {
            if self.is_nothing(step) {
                continue;
            }
            let key = self.key(&step.result);
            self.made.entry(key).or_default().push(number);
        }
    }

    fn find_reads(&mut self) {
        for (number, step) in self.plan.steps.iter().enumerate() {
            if self.is_nothing(step) {
                continue;
            }
            let exit = match step.operation {
                Some(Operation::Last) => Exit::Last,
                Some(Operation::Total) => Exit::Sum,
                _ => Exit::All,
            };
            for operand in &step.operands {
                let key = self.key(operand);
                self.last_read.insert(key.clone(), number);
                let path = self.paths[number].clone();
                self.read(&key, number, &path, exit);
            }
        }
        let never = self.plan.steps.len();
        for output in &self.plan.outputs {
            let key = self.key(&output.tensor);
            self.last_read.insert(key.clone(), never);
            self.read(&key, never, &[], Exit::All);
        }
        for yielded in self.plan.blocks.iter().flat_map(|block| &block.yields) {
            let key = self.key(&yielded.tensor);
            self.last_read.insert(key, never);
        }
    }

    /// The blocks whose layers have one each of a declared value.
    fn layers_of(&self, value: &str) -> Option<Vec<usize>> {
        let declared = self.plan.values.iter().find(|other| other.value == value)?;
        let block = declared.block.filter(|_| declared.role.is_some())?;
        let loops = super::structure::loops(self.plan, block).into_iter();
        Some(loops.map(|block| self.forward(block)).collect())
    }

    /// A read of a value by step `number` in the loops of `path`.
    fn read(&mut self, key: &Key, number: usize, path: &[usize], exit: Exit) {
        let from = self.made.get(key).and_then(|all| all.iter().rev().find(|&&it| it < number));
        let Some(&from) = from else {
            if let Some(layers) = self.layers_of(&key.0) {
                self.enter(key, None, path, &layers);
            }
            return;
        };
        let from = self.paths[from].clone();
        let common = from.iter().zip(path).take_while(|(a, b)| a == b).count();
        let (left, entered) = (&from[common..], &path[common..]);
        if left.is_empty() {
            return;
        }
        let shared: Vec<usize> =
            left.iter().map(|&of| self.forward(self.loops[of].block)).collect();
        for &of in left {
            self.loops[of].leaving.insert((key.clone(), exit));
        }
        let path = entered.to_vec();
        self.enter(key, Some(exit), &path, &shared);
    }

    fn enter(&mut self, key: &Key, exit: Option<Exit>, path: &[usize], layers: &[usize]) {
        for &of in path {
            if layers.contains(&self.forward(self.loops[of].block)) {
                self.loops[of].entering.insert((key.clone(), exit));
            }
        }
    }

    /// How a value that is to leave for `exit` leaves one loop: as the sum or the last only where
    /// no reader is in another loop over the same layers.
    pub(super) fn level(&self, of: usize, key: &Key, exit: Exit) -> Exit {
        let block = self.forward(self.loops[of].block);
        let enters = |other: &Loop| {
            self.forward(other.block) == block
                && other.entering.contains(&(key.clone(), Some(exit)))
        };
        if self.loops.iter().any(enters) { Exit::All } else { exit }
    }
}

/// `B_X,D;sum_Y`: a sharding as a word.
fn sharding(of: &TensorJson) -> String {
    let dims = of.dims.iter().map(|dim| format!("{}_{}", dim.dim, dim.axes.join("_")));
    let pending = of
        .reduction
        .as_ref()
        .map_or(String::new(), |how| format!("{how}_{}", of.unreduced.join("_")));
    format!("{};{pending}", dims.collect::<Vec<_>>().join(","))
}
