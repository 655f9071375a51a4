//! What a device holds at its peak, by kind.

use index_vec::IndexVec;
use shardwise_ir::Role;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::{Phase, Program};
use strum::IntoStaticStr;

use crate::cost::liveness::{self, Memory};
use crate::cost::pipeline_stages;
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape;

/// A kind of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Held {
    /// Parameters, as declared.
    Parameters,
    /// State, as declared: moments, caches.
    State,
    /// Parameters in another sharding than the declared one.
    #[strum(serialize = "gathered parameters")]
    GatheredParameters,
    /// Inputs of the step.
    Inputs,
    /// Results of the forward part.
    Activations,
    /// Results of the backward part.
    Gradients,
}

impl Held {
    /// As people read it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The bytes of each kind at the peak, largest first.
pub(crate) fn held(plan: &ExpandedPlan<'_>, memory: &Memory) -> Vec<(Held, f64)> {
    let program = &plan.program;
    let mut bytes: indexmap::IndexMap<Held, f64> = indexmap::IndexMap::new();
    for (id, value) in program.values.iter_enumerated() {
        let kind = match value.role {
            Some(Role::Param) => Held::Parameters,
            Some(Role::State) => Held::State,
            _ => continue,
        };
        let declared =
            value.declared_sharding.as_ref().and_then(shardwise_ir::sharding::Pin::exact);
        let size =
            declared.map_or(0.0, |declared| local_shape::local_bytes(program, id, &declared));
        *bytes.entry(kind).or_default() += pipeline_stages::all_copies(program, id) * size;
    }
    let kinds = kinds(program);
    let step = memory.peak_step.unwrap_or(0);
    for (of, size) in liveness::live_at(plan, plan.dataflow(), step) {
        *bytes.entry(kinds[of.value]).or_default() += size;
    }
    let mut held: Vec<(Held, f64)> = bytes.into_iter().filter(|&(_, size)| size > 0.0).collect();
    held.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    held
}

/// The kind of what is live of each value.
fn kinds(program: &Program) -> IndexVec<ValueId, Held> {
    let declared = |role: Option<Role>| match role {
        Some(Role::Param | Role::State) => Held::GatheredParameters,
        Some(Role::Input) => Held::Inputs,
        _ => Held::Activations,
    };
    let mut kinds: IndexVec<ValueId, Held> =
        program.values.iter().map(|value| declared(value.role)).collect();
    for op in program.ops.iter().filter(|op| !op.is_reshard() && op.phase == Phase::Backward) {
        kinds[op.result] = Held::Gradients;
    }
    kinds
}
