//! `--watch`: the command again, whenever a file that it reads changes.
//!
//! By looking at the files every fifth of a second and comparing their bytes. The system's own
//! notification (the `notify` crate) would be told sooner, but is silent on network file systems
//! and on folders that are shared with containers and virtual machines, which is where models are
//! often edited, and says of an editor's save anything from nothing (the file was replaced by
//! another) to five events. A handful of small files costs nothing to read.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use shardwise::files::MOST_BYTES;
use shardwise::hardware::named_file::named;

use crate::args::Colour;
use crate::output::{Ending, Output};

/// How often files are looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a command now and after every change of `files` (in folders: of the programs in them), of
/// the hardware files that these name, and of `more` files. Returns when it could not print.
pub(crate) fn watch(
    files: &[String],
    more: &[String],
    colour: Colour,
    mut run: impl FnMut(&mut Output) -> io::Result<()>,
) -> io::Result<Ending> {
    let watched = Watched { files, more };
    if files.iter().any(|file| file == "-") {
        Output::new(colour).complain(
            "standard input cannot be watched; give the path of a program",
            Ending::WrongUsage,
        )?;
        return Ok(Ending::WrongUsage);
    }
    let mut seen = Contents::read(watched);
    loop {
        run(&mut Output::new(colour))?;
        say(&format!("watching {}; Ctrl-C ends", seen.words()))?;
        let now = seen.changed(watched);
        say(&format!("{} changed", seen.differences(&now).join(", ")))?;
        seen = now;
    }
}

fn say(text: &str) -> io::Result<()> {
    writeln!(io::stderr().lock(), "-- {text}")
}

/// What is looked at.
#[derive(Clone, Copy)]
struct Watched<'a> {
    files: &'a [String],
    more: &'a [String],
}

/// What the files hold; nothing, where one cannot be read.
#[derive(PartialEq)]
struct Contents {
    /// Programs, then hardware files.
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
    programs: usize,
}

impl Contents {
    fn read(watched: Watched<'_>) -> Self {
        let mut paths = Vec::new();
        for file in watched.files {
            collect(Path::new(file), &mut paths);
        }
        let mut files: Vec<(PathBuf, Option<Vec<u8>>)> =
            paths.into_iter().map(|path| (path.clone(), fs::read(path).ok())).collect();
        let mut hardware: BTreeSet<PathBuf> = watched.more.iter().map(PathBuf::from).collect();
        for (path, bytes) in &files {
            let text = bytes.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            hardware.extend(named(&path.to_string_lossy(), &text));
        }
        let programs = files.len();
        files.extend(hardware.into_iter().map(|path| (path.clone(), beginning(&path).ok())));
        Self { files, programs }
    }

    /// The contents after the next change. A file that is being written is waited for: what is read
    /// has to stay for a pause.
    fn changed(&self, watched: Watched<'_>) -> Self {
        loop {
            std::thread::sleep(PAUSE);
            let mut now = Self::read(watched);
            if now == *self {
                continue;
            }
            loop {
                std::thread::sleep(PAUSE);
                let later = Self::read(watched);
                if later == now {
                    return now;
                }
                now = later;
            }
        }
    }

    /// `2 programs`, `1 program and 1 hardware file`.
    fn words(&self) -> String {
        let many = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        match self.files.len() - self.programs {
            0 => many(self.programs, "program"),
            others => {
                format!("{} and {}", many(self.programs, "program"), many(others, "hardware file"))
            }
        }
    }

    /// The names of files that are not as they were.
    fn differences(&self, now: &Self) -> Vec<String> {
        let gone =
            self.files.iter().filter(|(path, _)| !now.files.iter().any(|(other, _)| other == path));
        let new = now.files.iter().filter(|file| !self.files.contains(file));
        gone.chain(new).map(|(path, _)| path.to_string_lossy().into_owned()).collect()
    }
}

/// As much of a hardware file as is read at most.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !fs::metadata(path)?.is_file() {
        return Ok(bytes);
    }
    fs::File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file, or the programs below a folder, sorted.
fn collect(path: &Path, paths: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        paths.push(path.to_owned());
        return;
    }
    let entries = fs::read_dir(path)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect());
    let mut entries: Vec<PathBuf> = entries.unwrap_or_default();
    entries.sort();
    for entry in entries
        .iter()
        .filter(|entry| entry.is_dir() || entry.extension().is_some_and(|ending| ending == "shard"))
    {
        collect(entry, paths);
    }
}
