//! The price of collectives and local operations: seconds on the hardware of the program.
//!
//! The formulas are those of *How To Scale Your Model*, Part 3: `V` is the value's bytes on a
//! device after a gather (before a scatter, for a reduction), `w` a link's one-way bandwidth,
//! `W = 2w` that of an axis whose ring is used in both directions, `t` the latency of a hop. A
//! collective takes the larger of its bandwidth and its latency term; at measured rates, which have
//! a share of the bandwidth and a latency of their own, their sum.
//!
//! Two choices where several readings are possible:
//! * A collective over axes of different networks is hierarchical, network by network (a gather:
//!   the outermost first, on what the inner axes still shard). The stages follow each other, so
//!   their *times* are added; adding the bandwidth terms and the latency terms separately and
//!   taking the larger sum would let the latency of one stage overlap with the bytes of another.
//! * An axis of one device does not participate: no byte moves along it and no hop is made.

use std::borrow::Cow;

use shardwise_ir::functions::{TimeModel, VolumeSide};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::{Axis, AxisKind, PhysicalAxis};
use shardwise_ir::pipeline::TripCount;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::rates::{LinkRates, Rates};
use shardwise_ir::sharding::{AxisRef, Sharding};
use shardwise_ir::total;
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
    /// The weight of a second on the links of each mesh axis, summed over those that a collective
    /// uses; `None`: weight one, whatever the axes.
    pub links: Option<Vec<f64>>,
}

impl CostModel {
    /// Prices are times.
    pub fn time(refinement: Refinement) -> Self {
        Self { refinement, links: None }
    }

    /// The weight of `seconds` of a collective on the `links` of these axes.
    pub(crate) fn weighted(&self, seconds: f64, links: &[AxisId]) -> f64 {
        self.links.as_ref().map_or(seconds, |weights| {
            links.iter().map(|axis| weights[axis.index()]).sum::<f64>() * seconds
        })
    }

    /// The weighted price of one collective of `seconds` over `axes`. An AllReduce costs exactly
    /// twice a gather: rounded like this, it ties with a scatter and a gather of the same bytes,
    /// and is preferred for its fewer steps.
    pub(crate) fn weight(&self, kind: &CollectiveKind, seconds: f64, links: &[AxisId]) -> Weight {
        let seconds = self.weighted(seconds, links);
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

    /// The same of a step that computes: where resources are weighted, it counts as often as
    /// compute waits for it.
    pub fn turns_of_compute(&self, turns: TripCount, compute: f64) -> u64 {
        if self.links.is_some() { turns.waited } else { self.turns(turns, compute) }
    }
}

/// Axes that share a network, from the inside of a slice outwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Network {
    Torus,
    Switch,
    Dcn,
}

impl Network {
    /// Whether every device has one port into it, which all of its axes share.
    fn has_one_port(self) -> bool {
        matches!(self, Self::Switch | Self::Dcn)
    }
}

/// How long a stage of a collective takes.
#[derive(Clone, Copy, Default)]
struct StageTime {
    transfer_s: f64,
    latency_s: f64,
}

impl StageTime {
    /// Seconds without the other stages: at peak rates latency counts where it is longer than the
    /// transfer, at measured ones it is added.
    fn alone(self, stage: &NetworkAxes) -> f64 {
        match stage.measured {
            Some(_) => self.transfer_s + self.latency_s,
            None => self.transfer_s.max(self.latency_s),
        }
    }
}

/// The participating physical axes of one network.
struct NetworkAxes {
    network: Network,
    axes: Vec<PhysicalAxis>,
    refinement: Refinement,
    /// What its links reach, where measured rates are asked for.
    measured: Option<LinkRates>,
    /// What an AllReduce reaches there, if it is another one.
    measured_reduce: Option<LinkRates>,
}

impl NetworkAxes {
    fn devices(&self) -> f64 {
        self.axes.iter().map(|axis| axis.size as f64).product()
    }

    fn slowest_link(&self) -> f64 {
        self.axes.iter().map(|axis| axis.bandwidth).fold(f64::INFINITY, f64::min)
    }

