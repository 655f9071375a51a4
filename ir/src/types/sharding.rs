//! Shardings: which mesh axes split which dimension, in which order, and over which axes a value is
//! unreduced.
//!
//! Constraints (each checked by [`crate::verify`]):
//! * an axis appears at most once in a sharding, the unreduced set included;
//! * an unreduced set has one kind: sums, maxima and minima do not mix, since the result would
//!   depend on the order of the reductions;
//! * the product of a dimension's axes divides its size, unless the dimension is padded.

use serde::Serialize;
use smallvec::SmallVec;

use crate::ids::AxisId;
use crate::mesh::Mesh;

/// The axis of a subscript: always a complete mesh axis. A type of its own, so that a part of an
/// axis (8 used as 2 and 4) can become one more kind of reference without a change to code that
/// only compares, orders or sizes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct AxisRef(AxisId);

impl AxisRef {
    /// The complete `axis`.
    pub fn whole(axis: AxisId) -> Self {
        Self(axis)
    }

    /// The mesh axis that it is, or is a part of.
    pub fn axis(self) -> AxisId {
        self.0
    }

    /// The number of parts it splits into.
    pub fn size(self, mesh: &Mesh) -> u64 {
        mesh.axes[self.0].size
    }
}

/// The axes of one dimension, major to minor.
pub type AxisList = SmallVec<[AxisRef; 4]>;

/// How partial values are reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// By addition: `{U_X}`.
    #[default]
    Sum,
    /// By the larger: `{max_X}`.
    Max,
    /// By the smaller: `{min_X}`.
    Min,
}

impl Reduction {
    /// As written inside braces.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Sum => "U",
            Self::Max => "max",
            Self::Min => "min",
        }
    }
}

/// The axes over which a value is still to be reduced; empty for a reduced one (whose kind is then
/// `Sum`, so that equality is plain).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Unreduced {
    kind: Reduction,
    axes: AxisList,
}

impl Unreduced {
    /// Pending over `axes` (in any order; kept sorted).
    pub fn new(kind: Reduction, axes: impl IntoIterator<Item = AxisRef>) -> Self {
        let mut axes: AxisList = axes.into_iter().collect();
        axes.sort_unstable();
        let kind = if axes.is_empty() { Reduction::Sum } else { kind };
        Self { kind, axes }
    }

    /// How it will be reduced.
    pub fn kind(&self) -> Reduction {
        self.kind
    }

    /// Over which axes, sorted.
    pub fn axes(&self) -> &[AxisRef] {
        &self.axes
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.axes.is_empty()
    }
}

/// A complete sharding: one axis list a dimension, and the unreduced set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Sharding {
    /// For each dimension of the value, its axes, major to minor.
    pub dims: SmallVec<[AxisList; 4]>,
    /// The pending reduction.
    pub unreduced: Unreduced,
}

impl Sharding {
    /// Replicated and reduced.
    pub fn replicated(rank: usize) -> Self {
        Self { dims: (0..rank).map(|_| AxisList::new()).collect(), unreduced: Unreduced::default() }
    }

    /// Every axis that it names, dimension by dimension, then the unreduced ones.
    pub fn axes(&self) -> impl Iterator<Item = AxisRef> + '_ {
        self.dims.iter().flatten().chain(self.unreduced.axes()).copied()
    }

    /// Whether it names `axis`, the unreduced set included.
    pub fn uses(&self, axis: AxisRef) -> bool {
        self.axes().any(|a| a == axis)
    }
}

/// What an author wrote of the axes of one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimPin {
    /// `B_X`, `D`: these axes.
    Exactly(AxisList),
    /// `F_?`, `B_{X,?}`: these axes first, the search's choice after them.
    First(AxisList),
}

impl DimPin {
    /// `F_?`.
    pub fn open() -> Self {
        Self::First(AxisList::new())
    }

    /// Whether no axis is written.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::First(axes) if axes.is_empty())
    }

    /// Whether a dimension that is split over `axes` is as written.
    pub fn accepts(&self, axes: &AxisList) -> bool {
        match self {
            Self::Exactly(all) => all == axes,
            Self::First(first) => axes.starts_with(first),
        }
    }

    /// What is as written in both, if anything can be.
    pub fn and(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Exactly(axes), pin) | (pin, Self::Exactly(axes)) => {
                pin.accepts(axes).then(|| Self::Exactly(axes.clone()))
            }
            (Self::First(these), Self::First(those)) => {
                let longer = if these.len() < those.len() { those } else { these };
                let fits = self.accepts(longer) && other.accepts(longer);
                fits.then(|| Self::First(longer.clone()))
            }
        }
    }

    /// All axes of the dimension, where nothing is open.
    pub fn exact(&self) -> Option<&AxisList> {
        match self {
            Self::Exactly(axes) => Some(axes),
            Self::First(_) => None,
        }
    }

    /// The axes that are written: all of them, or the first.
    pub fn named(&self) -> &AxisList {
        match self {
            Self::Exactly(axes) | Self::First(axes) => axes,
        }
    }

    /// The same with other axes.
    #[must_use]
    pub fn with(&self, axes: AxisList) -> Self {
        match self {
            Self::Exactly(_) => Self::Exactly(axes),
            Self::First(_) => Self::First(axes),
        }
    }
}

/// What an author wrote in brackets: a sharding that may leave dimensions open (`F_?`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// For each dimension what is written of its axes.
    pub dims: Vec<DimPin>,
    /// The pending reduction.
    pub unreduced: Unreduced,
}

impl Pin {
    /// `[B_?, D_?]`: all of `rank` dimensions open, and nothing pending.
    pub fn open(rank: usize) -> Self {
        Self { dims: vec![DimPin::open(); rank], unreduced: Unreduced::default() }
    }

    /// Whether `sharding` is what was written.
    pub fn accepts(&self, sharding: &Sharding) -> bool {
        self.unreduced == sharding.unreduced
            && self.dims.len() == sharding.dims.len()
            && self.dims.iter().zip(&sharding.dims).all(|(pin, axes)| pin.accepts(axes))
    }

    /// What both accept, if there can be anything.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let dims = self.dims.iter().zip(&other.dims).map(|(this, that)| this.and(that));
        let dims = dims.collect::<Option<_>>()?;
        let fits = self.unreduced == other.unreduced && self.dims.len() == other.dims.len();
        fits.then(|| Self { dims, unreduced: self.unreduced.clone() })
    }

    /// The one sharding it accepts, if nothing is open.
    pub fn exact(&self) -> Option<Sharding> {
        let dims = self.dims.iter().map(|pin| pin.exact().cloned()).collect::<Option<_>>()?;
        Some(Sharding { dims, unreduced: self.unreduced.clone() })
    }
}

impl From<Sharding> for Pin {
    fn from(sharding: Sharding) -> Self {
        Self {
            dims: sharding.dims.into_iter().map(DimPin::Exactly).collect(),
            unreduced: sharding.unreduced,
        }
    }
}
