//! The one verifier: what is a legal collective, a legal local operation, a legal plan.
//!
//! * An axis stands once in a sharding, unreduced set included; its sizes divide (checked where brackets are read).
//! * A collective leads from its operand to its result by exactly one step of the language's section 4.
//! * A local operation finds every index split alike in all operands that have it, and no axis on two indices.
//! * What it gives is what its layout projects: kept indices keep their axes, summed ones leave the result unreduced.
//! * Partial sums pass through linear operations only, and in one operand of a product only.
//! * A plan reads only what is declared or given before, and gives its outputs as they were asked for.
//!
//! Nothing here shares code with the passes, whose results it judges.

use indexmap::{IndexMap, IndexSet};
use shardwise_grammar::codes::sharding as codes;

use crate::Diag;
use crate::ids::{DimId, ValueId};
use crate::mesh::Mesh;
use crate::plan::{Collective, Materialization, Plan, Step, StepKind};
use crate::print;
use crate::program::{CollectiveKind, Linearity, Op, OpKind, Program, ReduceFn};
use crate::sharding::{AxisList, AxisRef, Pin, Reduction, Sharding, Unreduced};

/// The collective of `kind` that leads from one sharding to the other, or why there is none.
pub fn collective(mesh: &Mesh, kind: &CollectiveKind, from: &Sharding, to: &Sharding) -> Result<Collective, String> {
    let (axes, into) = match kind {
        CollectiveKind::AllGather => (gathered(mesh, from, to)?, Vec::new()),
        CollectiveKind::AllReduce => (reduced(from, to)?, Vec::new()),
        CollectiveKind::ReduceScatter => scattered(from, to)?,
        CollectiveKind::AllToAll => moved(from, to)?,
        CollectiveKind::Slice => sliced(from, to)?,
        CollectiveKind::Permute => (relabelled(mesh, from, to)?, Vec::new()),
    };
    Ok(Collective { kind: kind.clone(), axes, into })
}

/// The one collective that leads from one sharding to the other, if one does.
pub fn classify(mesh: &Mesh, from: &Sharding, to: &Sharding) -> Option<Collective> {
    CollectiveKind::ALL.iter().rev().find_map(|kind| collective(mesh, kind, from, to).ok())
}

fn pending_stays(from: &Sharding, to: &Sharding) -> Result<(), String> {
    if from.unreduced == to.unreduced { Ok(()) } else { Err("what is unreduced does not change".to_owned()) }
}

fn gathered(mesh: &Mesh, from: &Sharding, to: &Sharding) -> Result<Vec<AxisRef>, String> {
    pending_stays(from, to)?;
    let mut axes = Vec::new();
    for (before, after) in from.dims.iter().zip(&to.dims) {
        if !before.starts_with(after) {
            let gone = before.iter().find(|axis| !after.contains(axis)).map_or("", |axis| mesh.axes[axis.axis()].name.as_str());
            return Err(format!(
                "a gather strips trailing axes only, and `{gone}` is not trailing in `_{}`",
                print::axis_word(mesh, before)
            ));
        }
        axes.extend_from_slice(&before[after.len()..]);
    }
    if axes.is_empty() { Err("nothing is gathered".to_owned()) } else { Ok(axes) }
}

fn settled(from: &Sharding, to: &Sharding) -> Result<Vec<AxisRef>, String> {
    let (before, after) = (&from.unreduced, &to.unreduced);
    let left = after.axes().iter().all(|axis| before.axes().contains(axis)) && (after.is_empty() || after.kind() == before.kind());
    let gone: Vec<AxisRef> = before.axes().iter().copied().filter(|axis| !after.axes().contains(axis)).collect();
    if !left {
        return Err("it leaves axes unreduced that were not".to_owned());
    }
    if gone.is_empty() { Err("no unreduced axis is settled".to_owned()) } else { Ok(gone) }
}

fn reduced(from: &Sharding, to: &Sharding) -> Result<Vec<AxisRef>, String> {
    if from.dims != to.dims {
        return Err("a reduction leaves the dimensions as they are".to_owned());
    }
    settled(from, to)
}

type Placed = (Vec<AxisRef>, Vec<usize>);

