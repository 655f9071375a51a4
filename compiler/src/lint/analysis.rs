//! What several rules ask of a program, its plans and its syntax tree.

pub(super) mod late_reductions;
pub(super) mod pins;
pub(super) mod program;
pub(super) mod slices;
pub(super) mod tree;
