//! Bytes that a device holds: what is resident, and the peak of what is live beside it, in program order.
//!
//! Parameters and state stay for the whole program in the sharding they are declared with. Every other materialisation (a gathered parameter
//! included) lives from the step that gives it to the last step that reads it; inputs from the start, outputs to the end. What is given twice
//! (gathered again behind the forward part) lives twice, and is not held between.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::Role;
use shardwise_ir::plan::{Materialization, Plan};
use shardwise_ir::sharding::Pin;

use crate::composite;
use crate::local;

/// Bytes of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Parameters and state.
    pub resident_bytes: f64,
    /// Resident and live together, at the worst step.
    pub peak_bytes: f64,
    /// The step at which the peak is reached, if the plan has steps.
    pub peak_step: Option<usize>,
    /// What the chip has, where that is known.
    pub capacity_bytes: Option<f64>,
}

/// From which to which step something is live, both included.
struct Life {
    bytes: f64,
    from: usize,
    to: usize,
}

type Lives = Vec<(Materialization, Life)>;

/// The memory of a plan; where composites are still to be written out in it, of the plan that comes of that.
pub fn memory(plan: &Plan) -> Memory {
    let plan = &*composite::written_out(plan);
    let (resident_bytes, lives) = lives(plan);
    let (peak_step, live) = peak(lives.iter().map(|(_, life)| life), plan.steps.len());
    Memory { resident_bytes, peak_bytes: resident_bytes + live, peak_step, capacity_bytes: plan.program.hardware.hbm_bytes }
}

/// What is live beside the resident while a step runs, largest first.
pub fn live_at(plan: &Plan, step: usize) -> Vec<(Materialization, f64)> {
    let live = |life: &Life| life.from <= step && step <= life.to && life.bytes > 0.0;
    let mut held: Vec<(Materialization, f64)> =
        lives(plan).1.into_iter().filter(|(_, life)| live(life)).map(|(of, life)| (of, life.bytes)).collect();
    held.sort_by(|a, b| b.1.total_cmp(&a.1));
    held
}

/// The bytes that are resident, and from where to where everything else is live.
fn lives(plan: &Plan) -> (f64, Lives) {
    let program = &plan.program;
    let mut resident_bytes = 0.0;
    let mut ended = Lives::new();
    let mut lives: IndexMap<Materialization, Life, FxBuildHasher> = IndexMap::default();
    for (value, declared) in program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
        let Some(sharding) = declared.home.as_ref().and_then(Pin::exact) else {
            continue;
        };
        let bytes = local::local_bytes(program, value, &sharding);
        if matches!(declared.role, Some(Role::Param | Role::State)) {
            resident_bytes += bytes;
            lives.insert(Materialization { value, sharding }, Life { bytes: 0.0, from: 0, to: 0 });
        } else {
            lives.insert(Materialization { value, sharding }, Life { bytes, from: 0, to: 0 });
        }
    }
    for (number, step) in plan.steps.iter().enumerate() {
        for operand in &step.operands {
            if let Some(life) = lives.get_mut(operand) {
                life.to = number;
            }
        }
        let resident = lives.get(&step.result).is_some_and(|life| life.bytes <= 0.0);
        let bytes = if resident { 0.0 } else { local::local_bytes(program, step.result.value, &step.result.sharding) };
        let before = lives.insert(step.result.clone(), Life { bytes, from: number, to: number });
        ended.extend(before.map(|life| (step.result.clone(), life)));
    }
    let last = plan.steps.len().saturating_sub(1);
    for output in &program.outputs {
        for (_, life) in lives.iter_mut().filter(|(m, _)| m.value == output.value && output.pin.accepts(&m.sharding)) {
            life.to = last;
        }
    }
    ended.extend(lives);
    (resident_bytes, ended)
}

/// The worst step and what is live there: a sweep over where lives begin and end.
fn peak<'l>(lives: impl Iterator<Item = &'l Life>, steps: usize) -> (Option<usize>, f64) {
    let mut change = vec![0.0; steps + 2];
    for life in lives {
        change[life.from] += life.bytes;
        change[life.to + 1] -= life.bytes;
    }
    let mut live = 0.0;
    let mut best = (None, 0.0);
    for (step, delta) in change.iter().enumerate().take(steps.max(1)) {
        live += delta;
        if live > best.1 {
            best = ((step < steps).then_some(step), live);
        }
    }
    best
}
