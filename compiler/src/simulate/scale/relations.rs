//! Sizes of dimensions that depend on each other: products on their factors, renamed ones on each
//! other.

use std::cmp::Ordering;

use index_vec::IndexVec;
use shardwise_ir::ids::DimId;
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Dim, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Roll, Window, atoms};
use shardwise_ir::sharding::{AxisList, AxisRef};

use super::{Batch, lcm, smallest, splits};

type Lengths = IndexVec<DimId, u64>;

/// A size for every dimension of the plan, whose mesh has the size that it is run at; `mesh` is its
/// own.
pub(super) fn sizes(program: &Program, plan: &Plan, mesh: &Mesh, batches: &[Batch]) -> Lengths {
    let own: Lengths = plan.program.dims.iter().map(|dim| dim.size).collect();
    let mut relations = Relations::new(program, plan, mesh);
    let find = |name: &str| plan.program.dims.position(|dim| dim.name == name);
    relations.batches = batches
        .iter()
        .filter_map(|batch| Some((find(&batch.whole)?, find(&batch.part)?, batch.count)))
        .collect();
    let found = relations.solve(plan, &own, true);
    if relations.hold(plan, &own, &found) { found } else { relations.solve(plan, &own, false) }
}

/// For each dimension of the plan, the first of those that renames identify with it.
pub(super) fn renamed(plan: &Plan) -> IndexVec<DimId, DimId> {
    Relations::new(&plan.program, plan, &plan.program.mesh).class
}

/// The relations between dimensions.
struct Relations<'m> {
    /// The mesh that goes with the sizes written.
    mesh: &'m Mesh,
    /// For each dimension, the first of those that renames identify with it.
    class: IndexVec<DimId, DimId>,
    /// Dimensions that are products, or factors of one.
    factored: Vec<DimId>,
    /// Dimensions that are sliced or concatenated, and their parts: one part, or all parts.
    joints: Vec<Joint>,
    /// Batches, their microbatches, and how many of these there are.
    batches: Vec<(DimId, DimId, u64)>,
}

/// A dimension and its parts.
struct Joint {
    whole: DimId,
    parts: Vec<DimId>,
    /// Whether the parts are the complete dimension.
    complete: bool,
}

/// The number of parts into which axes split a dimension.
fn count(mesh: &Mesh, axes: &[AxisRef]) -> u64 {
    axes.iter().map(|axis| axis.size(mesh)).product()
}

impl<'m> Relations<'m> {
    fn new(program: &Program, plan: &Plan, mesh: &'m Mesh) -> Self {
        let mut relations = Self {
            mesh,
            class: plan.program.dims.indices().collect(),
            factored: Vec::new(),
            joints: Vec::new(),
            batches: Vec::new(),
        };
        for dim in
            plan.program.dims.indices().filter(|&dim| !plan.program.dims[dim].factors.is_empty())
        {
            relations.factored.push(dim);
            relations.factored.extend(atoms(&plan.program.dims, dim));
        }
        // Statements of the program may be other ones than the plan's; dimensions are found by
        // their names.
        for here in [program, &plan.program] {
            let find =
                |dim: DimId| plan.program.dims.position(|other| other.name == here.dims[dim].name);
            for along in here.ops.iter().filter_map(|op| {
                if let OpKind::Along(along) = &op.kind { Some(along) } else { None }
            }) {
                if along.from != along.to {
                    relations.cut(find(along.from), vec![find(along.to)], false);
                }
            }
            for how in here.ops.iter().filter_map(|op| {
                if let OpKind::Rearrange(how) = &op.kind { Some(how) } else { None }
            }) {
                match how {
                    Rearrange::Rename(pairs) => {
                        for &(a, b) in pairs {
                            relations.join(find(a), find(b));
                        }
                    }
                    Rearrange::Reshape(_)
                    | Rearrange::Roll(_)
                    | Rearrange::Part { .. }
                    | Rearrange::Join { .. } => {}
                    Rearrange::Slice(Window { from: whole, to: part, .. })
                    | Rearrange::Pad(Window { from: part, to: whole, .. }) => {
                        relations.cut(find(*whole), vec![find(*part)], false);
                    }
                    Rearrange::Concat { from, to } => {
                        relations.cut(find(*to), from.iter().map(|&dim| find(dim)).collect(), true);
                    }
                }
            }
        }
        relations
    }

