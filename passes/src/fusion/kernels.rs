//! Kernels as sets of operations, joined one by one as long as no kernel waits for itself.
//!
//! Each kernel has a place in program order at which it runs: after all that it reads, before all
//! that reads it. Two kernels are joined at the place of the one or of the other, where what both
//! read and what reads them allows it; so the kernels are in an order by construction. The
//! alternative, to search for a path from a kernel back to itself at each join, takes the square of
//! the program's length.

mod moves;

use std::cmp::Reverse;

use index_vec::IndexVec;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind, Operand, Phase, Program};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::unroll::is_region_boundary;

/// The most operations that one kernel has, attention apart; Inductor's limit.
const MOST_FUSED: usize = 64;

/// What an operation is to a kernel.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Computed element by element, or the same bytes under other dimensions.
    ElementWise,
    /// A product, norm or lookup, of which a kernel has one at most; or a reduction.
    Anchor,
    /// A kernel of its own.
    Alone,
}

/// What a kernel goes over.
#[derive(PartialEq)]
struct Anchor {
    /// The dimensions of what it reads, for a reduction or norm; else of its result.
    space: Vec<DimId>,
    /// The dimensions of its result.
    result: Vec<DimId>,
    is_reduction: bool,
}

/// A kernel so far.
struct Kernel {
    ops: Vec<OpId>,
    /// Its place in program order: the operation at which it runs.
    runs_at: OpId,
    anchored: Option<Anchor>,
    /// Attention kernels take in nothing else.
    is_attention: bool,
}

/// The kernels of a program so far.
pub(super) struct Kernels<'p> {
    pub(super) program: &'p Analyzed,
    /// For each operation, its kernel.
    of: IndexVec<OpId, usize>,
    all: Vec<Kernel>,
}

impl<'p> Kernels<'p> {
    /// Every operation in a kernel of its own.
    pub(super) fn new(program: &'p Analyzed) -> Self {
        let alone = |op: OpId| Kernel {
            ops: vec![op],
            runs_at: op,
            anchored: anchor(program, &program.ops[op]),
            is_attention: false,
        };
        Self {
            program,
            of: program.ops.indices().map(OpId::index).collect(),
            all: program.ops.indices().map(alone).collect(),
        }
    }

    /// One kernel of attention.
    pub(super) fn join_attention(&mut self, ops: &[OpId]) {
        let Some((&first, others)) = ops.split_first() else { return };
        let into = self.of[first];
        self.all[into].is_attention = true;
        for &op in others {
            self.merge(into, self.of[op], first);
        }
        let ops = &self.all[into].ops;
        let (first, last) = (ops.iter().min(), ops.iter().max());
        let runs_at = last.filter(|&&last| self.is_read_after(into, into, last)).or(first);
        self.all[into].runs_at = runs_at.copied().unwrap_or(self.all[into].runs_at);
    }

    /// Lets an operation join the kernels of what it reads, where it may: the last one first. Once
    /// it is in one of them, that kernel may join others that the operation alone could not join,
    /// since it waited for both.
    pub(super) fn join_operands(&mut self, op: OpId, may_join: impl Fn(OpId, OpId) -> bool) {
        let mut producers: Vec<(OpId, ValueId)> = self.program.ops[op]
            .operands
            .iter()
            .filter_map(|operand| {
                Some((self.program.dataflow().definition(operand.value)?, operand.value))
            })
            .collect();
        producers.sort_by_key(|&(producer, _)| Reverse(producer));
        producers.dedup();
        let mut join = |&(producer, value): &(OpId, ValueId)| {
            let (own, other) = (self.of[op], self.of[producer]);
            let may_join = may_join(op, producer) && self.can_join(op, producer, value);
            let place = may_join.then(|| self.common_place(own, other)).flatten();
            if let Some(runs_at) = place {
                self.merge(other, own, runs_at);
            }
            place.is_some()
        };
        while producers.iter().any(&mut join) {}
    }

    /// Whether two operations are in one kernel.
    pub(super) fn are_one(&self, one: OpId, other: OpId) -> bool {
        self.of[one] == self.of[other]
    }

