//! Kernels: which operations run as one, and what each leaves on the chip or computes again.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// Which operations run as one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Fusion {
    /// Each runs alone.
    None,
    /// Element-wise operations run with the product or pass that produces or reads their values.
    ElementWise,
    /// The same, and attention is one kernel that keeps its scores on the chip.
    #[default]
    Attention,
}

impl Fusion {
    /// As options write it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An operation's place in its kernel; by default it is a kernel alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each says something of its own")]
pub struct KernelPart {
    /// The number of a kernel of several operations, from 1 on in program order.
    pub number: Option<u32>,
    /// Which operands the kernel has on the chip: one bit each, from the first on.
    pub operands_on_chip: u64,
    /// Which of these the kernel has read from memory for an earlier operation, one bit each.
    pub operands_read_before: u64,
    /// Whether nothing else reads the result.
    pub result_on_chip: bool,
    /// Which operands are read until what follows from a result on the chip is written, one bit
    /// each: what a product or norm reads here or further on, and smaller arrays than the results.
    /// A result may take the place of other ones, which are read element by element.
    pub operands_to_end: u64,
    /// Whether the fixed time of its kernel counts for another operation: its product, if it has
    /// one, else the first.
    pub is_launched_elsewhere: bool,
    /// Whether it is a kernel of attention.
    pub is_attention: bool,
    /// Whether it is a product of experts: a weight for each, with the tokens routed there.
    pub is_of_experts: bool,
    /// What is computed again rather than kept.
    pub recomputes: Recomputes,
}

/// What is computed again, rather than kept from the forward to the backward part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Recomputes {
    /// Nothing.
    #[default]
    Nothing,
    /// The operation's result, by those that read it going back.
    Result,
    /// The scores of attention, by this operation: so many times its own FLOPs.
    Scores(f64),
}

impl KernelPart {
    /// Whether the backward part computes the result again rather than keeping it.
    pub fn is_recomputed(&self) -> bool {
        self.recomputes == Recomputes::Result
    }

    /// How many times its own FLOPs it takes to compute scores of attention again.
    pub fn score_flops(&self) -> f64 {
        if let Recomputes::Scores(times) = self.recomputes { times } else { 0.0 }
    }

    /// Whether the kernel has an operand on the chip.
    pub fn has_on_chip(&self, operand: usize) -> bool {
        has_bit(self.operands_on_chip, operand)
    }

    /// Whether the kernel has read an operand from memory for an earlier operation.
    pub fn has_read_before(&self, operand: usize) -> bool {
        has_bit(self.operands_read_before, operand)
    }

    /// Whether an operand is read until what follows from a result on the chip is written.
    pub fn reads_to_end(&self, operand: usize) -> bool {
        has_bit(self.operands_to_end, operand)
    }
}

fn has_bit(bits: u64, place: usize) -> bool {
    place < u64::BITS as usize && bits >> place & 1 == 1
}
