//! Text to a syntax tree with spans, and back. This crate knows the syntax of a program and nothing
//! of its meaning.

pub mod ast;
pub mod codes;
pub mod diag;
mod errors;
mod format;
mod habits;
pub mod keywords;
mod layouts;
pub mod number;
mod parse;
pub mod print;
mod scan;
pub mod span;

pub use format::format;
pub use parse::parse;
