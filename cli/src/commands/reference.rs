//! `docs`, `schema`, `completions` and `man`: print texts that depend on no program.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use shardwise::docs;
use shardwise::export::Format;

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

pub(super) fn schema(document: &Format<()>, output: &mut Output) -> Result {
    output.print(&((document.write)(&()).map_err(Error::usage)? + "\n"))
}

pub(super) fn completions(shell: Shell, output: &mut Output) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "shardwise", &mut script);
    output.print(&String::from_utf8_lossy(&script))
}

/// The manual page of the command, or those of all commands, written into a folder.
pub(super) fn man(folder: Option<&Path>, output: &mut Output) -> Result {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).expect("memory is written");
        return output.print(&String::from_utf8_lossy(&page));
    };
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| Error::unwritable(&folder.to_string_lossy(), &error))
}