    fn join(&mut self, a: Option<DimId>, b: Option<DimId>) {
        if let (Some(a), Some(b)) = (a, b) {
            let (a, b) = (self.class[a], self.class[b]);
            let (first, other) = (a.min(b), a.max(b));
            self.class.iter_mut().filter(|class| **class == other).for_each(|class| *class = first);
        }
    }

    fn cut(&mut self, whole: Option<DimId>, parts: Vec<Option<DimId>>, complete: bool) {
        if let (Some(whole), Some(parts)) = (whole, parts.into_iter().collect::<Option<Vec<_>>>()) {
            // The same relation is in the program and in its plan.
            if self.joints.iter().any(|joint| joint.whole == whole && joint.parts == parts) {
                return;
            }
            self.joints.push(Joint { whole, parts, complete });
        }
    }

    /// The parts of a dimension, by classes.
    fn joints_of(&self, dim: DimId) -> impl Iterator<Item = &Joint> {
        self.joints.iter().filter(move |joint| self.class[joint.whole] == self.class[dim])
    }

    /// The number of steps from a dimension to one without parts; a part as long as its dimension
    /// may lead to a cycle.
    fn depth(&self, dim: DimId, left: usize) -> usize {
        let parts = self.joints_of(dim).flat_map(|joint| &joint.parts).filter(|_| left > 0);
        parts.map(|&part| 1 + self.depth(part, left - 1)).max().unwrap_or(0)
    }

    fn members(&self, dim: DimId) -> Vec<DimId> {
        self.class.indices().filter(|&other| self.class[other] == self.class[dim]).collect()
    }

    fn is_any(&self, dim: DimId, among: &[DimId]) -> bool {
        self.members(dim).iter().any(|member| among.contains(member))
    }

    /// Sizes in order of the dimensions: those with factors once these have theirs. `shrink` makes
    /// factored ones small, too.
    fn solve(&self, plan: &Plan, own: &Lengths, shrink: bool) -> Lengths {
        let program = &plan.program;
        let mut found = own.clone();
        let mut taken = Vec::new();
        let mut order: Vec<DimId> =
            program.dims.indices().filter(|&dim| self.class[dim] == dim).collect();
        order.sort_by_key(|&dim| self.depth(dim, self.joints.len().min(4)));
        for dim in order {
            let members = self.members(dim);
            let is_batch = self.batches.iter().any(|(whole, ..)| members.contains(whole));
            if is_batch || members.iter().any(|&member| !program.dims[member].factors.is_empty()) {
                continue;
            }
            let jointed = self.joints.iter().any(|joint| {
                [joint.whole].iter().chain(&joint.parts).any(|&other| self.class[other] == dim)
            });
            let keeps = !shrink && (jointed || self.is_any(dim, &self.factored));
            let all = self.joints_of(dim).find(|joint| joint.complete);
            let size = match all {
                _ if keeps => own[dim],
                Some(joint) => joint.parts.iter().map(|&part| found[part]).sum(),
                None => self.shrunk(plan, &members, &taken, self.least_size(dim, own, &found)),
            };
            taken.push(size);
            for member in members {
                found[member] = size;
            }
        }
        for &(whole, part, count) in &self.batches {
            for member in self.members(whole) {
                found[member] = found[part] * count;
            }
        }
        for dim in program.dims.indices().filter(|&dim| !program.dims[dim].factors.is_empty()) {
            let size = atoms(&program.dims, dim).into_iter().map(|atom| found[atom]).product();
            for member in self.members(dim) {
                found[member] = size;
            }
        }
        found
    }

    /// The least that a dimension must be so that its parts lie in it as they do, with something
    /// before and after them where there is.
    fn least_size(&self, dim: DimId, own: &Lengths, found: &Lengths) -> u64 {
        let parts = self.joints_of(dim).flat_map(|joint| &joint.parts);
        parts
            .map(|&part| if own[part] == own[dim] { found[part] } else { found[part] + 2 })
            .max()
            .unwrap_or(0)
    }

