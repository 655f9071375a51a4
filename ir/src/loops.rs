//! Blocks of statements that are executed once per layer or once per microbatch: where names are in
//! scope, how often each statement runs, how layers are spread over pipeline stages, and what a
//! block means when it is unrolled.

pub mod checkpoint;
mod keep_gathered;
pub mod pipeline;
mod pipeline_blocks;
pub mod unroll;
