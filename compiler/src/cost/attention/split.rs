//! Finds how a plan shards an attention along its sequence.

use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::{AxisList, AxisRef, Sharding};

use crate::Planned;
use crate::planned::attention_site::Site;

/// An attention in a plan that shards its sequence.
pub(super) struct Found<'p> {
    pub(super) site: &'p Site,
    pub(super) program: &'p Program,
    pub(super) query: ValueId,
    pub(super) key: ValueId,
    pub(super) value: ValueId,
    pub(super) result: ValueId,
    /// The axes that split queries, keys or results along the sequence.
    pub(super) axes: AxisList,
    scores: (ValueId, Sharding),
    /// Hardware and mesh, as the plan prints them.
    pub(super) header: String,
}

/// How `planned` shards an attention; `None` where the sequence is unsharded, or the program is not
/// an attention.
pub(super) fn found<'p>(planned: &'p Planned, site: &'p Site) -> Option<Found<'p>> {
    let plan = &planned.plan;
    let program = &plan.program;
    let named = |name: &str| program.values.position(|value| value.name == name);
    let (query, key, value, result) =
        (named(&site.query)?, named(&site.key)?, named(&site.value)?, named(&site.result)?);
    let scores = named(&site.scores)?;
    let given = plan
        .steps
        .iter()
        .find(|step| matches!(step.kind, StepKind::Local(_)) && step.result.value == scores)?;
    let mut axes = AxisList::new();
    for material in plan.steps.iter().flat_map(|step| step.operands.iter().chain([&step.result])) {
        let along = match material.value {
            of if of == query || of == result => site.query_dim,
            of if of == key || of == value => site.key_dim,
            _ => continue,
        };
        for &axis in split(program, material.value, &material.sharding, along) {
            if axis.size(&program.mesh) > 1 && !axes.contains(&axis) {
                axes.push(axis);
            }
        }
    }
    axes.sort_unstable();
    let header = shardwise_ir::print::plan_header(plan);
    let header: Vec<&str> = header
        .lines()
        .filter(|line| line.starts_with("hardware ") || line.starts_with("mesh "))
        .collect();
    let scores = (scores, given.result.sharding.clone());
    (!axes.is_empty()).then(|| Found {
        site,
        program,
        query,
        key,
        value,
        result,
        axes,
        scores,
        header: header.join("\n"),
    })
}

/// The axes along one dimension of a value.
fn split<'s>(
    program: &Program,
    value: ValueId,
    sharding: &'s Sharding,
    dim: DimId,
) -> &'s [AxisRef] {
    let position = program.values[value].dims.iter().position(|&other| other == dim);
    position.and_then(|position| sharding.dims.get(position)).map_or(&[], |axes| axes.as_slice())
}

impl Found<'_> {
    /// The axes that split the scores along a dimension, without those of the sequence.
    pub(super) fn others(&self, dim: DimId) -> AxisList {
        let (scores, sharding) = &self.scores;
        split(self.program, *scores, sharding, dim)
            .iter()
            .copied()
            .filter(|axis| !self.axes.contains(axis))
            .collect()
    }

    /// The way of this plan: given by the axes that split the scores along the sequence.
    pub(super) fn planned_way(&self) -> &'static str {
        let (scores, sharding) = &self.scores;
        let takes_part = |dim| {
            split(self.program, *scores, sharding, dim).iter().any(|axis| self.axes.contains(axis))
        };
        match (takes_part(self.site.query_dim), takes_part(self.site.key_dim)) {
            (true, _) => "gather",
            (_, true) => "statistics",
            _ => "heads",
        }
    }

    pub(super) fn length(&self, dim: DimId) -> (String, u64) {
        (self.program.dims[dim].name.clone(), self.program.dims[dim].size)
    }

    pub(super) fn axis_names(&self) -> Vec<String> {
        self.axes.iter().map(|axis| self.program.mesh.axes[axis.axis()].name.clone()).collect()
    }

    /// The number of blocks of the sequence.
    pub(super) fn blocks(&self) -> u64 {
        self.axes.iter().map(|axis| axis.size(&self.program.mesh)).fold(1, u64::saturating_mul)
    }
}
