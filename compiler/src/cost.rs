//! `cost`: memory, FLOPs, traffic and bounds of a program, per statement and in total: the contract
//! `shardwise.cost/1`.
//!
//! A statement is bound by FLOPs or by HBM; the program, with perfect overlap, by compute or by the
//! links of an axis. Crossovers are the sizes of a dimension (one that no parameter has) at which
//! the bound of the program changes while the plan stays the same (`shardwise_passes::crossover`).

pub mod attention;
pub(crate) mod roofline;
mod table;

use serde::Serialize;
use shardwise_ir::Role;
use shardwise_ir::ids::{AxisId, DimId, ValueId};
use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::sharding::{Pin, Sharding};
use shardwise_ir::total;
use shardwise_passes::collective::Refinement;
use shardwise_passes::crossover::{self, Bound};
use shardwise_passes::limits::Limit;
use shardwise_passes::local::{self, LocalWork};
use shardwise_passes::local_shape;
use shardwise_passes::pipeline_stages;
use shardwise_passes::report::StepCost;

use crate::Planned;
use crate::display::units;
use crate::inference::{self, Inference, Sizing, Unsized};
use crate::metrics::{Expected, Metrics};
use crate::planned::link_breakdown::{self, Nodes};
use crate::planned::step_name::links_in_words;
use attention::Attention;

pub(crate) use table::table;

/// Memory, work and bounds of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Always `shardwise.cost/1`.
    pub schema: &'static str,
    /// The program's name.
    pub program: String,
    /// The hardware's name.
    pub hardware: String,
    /// The rates that all times are at: `peak` or `measured`.
    pub rates: &'static str,
    /// Devices of the mesh.
    pub devices: u64,
    /// Parameters.
    pub parameters: Held,
    /// State, such as a KV cache.
    pub state: Held,
    /// Results of the statements.
    pub activations: Activations,
    /// FLOPs of the unsharded program.
    pub flops: f64,
    /// FLOPs of a device on average; times the devices, more than `flops` where devices repeat each
    /// other's work.
    pub device_flops: f64,
    /// The bound of the program with perfect overlap.
    pub verdict: Verdict,
    /// Time, rates and utilisation of a step.
    pub metrics: Metrics,
    /// The time of a step that is expected, with its error; absent where nothing was measured on
    /// the chip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// Busy seconds of each axis' links.
    pub axes: Vec<AxisBusy>,
    /// The crossovers along dimensions that no parameter has, in order of declaration.
    pub thresholds: Vec<Threshold>,
    /// The program as a serving step, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference: Option<Inference>,
    /// Why a program that reads caches is not sized.
    #[serde(skip)]
    pub not_sized: Option<Unsized>,
    /// Every attention whose sequence is sharded, under each way to shard it.
    pub attention: Vec<Attention>,
    /// The plan's statements in order.
    pub statements: Vec<Statement>,
}

/// Resident values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Held {
    /// Elements of the unsharded values.
    pub elements: f64,
    /// Their bytes.
    pub bytes: f64,
    /// Bytes per device.
    pub device_bytes: f64,
}

/// Values that are live for a part of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Activations {
    /// Bytes of all unsharded results together.
    pub bytes: f64,
    /// The largest number of bytes live on a device beside parameters and state: activations, and
    /// with them inputs, gathered parameters, gradients and what an allocator holds.
    pub device_peak_bytes: u64,
}

/// The bound of the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// `compute` or `communication`.
    pub bound: &'static str,
    /// The busiest axis, if any is busy.
    pub axis: Option<String>,
    /// Seconds of compute.
    pub compute_s: f64,
    /// Seconds of the busiest axis.
    pub links_s: f64,
    /// The ratio of the larger to the smaller; absent where nothing is communicated.
    pub factor: Option<f64>,
    /// What the plan waits for.
    #[serde(skip)]
    pub limit: Option<Limit>,
}

/// Busy seconds of an axis' links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AxisBusy {
    /// The axis.
    pub axis: String,
    /// Seconds.
    pub busy_s: f64,
    /// Its placement on nodes of GPUs; absent where it fits into one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// The crossovers along a dimension.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// The dimension.
    pub dim: String,
    /// Its size in the program.
    pub size: u64,
    /// Its size over the number of devices.
    pub per_device: f64,
    /// The crossovers, smallest first; empty where there are none.
    #[serde(rename = "flips")]
    pub crossovers: Vec<Crossover>,
}

/// A crossover.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// The size; not always a whole number.
    pub size: f64,
    /// The size over the number of devices.
    pub per_device: f64,
    /// The bound of the program above it: `compute` or `communication`.
    pub above: &'static str,
}