    fn can_join(&self, op: OpId, producer: OpId, value: ValueId) -> bool {
        let (reader, writer) = (&self.program.ops[op], &self.program.ops[producer]);
        let (own, other) = (&self.all[self.of[op]], &self.all[self.of[producer]]);
        (reader.repeat, reader.phase) == (writer.repeat, writer.phase)
            // What microbatches of a pipeline add up is read after the last of them.
            && self.program.sum_of_stage(writer).is_none()
            && self.of[op] != self.of[producer]
            && !own.is_attention
            && !other.is_attention
            && !(other.anchored.is_some() && self.updates_weight(reader))
            && own.ops.len() + other.ops.len() <= MOST_FUSED
            && self.roles_fit(reader, writer, value)
    }

    /// Whether an operation updates weights or their state: optimizers of frameworks are kernels of
    /// their own, which read gradients from memory.
    fn updates_weight(&self, op: &Op) -> bool {
        op.phase == Phase::Backward && self.program.is_update(op.result)
    }

    /// Whether one kernel can do both, and for every element of `value` once.
    fn roles_fit(&self, reader: &Op, writer: &Op, value: ValueId) -> bool {
        let role = |op: &Op| role(self.program, op);
        if role(reader) == Role::Alone || role(writer) == Role::Alone {
            return false;
        }
        let anchored = |op: &Op| {
            let op = self.program.dataflow().definition(op.result);
            op.and_then(|op| self.all[self.of[op]].anchored.as_ref())
        };
        let read = &self.program.values[reader.result].dims;
        match (anchored(writer), anchored(reader)) {
            (None, None) => true,
            (Some(anchor), None) => {
                same_dims(&anchor.space, read) || same_dims(&anchor.result, read)
            }
            // What a product reads is computed as often as it is read: where that is once, and from
            // no more bits, since it reads its operands several times.
            (None, Some(_)) => {
                let own = self.program.dataflow().definition(reader.result);
                let own = own.map(|op| self.of[op]);
                let narrows = reader.is_product() && self.narrows(writer);
                !narrows && self.readers(value).all(|other| Some(self.of[other]) == own)
            }
            // Reductions of one block, as those of a softmax written out.
            (Some(one), Some(other)) => one.is_reduction && one == other,
        }
    }

    /// Whether the kernel of an operation makes something of fewer bits than an array of its size:
    /// by a cast, or in the dtype that the program gives to a result.
    fn narrows(&self, op: &Op) -> bool {
        let Some(id) = self.program.dataflow().definition(op.result) else { return false };
        let values = &self.program.values;
        self.all[self.of[id]].ops.iter().map(|&op| &self.program.ops[op]).any(|op| {
            let result = &values[op.result];
            let is_wider = |operand: &Operand| {
                let value = &values[operand.value];
                value.dtype.bits() > result.dtype.bits() && same_dims(&value.dims, &result.dims)
            };
            op.loads_operands() && op.operands.iter().any(is_wider)
        })
    }

    /// A place at which two kernels can run as one, if there is any.
    fn common_place(&self, one: usize, other: usize) -> Option<OpId> {
        let (earlier, later) = if self.all[one].runs_at < self.all[other].runs_at {
            (one, other)
        } else {
            (other, one)
        };
        let (early, late) = (self.all[earlier].runs_at, self.all[later].runs_at);
        let early = Some(early).filter(|&early| self.reads_before(later, earlier, early));
        early.or_else(|| Some(late).filter(|&late| self.is_read_after(earlier, later, late)))
    }

    /// Whether all that a kernel reads of kernels but `with` is there before `place`.
    fn reads_before(&self, kernel: usize, with: usize, place: OpId) -> bool {
        let operands = self.all[kernel].ops.iter().flat_map(|&op| &self.program.ops[op].operands);
        operands
            .filter_map(|operand| self.program.dataflow().definition(operand.value))
            .all(|producer| self.is_in(producer, kernel, with) || self.runs_at(producer) < place)
    }

    /// Whether all kernels but `with` that read what a kernel yields run after `place`.
    fn is_read_after(&self, kernel: usize, with: usize, place: OpId) -> bool {
        let results = self.all[kernel].ops.iter().map(|&op| self.program.ops[op].result);
        results
            .flat_map(|result| self.readers(result))
            .all(|reader| self.is_in(reader, kernel, with) || self.runs_at(reader) > place)
    }

    fn is_in(&self, op: OpId, one: usize, other: usize) -> bool {
        self.of[op] == one || self.of[op] == other
    }

