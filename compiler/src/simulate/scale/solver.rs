//! Chooses the sizes that a plan is run at: small ones that satisfy all relations of dimensions.
//!
//! Classes of renamed dimensions are assigned in an order in which parts and factors come before
//! what is made of them. A class that nothing determines has a list of candidates, the smallest
//! first; products, concatenations and batches have the size that follows. Each assignment is
//! checked against all relations whose dimensions are known, and where no candidate is left the
//! search returns to the latest class that is related (conflict-directed backjumping).
//!
//! Sizes could also be chosen one by one and adjusted where a relation fails: then one relation is
//! satisfied at the cost of another, and a plan runs at sizes that its splits do not divide. A
//! library for constraints would be a large dependency for relations that the first candidates
//! nearly always satisfy.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use index_vec::IndexVec;
use shardwise_ir::ids::DimId;
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::Plan;
use shardwise_ir::rearrange::{Windows, atoms};
use shardwise_ir::sharding::{AxisList, AxisRef};

use super::lcm;
use super::relations::{Joint, Lengths, Relations, count};

/// Candidates of a class that no other has yet, and others.
const FRESH: usize = 24;
const TAKEN: usize = 8;

/// Earlier classes whose sizes a class avoids: those that it is likely to be in a statement with.
const APART: usize = 64;

/// Returns to an earlier class before the search gives up.
const MOST_RETURNS: usize = 10_000;

/// A plan, the mesh that it was made for (its own is the one that it is run on), and the relations
/// of its dimensions.
pub(super) struct Solver<'p> {
    pub(super) plan: &'p Plan,
    pub(super) mesh: &'p Mesh,
    pub(super) relations: &'p Relations,
    /// Whether related dimensions keep the sizes that they have, which satisfy all relations.
    pub(super) keeps_related: bool,
    /// Dimensions that keep their size.
    pub(super) kept: BTreeSet<DimId>,
    /// Dimensions that have one element, if relations allow that.
    pub(super) single: &'p BTreeSet<DimId>,
    /// Batches whose microbatches, so many, are divided as they are.
    pub(super) pipelined: Vec<(DimId, u64)>,
}

/// A relation of sizes.
enum Relation {
    /// Axes that divide a dimension still do; where it is made of parts, no others do.
    Splits(DimId),
    /// Parts lie in a dimension as they did.
    Joint(usize),
    /// A product of others.
    Product(DimId),
    /// A batch of microbatches.
    Batch(usize),
    /// Windows fit as they did, and reach no further than the next block.
    Windows(usize),
}

/// A relation to be checked once the last of its classes is assigned, with the places of the
/// others.
type Check = (Relation, BTreeSet<usize>);

/// A class that is assigned.
struct Frame {
    candidates: Vec<u64>,
    next: usize,
    /// The places of earlier classes that have to do with its failures.
    conflicts: BTreeSet<usize>,
}

