//! Element-wise operations that move from the kernel of what they read to the one that reads them.
//!
//! Operations join the kernel of an operand first, since that is often all there is to save. Where
//! the operand is in memory anyway and the result is read by one other kernel alone, that kernel
//! computes it on the way: nothing is written, and one array at most is read in its place. In
//! `v * rsqrt(sum_F(v * v))` over a product `v`, the square belongs to the sum.
//!
//! Alternatives: to join readers first would leave results of products that nothing else reads to
//! be written for their readers. To search for the kernels with the least traffic would be a
//! problem of its own for each program; one pass from the last operation to the first finds what
//! is left by joining.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::Op;

use super::{Kernel, Kernels, MOST_FUSED, Role, readers, role, same_dims};
use crate::fusion::parts::elements;

impl Kernels<'_> {
    /// Moves operations to the kernels that read their results, where these take less then: the
    /// last first, so that what it reads may follow.
    pub(in crate::fusion) fn move_to_readers(&mut self) {
        let mut of_little = IndexSet::default();
        for id in self.program.ops.indices() {
            if is_made_of_little(self, &of_little, id) {
                of_little.insert(self.program.ops[id].result);
            }
        }
        let mut left: IndexSet<usize, FxBuildHasher> = IndexSet::default();
        for id in self.program.ops.indices().rev() {
            let moves = Moves { kernels: self, of_little: &of_little };
            if let Some(to) = moves.better_kernel(id) {
                left.insert(self.of[id]);
                self.move_to(to, id);
            }
        }
        left.into_iter().for_each(|kernel| self.split(kernel));
    }

    /// Moves operations to kernels that read their results, as a plan says.
    pub(in crate::fusion) fn move_as_given(&mut self, is_one: impl Fn(OpId, OpId) -> bool) {
        for id in self.program.ops.indices().rev() {
            let result = self.program.ops[id].result;
            let is_given = |&reader: &OpId| is_one(id, reader) && !self.are_one(id, reader);
            let to = self.readers(result).find(is_given).map(|reader| self.of[reader]);
            if let Some(to) = to.filter(|&to| self.can_compute(to, id)) {
                self.move_to(to, id);
            }
        }
    }

    fn move_to(&mut self, to: usize, id: OpId) {
        let from = self.of[id];
        self.all[from].ops.retain(|&other| other != id);
        self.all[to].ops.push(id);
        self.of[id] = to;
    }

    /// Leaves in a kernel what is connected with its anchor; each of the others, which were joined
    /// to it by an operation that moved, runs alone.
    fn split(&mut self, kernel: usize) {
        let ops = self.all[kernel].ops.clone();
        let anchor = ops
            .iter()
            .copied()
            .find(|&op| role(self.program, &self.program.ops[op]) == Role::Anchor);
        let mut connected: IndexSet<OpId, FxBuildHasher> = anchor.into_iter().collect();
        let mut next = 0;
        while let Some(&op) = connected.get_index(next) {
            let operands = self.program.ops[op].operands.iter();
            let producers = operands.filter_map(|of| self.program.dataflow().definition(of.value));
            let readers = self.readers(self.program.ops[op].result);
            let beside = producers.chain(readers).filter(|&other| self.of[other] == kernel);
            let beside: Vec<OpId> = beside.collect();
            connected.extend(beside);
            next += 1;
        }
        for op in ops.into_iter().filter(|op| !connected.contains(op)) {
            self.all.push(Kernel { ops: vec![], runs_at: op, anchored: None, is_attention: false });
            self.move_to(self.all.len() - 1, op);
        }
    }

    /// Whether a kernel that reads the result of an operation can compute it on the way.
    fn can_compute(&self, to: usize, id: OpId) -> bool {
        let program = self.program;
        let op = &program.ops[id];
        let kernel = &self.all[to];
        // A view of it would be in memory in its place.
        let reads_by_element = |reader: OpId| match role(program, &program.ops[reader]) {
            Role::ElementWise => !program.ops[reader].is_view(),
            Role::Anchor => !program.ops[reader].is_product(),
            Role::Alone => false,
        };
        let is_beside = |&other: &OpId| {
            let other = &program.ops[other];
            (other.repeat, other.phase) == (op.repeat, op.phase)
        };
        let dims = &program.values[op.result].dims;
        let mut readers = self.readers(op.result).filter(|&reader| self.of[reader] == to);
        role(program, op) == Role::ElementWise
            && !kernel.is_attention
            && kernel.ops.len() < MOST_FUSED
            && kernel.ops.iter().all(is_beside)
            && kernel.anchored.as_ref().is_none_or(|anchor| {
                dims.iter().all(|dim| anchor.space.contains(dim)) || same_dims(&anchor.result, dims)
            })
            && readers.all(reads_by_element)
            && self.is_ready_for(to, op)
    }

    /// Whether all that an operation reads is there when a kernel runs.
    fn is_ready_for(&self, to: usize, op: &Op) -> bool {
        let producers = op.operands.iter();
        let producers = producers.filter_map(|of| self.program.dataflow().definition(of.value));
        let mut others = producers.filter(|&producer| self.of[producer] != to);
        others.all(|producer| self.runs_at(producer) < self.all[to].runs_at)
    }

    /// Whether a value is in memory even if an operation of its kernel reads it elsewhere.
    fn is_written(&self, value: ValueId, reader: OpId) -> bool {
        let Some(producer) = self.program.dataflow().definition(value) else { return true };
        let own = self.of[producer];
        own != self.of[reader]
            || self.program.dataflow().outputs_of(value).next().is_some()
            || self.readers(value).any(|reader| self.of[reader] != own)
    }
}

