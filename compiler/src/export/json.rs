//! The plan as JSON: the stable contract `shardwise.plan/2`. Fields may be added; none is renamed
//! or removed.
//!
//! Version 2 says everything that is needed to run a plan: sizes, declarations, blocks, and of each
//! step what it does with every constant. Documents of version 1 are read too; they lack that.

mod operation;
mod pipelines;
mod structure;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::Axis;
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{KernelPart, Phase, Program};
use shardwise_ir::sharding::{AxisRef, Reduction};
use shardwise_passes::report::{Report, StepCost};

use crate::Planned;
use crate::metrics::{Expected, Metrics};
use crate::planned::link_breakdown::{self, Nodes};
use crate::planned::parallelism::AxisRoles;
use shardwise_ir::print;

pub use operation::{Argument, Operation};
pub use pipelines::{PipelineJson, StageJson};
pub use structure::{BlockJson, NodeJson, OutputJson, SizeJson, StagesJson, ValueJson, YieldJson};

/// The version that is written.
const SCHEMA: &str = "shardwise.plan/2";

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanJson {
    /// `shardwise.plan/2`; documents of version 1 lack what is marked so.
    pub schema: String,
    /// The program's name: its file's, without folder and ending.
    pub program: String,
    /// `search`, `textbook`, or `explicit` for a program that was a plan already.
    pub strategy: String,
    /// The objective of the search: `serial`, `comm`, `overlap` or `scheduled`.
    pub objective: String,
    /// The hardware's name.
    pub hardware: String,
    /// The rates that all times are at, `peak` or `measured`; empty in plans of earlier versions.
    #[serde(default)]
    pub rates: String,
    /// The axes in order.
    pub mesh: Vec<AxisJson>,
    /// As what each axis of more than one device acts; absent for programs without weights, and in
    /// plans of earlier versions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub parallelism: Vec<AxisRoles>,
    /// Whether the plan is proven optimal, and its lower bound.
    pub optimality: OptimalityJson,
    /// Its costs.
    pub cost: CostJson,
    /// Time, rates and utilisation of a step; absent in plans of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub metrics: Option<Metrics>,
    /// The time of a step that is expected, with its error; absent where nothing was measured on
    /// the chip, and in plans of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<Expected>,
    /// What was regrouped, equal but for rounding, and what was computed once: lines for people,
    /// as in the printed plan; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// The costs of the textbook's plan.
    pub textbook: TextbookJson,
    /// The memory of a device.
    pub memory: MemoryJson,
    /// Pipelines; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pipelines: Vec<PipelineJson>,
    /// The dimensions (from version 2 on).
    #[serde(default)]
    pub dims: Vec<SizeJson>,
    /// All values, the declared ones first (from version 2 on).
    #[serde(default)]
    pub values: Vec<ValueJson>,
    /// The outputs in order (from version 2 on).
    #[serde(default)]
    pub outputs: Vec<OutputJson>,
    /// The blocks (from version 2 on).
    #[serde(default)]
    pub blocks: Vec<BlockJson>,
    /// The steps in their blocks (from version 2 on).
    #[serde(default)]
    pub body: Vec<NodeJson>,
    /// The steps in order.
    pub steps: Vec<StepJson>,
}

/// A mesh axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisJson {
    /// Its name.
    pub axis: String,
    /// Devices along it.
    pub size: u64,
    /// `ring`, `line`, `switch` or `dcn`.
    pub kind: String,
    /// Seconds that its links are busy.
    pub busy_s: f64,
    /// Its placement on nodes of GPUs; absent where it fits into one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nodes: Option<Nodes>,
}

/// Whether the plan is proven optimal, and its lower bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OptimalityJson {
    /// `optimal` (proven) or `bounded` (no plan is below `lower_bound_s`, which is 0 without a
    /// search).
    pub status: String,
    /// No plan is cheaper than this, in seconds of the objective.
    pub lower_bound_s: f64,
    /// Other shardings of open declarations from which a plan is as cheap, an example for each
    /// declaration.
    pub alternatives: Vec<String>,
}

/// Times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostJson {
    /// The sum of all steps.
    pub serial_s: f64,
    /// The sum of all collectives.
    pub comm_s: f64,
    /// The sum of all local operations.
    pub compute_s: f64,
    /// The bubble: seconds in which a device is idle while pipelines fill and drain; absent without
    /// pipelines.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bubble_s: Option<f64>,
    /// Busy seconds of the link to the host; absent where nothing is sent there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host_s: Option<f64>,
    /// The busiest resource: a lower bound on any schedule.
    pub overlap_s: f64,
    /// The plan's own schedule.
    pub scheduled_s: f64,
}

