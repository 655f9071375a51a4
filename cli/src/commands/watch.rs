//! `--watch`: runs the command again whenever a file that it reads changes.
//!
//! Files are polled five times a second and compared byte by byte. Notifications of the system (the
//! `notify` crate) would come sooner, but there are none on network file systems and on folders
//! that are shared with containers and virtual machines, where models are often edited; and an
//! editor's save causes anything from no event (the file was replaced) to five. A handful of small
//! files costs nothing to read.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use shardwise::files::MOST_BYTES;
use shardwise::hardware::named_file::named;
use shardwise::units::counted;

use crate::error::{Error, Result};
use crate::output::Output;
use crate::programs;

/// The time between two polls.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a command now and after every change of `files` (in folders: of the programs in them), of
/// the hardware files that these name, and of the `hardware` files. Ends when nothing can be
/// printed any more.
pub(super) fn watch(
    files: &[String],
    hardware: &[String],
    output: &mut Output,
    mut run: impl FnMut(&mut Output) -> Result,
) -> Result {
    if files.iter().any(|file| file == "-") {
        return Err(Error::usage("standard input cannot be watched; give the path of a program"));
    }
    let watched = Watched { files, hardware };
    let mut seen = Contents::read(watched);
    loop {
        let mut output = output.restarted();
        if let Err(error) = run(&mut output) {
            output.error(error)?;
        }
        output.remark(&format!("-- watching {}; press Ctrl-C to stop", seen.count()))?;
        let now = seen.changed(watched);
        output.remark(&format!("-- {} changed", seen.differences(&now).join(", ")))?;
        seen = now;
    }
}

/// The polled files.
#[derive(Clone, Copy)]
struct Watched<'a> {
    files: &'a [String],
    hardware: &'a [String],
}

/// The bytes of the files; `None` for one that cannot be read.
#[derive(PartialEq)]
struct Contents {
    /// Programs, then hardware files.
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
    programs: usize,
}

impl Contents {
    fn read(watched: Watched<'_>) -> Self {
        let paths = programs::find(watched.files).flatten().map(|found| PathBuf::from(found.path));
        let mut files: Vec<(PathBuf, Option<Vec<u8>>)> =
            paths.map(|path| (path.clone(), fs::read(path).ok())).collect();
        let mut hardware: BTreeSet<PathBuf> = watched.hardware.iter().map(PathBuf::from).collect();
        for (path, bytes) in &files {
            let text = bytes.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            hardware.extend(named(&path.to_string_lossy(), &text));
        }
        let programs = files.len();
        files.extend(hardware.into_iter().map(|path| (path.clone(), beginning(&path).ok())));
        Self { files, programs }
    }

    /// Waits for the contents after the next change: the bytes must be stable for one pause, since
    /// a file may be half written.
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
    fn count(&self) -> String {
        let many = |count: usize, what: &str| counted(count as u64, what);
        match self.files.len() - self.programs {
            0 => many(self.programs, "program"),
            others => {
                format!("{} and {}", many(self.programs, "program"), many(others, "hardware file"))
            }
        }
    }

    /// The paths of the files that changed, are new or are gone.
    fn differences(&self, now: &Self) -> Vec<String> {
        let gone =
            self.files.iter().filter(|(path, _)| !now.files.iter().any(|(other, _)| other == path));
        let new = now.files.iter().filter(|file| !self.files.contains(file));
        gone.chain(new).map(|(path, _)| path.to_string_lossy().into_owned()).collect()
    }
}

/// The beginning of a hardware file, up to the size limit.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !fs::metadata(path)?.is_file() {
        return Ok(bytes);
    }
    fs::File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
