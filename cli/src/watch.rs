//! `--watch`: the command again, whenever a file that it reads changes.
//!
//! By looking at the files every fifth of a second and comparing their bytes. The system's own notification (the `notify` crate) would be told sooner,
//! but is silent on network file systems and on folders that are shared with containers and virtual machines, which is where models are often
//! edited, and says of an editor's save anything from nothing (the file was replaced by another) to five events. A handful of small
//! files costs nothing to read.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::Colour;
use crate::output::{Ending, Output};

/// How often files are looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a command now and after every change of `files` (in folders: of the programs in them). Returns when it could not print.
pub(crate) fn watch(files: &[String], colour: Colour, mut run: impl FnMut(&mut Output) -> io::Result<()>) -> io::Result<Ending> {
    if files.iter().any(|file| file == "-") {
        Output::new(colour).complain("standard input cannot be watched; give the path of a program", Ending::WrongUsage)?;
        return Ok(Ending::WrongUsage);
    }
    let mut seen = Contents::read(files);
    loop {
        run(&mut Output::new(colour))?;
        say(&format!("watching {}; Ctrl-C ends", seen.words()))?;
        let now = seen.changed(files);
        say(&format!("{} changed", seen.differences(&now).join(", ")))?;
        seen = now;
    }
}

fn say(text: &str) -> io::Result<()> {
    writeln!(io::stderr().lock(), "-- {text}")
}

/// What the files hold; nothing, where one cannot be read.
#[derive(PartialEq)]
struct Contents(Vec<(PathBuf, Option<Vec<u8>>)>);

impl Contents {
    fn read(files: &[String]) -> Self {
        let mut paths = Vec::new();
        for file in files {
            collect(Path::new(file), &mut paths);
        }
        Self(paths.into_iter().map(|path| (path.clone(), fs::read(path).ok())).collect())
    }

    /// The contents after the next change. A file that is being written is waited for: what is read has to stay for a pause.
    fn changed(&self, files: &[String]) -> Self {
        loop {
            std::thread::sleep(PAUSE);
            let mut now = Self::read(files);
            if now == *self {
                continue;
            }
            loop {
                std::thread::sleep(PAUSE);
                let later = Self::read(files);
                if later == now {
                    return now;
                }
                now = later;
            }
        }
    }

    /// `2 programs`.
    fn words(&self) -> String {
        format!("{} program{}", self.0.len(), if self.0.len() == 1 { "" } else { "s" })
    }

    /// The names of files that are not as they were.
    fn differences(&self, now: &Self) -> Vec<String> {
        let gone = self.0.iter().filter(|(path, _)| !now.0.iter().any(|(other, _)| other == path));
        let new = now.0.iter().filter(|file| !self.0.contains(file));
        gone.chain(new).map(|(path, _)| path.to_string_lossy().into_owned()).collect()
    }
}

/// A file, or the programs below a folder, sorted.
fn collect(path: &Path, paths: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        paths.push(path.to_owned());
        return;
    }
    let entries = fs::read_dir(path).map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect());
    let mut entries: Vec<PathBuf> = entries.unwrap_or_default();
    entries.sort();
    for entry in entries.iter().filter(|entry| entry.is_dir() || entry.extension().is_some_and(|ending| ending == "shard")) {
        collect(entry, paths);
    }
}
