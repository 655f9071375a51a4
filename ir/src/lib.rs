//! The program as tables: mesh, hardware, dimensions, values, operations, shardings, collectives
//! and plans.
//!
//! | folder | what is in it |
//! | --- | --- |
//! | `types` | [`ids`], [`dtype`]s, [`mesh`], [`axis_parts`], [`sharding`]s, settings of a run |
//! | `tables` | programs and plans: [`program`], [`blocks`], [`stages`], [`plan`], [`hardware`] |
//! | [`functions`] | one table of operations: the properties of every function |
//! | `loops` | [`pipeline`]s, gathered weights that are kept, [`unroll`] |
//! | `analysis` | [`shape`]s, masks ([`sparse`]), [`weights`], [`collective`]s, [`dataflow`] |
//! | [`codes`] | every diagnostic code with its page |
//! | [`resolve`] | the syntax tree becomes a [`program::Program`]: names become ids, once |
//! | [`verify`] | the verifier of shardings, collectives, local operations and plans |
//! | [`print`](mod@print) | programs and plans as text that parses back to them |
//!
//! Modules of `types`, `tables`, `loops` and `analysis` are re-exported here, so that a path names
//! what an item is and not where its file stands: `shardwise_ir::program::Program`.

mod analysis;
pub mod codes;
mod counted;
pub mod functions;
mod loops;
pub mod print;
pub mod resolve;
pub mod suggest;
mod tables;
mod total;
mod types;
pub mod verify;

pub use analysis::{
    collective, dataflow, host_memory, nvlink_domain, order, shape, sparse, weights,
};
pub use counted::counted;
pub use loops::{checkpoint, pipeline, unroll};
pub use shardwise_grammar::ast::Role;
pub use shardwise_grammar::diag::{Diag, Severity};
pub use shardwise_grammar::span::Span;
pub use tables::{
    blocks, filled, hardware, optimizer, plan, program, rates, rearrange, renumber, stages,
};
pub use total::total;
pub use types::{axis_parts, collectives, dtype, ids, mesh, products, sharding};