impl Solver<'_> {
    /// A size for each dimension; `None` if none is found that satisfies all relations.
    pub(super) fn solve(&self) -> Option<Lengths> {
        let order = self.order();
        let checks = self.checks(&order);
        let mut sizes: Lengths = self.plan.program.dims.iter().map(|dim| dim.size).collect();
        let mut frames: Vec<Frame> = Vec::new();
        let mut left = MOST_RETURNS;
        while frames.len() < order.len() {
            let at = frames.len();
            let related = checks[at].iter().flat_map(|(_, others)| others.iter().copied());
            frames.push(Frame {
                candidates: self.candidates(&order, at, &sizes),
                next: 0,
                conflicts: related.collect(),
            });
            while !self.advance(&order, &checks, &mut frames, &mut sizes) {
                left = left.checked_sub(1)?;
                let failed = frames.pop()?.conflicts;
                let back = *failed.last()?;
                frames.truncate(back + 1);
                frames[back].conflicts.extend(failed.into_iter().filter(|&other| other < back));
            }
        }
        Some(sizes)
    }

    /// Gives the class of the last frame its next candidate with which all relations of it and
    /// earlier classes hold; whether there is one.
    fn advance(
        &self,
        order: &[DimId],
        checks: &[Vec<Check>],
        frames: &mut [Frame],
        sizes: &mut Lengths,
    ) -> bool {
        let at = frames.len() - 1;
        let Frame { candidates, next, .. } = &mut frames[at];
        while let Some(&size) = candidates.get(*next) {
            *next += 1;
            for &member in self.relations.members(order[at]) {
                sizes[member] = size;
            }
            if checks[at].iter().all(|(relation, _)| self.holds(relation, sizes)) {
                return true;
            }
        }
        false
    }

    /// One dimension of each class: parts and factors before what is made of them.
    fn order(&self) -> Vec<DimId> {
        let dims = self.plan.program.dims.indices();
        let mut order: Vec<DimId> = dims.filter(|&dim| self.relations.class[dim] == dim).collect();
        order.sort_by_key(|&dim| self.relations.rank(self.plan, dim));
        order
    }

    /// The relations to be checked once a class of `order` is assigned, with the places of the
    /// earlier classes in them.
    fn checks(&self, order: &[DimId]) -> Vec<Vec<Check>> {
        let mut place_of: IndexVec<DimId, usize> =
            index_vec::index_vec![0; self.plan.program.dims.len()];
        for (place, &class) in order.iter().enumerate() {
            for &member in self.relations.members(class) {
                place_of[member] = place;
            }
        }
        let mut checks: Vec<Vec<Check>> = order.iter().map(|_| Vec::new()).collect();
        for (relation, dims) in self.all() {
            let mut places: BTreeSet<usize> = dims.into_iter().map(|dim| place_of[dim]).collect();
            if let Some(last) = places.pop_last() {
                checks[last].push((relation, places));
            }
        }
        checks
    }

    /// All relations, with the dimensions in them.
    fn all(&self) -> Vec<(Relation, Vec<DimId>)> {
        let dims = &self.plan.program.dims;
        let splits = dims.indices().map(|dim| (Relation::Splits(dim), vec![dim]));
        let parts = self.relations.joints.iter().enumerate().map(|(number, joint)| {
            (Relation::Joint(number), [&[joint.whole], joint.parts.as_slice()].concat())
        });
        let products = dims.indices().filter(|&dim| !dims[dim].factors.is_empty());
        let products =
            products.map(|dim| (Relation::Product(dim), [vec![dim], atoms(dims, dim)].concat()));
        let batches = self.relations.batches.iter().enumerate();
        let batches = batches.map(|(number, batch)| {
            let dims = batch.part.into_iter().chain([batch.whole]).collect();
            (Relation::Batch(number), dims)
        });
        let windows =
            self.relations.windows.iter().enumerate().map(|(number, of)| {
                (Relation::Windows(number), vec![of.whole, of.places, of.kernel])
            });
        splits.chain(parts).chain(products).chain(batches).chain(windows).collect()
    }

    fn holds(&self, relation: &Relation, sizes: &Lengths) -> bool {
        match *relation {
            Relation::Splits(dim) => self.splits_hold(dim, sizes),
            Relation::Joint(number) => self.parts_lie(&self.relations.joints[number], sizes),
            Relation::Product(dim) => {
                self.product(dim, sizes) == sizes[dim] && self.borders_hold(dim, sizes)
            }
            Relation::Batch(number) => {
                let batch = &self.relations.batches[number];
                let part = batch.part.map_or(1, |part| sizes[part]);
                batch.count.checked_mul(part) == Some(sizes[batch.whole])
            }
            Relation::Windows(number) => self.windows_fit(&self.relations.windows[number], sizes),
        }
    }

    fn product(&self, dim: DimId, sizes: &Lengths) -> u64 {
        let atoms = atoms(&self.plan.program.dims, dim);
        atoms.into_iter().map(|atom| sizes[atom]).fold(1, u64::saturating_mul)
    }

    /// Whether a dimension can be in its order, and axes divide it as they do in the program. Where
    /// it is a product or a factor, or has parts, that goes for those that do not divide it, and
    /// for those that split it into single elements.
    fn splits_hold(&self, dim: DimId, sizes: &Lengths) -> bool {
        let Parts { own, here } = self.splits_of(dim);
        let of = &self.plan.program.dims[dim];
        let divides = |size: u64, parts: u64| size.is_multiple_of(parts);
        if of.zigzag.is_some_and(|order| !order.fits(sizes[dim])) {
            return false;
        }
        if self.relations.is_made_of_parts(dim) {
            let alike = |(&own, &here): (&u64, &u64)| {
                divides(of.size, own) == divides(sizes[dim], here)
                    && (of.size == own) == (sizes[dim] == here)
            };
            return own.iter().zip(&here).all(alike);
        }
        of.pad || here.iter().all(|&parts| divides(sizes[dim], parts))
    }

    /// The parts into which axes split a dimension, in the program and as it is run.
    fn splits_of(&self, dim: DimId) -> Parts {
        let lists = &self.relations.splits[dim];
        Parts {
            own: lists.iter().map(|axes| count(self.mesh, axes)).collect(),
            here: lists.iter().map(|axes| self.parts(axes)).collect(),
        }
    }

    fn parts(&self, axes: &[AxisRef]) -> u64 {
        count(&self.plan.program.mesh, axes)
    }

    fn parts_lie(&self, joint: &Joint, sizes: &Lengths) -> bool {
        let own = |dim: DimId| self.plan.program.dims[dim].size;
        let total = joint.parts.iter().map(|&part| sizes[part]).fold(0, u64::saturating_add);
        let is_alike =
            |&part: &DimId| (own(part) == own(joint.whole)) == (sizes[part] == sizes[joint.whole]);
        let fits = if joint.is_complete {
            total == sizes[joint.whole]
        } else {
            total <= sizes[joint.whole]
        };
        fits && joint.parts.iter().all(is_alike)
    }

    /// The size of a dimension whose windows have so many places, as many elements being in none of
    /// them, or outside of it, as in the program.
    fn size_for(&self, windows: &Windows, sizes: &Lengths) -> Option<u64> {
        let own = |dim: DimId| self.plan.program.dims[dim].size;
        let before = windows.stride.checked_mul(own(windows.places))?;
        let now = windows.stride.checked_mul(sizes[windows.places])?;
        own(windows.whole).checked_add(now)?.checked_sub(before)
    }

    fn windows_fit(&self, windows: &Windows, sizes: &Lengths) -> bool {
        let own = |dim: DimId| self.plan.program.dims[dim].size;
        let [whole, places, kernel] =
            [windows.whole, windows.places, windows.kernel].map(|dim| sizes[dim]);
        let halos = self.relations.splits[windows.whole].iter().all(|axes| {
            windows.halo(own, count(self.mesh, axes)).is_none()
                || windows.halo(|dim| sizes[dim], self.parts(axes)).is_some()
        });
        kernel == own(windows.kernel)
            && self.size_for(windows, sizes) == Some(whole)
            && windows.count(whole, kernel) == Some(places)
            && halos
    }

    /// Whether axes of a product meet the same borders between its factors as in the program.
    fn borders_hold(&self, product: DimId, sizes: &Lengths) -> bool {
        let dims = &self.plan.program.dims;
        let atoms = atoms(dims, product);
        let own: Lengths = dims.iter().map(|dim| dim.size).collect();
        self.relations.splits[product].iter().all(|axes| {
            sides(&atoms, axes, &own, self.mesh)
                == sides(&atoms, axes, sizes, &self.plan.program.mesh)
        })
    }

    /// The sizes that a class may have, the preferred ones first, where those before it in `order`
    /// are known.
    fn candidates(&self, order: &[DimId], at: usize, sizes: &Lengths) -> Vec<u64> {
        let class = order[at];
        let members = self.relations.members(class);
        let own = self.plan.program.dims[class].size;
        let is_kernel = |of: &Windows| members.contains(&of.kernel);
        if own == 1
            || members.iter().any(|dim| self.kept.contains(dim))
            || self.relations.windows.iter().any(is_kernel)
            || self.keeps_related && self.relations.is_related(class)
        {
            return vec![own];
        }
        if let Some(size) = self.determined(class, sizes) {
            return vec![size];
        }
        let earlier: Vec<u64> = order[..at]
            .iter()
            .rev()
            .take(APART)
            .filter(|&&dim| !self.relations.is_product_or_batch(self.plan, dim))
            .map(|&dim| sizes[dim])
            .collect();
        let mut found = self.free(members, &earlier, self.least(class, sizes));
        found.push(own);
        if self.single.contains(&class) {
            found.insert(0, 1);
        }
        found
    }

    /// The size that parts, factors or microbatches give a class.
    fn determined(&self, class: DimId, sizes: &Lengths) -> Option<u64> {
        let members = self.relations.members(class);
        let dims = &self.plan.program.dims;
        let is_member = |dim: &DimId| members.contains(dim);
        if let Some(&product) = members.iter().find(|&&dim| !dims[dim].factors.is_empty()) {
            return Some(self.product(product, sizes));
        }
        if let Some(batch) = self.relations.batches.iter().find(|batch| is_member(&batch.whole)) {
            return Some(batch.count.saturating_mul(batch.part.map_or(1, |part| sizes[part])));
        }
        if let Some(windows) = self.relations.windows_of(class).next() {
            return self.size_for(windows, sizes);
        }
        let whole = self.relations.joints_of(class).find(|joint| joint.is_complete)?;
        Some(whole.parts.iter().map(|&part| sizes[part]).fold(0, u64::saturating_add))
    }

    /// The least that a class must be so that its parts lie in it as they do, with something before
    /// and after them where there is.
    fn least(&self, class: DimId, sizes: &Lengths) -> u64 {
        let dims = &self.plan.program.dims;
        let extent = |joint: &Joint| {
            let longest = joint.parts.iter().map(|&part| {
                let is_whole = dims[part].size == dims[joint.whole].size;
                sizes[part] + if is_whole { 0 } else { 2 }
            });
            longest.max().unwrap_or(0)
        };
        self.relations.joints_of(class).map(extent).max().unwrap_or(0)
    }

    /// Sizes of a class that nothing determines, `least` at least: first those that behave under
    /// its splits as its own size does and are of no earlier class, so that swapped dimensions are
    /// noticed. A factor that some axes split completely is as large as they are.
    fn free(&self, members: &[DimId], earlier: &[u64], least: u64) -> Vec<u64> {
        let own = self.plan.program.dims[members[0]].size;
        let mut lists: Vec<&[AxisRef]> = Vec::new();
        for &member in members {
            lists.extend(self.relations.splits[member].iter().map(AxisList::as_slice));
        }
        let is_factor = members.iter().any(|dim| self.relations.factored.contains(dim));
        let through: Vec<AxisList> = if is_factor {
            members.iter().flat_map(|&dim| self.through_products(dim)).collect()
        } else {
            Vec::new()
        };
        lists.extend(through.iter().map(AxisList::as_slice));
        let microbatches = self.pipelined.iter().filter(|(dim, _)| members.contains(dim));
        let microbatches = microbatches.map(|(_, count)| *count).max().unwrap_or(1);
        let orders = members.iter().filter_map(|&dim| self.plan.program.dims[dim].zigzag);
        let blocks = orders.map(|order| 2 * order.pairs).fold(1, lcm);
        let unit = lists.iter().map(|axes| self.parts(axes)).fold(blocks, lcm) * microbatches;
        let whole = lists.iter().find(|axes| is_factor && count(self.mesh, axes) == own);
        let is_fresh = |size: &u64| !(earlier.contains(size) || is_factor && *size == unit);
        let alike = || like(own, unit).filter(|&size| size > 1 && size >= least);
        let fresh = alike().filter(is_fresh).take(FRESH);
        let taken = alike().filter(|size| !is_fresh(size)).take(TAKEN);
        whole.map(|axes| self.parts(axes)).into_iter().chain(fresh).chain(taken).collect()
    }

    /// The axes of products that split this factor of theirs, at the program's sizes. Axes across a
    /// boundary between factors count for the last.
    fn through_products(&self, factor: DimId) -> Vec<AxisList> {
        let dims = &self.plan.program.dims;
        let mut lists = Vec::new();
        for product in dims.indices().filter(|&dim| !dims[dim].factors.is_empty()) {
            let atoms = atoms(dims, product);
            for axes in &self.relations.splits[product] {
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
}

/// Parts of a dimension by its splits, on two meshes.
struct Parts {
    own: Vec<u64>,
    here: Vec<u64>,
}

/// The sizes that behave as `size` under splits that `unit` is a multiple of, the smallest first:
/// divided by all of them, or by some not.
fn like(size: u64, unit: u64) -> Box<dyn Iterator<Item = u64>> {
    let limit = unit.saturating_mul(4096);
    if size.is_multiple_of(unit) {
        Box::new((unit..limit).step_by(usize::try_from(unit).unwrap_or(usize::MAX)))
    } else {
        Box::new((unit + 1..limit).filter(move |size| !size.is_multiple_of(unit)))
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
