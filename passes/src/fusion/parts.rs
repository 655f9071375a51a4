//! What follows from kernels for each operation: what it reads and leaves on the chip, and what it
//! computes again.

use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{KernelPart, OpKind, Operand, Phase, Recomputes};

use super::conversions::{Conversions, conversions};
use super::implicit::{Implicit, implicit};
use super::kernels::{is_element_wise, readers, same_dims, uses};
use super::recompute;
use crate::training::frameworks::Frameworks;

/// The share of a value's elements up to which reading an array to compute the value again is not
/// counted.
const LITTLE: f64 = 1.0 / 16.0;

/// The kernels of a program, by number.
struct Parts<'p> {
    program: &'p Analyzed,
    /// For each operation, the number of its kernel; `None`: it runs alone.
    numbers: &'p IndexVec<OpId, Option<u32>>,
    kernels: IndexMap<u32, Vec<OpId>, FxBuildHasher>,
    /// The scores of attention: never written, and computed again going back.
    scores: IndexSet<ValueId, FxBuildHasher>,
    /// Windows of convolutions, which are not written either.
    implicit: Implicit,
    /// What the kernels that read it convert: not written, and read from memory as it is there.
    converted: &'p Conversions,
    /// For each operation, whether the backward part computes its result again.
    again: IndexVec<OpId, bool>,
    /// The results that it computes again from positions and much smaller arrays, as masks are.
    from_little: IndexSet<ValueId, FxBuildHasher>,
    /// For products that begin an attention kernel going back, how many times their own FLOPs it
    /// takes to compute its scores again.
    score_flops: IndexMap<OpId, f64, FxBuildHasher>,
    frameworks: Frameworks,
}

/// Each operation's place in its kernel.
pub(super) fn parts(
    program: &Analyzed,
    numbers: &IndexVec<OpId, Option<u32>>,
    converted: &Conversions,
) -> IndexVec<OpId, KernelPart> {
    let mut kernels: IndexMap<u32, Vec<OpId>, FxBuildHasher> = IndexMap::default();
    for (op, number) in numbers.iter_enumerated() {
        if let Some(number) = *number {
            kernels.entry(number).or_default().push(op);
        }
    }
    let implicit = implicit(program);
    let mut parts = Parts {
        program,
        numbers,
        kernels,
        scores: IndexSet::default(),
        again: IndexVec::new(),
        from_little: IndexSet::default(),
        implicit,
        converted,
        score_flops: IndexMap::default(),
        frameworks: Frameworks::of(program),
    };
    parts.find_scores();
    let mut implicit = parts.implicit.clone();
    implicit.extend(conversions(program).into_keys());
    parts.again = recompute::recomputed(program, &implicit, &parts.scores);
    parts.find_values_from_little();
    let mut all: IndexVec<OpId, KernelPart> =
        program.ops.indices().map(|op| parts.part(op)).collect();
    find_reads_to_end(program, &mut all);
    all
}

/// Finds out which operands operations read until the end of their kernel.
fn find_reads_to_end(program: &Analyzed, parts: &mut IndexVec<OpId, KernelPart>) {
    let left_on_chip: Vec<OpId> =
        parts.indices().rev().filter(|&id| parts[id].result_on_chip).collect();
    for id in left_on_chip {
        parts[id].operands_to_end = operands_to_end(program, parts, id);
    }
}

/// The operands that an operation reads until the end of its kernel, one bit each; `parts` has what
/// later ones read so.
fn operands_to_end(program: &Analyzed, parts: &IndexVec<OpId, KernelPart>, id: OpId) -> u64 {
    let op = &program.ops[id];
    if !op.loads_operands() {
        return 0;
    }
    let is_read_to_end = |(reader, operand): (OpId, usize)| {
        let reading = &program.ops[reader];
        let is_to_end = !is_element_wise(program, reading)
            || parts[reader].reads_to_end(operand)
            || is_smaller(program, op.result, reading.result);
        reading.phase == op.phase && is_to_end
    };
    if !is_element_wise(program, op) || uses(program, op.result).any(is_read_to_end) {
        return u64::MAX;
    }
    // What the kernel computes again is not in memory.
    let is_there = |value: ValueId| {
        let producer = program.dataflow().definition(value);
        op.phase == Phase::Forward || producer.is_none_or(|of| !parts[of].is_recomputed())
    };
    let operands = op.operands.iter().take(u64::BITS as usize).enumerate();
    let is_held = |value: ValueId| is_there(value) && is_smaller(program, value, op.result);
    let held = operands.filter(|(_, operand)| is_held(operand.value));
    held.fold(0, |bits, (place, _)| bits | 1 << place)
}

