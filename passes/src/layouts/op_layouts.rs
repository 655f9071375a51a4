//! Every layout in which one operation can run on the mesh.
//!
//! A layout maps each mesh axis to one of the operation's indices (the iteration space is split
//! there), to a pass-through of partial results (the operation is linear in the operand with
//! partial sums, or monotone in the one with partial maxima), or to nothing (the devices along it
//! repeat the work). The operand and result shardings follow from it: an axis on a summed index
//! leaves the result unreduced over it. Dimensions of operands are the indices; a renamed dimension
//! of the result is the same index, a reshaped one follows from those of its group.

use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Regroup, Window};
use shardwise_ir::sharding::{AxisList, AxisRef, Pin, Reduction, Sharding, Unreduced};

use crate::layouts::local_shape;
use crate::layouts::reshape;

/// The shardings of the operands and the result of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// One sharding for each operand that is [laid out](Op::sharded_operands).
    pub operands: Vec<Sharding>,
    /// The result's.
    pub result: Sharding,
}

/// The index names of an operation: the dimensions of its operands, in order of appearance, and
/// those that [it adds](Op::added_dims), of which a device can compute any part.
pub fn indices(program: &Program, op: &Op) -> Vec<DimId> {
    let read = op.operands.iter().flat_map(|operand| &program.values[operand.value].dims);
    let mut indices = Vec::new();
    for dim in read.chain(op.added_dims(program)) {
        if !indices.contains(dim) {
            indices.push(*dim);
        }
    }
    indices
}

/// Whether `axes` may split an index of an operation; not where it needs all elements along the
/// index at once. A composite may be split, since it is expanded then; over axes of one device
/// there is nothing to be gained by that.
pub(crate) fn may_split(program: &Program, op: &Op, index: DimId, axes: &[AxisRef]) -> bool {
    axes.is_empty() || !is_whole(program, op, index, axes)
}

fn is_whole(program: &Program, op: &Op, index: DimId, axes: &[AxisRef]) -> bool {
    match &op.kind {
        OpKind::Rearrange(Rearrange::Roll(roll)) if roll.dim == index => {
            local_shape::roll_share(program, roll, axes).is_none()
        }
        OpKind::Rearrange(how @ (Rearrange::Windows(_) | Rearrange::Overlap(_))) => {
            match (how.windows_along(index), how) {
                (Some(windows), _) => local_shape::halo(program, windows, axes).is_none(),
                (None, Rearrange::Overlap(windows)) => windows.kernel == index,
                (None, _) => false,
            }
        }
        OpKind::Rearrange(
            Rearrange::Slice(Window { from, .. })
            | Rearrange::Pad(Window { from, .. })
            | Rearrange::Chunk { from, .. },
        ) => *from == index,
        OpKind::Rearrange(Rearrange::Concat { from, .. }) => from.contains(&index),
        OpKind::Rearrange(Rearrange::Stack { from, .. }) => *from == Some(index),
        OpKind::Route(route) => [route.tokens, route.experts].contains(&index),
        OpKind::Along(along) => along.from == index,
        OpKind::Opaque(opaque) => opaque.from.contains(&index),
        // Rows are written in order: the last one with the same index wins.
        OpKind::Update { .. } => !program.values[op.result].dims.contains(&index),
        _ => false,
    }
}

/// Operands that may be unreduced over the same axes, the kind of their partial results, and the
/// kind of the result's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearityRule {
    /// The operands, by position.
    pub operands: Vec<usize>,
    /// The kind of their partial results.
    pub partial: Reduction,
    /// The kind of the result's.
    pub result: Reduction,
}

/// The linearity rules of `op` for operands whose partial results are of the kinds `partial` names.
pub(crate) fn linearity_rules(op: &Op, partial: &[Option<Reduction>]) -> Vec<LinearityRule> {
    let carried = |rule: &LinearityRule| {
        rule.operands.iter().all(|&operand| partial[operand] == Some(rule.partial))
    };
    possible_rules(op).into_iter().filter(carried).collect()
}

