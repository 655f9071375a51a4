//! Which values exist before, in or after the microbatches, and what a microbatch has of each.
//!
//! The rules are those of a product over sharded dimensions, applied to microbatches: an operation
//! on rows produces rows, a sum over the batch produces a partial sum, and a partial sum passes
//! through linear operations only. A nonlinear function of a partial sum is placed after the
//! microbatches; if rows depend on it, no microbatch could continue before all others are done, and
//! the step cannot be split.

use indexmap::IndexSet;
use shardwise_ir::ids::{DimId, OpId, RepeatId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind, Phase, Program, ReduceFn};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::sharding::Reduction;

use super::{MicrobatchFault, Parts};

/// What a microbatch has of a value, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The whole value: it is there before them.
    Before,
    /// The whole value, computed in each microbatch.
    Same,
    /// Its rows.
    Rows,
    /// A share: the value is the sum of all.
    Share,
    /// Nothing: it is there behind them.
    After,
}

use Stage::{After, Before, Rows, Same, Share};

impl Stage {
    /// Whether each microbatch computes it.
    pub(super) fn is_inside(self) -> bool {
        matches!(self, Same | Rows | Share)
    }
}

/// The stage of every value.
pub(super) struct Stages {
    pub(super) stage: Vec<Stage>,
    /// The operations that are looked at are those before this one.
    pub(super) end: OpId,
    /// Blocks whose statements are done for each microbatch.
    pub(super) inside: IndexSet<RepeatId>,
    /// Blocks that stand behind the microbatches as they are.
    behind: IndexSet<RepeatId>,
    /// For operations that read no elements of what they read: what has the same dimensions early
    /// enough.
    pub(super) like: Vec<Option<ValueId>>,
    mixed: IndexSet<OpId>,
}

/// More sweeps than states that one value after another can settle in.
const MOST_SWEEPS: usize = 16;

pub(super) fn find(program: &Program, parts: &Parts, end: OpId) -> Stages {
    let stage = program.values.iter().map(|value| {
        if value.dims.iter().any(|dim| parts.contains_key(dim)) { Rows } else { Before }
    });
    let mut stages = Stages {
        stage: stage.collect(),
        end,
        inside: IndexSet::new(),
        behind: IndexSet::new(),
        like: vec![None; program.ops.len()],
        mixed: IndexSet::new(),
    };
    for op in program.ops.iter().skip(end.index()) {
        stages.stage[op.result.index()] = After;
    }
    for _ in 0..MOST_SWEEPS {
        let before = (stages.stage.clone(), stages.inside.len(), stages.behind.len());
        stages.mixed.clear();
        for (id, op) in program.ops.iter_enumerated().take(end.index()) {
            stages.operation(program, parts, id, op);
        }
        if before == (stages.stage.clone(), stages.inside.len(), stages.behind.len()) {
            break;
        }
    }
    stages
}

impl Stages {
    pub(super) fn of(&self, value: ValueId) -> Stage {
        self.stage[value.index()]
    }

    /// The stage of what an operation gives.
    pub(super) fn of_op(&self, id: OpId, op: &Op) -> Stage {
        if id < self.end { self.of(op.result) } else { After }
    }

    fn operation(&mut self, program: &Program, parts: &Parts, id: OpId, op: &Op) {
        let stage = if op.is(&MapForm::LoopCarried) {
            self.entering(program, op)
        } else if !op.reads_elements() {
            Some(self.unread(program, id, op))
        } else {
            self.computed(program, parts, op)
        };
        let stage = stage.unwrap_or_else(|| {
            self.mixed.insert(id);
            if has_rows(program, parts, op.result) { Rows } else { After }
        });
        self.stage[op.result.index()] = self.in_its_block(op, stage);
    }

    /// A block is done for each microbatch if any of its statements is; one that is not stands
    /// before or behind them as a whole.
    fn in_its_block(&mut self, op: &Op, stage: Stage) -> Stage {
        let Some(block) = op.repeat else { return stage };
        if stage.is_inside() {
            self.inside.insert(block);
        }
        let inside = self.inside.contains(&block);
        if stage == After && !inside {
            self.behind.insert(block);
        }
        match stage {
            Before if inside => Same,
            Before if self.behind.contains(&block) => After,
            stage => stage,
        }
    }

