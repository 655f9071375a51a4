//! A generic optimiser over finite domains, with bounds: weighted constraint satisfaction.
//!
//! A [`Model`] has variables with finite domains and a cost for each choice; terms whose cost
//! depends on the choices of several variables, given by a table ([`CostTable`]) or as the cheapest
//! tree in a graph ([`SteinerTerm`]); and a capacity at each moment ([`Capacity`]). All costs are
//! integers ([`Weight`]), so that sums do not depend on their order and bounds are exact.
//! [`minimize`] finds an assignment, a lower bound, and why it stopped. Nothing here knows what the
//! choices mean.
//!
//! ```
//! use shardwise_passes::solver::*;
//! // Cables are dug from a plant at node 0 to two towns, each of which may be connected at either
//! // of two places. Weights are hours of digging; what both towns use is dug once.
//! let hours = |hours: u32| Weight::seconds(hours.into());
//! let near = vec![(2, hours(1)), (3, hours(1))];
//! let edges = [vec![(1, hours(4))], near, vec![], vec![(4, hours(1))], vec![]];
//! let graph = Graph::new(&edges);
//! let town = |variable, nodes: [u32; 2]| End::Chosen(Placement { variable, nodes: nodes.into() });
//! let terminals = vec![town(0, [2, 3]), town(1, [3, 4])];
//! let tree = SteinerTerm { graph: 0, root: End::Fixed(0), via: None, terminals, multiplicity: 1 };
//! let unary = vec![vec![hours(0), hours(3)], vec![hours(2), hours(0)]];
//! let (terms, graphs) = (vec![Term::Tree(tree)], vec![graph.into()]);
//! let model = Model { unary, terms, graphs, ..Model::default() };
//! let solution = minimize(&model, &Limits::default());
//! assert_eq!((solution.assignment, solution.value), (Some(vec![0, 1]), hours(7)));
//! assert_eq!(solution.stop_reason, StopReason::Eliminated);
//! ```
//!
//! # The method
//!
//! * **Bucket elimination** ([`eliminate`]; Bertelè and Brioschi 1972, Dechter 1999): variables are
//!   eliminated one after another, each by a table over its neighbours. Exact, and fast where the
//!   graph of the terms is narrow; it is tried first. Mini-buckets split a table that would be too
//!   large, which leaves a bound.
//! * **Steiner trees** ([`dreyfus_wagner`]; Dreyfus and Wagner 1971): a term's cost for one
//!   combination of choices, on distances found by label correcting ([`graph`]).
//! * **Dual ascent** ([`dual`]; TRW-S: Kolmogorov 2006; SRMP: Kolmogorov 2015; MPLP: Globerson and
//!   Jaakkola 2007): where elimination is too large, the linear relaxation's dual is raised by
//!   message passing. The messages of a tree term are its min-marginals ([`marginals`]), computed
//!   on the graph and never tabulated.
//! * **Rounding** ([`primal_heuristic`]) and elimination over few choices give solutions;
//!   **reduced-cost fixing** (Dantzig, Fulkerson and Johnson 1954) removes choices, and edges of
//!   trees ([`used_edges`]), whose bound exceeds the incumbent, until exact elimination of the
//!   remaining ones proves optimality ([`anytime`]). Where tables over these would be too large,
//!   **branching** on the variables that make them so leaves parts that are eliminated one by one.
//! * Under a capacity, models whose terms have tables are presolved, and bounded by message passing
//!   with multipliers for moments ([`capacity`]). For others, **Lagrangian relaxation** (Everett
//!   1963; Held and Karp 1971; Fisher 1981) adds a price for each moment to the unary costs, with
//!   **Polyak's step** (1969) for the multipliers, inside **branch and bound** (Land and Doig 1960;
//!   [`lagrangian`], [`branch_and_bound`]). A single multiplier is found by **cutting planes**
//!   (Kelley 1960; [`cutting_plane`]).
//!
//! # Alternatives
//!
//! A general solver for mixed-integer programmes takes the same model with one binary variable per
//! choice and a flow per terminal: millions of rows for a model of a few hundred variables with a
//! thousand choices each, and minutes for a relaxation that dual ascent solves in milliseconds.
//! SAT-based solvers bound sums of many weights badly. Local search is as fast and proves nothing.
//!
//! # What clients use
//!
//! Beside [`minimize`] the crate uses: an incumbent callback, which returns the exact cost of an
//! assignment, and a cutoff ([`minimize::minimize_with`]); a lazy feasibility check under a
//! capacity ([`lagrangian::minimize_within`]); repeated minimisation under changed unary costs
//! ([`reprice::LagrangianSubproblem`]); and other optimal choices of a variable
//! ([`Solution::alternative`]).

#[cfg(test)]
mod against_brute_force;
pub(crate) mod anytime;
pub(crate) mod branch_and_bound;
pub(crate) mod capacity;
pub(crate) mod cutting_plane;
pub(crate) mod dreyfus_wagner;
pub(crate) mod dual;
mod edge_shares;
pub(crate) mod eliminate;
pub(crate) mod factor;
pub(crate) mod finite;
mod free_terminals;
pub(crate) mod graph;
pub(crate) mod interrupt;
pub(crate) mod lagrangian;
mod marginals;
pub(crate) mod minimize;
pub(crate) mod model;
mod neighbourhoods;
mod primal_heuristic;
pub(crate) mod reprice;
pub(crate) mod tabulate;
mod term_marginals;
mod used_edges;
pub(crate) mod weight;

pub use dreyfus_wagner::{Terminal, Trees};
pub use eliminate::TableLimits;
pub use graph::{Graph, Node};
pub use interrupt::{Cancellation, Interrupt, Listener, Progress};
pub use minimize::{Limits, Solution, StopReason, minimize};
pub use model::{
    Capacity, CostTable, Demand, End, Model, Placement, SteinerTerm, Term, UnaryCosts,
};
pub use weight::Weight;
