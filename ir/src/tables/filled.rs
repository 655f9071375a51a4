//! How many of a value's elements devices hold.

use crate::ids::DimId;
use crate::rearrange::Route;

/// How many of its elements the devices hold that a value is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filled {
    /// The share of all of them: less than one where experts have slots for more tokens than come.
    pub share: f64,
    /// How tokens are sent to experts, where these have unequal numbers.
    pub uneven: Option<Route>,
    /// How tokens are sent to experts that have more slots than tokens come.
    pub route: Option<Route>,
}

impl Filled {
    /// Devices hold all of its elements.
    pub const WHOLE: Self = Self { share: 1.0, uneven: None, route: None };

    /// Whether some of its elements are on no device.
    pub fn is_part(&self) -> bool {
        self.share < 1.0
    }

    /// The share of its elements that the fullest device holds, of a block where a dimension is
    /// split into so many parts.
    pub fn of_fullest(&self, parts: impl Fn(DimId) -> u64) -> f64 {
        let times = self.uneven.map_or(1.0, |route| route.imbalance(parts(route.experts)));
        (self.share * times).min(1.0)
    }
}
