//! Programs to plans: propagate shardings, insert collectives, search for the cheapest plan, price
//! it.
//!
//! [`pipeline`] lists every pass, with the reason for its place. The folders, in the order in which
//! it uses them, each with the file to start with:
//!
//! * [`regroup`]: sums and products in another grouping;
//! * [`identical`]: equal statements, computed once;
//! * `training`: gradients, optimizer updates and microbatches as statements (`gradient.rs`);
//! * `fusion`: the operations that run as one kernel (`kernels.rs`), attention among them;
//! * `layouts`: every layout in which an operation can run on the mesh (`op_layouts.rs`);
//! * `reshard`: every sharding of a value (`sharding_space.rs`), and the cheapest steps between two
//!   of them (`paths.rs`);
//! * `propagate`: the textbook strategy (`textbook.rs`) and the four matmul cases that it applies
//!   (`matmul_cases.rs`);
//! * `problem`: the sharding problem, a layout per operation and a reshard tree per value;
//! * [`solver`]: a generic optimiser, which knows no program, sharding or collective
//!   (`minimize.rs`);
//! * `search`: the problem given to the solver (`serial.rs`), under a memory limit (`memory.rs`),
//!   or for the busiest resource and the schedule (`balanced.rs`);
//! * `insert_collectives`: an assignment of layouts becomes a plan of explicit steps (`plan.rs`);
//! * `cost`: the price of an AllReduce and of every other collective (`collective.rs`), of local
//!   operations (`local.rs`); schedule, memory and report.
//!
//! **Invariant:** passes never see source text. **Invariant:** folders form no circle; a test draws
//! the arrows from the imports.

mod cost;
mod fusion;
pub mod identical;
mod insert_collectives;
mod layouts;
pub mod pipeline;
mod problem;
mod propagate;
pub mod regroup;
mod reshard;
mod search;
pub mod solver;
mod training;

pub use cost::{
    collective, crossover, held, limits, liveness, local, pipeline_schedule, pipeline_stages,
    report, serving, stage_report,
};
pub use layouts::composite::ExpandedPlan;
pub use layouts::{local_shape, op_layouts};
pub use problem::{Problem, dominance};
pub use propagate::textbook;
pub use reshard::sharding_space::describe;
pub use reshard::tables::Tables;
pub use search::memory::blocks::least_at_the_end;
pub use search::{Effort, Found, Goal, Objective, Optimality, Refusal, Request, Rival, search};
pub use training::frameworks::regathers_by_default;
pub use training::gradient::GradientFault;
pub use training::microbatches::MicrobatchFault;
pub use training::optimizer::OptimizerFault;
pub use training::products::{dtypes_of_products, weights_of_products};
