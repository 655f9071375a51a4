//! The price of collectives and local operations: seconds on the hardware of the program.
//!
//! The formulas are those of *How To Scale Your Model*, Part 3: `V` is the value's bytes on a
//! device after a gather (before a scatter, for a reduction), `w` a link's one-way bandwidth,
//! `W = 2w` that of an axis whose ring is used in both directions, `t` the latency of a hop. A
//! collective takes the larger of its bandwidth and its latency term.
//!
//! Two choices where several readings are possible:
//! * A collective over axes of different networks is hierarchical, network by network (a gather:
//!   the outermost first, on what the inner axes still shard). The stages follow each other, so
//!   their *times* are added; adding the bandwidth terms and the latency terms separately and
//!   taking the larger sum would let the latency of one stage overlap with the bytes of another.
//! * An axis of one device does not participate: no byte moves along it and no hop is made.

use shardwise_ir::functions::{TimeModel, VolumeSide};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::{Axis, AxisKind, Mesh, PhysicalAxis};
use shardwise_ir::pipeline::TripCount;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::Sharding;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::solver::weight::Weight;

/// The precision of ring prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Refinement {
    /// As in the book: without a ring's `(n-1)/n`.
    #[default]
    Book,
    /// With `(n-1)/n` everywhere, and `1 - 1/n²` in an AllToAll of an odd number of devices.
    Exact,
}

impl Refinement {
    /// As options write it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How collectives are priced for a search.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// The precision.
    pub refinement: Refinement,
    /// The largest block that a step may leave on a device.
    pub most_bytes: f64,
    /// The weight of a second on each mesh axis, summed over the participating axes of a
    /// collective; `None`: weight one, whatever the axes.
    pub links: Option<Vec<f64>>,
}

impl CostModel {
    /// Prices are times, without a limit on blocks.
    pub fn time(refinement: Refinement) -> Self {
        Self { refinement, most_bytes: f64::INFINITY, links: None }
    }

    /// The weight of `seconds` of a collective over `axes`.
    pub(crate) fn weighted(&self, seconds: f64, axes: &[AxisId]) -> f64 {
        self.links.as_ref().map_or(seconds, |links| {
            axes.iter().map(|axis| links[axis.index()]).sum::<f64>() * seconds
        })
    }

    /// The weighted price of one collective of `seconds` over `axes`. An AllReduce costs exactly
    /// twice a gather: rounded like this, it ties with a scatter and a gather of the same bytes,
    /// and is preferred for its fewer steps.
    pub(crate) fn weight(&self, kind: &CollectiveKind, seconds: f64, axes: &[AxisId]) -> Weight {
        let seconds = self.weighted(seconds, axes);
        match kind.row().time {
            TimeModel::TwoRings => Weight::seconds(seconds / 2.0) + Weight::step(seconds / 2.0),
            TimeModel::OneRing | TimeModel::AllToAll | TimeModel::Permute | TimeModel::Free => {
                Weight::step(seconds)
            }
        }
    }

    /// The multiplicity of a step where a second of compute has weight `compute`: in the sum of all
    /// times including the pipeline's bubble, else as often as it runs.
    pub fn turns(&self, turns: TripCount, compute: f64) -> u64 {
        if self.links.is_none() && compute > 0.0 {
            turns.including_bubble
        } else {
            turns.per_device
        }
    }
}

/// Axes that share a network, from the inside of a slice outwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Network {
    Torus,
    Switch,
    Dcn,
}

/// The participating physical axes of one network.
struct NetworkAxes {
    network: Network,
    axes: Vec<PhysicalAxis>,
}

impl NetworkAxes {
    fn devices(&self) -> f64 {
        self.axes.iter().map(|axis| axis.size as f64).product()
    }

    fn slowest_link(&self) -> f64 {
        self.axes.iter().map(|axis| axis.bandwidth).fold(f64::INFINITY, f64::min)
    }

    /// `Σ B_a`.
    fn aggregate_bandwidth(&self) -> f64 {
        self.axes
            .iter()
            .map(
                |axis| {
                    if axis.kind == AxisKind::Ring { 2.0 * axis.bandwidth } else { axis.bandwidth }
                },
            )
            .sum()
    }