    /// `Σ B_a`; a port counts once, whatever the number of axes that share it.
    fn aggregate_bandwidth(&self) -> f64 {
        if self.network.has_one_port() {
            return self.slowest_link();
        }
        let both_ways = |axis: &PhysicalAxis| if axis.kind == AxisKind::Ring { 2.0 } else { 1.0 };
        self.axes.iter().map(|axis| both_ways(axis) * axis.bandwidth).sum()
    }

    fn latency(&self) -> f64 {
        if self.network.has_one_port() {
            return self.axes.iter().map(|axis| axis.hop_s).fold(0.0, f64::max);
        }
        let hops = |axis: &PhysicalAxis| match axis.kind {
            AxisKind::Ring => axis.hop_s * axis.size as f64 / 2.0,
            AxisKind::Line => axis.hop_s * (axis.size as f64 - 1.0),
            AxisKind::Switch | AxisKind::Dcn => axis.hop_s,
        };
        self.axes.iter().map(hops).sum()
    }

    /// The time of a collective that transfers `ways` times for `transfer_s` at full bandwidth. At
    /// measured rates its ring passes through all `outside` such stages that outer ones join.
    fn time(&self, transfer_s: f64, outside: f64, ways: f64) -> StageTime {
        self.time_at(self.measured, transfer_s, outside, ways)
    }

    /// The same at other measured rates.
    fn time_at(
        &self,
        measured: Option<LinkRates>,
        transfer_s: f64,
        outside: f64,
        ways: f64,
    ) -> StageTime {
        measured.map_or_else(
            || StageTime { transfer_s: ways * transfer_s, latency_s: ways * self.latency() },
            |measured| StageTime {
                transfer_s: measured.transfer_s(ways * transfer_s),
                latency_s: measured.latency_s(ways * self.devices() * outside),
            },
        )
    }

    /// `(N-1)/N`, or 1 where a ring participates and the book's rounding applies.
    fn share_moved(&self) -> f64 {
        let ring = self.axes.iter().any(|axis| axis.kind == AxisKind::Ring);
        if ring && self.refinement == Refinement::Book {
            1.0
        } else {
            (self.devices() - 1.0) / self.devices()
        }
    }

    /// The time of an AllReduce: a scatter and a gather, unless the switch itself adds up faster.
    fn reduce_time(&self, bytes: f64, inside: f64, outside: f64) -> StageTime {
        let measured = self.measured_reduce.or(self.measured);
        let gather_s = self.gather_s(bytes, inside);
        let ring = self.time_at(measured, gather_s, outside, 2.0);
        let in_switch = measured.filter(|_| self.network == Network::Switch);
        let in_switch = in_switch.and_then(|measured| {
            // Messages fill the links as slowly as those of a ring.
            let unsaturated_s = ring.transfer_s - 2.0 * gather_s / measured.share;
            let summed_s = bytes / (measured.in_switch? * self.aggregate_bandwidth());
            Some(StageTime { transfer_s: summed_s + unsaturated_s, ..ring })
        });
        in_switch.filter(|time| time.transfer_s < ring.transfer_s).unwrap_or(ring)
    }

    /// How long an AllGather to `bytes` a device transfers over the axes of this stage; measured, a
    /// ring through all `inside` devices that stages inside join to one.
    fn gather_s(&self, bytes: f64, inside: f64) -> f64 {
        let share = match self.measured {
            Some(_) if inside > 1.0 => 1.0 - 1.0 / (inside * self.devices()),
            _ => self.share_moved(),
        };
        bytes * share / self.aggregate_bandwidth()
    }

    /// `max m_a`: the distance that blocks travel, where a ring of `n` counts `n`.
    fn reach(&self) -> f64 {
        self.axes.iter().map(length).fold(0.0, f64::max)
    }

    /// The same for an AllToAll: of an odd number of devices no two are opposite, and blocks travel
    /// `1 - 1/n²` as far.
    fn average_reach(&self) -> f64 {
        let odd = |size: u64| self.refinement == Refinement::Exact && size % 2 == 1;
        let share = |size: u64| if odd(size) { 1.0 - 1.0 / (size as f64).powi(2) } else { 1.0 };
        self.axes.iter().map(|axis| share(axis.size) * length(axis)).fold(0.0, f64::max)
    }

