//! Elements that do not count, and the share that is left.

use crate::ids::DimId;
use crate::program::{CausalMask, Fill, Program, Share};
use crate::rearrange::Route;

/// The elements of a value that are known to be masked. A value without one of the dimensions does
/// not have the pattern.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Pattern {
    pub(super) mask: Mask,
    pub(super) fill: Fill,
}

/// Elements that do not count.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mask {
    /// Pairs of a query and a later key, or one too far before it.
    Causal(CausalMask),
    /// Slots of experts that a token is not sent to.
    Slots(Route),
    /// Slots that no token is sent to, of experts that have one for every token.
    Empty(Route),
    /// Rows of a table, in the gradient of lookups, that no index names: all but so many at most.
    Rows { dim: DimId, named: f64 },
}

impl Pattern {
    pub(super) fn is_zero(&self) -> bool {
        self.fill == Fill::Zero
    }

    pub(super) fn zero(self) -> Self {
        Self { fill: Fill::Zero, ..self }
    }
}

impl Mask {
    /// Whether a function over `dims` goes over all keys, or all experts.
    pub(super) fn is_over(self, dims: &[DimId]) -> bool {
        match self {
            Self::Causal(causal) => dims.contains(&causal.key),
            Self::Slots(route) | Self::Empty(route) => dims.contains(&route.experts),
            Self::Rows { dim, .. } => dims.contains(&dim),
        }
    }

    pub(super) fn is_along(self, dims: &[DimId]) -> bool {
        let has = |all: &[DimId]| all.iter().all(|dim| dims.contains(dim));
        match self {
            Self::Causal(CausalMask { query, key, .. }) => has(&[query, key]),
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
            Self::Causal(causal) => {
                return Share { of_all: causal.share(&program.dims), causal: Some(causal) };
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
        Share { of_all: of_all.min(1.0), causal: None }
    }

    /// Whether no device holds what is masked: where experts have a slot for every token, rows
    /// stand one after another, and tokens are sent by their indices.
    pub(super) fn is_never_held(self, program: &Program) -> bool {
        match self {
            Self::Causal(_) => false,
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