/// The operands without partial results that would have to be sums, too, for a pending sum of
/// another operand to pass the operation: `x` of `x + y {U_X}`.
pub(crate) fn joined_by_sums(
    op: &Op,
    partial: impl Fn(ValueId) -> Option<Reduction>,
) -> Vec<ValueId> {
    let mut joined = Vec::new();
    for rule in possible_rules(op).iter().filter(|rule| rule.partial == Reduction::Sum) {
        let values = || rule.operands.iter().map(|&operand| op.operands[operand].value);
        if values().any(|value| partial(value) == Some(Reduction::Sum)) {
            joined.extend(values().filter(|&value| partial(value).is_none()));
        }
    }
    joined
}

/// Whether pending sums of an operand, alone or with those of others, can pass the operation.
pub(crate) fn passes_sums(op: &Op, operand: usize) -> bool {
    possible_rules(op)
        .iter()
        .any(|rule| rule.partial == Reduction::Sum && rule.operands.contains(&operand))
}

/// The linearity rules of `op`, whatever its operands are.
fn possible_rules(op: &Op) -> Vec<LinearityRule> {
    let all: Vec<usize> = (0..op.operands.len()).collect();
    let sum = |operands: Vec<usize>| LinearityRule {
        operands,
        partial: Reduction::Sum,
        result: Reduction::Sum,
    };
    let alike = |operands: &[usize], kind: Reduction| LinearityRule {
        operands: operands.to_vec(),
        partial: kind,
        result: kind,
    };
    let same = |kind: Reduction| alike(&all, kind);
    let extrema = [Reduction::Max, Reduction::Min];
    match &op.kind {
        OpKind::Einsum { .. } => all.iter().map(|&operand| sum(vec![operand])).collect(),
        OpKind::Map(function) => {
            // An operand whose elements are not read may be partial; the result is not.
            let sums = if op.reads_elements() {
                function.linearity.operands(all.len())
            } else {
                all.clone()
            };
            let ordered = all.iter().flat_map(|&operand| {
                let direction = function.direction(operand).into_iter();
                let through = move |partial| {
                    direction.clone().map(move |way| LinearityRule {
                        operands: vec![operand],
                        partial,
                        result: way.through(partial),
                    })
                };
                extrema.into_iter().flat_map(through)
            });
            Some(sums)
                .filter(|operands| !operands.is_empty())
                .map(sum)
                .into_iter()
                .chain(ordered)
                .collect()
        }
        OpKind::Reduce { function, .. } => vec![same(function.reduction())],
        OpKind::Gather { .. } | OpKind::ScatterAdd { .. } => vec![sum(vec![0])],
        OpKind::Along(along) if along.function.row().is_linear => vec![same(Reduction::Sum)],
        OpKind::Rearrange(_) => [Reduction::Sum].into_iter().chain(extrema).map(same).collect(),
        OpKind::Update { .. } => {
            [Reduction::Sum].into_iter().chain(extrema).map(|kind| alike(&[0, 2], kind)).collect()
        }
        OpKind::Along(_)
        | OpKind::Opaque(_)
        | OpKind::Composite { .. }
        | OpKind::Route(_)
        | OpKind::Collective(_) => Vec::new(),
    }
}

/// The kind of partial results of `op` when an index that it sums (or takes the maximum over) is
/// split.
pub fn reduction(op: &Op) -> Reduction {
    if let OpKind::Reduce { function, .. } = &op.kind {
        function.reduction()
    } else {
        Reduction::Sum
    }
}

/// An assignment of axes, before it is projected on operands and result.
#[derive(Clone, PartialEq, Eq)]
struct Assignment {
    split: Vec<AxisList>,
    partial: Vec<AxisList>,
}

impl Assignment {
    fn uses(&self, axis: AxisRef) -> bool {
        self.split.iter().chain(&self.partial).any(|axes| axes.contains(&axis))
    }
}

