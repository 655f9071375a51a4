//! Shardings without the order of axes, and with axes that are alike taken for the same: a
//! relaxation of the sharding space, small enough to bound all plans where the space itself is too
//! large.
//!
//! A value in this space is known by how many axes of each class split each dimension, and how many
//! are pending. Every reshard of the real space is one here, at a price that is not higher: a
//! collective costs what its axes and bytes cost, whatever their order, and axes of a class have
//! the same size on the same links. A collective with slices in it is Slices and that collective
//! without them here, at the same bytes and fewer steps: only the order of axes keeps a Slice from
//! going before it. So every plan has its image here, and the least cost of the
//! images is a bound of all plans. Axes that brackets name are classes of their own as long as the
//! space stays small: if they are alike, conflicts between brackets are lost.

use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::sharding::{AxisList, AxisRef, DimPin, Pin, Sharding, Unreduced};
use smallvec::{SmallVec, smallvec};

use crate::reshard::steps::Targets;

/// Shardings of a value in the relaxed space, at most.
const MOST_STATES: u64 = 2600;

/// The axes of a mesh in classes.
#[derive(Clone, Debug)]
pub(crate) struct AxisClasses {
    /// Those of each class, in the order of the mesh.
    classes: Vec<Vec<AxisRef>>,
    /// The class of each axis of the mesh, if it is in one.
    class_of: Vec<Option<usize>>,
}

/// A number for each class.
type PerClass = SmallVec<[usize; 8]>;

impl AxisClasses {
    /// As many classes as keep the shardings of `rank` dimensions few: axes that are `apart` stay
    /// so for longer. `None` where axes that are not alike are too many.
    pub(crate) fn new(
        program: &Program,
        axes: &[AxisRef],
        apart: impl Fn(AxisRef) -> bool,
        rank: usize,
    ) -> Option<Self> {
        let mut classes: Vec<Vec<AxisRef>> = axes.iter().map(|&axis| vec![axis]).collect();
        let is_apart = |class: &Vec<AxisRef>| class.iter().any(|&axis| apart(axis));
        while states(&classes, rank) > MOST_STATES {
            let pairs = (0..classes.len())
                .flat_map(|first| (first + 1..classes.len()).map(move |second| (first, second)));
            let alike = pairs.filter(|&(first, second)| {
                are_alike(program, classes[first][0], classes[second][0])
            });
            let (first, second) = alike.min_by_key(|&(first, second)| {
                let named = [first, second].map(|class| usize::from(is_apart(&classes[class])));
                (named[0] + named[1], classes[first].len() + classes[second].len(), second)
            })?;
            let merged = classes.remove(second);
            classes[first].extend(merged);
            classes[first].sort_unstable();
        }
        let class_of = |axis: AxisRef| classes.iter().position(|class| class.contains(&axis));
        let all = program.mesh.axes.indices().map(AxisRef::whole);
        let class_of = all.map(class_of).collect();
        Some(Self { classes, class_of })
    }

    /// How many of some axes are of each class.
    fn counts(&self, axes: &[AxisRef]) -> PerClass {
        let mut counts = smallvec![0; self.classes.len()];
        for class in axes.iter().filter_map(|axis| self.class_of[axis.axis().index()]) {
            counts[class] += 1;
        }
        counts
    }

    /// The sharding that stands for all those with as many axes of each class in each place.
    pub(crate) fn canonical(&self, sharding: &Sharding) -> Sharding {
        let mut next: PerClass = smallvec![0; self.classes.len()];
        let mut taken = |axes: &[AxisRef]| -> AxisList {
            let mut list = AxisList::new();
            if axes.is_empty() {
                return list;
            }
            for ((class, next), count) in self.classes.iter().zip(&mut next).zip(self.counts(axes))
            {
                list.extend(class[*next..*next + count].iter().copied());
                *next += count;
            }
            list
        };
        let dims = sharding.dims.iter().map(|axes| taken(axes)).collect();
        let pending = taken(sharding.unreduced.axes());
        Sharding { dims, unreduced: Unreduced::new(sharding.unreduced.kind(), pending) }
    }

