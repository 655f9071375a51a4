//! Programs to plans: propagate shardings, insert collectives, search for the cheapest plan, price
//! it.
//!
//! The folders, in the order in which [`pipeline`] uses them, each with the file to start with:
//!
//! * [`training`]: gradients, optimizer updates and microbatches as statements (`gradient.rs`);
//! * [`layouts`]: every layout in which an operation can run on the mesh (`op_layouts.rs`);
//! * [`reshard`]: every sharding of a value (`sharding_space.rs`), and the cheapest steps between
//!   two of them (`paths.rs`);
//! * [`propagate`]: the textbook strategy (`textbook.rs`) and the four matmul cases that it applies
//!   (`matmul_cases.rs`);
//! * [`problem`]: the sharding problem, a layout per operation and a reshard tree per value;
//! * [`solver`]: a generic optimiser, which knows no program, sharding or collective
//!   (`minimize.rs`);
//! * [`search`]: the problem given to the solver (`serial.rs`), under a memory limit (`memory.rs`),
//!   or for the overlap objective (`bottleneck.rs`);
//! * [`insert_collectives`]: an assignment of layouts becomes a plan of explicit steps (`plan.rs`);
//! * [`cost`]: the price of an AllReduce and of every other collective (`collective.rs`), of local
//!   operations (`local.rs`); schedule, memory and report.

pub mod cost;
pub mod insert_collectives;
pub mod layouts;
pub mod pipeline;
pub mod problem;
pub mod propagate;
pub mod reshard;
pub mod search;
pub mod solver;
pub mod training;