/// All layouts of `op` whose sizes divide, the least split first. `partial` is the kind of partial
/// results of each operand, if any.
pub fn layouts(program: &Program, op: &Op, partial: &[Option<Reduction>]) -> Vec<Layout> {
    let axes = program.mesh.splitting().map(AxisRef::whole);
    let alone: Vec<AxisList> = axes.map(|axis| AxisList::from_elem(axis, 1)).collect();
    layouts_by(program, op, partial, &alone, false)
}

/// Those of them in which the axes of each of `groups` are used together, and where that is asked
/// for in the order of the groups.
pub(crate) fn layouts_by(
    program: &Program,
    op: &Op,
    partial: &[Option<Reduction>],
    groups: &[AxisList],
    in_order: bool,
) -> Vec<Layout> {
    let indices = indices(program, op);
    let rules = linearity_rules(op, partial);
    let mut found = vec![Assignment {
        split: vec![AxisList::new(); indices.len()],
        partial: vec![AxisList::new(); rules.len()],
    }];
    // Devices along the stage axis have different layers: no value of the pipeline is split over
    // it.
    let staged = program
        .pipeline(op.repeat)
        .map(|pipeline| AxisRef::whole(pipeline.axis))
        .or_else(|| program.stage_axis(op));
    for group in groups.iter().filter(|group| !group.iter().any(|&axis| Some(axis) == staged)) {
        // Inserting the group at every place of every list, into all assignments of the groups
        // before it, gives each order once.
        let mut extended = Vec::new();
        for assignment in &found {
            debug_assert!(!assignment.uses(group[0]), "groups are taken one after another");
            extended.push(assignment.clone());
            for (index, &dim) in indices.iter().enumerate() {
                // The last place first: of equally good orders that of the mesh is preferred.
                let last = assignment.split[index].len();
                let places = if in_order { last..=last } else { 0..=last };
                let between = |&place: &usize| is_between(groups, &assignment.split[index], place);
                for place in places.rev().filter(between) {
                    let mut next = assignment.clone();
                    next.split[index].insert_many(place, group.iter().copied());
                    if local_shape::divides(program, op.repeat, dim, &next.split[index])
                        && may_split(program, op, dim, &next.split[index])
                    {
                        extended.push(next);
                    }
                }
            }
            for rule in 0..rules.len() {
                let mut next = assignment.clone();
                next.partial[rule].extend(group.iter().copied());
                extended.push(next);
            }
        }
        found = extended;
    }
    found
        .iter()
        .filter_map(|assignment| project(program, op, &indices, &rules, assignment))
        .collect()
}

/// Whether a place in a list of axes is not inside of a group.
fn is_between(groups: &[AxisList], axes: &AxisList, place: usize) -> bool {
    let (before, after) = axes.split_at(place);
    before.last().zip(after.first()).is_none_or(|(before, after)| {
        !groups.iter().any(|group| group.contains(before) && group.contains(after))
    })
}

/// The layout that an assignment implies; `None` where partial results of several kinds would
/// combine, or a reshape would split a device's block into several ranges.
fn project(
    program: &Program,
    op: &Op,
    indices: &[DimId],
    rules: &[LinearityRule],
    assignment: &Assignment,
) -> Option<Layout> {
    let split = |dim: &DimId| {
        let index = indices.iter().position(|i| i == dim);
        index.map(|index| assignment.split[index].clone()).unwrap_or_default()
    };
    let carried = |operand: usize| {
        let here = rules
            .iter()
            .zip(&assignment.partial)
            .filter(|(rule, axes)| !axes.is_empty() && rule.operands.contains(&operand));
        let kind = here.clone().map(|(rule, _)| rule.partial).next().unwrap_or_default();
        Unreduced::new(kind, here.flat_map(|(_, axes)| axes.iter().copied()))
    };
    let operands = op.sharded_operands().iter().enumerate().map(|(k, operand)| Sharding {
        dims: program.values[operand.value].dims.iter().map(split).collect(),
        unreduced: carried(k),
    });
    let operands = operands.collect();
    let summed: AxisList = summed(program, op, indices).flat_map(|dim| split(&dim)).collect();
    let passed = rules
        .iter()
        .zip(&assignment.partial)
        .filter(|(_, axes)| op.reads_elements() && !axes.is_empty());
    let taken = program.stage_axis(op);
    let own = (!summed.is_empty())
        .then(|| reduction(op))
        .into_iter()
        .chain(taken.map(|_| Reduction::Sum));
    let mut kinds = passed.clone().map(|(rule, _)| rule.result).chain(own);
    let kind = kinds.next().unwrap_or_default();
    if kinds.any(|other| other != kind) {
        return None;
    }
    let pending =
        summed.into_iter().chain(passed.flat_map(|(_, axes)| axes.iter().copied())).chain(taken);
    let result = Sharding {
        dims: result_dims(program, op, &split)?,
        unreduced: Unreduced::new(kind, pending),
    };
    Some(Layout { operands, result })
}

