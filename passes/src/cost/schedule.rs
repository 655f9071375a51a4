//! The schedule of a plan: compute in program order, a collective as soon as its operand exists and
//! the links of its axes are free.
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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

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
use crate::cost::collective_matmul::{self, Chunked};
use crate::cost::pipeline_stages::{self, Staged};
use crate::cost::report::StepCost;
use crate::layouts::composite::ExpandedPlan;
use crate::solver::finite::Finite;

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
        let (schedule, _) = flat(
            plan,
            plan.dataflow(),
            costs,
            (0..plan.steps.len()).map(|step| (step, Copy::default())),
        );
        return schedule;
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
    flat(&unrolled.plan, &dataflow, &costs, unrolled.from.into_iter())
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

/// Schedules a plan without blocks, whose steps are copies of steps of another; and these steps.
fn flat(
    plan: &Plan,
    dataflow: &Dataflow<usize>,
    costs: &[StepCost],
    from: impl Iterator<Item = (usize, Copy)>,
) -> (PlanSchedule, Vec<usize>) {
    let mut run = ScheduleSimulation::new(plan, costs, dataflow);
    run.all();
    let ScheduleSimulation { start_s, end_s, waits, .. } = run;
    let makespan_s = end_s.iter().copied().fold(0.0, f64::max);
    let critical = critical(&waits, costs, &start_s, &end_s, makespan_s);
    let early = early(plan, costs, dataflow, &end_s, &critical);
    let times = start_s.into_iter().zip(end_s);
    let timed = |((step, copy), (start_s, end_s))| Timed { step, copy, start_s, end_s };
    let runs: Vec<Timed> = from.zip(times).map(timed).collect();
    let copies = runs.iter().map(|run| run.step).collect();
    (PlanSchedule { makespan_s, runs, critical, early, pipelines: Vec::new() }, copies)
}

/// The links that a step uses, in a mesh of so many axes.
fn links(cost: &StepCost, axes: usize) -> Vec<usize> {
    let of_axes = cost.links.iter().map(|axis| axis.index());
    of_axes.chain(cost.uses_host.then_some(axes)).collect()
}

/// What ends at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A step.
    End(usize),
    /// What a step waits for: the other one's last chunks.
    Release(usize),
}

/// An event-driven simulation.
struct ScheduleSimulation<'a> {
    costs: &'a [StepCost],
    dataflow: &'a Dataflow<usize>,
    /// The number of operands that each step still waits for.
    missing: Vec<usize>,
    /// Local steps in program order, and the number that has started.
    local: Vec<usize>,
    started: usize,
    computing: bool,
    is_local: Vec<bool>,
    /// The links that each step uses: those of axes by their number, then that to the host.
    links: Vec<Vec<usize>>,
    /// Collectives that could start, by the links that they use.
    ready: BTreeMap<Vec<usize>, BTreeSet<usize>>,
    /// For each link, whether it is in use, and the step that used it last.
    busy: Vec<bool>,
    last_on: Vec<Option<usize>>,
    last_local: Option<usize>,
    /// For each step, the one that it runs beside.
    chunked: Vec<Option<Chunked>>,
    running: BinaryHeap<Reverse<(Finite, Event)>>,
    start_s: Vec<f64>,
    end_s: Vec<f64>,
    /// For each step, the steps whose end it waited for, and how much before it.
    waits: Vec<Vec<(usize, f64)>>,
}

impl<'a> ScheduleSimulation<'a> {
    fn new(plan: &Plan, costs: &'a [StepCost], dataflow: &'a Dataflow<usize>) -> Self {
        let is_local: Vec<bool> =
            plan.steps.iter().zip(costs).map(|(step, cost)| !cost.is_move(step)).collect();
        let steps = costs.len();
        let axes = plan.program.mesh.axes.len();
        let mut run = Self {
            costs,
            dataflow,
            missing: (0..steps).map(|step| dataflow.producers(step).count()).collect(),
            local: (0..steps).filter(|&step| is_local[step]).collect(),
            started: 0,
            computing: false,
            is_local,
            links: costs.iter().map(|cost| links(cost, axes)).collect(),
            ready: BTreeMap::new(),
            busy: vec![false; axes + 1],
            last_on: vec![None; axes + 1],
            last_local: None,
            chunked: collective_matmul::chunked(plan, costs, dataflow),
            running: BinaryHeap::new(),
            start_s: vec![0.0; steps],
            end_s: vec![0.0; steps],
            waits: vec![Vec::new(); steps],
        };
        for step in 0..steps {
            if run.missing[step] == 0 {
                run.offer(step);
            }
        }
        run
    }

    fn all(&mut self) {
        self.start_what_can(0.0);
        while let Some(Reverse((Finite(now), event))) = self.running.pop() {
            self.happen(event);
            // Steps that end at the same time release their resources together.
            while let Some(&Reverse((Finite(then), other))) = self.running.peek() {
                if then > now {
                    break;
                }
                self.running.pop();
                self.happen(other);
            }
            self.start_what_can(now);
        }
    }

