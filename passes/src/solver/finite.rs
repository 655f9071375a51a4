//! Numbers with a total order, for queues and sorted sets.

use std::cmp::Ordering;

/// A finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finite(pub(crate) f64);

impl Eq for Finite {}

impl Ord for Finite {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