/// The textbook's sharding of the result of a `put` along its dimension: that of the array like it,
/// as far as these axes are free.
fn of_like(axes: &AxisList, used: &[AxisRef]) -> AxisList {
    axes.iter().copied().take_while(|axis| !used.contains(axis)).collect()
}

/// Indices that are merged in the result.
fn summed<'a>(
    program: &'a Program,
    op: &'a Op,
    indices: &'a [DimId],
) -> impl Iterator<Item = DimId> + 'a {
    let kept = &program.values[op.result].dims;
    let sums = !matches!(op.kind, OpKind::Rearrange(_) | OpKind::Composite { .. });
    indices.iter().copied().filter(move |index| sums && !kept.contains(index))
}

/// The axes of the result's dimensions, given those of the indices; `None` where a reshape would
/// split a block into several ranges.
fn result_dims(
    program: &Program,
    op: &Op,
    split: &dyn Fn(&DimId) -> AxisList,
) -> Option<smallvec::SmallVec<[AxisList; 4]>> {
    let kept = &program.values[op.result].dims;
    match &op.kind {
        OpKind::Rearrange(
            how @ (Rearrange::Rename(_)
            | Rearrange::Part { .. }
            | Rearrange::Join { .. }
            | Rearrange::Windows(_)
            | Rearrange::Overlap(_)),
        ) => {
            let pairs = how.relabelled().unwrap_or_default();
            let old = |dim: &DimId| {
                pairs.iter().find(|(_, new)| new == dim).map_or(*dim, |(old, _)| *old)
            };
            Some(kept.iter().map(|dim| split(&old(dim))).collect())
        }
        OpKind::Rearrange(Rearrange::Reshape(groups)) => {
            let mut lists: Vec<(DimId, AxisList)> = Vec::new();
            for group in groups {
                let given = reshape::regrouped(
                    program,
                    group,
                    &group.from.iter().map(split).collect::<Vec<_>>(),
                )?;
                lists.extend(group.to.iter().copied().zip(given));
            }
            let new = |dim: &DimId| {
                lists.iter().find(|(other, _)| other == dim).map(|(_, axes)| axes.clone())
            };
            Some(kept.iter().map(|dim| new(dim).unwrap_or_else(|| split(dim))).collect())
        }
        _ => Some(kept.iter().map(split).collect()),
    }
}

