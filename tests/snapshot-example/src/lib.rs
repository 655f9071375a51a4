//! An example: a crate that keeps its sharding specs in `specs`, and reviews their plans and
//! findings like code.
//!
//! What a snapshot shows is one function, so that a test, a command and a build script of such a
//! crate show the same.

use shardwise::lint::{Config, formats, lint};
use shardwise::{Findings, Options};

/// The settings of all specs: what a `shardwise.toml` beside them says.
pub const SETTINGS: &str = include_str!("../specs/shardwise.toml");

/// What is to be reviewed of a spec: its plan, then what `check` finds in it, a line each.
///
/// # Errors
/// If the settings or the spec are wrong.
pub fn review(name: &str, source: &str) -> Result<String, Findings> {
    let settings = Config::parse("shardwise.toml", SETTINGS)?.settings(name.as_ref());
    let options = Options::default();
    let plan = shardwise::plan(name, source, &options)?;
    let findings = formats::concise(&[lint(name, source, &options, &settings)]);
    Ok(format!("{plan}\n{findings}"))
}
