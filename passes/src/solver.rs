//! A generic optimiser over finite domains.

pub(crate) mod anytime;
pub(crate) mod branch_and_bound;
pub(crate) mod cutting_plane;
pub(crate) mod dreyfus_wagner;
mod dual;
pub(crate) mod eliminate;
mod factor;
pub(crate) mod graph;
pub(crate) mod lagrangian;
mod marginals;
pub(crate) mod minimize;
pub(crate) mod model;
mod primal_heuristic;
pub(crate) mod reprice;
pub(crate) mod tabulate;
mod term_marginals;
pub(crate) mod weight;

pub use dreyfus_wagner::{Terminal, Trees};
pub use eliminate::TableLimits;
pub use graph::{Graph, Node};
pub use minimize::{Limits, Solution, StopReason, minimize};
pub use model::{
    CapacityRow, Contribution, CostTable, End, Model, Placement, SteinerTerm, Term, UnaryCosts,
};
pub use weight::Weight;
