//! The programs that arguments name: files as they are, folders as the `*.shard` files below them
//! that .gitignore does not name.

use std::io;
use std::path::Path;

use ignore::WalkBuilder;
use indexmap::IndexSet;

use crate::output::{Ending, Output};

/// A program, and whether it was found in a folder (a configuration may leave those out).
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) in_folder: bool,
}

/// Every program once, in the order of the arguments and of paths below a folder.
pub(crate) fn find(arguments: &[String], output: &mut Output) -> io::Result<Vec<Found>> {
    let mut seen = IndexSet::new();
    let mut found = Vec::new();
    for argument in arguments {
        let in_folder = Path::new(argument).is_dir();
        let names = if in_folder { below(argument, output)? } else { vec![argument.clone()] };
        found.extend(
            names
                .into_iter()
                .filter(|name| seen.insert(name.clone()))
                .map(|name| Found { name, in_folder }),
        );
    }
    Ok(found)
}

fn below(folder: &str, output: &mut Output) -> io::Result<Vec<String>> {
    let walk =
        WalkBuilder::new(folder).require_git(false).sort_by_file_path(|a, b| a.cmp(b)).build();
    let mut names = Vec::new();
    for entry in walk {
        match entry {
            Ok(entry)
                if entry.file_type().is_some_and(|kind| kind.is_file())
                    && is_program(entry.path()) =>
            {
                let name = entry.path().to_string_lossy().replace('\\', "/");
                names.push(name.strip_prefix("./").map_or(name.clone(), str::to_owned));
            }
            Ok(_) => {}
            Err(error) => output
                .complain(&format!("cannot read below `{folder}`: {error}"), Ending::WrongUsage)?,
        }
    }
    Ok(names)
}

fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "shard")
}