    /// Whether a pin accepts one of the shardings that a canonical one stands for.
    pub(crate) fn accepts(&self, pin: &Pin, canonical: &Sharding) -> bool {
        let has = |(pin, axes): (&DimPin, &AxisList)| {
            let (wanted, there) = (self.counts(pin.named()), self.counts(axes));
            let is_enough = wanted.iter().zip(&there).all(|(wanted, there)| wanted <= there);
            if pin.is_open() || pin.exact().is_none() { is_enough } else { wanted == there }
        };
        let (wanted, there) = (&pin.unreduced, &canonical.unreduced);
        self.counts(wanted.axes()) == self.counts(there.axes())
            && (wanted.is_empty() || wanted.kind() == there.kind())
            && pin.dims.iter().zip(&canonical.dims).all(has)
    }
}

/// Whether a collective over one axis costs as much as over the other.
fn are_alike(program: &Program, a: AxisRef, b: AxisRef) -> bool {
    let mesh = &program.mesh;
    let [a, b] = [a, b].map(|axis| (axis.size(mesh), &mesh.axes[axis.axis()].physical));
    a == b
}

/// The number of ways to deal out the axes of all classes to `rank` dimensions, pending and free.
fn states(classes: &[Vec<AxisRef>], rank: usize) -> u64 {
    let of_class = |class: &Vec<AxisRef>| {
        // Choose `rank + 1` of `axes + rank + 1`.
        let (axes, others) = (class.len() as u64, rank as u64 + 1);
        (1..=others).fold(1_u64, |ways, i| ways.saturating_mul(axes + i) / i)
    };
    classes.iter().map(of_class).fold(1, u64::saturating_mul)
}

/// Gathers of any of the axes, not only of the last.
pub(crate) fn gathers(from: &Sharding, targets: &mut Targets) {
    let split: Vec<AxisRef> = from.dims.iter().flatten().copied().collect();
    for left in subsets(&split) {
        let mut to = from.clone();
        to.dims.iter_mut().for_each(|axes| axes.retain(|axis| left.contains(axis)));
        targets.push((CollectiveKind::AllGather, to));
    }
}

/// Scatters of any of the pending axes to any dimensions.
pub(crate) fn scatters(from: &Sharding, targets: &mut Targets) {
    let mut dealt = vec![from.clone()];
    for &axis in from.unreduced.axes() {
        for i in 0..dealt.len() {
            let left = dealt[i].unreduced.axes().iter().copied().filter(|&other| other != axis);
            let unreduced = Unreduced::new(from.unreduced.kind(), left);
            for position in 0..from.dims.len() {
                let mut to = Sharding { unreduced: unreduced.clone(), ..dealt[i].clone() };
                to.dims[position].push(axis);
                dealt.push(to);
            }
        }
    }
    targets.extend(dealt.into_iter().skip(1).map(|to| (CollectiveKind::ReduceScatter, to)));
}

/// Exchanges of any axes between any dimensions.
pub(crate) fn exchanges(from: &Sharding, targets: &mut Targets) {
    let split: Vec<AxisRef> = from.dims.iter().flatten().copied().collect();
    let mut bare = from.clone();
    bare.dims.iter_mut().for_each(AxisList::clear);
    let mut dealt = vec![bare];
    for axis in split {
        let each = dealt.iter().flat_map(|so_far| {
            (0..from.dims.len()).map(move |position| {
                let mut to = so_far.clone();
                to.dims[position].push(axis);
                to
            })
        });
        dealt = each.collect();
    }
    targets.extend(dealt.into_iter().map(|to| (CollectiveKind::AllToAll, to)));
}

/// Every proper subset.
fn subsets(axes: &[AxisRef]) -> impl Iterator<Item = Vec<AxisRef>> + '_ {
    (0..(1_u32 << axes.len()) - 1).map(|picked| {
        let is_in = |(i, _): &(usize, &AxisRef)| picked >> i & 1 == 1;
        axes.iter().enumerate().filter(is_in).map(|(_, &axis)| axis).collect()
    })
}