    /// A step whose operands exist.
    fn offer(&mut self, step: usize) {
        if !self.is_local[step] {
            self.ready.entry(self.links[step].clone()).or_default().insert(step);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::End(step) => self.finish(step),
            Event::Release(step) => self.release(step),
        }
    }

    /// One more of what a step waits for is there.
    fn release(&mut self, step: usize) {
        self.missing[step] -= 1;
        if self.missing[step] == 0 {
            self.offer(step);
        }
    }

    /// How much before the end of one step another, which reads its result, may start.
    fn lead_s(&self, first: usize, then: usize) -> f64 {
        let chunked = self.chunked[then].filter(|chunked| chunked.first == first);
        chunked.map_or(0.0, |chunked| chunked.lead_s)
    }

    fn finish(&mut self, step: usize) {
        if self.is_local[step] {
            self.computing = false;
        }
        for &link in &self.links[step] {
            self.busy[link] = false;
        }
        let dataflow = self.dataflow;
        for (reader, _) in dataflow.readers(step) {
            if self.lead_s(step, reader) == 0.0 {
                self.release(reader);
            }
        }
    }

    fn start_what_can(&mut self, now: f64) {
        if let Some(&next) =
            self.local.get(self.started).filter(|&&next| !self.computing && self.missing[next] == 0)
        {
            self.started += 1;
            self.computing = true;
            let before = self.last_local.replace(next);
            self.start(next, now, before.map(|before| (before, 0.0)).into_iter().collect());
        }
        while let Some(next) = self.next_collective() {
            let links = &self.links[next];
            self.ready.get_mut(links).expect("it was found there").remove(&next);
            let mut before = Vec::new();
            for &link in links {
                self.busy[link] = true;
                before.extend(self.last_on[link].replace(next).map(|before| (before, 0.0)));
            }
            self.start(next, now, before);
        }
    }

    /// The first collective in program order that can start.
    fn next_collective(&self) -> Option<usize> {
        let free =
            self.ready.iter().filter(|(links, _)| links.iter().all(|&link| !self.busy[link]));
        free.filter_map(|(_, steps)| steps.first().copied()).min()
    }

    fn start(&mut self, step: usize, now: f64, mut before: Vec<(usize, f64)>) {
        let dataflow = self.dataflow;
        before.extend(dataflow.producers(step).map(|first| (first, self.lead_s(first, step))));
        self.waits[step] = before;
        let end_s = now + self.costs[step].seconds;
        (self.start_s[step], self.end_s[step]) = (now, end_s);
        self.running.push(Reverse((Finite(end_s), Event::End(step))));
        for (reader, _) in dataflow.readers(step) {
            let lead_s = self.lead_s(step, reader);
            if lead_s > 0.0 {
                let release_s = (end_s - lead_s).max(now);
                self.running.push(Reverse((Finite(release_s), Event::Release(reader))));
            }
        }
    }
}

/// Steps without slack, found backwards from the end.
fn critical(
    waits: &[Vec<(usize, f64)>],
    costs: &[StepCost],
    start_s: &[f64],
    end_s: &[f64],
    makespan_s: f64,
) -> Vec<bool> {
    let mut latest_end = vec![makespan_s; costs.len()];
    let mut order: Vec<usize> = (0..costs.len()).collect();
    // A step of duration zero ends when it starts: program order decides which one waits.
    order.sort_by(|&a, &b| {
        start_s[b].total_cmp(&start_s[a]).then(end_s[b].total_cmp(&end_s[a])).then(b.cmp(&a))
    });
    for step in order {
        let latest_start = latest_end[step] - costs[step].seconds;
        for &(before, lead_s) in &waits[step] {
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
fn early(
    plan: &Plan,
    costs: &[StepCost],
    dataflow: &Dataflow<usize>,
    end_s: &[f64],
    critical: &[bool],
) -> Vec<bool> {
    let mut compute_s: f64 = 0.0;
    let mut early = Vec::with_capacity(costs.len());
    for (step, cost) in costs.iter().enumerate() {
        let exists_s = dataflow.producers(step).map(|producer| end_s[producer]).fold(0.0, f64::max);
        let stays = |operand: &Materialization| {
            matches!(plan.program.values[operand.value].role, Some(Role::Param | Role::State))
        };
        let is_resident = dataflow.producers(step).next().is_none()
            && plan.steps[step].operands.iter().all(stays);
        let is_local = !cost.is_move(&plan.steps[step]);
        early.push(
            !is_local
                && cost.seconds > 0.0
                && (is_resident || (!critical[step] && exists_s < compute_s)),
        );
        if is_local {
            compute_s = end_s[step];
        }
    }
    early
}