/// The sharding of the result of `op` for operands in these shardings (which must be compatible;
/// `shardwise_ir::verify` checks that); `None` where a reshape would split a block into several
/// ranges.
pub fn result_sharding(program: &Program, op: &Op, operands: &[Sharding]) -> Option<Sharding> {
    if op.operands.is_empty() {
        let rank = program.values[op.result].dims.len();
        return Some(
            op.result_pin
                .as_ref()
                .and_then(Pin::exact)
                .unwrap_or_else(|| Sharding::replicated(rank)),
        );
    }
    let (all, operands) =
        (operands, operands.get(..op.sharded_operands().len()).unwrap_or(operands));
    let split = |dim: &DimId| {
        if matches!(op.kind, OpKind::ScatterAdd { dim: places } if places == *dim) {
            let used: Vec<AxisRef> = operands.iter().flat_map(Sharding::axes).collect();
            let place =
                program.values[op.operands[2].value].dims.iter().position(|other| other == dim);
            return place.map(|place| of_like(&all[2].dims[place], &used)).unwrap_or_default();
        }
        let operands = op.operands.iter().zip(operands);
        let lists = operands.filter_map(|(operand, sharding)| {
            let position = program.values[operand.value].dims.iter().position(|d| d == dim)?;
            Some(&sharding.dims[position])
        });
        lists.max_by_key(|axes| axes.len()).cloned().unwrap_or_default()
    };
    let indices = indices(program, op);
    let partial: Vec<Option<Reduction>> = operands
        .iter()
        .map(|sharding| Some(sharding.unreduced.kind()).filter(|_| !sharding.unreduced.is_empty()))
        .collect();
    let carrier = partial.iter().position(Option::is_some);
    let passed = carrier.and_then(|carrier| {
        linearity_rules(op, &partial).into_iter().find(|rule| rule.operands.contains(&carrier))
    });
    let kind = passed.map_or_else(|| reduction(op), |rule| rule.result);
    let summed = summed(program, op, &indices).flat_map(|dim| split(&dim));
    let operands = if op.reads_elements() { operands } else { &[] };
    let carried = operands.iter().flat_map(|sharding| sharding.unreduced.axes().iter().copied());
    let mut pending: Vec<AxisRef> = summed.chain(carried).chain(program.stage_axis(op)).collect();
    pending.sort_unstable();
    pending.dedup();
    Some(Sharding {
        dims: result_dims(program, op, &split)?,
        unreduced: Unreduced::new(kind, pending),
    })
}

/// The sharding of the operand of a rename or reshape for which the result is sharded as `wanted`;
/// `None` for other operations, and where there is none.
pub(crate) fn operand_of_relabelling(
    program: &Program,
    op: &Op,
    wanted: &Sharding,
) -> Option<Sharding> {
    let OpKind::Rearrange(how) = &op.kind else { return None };
    let (old, new) = (&program.values[op.operands[0].value].dims, &program.values[op.result].dims);
    let split = |dim: DimId| {
        new.iter()
            .position(|&other| other == dim)
            .map(|place| wanted.dims[place].clone())
            .unwrap_or_default()
    };
    let dims = match how {
        Rearrange::Rename(_) | Rearrange::Part { .. } | Rearrange::Join { .. } => {
            let pairs = how.relabelled().unwrap_or_default();
            let name =
                |dim: DimId| pairs.iter().find(|(old, _)| *old == dim).map_or(dim, |(_, new)| *new);
            old.iter().map(|&dim| split(name(dim))).collect()
        }
        Rearrange::Reshape(groups) => {
            let mut lists: Vec<(DimId, AxisList)> = Vec::new();
            for group @ Regroup { from, to } in groups {
                let given = reshape::before(
                    program,
                    group,
                    &to.iter().map(|&dim| split(dim)).collect::<Vec<_>>(),
                )?;
                lists.extend(from.iter().copied().zip(given));
            }
            let before = |dim: DimId| {
                lists.iter().find(|(other, _)| *other == dim).map(|(_, axes)| axes.clone())
            };
            old.iter().map(|&dim| before(dim).unwrap_or_else(|| split(dim))).collect()
        }
        Rearrange::Slice(_)
        | Rearrange::Pad(_)
        | Rearrange::Concat { .. }
        | Rearrange::Chunk { .. }
        | Rearrange::Stack { .. }
        | Rearrange::Roll(_)
        | Rearrange::Windows(_)
        | Rearrange::Overlap(_) => return None,
    };
    let operand = Sharding { dims, unreduced: wanted.unreduced.clone() };
    (result_sharding(program, op, std::slice::from_ref(&operand)).as_ref() == Some(wanted))
        .then_some(operand)
}
