//! Sources to programs, for tests.

use shardwise_ir::Diag;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Mode, Program};
use shardwise_ir::resolve::{Overrides, resolve};
use shardwise_ir::verify;

/// What most tests declare.
pub(crate) const MACHINE: &str = "hardware tpu-v5p\nmesh X=4, Y=2\ndim I=64, J=64, K=64\n";

/// The program, and its diagnostics.
pub(crate) fn read(source: &str) -> (Option<Program>, Vec<Diag>) {
    let (file, mut diags) = shardwise_grammar::parse(source);
    let (program, more) = resolve(&file, &Overrides::default());
    diags.extend(more);
    (program, diags)
}

/// A program that must be valid.
pub(crate) fn program(source: &str) -> Program {
    let (program, diags) = read(source);
    assert_eq!(diags, [], "{source}");
    program.expect("a program without errors")
}

/// The codes of all errors, those of the verifier included.
pub(crate) fn codes(source: &str) -> Vec<&'static str> {
    faults(source).iter().map(|diag| diag.code).collect()
}

/// All errors, those of the verifier included.
pub(crate) fn faults(source: &str) -> Vec<Diag> {
    let (program, mut diags) = read(source);
    if let Some(program) = program.filter(|program| program.mode == Mode::Explicit) {
        diags.extend(verify::explicit(program).err().unwrap_or_default());
    }
    diags
}

/// The plan that an explicit program is.
pub(crate) fn plan(source: &str) -> Plan {
    verify::explicit(program(source)).expect("a plan without faults")
}

/// [`MACHINE`] and these lines.
pub(crate) fn on_machine(lines: &str) -> String {
    format!("{MACHINE}{lines}\n")
}

/// An explicit program: `plan`, [`MACHINE`], these lines.
pub(crate) fn explicit(lines: &str) -> String {
    format!("plan\n{MACHINE}{lines}\n")
}
