//! The program as tables: mesh, hardware, dimensions, values, operations, shardings, collectives
//! and plans.
pub mod blocks;
pub mod dataflow;
pub mod divisor;
pub mod domain;
pub mod dtype;
pub mod functions;
pub mod hardware;
pub mod held;
pub mod ids;
pub mod mesh;
pub mod monotone;
pub mod optimizer;
pub mod order;
pub mod pipeline;
pub mod plan;
pub mod print;
pub mod program;
pub mod rearrange;
pub mod resolve;
pub mod shape;
pub mod sharding;
pub mod sparse;
pub mod suggest;
pub mod unroll;
pub mod verify;

pub use shardwise_grammar::ast::Role;
pub use shardwise_grammar::diag::{Diag, Severity};
pub use shardwise_grammar::span::Span;
