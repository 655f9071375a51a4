//! Smaller sizes at which the same plan can be run.
//!
//! Axes whose sizes are powers of two shrink together (16x4 becomes 4x2), which keeps every product of axes that equals another equal to it, as
//! relabelling needs. A dimension becomes the smallest multiple of everything that splits it that is larger than 1 and not another dimension's
//! size, so that exchanged dimensions show.

use shardwise_ir::ids::DimId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::{AxisList, Pin};

/// More multiples than dimensions to tell apart.
const MOST_DIMS: u64 = 4096;

/// Which sizes a plan is run at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The smallest that keep every split.
    Scaled,
    /// The program's own.
    Full,
}

/// Program and plan at the sizes they are run at, and whether these differ from their own.
pub(super) fn scale(program: &Program, plan: &Plan, sizes: Sizes) -> (Program, Plan, bool) {
    let (mut program, mut plan) = (program.clone(), plan.clone());
    if sizes == Sizes::Full {
        return (program, plan, false);
    }
    for (axis, size) in axis_sizes(&plan.program).into_iter().enumerate() {
        plan.program.mesh.axes[axis].size = size;
    }
    program.mesh = plan.program.mesh.clone();
    let mut taken: Vec<u64> = Vec::new();
    let mut scaled = false;
    for dim in plan.program.dims.indices() {
        let name = plan.program.dims[dim].name.clone();
        let original = plan.program.dims[dim].size;
        let unit = splits(&plan, dim).iter().map(|axes| parts(&plan.program, axes)).fold(1, lcm);
        let size = if original == 1 {
            1
        } else {
            (1..=MOST_DIMS).map(|k| k * unit).find(|size| *size > 1 && !taken.contains(size)).unwrap_or(unit)
        };
        taken.push(size);
        scaled |= size != original;
        plan.program.dims[dim].size = size;
        for other in program.dims.iter_mut().filter(|other| other.name == name) {
            other.size = size;
        }
    }
    (program, plan, scaled)
}

/// `X=4, Y=2; B=8, D=2`.
pub(super) fn describe(program: &Program) -> String {
    let axes: Vec<String> = program.mesh.axes.iter().map(|axis| format!("{}={}", axis.name, axis.size)).collect();
    let dims: Vec<String> = program.dims.iter().map(|dim| format!("{}={}", dim.name, dim.size)).collect();
    format!("{}; {}", axes.join(" "), dims.join(" "))
}

fn axis_sizes(program: &Program) -> Vec<u64> {
    let sizes: Vec<u64> = program.mesh.axes.iter().map(|axis| axis.size).collect();
    let logs: Vec<u64> = sizes.iter().map(|size| u64::from(size.trailing_zeros())).collect();
    let common = logs.iter().fold(0, |a, &b| gcd(a, b));
    if sizes.iter().all(|size| size.is_power_of_two()) && common > 1 { logs.iter().map(|log| 1 << (log / common)).collect() } else { sizes }
}

/// Every axis list that stands on a dimension somewhere in the plan.
fn splits(plan: &Plan, dim: DimId) -> Vec<AxisList> {
    let declared = plan.program.values.iter_enumerated().filter_map(|(id, value)| Some((id, value.home.as_ref().and_then(Pin::exact)?)));
    let steps = plan.steps.iter().flat_map(|step| step.operands.iter().chain([&step.result])).map(|m| (m.value, m.sharding.clone()));
    let mut lists: Vec<AxisList> = Vec::new();
    for (value, sharding) in declared.chain(steps) {
        let dims = &plan.program.values[value].dims;
        lists.extend(dims.iter().zip(sharding.dims).filter(|(d, _)| **d == dim).map(|(_, axes)| axes));
    }
    lists
}

fn parts(program: &Program, axes: &AxisList) -> u64 {
    axes.iter().map(|axis| axis.size(&program.mesh)).product()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b) * b
}
