//! What a collective takes network by network.
//!
//! At measured rates a library runs a collective over all of its devices in one call: one ring,
//! whose latency grows with their number, and which passes through every network. It can also be
//! run in rounds, over a part of the devices each: a tree, a recursive doubling, or one collective
//! after another over groups of them. Long messages are quicker in one call, short ones in rounds,
//! and the quicker of both is its price.
//!
//! The price may not depend on how a program divides devices among axes. A plan may gather over
//! `Y` first and then over `X`, each in a short ring; were one call the only price of a gather over
//! an axis of the product's size, dividing that axis would make it cheaper. So the rounds here are
//! a lower limit of all such sequences, whatever their groups: `k` rounds over `n` devices take at
//! least the fixed time `k` times, and, as their sizes have the product `n`, at least `k · n^(1/k)`
//! devices' time; several transfers fill links more slowly than one, and never take less than one
//! of all bytes. Where rounds must transfer more (blocks of an AllToAll travel again; a switch that
//! adds up does so only for the rounds that are reductions), the least of that is added.
//!
//! Other ways, and why not these:
//! * Charging each gather of a sequence as a part of the whole: a gather over `X` of a value that
//!   another group has copies of is the same step, and must cost what that does.
//! * Searching divisors for the cheapest sequence: it is exact, but depends on the factors of the
//!   number of devices, and takes a thousand times as long in a search that prices millions of
//!   steps.
//!
//! Over nodes of a whole rack NCCL sends long messages through one ring of all devices, each of
//! which adds [a longer hop](LinkRates::long_hop_s) than to short ones: rounds and short hops are
//! those of a protocol with a fraction of the bandwidth. There a program that divides the devices
//! into an axis inside of nodes and one between them has a quicker sequence than the library.
//!
//! On a torus axes have links of their own, so that rounds are what a program's axes make them:
//! each adds the devices of its own ring.

use shardwise_ir::functions::TimeModel;
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::{AxisKind, PhysicalAxis};
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::rates::LinkRates;
use shardwise_ir::total;

use super::Refinement;

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
pub(super) struct StageTime {
    /// Seconds in which its bytes are transferred.
    pub transfer_s: f64,
    /// Seconds that do not depend on the bytes.
    pub latency_s: f64,
}

impl StageTime {
    /// Seconds without the other stages: at peak rates latency counts where it is longer than the
    /// transfer, at measured ones it is added.
    pub(super) fn alone(self, stage: &NetworkAxes) -> f64 {
        match stage.measured {
            Some(_) => self.transfer_s + self.latency_s,
            None => self.transfer_s.max(self.latency_s),
        }
    }
}

/// The participating physical axes of one network.
pub(super) struct NetworkAxes {
    network: Network,
    /// Its axes, of more than one device each.
    pub axes: Vec<PhysicalAxis>,
    refinement: Refinement,
    /// What its links reach, where measured rates are asked for.
    measured: Option<LinkRates>,
    /// What an AllReduce reaches there, if it is another one.
    measured_reduce: Option<LinkRates>,
}

impl NetworkAxes {
    /// The devices that it connects.
    pub(super) fn devices(&self) -> f64 {
        self.axes.iter().map(|axis| axis.size as f64).product()
    }