/// The textbook's plan in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextbookJson {
    /// The sum of its steps, seconds.
    pub serial_s: f64,
    /// The sum of its collectives, seconds.
    pub comm_s: f64,
}

/// Bytes of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryJson {
    /// Parameters and state.
    pub resident_bytes: u64,
    /// Resident bytes and the peak of live ones.
    pub peak_bytes: u64,
    /// Bytes of a device in the memory of its host; absent where nothing is sent there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host_bytes: Option<u64>,
    /// The capacity of the chip; `null` where it is not known.
    pub capacity_bytes: Option<u64>,
    /// What is held at the peak, by kind, largest first.
    #[serde(default)]
    pub held: Vec<HeldJson>,
}

/// The bytes of a kind at the peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldJson {
    /// `parameters`, `state`, `gathered parameters`, `inputs`, `activations`, `gradients` or
    /// `allocator`.
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
}

/// One line of the plan.
#[expect(clippy::struct_excessive_bools, reason = "each says something of its own")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepJson {
    /// The kind of its operation.
    pub kind: String,
    /// What it does, with all constants (from version 2 on).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation: Option<Operation>,
    /// The axes over which devices communicate or slice; empty for local operations.
    pub axes: Vec<String>,
    /// The value that it produces.
    pub value: String,
    /// Its operands.
    pub operands: Vec<TensorJson>,
    /// Its result.
    pub result: TensorJson,
    /// The cost model's `V` for collectives (a device's block, for `all_to_all` and `permute`),
    /// else the bytes touched.
    pub local_bytes: u64,
    /// FLOPs of a device.
    pub flops: f64,
    /// Seconds per execution.
    pub time_s: f64,
    /// How often it runs: the number of layers of its `repeat`, 1 outside.
    #[serde(default = "once")]
    pub times: u64,
    /// Whether it is critical: a longer step makes the schedule longer.
    pub critical: bool,
    /// Whether it is a prefetchable collective: its operand is resident, or it has slack and its
    /// operand exists before the compute above it ends.
    pub may_run_early: bool,
    /// Seconds of a collective in which the product that reads or produces its value runs beside
    /// it, in chunks; absent where it runs whole.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside_product_s: Option<f64>,
    /// `forward`, `backward` or `optimizer`; empty in version 1.
    #[serde(default)]
    pub phase: String,
    /// The number of the kernel that it is a part of; absent where it is one alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kernel: Option<u32>,
    /// Whether the backward part computes its result again rather than keeping it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub rematerialized: bool,
    /// Whether an earlier step had the same result, which was not kept: compilers that merge
    /// equal expressions must not merge the two.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub again: bool,
    /// The line as the plan prints it.
    pub text: String,
}

/// A value in one of its shardings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TensorJson {
    /// Its name.
    pub value: String,
    /// Its dimensions in order.
    pub dims: Vec<DimJson>,
    /// Axes over which it is still to be reduced.
    pub unreduced: Vec<String>,
    /// The reduction: `sum`, `max` or `min`; absent where nothing is pending.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reduction: Option<String>,
}

/// A dimension and the axes that split it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DimJson {
    /// The dimension.
    pub dim: String,
    /// The axes, major to minor.
    pub axes: Vec<String>,
}

fn once() -> u64 {
    1
}

/// The JSON form of a plan.
pub fn plan(planned: &Planned) -> PlanJson {
    let program = &planned.plan.program;
    let report = &planned.report;
    PlanJson {
        schema: SCHEMA.to_owned(),
        program: planned.name.clone(),
        strategy: planned.strategy_name().to_owned(),
        objective: planned.objective.name().to_owned(),
        hardware: program.hardware.name.clone(),
        rates: program.hardware.rates.name().to_owned(),
        mesh: mesh(planned),
        parallelism: planned.parallelism(),
        optimality: OptimalityJson {
            status: planned.status_name().to_owned(),
            lower_bound_s: planned.lower_bound_s(),
            alternatives: planned.alternatives(),
        },
        cost: cost(report),
        metrics: Some(planned.metrics()),
        expected: planned.expected(),
        notes: planned.notes.clone(),
        textbook: TextbookJson {
            serial_s: planned.textbook.serial_s,
            comm_s: planned.textbook.comm_s,
        },
        memory: MemoryJson {
            resident_bytes: report.memory.resident_bytes.round() as u64,
            peak_bytes: report.memory.peak_bytes.round() as u64,
            host_bytes: Some(report.memory.host_bytes.round() as u64).filter(|&bytes| bytes > 0),
            capacity_bytes: planned.capacity_bytes.map(|bytes| bytes as u64),
            held: report
                .held
                .iter()
                .map(|&(kind, bytes)| HeldJson {
                    kind: kind.name().to_owned(),
                    bytes: bytes.round() as u64,
                })
                .collect(),
        },
        pipelines: pipelines::of(planned),
        dims: structure::sizes(&planned.plan),
        values: structure::values(program),
        outputs: structure::outputs(&planned.plan),
        blocks: structure::blocks(&planned.plan),
        body: structure::body(&planned.plan),
        steps: steps(planned),
    }
}