/// Whether a value has fewer elements than another one, and so no place for it.
fn is_smaller(program: &Analyzed, value: ValueId, other: ValueId) -> bool {
    elements(program, value) < elements(program, other)
}

pub(super) fn elements(program: &Analyzed, value: ValueId) -> f64 {
    program.values[value].dims.iter().map(|&dim| program.dims[dim].size as f64).product()
}

impl Parts<'_> {
    /// Finds the scores of each attention kernel, and what it takes to compute them again in those
    /// that read them.
    fn find_scores(&mut self) {
        // For each score, a product that it has a part of, by which its kernel is found.
        let mut scored_by: IndexMap<ValueId, OpId> = IndexMap::new();
        let attention: Vec<Vec<OpId>> =
            self.kernels.values().filter(|ops| self.is_attention(ops)).cloned().collect();
        for ops in attention {
            let mut reads = ops.iter().flat_map(|&op| &self.program.ops[op].operands);
            let given = reads.find_map(|operand| scored_by.get(&operand.value)).copied();
            let Some(product) = ops.iter().copied().find(|&op| self.is_product(op)) else {
                continue;
            };
            if let Some(scored_by) = given {
                self.score_flops.extend(self.score_flops(scored_by, &ops));
                continue;
            }
            for op in ops {
                let result = self.program.ops[op].result;
                if self.has_dims_of(op, product) {
                    self.scores.insert(result);
                    scored_by.insert(result, product);
                }
            }
        }
    }

    /// Finds the results that the backward part computes again and reads next to nothing for.
    fn find_values_from_little(&mut self) {
        let program = self.program;
        for (_, op) in program.ops.iter_enumerated().filter(|(id, _)| self.again[*id]) {
            let most = LITTLE * elements(program, op.result);
            let is_little = |operand: &Operand| {
                elements(program, operand.value) <= most
                    || self.from_little.contains(&operand.value)
            };
            if !op.loads_operands() || op.operands.iter().all(is_little) {
                self.from_little.insert(op.result);
            }
        }
    }

    /// The product going back that gives gradients of scores, and how many times its FLOPs it takes
    /// to compute the scores again: by all products of the kernel that they are a sum of.
    fn score_flops(&self, scored_by: OpId, ops: &[OpId]) -> Option<(OpId, f64)> {
        let gives_scores = |op: &OpId| self.is_product(*op) && self.has_dims_of(*op, scored_by);
        let gradient = ops.iter().copied().find(gives_scores)?;
        let summed = self.kernels.get(&self.numbers[scored_by]?)?.iter().copied();
        let summed = summed.filter(gives_scores).filter_map(|op| self.contracted_size(op));
        Some((gradient, summed.sum::<f64>() / self.contracted_size(gradient)?))
    }

    fn contracted_size(&self, op: OpId) -> Option<f64> {
        let OpKind::Einsum { contracted } = &self.program.ops[op].kind else { return None };
        Some(contracted.iter().map(|&dim| self.program.dims[dim].size as f64).product())
    }

    fn has_dims_of(&self, op: OpId, other: OpId) -> bool {
        let dims = |op: OpId| &self.program.values[self.program.ops[op].result].dims;
        same_dims(dims(op), dims(other))
    }

    fn is_product(&self, op: OpId) -> bool {
        self.program.ops[op].is_product()
    }

    /// Whether a kernel is attention: no other has two products.
    fn is_attention(&self, ops: &[OpId]) -> bool {
        ops.iter().filter(|&&op| self.is_product(op)).nth(1).is_some()
    }

    fn part(&self, id: OpId) -> KernelPart {
        let op = &self.program.ops[id];
        let alone = [id];
        let ops = self.numbers[id].map_or(&alone[..], |number| &self.kernels[&number]);
        let is_inside = |value: ValueId| self.is_made_beside(value, id);
        let bits = |holds: &dyn Fn(usize) -> bool| {
            let places = (0..op.operands.len()).take(u64::BITS as usize);
            places.filter(|&place| holds(place)).fold(0, |bits, place| bits | 1 << place)
        };
        let made = bits(&|place| {
            let value = op.operands[place].value;
            is_inside(value) || op.phase == Phase::Backward && self.is_made_again(value, ops)
        });
        let read_before = bits(&|place| self.is_read_before(id, ops, place)) & !made;
        KernelPart {
            operands_on_chip: made | read_before,
            operands_read_before: read_before,
            result_on_chip: self.stays_on_chip(id, op.result),
            operands_to_end: 0,
            number: self.numbers[id],
            is_launched_elsewhere: self.launched_by(ops).is_some_and(|other| other != id),
            is_attention: self.is_attention(ops),
            is_of_experts: false,
            recomputes: match self.score_flops.get(&id) {
                Some(&times) => Recomputes::Scores(times),
                None if self.again[id] => Recomputes::Result,
                None => Recomputes::Nothing,
            },
        }
    }

    /// The operation for which the fixed time of a kernel counts. What comes before its product is
    /// computed by the kernel of the product, whose launch takes longer than that of a pass.
    fn launched_by(&self, ops: &[OpId]) -> Option<OpId> {
        // A view or conversion runs nothing.
        let runs = |op: &OpId| !self.program.ops[*op].is_view() && !self.is_converted_by(*op);
        let product = ops.iter().copied().find(|&op| self.is_product(op));
        product.or_else(|| ops.iter().copied().find(runs))
    }

    /// Whether the kernel has read what an operand names before it does. Element-wise operations
    /// and reductions of a kernel pass over its arrays side by side, so that each is read once
    /// however often they name it; a product reads its operands in tiles of its own. Of attention
    /// the products read an array once as well: keys that are the values, too.
    ///
    /// Without a collective inside the kernel all read it in the same sharding, or this one a
    /// slice of it, since the dimensions that both have in common with the scores are split as
    /// those are. With one, the second read may be the larger, which is priced once shardings are
    /// known ([`crate::cost::kernel_reads`]).
    fn is_read_before(&self, id: OpId, ops: &[OpId], position: usize) -> bool {
        let operands = &self.program.ops[id].operands;
        let value = operands[position].value;
        let is_product = self.is_product(id);
        let names = |operand: &Operand| operand.value == value;
        let reads = |op: OpId| {
            let op = &self.program.ops[op];
            op.loads_operands() && op.operands.iter().any(names)
        };
        let beside = |op: OpId| op < id && self.is_product(op) == is_product && reads(op);
        let is_alike = !is_product || self.is_attention(ops);
        let is_here = !is_product && operands[..position].iter().any(names);
        is_here || is_alike && ops.iter().any(|&op| beside(op))
    }

    /// Whether a kernel that goes back computes a value again from next to nothing, beside another
    /// one of that size that it reads. (Alternative: in all kernels; one that reads nothing else
    /// would cost its arithmetic alone, at the rate of products, which makes it cheap to compute a
    /// mask whole on every device.)
    fn is_made_again(&self, value: ValueId, ops: &[OpId]) -> bool {
        let size = elements(self.program, value);
        let is_read = |id: OpId, of: ValueId| {
            elements(self.program, of) >= size
                && !self.from_little.contains(&of)
                && !self.is_made_beside(of, id)
        };
        self.from_little.contains(&value)
            && ops.iter().any(|&id| {
                let op = &self.program.ops[id];
                let reads = !self.is_product(id) && op.loads_operands();
                reads && op.operands.iter().any(|operand| is_read(id, operand.value))
            })
    }

    /// Whether the kernel of an operation makes a value, and need not read it. A view of what is in
    /// memory is read from there.
    fn is_made_beside(&self, value: ValueId, id: OpId) -> bool {
        if self.is_converted_by(id) {
            let (op, dims) = (&self.program.ops[id], |of: ValueId| &self.program.values[of].dims);
            return op.is_view() || same_dims(dims(value), dims(op.result));
        }
        if self.converted.contains_key(&value) {
            return false;
        }
        let producer = self.program.dataflow().definition(value);
        let is_made = |producer: OpId| {
            let op = &self.program.ops[producer];
            self.share_a_kernel(producer, id)
                && (!op.is_view() || self.is_made_beside(op.operands[0].value, id))
        };
        self.is_never_written(value) || producer.is_some_and(is_made)
    }

    fn is_never_written(&self, value: ValueId) -> bool {
        let on_chip = [&self.scores, &self.implicit].iter().any(|values| values.contains(&value));
        on_chip || self.converted.contains_key(&value)
    }

    /// Whether an operation is part of the kernels that read its result, and reads for these.
    fn is_converted_by(&self, id: OpId) -> bool {
        self.converted.contains_key(&self.program.ops[id].result)
    }

    fn share_a_kernel(&self, one: OpId, other: OpId) -> bool {
        one == other || self.numbers[one].is_some() && self.numbers[one] == self.numbers[other]
    }

    /// Whether everything that reads a value is in the kernel that produces it, or computes it
    /// again.
    fn stays_on_chip(&self, producer: OpId, value: ValueId) -> bool {
        let reads = |reader: &OpId| {
            !self.again[producer] || self.program.ops[*reader].phase == Phase::Forward
        };
        let mut readers = readers(self.program, value).filter(reads).peekable();
        let is_read = readers.peek().is_some();
        self.is_never_written(value)
            || is_read
                && !self.frameworks.keep(value)
                && self.program.dataflow().outputs_of(value).next().is_none()
                && readers.all(|reader| self.share_a_kernel(reader, producer))
    }
}
