//! `docs`, `schema` and `completions`: print texts that depend on no program.

use clap::CommandFactory;
use clap_complete::Shell;
use shardwise::docs;

use crate::args::Cli;
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn docs(topic: Option<&str>, output: &mut Output) -> Result {
    let Some(topic) = topic else { return output.print(&docs::list()) };
    let page = docs::page(topic).ok_or_else(|| {
        let near = docs::nearest(topic).map_or(String::new(), |near| format!("`{near}` is one; "));
        Error::usage(format!(
            "there is no page `{topic}`; {near}`shardwise docs` lists all of them"
        ))
    })?;
    output.print(&page)
}

pub(super) fn schema(output: &mut Output) -> Result {
    output.print(&(shardwise::json::schema() + "\n"))
}

pub(super) fn completions(shell: Shell, output: &mut Output) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "shardwise", &mut script);
    output.print(&String::from_utf8_lossy(&script))
}
