//! A plan with its costs, as checks read it, and the difference between two.

use shardwise_ir::Diag;
use shardwise_ir::ids::OpId;
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::CollectiveKind;
use shardwise_passes::report::{Report, StepCost, folded};

use crate::options::Refinement;
use crate::planned::budget;

/// A plan and what it costs; composites are steps of their own.
#[derive(Clone, Debug)]
pub(crate) struct Priced {
    pub(crate) plan: Plan,
    pub(crate) report: Report,
}

impl Priced {
    pub(crate) fn new(plan: Plan, refinement: Refinement) -> Self {
        Self { report: folded(&plan, refinement), plan }
    }

    /// The asserts that it breaks.
    pub(in crate::lint) fn broken(&self) -> Vec<Diag> {
        budget::broken(&self.plan, &self.report)
    }

    /// The collectives that communicate, with their prices.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (usize, &Step, &StepCost, &CollectiveKind)> {
        self.plan.steps.iter().zip(&self.report.steps).enumerate().filter_map(
            |(number, (step, cost))| match &step.kind {
                StepKind::Collective(collective, _) if collective.kind != CollectiveKind::Slice => {
                    Some((number, step, cost, &collective.kind))
                }
                _ => None,
            },
        )
    }

    /// Bytes of all collectives.
    pub(crate) fn moved_bytes(&self) -> f64 {
        self.moves().map(|(_, _, cost, _)| cost.bytes).sum()
    }

    /// The local steps, with the operations that they are.
    pub(crate) fn work(&self) -> impl Iterator<Item = (&Step, &StepCost, OpId)> {
        self.plan.steps.iter().zip(&self.report.steps).filter_map(|(step, cost)| match step.kind {
            StepKind::Local(op) => Some((step, cost, op)),
            StepKind::Collective(..) => None,
        })
    }

    /// The steps that read a materialisation after step `from`.
    pub(crate) fn readers<'p>(
        &'p self,
        of: &'p Materialization,
        from: usize,
    ) -> impl Iterator<Item = (usize, &'p Step)> {
        let later = self.plan.steps.iter().enumerate().skip(from + 1);
        later.filter(move |(_, step)| step.operands.contains(of))
    }
}

/// The savings of an edit.
#[derive(Clone, Debug)]
pub(crate) struct Saving {
    /// Seconds of all steps, before less after.
    pub(crate) seconds: f64,
    /// Bytes of all collectives, before less after; 0 if there are more.
    pub(crate) bytes: f64,
    /// The edited program's plan.
    pub(crate) after: Priced,
}
