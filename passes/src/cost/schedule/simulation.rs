//! The simulation of a schedule, event by event.
//!
//! Which order of compute is the shortest is a hard problem (job shops are a special case of it),
//! so that three are tried: the one of the program, which waits for what comes next; the first step
//! of the program that can start (*list scheduling*; Graham 1966); and the one before the longest
//! chain of steps (*critical path* scheduling). The last two are at times longer than the first,
//! where a step that starts early delays another.
//!
//! Programs with blocks have the order of the program alone: chains of layers
//! ([`crate::cost::chains`]) and the bounds of the search rely on it. Memory is that of the
//! program's order everywhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::plan::Plan;

use crate::cost::collective_matmul::{self, Chunked};
use crate::cost::report::StepCost;
use crate::cost::schedule::ROUNDING;
use crate::solver::finite::Finite;

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

/// The order in which a device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// That of the program: what is computed next is waited for.
    OfProgram,
    /// Of the steps that can start, the first in the program.
    FirstThatCan,
    /// Of the steps that can start, the one before the longest chain.
    LongestChain,
}

/// The shortest schedule of all orders, or the first one that is short enough. Of equals the first.
pub(super) fn shortest<'a>(
    plan: &Plan,
    costs: &'a [StepCost],
    dataflow: &'a Dataflow<usize>,
    is_enough: impl Fn(&ScheduleSimulation<'a>) -> bool,
) -> ScheduleSimulation<'a> {
    let run = |order: Order| ScheduleSimulation::new(plan, costs, dataflow, order).run();
    let mut best = run(Order::OfProgram);
    for order in [Order::FirstThatCan, Order::LongestChain] {
        if is_enough(&best) {
            break;
        }
        let other = run(order);
        if other.makespan_s() < best.makespan_s() * (1.0 - ROUNDING) {
            best = other;
        }
    }
    best
}

/// For each step, the longest chain of steps that begins with it, seconds.
fn chains_s(costs: &[StepCost], dataflow: &Dataflow<usize>) -> Vec<f64> {
    let mut chains_s = vec![0.0; costs.len()];
    for step in (0..costs.len()).rev() {
        let after = dataflow.readers(step).map(|(reader, _)| chains_s[reader]);
        chains_s[step] = costs[step].seconds + after.fold(0.0, f64::max);
    }
    chains_s
}

/// An event-driven simulation.
pub(super) struct ScheduleSimulation<'a> {
    pub(super) costs: &'a [StepCost],
    pub(super) dataflow: &'a Dataflow<usize>,
    /// The number of operands that each step still waits for.
    missing: Vec<usize>,
    /// Whether what is computed next is waited for, rather than another one computed.
    is_in_order: bool,
    /// Local steps in the order in which they are wanted, the place of each step there, the places
    /// of those that can start, and how many have.
    local: Vec<usize>,
    place: Vec<Option<usize>>,
    local_ready: BTreeSet<usize>,
    computed: usize,
    computing: bool,
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
    /// All steps in the order in which they started.
    pub(super) started: Vec<usize>,
    pub(super) start_s: Vec<f64>,
    pub(super) end_s: Vec<f64>,
    /// For each step, the steps whose end it waited for, and how much before it.
    pub(super) waits: Vec<Vec<(usize, f64)>>,
}

impl<'a> ScheduleSimulation<'a> {
    /// Before the first step.
    pub(super) fn new(
        plan: &Plan,
        costs: &'a [StepCost],
        dataflow: &'a Dataflow<usize>,
        order: Order,
    ) -> Self {
        let steps = costs.len();
        let mut local: Vec<usize> =
            (0..steps).filter(|&step| !costs[step].is_move(&plan.steps[step])).collect();
        if order == Order::LongestChain {
            let chains_s = chains_s(costs, dataflow);
            local.sort_by(|&a, &b| chains_s[b].total_cmp(&chains_s[a]));
        }
        let mut place = vec![None; steps];
        local.iter().enumerate().for_each(|(at, &step)| place[step] = Some(at));
        let axes = plan.program.mesh.axes.len();
        let mut run = Self {
            costs,
            dataflow,
            missing: (0..steps).map(|step| dataflow.producers(step).count()).collect(),
            is_in_order: order == Order::OfProgram,
            local,
            place,
            local_ready: BTreeSet::new(),
            computed: 0,
            computing: false,
            links: costs.iter().map(|cost| links(cost, axes)).collect(),
            ready: BTreeMap::new(),
            busy: vec![false; axes + 1],
            last_on: vec![None; axes + 1],
            last_local: None,
            chunked: collective_matmul::chunked(plan, costs, dataflow),
            running: BinaryHeap::new(),
            started: Vec::with_capacity(steps),
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

    /// When the last step ends.
    pub(super) fn makespan_s(&self) -> f64 {
        self.end_s.iter().copied().fold(0.0, f64::max)
    }

    /// All steps.
    pub(super) fn run(mut self) -> Self {
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
        self
    }

    /// A step whose operands exist.
    fn offer(&mut self, step: usize) {
        if let Some(place) = self.place[step] {
            self.local_ready.insert(place);
        } else {
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
        if self.place[step].is_some() {
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
        if let Some(place) = self.next_local() {
            self.local_ready.remove(&place);
            self.computed += 1;
            self.computing = true;
            let next = self.local[place];
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

    /// The place of the local step that starts next, if one can.
    fn next_local(&self) -> Option<usize> {
        let first = self.local_ready.first().copied();
        first.filter(|&place| !self.computing && (!self.is_in_order || place == self.computed))
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
        self.started.push(step);
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