fn mesh(planned: &Planned) -> Vec<AxisJson> {
    let axes = planned.plan.program.mesh.axes.iter_enumerated().zip(&planned.report.axis_s);
    let one = |((id, axis), &busy_s): ((AxisId, &Axis), &f64)| {
        let nodes = link_breakdown::nodes(planned, id);
        AxisJson {
            axis: axis.name.clone(),
            size: axis.size,
            kind: axis.kind().name().to_owned(),
            busy_s,
            nodes,
        }
    };
    axes.map(one).collect()
}

fn cost(report: &Report) -> CostJson {
    CostJson {
        serial_s: report.serial_s,
        comm_s: report.comm_s,
        compute_s: report.compute_s,
        bubble_s: (!report.schedule.pipelines.is_empty()).then_some(report.bubble_s),
        host_s: Some(report.host_s).filter(|&busy| busy > 0.0),
        overlap_s: report.overlap_s,
        scheduled_s: report.schedule.makespan_s,
    }
}

fn steps(planned: &Planned) -> Vec<StepJson> {
    let mut phase = Phase::default();
    let steps = planned.plan.steps.iter().enumerate().map(|(number, step)| {
        // A collective is in the part of the step that it is found in.
        if let StepKind::Local(op) = step.kind {
            phase = planned.plan.program.ops[op].phase;
        }
        step_json(planned, number, phase)
    });
    steps.collect()
}

fn step_json(planned: &Planned, number: usize, phase: Phase) -> StepJson {
    let (step, cost, schedule) =
        (&planned.plan.steps[number], &planned.report.steps[number], &planned.report.schedule);
    let program = &planned.plan.program;
    let operation = Operation::of(program, step);
    let kernel = kernel(&planned.plan, step);
    StepJson {
        kind: operation.kind().to_owned(),
        operation: Some(operation),
        axes: axes(program, step, cost),
        value: program.values[step.result.value].name.clone(),
        operands: step.operands.iter().map(|operand| tensor(program, operand)).collect(),
        result: tensor(program, &step.result),
        local_bytes: cost.bytes.round() as u64,
        flops: cost.flops,
        time_s: cost.seconds,
        times: cost.times as u64,
        critical: schedule.critical[number],
        may_run_early: schedule.early[number],
        beside_product_s: Some(cost.beside_product.seconds).filter(|&seconds| seconds > 0.0),
        phase: phase.name().to_owned(),
        kernel: kernel.number,
        rematerialized: kernel.is_recomputed(),
        again: planned.plan.steps[..number].iter().any(|earlier| earlier.result == step.result),
        text: print::step(&planned.plan.program, step),
    }
}

/// The axes of a collective as written, and those over which an operation sends data itself.
fn axes(program: &Program, step: &Step, cost: &StepCost) -> Vec<String> {
    match &step.kind {
        StepKind::Local(_) => {
            cost.axes.iter().map(|&axis| program.mesh.axes[axis].name.clone()).collect()
        }
        StepKind::Collective(collective, _) => names(program, &collective.axes),
    }
}

fn kernel(plan: &Plan, step: &Step) -> KernelPart {
    match step.kind {
        StepKind::Local(op) => plan.program.ops[op].kernel,
        StepKind::Collective(..) => KernelPart::default(),
    }
}

fn names(program: &Program, axes: &[AxisRef]) -> Vec<String> {
    axes.iter().map(|axis| program.mesh.axes[axis.axis()].name.clone()).collect()
}

fn tensor(program: &Program, material: &Materialization) -> TensorJson {
    let value = &program.values[material.value];
    let dims = value.dims.iter().zip(&material.sharding.dims);
    let unreduced = &material.sharding.unreduced;
    TensorJson {
        value: value.name.clone(),
        dims: dims
            .map(|(&dim, axes)| DimJson {
                dim: program.dims[dim].name.clone(),
                axes: names(program, axes),
            })
            .collect(),
        unreduced: names(program, unreduced.axes()),
        reduction: (!unreduced.is_empty()).then(|| reduction(unreduced.kind()).to_owned()),
    }
}

/// How partial values are combined, by name.
fn reduction(kind: Reduction) -> &'static str {
    match kind {
        Reduction::Sum => "sum",
        Reduction::Max => "max",
        Reduction::Min => "min",
    }
}

impl PlanJson {
    /// The JSON text, indented.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// The JSON Schema (draft 2020-12) of [`PlanJson`].
pub fn schema() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(PlanJson)).unwrap_or_default()
}