    fn latency(&self) -> f64 {
        let hops = |axis: &PhysicalAxis| match axis.kind {
            AxisKind::Ring => axis.hop_s * axis.size as f64 / 2.0,
            AxisKind::Line => axis.hop_s * (axis.size as f64 - 1.0),
            AxisKind::Switch | AxisKind::Dcn => axis.hop_s,
        };
        self.axes.iter().map(hops).sum()
    }

    /// `(N-1)/N`, or 1 where a ring participates and the book's rounding applies.
    fn share_moved(&self, refinement: Refinement) -> f64 {
        let ring = self.axes.iter().any(|axis| axis.kind == AxisKind::Ring);
        if ring && refinement == Refinement::Book {
            1.0
        } else {
            (self.devices() - 1.0) / self.devices()
        }
    }

    /// An AllGather to `bytes` a device over the axes of this stage alone.
    fn gather(&self, bytes: f64, refinement: Refinement) -> f64 {
        (bytes * self.share_moved(refinement) / self.aggregate_bandwidth()).max(self.latency())
    }

    /// `max m_a`: the distance that blocks travel, where a ring of `n` counts `n`.
    fn reach(&self) -> f64 {
        self.axes.iter().map(length).fold(0.0, f64::max)
    }

    /// The same for an AllToAll: of an odd number of devices no two are opposite, and blocks travel
    /// `1 - 1/n²` as far.
    fn average_reach(&self, refinement: Refinement) -> f64 {
        let odd = |size: u64| refinement == Refinement::Exact && size % 2 == 1;
        let share = |size: u64| if odd(size) { 1.0 - 1.0 / (size as f64).powi(2) } else { 1.0 };
        self.axes.iter().map(|axis| share(axis.size) * length(axis)).fold(0.0, f64::max)
    }

    fn all_to_all(&self, bytes: f64, refinement: Refinement) -> f64 {
        let bandwidth_term = match self.network {
            Network::Torus => bytes * self.average_reach(refinement) / (8.0 * self.slowest_link()),
            Network::Switch | Network::Dcn => {
                bytes * (self.devices() - 1.0) / self.devices() / self.slowest_link()
            }
        };
        bandwidth_term.max(self.latency())
    }

    fn permute(&self, bytes: f64) -> f64 {
        let bandwidth_term = match self.network {
            Network::Torus => 2.0 * bytes * self.reach() / (8.0 * self.slowest_link()),
            Network::Switch | Network::Dcn => bytes / self.slowest_link(),
        };
        bandwidth_term.max(self.latency())
    }
}

/// `m_a`: a line is twice as long as the ring of its size.
fn length(axis: &PhysicalAxis) -> f64 {
    if axis.kind == AxisKind::Ring { axis.size as f64 } else { 2.0 * axis.size as f64 }
}

/// Splits the participating axes into networks, innermost first. An axis larger than a node of GPUs
/// participates in two.
fn stages(mesh: &Mesh, axes: &[AxisId]) -> Vec<NetworkAxes> {
    let mut sorted: Vec<AxisId> = axes.to_vec();
    sorted.sort_unstable();
    let mut stages: Vec<NetworkAxes> = Vec::new();
    for axis in
        sorted.iter().flat_map(|&axis| &mesh.axes[axis].physical).filter(|axis| axis.size > 1)
    {
        let network = network(axis.kind);
        match stages.iter_mut().find(|stage| stage.network == network) {
            Some(stage) => stage.axes.push(*axis),
            None => stages.push(NetworkAxes { network, axes: vec![*axis] }),
        }
    }
    stages.sort_by_key(|stage| stage.network);
    stages
}

/// Seconds in which each device sends `bytes` to its neighbour along `axes`, all of them at once,
/// as a pipeline does (`V_local / w`). Where an axis does not wrap, what goes from its end to its
/// beginning takes every hop between, against the traffic of the others.
pub(crate) fn shift_seconds(mesh: &Mesh, axes: &[AxisId], bytes: f64) -> f64 {
    let back = |axis: &Axis| {
        if axis.kind() == AxisKind::Line { axis.hop_s() * (axis.size as f64 - 1.0) } else { 0.0 }
    };
    axes.iter()
        .map(|&axis| hop_seconds(mesh, axis, bytes).max(back(&mesh.axes[axis])))
        .fold(0.0, f64::max)
}

fn network(kind: AxisKind) -> Network {
    match kind {
        AxisKind::Ring | AxisKind::Line => Network::Torus,
        AxisKind::Switch => Network::Switch,
        AxisKind::Dcn => Network::Dcn,
    }
}

