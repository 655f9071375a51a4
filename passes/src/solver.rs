//! Minimisation over finite choices: bounds, elimination, branch and bound.

pub mod anytime;
pub(crate) mod branch_and_bound;
pub mod decode;
pub mod dominance;
pub mod dual;
pub mod eliminate;
pub mod factor;
pub(crate) mod graph;
pub mod reprice;
pub mod steiner;
pub mod tabulate;
pub mod weight;
