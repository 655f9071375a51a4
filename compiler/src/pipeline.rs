//! The pipeline, in order: what happens to a program between its text and its plan. `--print-after`
//! reads the same table.

use shardwise_ir::Diag;
use shardwise_ir::program::Program;

use crate::{gradient, optimizer};

/// A place in the pipeline after which the program can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Names are resolved.
    Resolve,
    /// Gradients are derived.
    Gradient,
    /// Updates of parameters are written out.
    Optimizer,
}

impl Pass {
    /// The last one: behind it, programs are planned.
    pub(crate) const LAST: Self = Self::Optimizer;
}

/// What a pass does to a program.
type Rewrite = fn(Program) -> Result<Program, Vec<Diag>>;

/// Every pass that rewrites programs, first to last.
const PASSES: [(Pass, Rewrite); 2] = [
    // After names are resolved, since gradients are named after values; before any planning, which
    // lays out what is derived like the rest.
    (Pass::Gradient, gradient::derive),
    // After gradients, which the updates read.
    (Pass::Optimizer, optimizer::write_out),
];

/// The program that microbatches must agree with: the whole batch at once.
pub(crate) fn whole_batch(program: Program) -> Result<Program, Vec<Diag>> {
    optimizer::write_out(gradient::derive_whole(program)?)
}

/// The program as it is after `last`.
pub(crate) fn rewrite(mut program: Program, last: Pass) -> Result<Program, Vec<Diag>> {
    for (_, run) in PASSES.into_iter().filter(|(pass, _)| *pass <= last) {
        program = run(program)?;
    }
    Ok(program)
}