/// The time of a collective on one network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkTime {
    /// Devices along the axes of that network.
    pub devices: u64,
    /// The kind of link, that of the first of its axes.
    pub kind: AxisKind,
    /// Seconds on that network.
    pub seconds: f64,
}

/// The networks of a collective over `axes`, innermost first, with its time on each: a gather (or
/// scatter) sends over the outer networks the bytes that the inner axes still shard; an AllToAll or
/// Permute sends all its bytes through each network, the upper limit of what its blocks travel.
pub fn time_by_network(
    mesh: &Mesh,
    kind: &CollectiveKind,
    axes: &[AxisId],
    bytes: f64,
    refinement: Refinement,
) -> Vec<NetworkTime> {
    let stages = stages(mesh, axes);
    let seconds = stage_seconds(&stages, kind, bytes, refinement);
    let part = |(stage, seconds): (&NetworkAxes, f64)| NetworkTime {
        devices: stage.devices() as u64,
        kind: stage.axes[0].kind,
        seconds,
    };
    stages.iter().zip(seconds).map(part).collect()
}

fn stage_seconds(
    stages: &[NetworkAxes],
    kind: &CollectiveKind,
    bytes: f64,
    refinement: Refinement,
) -> impl Iterator<Item = f64> {
    let (time, mut left) = (kind.row().time, bytes);
    stages.iter().map(move |stage| {
        let here = left;
        left /= stage.devices();
        match time {
            TimeModel::OneRing => stage.gather(here, refinement),
            TimeModel::TwoRings => 2.0 * stage.gather(here, refinement),
            TimeModel::AllToAll => stage.all_to_all(bytes, refinement),
            TimeModel::Permute => stage.permute(bytes),
            TimeModel::Free => 0.0,
        }
    })
}

/// Seconds of a collective of `kind` over `axes`.
///
/// `bytes` are a device's: after the gather for `AllGather`, before the scatter for
/// `ReduceScatter`, of the value for `AllReduce`, the device's block for `AllToAll` and `Permute`.
/// For `Permute`, `axes` are those of every dimension whose subscripts change.
pub fn collective_seconds(
    mesh: &Mesh,
    kind: &CollectiveKind,
    axes: &[AxisId],
    bytes: f64,
    refinement: Refinement,
) -> f64 {
    stage_seconds(&stages(mesh, axes), kind, bytes, refinement).sum()
}

/// Seconds in which every device sends `bytes` to its neighbour along an axis, all at once: if the
/// axis spans nodes, some neighbour is in another node.
pub(crate) fn hop_seconds(mesh: &Mesh, axis: AxisId, bytes: f64) -> f64 {
    let axis = &mesh.axes[axis];
    if axis.size == 1 { 0.0 } else { (bytes / axis.bandwidth()).max(axis.hop_s()) }
}

/// The sharding whose local bytes price a step: the larger side for gathers, else what the device
/// starts from.
pub(crate) fn volume_side<'a>(
    kind: &CollectiveKind,
    from: &'a Sharding,
    to: &'a Sharding,
) -> &'a Sharding {
    match kind.row().volume {
        VolumeSide::Operand => from,
        VolumeSide::Result => to,
    }
}

/// The participating axes of a step: those removed, reduced or moved; for a Permute, all axes of
/// the dimensions whose subscripts change.
pub(crate) fn participating_axes(
    kind: &CollectiveKind,
    from: &Sharding,
    to: &Sharding,
) -> Vec<AxisId> {
    let row = kind.row();
    let dims = || from.dims.iter().zip(&to.dims);
    let mut axes: Vec<AxisId> = if row.reduces {
        let reduced =
            from.unreduced.axes().iter().filter(|&axis| !to.unreduced.axes().contains(axis));
        reduced.map(|axis| axis.axis()).collect()
    } else if row.gathers {
        dims()
            .flat_map(|(before, after)| before.iter().filter(|&axis| !after.contains(axis)))
            .map(|axis| axis.axis())
            .collect()
    } else if row.relabels() {
        dims()
            .filter(|(before, after)| before != after)
            .flat_map(|(before, after)| before.iter().chain(after))
            .map(|axis| axis.axis())
            .collect()
    } else {
        Vec::new()
    };
    axes.sort_unstable();
    axes.dedup();
    axes
}
