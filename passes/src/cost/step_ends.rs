//! The ends of a step of training: what runs once, after the last microbatch.
//!
//! A plan reduces the gradients that microbatches add up after the last of them, and gathers then
//! what the optimizer has updated. Frameworks wait for neither: the gradient of a layer is
//! complete, and is reduced, while those of the layers before it are computed for the last
//! microbatch; an updated parameter is gathered while the first microbatch of the next step is in
//! the layers before it (data parallelism of `PyTorch`, and Megatron-LM with
//! `--overlap-grad-reduce` and `--overlap-param-gather`). At measured rates a schedule is shorter
//! by what these microbatches hide: all layers but the one that comes last when gradients are
//! computed, which is also the first to be read again, as long as compute of one microbatch lasts
//! that uses no links of theirs. Contention counts for it as for everything that is hidden.
//! Programs of TPUs are one loop over microbatches, whose end they wait for.
//!
//! Timelines draw a step as its plan has it. Alternatives:
//! * A microbatch of its own for the last one, with the reductions in it: the plan would have every
//!   layer twice.
//! * Reducing in every microbatch, as a plan may: it takes as many times the links.
//!
//! No chain of steps bounds such a schedule, and what stages reshard once counts for the links
//! alone: searches for the shortest schedule have weaker bounds.

use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::program::{Blocks, CollectiveKind, Phase, Program};

use crate::cost::pipeline_stages;
use crate::cost::report::StepCost;
use crate::cost::schedule;
use crate::layouts::composite::ExpandedPlan;

/// Seconds by which a schedule of `makespan_s` is shorter since neighbouring microbatches hide
/// collectives at its ends.
pub(crate) fn hidden_s(plan: &ExpandedPlan<'_>, costs: &[StepCost], makespan_s: f64) -> f64 {
    if !pipeline_stages::hides_step_ends(&plan.program) {
        return 0.0;
    }
    let steps = Steps::new(plan, costs);
    let ends: Vec<Option<Phase>> = (0..costs.len()).map(|number| steps.hider(number)).collect();
    let most_s: f64 = [Phase::Backward, Phase::Forward]
        .map(|phase| {
            let of_phase = costs.iter().zip(&ends).filter(|(_, end)| **end == Some(phase));
            let of_phase: Vec<&StepCost> = of_phase.map(|(cost, _)| cost).collect();
            let later_s: f64 = of_phase.iter().map(|cost| (cost.times - 1.0) * cost.seconds).sum();
            later_s.min(steps.window_s(&of_phase, phase))
        })
        .iter()
        .sum();
    if most_s > 0.0 { most_s.min(exposed_s(plan, costs, &ends, makespan_s)) } else { 0.0 }
}

/// Seconds by which a schedule is longer for its ends.
fn exposed_s(
    plan: &ExpandedPlan<'_>,
    costs: &[StepCost],
    ends: &[Option<Phase>],
    makespan_s: f64,
) -> f64 {
    let quiet = |(cost, end): (&StepCost, &Option<Phase>)| {
        let seconds = if end.is_some() { 0.0 } else { cost.seconds };
        StepCost { seconds, ..cost.clone() }
    };
    let quiet: Vec<StepCost> = costs.iter().zip(ends).map(quiet).collect();
    let without_s = schedule::schedule(plan, &quiet, 0.0..=f64::INFINITY).makespan_s;
    (makespan_s - without_s).max(0.0)
}

/// The steps of a plan with their costs.
struct Steps<'a> {
    plan: &'a ExpandedPlan<'a>,
    costs: &'a [StepCost],
    /// The first of the backward part.
    first_backward: usize,
}

impl<'a> Steps<'a> {
    fn new(plan: &'a ExpandedPlan<'a>, costs: &'a [StepCost]) -> Self {
        let ops = &plan.program.ops;
        let is_backward = |step: &Step| match step.kind {
            StepKind::Local(op) => ops[op].phase == Phase::Backward,
            StepKind::Collective(..) => false,
        };
        let first_backward = plan.steps.iter().position(is_backward).unwrap_or(costs.len());
        Self { plan, costs, first_backward }
    }

    /// The part of a microbatch beside which a collective at the end of a step runs: those that
    /// reduce beside the last one going back, those that gather beside the next one going forward.
    fn hider(&self, number: usize) -> Option<Phase> {
        let (step, cost) = (&self.plan.steps[number], &self.costs[number]);
        let StepKind::Collective(collective, _) = &step.kind else { return None };
        let is_once = !is_repeated(&self.plan.program, step);
        if !is_once || cost.times <= 1.0 || self.phase(number) == Phase::Forward {
            return None;
        }
        match collective.kind {
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter => Some(Phase::Backward),
            CollectiveKind::AllGather => Some(Phase::Forward),
            _ => None,
        }
    }

    /// The part of the program that a step belongs to.
    fn phase(&self, number: usize) -> Phase {
        if number < self.first_backward { Phase::Forward } else { Phase::Backward }
    }

    /// Seconds in which a device computes one microbatch in a direction, without those in which it
    /// uses the links of `ends` meanwhile.
    fn window_s(&self, ends: &[&StepCost], phase: Phase) -> f64 {
        let program = &self.plan.program;
        let mut links = vec![0.0; program.mesh.axes.len()];
        let mut compute_s = 0.0;
        let steps = self.plan.steps.iter().zip(self.costs).enumerate();
        let own = steps.filter(|(number, _)| self.phase(*number) == phase);
        for (_, (step, cost)) in own.filter(|(_, (step, _))| is_repeated(program, step)) {
            let once_s = cost.total_s() / microbatches(program, step);
            if cost.is_move(step) {
                cost.links.iter().for_each(|axis| links[axis.index()] += once_s);
            } else {
                compute_s += once_s;
            }
        }
        let used = ends.iter().flat_map(|cost| &cost.links);
        let busy_s = used.map(|axis| links[axis.index()]).fold(0.0, f64::max);
        (compute_s - busy_s).max(0.0)
    }
}

/// Whether a step runs for each microbatch.
fn is_repeated(program: &Program, step: &Step) -> bool {
    match program.pipeline(step.repeat) {
        Some(_) => pipeline_stages::by_microbatch(program, step),
        None => program.repeats.microbatches(step.repeat).is_some(),
    }
}

/// The number of microbatches for which a step runs.
fn microbatches(program: &Program, step: &Step) -> f64 {
    let of_pipeline = program.pipeline(step.repeat).map(|pipeline| pipeline.microbatches);
    let block = program.repeats.microbatches(step.repeat);
    of_pipeline.or(block.map(|block| program.repeats[block].count)).unwrap_or(1) as f64
}
