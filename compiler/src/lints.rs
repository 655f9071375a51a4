//! The table of lints, one file each, in the order of their codes.
//!
//! Each file is the lint's page, a whole program that triggers it, the cure, and its check; `tests/tests/lints.rs` runs both programs of every
//! page. What several checks need is in `pins` (what brackets on left sides cost) and `walk` (uses, names and lists of the tree).

mod all_reduce_for_scatter;
mod pinned_whole;
pub(crate) mod pins;
mod repeated_work;
pub(crate) mod unknown_allow;
pub(crate) mod unused_allow;
mod unused_axis;
mod unused_dimension;
mod unused_value;
mod walk;

use crate::lint::Lint;

pub(crate) const ALL: &[Lint] = &[
    pinned_whole::LINT,
    all_reduce_for_scatter::LINT,
    repeated_work::LINT,
    unused_axis::LINT,
    unused_dimension::LINT,
    unused_value::LINT,
    unused_allow::LINT,
    unknown_allow::LINT,
];
