//! Minimisation over finite choices: bounds, elimination, branch and bound.

pub mod anytime;
pub(crate) mod branch_and_bound;
pub mod decode;
pub mod dominance;
pub mod dreyfus_wagner;
pub mod dual;
pub mod eliminate;
pub mod factor;
pub mod graph;
pub mod marginals;
pub mod reprice;
pub mod tabulate;
pub mod weight;