    fn all_to_all_s(&self, bytes: f64) -> f64 {
        match self.network {
            Network::Torus => bytes * self.average_reach() / (8.0 * self.slowest_link()),
            Network::Switch | Network::Dcn => {
                bytes * (self.devices() - 1.0) / self.devices() / self.slowest_link()
            }
        }
    }

    fn permute_s(&self, bytes: f64) -> f64 {
        match self.network {
            Network::Torus => 2.0 * bytes * self.reach() / (8.0 * self.slowest_link()),
            Network::Switch | Network::Dcn => bytes / self.slowest_link(),
        }
    }
}

/// `m_a`: a line is twice as long as the ring of its size.
fn length(axis: &PhysicalAxis) -> f64 {
    if axis.kind == AxisKind::Ring { axis.size as f64 } else { 2.0 * axis.size as f64 }
}

/// Splits the participating axes into networks, innermost first. An axis larger than a node of GPUs
/// participates in two.
fn stages(program: &Program, axes: &[AxisId], refinement: Refinement) -> Vec<NetworkAxes> {
    let mut sorted: Vec<AxisId> = axes.to_vec();
    sorted.sort_unstable();
    let mut stages: Vec<NetworkAxes> = Vec::new();
    for axis in program.mesh.physical(&sorted).into_iter().filter(|axis| axis.size > 1) {
        let network = network(axis.kind);
        match stages.iter_mut().find(|stage| stage.network == network) {
            Some(stage) => stage.axes.push(axis),
            None => stages.push(NetworkAxes {
                network,
                axes: vec![axis],
                refinement,
                measured: program.hardware.measured_links(axis.kind),
                measured_reduce: program.hardware.measured_reduces(axis.kind),
            }),
        }
    }
    stages.sort_by_key(|stage| stage.network);
    stages
}

/// Seconds in which each device sends `bytes` to its neighbour along `axes`, all of them at once,
/// as a pipeline does (`V_local / w`). Where an axis does not wrap, what goes from its end to its
/// beginning takes every hop between, against the traffic of the others.
pub(crate) fn shift_seconds(program: &Program, axes: &[AxisId], bytes: f64) -> f64 {
    let back = |axis: &Axis| {
        if axis.kind() == AxisKind::Line { axis.hop_s() * (axis.size as f64 - 1.0) } else { 0.0 }
    };
    axes.iter()
        .map(|&axis| hop_seconds(program, axis, bytes).max(back(&program.mesh.axes[axis])))
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
    program: &Program,
    kind: &CollectiveKind,
    axes: &[AxisId],
    bytes: f64,
    refinement: Refinement,
) -> Vec<NetworkTime> {
    let stages = stages(program, axes, refinement);
    let part = |(stage, time): (&NetworkAxes, StageTime)| NetworkTime {
        devices: stage.devices() as u64,
        kind: stage.axes[0].kind,
        seconds: time.alone(stage),
    };
    stages.iter().zip(stage_times(&stages, kind, bytes)).map(part).collect()
}

/// What each stage of a collective takes. An AllReduce is a scatter and a gather; measured, they
/// are one message of twice the length.
fn stage_times(stages: &[NetworkAxes], kind: &CollectiveKind, bytes: f64) -> Vec<StageTime> {
    let all: f64 = stages.iter().map(NetworkAxes::devices).product();
    let mut inside = 1.0;
    let mut times = Vec::with_capacity(stages.len());
    for stage in stages {
        let (left, outside) = (bytes / inside, all / (inside * stage.devices()));
        times.push(match kind.row().time {
            TimeModel::OneRing => stage.time(stage.gather_s(left, inside), outside, 1.0),
            TimeModel::TwoRings => stage.reduce_time(left, inside, outside),
            TimeModel::AllToAll => stage.time(stage.all_to_all_s(bytes), outside, 1.0),
            TimeModel::Permute => stage.time(stage.permute_s(bytes), outside, 1.0),
            TimeModel::Free => StageTime::default(),
        });
        inside *= stage.devices();
    }
    times
}

