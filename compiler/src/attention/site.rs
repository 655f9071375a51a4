//! Where attention stands in a program, and how a plan splits it.

use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::{MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::Composite;
use shardwise_ir::sharding::{AxisList, AxisRef, Sharding};

use crate::Planned;

/// A product of queries and keys whose softmax is multiplied with values. Values are known by name:
/// a plan has other numbers for them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Site {
    pub(super) scores: String,
    pub(super) query: String,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) result: String,
    pub(super) query_dim: DimId,
    pub(super) key_dim: DimId,
    /// What queries and keys are multiplied along.
    pub(super) contracted: Vec<DimId>,
}

/// Every attention of a program over more than one query.
pub(crate) fn sites(program: &Program) -> Vec<Site> {
    program.ops.iter_enumerated().filter_map(|(id, op)| site(program, id, op)).collect()
}

fn site(program: &Program, id: OpId, op: &Op) -> Option<Site> {
    let OpKind::Composite { function: Composite::Softmax, dims } = &op.kind else { return None };
    let &[key_dim] = &dims[..] else { return None };
    let scores = scores_of(program, op.operands[0].value)?;
    let OpKind::Einsum { contracted } = &scores.kind else { return None };
    let has = |value: ValueId, dim: DimId| program.values[value].dims.contains(&dim);
    let [a, b] = &scores.operands[..] else { return None };
    let (query, key) = match (has(a.value, key_dim), has(b.value, key_dim)) {
        (false, true) => (a.value, b.value),
        (true, false) => (b.value, a.value),
        _ => return None,
    };
    let query_dim = longest(program, query, key, contracted)?;
    let (result, value) = multiplied(program, program.ops[id].result, key_dim)?;
    let name = |value: ValueId| program.values[value].name.clone();
    Some(Site {
        scores: name(scores.result),
        query: name(query),
        key: name(key),
        value: name(value),
        result: name(result),
        query_dim,
        key_dim,
        contracted: contracted.clone(),
    })
}

/// The product that gives `value`, or what it is scaled or masked from.
fn scores_of(program: &Program, value: ValueId) -> Option<&Op> {
    let op = &program.ops[program.values[value].producer?];
    match (&op.kind, &op.operands[..]) {
        (OpKind::Einsum { contracted }, _) if !contracted.is_empty() => Some(op),
        (OpKind::Map(function), [operand])
            if !matches!(function.form, MapForm::LoopCarried | MapForm::Last | MapForm::Total) =>
        {
            scores_of(program, operand.value)
        }
        _ => None,
    }
}

/// Along which dimension there are most queries: one that keys do not have.
fn longest(program: &Program, query: ValueId, key: ValueId, contracted: &[DimId]) -> Option<DimId> {
    let own = program.values[query].dims.iter().copied();
    let own =
        own.filter(|dim| !program.values[key].dims.contains(dim) && !contracted.contains(dim));
    own.filter(|&dim| program.dims[dim].size > 1).max_by_key(|&dim| program.dims[dim].size)
}

/// The product that sums what `weights` (or what it is cast to) weigh along `key_dim`, and with
/// what.
fn multiplied(program: &Program, weights: ValueId, key_dim: DimId) -> Option<(ValueId, ValueId)> {
    let reader = |of: ValueId| {
        program.ops.iter().find(|op| op.operands.iter().any(|operand| operand.value == of))
    };
    let op = reader(weights)?;
    match (&op.kind, &op.operands[..]) {
        (OpKind::Einsum { contracted }, [a, b]) if *contracted == [key_dim] => {
            Some((op.result, if a.value == weights { b.value } else { a.value }))
        }
        (OpKind::Map(_), [_]) => multiplied(program, op.result, key_dim),
        _ => None,
    }
}

/// An attention in a plan that splits its sequence.
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
    /// Hardware and mesh, as the plan says them.
    pub(super) header: String,
}

/// How `planned` splits an attention; `None` where it leaves the sequence whole, or the program is
/// another one.
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
    /// The axes that split the scores along a dimension, those of the sequence apart.
    pub(super) fn others(&self, dim: DimId) -> AxisList {
        let (scores, sharding) = &self.scores;
        split(self.program, *scores, sharding, dim)
            .iter()
            .copied()
            .filter(|axis| !self.axes.contains(axis))
            .collect()
    }

    /// What this plan does: what splits the scores along the sequence.
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

    /// Into how many blocks the sequence is split.
    pub(super) fn blocks(&self) -> u64 {
        self.axes.iter().map(|axis| axis.size(&self.program.mesh)).fold(1, u64::saturating_mul)
    }
}
