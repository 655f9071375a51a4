//! The strategy of a plan: for each mesh axis, as what it acts (data, fully sharded data, tensor,
//! sequence, expert or pipeline parallel), derived from the plan alone.
//!
//! A *weight* is a parameter or computed from parameters only; every other value is an
//! *activation*. Dimensions are classified by how the program uses them:
//!
//! * **experts**: what `route` sends tokens to, and what a product with a weight has in both
//!   operands and keeps, if no product with a weight sums over it;
//! * **feature**: any other dimension of a weight that is multiplied or looked up;
//! * **sequence**: no feature, and in a product of two activations that share a kept dimension (the
//!   batch) it is in one operand only, as queries and keys are in attention; running sums go over
//!   it; so is what it is renamed to, cut from, joined to or factored into;
//! * **batch**: any other dimension of an activation that is multiplied by a weight or looks one
//!   up.
//!
//! An axis acts as
//!
//! | role | if it splits |
//! | --- | --- |
//! | PP | the layers of a pipeline into stages |
//! | DP | a batch dimension of activations |
//! | FSDP | a parameter at rest, but not where a step reads it |
//! | TP | a feature dimension of a weight where a product or lookup reads it |
//! | SP | a sequence dimension of activations |
//! | EP | the experts of a weight where a product reads it |
//!
//! An axis may have several roles. A role counts from a fifth on: of the bytes of weights for FSDP,
//! TP and EP, of the bytes that steps with such a dimension touch for DP and SP (without steps on
//! tokens with their experts, which are where the experts are). So a lookup that
//! reads its table along another axis than the layers does not make that axis tensor parallel. An
//! axis with less than that everywhere has the largest of its roles. A program without a product
//! or lookup of weights has no strategy.

mod classes;
mod evidence;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shardwise_ir::plan::Plan;
use shardwise_passes::report::Report;

use crate::Planned;
use classes::Classes;
use evidence::Evidence;

/// As what a mesh axis acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Role {
    /// Pipeline parallel: each stage has some of the layers.
    #[serde(rename = "PP")]
    Pipeline,
    /// Data parallel: each device has a part of the batch.
    #[serde(rename = "DP")]
    Data,
    /// Fully sharded data parallel (`ZeRO-3`): weights are split at rest and gathered for use.
    #[serde(rename = "FSDP")]
    FullySharded,
    /// Tensor parallel: weights are split where they are used.
    #[serde(rename = "TP")]
    Tensor,
    /// Sequence (or context) parallel: each device has a part of the positions.
    #[serde(rename = "SP")]
    Sequence,
    /// Expert parallel: each device has some of the experts.
    #[serde(rename = "EP")]
    Expert,
}

impl Role {
    /// The roles that split dimensions.
    const SPLITTING: &[Self] =
        &[Self::Data, Self::FullySharded, Self::Tensor, Self::Sequence, Self::Expert];

    /// The usual abbreviation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipeline => "PP",
            Self::Data => "DP",
            Self::FullySharded => "FSDP",
            Self::Tensor => "TP",
            Self::Sequence => "SP",
            Self::Expert => "EP",
        }
    }
}

/// A role of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acts {
    /// Which.
    pub role: Role,
    /// The dimensions that it splits for that, those with the most bytes first; of a pipeline the
    /// name of its layers.
    pub splits: Vec<String>,
    /// The share of the bytes that it concerns; 1 for a pipeline.
    pub share: f64,
}

/// The roles of a mesh axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisRoles {
    /// The axis.
    pub axis: String,
    /// Devices along it.
    pub size: u64,
    /// Its roles; none where it splits nothing that counts for one.
    pub roles: Vec<Acts>,
}

impl Planned {
    /// As what each mesh axis of more than one device acts, in the mesh's order.
    pub fn parallelism(&self) -> Vec<AxisRoles> {
        roles(&self.plan, &self.report)
    }
}

/// The same of a plan and its costs.
pub(crate) fn roles(plan: &Plan, report: &Report) -> Vec<AxisRoles> {
    let program = &plan.program;
    let classes = Classes::of(program);
    if classes.used.is_empty() {
        return Vec::new();
    }
    let evidence = Evidence::of(plan, report, classes);
    let axes = program.mesh.axes.iter_enumerated().filter(|(_, axis)| axis.size > 1);
    let roles = axes.map(|(id, axis)| AxisRoles {
        axis: axis.name.clone(),
        size: axis.size,
        roles: evidence.roles(id),
    });
    roles.collect()
}

impl std::fmt::Display for AxisRoles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let roles: Vec<String> = self
            .roles
            .iter()
            .map(|acts| format!("{} ({})", acts.role.name(), acts.splits.join(", ")))
            .collect();
        let roles = if roles.is_empty() {
            "none of DP, FSDP, TP, SP, EP and PP".to_owned()
        } else {
            roles.join(", ")
        };
        write!(f, "{}={} acts as {roles}", self.axis, self.size)
    }
}
