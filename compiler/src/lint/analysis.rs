//! Analyses of programs, plans and syntax trees that several rules share.

pub(super) mod late_reductions;
pub(super) mod pins;
pub(super) mod program;
pub(super) mod slices;
pub(super) mod tree;