/// The axes appended, dimension by dimension.
fn appended(from: &Sharding, to: &Sharding) -> Result<Placed, String> {
    let (mut axes, mut into) = (Vec::new(), Vec::new());
    for (position, (before, after)) in from.dims.iter().zip(&to.dims).enumerate() {
        if !after.starts_with(before) {
            return Err("new axes are appended at the end of a dimension's".to_owned());
        }
        axes.extend_from_slice(&after[before.len()..]);
        into.resize(axes.len(), position);
    }
    Ok((axes, into))
}

fn scattered(from: &Sharding, to: &Sharding) -> Result<Placed, String> {
    let mut gone = settled(from, to)?;
    let placed = appended(from, to)?;
    let mut added = placed.0.clone();
    added.sort_unstable();
    gone.sort_unstable();
    if added == gone { Ok(placed) } else { Err("a scatter appends exactly the axes that it settles".to_owned()) }
}

fn sliced(from: &Sharding, to: &Sharding) -> Result<Placed, String> {
    pending_stays(from, to)?;
    let placed = appended(from, to)?;
    match placed.0[..] {
        [axis] if !from.uses(axis) => Ok(placed),
        [_] => Err("the axis is in use already".to_owned()),
        _ => Err("a slice appends one axis".to_owned()),
    }
}

fn moved(from: &Sharding, to: &Sharding) -> Result<Placed, String> {
    pending_stays(from, to)?;
    let changed: Vec<usize> = (0..from.dims.len()).filter(|&i| from.dims[i] != to.dims[i]).collect();
    let [a, b] = changed[..] else {
        return Err("an AllToAll moves axes from one dimension to one other".to_owned());
    };
    let (source, receiver) = if to.dims[a].len() < from.dims[a].len() { (a, b) } else { (b, a) };
    let keep = to.dims[source].len();
    let run = from.dims[source].get(keep..).unwrap_or_default();
    let arrives = to.dims[receiver].strip_prefix(from.dims[receiver].as_slice()) == Some(run);
    if from.dims[source].starts_with(&to.dims[source]) && arrives && !run.is_empty() {
        Ok((run.to_vec(), vec![receiver; run.len()]))
    } else {
        Err("an AllToAll moves trailing axes, in order, to the end of another dimension".to_owned())
    }
}

fn relabelled(mesh: &Mesh, from: &Sharding, to: &Sharding) -> Result<Vec<AxisRef>, String> {
    pending_stays(from, to)?;
    let parts = |axes: &AxisList| axes.iter().fold(1_u64, |n, axis| n.saturating_mul(axis.size(mesh)));
    if from.dims.iter().zip(&to.dims).any(|(a, b)| parts(a) != parts(b)) {
        return Err("a Permute keeps every dimension's local size".to_owned());
    }
    let changed = from.dims.iter().zip(&to.dims).filter(|(a, b)| a != b);
    let axes: IndexSet<AxisRef> = changed.flat_map(|(a, b)| a.iter().chain(b).copied()).collect();
    let mut axes: Vec<AxisRef> = axes.into_iter().collect();
    axes.sort_unstable();
    if axes.is_empty() { Err("nothing changes".to_owned()) } else { Ok(axes) }
}

/// Why an operation cannot run on local blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalFault {
    /// An index is split differently in two operands (cases 2 and 4).
    SplitDifferently(DimId),
    /// One axis on two indices: only diagonal blocks would be known (case 4).
    AxisConflict(AxisRef),
    /// A partial operand where none may be.
    PartialThrough(ValueId),
}

/// What `op` gives on local blocks of operands so sharded.
pub fn local_result(program: &Program, op: &Op, operands: &[&Sharding]) -> Result<Sharding, LocalFault> {
    let mut lists: IndexMap<DimId, &AxisList> = IndexMap::new();
    for (operand, sharding) in op.operands.iter().zip(operands) {
        for (&dim, axes) in program.values[operand.value].dims.iter().zip(&sharding.dims) {
            if *lists.entry(dim).or_insert(axes) != axes {
                return Err(LocalFault::SplitDifferently(dim));
            }
        }
    }
    let mut used: IndexSet<AxisRef> = IndexSet::new();
    for &axis in lists.values().flat_map(|axes| axes.iter()) {
        if !used.insert(axis) {
            return Err(LocalFault::AxisConflict(axis));
        }
    }
    let mut pending = passed(op, operands, &used)?;
    let kept = &program.values[op.result].dims;
    pending.extend(lists.iter().filter(|(dim, _)| !kept.contains(dim)).flat_map(|(_, axes)| axes.iter().copied()));
    let kind = if let OpKind::Reduce { function, .. } = &op.kind { function.reduction() } else { Reduction::Sum };
    let dims = kept.iter().map(|dim| lists.get(dim).map_or_else(AxisList::new, |axes| (*axes).clone())).collect();
    Ok(Sharding { dims, unreduced: Unreduced::new(kind, pending) })
}

