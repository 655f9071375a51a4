//! A strategy as people name it: degrees by role, and what a step takes.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::{OpKind, Program};

use super::candidate::{Candidate, Recompute, Staging};
use super::dtypes::Dtypes;
use super::resident::{self, Resident};
use crate::Planned;
use crate::planned::parallelism::{Acts, AxisRoles, Role};
use crate::sweep::AxisTime;

/// How many ways one role splits the work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Degree {
    /// `DP`, `FSDP`, `TP`, `SP`, `EP` or `PP`.
    pub role: &'static str,
    /// The product of the axes that act as it; an axis may act as several.
    pub ways: u64,
}

/// A mesh axis and its roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActingAxis {
    /// The axis.
    pub axis: String,
    /// Devices along it.
    pub size: u64,
    /// Its roles, as [`Degree::role`].
    pub roles: Vec<&'static str>,
    /// The one that most of what it splits is for; none where it splits nothing.
    #[serde(skip)]
    pub(super) main: Option<Role>,
    /// Nodes or slices along it.
    #[serde(skip)]
    pub(super) between: u64,
    /// Whether it splits a state, such as those of an optimizer.
    #[serde(skip)]
    pub(super) splits_states: bool,
}

/// A candidate with its plan's figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Strategy {
    /// The roles of the mesh axes of more than one device.
    pub degrees: Vec<Degree>,
    /// The roles of each axis of more than one device.
    pub axes_roles: Vec<ActingAxis>,
    /// The mesh as programs write it.
    pub mesh: String,
    /// Microbatches, where the program has gradients.
    pub microbatches: Option<u64>,
    /// The pipeline's schedule, and its runs of layers on a stage.
    pub pipeline: Option<Staging>,
    /// The layers that stages have together.
    #[serde(skip)]
    pub(super) staged_layers: Option<u64>,
    /// The size of the batch, where several are compared.
    pub batch: Option<u64>,
    /// What is computed again for gradients: `layers`, `none`, or `as written`.
    pub recompute: &'static str,
    /// The dtypes of products with weights: `written`, or one that was asked for.
    pub dtypes: &'static str,
    /// Seconds that the search minimizes.
    pub objective_s: f64,
    /// No plan of this candidate takes less.
    pub lower_bound_s: f64,
    /// Seconds of a step as it is scheduled.
    pub step_s: f64,
    /// Seconds of all local operations.
    pub compute_s: f64,
    /// Seconds of all collectives.
    pub comm_s: f64,
    /// Seconds that stages wait.
    pub bubble_s: f64,
    /// Busy seconds of each axis.
    pub axes: Vec<AxisTime>,
    /// FLOPs of the products of the model in a step, on all chips.
    pub model_flops: f64,
    /// Model FLOPs utilisation.
    pub mfu: f64,
    /// Tokens a second and chip.
    pub tokens_per_s_and_chip: Option<f64>,
    /// The price of a million tokens, where a chip-hour has one.
    pub price_of_million: Option<f64>,
    /// Peak bytes of a device.
    pub peak_bytes: f64,
    /// `FLOPs`, `HBM`, `links X`, `latency`, `bubble`, or `nothing`.
    pub bound_by: String,
    /// How many times their share of tokens experts have slots for, where tokens are routed.
    #[serde(skip)]
    pub(super) capacity_factor: Option<f64>,
    /// Parameters and state of a device.
    #[serde(skip)]
    pub(super) resident: Vec<Resident>,
}

