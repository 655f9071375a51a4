//! Which values exist before, in or after the microbatches, and what a microbatch has of each.
//!
//! The rules are those of a product over sharded dimensions, applied to microbatches: an operation
//! on rows produces rows, a sum over the batch produces a partial sum, and a partial sum passes
//! through linear operations only. A nonlinear function of a partial sum is placed after the
//! microbatches; if rows depend on it, no microbatch could continue before all others are done, and
//! the step cannot be split.

use indexmap::IndexSet;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, OpId, RepeatId, ValueId};
use shardwise_ir::program::{Blocks, MapForm, Op, OpKind, Phase, Program, ReduceFn};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::sharding::Reduction;

use super::{MicrobatchFault, Parts};

/// What a microbatch has of a value, and when it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MicrobatchForm {
    /// The whole value, computed before the microbatches.
    Before,
    /// The whole value, computed in each microbatch.
    Same,
    /// The rows of the microbatch.
    Rows,
    /// A share: the value is the sum over all microbatches.
    Share,
    /// Nothing: the value is computed after the microbatches.
    After,
}

use MicrobatchForm::{After, Before, Rows, Same, Share};

impl MicrobatchForm {
    /// Whether each microbatch computes it.
    pub(super) fn is_inside(self) -> bool {
        matches!(self, Same | Rows | Share)
    }
}

/// The form of every value.
pub(super) struct MicrobatchForms {
    pub(super) of_values: Vec<MicrobatchForm>,
    /// Operations from this one on are not analysed: they come after the microbatches.
    pub(super) end: OpId,
    /// Blocks that run for each microbatch.
    pub(super) inside: IndexSet<RepeatId>,
    /// Blocks that run after the microbatches, unchanged.
    after: IndexSet<RepeatId>,
    /// For operations that read no elements of their operand, only its dimensions: a value of the
    /// same dimensions that is available earlier.
    pub(super) like: Vec<Option<ValueId>>,
    mixed: IndexSet<OpId>,
}

/// An upper limit on the sweeps until no form changes.
const MOST_SWEEPS: usize = 16;

pub(super) fn find(program: &Analyzed, parts: &Parts, end: OpId) -> MicrobatchForms {
    let form = program.values.iter().map(|value| {
        if value.dims.iter().any(|dim| parts.contains_key(dim)) { Rows } else { Before }
    });
    let mut forms = MicrobatchForms {
        of_values: form.collect(),
        end,
        inside: IndexSet::new(),
        after: IndexSet::new(),
        like: vec![None; program.ops.len()],
        mixed: IndexSet::new(),
    };
    for op in program.ops.iter().skip(end.index()) {
        forms.of_values[op.result.index()] = After;
    }
    for _ in 0..MOST_SWEEPS {
        let before = (forms.of_values.clone(), forms.inside.len(), forms.after.len());
        forms.mixed.clear();
        for (id, op) in program.ops.iter_enumerated().take(end.index()) {
            forms.operation(program, parts, id, op);
        }
        if before == (forms.of_values.clone(), forms.inside.len(), forms.after.len()) {
            break;
        }
    }
    forms
}

impl MicrobatchForms {
    pub(super) fn of(&self, value: ValueId) -> MicrobatchForm {
        self.of_values[value.index()]
    }

    /// The form of an operation's result.
    pub(super) fn of_op(&self, id: OpId, op: &Op) -> MicrobatchForm {
        if id < self.end { self.of(op.result) } else { After }
    }

    fn operation(&mut self, program: &Analyzed, parts: &Parts, id: OpId, op: &Op) {
        let form = if op.is(&MapForm::LoopCarried) {
            self.entering(program, op)
        } else if !op.reads_elements() {
            Some(self.unread(program, id, op))
        } else {
            self.computed(program, parts, op)
        };
        let form = form.unwrap_or_else(|| {
            self.mixed.insert(id);
            if has_rows(program, parts, op.result) { Rows } else { After }
        });
        self.of_values[op.result.index()] = self.in_its_block(program, op, form);
    }

    /// A block runs for each microbatch if any of its statements does; any other block runs
    /// entirely before or entirely after them.
    fn in_its_block(&mut self, program: &Program, op: &Op, form: MicrobatchForm) -> MicrobatchForm {
        let Some(block) = op.repeat else { return form };
        let around = || program.repeats.outwards(op.repeat);
        if form.is_inside() {
            self.inside.extend(around());
        }
        let inside = self.inside.contains(&block);
        if form == After && !inside {
            self.after.insert(block);
        }
        match form {
            Before if inside => Same,
            Before if self.after.contains(&block) => After,
            form => form,
        }
    }

    /// A value that enters a layer comes from before the layers, or from the previous layer.
    fn entering(&mut self, program: &Program, op: &Op) -> Option<MicrobatchForm> {
        let first = self.of(op.operands[0].value);
        let next = program
            .outputs
            .iter()
            .find(|output| output.yields_to == Some(op.result))
            .map_or(first, |output| self.of(output.value));
        match (first, next) {
            (Rows, Rows) => Some(Rows),
            // After the microbatches, layers run from the last to the first.
            (After, After)
                if op.repeat.is_some_and(|block| {
                    program.repeats[block].reversed.is_some() || !self.inside.contains(&block)
                }) =>
            {
                Some(After)
            }
            (Before | Same, Before) => Some(first),
            (Before | Same, Same) => Some(Same),
            // The form of the yielded value may not be known yet: it follows from this one.
            (Share, Share | Before | Same) => Some(Share),
            _ => None,
        }
    }

