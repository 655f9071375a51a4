//! Right or wrong: a plan run on simulated devices against the unsharded program.
//!
//! The plan is taken as text, parsed again, and executed step by step: every device holds only its blocks, local operations see only local blocks,
//! and only the collective of a step moves data, by its definition. Nothing of the planner is used, and of the verifier nothing either: what a
//! step does follows from the two shardings that its text names. After every step every device is compared with the unsharded value, replicas
//! included; partial values are compared after putting their parts together.
//!
//! Sizes are scaled down to the smallest that keep every split whole and the dimensions apart (`scale`); data are small integers, so that sums and
//! products are exact in `f64` and equality is plain; functions that are not linear are compared with a tolerance.

mod devices;
mod evaluate;
mod scale;

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;
use ndarray::ArrayD;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{OpKind, Program};
use shardwise_ir::sharding::Pin;

use crate::driver::{check, plan as make_plan};
use crate::failure::Findings;
use crate::options::Options;

pub use scale::Sizes;

/// Relative difference up to which results of functions that are not linear count as equal.
pub const TOLERANCE: f64 = 1e-9;

/// What running a plan showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Statements that were run.
    pub statements: usize,
    /// Devices that were simulated.
    pub devices: usize,
    /// The axes and dimensions as they were run.
    pub setting: String,
    /// Whether they are smaller than the program's.
    pub scaled: bool,
    /// The largest relative difference seen.
    pub largest_error: f64,
    /// What the data were made from.
    pub seed: u64,
    /// The first thing that was wrong.
    pub mismatch: Option<Mismatch>,
}

/// Where a plan went wrong first.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The statement.
    pub statement: String,
    /// The device, as `X=1, Y=0`.
    pub device: String,
    /// The element of its block.
    pub index: Vec<usize>,
    /// What the device has there.
    pub found: f64,
    /// What the unsharded program has there.
    pub expected: f64,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = if self.scaled { ", scaled down" } else { "" };
        let run = format!("{} statements on {} devices ({}{scaled}; seed {})", self.statements, self.devices, self.setting, self.seed);
        match &self.mismatch {
            None => write!(f, "right: {run}, every value on every device as unsharded, largest error {:.1e}", self.largest_error),
            Some(wrong) => write!(
                f,
                "wrong: `{}` gives {} on device {} at {:?}, and {} unsharded; {run}",
                wrong.statement, wrong.found, wrong.device, wrong.index, wrong.expected
            ),
        }
    }
}

/// Plans `source` and runs the plan against the program.
///
/// ```
/// let source = "
/// hardware tpu-v5p
/// mesh X=4
/// dim I=8192, J=8192, K=8192
/// input A[I, J_X], B[J_X, K]
/// C = A *J B
/// output C[I, K_X]
/// ";
/// let verdict = shardwise::verify::verify("example", source, &shardwise::Options::default(), shardwise::verify::Sizes::Scaled, 1)?;
/// assert!(verdict.mismatch.is_none() && verdict.largest_error == 0.0);
/// # Ok::<(), shardwise::Findings>(())
/// ```
pub fn verify(name: &str, source: &str, options: &Options, sizes: Sizes, seed: u64) -> Result<Verdict, Findings> {
    let original = check(name, source, options);
    let Some(program) = original.program else { return Err(original.findings) };
    let text = make_plan(name, source, options)?.plan.to_string();
    let again = check(name, &text, &Options { explicit: true, ..options.clone() });
    let Some(read) = again.program else { return Err(again.findings) };
    let plan = shardwise_ir::verify::explicit(read).map_err(|diags| Findings::new(diags, name, &text))?;
    Ok(execute(&program, &plan, sizes, seed))
}

/// Runs `plan` against `program`, whose values it names.
pub fn execute(program: &Program, plan: &Plan, sizes: Sizes, seed: u64) -> Verdict {
    let (program, plan, scaled) = scale::scale(program, plan, sizes);
    let truth = unsharded(&program, seed);
    let exact = plan.program.ops.iter().all(|op| evaluate::is_exact(&op.kind));
    let mut run = Run::new(&plan, &truth, seed, if exact { 0.0 } else { TOLERANCE });
    let mismatch = run.all();
    Verdict {
        statements: plan.steps.len(),
        devices: run.mesh.len(),
        setting: scale::describe(&plan.program),
        scaled,
        largest_error: run.largest_error,
        seed,
        mismatch,
    }
}

/// Every value of a program, computed whole from the declared ones; all by name, their elements in row-major order. `None` where a declared
/// value is missing, or has another number of elements than the program says.
pub fn evaluate(program: &Program, declared: &BTreeMap<String, Vec<f64>>) -> Option<BTreeMap<String, Vec<f64>>> {
    let mut values = IndexMap::new();
    for (id, value) in program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
        let elements = declared.get(&value.name)?.clone();
        values.insert(id, ArrayD::from_shape_vec(whole_shape(program, id), elements).ok()?);
    }
    let computed = compute(program, values);
    Some(computed.into_iter().map(|(id, array)| (program.values[id].name.clone(), array.iter().copied().collect())).collect())
}