    /// The devices that a block passes: all that share ports; on a torus those along each axis.
    fn passed(&self) -> f64 {
        if self.network.has_one_port() {
            return self.devices();
        }
        total(self.axes.iter().map(|axis| axis.size as f64))
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
                latency_s: measured.latency_s(ways * self.passed() * outside),
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

    /// The time of `k` rounds for the best `k`, where they transfer `transfer_s(k)`.
    fn rounds(&self, rates: LinkRates, ways: f64, transfer_s: impl Fn(f64) -> f64) -> StageTime {
        let rounds_s = |rounds: f64| StageTime {
            transfer_s: transfer_s(rounds),
            latency_s: rounds * rates.latency_s(ways * self.passed().powf(rounds.recip())),
        };
        let one = rounds_s(1.0);
        if !self.network.has_one_port() {
            return one;
        }
        // A round costs the fixed time at least.
        let is_worth_it = rates.per_device_s * ways * self.devices() > rates.fixed_s;
        let most = if is_worth_it { self.devices().log2() as u32 } else { 1 };
        let sum = |time: &StageTime| time.transfer_s + time.latency_s;
        let more = (2..=most).map(|rounds| rounds_s(f64::from(rounds)));
        more.fold(one, |best, time| if sum(&time) < sum(&best) { time } else { best })
    }

    /// The transfer of a gather, or of both ways of a reduction, in rounds: of what the stages
    /// inside leave, beside them or after them. Rounds that run before those outside have fewer
    /// bytes, which fill the links as quickly as these alone would.
    fn parts_s(&self, rates: LinkRates, ways: f64, bytes: f64, place: Place) -> f64 {
        let transfer_s = |inside: f64| {
            let seconds = ways * self.gather_s(bytes, inside);
            seconds / rates.share + (seconds / place.outside * rates.saturation_s).sqrt()
        };
        transfer_s(place.inside).min(place.before_s + transfer_s(1.0))
    }

    fn gather_in_rounds(&self, bytes: f64, place: Place) -> StageTime {
        let Some(rates) = self.measured else { return StageTime::default() };
        let transfer_s = self.parts_s(rates, 1.0, bytes, place);
        self.rounds(rates, 1.0, |_| transfer_s)
    }

    /// An AllReduce in rounds: scatters, a reduction in one round, which the switch may do, of what
    /// is left, at most half of the bytes, and gathers.
    fn reduce_in_rounds(&self, bytes: f64, place: Place) -> StageTime {
        let Some(rates) = self.measured_reduce.or(self.measured) else {
            return StageTime::default();
        };
        let ring_s = self.parts_s(rates, 2.0, bytes, place);
        let in_switch = rates.in_switch.filter(|_| self.network == Network::Switch);
        let in_switch_s = in_switch.map(|in_switch| {
            let unsaturated_s = ring_s - 2.0 * self.gather_s(bytes, place.inside) / rates.share;
            let halves = rates.share.recip() + 0.5 / in_switch;
            halves * bytes / self.aggregate_bandwidth() + unsaturated_s
        });
        let transfer_s = in_switch_s.map_or(ring_s, |seconds| seconds.min(ring_s));
        self.rounds(rates, 2.0, |_| transfer_s)
    }

    /// An AllToAll in rounds, in each of which at least half of the bytes travel.
    fn exchange_in_rounds(&self, bytes: f64) -> StageTime {
        let Some(rates) = self.measured else { return StageTime::default() };
        let bandwidth = self.aggregate_bandwidth();
        self.rounds(rates, 1.0, |rounds| {
            let again = (rounds - 1.0) / 2.0 - ((rounds - 1.0).exp2() - 1.0) / self.devices();
            rates.transfer_s(self.all_to_all_s(bytes) + again * bytes / bandwidth)
        })
    }

    fn permute_in_rounds(&self, bytes: f64) -> StageTime {
        let Some(rates) = self.measured else { return StageTime::default() };
        self.rounds(rates, 1.0, |rounds| rates.transfer_s(rounds * self.permute_s(bytes)))
    }
}

/// `m_a`: a line is twice as long as the ring of its size.
fn length(axis: &PhysicalAxis) -> f64 {
    if axis.kind == AxisKind::Ring { axis.size as f64 } else { 2.0 * axis.size as f64 }
}

/// Splits the participating axes into networks, innermost first. An axis larger than a node of GPUs
/// participates in two.
pub(super) fn stages(
    program: &Program,
    axes: &[AxisId],
    refinement: Refinement,
) -> Vec<NetworkAxes> {
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

fn network(kind: AxisKind) -> Network {
    match kind {
        AxisKind::Ring | AxisKind::Line => Network::Torus,
        AxisKind::Switch => Network::Switch,
        AxisKind::Dcn => Network::Dcn,
    }
}

/// What each stage of a collective takes, the quicker way.
pub(super) fn stage_times(
    stages: &[NetworkAxes],
    kind: &CollectiveKind,
    bytes: f64,
) -> Vec<StageTime> {
    let model = kind.row().time;
    let one_call = in_one_call(stages, model, bytes);
    let is_measured = stages.iter().any(|stage| stage.measured.is_some());
    if !is_measured || model == TimeModel::Free {
        return one_call;
    }
    let rounds = in_rounds(stages, model, bytes);
    let Some((stage, hops_s)) = long_hops_s(stages, model) else {
        return quicker(one_call, rounds);
    };
    let mut long = one_call.clone();
    long[stage].latency_s += hops_s;
    let mut short = quicker(one_call, rounds);
    for time in &mut short {
        time.transfer_s *= SHORT_PROTOCOL;
    }
    quicker(long, short)
}

/// How many times as long the protocol for short messages transfers: NCCL's `LL` moves flags beside
/// the bytes. Its table has 88 GB/s for it inside of a node of A100s and 19 between several, where
/// links reach 300: 3 to 16 times. Nobody has published messages between the two protocols.
const SHORT_PROTOCOL: f64 = 8.0;

fn quicker(one: Vec<StageTime>, other: Vec<StageTime>) -> Vec<StageTime> {
    if side_by_side_s(&other) < side_by_side_s(&one) { other } else { one }
}

/// What devices add to a long message in one ring over several networks, and in which stage, where
/// the rates of its links tell long messages from short ones.
fn long_hops_s(stages: &[NetworkAxes], model: TimeModel) -> Option<(usize, f64)> {
    let ways = match model {
        TimeModel::OneRing => 1.0,
        TimeModel::TwoRings => 2.0,
        TimeModel::AllToAll | TimeModel::Permute | TimeModel::Free => return None,
    };
    let devices: f64 = stages.iter().map(NetworkAxes::devices).product();
    let more_s = |stage: &NetworkAxes| {
        let rates = stage.measured.filter(|_| stages.len() > 1)?;
        Some((rates.long_hop_s? - rates.per_device_s).max(0.0))
    };
    let mut all = stages.iter().enumerate();
    all.find_map(|(place, stage)| Some((place, ways * devices * more_s(stage)?)))
}

/// Seconds of stages that run chunk by chunk beside each other: the longest transfer counts, and
/// every latency.
pub(super) fn side_by_side_s(times: &[StageTime]) -> f64 {
    let longest = times.iter().map(|time| time.transfer_s).fold(0.0, f64::max);
    longest + total(times.iter().map(|time| time.latency_s))
}

/// The stages of one call over all devices. An AllReduce is a scatter and a gather; measured, they
/// are one message of twice the length.
fn in_one_call(stages: &[NetworkAxes], model: TimeModel, bytes: f64) -> Vec<StageTime> {
    let all: f64 = stages.iter().map(NetworkAxes::devices).product();
    let mut inside = 1.0;
    let mut times = Vec::with_capacity(stages.len());
    for stage in stages {
        let (left, outside) = (bytes / inside, all / (inside * stage.devices()));
        times.push(match model {
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

/// Where the rounds of a network stand among those of others.
#[derive(Clone, Copy)]
struct Place {
    /// Devices that stages inside join.
    inside: f64,
    /// Devices that stages outside join.
    outside: f64,
    /// Seconds in which the stages inside transfer.
    before_s: f64,
}

/// The stages where each network has rounds of its own.
fn in_rounds(stages: &[NetworkAxes], model: TimeModel, bytes: f64) -> Vec<StageTime> {
    let all: f64 = stages.iter().map(NetworkAxes::devices).product();
    let (mut inside, mut before_s) = (1.0, 0.0);
    let mut times = Vec::with_capacity(stages.len());
    for stage in stages {
        let (left, outside) = (bytes / inside, all / (inside * stage.devices()));
        let place = Place { inside, outside, before_s };
        let time = match model {
            TimeModel::OneRing => stage.gather_in_rounds(left, place),
            TimeModel::TwoRings => stage.reduce_in_rounds(left, place),
            TimeModel::AllToAll => stage.exchange_in_rounds(bytes),
            TimeModel::Permute => stage.permute_in_rounds(bytes),
            TimeModel::Free => StageTime::default(),
        };
        before_s += time.transfer_s;
        inside *= stage.devices();
        times.push(time);
    }
    times
}
