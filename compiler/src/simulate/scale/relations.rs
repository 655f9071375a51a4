//! Sizes of dimensions that depend on each other: products on their factors, batches on their
//! microbatches, concatenations on their parts, renamed ones on each other.

use std::collections::BTreeSet;

use index_vec::IndexVec;
use indexmap::IndexSet;
use shardwise_ir::ids::DimId;
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Dim, Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Roll, Window, Windows, atoms};
use shardwise_ir::sharding::{AxisList, AxisRef, Pin};

use super::Batch;

pub(super) type Lengths = IndexVec<DimId, u64>;

/// The relations between the dimensions of a plan.
pub(super) struct Relations {
    /// For each dimension, the first of those that renames identify with it.
    pub(super) class: IndexVec<DimId, DimId>,
    /// For the first dimension of each class, all of it.
    members: IndexVec<DimId, Vec<DimId>>,
    /// Dimensions that are products, or factors of one.
    pub(super) factored: Vec<DimId>,
    /// Dimensions that are sliced or concatenated, and their parts: one part, or all parts.
    pub(super) joints: Vec<Joint>,
    /// Batches and their microbatches.
    pub(super) batches: Vec<Microbatches>,
    /// Dimensions that windows are of, the places of these, and the kernels.
    pub(super) windows: Vec<Windows>,
    /// The axes that split each dimension somewhere in the plan.
    pub(super) splits: IndexVec<DimId, Vec<AxisList>>,
}

/// A dimension and its parts.
pub(super) struct Joint {
    pub(super) whole: DimId,
    pub(super) parts: Vec<DimId>,
    /// Whether the parts are the complete dimension.
    pub(super) is_complete: bool,
}

/// A batch, the dimension of a microbatch, and how many of these are run; likewise a dimension that
/// is scanned, and that of a chunk, if chunks have one.
pub(super) struct Microbatches {
    pub(super) whole: DimId,
    pub(super) part: Option<DimId>,
    pub(super) count: u64,
}

/// The number of parts into which axes split a dimension.
pub(super) fn count(mesh: &Mesh, axes: &[AxisRef]) -> u64 {
    axes.iter().map(|axis| axis.size(mesh)).fold(1, u64::saturating_mul)
}