/// Every value of the program by name, computed whole.
fn unsharded(program: &Program, seed: u64) -> IndexMap<String, ArrayD<f64>> {
    let mut values: IndexMap<ValueId, ArrayD<f64>> = IndexMap::new();
    let positive = program.ops.iter().any(|op| evaluate::wants_positive(&op.kind));
    for (id, value) in program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
        values.insert(id, evaluate::data(&whole_shape(program, id), seed ^ evaluate::hash(&value.name), positive));
    }
    compute(program, values).into_iter().map(|(id, array)| (program.values[id].name.clone(), array)).collect()
}

fn whole_shape(program: &Program, value: ValueId) -> Vec<usize> {
    program.values[value].dims.iter().map(|&dim| program.dims[dim].size as usize).collect()
}

/// Adds what the operations give to the declared values.
fn compute(program: &Program, mut values: IndexMap<ValueId, ArrayD<f64>>) -> IndexMap<ValueId, ArrayD<f64>> {
    for op in &program.ops {
        let result = {
            let operands: Vec<&ArrayD<f64>> = op.operands.iter().map(|operand| &values[&operand.value]).collect();
            match op.kind {
                OpKind::Collective(_) => operands[0].clone(),
                _ => evaluate::operation(program, op, &operands),
            }
        };
        values.insert(op.result, result);
    }
    values
}

/// A plan under way on all devices.
struct Run<'a> {
    plan: &'a Plan,
    truth: &'a IndexMap<String, ArrayD<f64>>,
    mesh: devices::Devices,
    held: IndexMap<shardwise_ir::plan::Materialization, Vec<ArrayD<f64>>>,
    tolerance: f64,
    largest_error: f64,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, truth: &'a IndexMap<String, ArrayD<f64>>, seed: u64, tolerance: f64) -> Self {
        let mesh = devices::Devices::new(&plan.program.mesh);
        let mut held = IndexMap::new();
        for (value, declared) in plan.program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
            if let Some(sharding) = declared.home.as_ref().and_then(Pin::exact) {
                let blocks = mesh.distribute(&truth[&declared.name], &sharding, seed);
                held.insert(shardwise_ir::plan::Materialization { value, sharding }, blocks);
            }
        }
        Self { plan, truth, mesh, held, tolerance, largest_error: 0.0 }
    }

    fn all(&mut self) -> Option<Mismatch> {
        (0..self.plan.steps.len()).find_map(|number| self.step(number))
    }

    fn step(&mut self, number: usize) -> Option<Mismatch> {
        let step = &self.plan.steps[number];
        let result: Vec<ArrayD<f64>> = match &step.kind {
            StepKind::Local(op) => {
                let op = &self.plan.program.ops[*op];
                let local = |device: usize| {
                    let operands: Vec<&ArrayD<f64>> = step.operands.iter().map(|operand| &self.held[operand][device]).collect();
                    evaluate::operation(&self.plan.program, op, &operands)
                };
                (0..self.mesh.len()).map(local).collect()
            }
            StepKind::Collective(..) => {
                let (from, to) = (&step.operands[0].sharding, &step.result.sharding);
                self.mesh.move_blocks(&self.held[&step.operands[0]], from, to)
            }
        };
        let wrong = self.compare(number, &result);
        self.held.insert(step.result.clone(), result);
        wrong
    }

    fn compare(&mut self, number: usize, blocks: &[ArrayD<f64>]) -> Option<Mismatch> {
        let step = &self.plan.steps[number];
        let name = &self.plan.program.values[step.result.value].name;
        let whole = self.truth.get(name)?;
        let settled = self.mesh.settle(blocks, &step.result.sharding);
        for (device, block) in settled.iter().enumerate() {
            let expected = self.mesh.block(whole, &step.result.sharding, device);
            if block.shape() != expected.shape() {
                return Some(self.mismatch(number, device, Vec::new(), f64::NAN, f64::NAN));
            }
            for ((index, &found), &wanted) in block.indexed_iter().zip(&expected) {
                let error = difference(found, wanted);
                self.largest_error = self.largest_error.max(error);
                if error > self.tolerance {
                    return Some(self.mismatch(number, device, ndarray::Dimension::slice(&index).to_vec(), found, wanted));
                }
            }
        }
        None
    }

    fn mismatch(&self, number: usize, device: usize, index: Vec<usize>, found: f64, expected: f64) -> Mismatch {
        let statement = print::step(&self.plan.program, &self.plan.steps[number]);
        Mismatch { statement, device: self.mesh.name(&self.plan.program.mesh, device), index, found, expected }
    }
}

/// Relative where numbers are large; two undefined results are the same.
fn difference(a: f64, b: f64) -> f64 {
    #[expect(clippy::float_cmp, reason = "equal infinities have no difference to take")]
    let same = a == b;
    if same || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let error = (a - b).abs() / b.abs().max(1.0);
    if error.is_nan() { f64::INFINITY } else { error }
}