    /// What enters a layer is what comes from before the layers, and what the layer before
    /// yields.
    fn entering(&mut self, program: &Program, op: &Op) -> Option<Stage> {
        let first = self.of(op.operands[0].value);
        let next = program
            .outputs
            .iter()
            .find(|output| output.yields_to == Some(op.result))
            .map_or(first, |output| self.of(output.value));
        match (first, next) {
            (Rows, Rows) => Some(Rows),
            // Behind the microbatches layers are gone through from the last to the first.
            (After, After)
                if op.repeat.is_some_and(|block| {
                    program.repeats[block].reversed.is_some() || !self.inside.contains(&block)
                }) =>
            {
                Some(After)
            }
            (Before | Same, Before) => Some(first),
            (Before | Same, Same) => Some(Same),
            // What is yielded may not be known yet: it follows from this.
            (Share, Share | Before | Same) => Some(Share),
            _ => None,
        }
    }

    /// `ones(x)` needs the dimensions of `x`: those of something that is there.
    fn unread(&mut self, program: &Program, id: OpId, op: &Op) -> Stage {
        let read = op.operands[0].value;
        if self.of(read) == Rows {
            self.like[id.index()] = None;
            return Rows;
        }
        let Some(like) = self.alike(program, op, read) else { return After };
        self.like[id.index()] = Some(like);
        if self.of(like) == Before { Before } else { Same }
    }

    /// A value with the dimensions of `value` that leads to it and is there in each microbatch, or
    /// better before.
    fn alike(&self, program: &Program, op: &Op, value: ValueId) -> Option<ValueId> {
        let dims = &program.values[value].dims;
        let mut found = IndexSet::from([value]);
        let mut at = 0;
        while let Some(&next) = found.get_index(at) {
            let producer = program.values[next].producer.map(|op| &program.ops[op]);
            let operands = producer.iter().flat_map(|op| &op.operands).map(|operand| operand.value);
            found.extend(operands.filter(|&operand| program.values[operand].dims == *dims));
            at += 1;
        }
        let early = |stage: fn(Stage) -> bool| {
            found
                .iter()
                .copied()
                .find(|&value| stage(self.of(value)) && program.in_scope(op.repeat, value))
        };
        early(|stage| stage == Before).or_else(|| early(Stage::is_inside))
    }

    /// The stage of a result that depends on the elements of operands; `None` where rows would need
    /// what is there behind the microbatches only.
    fn computed(&self, program: &Program, parts: &Parts, op: &Op) -> Option<Stage> {
        let stages: Vec<Stage> = op.operands.iter().map(|operand| self.of(operand.value)).collect();
        let any = |stage: Stage| stages.contains(&stage);
        if mixes(parts, op) {
            return None;
        }
        if has_rows(program, parts, op.result) {
            return (!any(After) && !any(Share)).then_some(Rows);
        }
        if any(After) {
            return Some(After);
        }
        if any(Rows) {
            return sums_rows(parts, op).then_some(Share).filter(|_| !any(Share));
        }
        if any(Share) {
            return Some(if passes(op, &stages) { Share } else { After });
        }
        Some(if any(Same) { Same } else { Before })
    }

