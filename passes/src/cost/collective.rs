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

mod stages;

use std::borrow::Cow;

use shardwise_ir::functions::{TimeModel, VolumeSide};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::{Axis, AxisKind};
use shardwise_ir::pipeline::TripCount;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::rates::Rates;
use shardwise_ir::sharding::{AxisRef, Sharding};
use shardwise_ir::total;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use self::stages::{NetworkAxes, StageTime, side_by_side_s, stage_times, stages};
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
    /// Where links are weighted, whether steps count as long as a schedule waits for them rather
    /// than as long as they are busy: in pipelines while these fill and drain, too, and fully where
    /// nothing runs beside them.
    pub waits: bool,
}

impl CostModel {
    /// Prices are times.
    pub fn time(refinement: Refinement) -> Self {
        Self { refinement, links: None, waits: false }
    }

    /// The prices of a step, and the weight of a second of its compute: whole seconds if nothing
    /// runs beside it, as far as that counts.
    pub(crate) fn of_step(&self, runs_alone: bool, compute: f64) -> (Cow<'_, Self>, f64) {
        if self.waits && runs_alone {
            (Cow::Owned(Self::time(self.refinement)), 1.0)
        } else {
            (Cow::Borrowed(self), compute)
        }
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
    /// times including the pipeline's bubble, else as often as it runs or is waited for.
    pub fn turns(&self, turns: TripCount, compute: f64) -> u64 {
        if self.links.is_none() && compute > 0.0 {
            turns.including_bubble
        } else if self.waits {
            turns.waited
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
    ParticipatingNetworks::new(program, axes, refinement).seconds(kind, bytes)
}

/// The networks that the axes of a collective are on.
pub(crate) struct ParticipatingNetworks {
    stages: Vec<NetworkAxes>,
    rates: Rates,
}

impl ParticipatingNetworks {
    /// The networks of some axes.
    pub(crate) fn new(program: &Program, axes: &[AxisId], refinement: Refinement) -> Self {
        Self { stages: stages(program, axes, refinement), rates: program.hardware.rates }
    }

    /// [`collective_seconds`] over their axes.
    pub(crate) fn seconds(&self, kind: &CollectiveKind, bytes: f64) -> f64 {
        let times = stage_times(&self.stages, kind, bytes);
        if self.rates == Rates::Measured {
            return side_by_side_s(&times);
        }
        total(self.stages.iter().zip(times).map(|(stage, time)| time.alone(stage)))
    }
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

/// The bytes that price a step, of a value with so many on a device in each sharding: where devices
/// hold unequal parts, those of the device that sends or receives the most.
pub(crate) fn volume(
    kind: &CollectiveKind,
    from: &Sharding,
    to: &Sharding,
    is_uneven: bool,
    bytes: impl Fn(&Sharding) -> f64,
) -> f64 {
    sent_or_received(kind, is_uneven, bytes(&volume_side(kind, from, to)), || bytes(to))
}

/// The same of the bytes of the side that prices it, and of those of the result.
pub(crate) fn sent_or_received(
    kind: &CollectiveKind,
    is_uneven: bool,
    sent: f64,
    received: impl FnOnce() -> f64,
) -> f64 {
    let is_exchange = *kind == CollectiveKind::AllToAll;
    if is_uneven && is_exchange { sent.max(received()) } else { sent }
}

/// Whether the bytes of the result price a step, not those of what it starts from.
pub(crate) fn is_priced_by_result(kind: &CollectiveKind) -> bool {
    kind.row().volume == VolumeSide::Result
}

/// The sharding whose local bytes price a step: the larger side for gathers, else what the device
/// starts from, of which it first cuts off what a scatter or an AllToAll slices.
pub(crate) fn volume_side<'a>(
    kind: &CollectiveKind,
    from: &'a Sharding,
    to: &'a Sharding,
) -> Cow<'a, Sharding> {
    if is_priced_by_result(kind) {
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
