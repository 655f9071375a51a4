//! Finds the programs that arguments name: files, and for folders the `*.shard` files below them
//! that no .gitignore excludes. `check` reads them, and `--watch` polls them.

use std::path::Path;

use ignore::WalkBuilder;
use indexmap::IndexSet;

use crate::error::{Error, Result};

/// A program, and whether it was found in a folder (a configuration may exclude those).
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) in_folder: bool,
}

/// Every program once, in the order of the arguments and of the paths below a folder; an error for
/// each file or folder that cannot be read.
pub(crate) fn find(arguments: &[String]) -> impl Iterator<Item = Result<Found>> {
    let mut seen = IndexSet::new();
    arguments
        .iter()
        .flat_map(|argument| one_argument(argument))
        .filter(move |found| found.as_ref().map_or(true, |found| seen.insert(found.path.clone())))
}

fn one_argument(argument: &str) -> Vec<Result<Found>> {
    if !Path::new(argument).is_dir() {
        return vec![Ok(Found { path: argument.to_owned(), in_folder: false })];
    }
    below(argument).map(|path| Ok(Found { path: path?, in_folder: true })).collect()
}

/// The paths of the programs below a folder, sorted.
fn below(folder: &str) -> impl Iterator<Item = Result<String>> {
    let walk =
        WalkBuilder::new(folder).require_git(false).sort_by_file_path(|a, b| a.cmp(b)).build();
    walk.filter_map(move |entry| match entry {
        Ok(entry) => {
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            (is_file && is_program(entry.path())).then(|| shown(entry.path()))
        }
        Err(error) => Some(Err(Error::usage(format!("cannot read below `{folder}`: {error}")))),
    })
}

fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "shard")
}

/// A path in messages, with `/` on every system; an error where it is no text.
fn shown(path: &Path) -> Result<String> {
    let path = path.to_str().ok_or_else(|| {
        Error::usage(format!("the name of `{}` is not UTF-8; rename it", path.display()))
    })?;
    let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
    Ok(path.strip_prefix("./").map_or(path.clone(), str::to_owned))
}
