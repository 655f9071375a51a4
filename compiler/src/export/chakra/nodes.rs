//! The nodes of a rank: the plan's steps with blocks written out, and what they read.

use indexmap::IndexMap;
use shardwise_ir::functions::HostTransfer;
use shardwise_ir::ids::RepeatId;
use shardwise_ir::plan::{Materialization, Step};
use shardwise_ir::unroll::{self, Stage, Unrolled};

use super::super::devices::Devices;
use super::super::json::{Operation, PlanJson, StepJson, TensorJson};
use super::super::walk::collectives::{Cut, moved};
use super::super::walk::{Result, phases, unsupported};
use super::message::{Message, Value, attribute};
use crate::Planned;

/// Types of nodes, by their numbers in Chakra's schema.
const LOAD: u64 = 2;
const STORE: u64 = 3;
const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

/// The version of the schema that is written.
const VERSION: &str = "0.0.4";

/// The nodes that make a value, for each microbatch, or for all.
type Made = Vec<Vec<u64>>;

/// A plan whose traces are written.
pub(super) struct Graph {
    plan: PlanJson,
    unrolled: Unrolled,
    /// For each step of the plan, how often a copy of it runs: once, or for each microbatch of a
    /// pipeline.
    runs: Vec<usize>,
    /// For each step that is written out, of how many it is one: a sum of all microbatches is an
    /// addition for each.
    shares: Vec<usize>,
    /// For each permute, from which device to which blocks go.
    permutes: IndexMap<usize, Vec<[u64; 2]>>,
    /// The groups of ranks along axes, and the number of the first.
    groups: IndexMap<Vec<String>, (usize, Vec<Vec<u64>>)>,
}

impl Graph {
    pub(super) fn of(planned: &Planned) -> Result<Self> {
        let plan = planned.json();
        let program = &planned.plan.program;
        let unrolled = unroll::plan(&planned.plan, &|block: RepeatId| program.repeats[block].count);
        let (mut groups, mut permutes) = (IndexMap::new(), IndexMap::new());
        let devices = Devices::of(&plan);
        let mut next = 0;
        for (number, step) in plan.steps.iter().enumerate() {
            if let Some(Operation::Permute { axes }) = &step.operation {
                permutes.insert(number, devices.relabelled(step, axes));
            }
            if step.operation.as_ref().is_some_and(|it| sends_to_neighbours(it, &step.axes)) {
                return unsupported(&step.value, "windows of a dimension that is split");
            }
            let along = communicated(step);
            if comm_type(step).is_some() && !groups.contains_key(&along) {
                let all = devices.groups(&along);
                let first = next;
                next += all.len();
                groups.insert(along, (first, all));
            }
        }
        let runs = plan.steps.iter().zip(&planned.plan.steps).map(|(json, step)| {
            let Some(pipeline) = program.pipeline(step.repeat) else { return 1 };
            let rows = phases::rows(&plan, &program.dims[pipeline.batch].name);
            if phases::moves_rows(json, &rows) {
                return pipeline.microbatches as usize;
            }
            // Weights that are gathered again for each microbatch.
            let layers = program.layers_per_device(step.repeat).max(1);
            (json.times / layers).max(1) as usize
        });
        let runs = runs.collect();
        let shares = unrolled.from.chunk_by(|a, b| a == b);
        let shares = shares.flat_map(|run| vec![run.len(); run.len()]).collect();
        Ok(Self { plan, unrolled, runs, shares, permutes, groups })
    }

    pub(super) fn ranks(&self) -> u64 {
        Devices::of(&self.plan).count()
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = (usize, &Vec<u64>)> {
        self.groups.values().flat_map(|(first, all)| (*first..).zip(all))
    }

    pub(super) fn trace(&self, rank: u64) -> Vec<u8> {
        let mut writer = Writer {
            graph: self,
            devices: Devices::of(&self.plan),
            rank,
            next: 0,
            tag: 0,
            made: IndexMap::new(),
            bytes: Message::default().bytes(1, VERSION.as_bytes()).delimited(),
        };
        let steps = self.unrolled.plan.steps.iter().zip(&self.unrolled.from);
        for ((step, (number, _)), &share) in steps.zip(&self.shares) {
            writer.step(step, *number, share);
        }
        writer.bytes
    }
}

/// Whether devices send elements to their neighbours for windows.
fn sends_to_neighbours(operation: &Operation, axes: &[String]) -> bool {
    let is_windows = matches!(operation, Operation::Windows { .. } | Operation::Overlap { .. });
    is_windows && !axes.is_empty()
}

/// The axes along which a collective communicates: not those by which devices cut their blocks.
fn communicated(step: &StepJson) -> Vec<String> {
    match &step.operation {
        Some(Operation::ReduceScatter { axes, into, .. } | Operation::AllToAll { axes, into }) => {
            moved(&step.operands[0], axes, into).0
        }
        _ => step.axes.clone(),
    }
}

/// The number of a collective in Chakra's schema.
/// The type of the node of a transfer between the memories of device and host.
fn memory_node(step: &StepJson) -> Option<u64> {
    match &step.operation {
        Some(Operation::Map { function, .. }) if function == HostTransfer::To.name() => Some(STORE),
        Some(Operation::Map { function, .. }) if function == HostTransfer::From.name() => {
            Some(LOAD)
        }
        _ => None,
    }
}

fn comm_type(step: &StepJson) -> Option<u64> {
    match step.operation.as_ref()? {
        Operation::AllReduce { .. } => Some(0),
        Operation::AllGather { .. } => Some(2),
        Operation::AllToAll { .. } => Some(6),
        Operation::ReduceScatter { .. } => Some(7),
        _ => None,
    }
}

/// Writes the trace of a rank.
struct Writer<'g> {
    graph: &'g Graph,
    devices: Devices<'g>,
    rank: u64,
    next: u64,
    /// The tag of the next message: the same on all ranks.
    tag: u64,
    made: IndexMap<Materialization, Made>,
    bytes: Vec<u8>,
}