/// One line of the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// As the plan prints it.
    pub text: String,
    /// FLOPs of a device; 0 for collectives.
    pub flops: f64,
    /// Bytes touched; of a collective, the cost model's `V`.
    pub bytes: f64,
    /// Seconds per execution.
    pub time_s: f64,
    /// How often it runs: the number of layers of its block.
    pub times: u64,
    /// FLOPs a byte of HBM traffic; absent for collectives.
    pub intensity: Option<f64>,
    /// `flops`, `hbm`, or the axes of a collective.
    pub bound: String,
    /// The ratio of the longer of arithmetic and traffic to the shorter; absent for collectives and
    /// where a rate is not known.
    pub factor: Option<f64>,
}

impl Cost {
    /// The JSON text, indented.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl Planned {
    /// Memory, work and bounds of the plan, and its crossovers.
    pub fn cost(&self) -> Cost {
        self.cost_sized(&Sizing::default())
    }

    /// The same, with the requested serving step.
    pub fn cost_sized(&self, sizing: &Sizing) -> Cost {
        self::cost(self, sizing, self.refinement)
    }

    /// The crossovers of [`Planned::cost`] along any dimension, those of parameters included;
    /// `None` if no dimension has this name.
    pub fn threshold(&self, dim: &str) -> Option<Threshold> {
        let dim = self.plan.program.dims.position(|other| other.name == dim)?;
        Some(threshold(self, dim, self.refinement))
    }

    /// FLOPs, bytes, intensity, time and bound of every step, then the totals.
    pub fn cost_table(&self) -> String {
        self.cost_table_sized(&Sizing::default())
    }

    /// The same, with the requested serving step.
    pub fn cost_table_sized(&self, sizing: &Sizing) -> String {
        table(&self.cost_sized(sizing), &self.summary(None), self.capacity_bytes)
    }
}

/// Memory, work and bounds of a plan. `refinement` is that of the plan.
pub(crate) fn cost(planned: &Planned, sizing: &Sizing, refinement: Refinement) -> Cost {
    let plan = &planned.plan;
    let program = &plan.program;
    let report = &planned.report;
    let made = program.ops.iter().filter(|op| !matches!(op.kind, OpKind::Collective(_)));
    let whole_bytes = |value| {
        local_shape::local_bytes(
            program,
            value,
            &Sharding::replicated(program.values[value].dims.len()),
        )
    };
    let sized = inference::inference(planned, sizing);
    Cost {
        schema: "shardwise.cost/1",
        program: planned.name.clone(),
        hardware: program.hardware.name.clone(),
        rates: program.hardware.rates.name(),
        devices: program.mesh.devices(),
        parameters: held(program, Role::Param),
        state: held(program, Role::State),
        activations: Activations {
            bytes: total(made.map(|op| in_all(program, op) * whole_bytes(op.result))),
            device_peak_bytes: (report.memory.peak_bytes - report.memory.resident_bytes).round()
                as u64,
        },
        flops: unsharded_flops(program),
        device_flops: device_flops(planned),
        verdict: verdict(planned),
        metrics: planned.metrics(),
        expected: planned.expected(),
        axes: busy(planned),
        thresholds: crossover::batches(program)
            .into_iter()
            .map(|dim| threshold(planned, dim, refinement))
            .collect(),
        not_sized: sized.as_ref().err().copied().filter(|reason| reason.reads_caches()),
        inference: sized.ok(),
        attention: attention::compare(planned),
        statements: plan
            .steps
            .iter()
            .zip(&report.steps)
            .map(|(step, cost)| statement(planned, step, cost))
            .collect(),
    }
}

fn busy(planned: &Planned) -> Vec<AxisBusy> {
    let axes = planned.plan.program.mesh.axes.iter_enumerated().zip(&planned.report.axis_s);
    axes.map(|((id, axis), &busy_s)| AxisBusy {
        axis: axis.name.clone(),
        busy_s,
        nodes: link_breakdown::nodes(planned, id),
    })
    .collect()
}

pub(crate) fn held(program: &Program, role: Role) -> Held {
    let mut held = Held::default();
    for (id, value) in
        program.values.iter_enumerated().filter(|(_, value)| value.role == Some(role))
    {
        let whole = Sharding::replicated(value.dims.len());
        let copies = pipeline_stages::all_copies(program, id);
        let on_a_device = program.layers_per_device(value.repeat).max(1) as f64;
        let everywhere = copies / on_a_device * program.layer_count(value.repeat) as f64;
        held.elements += everywhere * local_shape::local_elements(program, id, &whole);
        held.bytes += everywhere * local_shape::local_bytes(program, id, &whole);
        let declared = value.declared_sharding.as_ref().and_then(Pin::exact).unwrap_or(whole);
        held.device_bytes += copies * local_shape::local_bytes(program, id, &declared);
    }
    held
}