/// Seconds of a collective of `kind` over `axes`: its stages follow each other; at measured rates
/// they run chunk by chunk beside each other, so that the longest transfer counts, and every
/// latency.
///
/// `bytes` are a device's: after the gather for `AllGather`, before the scatter for
/// `ReduceScatter`, of the value for `AllReduce`, the device's block for `AllToAll` and `Permute`;
/// of a `ReduceScatter` or `AllToAll` that slices, without what is cut off first.
/// For `Permute`, `axes` are those of every dimension whose subscripts change.
pub fn collective_seconds(
    program: &Program,
    kind: &CollectiveKind,
    axes: &[AxisId],
    bytes: f64,
    refinement: Refinement,
) -> f64 {
    let stages = stages(program, axes, refinement);
    let times = stage_times(&stages, kind, bytes);
    if program.hardware.rates == Rates::Measured {
        let longest = times.iter().map(|time| time.transfer_s).fold(0.0, f64::max);
        return longest + total(times.iter().map(|time| time.latency_s));
    }
    total(stages.iter().zip(times).map(|(stage, time)| time.alone(stage)))
}

/// How much of [`collective_seconds`] does not depend on the bytes: at peak rates, the stages whose
/// hops take longer than their bytes.
pub(crate) fn latency_seconds(
    program: &Program,
    kind: &CollectiveKind,
    axes: &[AxisId],
    bytes: f64,
    refinement: Refinement,
) -> f64 {
    let times = stage_times(&stages(program, axes, refinement), kind, bytes);
    let is_measured = program.hardware.rates == Rates::Measured;
    let waits = times.iter().filter(|time| is_measured || time.latency_s > time.transfer_s);
    total(waits.map(|time| time.latency_s))
}

/// Seconds in which every device sends `bytes` to its neighbour along an axis, all at once: if the
/// axis spans nodes, some neighbour is in another node.
pub(crate) fn hop_seconds(program: &Program, axis: AxisId, bytes: f64) -> f64 {
    let axis = &program.mesh.axes[axis];
    if axis.size == 1 {
        return 0.0;
    }
    let bandwidth_term = bytes / axis.bandwidth();
    program.hardware.measured_links(axis.kind()).map_or_else(
        || bandwidth_term.max(axis.hop_s()),
        |links| links.transfer_s(bandwidth_term) + links.latency_s(2.0),
    )
}

/// The sharding whose local bytes price a step: the larger side for gathers, else what the device
/// starts from, of which it first cuts off what a scatter or an AllToAll slices.
pub(crate) fn volume_side<'a>(
    kind: &CollectiveKind,
    from: &'a Sharding,
    to: &'a Sharding,
) -> Cow<'a, Sharding> {
    if kind.row().volume == VolumeSide::Result {
        return Cow::Borrowed(to);
    }
    let mut after_slices = Cow::Borrowed(from);
    if !kind.is_free() {
        for (position, axis) in sliced(kind, from, to) {
            after_slices.to_mut().dims[position].push(axis);
        }
    }
    after_slices
}

/// The axes that a collective appends without moving or reducing them, with the position of the
/// dimension that gets each.
pub(crate) fn sliced<'s>(
    kind: &CollectiveKind,
    from: &'s Sharding,
    to: &'s Sharding,
) -> impl Iterator<Item = (usize, AxisRef)> + 's {
    let splits = kind.row().splits;
    let dims = from.dims.iter().zip(&to.dims).enumerate().filter(move |_| splits);
    let longer = dims.filter(|(_, (before, after))| after.len() > before.len());
    longer.flat_map(|(position, (before, after))| {
        let new = after[before.len()..].iter().copied();
        new.filter(|&axis| !from.uses(axis)).map(move |axis| (position, axis))
    })
}

/// The participating axes of a step: those removed, reduced or moved, not those sliced; for a
/// Permute, all axes of the dimensions whose subscripts change.
pub(crate) fn participating_axes(
    kind: &CollectiveKind,
    from: &Sharding,
    to: &Sharding,
) -> Vec<AxisId> {
    let row = kind.row();
    let dims = || from.dims.iter().zip(&to.dims);
    let mut axes: Vec<AxisId> = if row.reduces() {
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