    fn runs_at(&self, op: OpId) -> OpId {
        self.all[self.of[op]].runs_at
    }

    fn readers(&self, value: ValueId) -> impl Iterator<Item = OpId> {
        readers(self.program, value)
    }

    fn merge(&mut self, into: usize, from: usize, runs_at: OpId) {
        if into == from {
            return;
        }
        let ops = std::mem::take(&mut self.all[from].ops);
        for &op in &ops {
            self.of[op] = into;
        }
        let anchored = self.all[from].anchored.take();
        let is_attention = self.all[from].is_attention;
        let kernel = &mut self.all[into];
        kernel.ops.extend(ops);
        kernel.runs_at = runs_at;
        kernel.anchored = kernel.anchored.take().or(anchored);
        kernel.is_attention |= is_attention;
    }

    /// The number of each operation's kernel, from 1 on in program order; `None` for an operation
    /// that runs alone. A composite has one: its statements are a kernel.
    pub(super) fn numbers(&self) -> IndexVec<OpId, Option<u32>> {
        let mut numbers: IndexMap<usize, u32, FxBuildHasher> = IndexMap::default();
        let mut number = |id: OpId| {
            let kernel = self.of[id];
            let is_composite = matches!(self.program.ops[id].kind, OpKind::Composite { .. });
            let is_numbered = is_composite || self.all[kernel].ops.len() > 1;
            let next = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
            is_numbered.then(|| *numbers.entry(kernel).or_insert(next))
        };
        self.program.ops.indices().map(&mut number).collect()
    }
}

/// The operations that read a value, without those that reshard it.
pub(super) fn readers(program: &Analyzed, value: ValueId) -> impl Iterator<Item = OpId> {
    uses(program, value).map(|(reader, _)| reader)
}

/// The same, and which of its operands each reads.
pub(super) fn uses(program: &Analyzed, value: ValueId) -> impl Iterator<Item = (OpId, usize)> {
    let uses = program.dataflow().uses_of(value);
    uses.filter(move |&(reader, _)| program.ops[reader].result != value)
}

/// Whether an operation is computed element by element; views of the same bytes are.
pub(crate) fn is_element_wise(program: &Program, op: &Op) -> bool {
    role(program, op) == Role::ElementWise
}

/// Whether an operation is a kernel of its own.
pub(super) fn is_alone(program: &Program, op: &Op) -> bool {
    role(program, op) == Role::Alone
}

fn role(program: &Program, op: &Op) -> Role {
    match &op.kind {
        _ if is_region_boundary(op) || op.is(&MapForm::Total) || program.is_stage_send(op) => {
            Role::Alone
        }
        _ if op.host_transfer().is_some() => Role::Alone,
        OpKind::Map(_) | OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)) => {
            Role::ElementWise
        }
        OpKind::Einsum { contracted } if contracted.is_empty() => Role::ElementWise,
        // A running sum is a pass over its operand, as a norm is; picking elements is several.
        OpKind::Along(along) if !along.function.row().picks => Role::Anchor,
        OpKind::Einsum { .. }
        | OpKind::Reduce { .. }
        | OpKind::Composite { .. }
        | OpKind::Gather { .. } => Role::Anchor,
        OpKind::ScatterAdd { .. }
        | OpKind::Update { .. }
        | OpKind::Route(_)
        | OpKind::Along(_)
        | OpKind::Opaque(_)
        | OpKind::Rearrange(_)
        | OpKind::Collective(_) => Role::Alone,
    }
}

/// What an operation is the anchor of: a reduction goes over its operand, others over their result.
fn anchor(program: &Program, op: &Op) -> Option<Anchor> {
    if role(program, op) != Role::Anchor {
        return None;
    }
    let is_reduction = matches!(op.kind, OpKind::Reduce { .. });
    let reduces = is_reduction || matches!(op.kind, OpKind::Composite { .. });
    let dims = |value: ValueId| program.values[value].dims.clone();
    let space = dims(if reduces { op.operands[0].value } else { op.result });
    Some(Anchor { space, result: dims(op.result), is_reduction })
}

/// Whether both have the same dimensions, in any order.
pub(super) fn same_dims(one: &[DimId], other: &[DimId]) -> bool {
    one.len() == other.len() && one.iter().all(|dim| other.contains(dim))
}
