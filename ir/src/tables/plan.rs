//! The explicit form: every step is one local operation or one collective, and every operand has
//! its sharding.

use crate::ids::{OpId, RepeatId, ValueId};
use crate::program::{CollectiveKind, Program};
use crate::sharding::{AxisRef, Sharding};

/// A value in one of its shardings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Materialization {
    /// Which value.
    pub value: ValueId,
    /// How it is laid out.
    pub sharding: Sharding,
}

/// A collective with everything that its text says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// The axes dropped, reduced, moved or appended, in the order written.
    pub axes: Vec<AxisRef>,
    /// Positions (in the value's dimensions) that receive `axes`, one each: `ReduceScatter`,
    /// `AllToAll` and `Slice`; else empty.
    pub into: Vec<usize>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A local operation of the program.
    Local(OpId),
    /// A collective between two materialisations. `op` is the operation of the program that wrote
    /// it, if one did.
    Collective(Collective, Option<OpId>),
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// What it reads.
    pub operands: Vec<Materialization>,
    /// What it gives.
    pub result: Materialization,
    /// The block that it stands in: it is done once a layer.
    pub repeat: Option<RepeatId>,
}

/// A plan: the program it carries out and the steps in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The program whose tables the steps refer to.
    pub program: Program,
    /// In order; what a step reads is declared or given by an earlier step.
    pub steps: Vec<Step>,
}
