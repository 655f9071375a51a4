//! A plan under way on all devices, compared with the unsharded program after every statement.

use index_vec::IndexVec;
use indexmap::IndexMap;
use ndarray::ArrayD;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::{Materialization, Plan, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{Program, Value};
use shardwise_ir::sharding::{AxisList, AxisRef, Pin, Sharding};

use super::devices::{Blocks, Devices, Extent};
use super::evaluate::Place;
use super::scale::{self, Batch};
use super::unsharded::{Truth, largest, shape};
use super::verdict::{Fault, Mismatch};
use super::{collectives, evaluate};

pub(super) struct Run<'a> {
    plan: &'a Plan,
    /// The unsharded values, by the plan's ids, where the program has them.
    truth: IndexVec<ValueId, Option<ArrayD<f64>>>,
    pub(super) mesh: Devices,
    extents: IndexVec<DimId, Extent>,
    held: IndexMap<Materialization, Blocks>,
    tolerance: f64,
    pub(super) largest_error: f64,
}

impl<'a> Run<'a> {
    pub(super) fn new(plan: &'a Plan, truth: &Truth, batches: &[Batch], (seed, tolerance): (u64, f64)) -> Self {
        let program = &plan.program;
        let truth: IndexVec<ValueId, _> = program.values.iter().map(|value| truth.of(program, value, batches)).collect();
        let mut run = Self {
            plan,
            truth,
            mesh: Devices::new(&program.mesh),
            extents: scale::extents(plan),
            held: IndexMap::new(),
            tolerance,
            largest_error: 0.0,
        };
        for (value, declared) in program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
            let sharding = declared.home.as_ref().and_then(Pin::exact);
            if let (Some(sharding), Some(whole)) = (sharding, &run.truth[value]) {
                let blocks = run.mesh.distribute(whole, &run.extents_of(value), &sharding, seed);
                run.held.insert(Materialization { value, sharding }, blocks);
            }
        }
        run
    }

    fn extents_of(&self, value: ValueId) -> Vec<Extent> {
        self.plan.program.values[value].dims.iter().map(|&dim| self.extents[dim]).collect()
    }

    /// Runs everything; the first thing that is wrong.
    pub(super) fn all(&mut self, program: &Program, progress: &dyn Fn(usize, usize)) -> Option<Mismatch> {
        let steps = self.plan.steps.len();
        for number in 0..steps {
            if let Err(fault) = self.step(number) {
                return Some(Mismatch { statement: print::step(&self.plan.program, &self.plan.steps[number]), fault });
            }
            progress(number + 1, steps);
        }
        self.missing(program)
    }

    fn step(&mut self, number: usize) -> Result<(), Fault> {
        let step = &self.plan.steps[number];
        let blocks = match &step.kind {
            StepKind::Local(op) => {
                let op = &self.plan.program.ops[*op];
                let operands = step.operands.iter().map(|operand| self.read(operand)).collect::<Result<Vec<_>, _>>()?;
                let local = |device: usize| {
                    let blocks: Vec<&ArrayD<f64>> = operands.iter().map(|operand| &operand[device]).collect();
                    let starts = |of: &Materialization| self.mesh.starts(&self.extents_of(of.value), &of.sharding, device);
                    let shape = self.mesh.shape(&self.extents_of(step.result.value), &step.result.sharding, device);
                    let place = Place { starts: step.operands.iter().map(starts).collect(), shape };
                    evaluate::operation(&self.plan.program, op, &blocks, &place).ok_or_else(|| Fault::Unfit { device: self.name(device) })
                };
                (0..self.mesh.len()).map(local).collect::<Result<Blocks, _>>()?
            }
            StepKind::Collective(collective, _) => {
                let from = &step.operands[0];
                let to = collectives::result(&self.plan.program.mesh, collective, &from.sharding, &step.result.sharding)
                    .ok_or(Fault::NotApplicable)?;
                let moved = self.mesh.move_blocks(self.read(from)?, &self.extents_of(from.value), &from.sharding, &to);
                moved.ok_or(Fault::NotApplicable)?
            }
        };
        self.compare(&step.result, &blocks)?;
        self.held.insert(step.result.clone(), blocks);
        Ok(())
    }

    fn read(&self, operand: &Materialization) -> Result<&Blocks, Fault> {
        let missing = || Fault::Missing { operand: print::materialization(&self.plan.program, operand) };
        self.held.get(operand).ok_or_else(missing)
    }

    fn name(&self, device: usize) -> String {
        self.mesh.name(&self.plan.program.mesh, device)
    }

    /// Every device's block, pending parts put together, against the block that its sharding cuts from the unsharded value.
    fn compare(&mut self, result: &Materialization, blocks: &Blocks) -> Result<(), Fault> {
        let Some(whole) = &self.truth[result.value] else { return Ok(()) };
        let Sharding { unreduced, .. } = &result.sharding;
        let settled = self.mesh.reduce(blocks, unreduced.axes(), unreduced.kind()).ok_or(Fault::Parts)?;
        let extents = self.extents_of(result.value);
        let unit = largest(whole).max(1.0);
        for (device, block) in settled.iter().enumerate() {
            let expected = self.mesh.block(whole, &extents, &result.sharding, device);
            if block.shape() != expected.shape() {
                return Err(Fault::Shape { device: self.name(device), found: shape(block), expected: shape(&expected) });
            }
            for ((index, &found), &expected) in block.indexed_iter().zip(&expected) {
                let error = difference(found, expected, unit);
                self.largest_error = self.largest_error.max(error);
                if error > self.tolerance {
                    let index = ndarray::Dimension::slice(&index).to_vec();
                    return Err(Fault::Number { device: self.name(device), index, found, expected });
                }
            }
        }
        Ok(())
    }

    /// What the program's brackets ask for, outputs and left sides, and the plan never holds. A plan may do without an intermediate value.
    fn missing(&self, program: &Program) -> Option<Mismatch> {
        let outputs = program.outputs.iter().map(|output| (output.value, &output.pin));
        let planned = |value: &Value| self.plan.program.values.iter().any(|other| other.name == value.name);
        let pinned = program.values.iter_enumerated().filter(|(_, value)| planned(value));
        let homes = pinned.filter_map(|(id, value)| Some((id, value.home.as_ref()?)));
        let (value, pin) = outputs.chain(homes).find(|(value, pin)| !self.holds(program, *value, pin))?;
        let asked = &program.values[value];
        let statement = asked.name.clone() + &print::Printer::new(program).pin(&asked.dims, pin);
        Some(Mismatch { statement, fault: Fault::NotThere })
    }

    /// Whether a value of `program` is held as a pin asks; the two programs may number their axes and order their dimensions differently.
    fn holds(&self, program: &Program, value: ValueId, pin: &Pin) -> bool {
        let own = &self.plan.program;
        let alike = |held: &[AxisRef], asked: &[AxisRef]| {
            let names = |mesh: &Mesh, axes: &[AxisRef]| axes.iter().map(|axis| mesh.axes[axis.axis()].name.clone()).collect::<Vec<_>>();
            names(&own.mesh, held) == names(&program.mesh, asked)
        };
        let asked = &program.values[value];
        let accepted = |held: &Materialization| {
            let place = |dim: DimId| own.values[held.value].dims.iter().position(|&d| own.dims[d].name == program.dims[dim].name);
            let dim = |(&dim, axes): (&DimId, &Option<AxisList>)| {
                axes.as_ref().is_none_or(|axes| place(dim).is_some_and(|place| alike(&held.sharding.dims[place], axes)))
            };
            let pending = &held.sharding.unreduced;
            asked.dims.iter().zip(&pin.dims).all(dim)
                && pin.unreduced.kind() == pending.kind()
                && alike(pending.axes(), pin.unreduced.axes())
        };
        self.held.keys().any(|held| own.values[held.value].name == asked.name && accepted(held))
    }
}

/// In units of the value's largest element; what is no number in both is the same.
fn difference(a: f64, b: f64, unit: f64) -> f64 {
    #[expect(clippy::float_cmp, reason = "equal infinities have no difference to take")]
    let same = a == b;
    if same || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let error = (a - b).abs() / unit;
    if error.is_nan() { f64::INFINITY } else { error }
}
