//! The mesh: named axes, their sizes, and the links they run over.

use index_vec::IndexVec;
use serde::Serialize;

use crate::ids::AxisId;

/// How the devices along an axis are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisKind {
    /// Neighbour links with wraparound: both directions usable.
    Ring,
    /// Neighbour links without wraparound.
    Line,
    /// Every device reaches every other.
    Switch,
    /// Between slices, over the data-center network.
    Dcn,
}

impl AxisKind {
    /// As the language spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Line => "line",
            Self::Switch => "switch",
            Self::Dcn => "dcn",
        }
    }

    /// The kind spelled `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Ring, Self::Line, Self::Switch, Self::Dcn].into_iter().find(|kind| kind.name() == name)
    }
}

/// One physical axis that a mesh axis runs over (itself, unless folded by `over`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhysicalAxis {
    /// Devices along it.
    pub size: u64,
    /// How they are joined.
    pub kind: AxisKind,
}

/// A mesh axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Devices along it: the product of its physical axes.
    pub size: u64,
    /// The kind written in the program (`X=4 line`), if any; printed back.
    pub written_kind: Option<AxisKind>,
    /// The factors written behind `over`, if any; printed back.
    pub over: Option<Vec<u64>>,
    /// What it runs over, never empty.
    pub physical: Vec<PhysicalAxis>,
    /// One-way bandwidth of a link (a device's egress, for switches and dcn), bytes per second.
    pub bandwidth: f64,
    /// Time of a hop, seconds.
    pub hop_s: f64,
}

impl Axis {
    /// The kind: that of its physical axes; a ring if any of them is.
    pub fn kind(&self) -> AxisKind {
        self.physical.iter().map(|p| p.kind).min().unwrap_or(AxisKind::Line)
    }
}

/// The axes in declaration order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Mesh {
    /// The axes.
    pub axes: IndexVec<AxisId, Axis>,
}

impl Mesh {
    /// More axes than any machine has; keeps sets of axes in one word.
    pub const MAX_AXES: usize = 16;

    /// Ids in order.
    pub fn ids(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..self.axes.len()).map(AxisId::new)
    }

    /// The axis called `name`.
    pub fn find(&self, name: &str) -> Option<AxisId> {
        self.axes.position(|axis| axis.name == name)
    }

    /// Devices of the whole mesh (saturating).
    pub fn devices(&self) -> u64 {
        self.axes.iter().fold(1, |n, axis| n.saturating_mul(axis.size))
    }
}
