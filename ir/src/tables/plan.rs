//! The explicit form: every step is one local operation or one collective, and every operand has
//! its sharding.

use crate::ids::{OpId, RepeatId, ValueId};
use crate::program::{CollectiveKind, Program};
use crate::sharding::{AxisRef, Sharding};

/// A value in one of its shardings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Materialization {
    /// The value.
    pub value: ValueId,
    /// Its sharding.
    pub sharding: Sharding,
}

/// A collective with all the information of its text.
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

/// The kind of a step.
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
    /// Its kind.
    pub kind: StepKind,
    /// Its operands.
    pub operands: Vec<Materialization>,
    /// Its result.
    pub result: Materialization,
    /// Its block: it runs once per layer.
    pub repeat: Option<RepeatId>,
}

/// A plan: the program it implements and the steps in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The program whose tables the steps refer to.
    pub program: Program,
    /// In order; an operand is declared or produced by an earlier step.
    pub steps: Vec<Step>,
}
