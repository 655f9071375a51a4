//! What the steps of a plan show of the roles of axes: the bytes that each axis splits in each
//! role.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{AxisId, DimId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{BlockKind, Op, Program};
use shardwise_ir::sharding::{AxisRef, Pin, Sharding};
use shardwise_passes::local_shape;
use shardwise_passes::report::Report;

use super::classes::{Classes, Dims};
use super::{Acts, Role};

/// The share of bytes from which a role counts.
const LEAST_SHARE: f64 = 0.2;

/// The share of the bytes of its role from which a dimension is named.
const LEAST_OF_ROLE: f64 = 0.1;

/// What the steps of a plan show of the roles of axes.
pub(super) struct Evidence<'p> {
    plan: &'p Plan,
    report: &'p Report,
    classes: Classes,
    /// Weights that an axis splits in a role, by dimension.
    weights: IndexSet<(AxisId, Role, DimId, ValueId), FxBuildHasher>,
    /// Bytes that steps touch whose values an axis splits in a role; by dimension, and together.
    touched: IndexMap<(AxisId, Role, Option<DimId>), f64, FxBuildHasher>,
    /// Bytes that steps touch whose values an axis could split in a role.
    touchable: IndexMap<Role, f64, FxBuildHasher>,
}

impl<'p> Evidence<'p> {
    pub(super) fn of(plan: &'p Plan, report: &'p Report, classes: Classes) -> Self {
        let mut evidence = Self {
            plan,
            report,
            classes,
            weights: IndexSet::default(),
            touched: IndexMap::default(),
            touchable: IndexMap::default(),
        };
        for (number, step) in plan.steps.iter().enumerate() {
            if let StepKind::Local(op) = step.kind {
                evidence.add_weights(&plan.program.ops[op], step);
                evidence.add_activations(number, step);
            }
        }
        evidence
    }

    fn add_weights(&mut self, op: &Op, step: &Step) {
        let program = &self.plan.program;
        let multiplied = self.classes.weight_and_activation(op).map(|(weight, _)| weight);
        for read in &step.operands {
            let weight = self.classes.uncast(read.value);
            let value = &program.values[weight];
            if self.classes.is_weight(read.value)
                && value.is_declared()
                && let Some(rest) = value.declared_sharding.as_ref().and_then(Pin::exact)
            {
                let gathered = splits(program, read.value, &rest)
                    .filter(|(_, axis)| !read.sharding.uses(AxisRef::whole(*axis)));
                let gathered = gathered.map(|(dim, axis)| (axis, Role::FullySharded, dim, weight));
                self.weights.extend(gathered);
            }
            if multiplied == Some(read.value) {
                let split = splits(program, read.value, &read.sharding).map(|(dim, axis)| {
                    let of_experts = self.classes.experts.contains(&dim);
                    let role = if of_experts { Role::Expert } else { Role::Tensor };
                    (axis, role, dim, weight)
                });
                self.weights.extend(split);
            }
        }
    }

    /// Where tokens are with their experts, the experts say on which device: such steps tell
    /// nothing of the batch.
    fn add_activations(&mut self, number: usize, step: &Step) {
        let (program, cost) = (&self.plan.program, &self.report.steps[number]);
        let bytes = cost.times * cost.bytes;
        let values = step.operands.iter().chain([&step.result]);
        let activations: Vec<&Materialization> =
            values.filter(|read| !self.classes.is_weight(read.value)).collect();
        let has_any = |dims: &Dims, read: &Materialization| {
            program.values[read.value].dims.iter().any(|dim| dims.contains(dim))
        };
        if activations.iter().any(|read| has_any(&self.classes.experts, read)) {
            return;
        }
        for (role, dims) in
            [(Role::Data, &self.classes.batch), (Role::Sequence, &self.classes.sequence)]
        {
            if !activations.iter().any(|read| has_any(dims, read)) {
                continue;
            }
            let split: IndexSet<(AxisId, Role, Option<DimId>), FxBuildHasher> = activations
                .iter()
                .flat_map(|read| splits(program, read.value, &read.sharding))
                .filter(|(dim, _)| dims.contains(dim))
                .flat_map(|(dim, axis)| [(axis, role, Some(dim)), (axis, role, None)])
                .collect();
            *self.touchable.entry(role).or_default() += bytes;
            for one in split {
                *self.touched.entry(one).or_default() += bytes;
            }
        }
    }

