//! The schedule of a plan: compute in program order, or without blocks in another one if that is
//! shorter ([`simulation`]), and a collective as soon as its operand exists and the links of its
//! axes are free.
//!
//! Collectives on links of different axes overlap, and transfers to the host with all of them; of
//! several that wait for the same links the first in program order starts first, and none waits for
//! another that cannot start yet. A collective and a product next to it can run beside each other,
//! in chunks, where that is asked for ([`crate::cost::collective_matmul`]).
//! `overlap ≤ scheduled ≤ serial`: no resource does two things at once, and something is always
//! running, or counted as the bubble of a pipeline. A step is *critical* if it has no slack: a
//! longer step makes the makespan longer. A collective is *prefetchable* if its operand is resident
//! (it can overlap the compute before the program, as the gather of a weight overlaps the previous
//! layer), or if it has slack and its operand exists before the compute above it is done.
//!
//! Three layers of a block are scheduled, and the makespan is extrapolated by its growth from the
//! second layer to the third: the time of a layer whose collectives overlap the compute of its
//! neighbours. Blocks around others (microbatches, layers of layers) are extrapolated likewise,
//! with what is inside extrapolated first; the first microbatch gathers the retained weights.
//! Scheduling all of them would make planning time depend on their number.
//!
//! Steps take as long as alone. That collectives slow the compute beside them is added to the
//! makespan as a whole (`report`), for what is hidden of them: the sum of all steps without it. It
//! is a share of their time ([`crate::cost::contention`]), so that the inequality above holds. What
//! neighbouring microbatches hide of the ends of a step is taken off as a whole, too
//! ([`crate::cost::step_ends`]). The alternative, to stretch steps while others run beside them,
//! has the same sum where one collective runs at a time, and takes a simulation in small pieces.
//!
//! A pipeline is scheduled separately ([`crate::cost::pipeline_stages`]) and takes its makespan
//! between the steps around it, plus the steps that its stages run once, before or after all
//! microbatches. That may be longer than the sum of steps, which has a formula for the bubble;
//! `report` then counts what is longer as bubble, rather than the schedule as shorter than it is.

mod simulation;

use std::ops::RangeInclusive;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::Role;
use shardwise_ir::collectives::Collectives;
use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::ids::RepeatId;
use shardwise_ir::plan::{Materialization, Plan};
use shardwise_ir::program::Blocks;
use shardwise_ir::unroll::{self, Copy};

use crate::cost::chains::StepChains;
use crate::cost::pipeline_stages::{self, Staged};
use crate::cost::report::StepCost;
use crate::cost::schedule::simulation::{Order, ScheduleSimulation};
use crate::layouts::composite::ExpandedPlan;

/// The schedule of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanSchedule {
    /// The makespan, seconds.
    pub makespan_s: f64,
    /// The start of each step, for the first layers of each block.
    pub runs: Vec<Timed>,
    /// Whether each step is critical.
    pub critical: Vec<bool>,
    /// Whether each step is a prefetchable collective, see above.
    pub early: Vec<bool>,
    /// Pipelines.
    pub pipelines: Vec<Staged>,
}

/// A step with its start and end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// The step of the plan.
    pub step: usize,
    /// The layer and microbatch, for a step in blocks.
    pub copy: Copy,
    /// Start, seconds.
    pub start_s: f64,
    /// End, seconds: of a sum over layers, or a gather that is kept, each copy has its share.
    pub end_s: f64,
}

/// Layers of a block that are scheduled.
const LAYERS: u64 = 3;

/// The share of a time that is rounding.
const ROUNDING: f64 = 1e-9;