/// What makes two candidates the same strategy: degrees, microbatches, the pipeline, the batch,
/// what is computed again, and dtypes.
pub(super) type Key = (Vec<Degree>, Option<u64>, Option<Staging>, Option<u64>, [&'static str; 2]);

impl Strategy {
    pub(super) fn new(candidate: &Candidate, planned: &Planned) -> Self {
        let mesh: Vec<&str> = candidate.shape.axes.iter().map(|axis| axis.text.as_str()).collect();
        Self {
            microbatches: candidate.microbatches,
            pipeline: candidate.staging,
            batch: candidate.batch,
            recompute: candidate.recompute.name(),
            dtypes: candidate.dtypes.name(),
            ..Self::as_written(mesh.join(", "), planned)
        }
    }

    /// The strategy of a program as it is written.
    pub(super) fn as_written(mesh: String, planned: &Planned) -> Self {
        let (program, report) = (&planned.plan.program, &planned.report);
        let metrics = planned.metrics();
        let axes = program.mesh.axes.iter().zip(&report.axis_s);
        Self {
            degrees: degrees(planned),
            axes_roles: acting(planned),
            mesh,
            microbatches: None,
            pipeline: None,
            staged_layers: staged_layers(program),
            batch: None,
            recompute: Recompute::AsWritten.name(),
            dtypes: Dtypes::Written.name(),
            objective_s: planned.objective_s(report),
            lower_bound_s: planned.lower_bound_s(),
            step_s: metrics.step_s,
            compute_s: report.compute_s,
            comm_s: report.comm_s,
            bubble_s: report.bubble_s,
            axes: axes
                .map(|(axis, &busy_s)| AxisTime {
                    axis: axis.name.clone(),
                    size: axis.size,
                    busy_s,
                })
                .collect(),
            model_flops: metrics.model_flops,
            mfu: metrics.mfu,
            tokens_per_s_and_chip: metrics.tokens.as_ref().map(|tokens| tokens.per_s_and_chip),
            price_of_million: metrics.tokens.and_then(|tokens| tokens.price_of_million),
            peak_bytes: report.memory.peak_bytes.round(),
            bound_by: planned.bound_by_briefly(),
            capacity_factor: capacity_factor(program),
            resident: resident::of_plan(&planned.plan),
        }
    }

    /// In how many ways a role splits the work; 1 where no axis acts as it.
    pub fn degree(&self, role: &str) -> u64 {
        self.degrees.iter().find(|degree| degree.role == role).map_or(1, |degree| degree.ways)
    }

    /// Peak bytes of a device on which `other` runs in turn: what it keeps in another place stays
    /// there.
    pub(super) fn peak_bytes_beside(&self, other: &Self) -> f64 {
        self.peak_bytes + resident::bytes_beside(&other.resident, &self.resident)
    }

    pub(super) fn key(&self) -> Key {
        let words = [self.recompute, self.dtypes];
        (self.degrees.clone(), self.microbatches, self.pipeline, self.batch, words)
    }

    /// What strategies are compared by: seconds, for an element where batches differ.
    pub(super) fn rank(&self) -> f64 {
        self.objective_s / self.elements()
    }

    /// Nothing of this candidate has a lower rank.
    pub(super) fn rank_bound(&self) -> f64 {
        self.lower_bound_s / self.elements()
    }

    /// Seconds of a step as it is scheduled, for an element where batches differ.
    pub(super) fn step_of_element_s(&self) -> f64 {
        self.step_s / self.elements()
    }

    /// Elements of the batch where those of several sizes are compared; else 1.
    pub(super) fn elements(&self) -> f64 {
        self.batch.map_or(1.0, |batch| batch as f64)
    }

    /// `8`, or `8 1f1b x2`: microbatches, and the pipeline that they pass.
    pub(super) fn parts_in_words(&self) -> String {
        let count = self.microbatches.map(|count| count.to_string());
        let pipeline = self.pipeline.map(Staging::in_words);
        count.into_iter().chain(pipeline).collect::<Vec<_>>().join(" ")
    }

    /// `DP64 FSDP64 TP8 fp8`: the degrees, with the dtypes where they are not as written.
    pub(super) fn in_words(&self) -> String {
        match self.dtypes {
            dtypes if dtypes == Dtypes::Written.name() => self.roles_in_words(),
            dtypes => format!("{} {dtypes}", self.roles_in_words()),
        }
    }

    /// `DP64 FSDP64 TP8`, with the batch where several are compared.
    pub(super) fn roles_in_words(&self) -> String {
        let degrees = self.degrees.iter().map(|of| format!("{}{}", of.role, of.ways));
        let batch = self.batch.map(|size| format!("batch {size}"));
        let words: Vec<String> = degrees.chain(batch).collect();
        if words.is_empty() { "-".to_owned() } else { words.join(" ") }
    }

    /// The better first: by the objective, then by the scheduled step, then by memory; of equal
    /// ones that on fewer axes, and with fewer roles.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        unrounded(self.rank())
            .total_cmp(&unrounded(other.rank()))
            .then(unrounded(self.step_s).total_cmp(&unrounded(other.step_s)))
            .then(self.peak_bytes.total_cmp(&other.peak_bytes))
            .then(self.axes.len().cmp(&other.axes.len()))
            .then(self.degrees.len().cmp(&other.degrees.len()))
    }

    /// Whether it takes less of one of time and memory, and no more of the other.
    pub(super) fn dominates(&self, other: &Self) -> bool {
        let (time, memory) = (self.rank() <= other.rank(), self.peak_bytes <= other.peak_bytes);
        let differs = self.rank() < other.rank() || self.peak_bytes < other.peak_bytes;
        time && memory && differs
    }
}

/// A time without the bits in which equal ones differ by rounding: some nine digits are left.
fn unrounded(seconds: f64) -> f64 {
    const BITS: u32 = 22;
    let half = 1 << (BITS - 1);
    f64::from_bits((seconds.to_bits() + half) >> BITS << BITS)
}

/// All roles, in the order of columns and words.
pub(super) const ROLES: [Role; 6] =
    [Role::Data, Role::FullySharded, Role::Tensor, Role::Sequence, Role::Expert, Role::Pipeline];

/// The layers that stages have together; none without stages.
fn staged_layers(program: &Program) -> Option<u64> {
    let pipeline = program.pipelines().find_map(|block| program.pipeline(Some(block)))?;
    Some(pipeline.stages.layers().iter().sum())
}

/// How many times their share of tokens experts have slots for, in the layer with the fewest.
fn capacity_factor(program: &Program) -> Option<f64> {
    let factors = program.ops.iter().filter_map(|op| match &op.kind {
        OpKind::Route(route) => route.capacity_factor(&program.dims),
        _ => None,
    });
    factors.reduce(f64::min)
}

fn acting(planned: &Planned) -> Vec<ActingAxis> {
    let axes = planned.parallelism().into_iter().filter(|axis| axis.size > 1);
    let names = |of: &AxisRoles| of.roles.iter().map(|acts| acts.role.name()).collect();
    let program = &planned.plan.program;
    let split = resident::split_states(program);
    let nodes = |name: &str| {
        let axis = program.mesh.axes.iter().filter(|axis| axis.name == name);
        let physical = axis.flat_map(|axis| &axis.physical);
        physical.filter(|of| of.kind == AxisKind::Dcn).map(|of| of.size).product()
    };
    let acting = |of: AxisRoles| ActingAxis {
        roles: names(&of),
        between: nodes(&of.axis),
        main: main_role(&of.roles),
        splits_states: split.contains(of.axis.as_str()),
        axis: of.axis,
        size: of.size,
    };
    axes.map(acting).collect()
}

/// The role by which frameworks count an axis. Weights decide between tensors and data: an axis is
/// one of tensors where it splits more of their bytes for use than it gathers, and at least half of
/// them, or has no other role. A table that is looked up in parts does not make it one. Between
/// positions and the batch the activations decide.
fn main_role(roles: &[Acts]) -> Option<Role> {
    let share =
        |role: Role| roles.iter().find(|acts| acts.role == role).map_or(0.0, |acts| acts.share);
    let [tensor, expert, gathered] = [Role::Tensor, Role::Expert, Role::FullySharded].map(share);
    let is_of_tensors = tensor >= expert.max(gathered) && tensor >= 0.5;
    let is_of_positions = share(Role::Sequence) > share(Role::Data);
    let order = [
        (Role::Pipeline, true),
        (Role::Tensor, is_of_tensors),
        (Role::Expert, true),
        (Role::Sequence, is_of_positions),
        (Role::Data, true),
        (Role::FullySharded, true),
        (Role::Tensor, true),
    ];
    order.into_iter().find(|&(role, comes)| comes && share(role) > 0.0).map(|(role, _)| role)
}

fn degrees(planned: &Planned) -> Vec<Degree> {
    let mut degrees: Vec<Degree> = Vec::new();
    for axis in planned.parallelism() {
        for acts in axis.roles {
            let role = acts.role.name();
            match degrees.iter_mut().find(|degree| degree.role == role) {
                Some(degree) => degree.ways *= axis.size,
                None => degrees.push(Degree { role, ways: axis.size }),
            }
        }
    }
    degrees.sort_by_key(|degree| ROLES.iter().position(|role| role.name() == degree.role));
    degrees
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main(roles: &[(Role, f64)]) -> Option<Role> {
        let acts = |&(role, share): &(Role, f64)| Acts { role, splits: Vec::new(), share };
        main_role(&roles.iter().map(acts).collect::<Vec<_>>())
    }

    #[test]
    fn frameworks_count_an_axis_by_most_of_what_it_splits() {
        let (tensor, gathered) = (Role::Tensor, Role::FullySharded);
        let vocabulary = [(Role::Data, 0.86), (gathered, 0.7), (tensor, 0.3)];
        assert_eq!(main(&vocabulary), Some(Role::Data));
        let megatron = [(tensor, 0.9), (Role::Sequence, 0.95), (gathered, 0.1)];
        assert_eq!(main(&megatron), Some(tensor));
        assert_eq!(
            main(&[(Role::Data, 0.9), (Role::Expert, 0.6), (tensor, 0.3)]),
            Some(Role::Expert)
        );
        assert_eq!(main(&[(Role::Sequence, 0.9), (gathered, 1.0)]), Some(Role::Sequence));
        assert_eq!(main(&[(Role::Sequence, 0.3), (Role::Data, 0.9)]), Some(Role::Data));
        assert_eq!(main(&[(tensor, 0.3)]), Some(tensor));
        assert_eq!(main(&[]), None);
    }
}