/// The unreduced axes that pass from operands to result.
fn passed(op: &Op, operands: &[&Sharding], split: &IndexSet<AxisRef>) -> Result<Vec<AxisRef>, LocalFault> {
    let carriers: Vec<usize> = (0..operands.len()).filter(|&k| !operands[k].unreduced.is_empty()).collect();
    let Some(&first) = carriers.first() else {
        return Ok(Vec::new());
    };
    let fault = |k: usize| Err(LocalFault::PartialThrough(op.operands[k].value));
    if let Some(&k) = carriers.iter().find(|&&k| operands[k].unreduced.kind() != Reduction::Sum) {
        return fault(k);
    }
    let mut axes: Vec<AxisRef> = Vec::new();
    let allowed = match &op.kind {
        OpKind::Einsum { .. } => true,
        OpKind::Map(function) => match function.linearity {
            Linearity::None => false,
            Linearity::Joint => operands.iter().all(|sharding| sharding.unreduced == operands[first].unreduced),
            Linearity::First => carriers == [0],
        },
        OpKind::Reduce { function, .. } => matches!(function, ReduceFn::Sum | ReduceFn::Mean),
        OpKind::Collective(_) => false,
    };
    if !allowed {
        return fault(first);
    }
    let joint = matches!(&op.kind, OpKind::Map(function) if function.linearity == Linearity::Joint);
    for &k in &carriers {
        for &axis in operands[k].unreduced.axes() {
            if split.contains(&axis) || (axes.contains(&axis) && !joint) {
                return fault(k);
            }
            if !axes.contains(&axis) {
                axes.push(axis);
            }
        }
    }
    Ok(axes)
}

/// The plan that an explicit program is, or what keeps it from being one.
pub fn explicit(program: Program) -> Result<Plan, Vec<Diag>> {
    let mut steps = Vec::new();
    for (id, op) in program.ops.iter_enumerated() {
        let pinned = |pin: &Option<Pin>| pin.as_ref().and_then(Pin::exact);
        let operands =
            op.operands.iter().filter_map(|operand| Some(Materialization { value: operand.value, sharding: pinned(&operand.pin)? }));
        let operands: Vec<Materialization> = operands.collect();
        let Some(sharding) = pinned(&op.result_pin) else {
            continue;
        };
        let result = Materialization { value: op.result, sharding };
        let kind = match &op.kind {
            OpKind::Collective(kind) => match collective(&program.mesh, kind, &operands[0].sharding, &result.sharding) {
                Ok(moved) => StepKind::Collective(moved, Some(id)),
                Err(_) => continue,
            },
            _ => StepKind::Local(id),
        };
        steps.push(Step { kind, operands, result });
    }
    let candidate = Plan { program, steps };
    plan(&candidate).map(|()| candidate)
}

/// Every constraint on a plan.
pub fn plan(plan: &Plan) -> Result<(), Vec<Diag>> {
    let program = &plan.program;
    let mut diags = Vec::new();
    let mut exists: IndexSet<Materialization> = IndexSet::new();
    for (value, declared) in program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
        if let Some(sharding) = declared.home.as_ref().and_then(Pin::exact) {
            exists.insert(Materialization { value, sharding });
        }
    }
    for step in &plan.steps {
        for (k, operand) in step.operands.iter().enumerate() {
            if !exists.contains(operand) {
                diags.push(missing(program, step, k, &exists));
            }
        }
        diags.extend(step_fault(program, step));
        exists.insert(step.result.clone());
    }
    for output in &program.outputs {
        if !exists.iter().any(|m| m.value == output.value && output.pin.accepts(&m.sharding)) {
            let name = &program.values[output.value].name;
            let diag = Diag::error(
                codes::NO_MATERIALIZATION,
                format!("no statement gives `{name}` as the output wants it"),
                output.span,
                "wanted here",
            );
            diags.push(diag.help(available(program, output.value, &exists)));
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

fn missing(program: &Program, step: &Step, operand: usize, exists: &IndexSet<Materialization>) -> Diag {
    let material = &step.operands[operand];
    let span = match step_op(program, step) {
        Some(op) => op.operands.get(operand).map_or(op.span, |operand| operand.span),
        None => program.values[material.value].span,
    };
    let message = format!("no earlier statement gives `{}`", print::materialization(program, material));
    Diag::error(codes::NO_MATERIALIZATION, message, span, "used here").help(available(program, material.value, exists))
}

fn available(program: &Program, value: ValueId, exists: &IndexSet<Materialization>) -> String {
    let there: Vec<String> =
        exists.iter().filter(|m| m.value == value).map(|m| format!("`{}`", print::materialization(program, m))).collect();
    if there.is_empty() { "define it first".to_owned() } else { format!("there is {}; a collective leads from it", there.join(", ")) }
}

fn step_op<'p>(program: &'p Program, step: &Step) -> Option<&'p Op> {
    match step.kind {
        StepKind::Local(op) | StepKind::Collective(_, Some(op)) => Some(&program.ops[op]),
        StepKind::Collective(_, None) => None,
    }
}