/// Schedules a plan whose steps cost `costs`; the makespan is within `bounds`, from which it could
/// differ only by rounding. That of a pipeline may be longer.
pub(crate) fn schedule(
    plan: &ExpandedPlan<'_>,
    costs: &[StepCost],
    bounds: RangeInclusive<f64>,
) -> PlanSchedule {
    if plan.program.repeats.is_empty() {
        let in_time =
            |run: &ScheduleSimulation<'_>| run.makespan_s() <= bounds.start() * (1.0 + ROUNDING);
        let run = simulation::shortest(plan, costs, plan.dataflow(), in_time);
        let from = (0..plan.steps.len()).map(|step| (step, Copy::default()));
        return of_simulation(plan, run, from).0;
    }
    let program = &plan.program;
    let is_chained = program.collectives == Collectives::Whole;
    let chains = is_chained.then(|| StepChains::new(plan, plan.dataflow(), costs));
    let least_s = |block: RepeatId| chains.as_ref().map_or(0.0, |chains| chains.layers_s(block));
    let pipelines = pipeline_stages::pipelines(plan, costs, |block, costs| {
        layer_s(plan, costs, block).max(least_s(block))
    });
    // Sends between stages are not part of the layers of one device, which are scheduled here.
    let without_hops =
        pipeline_stages::only(plan, costs, |step| !pipeline_stages::hops(program, step));
    let (mut schedule, copies) = laid_out(plan, &without_hops, &[]);
    if pipelines.is_empty() {
        schedule.makespan_s = layered_s(plan, &without_hops);
    } else {
        let around =
            pipeline_stages::only(plan, costs, |step| !pipeline_stages::is_staged(program, step));
        let once_s = pipeline_stages::once_s(plan, costs);
        let staged_s: f64 = pipelines.iter().map(|staged| staged.makespan_s).sum();
        schedule.makespan_s = layered_s(plan, &around) + once_s + staged_s;
    }
    let is_longer = !pipelines.is_empty() && schedule.makespan_s > bounds.end() * (1.0 + ROUNDING);
    schedule.pipelines = pipelines;
    let longest_s = chains.as_ref().map_or(0.0, StepChains::longest_s);
    let least_s = longest_s.max(*bounds.start());
    let most_s = if is_longer { f64::INFINITY } else { *bounds.end() };
    schedule.makespan_s = schedule.makespan_s.max(least_s).min(most_s);
    let any = |marks: &[bool]| {
        let mut marked = vec![false; plan.steps.len()];
        copies.iter().zip(marks).for_each(|(&step, &mark)| marked[step] |= mark);
        marked
    };
    (schedule.critical, schedule.early) = (any(&schedule.critical), any(&schedule.early));
    schedule
}

/// Unrolls so many layers of each block, one less for those in `fewer`.
fn laid_out(plan: &Plan, costs: &[StepCost], fewer: &[RepeatId]) -> (PlanSchedule, Vec<usize>) {
    let counts = |block: RepeatId| {
        plan.program.repeats[block].count.min(if fewer.contains(&block) {
            LAYERS - 1
        } else {
            LAYERS
        })
    };
    let unrolled = unroll::plan(plan, &counts);
    let mut copies: IndexMap<(usize, Copy), f64, FxBuildHasher> = IndexMap::default();
    unrolled.from.iter().for_each(|&from| *copies.entry(from).or_default() += 1.0);
    // Several steps may stand for one: the additions of a sum.
    let first_only: Vec<bool> = plan
        .steps
        .iter()
        .map(|step| plan.program.is_kept_gathered(step.repeat, &step.result))
        .collect();
    let seconds = |from: &(usize, Copy)| {
        if first_only[from.0] && from.1.microbatch > 0 {
            0.0
        } else {
            costs[from.0].seconds / copies[from]
        }
    };
    let cost = |from: &(usize, Copy)| StepCost { seconds: seconds(from), ..costs[from.0].clone() };
    let costs: Vec<StepCost> = unrolled.from.iter().map(cost).collect();
    let dataflow = Dataflow::of_plan(&unrolled.plan);
    let run = ScheduleSimulation::new(&unrolled.plan, &costs, &dataflow, Order::OfProgram).run();
    of_simulation(&unrolled.plan, run, unrolled.from.into_iter())
}

/// The makespan with all layers of `blocks`, where those in `fewer` have one layer less scheduled.
/// Microbatches are extrapolated like their layers.
fn grown(plan: &Plan, costs: &[StepCost], blocks: &[RepeatId], fewer: &mut Vec<RepeatId>) -> f64 {
    let repeats = &plan.program.repeats;
    let more = |block: RepeatId| repeats[block].count.saturating_sub(LAYERS) as f64;
    let is_around = |around: RepeatId, block: RepeatId| {
        around != block && repeats.is_inside(Some(block), around)
    };
    let around = blocks.iter().copied().find(|&block| {
        let has_inner = || blocks.iter().any(|&inner| is_around(block, inner));
        (repeats[block].microbatches_of.is_some() || has_inner()) && more(block) > 0.0
    });
    if let Some(around) = around {
        let others: Vec<RepeatId> =
            blocks.iter().copied().filter(|&block| block != around).collect();
        let inside: Vec<RepeatId> =
            others.iter().copied().filter(|&block| is_around(around, block)).collect();
        let of = |fewer: &mut Vec<RepeatId>, blocks: &[RepeatId]| grown(plan, costs, blocks, fewer);
        let whole_s = of(fewer, &others);
        let here_s = of(fewer, &inside);
        fewer.push(around);
        let less_s = of(fewer, &inside);
        fewer.pop();
        return whole_s + more(around) * (here_s - less_s).max(0.0);
    }
    let laid_out_s = laid_out(plan, costs, fewer).0.makespan_s;
    let mut makespan_s = laid_out_s;
    for &block in blocks.iter().filter(|&&block| more(block) > 0.0) {
        fewer.push(block);
        makespan_s +=
            more(block) * (laid_out_s - laid_out(plan, costs, fewer).0.makespan_s).max(0.0);
        fewer.pop();
    }
    makespan_s
}