    /// `ones(x)` needs the dimensions of `x` only: those of a value that is available.
    fn unread(&mut self, program: &Analyzed, id: OpId, op: &Op) -> MicrobatchForm {
        let read = op.operands[0].value;
        if self.of(read) == Rows {
            self.like[id.index()] = None;
            return Rows;
        }
        let Some(like) = self.alike(program, op, read) else { return After };
        self.like[id.index()] = Some(like);
        if self.of(like) == Before { Before } else { Same }
    }

    /// A value with the dimensions of `value` that it depends on and that is available before the
    /// microbatches or, failing that, in each of them.
    fn alike(&self, program: &Analyzed, op: &Op, value: ValueId) -> Option<ValueId> {
        let dims = &program.values[value].dims;
        let mut found = IndexSet::from([value]);
        let mut at = 0;
        while let Some(&next) = found.get_index(at) {
            let producer = program.dataflow().definition(next).map(|op| &program.ops[op]);
            let operands = producer.iter().flat_map(|op| &op.operands).map(|operand| operand.value);
            found.extend(operands.filter(|&operand| program.values[operand].dims == *dims));
            at += 1;
        }
        let early = |form: fn(MicrobatchForm) -> bool| {
            found
                .iter()
                .copied()
                .find(|&value| form(self.of(value)) && program.in_scope(op.repeat, value))
        };
        early(|form| form == Before).or_else(|| early(MicrobatchForm::is_inside))
    }

    /// The form of a result that depends on the elements of operands; `None` where rows would
    /// depend on a value that is computed after the microbatches.
    fn computed(&self, program: &Program, parts: &Parts, op: &Op) -> Option<MicrobatchForm> {
        let forms: Vec<MicrobatchForm> =
            op.operands.iter().map(|operand| self.of(operand.value)).collect();
        let any = |form: MicrobatchForm| forms.contains(&form);
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
            return Some(if passes(op, &forms) { Share } else { After });
        }
        Some(if any(Same) { Same } else { Before })
    }

    /// Statements that need the whole batch at once.
    pub(super) fn faults(&self, program: &Analyzed) -> Vec<MicrobatchFault> {
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

    /// The author's statement that delays another one until after the microbatches: the first among
    /// its dependencies that is not linear in a share.
    fn cause(&self, program: &Analyzed, id: OpId) -> OpId {
        let mut at = id;
        let late = |op: &Op| {
            let waits = |value: ValueId| self.of(value) == After;
            op.operands
                .iter()
                .find(|operand| waits(operand.value))
                .and_then(|operand| program.dataflow().definition(operand.value))
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

/// Whether an operation combines several rows other than by a sum.
fn mixes(parts: &Parts, op: &Op) -> bool {
    let cut = |dim: &DimId| parts.contains_key(dim);
    match &op.kind {
        OpKind::Einsum { .. } | OpKind::Collective(_) => false,
        OpKind::Map(function) => match &function.form {
            MapForm::Position(dim) | MapForm::Iota(dim) => cut(dim),
            MapForm::Causal { query, key, .. } => cut(query) || cut(key),
            _ => false,
        },
        OpKind::Reduce { function, dims } => *function != ReduceFn::Sum && dims.iter().any(cut),
        OpKind::Composite { dims, .. } => dims.iter().any(cut),
        OpKind::Along(along) => cut(&along.from) || cut(&along.to),
        OpKind::Opaque(opaque) => opaque.from.iter().chain(&opaque.to).any(cut),
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
            Rearrange::Windows(windows) | Rearrange::Overlap(windows) => {
                [windows.whole, windows.places, windows.kernel].iter().any(cut)
            }
            Rearrange::Part { .. } | Rearrange::Join { .. } => true,
            Rearrange::Chunk { from: dim, .. } | Rearrange::Stack { to: dim, .. } => cut(dim),
        },
        OpKind::Route(route) => [route.tokens, route.experts, route.capacity].iter().any(cut),
    }
}

/// Whether an operation on rows, whose result has no rows, sums them.
fn sums_rows(parts: &Parts, op: &Op) -> bool {
    match &op.kind {
        OpKind::Einsum { contracted } => contracted.iter().any(|dim| parts.contains_key(dim)),
        OpKind::Reduce { .. } | OpKind::ScatterAdd { .. } => true,
        _ => false,
    }
}

/// Whether an operation on operands of these forms, some of them shares, yields a share: it is
/// linear in them, so that the sum of its results is its result on the sum.
fn passes(op: &Op, forms: &[MicrobatchForm]) -> bool {
    let shares: Vec<usize> = (0..forms.len()).filter(|&k| forms[k] == Share).collect();
    let all: Vec<usize> = (0..forms.len()).collect();
    match &op.kind {
        OpKind::Einsum { .. } => shares.len() == 1,
        OpKind::Map(function) => {
            let linear = function.linearity.operands(all.len());
            !linear.is_empty() && shares == linear
        }
        OpKind::Reduce { function, .. } => function.reduction() == Reduction::Sum,
        OpKind::Gather { .. } | OpKind::ScatterAdd { .. } => shares == [0],
        OpKind::Rearrange(_) => shares == all,
        OpKind::Along(along) => along.function.row().is_linear,
        OpKind::Update { .. } => shares == [0, 2],
        // A collective written by the author runs once, if its result is a value of its own.
        OpKind::Collective(_) => op.operands[0].value == op.result,
        OpKind::Composite { .. } | OpKind::Route(_) | OpKind::Opaque(_) => false,
    }
}