fn unsharded_flops(program: &Program) -> f64 {
    let whole = |value: ValueId| Sharding::replicated(program.values[value].dims.len());
    let flops = program.ops.iter().map(|op| {
        let operands: Vec<Sharding> =
            op.operands.iter().map(|operand| whole(operand.value)).collect();
        in_all(program, op)
            * local::work(program, op, &operands.iter().collect::<Vec<_>>(), &whole(op.result))
                .flops
    });
    total(flops)
}

/// FLOPs of a device on average: stages of a pipeline differ where they have unequal layers.
fn device_flops(planned: &Planned) -> f64 {
    let steps = planned.plan.steps.iter().zip(&planned.report.steps);
    total(steps.map(|(step, cost)| {
        let StepKind::Local(op) = &step.kind else { return 0.0 };
        let program = &planned.plan.program;
        program.trip_count_on_average(&program.ops[*op]) * cost.flops
    }))
}

/// How often an operation runs on all stages together.
fn in_all(program: &Program, op: &Op) -> f64 {
    program.trip_count_everywhere(op) as f64
}

fn verdict(planned: &Planned) -> Verdict {
    let report = &planned.report;
    let (compute_s, links_s) = (report.compute_s, report.links_s());
    let (bound, factor) = crossover::bound(compute_s, links_s);
    let busiest = report.axis_s.iter().position(|&busy| busy >= links_s).filter(|_| links_s > 0.0);
    let of_axis =
        busiest.map(|number| planned.plan.program.mesh.link_name(AxisId::new(number)).to_owned());
    let axis = of_axis.or_else(|| (links_s > 0.0).then(|| "the host".to_owned()));
    Verdict {
        bound: name(bound),
        axis,
        compute_s,
        links_s,
        factor: Some(factor).filter(|factor| factor.is_finite()),
        limit: planned.limit(),
    }
}

fn name(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute => "compute",
        Bound::Communication => "communication",
    }
}

/// The crossovers along one dimension.
pub(crate) fn threshold(planned: &Planned, dim: DimId, refinement: Refinement) -> Threshold {
    let program = &planned.plan.program;
    let devices = program.mesh.devices() as f64;
    let crossovers = crossover::crossovers(&planned.plan, dim, refinement);
    let crossover = |at: crossover::Crossover| Crossover {
        size: at.size,
        per_device: at.size / devices,
        above: name(at.above),
    };
    let dim = &program.dims[dim];
    Threshold {
        dim: dim.name.clone(),
        size: dim.size,
        per_device: dim.size as f64 / devices,
        crossovers: crossovers.into_iter().map(crossover).collect(),
    }
}

impl Statement {
    /// FLOPs a byte; nothing where no byte is read or written, inside a kernel.
    pub(crate) fn intensity_in_words(&self) -> String {
        let intensity = self.intensity.filter(|_| self.bytes > 0.0 || self.flops <= 0.0);
        intensity.map_or_else(String::new, units::number)
    }
}

fn statement(planned: &Planned, step: &Step, cost: &StepCost) -> Statement {
    let program = &planned.plan.program;
    let (intensity, bound, factor) = match &step.kind {
        StepKind::Local(op) if !cost.is_move(step) => {
            let operands: Vec<&Sharding> =
                step.operands.iter().map(|operand| &operand.sharding).collect();
            let work = local::work(program, &program.ops[*op], &operands, &step.result.sharding);
            let (bound, factor) = roofline(&work);
            (Some(work.flops / work.bytes.max(1.0)), bound.to_owned(), factor)
        }
        _ => (None, links_in_words(program, cost, " "), None),
    };
    let text = print::step(&planned.plan.program, step);
    Statement {
        text,
        flops: cost.flops,
        bytes: cost.bytes,
        time_s: cost.seconds,
        times: cost.times as u64,
        intensity,
        bound,
        factor,
    }
}

/// Which of arithmetic and HBM traffic takes longer, and their ratio.
fn roofline(work: &LocalWork) -> (&'static str, Option<f64>) {
    let (bound, factor) = if work.flops_s >= work.hbm_s {
        ("flops", work.flops_s / work.hbm_s)
    } else {
        ("hbm", work.hbm_s / work.flops_s)
    };
    (bound, Some(factor).filter(|factor| factor.is_finite()))
}