impl<'g> Writer<'g> {
    fn step(&mut self, step: &Step, number: usize, share: usize) {
        let json = &self.graph.plan.steps[number];
        let runs = self.graph.runs[number];
        let stage = self.graph.unrolled.stages[step.result.value];
        let is_here = self.is_on(stage, self.rank);
        let mut read: Vec<Made> = Vec::new();
        for (operand, of) in step.operands.iter().zip(&json.operands) {
            let from = self.graph.unrolled.stages[operand.value];
            match (from, stage) {
                (Some(from), Some(to)) if from != to => {
                    read.push(self.handed((operand, of), (from, to), runs));
                }
                _ => read.push(self.made.get(operand).cloned().unwrap_or_default()),
            }
        }
        let tags = self.tags(2 * runs);
        if !is_here {
            return;
        }
        let mut made = Made::new();
        for run in 0..runs {
            let needed = needed(&read, run, runs);
            made.push(self.node((number, json, share), needed, runs, tags + 2 * run as u64));
        }
        self.made.insert(step.result.clone(), made);
    }

    /// The first of so many tags.
    fn tags(&mut self, count: usize) -> u64 {
        self.tag += count as u64;
        self.tag - count as u64
    }

    fn is_on(&self, stage: Option<Stage>, rank: u64) -> bool {
        stage.is_none_or(|stage| self.devices.at(rank, self.axis(stage)) == stage.number)
    }

