//! Creates plans with one fault, to test whether the verifiers detect it.
//!
//! One mutant for every collective dropped (its users left without it, or pointed to what it
//! started from), every collective called by another name, every axis that a collective or a
//! sharding names replaced by every other or taken away, every receiving dimension replaced, every
//! pair of axes exchanged, and every operand replaced by another value of the same shape. Not among
//! them are exchanges that read what a Slice before them read: they slice themselves, which is
//! right.

use shardwise_ir::plan::{Collective, Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{CollectiveKind, OpKind};
use shardwise_ir::sharding::{AxisRef, Sharding, Unreduced};

/// A change of a plan, and the changed plan.
pub struct Mutant {
    /// The statement and its change.
    pub what: String,
    /// Whether it only reads another value of the same shape, which may hold the same numbers.
    pub other_value: bool,
    /// The mutated plan.
    pub plan: Plan,
}

/// Every mutant of a plan.
pub fn mutants(plan: &Plan) -> Vec<Mutant> {
    let mut all = Vec::new();
    for number in 0..plan.steps.len() {
        all.extend(dropped(plan, number));
        for step in changed(plan, &plan.steps[number]) {
            let mut mutated = plan.clone();
            let before = shardwise_ir::print::step(&plan.program, &plan.steps[number]);
            mutated.steps[number] = step;
            let after = shardwise_ir::print::step(&plan.program, &mutated.steps[number]);
            if before != after {
                let values = |plan: &Plan| {
                    plan.steps[number]
                        .operands
                        .iter()
                        .map(|operand| operand.value)
                        .collect::<Vec<_>>()
                };
                let other_value = values(plan) != values(&mutated);
                all.push(Mutant {
                    what: format!("{before} -> {after}"),
                    other_value,
                    plan: mutated,
                });
            }
        }
    }
    all.retain(|mutant| !slices_itself(plan, &mutant.plan));
    all
}

/// Whether an exchange of a mutant reads what a Slice reads whose result it read before.
fn slices_itself(plan: &Plan, mutant: &Plan) -> bool {
    let is = |step: &Step, kinds: &[CollectiveKind]| match &step.kind {
        StepKind::Collective(of, _) => kinds.contains(&of.kind),
        StepKind::Local(_) => false,
    };
    let exchanges = [CollectiveKind::AllToAll, CollectiveKind::ReduceScatter];
    let is_slice_between = |slice: &Step, after: &Step, before: &Step| {
        is(slice, &[CollectiveKind::Slice])
            && before.operands == [slice.result.clone()]
            && after.operands == slice.operands
    };
    mutant.steps.iter().filter(|step| is(step, &exchanges)).any(|after| {
        let before =
            plan.steps.iter().find(|of| of.result == after.result && of.kind == after.kind);
        before.is_some_and(|before| {
            plan.steps.iter().any(|slice| is_slice_between(slice, after, before))
        })
    })
}

/// The plan without a collective: its users read a missing materialization, or its operand. Without
/// a collective that produces an existing materialization again, the plan is still correct (uses of
/// a value with a written declared sharding start from it, even where the way there passed what
/// they need).
fn dropped(plan: &Plan, number: usize) -> Vec<Mutant> {
    let step = &plan.steps[number];
    let repeated = || plan.steps[..number].iter().any(|earlier| earlier.result == step.result);
    if matches!(step.kind, StepKind::Local(_)) || repeated() {
        return Vec::new();
    }
    let mut missing = plan.clone();
    missing.steps.remove(number);
    let mut rewired = missing.clone();
    for operand in rewired.steps[number..]
        .iter_mut()
        .flat_map(|later| &mut later.operands)
        .filter(|operand| **operand == step.result)
    {
        *operand = step.operands[0].clone();
    }
    let before = shardwise_ir::print::step(&plan.program, step);
    vec![
        Mutant { what: format!("{before} -> dropped"), other_value: false, plan: missing },
        Mutant { what: format!("{before} -> skipped"), other_value: false, plan: rewired },
    ]
}

/// Rows put into an array that nothing reads: correct in any sharding.
fn may_be_anywhere(plan: &Plan, step: &Step) -> bool {
    let StepKind::Local(op) = step.kind else { return false };
    let puts = matches!(plan.program.ops[op].kind, OpKind::ScatterAdd { .. });
    puts && !plan.steps.iter().any(|other| other.operands.contains(&step.result))
}

fn changed(plan: &Plan, step: &Step) -> Vec<Step> {
    // Axes of one device split nothing: to name one is no fault.
    let axes: Vec<AxisRef> = plan.program.mesh.splitting().map(AxisRef::whole).collect();
    let mut steps = Vec::new();
    if let StepKind::Collective(collective, op) = &step.kind {
        let kinds = collectives(collective, step, &axes);
        steps.extend(
            kinds
                .into_iter()
                .map(|other| Step { kind: StepKind::Collective(other, *op), ..step.clone() }),
        );
    }
    for sharding in
        shardings(&step.result.sharding, &axes).into_iter().filter(|_| !may_be_anywhere(plan, step))
    {
        steps.push(Step {
            result: Materialization { sharding, ..step.result.clone() },
            ..step.clone()
        });
    }
    // Of what comes after, only the dimensions count.
    let looked_at = if let StepKind::Local(op) = step.kind {
        plan.program.ops[op].sharded_operands().len()
    } else {
        step.operands.len()
    };
    for place in 0..looked_at {
        let operand = &step.operands[place];
        let others = shardings(&operand.sharding, &axes)
            .into_iter()
            .map(|sharding| Materialization { sharding, ..operand.clone() });
        for other in others.chain(alike(plan, operand)) {
            let mut mutated = step.clone();
            mutated.operands[place] = other;
            steps.push(mutated);
        }
    }
    steps
}

/// The collective under every other name, with every other axis, and into every other dimension.
fn collectives(collective: &Collective, step: &Step, axes: &[AxisRef]) -> Vec<Collective> {
    let rank = step.result.sharding.dims.len();
    let named = CollectiveKind::ALL
        .iter()
        .filter(|kind| **kind != collective.kind && **kind != CollectiveKind::Permute);
    let mut all: Vec<Collective> = named
        .filter_map(|kind| {
            let receives = matches!(
                kind,
                CollectiveKind::ReduceScatter | CollectiveKind::AllToAll | CollectiveKind::Slice
            );
            let into = match (receives, collective.into.is_empty()) {
                (false, _) => Vec::new(),
                (true, true) if rank == 0 => return None,
                (true, true) => vec![0; collective.axes.len()],
                (true, false) => collective.into.clone(),
            };
            Some(Collective { kind: kind.clone(), into, axes: collective.axes.clone() })
        })
        .collect();
    for place in 0..collective.axes.len() {
        for &axis in axes {
            let mut other = collective.clone();
            other.axes[place] = axis;
            all.push(other);
        }
    }
    for place in 0..collective.into.len() {
        for position in 0..rank {
            let mut other = collective.clone();
            other.into[place] = position;
            all.push(other);
        }
    }
    all
}

/// The sharding with one axis replaced, taken away or added, or two exchanged.
fn shardings(sharding: &Sharding, axes: &[AxisRef]) -> Vec<Sharding> {
    let mut all = Vec::new();
    let pending = sharding.unreduced.axes();
    for (place, &axis) in pending.iter().enumerate() {
        let rest = || pending.iter().copied().filter(|&other| other != pending[place]);
        let others = axes
            .iter()
            .filter(|&&other| other != axis)
            .map(|&other| rest().chain([other]).collect::<Vec<_>>());
        for set in others.chain([rest().collect()]) {
            all.push(Sharding {
                unreduced: Unreduced::new(sharding.unreduced.kind(), set),
                ..sharding.clone()
            });
        }
    }
    for (dim, list) in sharding.dims.iter().enumerate() {
        for place in 0..list.len() {
            for &axis in axes {
                let mut other = sharding.clone();
                other.dims[dim][place] = axis;
                all.push(other);
            }
            let mut without = sharding.clone();
            without.dims[dim].remove(place);
            all.push(without);
            if place > 0 {
                let mut exchanged = sharding.clone();
                exchanged.dims[dim].swap(place - 1, place);
                all.push(exchanged);
            }
        }
        for &axis in axes {
            let mut more = sharding.clone();
            more.dims[dim].push(axis);
            all.push(more);
        }
    }
    all
}

/// Other materializations of the plan with the same dimensions and sharding.
fn alike(plan: &Plan, operand: &Materialization) -> Vec<Materialization> {
    let dims = &plan.program.values[operand.value].dims;
    let given =
        plan.steps.iter().map(|step| &step.result).filter(|other| other.value != operand.value);
    let fitting = given.filter(|other| {
        other.sharding == operand.sharding && plan.program.values[other.value].dims == *dims
    });
    fitting.cloned().collect()
}
