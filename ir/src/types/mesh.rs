//! The mesh: named axes, their sizes, and the links they run over.

use index_vec::IndexVec;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

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
        [Self::Ring, Self::Line, Self::Switch, Self::Dcn]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// The name of a kind in a program: two kinds have another one on GPUs, and print back as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum KindName {
    /// [`AxisKind::Ring`].
    Ring,
    /// [`AxisKind::Line`].
    Line,
    /// [`AxisKind::Switch`].
    Switch,
    /// [`AxisKind::Switch`] of GPUs.
    Nvlink,
    /// [`AxisKind::Dcn`].
    Dcn,
    /// [`AxisKind::Dcn`] between nodes of GPUs.
    Ib,
}

impl KindName {
    /// As the language spells it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The kind that it names.
    pub fn kind(self) -> AxisKind {
        match self {
            Self::Ring => AxisKind::Ring,
            Self::Line => AxisKind::Line,
            Self::Switch | Self::Nvlink => AxisKind::Switch,
            Self::Dcn | Self::Ib => AxisKind::Dcn,
        }
    }
}

/// One physical axis that a mesh axis runs over: itself, unless it is folded by `over`, or larger
/// than a node of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhysicalAxis {
    /// Devices along it.
    pub size: u64,
    /// How they are joined.
    pub kind: AxisKind,
    /// One-way bandwidth of a link (a device's egress, for switches and dcn), bytes per second.
    pub bandwidth: f64,
    /// Time of a hop, seconds.
    pub hop_s: f64,
}

/// A mesh axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Devices along it: the product of its physical axes.
    pub size: u64,
    /// The kind written in the program (`X=4 line`), if any; printed back.
    pub written_kind: Option<KindName>,
    /// The factors written after `over`, if any; printed back.
    pub over: Option<Vec<u64>>,
    /// Its physical axes, major to minor, never empty.
    pub physical: Vec<PhysicalAxis>,
}

impl Axis {
    /// The kind: dcn if any of its physical axes is, since that is the slowest; else a
    /// ring if any of them is.
    pub fn kind(&self) -> AxisKind {
        let kinds = || self.physical.iter().map(|p| p.kind);
        if kinds().any(|kind| kind == AxisKind::Dcn) {
            AxisKind::Dcn
        } else {
            kinds().min().unwrap_or(AxisKind::Line)
        }
    }

    /// Whether something that runs along it runs over links of `kind`.
    pub fn runs_over(&self, kind: AxisKind) -> bool {
        self.physical.iter().any(|p| p.size > 1 && p.kind == kind)
    }

    /// Devices along it inside a node and the nodes, where it does not fit into a node.
    pub fn across_nodes(&self) -> Option<(u64, u64)> {
        let along =
            |kind| self.physical.iter().filter(|p| p.kind == kind).map(|p| p.size).product();
        let (inside, nodes) = (along(AxisKind::Switch), along(AxisKind::Dcn));
        (inside > 1 && nodes > 1).then_some((inside, nodes))
    }

    /// One-way bandwidth of its slowest links, bytes per second.
    pub fn bandwidth(&self) -> f64 {
        self.physical.iter().map(|p| p.bandwidth).fold(f64::INFINITY, f64::min)
    }

    /// Time of its slowest hop, seconds.
    pub fn hop_s(&self) -> f64 {
        self.physical.iter().map(|p| p.hop_s).fold(0.0, f64::max)
    }
}

/// The axes in declaration order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Mesh {
    /// The axes.
    pub axes: IndexVec<AxisId, Axis>,
}

impl Mesh {
    /// The largest number of axes; sets of axes fit in one word.
    pub const MAX_AXES: usize = 16;

    /// Ids in order.
    pub fn ids(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..self.axes.len()).map(AxisId::new)
    }

    /// The axes of more than one device, in order: the others split nothing, so that no sharding
    /// of a program names them.
    pub fn splitting(&self) -> impl Iterator<Item = AxisId> + '_ {
        self.ids().filter(|&axis| self.axes[axis].size > 1)
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