    fn axis(&self, stage: Stage) -> &'g str {
        &self.graph.plan.mesh[stage.axis.index()].axis
    }

    /// What one stage passes to another: sends on the one, receives on the other.
    fn handed(
        &mut self,
        (operand, of): (&Materialization, &TensorJson),
        (from, to): (Stage, Stage),
        runs: usize,
    ) -> Made {
        let tags = self.tags(runs);
        let bytes = self.bytes_of(of) / runs as u64;
        let axis = self.axis(from);
        let here = self.devices.at(self.rank, axis);
        let peer = |other: Stage| self.devices.moved(self.rank, axis, other.number);
        let (sends, receives) = (peer(to), peer(from));
        let read = self.made.get(operand).cloned().unwrap_or_default();
        let mut made = Made::new();
        for run in 0..runs {
            let tag = tags + run as u64;
            if here == from.number {
                let needed = needed(std::slice::from_ref(&read), run, runs);
                self.message(&of.value, (self.rank, sends), (bytes, tag), &needed);
            } else if here == to.number {
                made.push(vec![self.message(&of.value, (receives, self.rank), (bytes, tag), &[])]);
            }
        }
        made
    }

    /// A send or a receive, whichever this rank does.
    fn message(
        &mut self,
        name: &str,
        (from, to): (u64, u64),
        (bytes, tag): (u64, u64),
        needed: &[u64],
    ) -> u64 {
        let kind = if from == self.rank { SEND } else { RECEIVE };
        let attributes = [
            ("comm_src", Value::Int32(from)),
            ("comm_dst", Value::Int32(to)),
            ("comm_size", Value::Int64(bytes)),
            ("comm_tag", Value::Int32(tag)),
        ];
        self.write((name, kind), needed, 0.0, &attributes)
    }

    /// The nodes of one run of a step; those that the result waits for.
    fn node(
        &mut self,
        (number, step, share): (usize, &StepJson, usize),
        needed: Vec<u64>,
        runs: usize,
        tag: u64,
    ) -> Vec<u64> {
        let graph = self.graph;
        if let Some(kind) = comm_type(step) {
            return vec![self.collective(step, kind, &needed, runs)];
        }
        let of = &step.operands;
        match &step.operation {
            Some(Operation::Permute { .. }) => {
                let bytes = self.bytes_of(&of[0]) / runs as u64;
                self.permuted(step, &graph.permutes[&number], (bytes, tag), needed)
            }
            Some(Operation::Roll { dim, distance }) if !step.axes.is_empty() => {
                self.rolled(step, (dim, *distance), (runs, tag), needed)
            }
            // Nothing is computed: the result is there as soon as what it is made of.
            Some(Operation::Carry) => needed,
            _ if step.flops == 0.0 && step.local_bytes == 0 => needed,
            _ => {
                let ops = (step.flops / share as f64).round() as u64;
                let kind = memory_node(step);
                let ops = kind.is_none().then_some(("num_ops", Value::Int64(ops)));
                let size = ("tensor_size", Value::Uint64(step.local_bytes / share as u64));
                let attributes: Vec<_> = ops.into_iter().chain([size]).collect();
                let seconds = step.time_s / share as f64;
                let node = (step.value.as_str(), kind.unwrap_or(COMPUTE));
                vec![self.write(node, &needed, seconds, &attributes)]
            }
        }
    }

    fn collective(&mut self, step: &StepJson, kind: u64, needed: &[u64], runs: usize) -> u64 {
        let along = communicated(step);
        let (first, groups) = &self.graph.groups[&along];
        let cut: u64 = Cut::of(step).iter().map(|cut| self.devices.ways(&cut.own)).product();
        let bytes = self.bytes_of(&step.operands[0]) / (runs as u64 * cut);
        let own = groups.iter().position(|group| group.contains(&self.rank)).unwrap_or(0);
        let axes = self.graph.plan.mesh.iter();
        let involved = axes.map(|axis| along.contains(&axis.axis)).collect();
        let attributes = [
            ("comm_type", Value::Int64(kind)),
            ("comm_size", Value::Int64(bytes)),
            ("pg_name", Value::Text((first + own).to_string())),
            ("involved_dim", Value::Bools(involved)),
        ];
        self.write((&step.value, COLLECTIVE), needed, step.time_s, &attributes)
    }

    /// A block that is sent to the device that has it next.
    fn permuted(
        &mut self,
        step: &StepJson,
        pairs: &[[u64; 2]],
        message: (u64, u64),
        needed: Vec<u64>,
    ) -> Vec<u64> {
        let mut waits = Vec::new();
        for &[from, to] in pairs {
            if from == to && from == self.rank {
                waits.clone_from(&needed);
            } else if from == self.rank {
                self.message(&step.value, (from, to), message, &needed);
            } else if to == self.rank {
                waits.push(self.message(&step.value, (from, to), message, &[]));
            }
        }
        waits
    }

    /// A roll over devices: the two parts of a block go to two devices.
    fn rolled(
        &mut self,
        step: &StepJson,
        (dim, distance): (&str, u64),
        (runs, tag): (usize, u64),
        needed: Vec<u64>,
    ) -> Vec<u64> {
        let of = &step.operands[0];
        let axes = of.dims.iter().find(|it| it.dim == dim).map_or(&[][..], |it| &it.axes);
        let ways = self.devices.ways(axes);
        let size = self.graph.plan.dims.iter().find(|it| it.dim == dim).map_or(1, |it| it.size);
        let length = size.div_ceil(ways).max(1);
        let (blocks, rest) = (distance / length, distance % length);
        let bytes = self.bytes_of(of) / runs as u64;
        let mut waits = Vec::new();
        for (hop, rows, tag) in [(blocks, length - rest, tag), (blocks + 1, rest, tag + 1)] {
            if rows == 0 {
                continue;
            }
            let pairs = self.devices.shifted(axes, hop % ways);
            let part = bytes * rows / length;
            waits.extend(self.permuted(step, &pairs, (part, tag), needed.clone()));
        }
        waits
    }

    /// The bytes of a device's block.
    fn bytes_of(&self, of: &TensorJson) -> u64 {
        let plan = &self.graph.plan;
        let size = |dim: &str| plan.dims.iter().find(|it| it.dim == dim).map_or(1, |it| it.size);
        let lengths = of.dims.iter();
        let lengths = lengths.map(|dim| size(&dim.dim).div_ceil(self.devices.ways(&dim.axes)));
        let elements: u64 = lengths.product();
        let value = plan.values.iter().find(|value| value.value == of.value);
        let bits = value.and_then(|it| shardwise_ir::dtype::DType::from_name(&it.dtype));
        let filled = value.and_then(|it| it.filled).unwrap_or(1.0);
        let bits = bits.map_or(16, shardwise_ir::dtype::DType::bits);
        (elements as f64 * filled * f64::from(bits) / 8.0).ceil() as u64
    }

    fn write(
        &mut self,
        (name, kind): (&str, u64),
        needed: &[u64],
        seconds: f64,
        attributes: &[(&str, Value)],
    ) -> u64 {
        let id = self.next;
        self.next += 1;
        let mut node = Message::default()
            .number(1, id)
            .bytes(2, name.as_bytes())
            .number(3, kind)
            .numbers(5, needed)
            .number(7, (seconds * 1e6).round() as u64)
            .message(10, &attribute("is_cpu_op", &Value::Bool(false)));
        for (name, value) in attributes {
            node = node.message(10, &attribute(name, value));
        }
        self.bytes.extend(node.delimited());
        id
    }
}

/// The nodes that one run of a step waits for: those of its microbatch, where operands have
/// several.
fn needed(read: &[Made], run: usize, runs: usize) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    for made in read {
        if made.len() == runs {
            found.extend(&made[run]);
        } else {
            found.extend(made.iter().flatten());
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