    /// A small size for dimensions that are one, `least` at least. A factor that some axes split
    /// completely is as large as they are.
    fn shrunk(&self, plan: &Plan, members: &[DimId], taken: &[u64], least: u64) -> u64 {
        let size = plan.program.dims[members[0]].size;
        let wholes = self
            .batches
            .iter()
            .filter(|(_, part, _)| members.contains(part))
            .flat_map(|(whole, ..)| self.members(*whole));
        let mut lists: Vec<AxisList> =
            members.iter().copied().chain(wholes).flat_map(|dim| splits(plan, dim)).collect();
        if !members.iter().any(|dim| self.factored.contains(dim)) {
            let unit = lists.iter().map(|axes| count(&plan.program.mesh, axes)).fold(1, lcm);
            return smallest(size, unit, taken, least);
        }
        lists.extend(members.iter().flat_map(|&dim| self.through_products(plan, dim)));
        let unit = lists.iter().map(|axes| count(&plan.program.mesh, axes)).fold(1, lcm);
        match lists.iter().find(|axes| size > 1 && count(self.mesh, axes) == size) {
            Some(axes) => count(&plan.program.mesh, axes),
            None => smallest(size, unit, &[taken, &[unit]].concat(), least),
        }
    }

    /// The axes of products that split this factor of theirs, at the sizes written. Axes across a
    /// boundary between factors count for the last.
    fn through_products(&self, plan: &Plan, factor: DimId) -> Vec<AxisList> {
        let dims = &plan.program.dims;
        let mut lists = Vec::new();
        for product in dims.indices().filter(|&dim| !dims[dim].factors.is_empty()) {
            let atoms = atoms(dims, product);
            for axes in splits(plan, product) {
                let mut rest = axes.as_slice();
                for &atom in &atoms {
                    let fitting = (0..=rest.len())
                        .rev()
                        .find(|&n| dims[atom].size.is_multiple_of(count(self.mesh, &rest[..n])))
                        .unwrap_or(0);
                    let (here, after) = rest.split_at(fitting);
                    let complete = count(self.mesh, here) == dims[atom].size;
                    let straddles = !after.is_empty() && (!complete || Some(&atom) == atoms.last());
                    if atom == factor {
                        lists.push(here.iter().copied().collect());
                    }
                    if straddles {
                        lists.extend((Some(&factor) == atoms.last()).then(|| axes.clone()));
                        break;
                    }
                    rest = after;
                }
            }
        }
        lists
    }

    /// Whether everything that was divided still is, and what was split completely too.
    fn hold(&self, plan: &Plan, own: &Lengths, found: &Lengths) -> bool {
        let lie = |joint: &Joint| {
            let total: u64 = joint.parts.iter().map(|&part| found[part]).sum();
            let equal = joint.parts.iter().all(|&part| {
                (own[part] == own[joint.whole]) == (found[part] == found[joint.whole])
            });
            equal
                && if joint.complete {
                    total == found[joint.whole]
                } else {
                    total <= found[joint.whole]
                }
        };
        let wholes = self.joints.iter().map(|joint| &joint.whole);
        self.joints.iter().all(lie)
            && self.factored.iter().chain(wholes).all(|&dim| {
                let alike = |size: u64, mesh: &Mesh| {
                    let counts = splits(plan, dim).into_iter().map(|axes| count(mesh, &axes));
                    counts
                        .map(|count| (size.is_multiple_of(count), size == count))
                        .collect::<Vec<_>>()
                };
                alike(own[dim], self.mesh) == alike(found[dim], &plan.program.mesh)
            })
            && self.reshapes_hold(plan, own, found)
    }

    /// Whether axes of a product meet the same borders between its factors at the sizes found as at
    /// its own.
    fn reshapes_hold(&self, plan: &Plan, own: &Lengths, found: &Lengths) -> bool {
        let products =
            self.factored.iter().copied().filter(|&dim| !plan.program.dims[dim].factors.is_empty());
        products.into_iter().all(|dim| {
            let atoms = atoms(&plan.program.dims, dim);
            splits(plan, dim).iter().all(|axes| {
                sides(&atoms, axes, own, self.mesh)
                    == sides(&atoms, axes, found, &plan.program.mesh)
            })
        })
    }
}

/// On which side of each boundary between factors the parts after each axis end.
fn sides(atoms: &[DimId], axes: &[AxisRef], sizes: &Lengths, mesh: &Mesh) -> Vec<Vec<Ordering>> {
    let borders: Vec<u64> = (1..=atoms.len())
        .map(|n| atoms[..n].iter().map(|&atom| sizes[atom]).fold(1, u64::saturating_mul))
        .collect();
    (1..=axes.len())
        .map(|n| borders.iter().map(|border| count(mesh, &axes[..n]).cmp(border)).collect())
        .collect()
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
