//! Collectives: one row each, with what the planner, the resolver and the exporters know of it.
//! Adding one is one entry of `collectives!`, and a price if no other collective has the same.
//!
//! Three columns define the effect of a collective on a sharding: it drops axes from the ends of
//! dimensions (`gathers`), reduces pending sums or leaves one pending (`pending`), and appends axes
//! to dimensions (`splits`): those that it dropped or reduced, and axes that nothing used; one that
//! does none of these relabels axes. The
//! alternative, a function from sharding to sharding in each row, would be shared by the planner,
//! the verifier and the simulator; these have three independent definitions on purpose, and tests
//! compare them. So `verify` and the simulator match on the kinds themselves, exhaustively.

/// The row of a collective.
#[derive(Debug)]
pub struct CollectiveRow {
    /// As programs write it.
    pub name: &'static str,
    /// Whether it drops axes from the ends of dimensions.
    pub gathers: bool,
    /// What it does to pending sums.
    pub pending: PendingSums,
    /// Whether it appends axes to dimensions, which its subscript may name.
    pub splits: bool,
    /// The side whose local bytes its price counts; the operand after what is sliced of it.
    pub volume: VolumeSide,
    /// The formula of its time.
    pub time: TimeModel,
}

/// What a collective does to pending sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingSums {
    /// They stay as they are.
    Stay,
    /// Some are reduced.
    Reduced,
    /// One is pending afterwards that was not.
    Added,
}

/// The side of a collective whose local bytes are those of its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeSide {
    /// The operand.
    Operand,
    /// The result.
    Result,
}

/// The formula of a collective's time (*How To Scale Your Model*, Part 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeModel {
    /// Every block passes a ring once.
    OneRing,
    /// Twice: once to be reduced, once to be gathered.
    TwoRings,
    /// Every device sends a block of its own to every other.
    AllToAll,
    /// Every device sends its block to one other.
    Permute,
    /// No communication.
    Free,
}

/// Writes the enum and the rows from one list.
macro_rules! collectives {
    ($( #[doc = $summary:literal] $kind:ident { $($column:ident: $value:expr),* $(,)? } )*) => {
        /// The collectives. Axes that a program leaves to be inferred are resolved already.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CollectiveKind { $(#[doc = $summary] $kind),* }

        impl CollectiveKind {
            /// All of them, in the order of the language's table.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Its row.
            pub fn row(&self) -> &'static CollectiveRow {
                match self {
                    $(Self::$kind => const { &CollectiveRow { $($column: $value),* } }),*
                }
            }
        }
    };
}

collectives! {
    /// Drops trailing axes of one or several dimensions.
    AllGather {
        name: "AllGather", gathers: true, pending: PendingSums::Stay, splits: false,
        volume: VolumeSide::Result, time: TimeModel::OneRing,
    }
    /// Reduces unreduced axes.
    AllReduce {
        name: "AllReduce", gathers: false, pending: PendingSums::Reduced, splits: false,
        volume: VolumeSide::Operand, time: TimeModel::TwoRings,
    }
    /// Reduces unreduced axes and appends each to a dimension, unused ones among them.
    ReduceScatter {
        name: "ReduceScatter",
        gathers: false, pending: PendingSums::Reduced, splits: true,
        volume: VolumeSide::Operand, time: TimeModel::OneRing,
    }
    /// Moves trailing axes of dimensions to the ends of others, unused ones among them.
    AllToAll {
        name: "AllToAll", gathers: true, pending: PendingSums::Stay, splits: true,
        volume: VolumeSide::Operand, time: TimeModel::AllToAll,
    }
    /// Relabels axes at equal local sizes.
    Permute {
        name: "Permute", gathers: false, pending: PendingSums::Stay, splits: false,
        volume: VolumeSide::Operand, time: TimeModel::Permute,
    }
    /// Appends one axis to a dimension of a value replicated along it: local and free.
    Slice {
        name: "Slice", gathers: false, pending: PendingSums::Stay, splits: true,
        volume: VolumeSide::Operand, time: TimeModel::Free,
    }
    /// Leaves a sum pending: the first device keeps the value, the others have zeros. Free.
    Unreduce {
        name: "Unreduce",
        gathers: false, pending: PendingSums::Added, splits: false,
        volume: VolumeSide::Operand, time: TimeModel::Free,
    }
}

impl CollectiveRow {
    /// Whether it only relabels axes.
    pub fn relabels(&self) -> bool {
        !(self.gathers || self.splits) && self.pending == PendingSums::Stay
    }

    /// Whether it reduces pending sums.
    pub fn reduces(&self) -> bool {
        self.pending == PendingSums::Reduced
    }

    /// Whether it leaves a sum pending that was not.
    pub fn unreduces(&self) -> bool {
        self.pending == PendingSums::Added
    }
}

impl CollectiveKind {
    /// As programs write it.
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    /// Whether it communicates nothing: each device has what it needs.
    pub fn is_free(&self) -> bool {
        self.row().time == TimeModel::Free
    }

    /// The one called `name` in programs.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|kind| kind.name() == name).cloned()
    }
}
