//! Both streams, and the exit status. Results go to standard output; errors, diagnostics and
//! remarks go to standard error. A reader that closes the pipe early is no error; what was found
//! before that still counts.

mod headed;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ColorChoice;
use miette::{GraphicalReportHandler, GraphicalTheme};
use shardwise::diagnostics::escaped;
use shardwise::{Findings, Report};
use terminal_size::terminal_size_of;

use crate::error::{Error, Result};
use crate::exit_status::ExitStatus;
use headed::Headed;

/// The streams of a command, and its worst exit status so far.
pub(crate) struct Output {
    colored: bool,
    status: ExitStatus,
}

impl Output {
    pub(crate) fn new(color: ColorChoice) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colored = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => io::stderr().is_terminal() && !no_color,
        };
        Self { colored, status: ExitStatus::Success }
    }

    /// The same streams for another run.
    pub(crate) fn restarted(&self) -> Self {
        Self { colored: self.colored, status: ExitStatus::Success }
    }

    pub(crate) fn status(&self) -> ExitStatus {
        self.status
    }

    /// Sets the exit status, unless it is worse already.
    pub(crate) fn at_least(&mut self, status: ExitStatus) {
        self.status = self.status.max(status);
    }

    /// Prints a result.
    #[expect(clippy::unused_self, reason = "who prints also knows how the run ends")]
    pub(crate) fn print(&mut self, text: &str) -> Result {
        write_to_stdout(text.as_bytes())
    }

    /// Prints a remark, which is not a result.
    #[expect(clippy::unused_self, reason = "who prints also knows how the run ends")]
    pub(crate) fn remark(&mut self, text: &str) -> Result {
        Ok(writeln!(io::stderr().lock(), "{}", escaped(text))?)
    }

    /// Prints an error. If that fails too, the command stops.
    pub(crate) fn error(&mut self, error: Error) -> Result {
        match error {
            Error::Message(text, status) => {
                self.at_least(status);
                self.remark(&format!("error: {text}"))
            }
            Error::Findings(findings) => self.refusal(&findings),
            error @ Error::NotText { .. } => {
                self.at_least(ExitStatus::Failure);
                self.remark(&format!("error: {error}"))
            }
            Error::Io(error) => Err(error.into()),
        }
    }

    /// Prints why there is no result. That is never success, whatever the reason.
    pub(crate) fn refusal(&mut self, findings: &Findings) -> Result {
        self.at_least(ExitStatus::Failure);
        self.findings(findings)
    }

    /// Prints diagnostics; errors among them fail the run.
    pub(crate) fn findings(&mut self, findings: &Findings) -> Result {
        if findings.has_errors() {
            let is_usage = findings.blame_options();
            self.at_least(if is_usage { ExitStatus::Error } else { ExitStatus::Failure });
        }
        let mut drawn = findings.reports.iter().map(|report| draw(report, self.colored));
        drawn.try_for_each(|text| Ok(writeln!(io::stderr().lock(), "{text}\n")?))
    }

    /// The exit status of the command.
    pub(crate) fn finish(mut self, result: Result) -> ExitStatus {
        match result.or_else(|error| self.error(error)) {
            Ok(()) => self.status,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => self.status,
            Err(error) => {
                // Nothing is reported where standard error is the stream that cannot be written.
                let _ = self.remark(&format!("error: {error}"));
                ExitStatus::Error
            }
        }
    }
}

fn write_to_stdout(content: &[u8]) -> Result {
    let mut out = io::stdout().lock();
    out.write_all(content).and_then(|()| out.flush()).map_err(Error::stdout)
}

/// Writes a file, completely or not at all; `-` is standard output.
pub(crate) fn write_file(path: &str, content: impl AsRef<[u8]>) -> Result {
    if path == "-" {
        return write_to_stdout(content.as_ref());
    }
    shardwise::build::write(Path::new(path), content)
        .map_err(|error| Error::unwritable(path, &error))
}

/// Fails if the file to write is one of those that the command reads, also through links: `cost
/// p.shard -o p.shard` would leave no program.
pub(crate) fn refuse_to_replace<S: AsRef<str>>(
    sources: impl IntoIterator<Item = S>,
    target: Option<&str>,
) -> Result {
    let Some(path) = target else { return Ok(()) };
    let is_target = |source: &S| source.as_ref() != "-" && is_same_file(source.as_ref(), path);
    match sources.into_iter().find(is_target) {
        None => Ok(()),
        Some(source) => Err(Error::usage(format!(
            "`{path}` would replace `{}`, which this command reads; write to another file",
            source.as_ref()
        ))),
    }
}

/// Whether two paths lead to one file, which need not be there yet. Devices may be read and
/// written.
pub(crate) fn is_same_file(one: &str, other: &str) -> bool {
    file_at(Path::new(one)).is_some_and(|one| file_at(Path::new(other)) == Some(one))
}

/// The file that a path leads to, or would be written to.
fn file_at(path: &Path) -> Option<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Some(path).filter(|path| path.is_file());
    }
    let path = std::path::absolute(path).ok()?;
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// A diagnostic as it is drawn for terminals, without the end of its last line.
pub(crate) fn draw(report: &Report, colored: bool) -> String {
    let theme = if colored { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(width()).with_links(false);
    let mut text = String::new();
    if handler.render_report(&mut text, &Headed(report)).is_err() {
        text = format!("{}: {report}", report.diag.code);
    }
    text.trim_end_matches('\n').to_owned()
}

/// The width of diagnostics: that of `COLUMNS`, else 100, or less in a narrower terminal.
fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal =
        || terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0).min(100));
    columns.or_else(terminal).unwrap_or(100).clamp(40, 160)
}
