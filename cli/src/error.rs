//! Errors of commands. Commands return them and [`crate::output`] prints them, so that no command
//! prints an error and continues by mistake.

use std::{fmt, io};

use shardwise::{Findings, codes};

use crate::exit_status::ExitStatus;

/// Why a command stops, or skips one of its files.
#[derive(Debug)]
pub(crate) enum Error {
    /// A sentence with what is wrong and what to type instead.
    Message(String, ExitStatus),
    /// Diagnostics of a program, a hardware file or a configuration.
    Findings(Findings),
    /// A file is not UTF-8 text; with the text before the first byte that is none.
    NotText { path: String, before: String },
    /// A stream or the environment cannot be used.
    Io(io::Error),
}

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// The command is used wrongly, or a file cannot be read or written.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Message(text.into(), ExitStatus::Error)
    }

    /// What the command was given is wrong.
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self::Message(text.into(), ExitStatus::Failure)
    }

    /// A file cannot be read; `hint` is what to type instead.
    pub(crate) fn unreadable(path: &str, error: &io::Error, hint: &str) -> Self {
        Self::usage(format!("cannot read `{path}`: {}{hint}", reason(error)))
    }

    /// Standard output cannot be written; that a reader closes it early is no error to report.
    pub(crate) fn stdout(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Io(error);
        }
        Self::usage(format!("cannot write to standard output: {}", reason(&error)))
    }

    /// A file cannot be written.
    pub(crate) fn unwritable(path: &str, error: &io::Error) -> Self {
        Self::usage(format!("cannot write `{path}`: {}", reason(error)))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Findings> for Error {
    fn from(findings: Findings) -> Self {
        Self::Findings(findings)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(text, _) => f.write_str(text),
            Self::Findings(findings) => findings.fmt(f),
            Self::NotText { path, before } => {
                let code = codes::syntax::NOT_TEXT;
                write!(f, "{code}: {}", not_text(path, before))
            }
            Self::Io(error) => f.write_str(&reason(error)),
        }
    }
}

/// That a file is not UTF-8 text.
pub(crate) fn not_text(path: &str, before: &str) -> String {
    format!("`{path}` is not UTF-8 text (byte {})", before.len())
}

/// The system's message as part of a sentence: without its capital letter and error number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let sentence = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
