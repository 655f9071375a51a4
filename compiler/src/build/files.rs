//! Finds the programs to compile, and writes the output files.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::write::write_if_changed;
use super::{Compiled, rust};
use crate::source::files::{Files, MOST_BYTES};

/// The extension of program files.
const ENDING: &str = "shard";

/// A program's text.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) module: Vec<String>,
    pub(super) text: String,
}

impl Source {
    /// The hardware files that the program names.
    pub(super) fn hardware(&self) -> Vec<String> {
        crate::hardware::named_file::named(&slashed(&self.path), &self.text)
            .iter()
            .map(|path| slashed(path))
            .collect()
    }
}

/// For [`crate::Options`]: hardware files that programs name are read from the disk, up to a
/// maximal length.
pub fn from_disk() -> Files {
    Files::read_by(read)
}

/// Only regular files: reading a pipe could block.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?;
    if !kind.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            if kind.is_dir() { "it is a folder" } else { "it is no regular file" },
        ));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a hardware file.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let bytes = read(path)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(invalid("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8 text"))
}

/// An error about a file.
type Trouble = (PathBuf, io::Error);

/// A path in messages and generated files, with `/` on every system.
pub(super) fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// The program at a path, or all programs in the folder at it, sorted.
pub(super) fn programs(input: &Path) -> Result<Vec<Source>, Trouble> {
    if !input.is_dir() {
        return Ok(vec![source(input, input.file_name().map_or(input, Path::new))?]);
    }
    let mut paths = Vec::new();
    walk(input, &mut paths)?;
    paths.sort();
    if paths.is_empty() {
        let error = io::Error::new(io::ErrorKind::NotFound, format!("no `*.{ENDING}` in it"));
        return Err((input.to_owned(), error));
    }
    paths.iter().map(|path| source(path, path.strip_prefix(input).unwrap_or(path))).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Trouble> {
    let trouble = |error| (folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension() == Some(OsStr::new(ENDING)) {
            found.push(path);
        }
    }
    Ok(())
}

fn source(path: &Path, below: &Path) -> Result<Source, Trouble> {
    let text = fs::read_to_string(path).map_err(|error| (path.to_owned(), error))?;
    let module = below
        .with_extension("")
        .components()
        .map(|part| rust::module_name(&part.as_os_str().to_string_lossy()))
        .collect();
    Ok(Source { path: path.to_owned(), module, text })
}

/// Writes the plans, as text and as JSON, and the Rust module; returns every path, the module's
/// last.
pub(super) fn write_all(out_dir: &Path, programs: &[Compiled]) -> Result<Vec<PathBuf>, Trouble> {
    let mut files = Vec::new();
    for program in programs {
        let stem = out_dir.join(program.module.join("/"));
        write(&mut files, stem.with_extension("plan"), &program.planned.to_string())?;
        write(&mut files, stem.with_extension("json"), &(program.planned.json().to_text() + "\n"))?;
    }
    write(&mut files, out_dir.join("shardwise.rs"), &rust::module(programs))?;
    Ok(files)
}

fn write(files: &mut Vec<PathBuf>, path: PathBuf, text: &str) -> Result<(), Trouble> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| write_if_changed(&path, text));
    match written {
        Ok(_) => {
            files.push(path);
            Ok(())
        }
        Err(error) => Err((path, error)),
    }
}
