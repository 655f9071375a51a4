//! Exit statuses, for shells, build tools and CI.

use std::process::ExitCode;

/// The exit status of the command; the worst one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitStatus {
    /// 0: done, and nothing is wrong with the input.
    Success,
    /// 1: a program is wrong, or breaks a limit that was set for it.
    Failure,
    /// 2: the command cannot run: wrong usage, or a file that cannot be read or written.
    Error,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}