/// Whether a result is made element by element of smaller arrays that are in memory, of positions,
/// or of others of the kind, as masks are.
fn is_made_of_little(
    kernels: &Kernels<'_>,
    known: &IndexSet<ValueId, FxBuildHasher>,
    id: OpId,
) -> bool {
    let program = kernels.program;
    let op = &program.ops[id];
    let size = elements(program, op.result);
    let is_little = |of: ValueId| {
        elements(program, of) < size && kernels.is_written(of, id) || known.contains(&of)
    };
    role(program, op) == Role::ElementWise
        && !op.is_view()
        && program.dataflow().outputs_of(op.result).next().is_none()
        && (!op.loads_operands() || op.operands.iter().all(|of| is_little(of.value)))
}

/// The kernels so far, and what moves with its only reader.
struct Moves<'k, 'p> {
    kernels: &'k Kernels<'p>,
    of_little: &'k IndexSet<ValueId, FxBuildHasher>,
}

impl Moves<'_, '_> {
    /// The kernel of all readers of an operation, where it takes less there.
    fn better_kernel(&self, id: OpId) -> Option<usize> {
        let kernels = self.kernels;
        let op = &kernels.program.ops[id];
        let own = &kernels.all[kernels.of[id]];
        let is_own = own.ops.len() > 1 && !own.is_attention && own.anchored.is_some();
        let is_plain = role(kernels.program, op) == Role::ElementWise && !op.is_view();
        let leaves = kernels.program.dataflow().outputs_of(op.result).next().is_some();
        if !is_own || !is_plain || leaves {
            return None;
        }
        let to = kernels.of[self.readers_of_written(op.result).next()?];
        let has_all = self.readers_of_written(op.result).all(|reader| kernels.of[reader] == to);
        let may = has_all && to != kernels.of[id] && kernels.can_compute(to, id);
        (may && self.reads_little_for(to, id)).then_some(to)
    }

    /// The operations that read a value where it is written: masks and the like are made again
    /// going back.
    fn readers_of_written(&self, value: ValueId) -> impl Iterator<Item = OpId> {
        let program = self.kernels.program;
        let phase = program.dataflow().definition(value).map(|op| program.ops[op].phase);
        let is_made_again = self.of_little.contains(&value);
        readers(program, value)
            .filter(move |&reader| !is_made_again || Some(program.ops[reader].phase) == phase)
    }

    /// Whether all that an operation reads is in memory without it, and the kernel reads one array
    /// of its size at most that it does not read anyway.
    fn reads_little_for(&self, to: usize, id: OpId) -> bool {
        let kernels = self.kernels;
        let op = &kernels.program.ops[id];
        if !op.loads_operands() {
            return true;
        }
        let size = elements(kernels.program, op.result);
        let follows = |value: ValueId| {
            self.of_little.contains(&value)
                && self.readers_of_written(value).all(|other| other == id)
        };
        let is_read_there =
            |value: ValueId| kernels.readers(value).any(|other| kernels.of[other] == to);
        let mut added: Vec<ValueId> = op.operands.iter().map(|operand| operand.value).collect();
        added.sort_unstable();
        added.dedup();
        added.retain(|&value| !follows(value));
        let are_there = added.iter().all(|&value| kernels.is_written(value, id));
        added.retain(|&value| !is_read_there(value) && elements(kernels.program, value) >= size);
        are_there && added.len() <= 1
    }
}