impl Relations {
    /// The relations in a plan, and in the program that it implements.
    pub(super) fn new<'b>(
        program: &Program,
        plan: &Plan,
        batches: impl Iterator<Item = &'b Batch>,
    ) -> Self {
        let find = |name: &str| plan.program.dims.position(|dim| dim.name == name);
        let microbatches = |batch: &Batch| {
            let part = batch.part.as_ref().and_then(|part| find(part));
            Some(Microbatches { whole: find(&batch.whole)?, part, count: batch.count })
        };
        let mut relations = Self {
            class: plan.program.dims.indices().collect(),
            members: IndexVec::new(),
            factored: factored(&plan.program),
            joints: Vec::new(),
            windows: Vec::new(),
            batches: batches.filter_map(microbatches).collect(),
            splits: splits(plan),
        };
        // Statements of the program may be other ones than the plan's; dimensions are found by
        // their names.
        for here in [program, &plan.program] {
            let find = |dim: DimId| find(&here.dims[dim].name);
            here.ops.iter().for_each(|op| relations.add(&op.kind, find));
        }
        relations.members = index_vec::index_vec![Vec::new(); plan.program.dims.len()];
        for dim in plan.program.dims.indices() {
            let class = relations.class[dim];
            relations.members[class].push(dim);
        }
        relations
    }

    /// The relations of an operation.
    fn add(&mut self, op: &OpKind, find: impl Fn(DimId) -> Option<DimId> + Copy) {
        match op {
            OpKind::Along(along) if along.from != along.to => {
                self.cut(find(along.from), vec![find(along.to)], false);
            }
            OpKind::Rearrange(Rearrange::Rename(pairs)) => {
                for &(a, b) in pairs {
                    self.join(find(a), find(b));
                }
            }
            OpKind::Rearrange(
                Rearrange::Slice(Window { from: whole, to: part, .. })
                | Rearrange::Pad(Window { from: part, to: whole, .. }),
            ) => self.cut(find(*whole), vec![find(*part)], false),
            OpKind::Rearrange(Rearrange::Windows(of) | Rearrange::Overlap(of)) => {
                let [whole, places, kernel] = [of.whole, of.places, of.kernel].map(find);
                if let (Some(whole), Some(places), Some(kernel)) = (whole, places, kernel) {
                    let windows = Windows { whole, places, kernel, ..*of };
                    if !self.windows.contains(&windows) {
                        self.windows.push(windows);
                    }
                }
            }
            OpKind::Rearrange(Rearrange::Concat { from, to }) => {
                self.cut(find(*to), from.iter().map(|&dim| find(dim)).collect(), true);
            }
            _ => {}
        }
    }

    fn join(&mut self, a: Option<DimId>, b: Option<DimId>) {
        if let (Some(a), Some(b)) = (a, b) {
            let (a, b) = (self.class[a], self.class[b]);
            let (first, other) = (a.min(b), a.max(b));
            if first != other {
                let moved = self.class.iter_mut().filter(|class| **class == other);
                moved.for_each(|class| *class = first);
            }
        }
    }

    fn cut(&mut self, whole: Option<DimId>, parts: Vec<Option<DimId>>, is_complete: bool) {
        if let (Some(whole), Some(parts)) = (whole, parts.into_iter().collect::<Option<Vec<_>>>()) {
            // The same relation is in the program and in its plan.
            if self.joints.iter().any(|joint| joint.whole == whole && joint.parts == parts) {
                return;
            }
            self.joints.push(Joint { whole, parts, is_complete });
        }
    }

    /// The dimensions of a class.
    pub(super) fn members(&self, dim: DimId) -> &[DimId] {
        &self.members[self.class[dim]]
    }

    /// The parts of a dimension, by classes.
    pub(super) fn joints_of(&self, dim: DimId) -> impl Iterator<Item = &Joint> {
        self.joints.iter().filter(move |joint| self.class[joint.whole] == self.class[dim])
    }

    /// Windows of a class that have their places on another one.
    pub(super) fn windows_of(&self, dim: DimId) -> impl Iterator<Item = &Windows> {
        let class = |dim: DimId| self.class[dim];
        let of = self.windows.iter().filter(move |of| class(of.whole) == class(dim));
        of.filter(move |of| class(of.places) != class(of.whole))
    }

    /// Whether a dimension is a product, a factor, or has parts that lie in it.
    pub(super) fn is_made_of_parts(&self, dim: DimId) -> bool {
        self.factored.contains(&dim) || self.joints.iter().any(|joint| joint.whole == dim)
    }

    /// Whether the size of a class depends on others, or others on it.
    pub(super) fn is_related(&self, dim: DimId) -> bool {
        let jointed = self.joints.iter().flat_map(|joint| joint.parts.iter().chain([&joint.whole]));
        let batches = self.batches.iter().flat_map(|batch| batch.part.iter().chain([&batch.whole]));
        let windows = self.windows.iter().flat_map(|of| [&of.whole, &of.places, &of.kernel]);
        let mut related = jointed.chain(batches).chain(windows).chain(&self.factored);
        related.any(|&other| self.class[other] == self.class[dim])
    }

    /// Whether factors or microbatches give a class its size.
    pub(super) fn is_product_or_batch(&self, plan: &Plan, dim: DimId) -> bool {
        let members = self.members(dim);
        members.iter().any(|&member| !plan.program.dims[member].factors.is_empty())
            || self.batches.iter().any(|batch| members.contains(&batch.whole))
    }

    /// The number of steps from a class to one that is made of nothing: parts and factors have
    /// lower ranks than what is made of them.
    pub(super) fn rank(&self, plan: &Plan, dim: DimId) -> usize {
        self.rank_within(plan, dim, MOST_RANKS)
    }

    /// A part as long as its dimension may lead to a cycle, so the number of steps is limited.
    fn rank_within(&self, plan: &Plan, dim: DimId, left: usize) -> usize {
        let dims = &plan.program.dims;
        let products = self.members(dim).iter().filter(|&&member| !dims[member].factors.is_empty());
        let factors = products.flat_map(|&product| atoms(dims, product));
        let parts = self.joints_of(dim).flat_map(|joint| joint.parts.iter().copied());
        let batches =
            self.batches.iter().filter(|batch| self.class[batch.whole] == self.class[dim]);
        let microbatches = batches.filter_map(|batch| batch.part);
        let places = self.windows_of(dim).map(|windows| windows.places);
        let below = factors.chain(parts).chain(microbatches).chain(places).filter(|_| left > 0);
        below.map(|part| 1 + self.rank_within(plan, part, left - 1)).max().unwrap_or(0)
    }
}