/// The makespan with all layers and microbatches of blocks that are in no pipeline.
fn layered_s(plan: &Plan, costs: &[StepCost]) -> f64 {
    let repeats = &plan.program.repeats;
    let blocks = repeats.indices().filter(|&block| {
        repeats[block].reversed.is_none() && plan.program.pipeline(Some(block)).is_none()
    });
    grown(plan, costs, &blocks.collect::<Vec<_>>(), &mut Vec::new())
}

/// The time that a further layer of a block adds to the schedule; for a block with fewer layers
/// than are scheduled, their mean.
fn layer_s(plan: &Plan, costs: &[StepCost], block: RepeatId) -> f64 {
    let repeats = &plan.program.repeats;
    let is_inside = |inner: &RepeatId| *inner != block && repeats.is_inside(Some(*inner), block);
    let inside: Vec<RepeatId> = repeats.indices().filter(is_inside).collect();
    let few_s = grown(plan, costs, &inside, &mut Vec::new());
    match repeats[block].count {
        count if count >= LAYERS => {
            (few_s - grown(plan, costs, &inside, &mut vec![block])).max(0.0)
        }
        count => few_s / count as f64,
    }
}

/// The schedule of a plan without blocks, whose steps are copies of steps of another; and these
/// steps.
fn of_simulation(
    plan: &Plan,
    run: ScheduleSimulation<'_>,
    from: impl Iterator<Item = (usize, Copy)>,
) -> (PlanSchedule, Vec<usize>) {
    let makespan_s = run.makespan_s();
    let critical = critical(&run, makespan_s);
    let early = early(plan, &run, &critical);
    let times = run.start_s.into_iter().zip(run.end_s);
    let timed = |((step, copy), (start_s, end_s))| Timed { step, copy, start_s, end_s };
    let runs: Vec<Timed> = from.zip(times).map(timed).collect();
    let copies = runs.iter().map(|run| run.step).collect();
    (PlanSchedule { makespan_s, runs, critical, early, pipelines: Vec::new() }, copies)
}

/// Steps without slack, found backwards from the end.
fn critical(run: &ScheduleSimulation<'_>, makespan_s: f64) -> Vec<bool> {
    let ScheduleSimulation { costs, start_s, end_s, .. } = run;
    let mut latest_end = vec![makespan_s; costs.len()];
    // A step waits for those that have started before it.
    for &step in run.started.iter().rev() {
        let latest_start = latest_end[step] - costs[step].seconds;
        for &(before, lead_s) in &run.waits[step] {
            latest_end[before] = latest_end[before].min(latest_start + lead_s);
        }
    }
    let rounding = makespan_s * 1e-12;
    let slackless = |step: usize| {
        latest_end[step] - end_s[step] <= rounding
            && end_s[step] > start_s[step]
            && !costs[step].beside_product.is_hidden
    };
    (0..costs.len()).map(slackless).collect()
}

/// Collectives of resident values, and those with slack whose operands exist before the compute
/// above them ends.
fn early(plan: &Plan, run: &ScheduleSimulation<'_>, critical: &[bool]) -> Vec<bool> {
    let mut compute_s: f64 = 0.0;
    let mut early = Vec::with_capacity(run.costs.len());
    for (step, cost) in run.costs.iter().enumerate() {
        let producers = || run.dataflow.producers(step);
        let exists_s = producers().map(|producer| run.end_s[producer]).fold(0.0, f64::max);
        let stays = |operand: &Materialization| {
            matches!(plan.program.values[operand.value].role, Some(Role::Param | Role::State))
        };
        let is_resident =
            producers().next().is_none() && plan.steps[step].operands.iter().all(stays);
        let is_local = !cost.is_move(&plan.steps[step]);
        early.push(
            !is_local
                && cost.seconds > 0.0
                && (is_resident || (!critical[step] && exists_s < compute_s)),
        );
        if is_local {
            compute_s = run.end_s[step];
        }
    }
    early
}