    /// The roles of an axis that count, or the largest.
    pub(super) fn roles(&self, axis: AxisId) -> Vec<Acts> {
        let program = &self.plan.program;
        let pipelines = program.repeats.iter().filter(|block| {
            block.reversed.is_none()
                && block.kind == BlockKind::Layers
                && block.pipeline.as_ref().is_some_and(|of| of.axis == axis)
        });
        let stages: Vec<String> = pipelines.map(|block| block.name.clone()).collect();
        if !stages.is_empty() {
            return vec![Acts { role: Role::Pipeline, splits: stages, share: 1.0 }];
        }
        let all = Role::SPLITTING.iter().filter_map(|&role| self.role(axis, role));
        let all: Vec<Acts> = all.collect();
        let largest = all.iter().map(|acts| acts.share).fold(0.0, f64::max);
        all.into_iter().filter(|acts| acts.share >= LEAST_SHARE.min(largest)).collect()
    }

    fn role(&self, axis: AxisId, role: Role) -> Option<Acts> {
        let (share, mut by_dim) = match role {
            Role::Data | Role::Sequence => self.of_activations(axis, role),
            _ => self.of_weights(axis, role),
        };
        by_dim.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let most = by_dim.first()?.1;
        let counts = by_dim.iter().filter(|(_, bytes)| *bytes >= LEAST_OF_ROLE * most);
        let name = |(dim, _): &(DimId, f64)| self.plan.program.dims[*dim].name.clone();
        Some(Acts { role, splits: counts.map(name).collect(), share })
    }

    /// The share of the bytes that steps touch, and the bytes by dimension.
    fn of_activations(&self, axis: AxisId, role: Role) -> (f64, Vec<(DimId, f64)>) {
        let all = self.touchable.get(&role).copied().unwrap_or(0.0);
        let part = self.touched.get(&(axis, role, None)).copied().unwrap_or(0.0);
        let by_dim = self.touched.iter().filter_map(|(&(of, other, dim), &bytes)| {
            dim.filter(|_| of == axis && other == role).map(|dim| (dim, bytes))
        });
        (share(part, all), by_dim.collect())
    }

    /// The share of the bytes of weights, and the bytes by dimension.
    fn of_weights(&self, axis: AxisId, role: Role) -> (f64, Vec<(DimId, f64)>) {
        let mut by_dim: IndexMap<DimId, f64, FxBuildHasher> = IndexMap::default();
        let mut values: IndexSet<ValueId, FxBuildHasher> = IndexSet::default();
        for &(of, other, dim, value) in &self.weights {
            if of == axis && other == role {
                *by_dim.entry(dim).or_default() += self.bytes(value);
                values.insert(value);
            }
        }
        let sum = |values: &IndexSet<ValueId, FxBuildHasher>| {
            values.iter().map(|&value| self.bytes(value)).fold(0.0, |a, b| a + b)
        };
        (share(sum(&values), sum(&self.classes.used)), by_dim.into_iter().collect())
    }

    /// The bytes of a weight, all layers together.
    fn bytes(&self, value: ValueId) -> f64 {
        let program = &self.plan.program;
        let layers = program.layer_count(program.values[value].repeat) as f64;
        let replicated = Sharding::replicated(program.values[value].dims.len());
        layers * local_shape::local_bytes(program, value, &replicated)
    }
}

/// The dimensions of a value that are split, with the axes.
fn splits<'a>(
    program: &'a Program,
    value: ValueId,
    sharding: &'a Sharding,
) -> impl Iterator<Item = (DimId, AxisId)> + 'a {
    let dims = program.values[value].dims.iter().zip(&sharding.dims);
    dims.flat_map(|(&dim, axes)| axes.iter().map(move |axis| (dim, axis.axis())))
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { (part / all).min(1.0) } else { 0.0 }
}
