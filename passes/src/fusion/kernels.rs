//! Kernels as sets of operations, joined one by one as long as no kernel waits for itself.

use std::cmp::Reverse;

use index_vec::IndexVec;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{KernelPart, MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::unroll::is_region_boundary;

/// How many operations are looked at to see that a kernel does not wait for itself; a kernel for
/// which more would be needed is not joined.
const MOST_VISITED: usize = 256;

type OpSet = IndexSet<OpId, FxBuildHasher>;

/// What an operation is to a kernel.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Computed element by element, or the same bytes under other dimensions.
    ElementWise,
    /// A product, reduction, norm or lookup: a kernel has one at most.
    Anchor,
    /// A kernel of its own.
    Alone,
}

/// A kernel so far.
#[derive(Clone, Default)]
struct Kernel {
    ops: Vec<OpId>,
    /// The dimensions that its anchor goes over.
    anchored: Option<Vec<DimId>>,
    /// Attention kernels take in nothing else.
    is_attention: bool,
}

/// The kernels of a program so far.
pub(super) struct Kernels<'p> {
    pub(super) program: &'p Analyzed,
    /// For each operation, its kernel.
    of: IndexVec<OpId, usize>,
    all: Vec<Kernel>,
    /// Scores of attention.
    scores: IndexSet<ValueId, FxBuildHasher>,
    /// For products that begin an attention kernel going back, how many times their own FLOPs it
    /// takes to compute its scores again.
    recomputed: IndexVec<OpId, f64>,
}

impl<'p> Kernels<'p> {
    /// Every operation in a kernel of its own.
    pub(super) fn new(program: &'p Analyzed) -> Self {
        let alone = |op: OpId| Kernel {
            ops: vec![op],
            anchored: anchor_space(program, &program.ops[op]),
            is_attention: false,
        };
        Self {
            program,
            of: program.ops.indices().map(OpId::index).collect(),
            all: program.ops.indices().map(alone).collect(),
            scores: IndexSet::default(),
            recomputed: program.ops.iter().map(|_| 0.0).collect(),
        }
    }

    /// One kernel of attention, with scores that stay on the chip.
    pub(super) fn join_attention(&mut self, ops: &[OpId], scores: &[ValueId]) {
        let Some((&first, others)) = ops.split_first() else { return };
        for &op in others {
            self.merge(self.of[first], self.of[op]);
        }
        self.all[self.of[first]].is_attention = true;
        self.scores.extend(scores.iter().copied());
    }

    /// Notes that the kernel of `product` computes scores again, for so many times its FLOPs.
    pub(super) fn recompute(&mut self, product: OpId, times: f64) {
        self.recomputed[product] = times;
    }

    /// Lets an operation join the kernels of what it reads, the last one first.
    pub(super) fn join_operands(&mut self, op: OpId) {
        let mut producers: Vec<(OpId, ValueId)> = self.program.ops[op]
            .operands
            .iter()
            .filter_map(|operand| {
                Some((self.program.dataflow().definition(operand.value)?, operand.value))
            })
            .collect();
        producers.sort_by_key(|&(producer, _)| Reverse(producer));
        producers.dedup();
        for (producer, value) in producers {
            if self.can_join(op, producer, value) {
                self.merge(self.of[producer], self.of[op]);
            }
        }
    }

    fn can_join(&self, op: OpId, producer: OpId, value: ValueId) -> bool {
        let (reader, writer) = (&self.program.ops[op], &self.program.ops[producer]);
        if (reader.repeat, reader.phase) != (writer.repeat, writer.phase) {
            return false;
        }
        let (own, other) = (self.of[op], self.of[producer]);
        let is_free = |kernel: usize| !self.all[kernel].is_attention;
        own != other
            && is_free(own)
            && is_free(other)
            && self.roles_fit(reader, writer, value)
            && !self.waits_for_itself(own, other)
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
        match (anchored(writer), anchored(reader)) {
            (None, None) => true,
            (Some(space), None) => {
                let read = &self.program.values[reader.result].dims;
                same_dims(space, read)
            }
            // What a product reads is computed as often as it is read: where that is once.
            (None, Some(_)) => self.program.dataflow().uses_of(value).count() == 1,
            (Some(_), Some(_)) => false,
        }
    }

    /// Whether a kernel of both would have to wait for an operation outside that waits for it.
    fn waits_for_itself(&self, one: usize, other: usize) -> bool {
        self.reaches(one, other) || self.reaches(other, one)
    }

