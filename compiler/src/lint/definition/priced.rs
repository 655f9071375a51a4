//! A plan with its costs, as checks read it, and the difference between two.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use shardwise_ir::Diag;
use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::ids::OpId;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::CollectiveKind;
use shardwise_passes::report::{Report, StepCost, folded};

use crate::options::Refinement;
use crate::planned::budget;

/// A plan and what it costs; composites are steps of their own.
#[derive(Clone, Debug)]
pub(crate) struct Priced {
    pub(crate) plan: Plan,
    pub(crate) report: Report,
    dataflow: OnceCell<Dataflow<usize>>,
}

impl Priced {
    pub(crate) fn new(plan: Plan, refinement: Refinement) -> Self {
        Self { report: folded(&plan, refinement), plan, dataflow: OnceCell::new() }
    }

    /// The asserts that it breaks.
    pub(in crate::lint) fn broken(&self) -> Vec<Diag> {
        budget::broken(&self.plan, &self.report)
    }

    /// The collectives that communicate, with their prices.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (usize, &Step, &StepCost, &CollectiveKind)> {
        self.plan.steps.iter().zip(&self.report.steps).enumerate().filter_map(
            |(number, (step, cost))| match &step.kind {
                StepKind::Collective(collective, _) if !collective.kind.is_free() => {
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

    /// The steps that read what step `number` produces, or that a later step produces again.
    pub(crate) fn readers(&self, number: usize) -> impl Iterator<Item = &Step> {
        let steps = &self.plan.steps;
        let again = move |&other: &usize| steps[other].result == steps[number].result;
        let producers = (number..steps.len()).filter(again);
        let readers = producers.flat_map(|producer| self.dataflow().readers(producer));
        let readers: BTreeSet<usize> = readers.map(|(reader, _)| reader).collect();
        readers.into_iter().map(|reader| &steps[reader])
    }

    /// The dataflow graph of its steps, built when it is first asked for: most trials of an edit
    /// are only priced.
    pub(crate) fn dataflow(&self) -> &Dataflow<usize> {
        self.dataflow.get_or_init(|| Dataflow::of_plan(&self.plan))
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
