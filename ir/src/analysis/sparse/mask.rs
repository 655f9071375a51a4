//! Elements that do not count, and the share that is left.

use crate::ids::DimId;
use crate::program::{BandMask, Program, Share};
use crate::rearrange::Route;

use super::places::Bound;

/// The elements of a value that are known to be masked. A value without one of the dimensions does
/// not have the pattern.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Pattern {
    pub(super) mask: Mask,
    /// The greatest number that masked elements are: 0, or one that leaves nothing of a score in a
    /// softmax.
    pub(super) fill: f64,
}

/// Numbers that leave nothing of a score in a softmax.
const NEGLIGIBLE: f64 = -1e4;

/// Elements that do not count.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mask {
    /// Pairs of a query and a key that is not in the band around it.
    Band(BandMask),
    /// Slots of experts that a token is not sent to.
    Slots(Route),
    /// Slots that no token is sent to, of experts that have one for every token.
    Empty(Route),
    /// Rows of a table, in the gradient of lookups, that no index names: all but so many at most.
    Rows { dim: DimId, named: f64 },
}

impl Pattern {
    pub(super) fn is_zero(&self) -> bool {
        self.fill.abs() <= 0.0
    }

    pub(super) fn zero(self) -> Self {
        Self { fill: 0.0, ..self }
    }

    /// The same with another number in masked elements, if these still do not count.
    pub(super) fn filled(self, fill: f64) -> Option<Self> {
        (fill.abs() <= 0.0 || fill <= NEGLIGIBLE).then_some(Self { fill, ..self })
    }
}

impl Mask {
    /// Whether a function over `dims` goes over all keys, or all experts.
    pub(super) fn is_over(self, dims: &[DimId]) -> bool {
        match self {
            // Of each pair that is left out, the other elements along either are not all.
            Self::Band(band) => dims.contains(&band.key) || dims.contains(&band.query),
            Self::Slots(route) | Self::Empty(route) => dims.contains(&route.experts),
            Self::Rows { dim, .. } => dims.contains(&dim),
        }
    }

    pub(super) fn is_along(self, dims: &[DimId]) -> bool {
        let has = |all: &[DimId]| all.iter().all(|dim| dims.contains(dim));
        match self {
            Self::Band(BandMask { query, key, .. }) => has(&[query, key]),
            Self::Slots(Route { tokens, experts, capacity, .. }) => {
                has(&[tokens, experts, capacity])
            }
            Self::Empty(Route { experts, capacity, .. }) => has(&[experts, capacity]),
            Self::Rows { dim, .. } => has(&[dim]),
        }
    }

    /// The share of elements that are not masked.
    pub(super) fn share(self, program: &Program) -> Share {
        let size = |dim: DimId| program.dims[dim].size as f64;
        let of_all = match self {
            Self::Band(band) => {
                let of_all = band.share(&program.dims);
                return Share { of_all, band: Some(band), uneven: None };
            }
            Self::Slots(route) => {
                route.choices as f64 / (size(route.experts) * size(route.capacity))
            }
            Self::Empty(route) => {
                let sent = route.choices as f64 * size(route.tokens);
                sent / (size(route.experts) * size(route.capacity))
            }
            Self::Rows { dim, named } => named / size(dim),
        };
        Share { of_all: of_all.min(1.0), band: None, uneven: self.uneven(program) }
    }

    /// How tokens are sent to experts, where slots are what is masked.
    pub(super) fn route(self) -> Option<Route> {
        match self {
            Self::Slots(route) | Self::Empty(route) => Some(route),
            Self::Band(_) | Self::Rows { .. } => None,
        }
    }

    /// How tokens are sent to experts whose devices have unequal numbers of them: where experts
    /// have slots for so many tokens, all of these are computed.
    fn uneven(self, program: &Program) -> Option<Route> {
        let route = self.route()?;
        (route.stated_imbalance().is_some() && drops_nothing(program, route)).then_some(route)
    }

    /// The mask that leaves of this one what a bound does, too; this one, if it is along other
    /// dimensions.
    pub(super) fn within(of: Option<Self>, bound: Bound) -> Self {
        let Bound { later, than, at_most } = bound;
        let band = BandMask::until(than, later, at_most);
        match of {
            Some(Self::Band(mask)) => Self::Band(mask.and(band).unwrap_or(mask)),
            Some(mask) => mask,
            None => Self::Band(band),
        }
    }

    /// What both leave out.
    pub(super) fn common(self, other: Self) -> Option<Self> {
        match (self, other) {
            _ if self == other => Some(self),
            (Self::Band(a), Self::Band(b)) => a.or(b).map(Self::Band),
            _ => None,
        }
    }

    /// Whether no device holds what is masked: where experts have a slot for every token, rows
    /// stand one after another, and tokens are sent by their indices.
    pub(super) fn is_never_held(self, program: &Program) -> bool {
        match self {
            Self::Band(_) => false,
            Self::Slots(route) | Self::Empty(route) => drops_nothing(program, route),
            Self::Rows { .. } => true,
        }
    }

    /// Of values without the tokens, what is masked in those with them.
    pub(super) fn without_tokens(self, program: &Program) -> Option<Self> {
        match self {
            Self::Slots(route) if drops_nothing(program, route) => Some(Self::Empty(route)),
            _ => None,
        }
    }
}

/// Whether every expert has a slot for every token.
pub(super) fn drops_nothing(program: &Program, route: Route) -> bool {
    program.dims[route.capacity].size >= program.dims[route.tokens].size
}
