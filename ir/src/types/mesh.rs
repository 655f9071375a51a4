//! The mesh: named axes, their sizes, and the links they run over.

use index_vec::IndexVec;
use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::axis_parts::AxisInParts;
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
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray, Serialize,
)]
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

    /// The kind as its author calls it, where it is of that kind.
    pub fn kind_name(&self) -> &'static str {
        let written = self.written_kind.filter(|name| name.kind() == self.kind());
        written.map_or_else(|| self.kind().name(), KindName::name)
    }

    /// Whether something that runs along it runs over links of `kind`.
    pub fn runs_over(&self, kind: AxisKind) -> bool {
        self.physical.iter().any(|p| p.size > 1 && p.kind == kind)
    }

    /// The network into which each device has one port, for all axes that run over it; of an axis
    /// that runs over two of them the slower one.
    fn port(&self) -> Option<AxisKind> {
        [AxisKind::Dcn, AxisKind::Switch].into_iter().find(|&kind| self.runs_over(kind))
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
    /// The axes; those used in parts with their parts instead.
    pub axes: IndexVec<AxisId, Axis>,
    /// The axes used in parts, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_parts: Vec<AxisInParts>,
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

    /// The axis used in parts of which `axis` is one.
    pub fn whole_of(&self, axis: AxisId) -> Option<&AxisInParts> {
        self.in_parts.iter().find(|parts| parts.has(axis))
    }

    /// The axis called `name`, or the parts of the one called so, major to minor.
    pub fn named(&self, name: &str) -> Option<Vec<AxisId>> {
        let parts = || self.in_parts.iter().find(|of| of.whole.name == name);
        let one = self.find(name).map(|axis| vec![axis]);
        one.or_else(|| parts().map(|of| of.parts().collect()))
    }

    /// The names of `axes` in this order; all parts of an axis, major to minor, by its name.
    pub fn names(&self, axes: &[AxisId]) -> Vec<&str> {
        let mut names = Vec::new();
        let mut rest = axes;
        while let [axis, others @ ..] = rest {
            let whole = self.whole_of(*axis).and_then(|of| {
                let parts: Vec<AxisId> = of.parts().collect();
                rest.strip_prefix(&parts[..]).map(|others| (of.whole.name.as_str(), others))
            });
            let (name, others) = whole.unwrap_or((self.axes[*axis].name.as_str(), others));
            names.push(name);
            rest = others;
        }
        names
    }

    /// The name of the axis whose links are counted at `axis` ([`Mesh::links`]).
    pub fn link_name(&self, axis: AxisId) -> &str {
        self.whole_of(axis).map_or(&self.axes[axis].name, |of| &of.whole.name)
    }

    /// The names of the axes that are declared, and of parts.
    pub fn all_names(&self) -> Vec<&str> {
        let wholes = self.in_parts.iter().map(|of| &of.whole);
        wholes.chain(&self.axes).map(|axis| axis.name.as_str()).collect()
    }

    /// The axes as they are declared, with the sizes of their parts.
    pub fn declared(&self) -> impl Iterator<Item = (&Axis, Vec<u64>)> {
        self.ids().filter_map(|axis| match self.whole_of(axis) {
            None => Some((&self.axes[axis], Vec::new())),
            Some(of) if of.first == axis => {
                Some((&of.whole, of.parts().map(|part| self.axes[part].size).collect()))
            }
            Some(_) => None,
        })
    }

    /// The physical axes of a collective over `axes`: neighbouring parts of an axis are one.
    pub fn physical(&self, axes: &[AxisId]) -> Vec<PhysicalAxis> {
        // Searches price millions of collectives, most of them on meshes without parts.
        if self.in_parts.is_empty() {
            return axes.iter().flat_map(|&axis| &self.axes[axis].physical).copied().collect();
        }
        let of = |&axis: &AxisId| match self.whole_of(axis) {
            None => self.axes[axis].physical.clone(),
            Some(of) if axes.iter().find(|&&other| of.has(other)) == Some(&axis) => {
                of.physical(axes)
            }
            Some(_) => Vec::new(),
        };
        axes.iter().flat_map(of).collect()
    }

    /// The axes whose links are busy while a collective runs over `axes`, each once. The parts of
    /// an axis have the same, and are counted at the first of them. All axes of one switch share
    /// its port, and all between nodes the network; an axis that leaves the node is counted as one
    /// of those.
    ///
    /// (Alternatives: such an axis keeps the switch busy as well, which it does for a part of its
    /// time alone, so that the busiest links would be no bound; or for that part, which takes a
    /// time for each link in every price.)
    pub fn links(&self, axes: &[AxisId]) -> Vec<AxisId> {
        let mut links: Vec<AxisId> = axes.iter().flat_map(|&axis| self.links_of(axis)).collect();
        links.sort_unstable();
        links.dedup();
        links
    }

    fn links_of(&self, axis: AxisId) -> Vec<AxisId> {
        let port = self.axes[axis].port();
        let shares =
            |other: &AxisId| *other == axis || port.is_some() && self.axes[*other].port() == port;
        let counted_at = |axis| self.whole_of(axis).map_or(axis, |of| of.first);
        self.ids().filter(shares).map(counted_at).collect()
    }

    /// The axis called `name`, which is none in parts.
    pub fn find(&self, name: &str) -> Option<AxisId> {
        self.axes.position(|axis| axis.name == name)
    }

    /// Devices of the whole mesh (saturating).
    pub fn devices(&self) -> u64 {
        self.axes.iter().fold(1, |n, axis| n.saturating_mul(axis.size))
    }
}