fn step_fault(program: &Program, step: &Step) -> Option<Diag> {
    match &step.kind {
        StepKind::Collective(moved, _) => {
            let (from, to) = (&step.operands[0].sharding, &step.result.sharding);
            let reason = collective(&program.mesh, &moved.kind, from, to).err()?;
            let span = step_op(program, step).map_or(program.values[step.result.value].span, |op| op.span);
            let message = format!("`{}` does not lead there: {reason}", moved.kind.name());
            Some(Diag::error(codes::BAD_COLLECTIVE, message, span, "this step"))
        }
        StepKind::Local(id) => {
            let op = &program.ops[*id];
            let operands: Vec<&Sharding> = step.operands.iter().map(|operand| &operand.sharding).collect();
            match local_result(program, op, &operands) {
                Err(fault) => Some(worded(program, op, &fault)),
                Ok(given) if given != step.result.sharding => Some(wrong_result(program, op, step, given)),
                Ok(_) => None,
            }
        }
    }
}

/// Why an operation whose operands are all pinned cannot run on them, if it cannot.
pub fn pinned_fault(program: &Program, op: &Op) -> Option<Diag> {
    let pinned: Option<Vec<Sharding>> = op.operands.iter().map(|operand| operand.pin.as_ref().and_then(Pin::exact)).collect();
    let pinned = pinned?;
    let operands: Vec<&Sharding> = pinned.iter().collect();
    local_result(program, op, &operands).err().map(|fault| worded(program, op, &fault))
}

fn wrong_result(program: &Program, op: &Op, step: &Step, given: Sharding) -> Diag {
    let gives = Materialization { value: op.result, sharding: given };
    let message =
        format!("the operands give `{}`, not `{}`", print::materialization(program, &gives), print::materialization(program, &step.result));
    let help = match classify(&program.mesh, &gives.sharding, &step.result.sharding) {
        Some(moved) => format!(
            "write `{}`, then `{}`",
            print::materialization(program, &gives),
            print::collective(program, &moved, &gives, &step.result)
        ),
        None => format!("write `{}` on the left", print::materialization(program, &gives)),
    };
    Diag::error(codes::WRONG_RESULT, message, op.span, "in an explicit program the left side says exactly that").help(help)
}

fn worded(program: &Program, op: &Op, fault: &LocalFault) -> Diag {
    match fault {
        LocalFault::SplitDifferently(dim) => {
            let name = &program.dims[*dim].name;
            let message = format!("`{name}` is split differently in the operands");
            let diag = Diag::error(
                codes::SPLIT_DIFFERENTLY,
                message,
                op.span,
                format!("the blocks of `{name}` on a device do not belong together"),
            );
            diag.help(format!("gather `{name}` in one operand, or slice it in the other, in a statement before this one"))
        }
        LocalFault::AxisConflict(axis) => {
            let name = &program.mesh.axes[axis.axis()].name;
            let message = format!("axis `{name}` splits two different indices; only diagonal blocks of the result would be known");
            Diag::error(codes::AXIS_CONFLICT, message, op.span, format!("`{name}` is on both operands"))
                .help(format!("gather one operand over `{name}` first"))
        }
        LocalFault::PartialThrough(value) => {
            let name = &program.values[*value].name;
            let message = format!("`{name}` is a partial sum, and this operation is not linear in it");
            Diag::error(codes::PARTIAL_THROUGH, message, op.span, "f(p + q) is not f(p) + f(q)")
                .help(format!("settle `{name}` first, by AllReduce or ReduceScatter"))
        }
    }
}