    /// Whether one kernel depends on the other through operations that are in neither.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let Some(&first) = self.all[to].ops.iter().min() else { return false };
        let mut seen = OpSet::default();
        let mut open: Vec<OpId> = self.outside(&self.all[from].ops, from, to, first).collect();
        while let Some(op) = open.pop() {
            if !seen.insert(op) {
                continue;
            }
            if seen.len() > MOST_VISITED {
                return true;
            }
            for producer in
                self.program.dataflow().producers(op).filter(|&producer| producer >= first)
            {
                if self.of[producer] == to {
                    return true;
                }
                open.push(producer);
            }
        }
        false
    }

    /// What operations of `from` read of others that are in neither kernel, and not older than
    /// `first`.
    fn outside<'k>(
        &'k self,
        ops: &'k [OpId],
        from: usize,
        to: usize,
        first: OpId,
    ) -> impl Iterator<Item = OpId> + 'k {
        ops.iter().flat_map(|&op| self.program.dataflow().producers(op)).filter(move |&producer| {
            producer >= first && self.of[producer] != from && self.of[producer] != to
        })
    }

    fn merge(&mut self, into: usize, from: usize) {
        if into == from {
            return;
        }
        let Kernel { ops, anchored, is_attention } = std::mem::take(&mut self.all[from]);
        for &op in &ops {
            self.of[op] = into;
        }
        let kernel = &mut self.all[into];
        kernel.ops.extend(ops);
        kernel.anchored = kernel.anchored.take().or(anchored);
        kernel.is_attention |= is_attention;
    }

    /// Each operation's place in its kernel.
    pub(super) fn parts(&self) -> IndexVec<OpId, KernelPart> {
        self.program.ops.indices().map(|op| self.part(op)).collect()
    }

    fn part(&self, id: OpId) -> KernelPart {
        let (op, kernel) = (&self.program.ops[id], &self.all[self.of[id]]);
        let is_inside = |value: ValueId| {
            let producer = self.program.dataflow().definition(value);
            self.scores.contains(&value)
                || producer.is_some_and(|producer| self.of[producer] == self.of[id])
        };
        let operands = op.operands.iter().take(u64::BITS as usize).enumerate();
        let on_chip = operands
            .filter(|(_, operand)| is_inside(operand.value))
            .fold(0, |bits, (position, _)| bits | 1 << position);
        KernelPart {
            operands_on_chip: on_chip,
            result_on_chip: self.stays_on_chip(id, op.result),
            is_begun: kernel.ops.iter().any(|&other| other < id),
            is_attention: kernel.is_attention,
            recomputed: self.recomputed[id],
        }
    }

    /// Whether everything that reads a value is in the kernel that produces it.
    fn stays_on_chip(&self, producer: OpId, value: ValueId) -> bool {
        let mut readers = self
            .program
            .dataflow()
            .uses_of(value)
            .map(|(reader, _)| reader)
            .filter(|&reader| self.program.ops[reader].result != value)
            .peekable();
        let is_read = readers.peek().is_some();
        self.scores.contains(&value)
            || is_read
                && self.program.dataflow().outputs_of(value).next().is_none()
                && readers.all(|reader| self.of[reader] == self.of[producer])
    }
}

/// Whether an operation is computed element by element; views of the same bytes are.
pub(super) fn is_element_wise(program: &Program, op: &Op) -> bool {
    role(program, op) == Role::ElementWise
}

fn role(program: &Program, op: &Op) -> Role {
    match &op.kind {
        _ if is_region_boundary(op) || op.is(&MapForm::Total) || program.is_stage_send(op) => {
            Role::Alone
        }
        OpKind::Map(_) | OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)) => {
            Role::ElementWise
        }
        OpKind::Einsum { contracted } if contracted.is_empty() => Role::ElementWise,
        OpKind::Einsum { .. }
        | OpKind::Reduce { .. }
        | OpKind::Composite { .. }
        | OpKind::Gather { .. } => Role::Anchor,
        OpKind::ScatterAdd { .. }
        | OpKind::Update { .. }
        | OpKind::Route(_)
        | OpKind::Rearrange(_)
        | OpKind::Collective(_) => Role::Alone,
    }
}

/// The dimensions that an anchor goes over: of its operand for a reduction, of its result for
/// others.
fn anchor_space(program: &Program, op: &Op) -> Option<Vec<DimId>> {
    let of = match &op.kind {
        _ if role(program, op) != Role::Anchor => return None,
        OpKind::Reduce { .. } | OpKind::Composite { .. } => op.operands[0].value,
        _ => op.result,
    };
    Some(program.values[of].dims.clone())
}

/// Whether both have the same dimensions, in any order.
pub(super) fn same_dims(one: &[DimId], other: &[DimId]) -> bool {
    one.len() == other.len() && one.iter().all(|dim| other.contains(dim))
}