    /// Statements that need the whole batch at once.
    pub(super) fn faults(&self, program: &Program) -> Vec<MicrobatchFault> {
        let mut faults: Vec<MicrobatchFault> = Vec::new();
        let entries = program
            .ops
            .iter_enumerated()
            .take(self.end.index())
            .filter(|(_, op)| op.is(&MapForm::LoopCarried));
        let unlike = |op: &Op| {
            program
                .outputs
                .iter()
                .any(|o| o.yields_to == Some(op.result) && self.of(o.value) != self.of(op.result))
        };
        let unlike = entries.filter(|(_, op)| unlike(op)).map(|(id, _)| id);
        for id in self.mixed.iter().copied().chain(unlike) {
            let cause = &program.ops[self.cause(program, id)];
            let fault = MicrobatchFault::Mixed {
                value: program.values[cause.result].name.clone(),
                span: cause.span,
            };
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        faults.truncate(1);
        faults
    }

    /// The statement of the author that makes another one wait: the first on the way to it that is
    /// not linear in a share.
    fn cause(&self, program: &Program, id: OpId) -> OpId {
        let mut at = id;
        let late = |op: &Op| {
            let waits = |value: ValueId| self.of(value) == After;
            op.operands
                .iter()
                .find(|operand| waits(operand.value))
                .and_then(|operand| program.values[operand.value].producer)
        };
        while let Some(before) = late(&program.ops[at]).filter(|before| *before < at) {
            at = before;
        }
        if program.ops[at].phase == Phase::Backward { id } else { at }
    }
}

pub(super) fn has_rows(program: &Program, parts: &Parts, value: ValueId) -> bool {
    program.values[value].dims.iter().any(|dim| parts.contains_key(dim))
}

/// Whether an operation looks at several rows at once, other than by adding them up.
fn mixes(parts: &Parts, op: &Op) -> bool {
    let cut = |dim: &DimId| parts.contains_key(dim);
    match &op.kind {
        OpKind::Einsum { .. } | OpKind::Collective(_) => false,
        OpKind::Map(function) => match &function.form {
            MapForm::Position(dim) => cut(dim),
            MapForm::Causal { query, key, .. } => cut(query) || cut(key),
            _ => false,
        },
        OpKind::Reduce { function, dims } => *function != ReduceFn::Sum && dims.iter().any(cut),
        OpKind::Composite { dims, .. } => dims.iter().any(cut),
        OpKind::Gather { dim } | OpKind::ScatterAdd { dim } | OpKind::Update { dim } => cut(dim),
        OpKind::Rearrange(how) => match how {
            Rearrange::Rename(pairs) => pairs.iter().any(|(old, new)| cut(old) || cut(new)),
            Rearrange::Reshape(groups) => {
                groups.iter().any(|group| group.from.iter().any(cut) != group.to.iter().any(cut))
            }
            Rearrange::Slice(window) | Rearrange::Pad(window) => {
                cut(&window.from) || cut(&window.to)
            }
            Rearrange::Concat { from, to } => from.iter().any(cut) || cut(to),
            Rearrange::Roll(roll) => cut(&roll.dim),
            Rearrange::Part { .. } | Rearrange::Join { .. } => true,
        },
        OpKind::Route(route) => [route.tokens, route.experts, route.capacity].iter().any(cut),
    }
}

/// Whether an operation on rows that gives none adds them up.
fn sums_rows(parts: &Parts, op: &Op) -> bool {
    match &op.kind {
        OpKind::Einsum { contracted } => contracted.iter().any(|dim| parts.contains_key(dim)),
        OpKind::Reduce { .. } | OpKind::ScatterAdd { .. } => true,
        _ => false,
    }
}

/// Whether an operation on operands at these stages, some of them shares, gives a share: the sum of
/// what it gives of each is what it gives of the sum.
fn passes(op: &Op, stages: &[Stage]) -> bool {
    let shares: Vec<usize> = (0..stages.len()).filter(|&k| stages[k] == Share).collect();
    let all: Vec<usize> = (0..stages.len()).collect();
    match &op.kind {
        OpKind::Einsum { .. } => shares.len() == 1,
        OpKind::Map(function) => {
            let linear = function.linearity.operands(all.len());
            !linear.is_empty() && shares == linear
        }
        OpKind::Reduce { function, .. } => function.reduction() == Reduction::Sum,
        OpKind::Gather { .. } | OpKind::ScatterAdd { .. } => shares == [0],
        OpKind::Rearrange(_) => shares == all,
        OpKind::Update { .. } => shares == [0, 2],
        // One that its author wrote is done once, if it gives a value of its own.
        OpKind::Collective(_) => op.operands[0].value == op.result,
        OpKind::Composite { .. } | OpKind::Route(_) => false,
    }
}
