//! Programs and other texts from files and standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// A program's text and its name.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The program's name: its file's, without folder and extension.
    pub(crate) fn program(&self) -> String {
        let stem =
            Path::new(&self.path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.filter(|_| self.path != "-").unwrap_or_else(|| "program".to_owned())
    }
}

/// Reads a program from a file, or from standard input for `-`.
pub(crate) fn read(path: &str) -> Result<Source> {
    read_a(PROGRAM, path)
}

/// What most commands read.
const PROGRAM: &str = "program";

/// Reads another text, `what` it is in words.
pub(crate) fn read_a(what: &str, path: &str) -> Result<Source> {
    let bytes = bytes(path).map_err(|error| unreadable(what, path, &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { path: path.to_owned(), text }),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
            Err(Error::NotText { path: path.to_owned(), before })
        }
    }
}

/// The limit of what is read: devices such as `/dev/zero` do not end.
const MOST_BYTES: u64 = 256_000_000;

/// The bytes of a file, or of standard input for `-`; an error if it is longer than the limit.
pub(crate) fn bytes(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == "-" {
        bytes = standard_input()?;
    } else {
        File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 256 MB"));
    }
    Ok(bytes)
}

/// All of standard input, which can be read once, however often `-` is named.
fn standard_input() -> io::Result<Vec<u8>> {
    static READ: Mutex<Option<Vec<u8>>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = &*read {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    *read = Some(bytes.clone());
    Ok(bytes)
}

fn unreadable(what: &str, path: &str, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("; give the path of a {what}, or - for standard input")
        }
        io::ErrorKind::IsADirectory if what == PROGRAM => {
            "; give the path of a program in it (`shardwise check` alone reads folders)".to_owned()
        }
        io::ErrorKind::IsADirectory => format!("; give the path of a {what} in it"),
        _ => String::new(),
    };
    Error::unreadable(path, error, &hint)
}
