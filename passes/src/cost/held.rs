//! What a device holds at its peak, by kind.

use index_vec::IndexVec;
use indexmap::IndexMap;
use shardwise_ir::Role;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::{Phase, Program};
use shardwise_ir::sharding::Pin;
use shardwise_ir::weights::uncast;
use strum::IntoStaticStr;

use crate::cost::liveness::{self, Memory};
use crate::cost::pipeline_stages;
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape;

/// A kind of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum HeldKind {
    /// Parameters, as declared.
    Parameters,
    /// State, as declared: moments, caches.
    State,
    /// Parameters in another sharding or dtype than the declared ones.
    #[strum(serialize = "gathered parameters")]
    GatheredParameters,
    /// Inputs of the step.
    Inputs,
    /// Results of the forward part.
    Activations,
    /// Results of the backward part.
    Gradients,
    /// What the allocator and kernels hold beside all of these.
    Allocator,
}

impl HeldKind {
    /// As people read it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Bytes on a device of a parameter or state whose sharding is written; `None` of other values.
pub fn resident_bytes(program: &Program, value: ValueId) -> Option<f64> {
    let declared = &program.values[value];
    let sharding = declared.declared_sharding.as_ref().and_then(Pin::exact)?;
    is_resident(program, value).then(|| {
        pipeline_stages::all_copies(program, value)
            * local_shape::local_bytes(program, value, &sharding)
    })
}

/// Whether a declared value stays on the devices.
pub(crate) fn is_resident(program: &Program, value: ValueId) -> bool {
    matches!(program.values[value].role, Some(Role::Param | Role::State))
}

/// The bytes of each kind at the peak, largest first.
pub(crate) fn held(plan: &ExpandedPlan<'_>, memory: &Memory) -> Vec<(HeldKind, f64)> {
    let program = &plan.program;
    let mut bytes: IndexMap<HeldKind, f64> = IndexMap::new();
    for (id, value) in program.values.iter_enumerated() {
        let is_param = value.role == Some(Role::Param);
        let kind = if is_param { HeldKind::Parameters } else { HeldKind::State };
        *bytes.entry(kind).or_default() += resident_bytes(program, id).unwrap_or_default();
    }
    let kinds = kinds(program);
    let step = memory.peak_step.unwrap_or(0);
    for (of, size) in liveness::live_at(plan, plan.dataflow(), step) {
        *bytes.entry(kinds[of.value]).or_default() += size;
    }
    let mut held: Vec<(HeldKind, f64)> =
        bytes.into_iter().filter(|&(_, size)| size > 0.0).collect();
    held.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    held
}

/// The kind of what is live of each value, beside what is resident.
pub fn kinds(program: &Program) -> IndexVec<ValueId, HeldKind> {
    let declared = |role: Option<Role>| match role {
        Some(Role::Param | Role::State) => HeldKind::GatheredParameters,
        Some(Role::Input) => HeldKind::Inputs,
        _ => HeldKind::Activations,
    };
    let mut kinds: IndexVec<ValueId, HeldKind> =
        program.values.iter().map(|value| declared(value.role)).collect();
    for op in program.ops.iter().filter(|op| !op.is_reshard() && op.phase == Phase::Backward) {
        kinds[op.result] = HeldKind::Gradients;
    }
    // A cast parameter is gathered like one.
    for (value, of) in uncast(program).into_iter_enumerated() {
        if program.values[of].role == Some(Role::Param) {
            kinds[value] = HeldKind::GatheredParameters;
        }
    }
    kinds
}