/// The limit of ranks.
const MOST_RANKS: usize = 6;

/// The products of a program, and their factors.
fn factored(program: &Program) -> Vec<DimId> {
    let products = program.dims.indices().filter(|&dim| !program.dims[dim].factors.is_empty());
    products.flat_map(|dim| [vec![dim], atoms(&program.dims, dim)].concat()).collect()
}

/// Every axis list of each dimension in the plan.
fn splits(plan: &Plan) -> IndexVec<DimId, Vec<AxisList>> {
    let declared = plan.program.values.iter_enumerated().filter_map(|(id, value)| {
        Some((id, value.declared_sharding.as_ref().and_then(Pin::exact)?))
    });
    let steps = plan
        .steps
        .iter()
        .flat_map(|step| step.operands.iter().chain([&step.result]))
        .map(|m| (m.value, m.sharding.clone()));
    let mut lists: IndexVec<DimId, IndexSet<AxisList>> =
        plan.program.dims.iter().map(|_| IndexSet::new()).collect();
    for (value, sharding) in declared.chain(steps) {
        for (&dim, axes) in plan.program.values[value].dims.iter().zip(sharding.dims) {
            lists[dim].insert(axes);
        }
    }
    lists.into_iter().map(|lists| lists.into_iter().collect()).collect()
}

/// The dimensions of a plan along which it shifts values, or cuts parts of them, at other places
/// than the program: at small sizes these places may be the same.
pub(super) fn moved_apart(program: &Program, plan: &Program) -> BTreeSet<DimId> {
    let (of_program, of_plan) = (places(program), places(plan));
    let names = of_program.symmetric_difference(&of_plan).flat_map(|(dims, _)| dims);
    let named = |name: &&str| plan.dims.indices().find(|&dim| plan.dims[dim].name == **name);
    names.filter_map(named).collect()
}

/// Where a program shifts values and cuts parts of them, each with the dimensions concerned.
fn places(program: &Program) -> BTreeSet<(Vec<&str>, u64)> {
    let place = |op: &Op| match op.kind {
        OpKind::Rearrange(Rearrange::Roll(Roll { dim, by })) => Some((vec![dim], by)),
        OpKind::Rearrange(Rearrange::Slice(window) | Rearrange::Pad(window)) => {
            Some((vec![window.from, window.to], window.start))
        }
        _ => None,
    };
    let named = |dim: DimId| program.dims[dim].name.as_str();
    let places = program.ops.iter().filter_map(place);
    places.map(|(dims, place)| (dims.into_iter().map(named).collect(), place)).collect()
}

/// Puts parts of dimensions, whose sizes were `before`, to places that fit the sizes that they have
/// now.
pub(super) fn move_windows(program: &mut Program, before: &IndexVec<DimId, Dim>) {
    let Program { dims, ops, .. } = program;
    let was = |dim: DimId| {
        before
            .iter()
            .find(|other| other.name == dims[dim].name)
            .map_or(dims[dim].size, |other| other.size)
    };
    for op in ops.iter_mut() {
        let OpKind::Rearrange(how) = &mut op.kind else { continue };
        if let Rearrange::Roll(Roll { dim, by }) = how {
            // From the end, it stays as far from there.
            let (old, new) = (was(*dim), dims[*dim].size);
            let places = if *by > old / 2 { new.saturating_sub(old - *by) } else { *by };
            *by = places.clamp(1, new.saturating_sub(1).max(1));
        }
        let (window, whole, part) = match how {
            Rearrange::Slice(window) => (&mut window.start, window.from, window.to),
            Rearrange::Pad(window) => (&mut window.start, window.to, window.from),
            _ => continue,
        };
        let unchanged = (was(whole), was(part)) == (dims[whole].size, dims[part].size);
        *window = match *window {
            start if unchanged || start == 0 => start,
            start if start + was(part) == was(whole) => dims[whole].size - dims[part].size,
            _ => 1,
        };
    }
}
