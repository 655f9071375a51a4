//! Where everything is printed, and how a run ends: 0 done, 1 the input is wrong, 2 wrong usage or
//! environment. A reader that goes away (a closed pipe) is no error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use miette::{GraphicalReportHandler, GraphicalTheme};
use shardwise::{Findings, Report};

use crate::args::Colour;

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Done,
    WrongInput,
    WrongUsage,
}

impl Ending {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Done } else { Self::WrongUsage }
    }
}

/// Both streams, and the worst that has happened.
pub(crate) struct Output {
    coloured: bool,
    ending: Ending,
}

/// Diagnostics are drawn for this width where the terminal does not say.
const WIDTH: usize = 100;

impl Output {
    pub(crate) fn new(colour: Colour) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let coloured = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => io::stderr().is_terminal() && !plain,
        };
        Self { coloured, ending: Ending::Done }
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    pub(crate) fn worst(&mut self, ending: Ending) {
        self.ending = self.ending.max(ending);
    }

    #[expect(
        clippy::unused_self,
        reason = "all printing goes through the one that knows how the run ends"
    )]
    pub(crate) fn out(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// A sentence about the run itself.
    pub(crate) fn complain(&mut self, text: &str, ending: Ending) -> io::Result<()> {
        self.worst(ending);
        writeln!(io::stderr().lock(), "error: {text}")
    }

    pub(crate) fn findings(&mut self, findings: &Findings) -> io::Result<()> {
        if findings.has_errors() {
            self.worst(if findings.blame_options() {
                Ending::WrongUsage
            } else {
                Ending::WrongInput
            });
        }
        for report in &findings.reports {
            self.report(report)?;
        }
        Ok(())
    }

    fn report(&self, report: &Report) -> io::Result<()> {
        writeln!(io::stderr().lock(), "{}\n", self.drawn(report, self.coloured))
    }

    /// A finding as it is drawn, without the lines' end behind it.
    #[expect(
        clippy::unused_self,
        reason = "all drawing goes through the one that knows how the run ends"
    )]
    pub(crate) fn drawn(&self, report: &Report, coloured: bool) -> String {
        let theme =
            if coloured { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler =
            GraphicalReportHandler::new_themed(theme).with_width(width()).with_links(false);
        let mut text = String::new();
        if handler.render_report(&mut text, report).is_err() {
            text = format!("{}: {report}", report.diag.code);
        }
        text.trim_end_matches('\n').to_owned()
    }

    /// A sentence about what was done, which is no result.
    #[expect(
        clippy::unused_self,
        reason = "all printing goes through the one that knows how the run ends"
    )]
    pub(crate) fn remark(&mut self, text: &str) -> io::Result<()> {
        writeln!(io::stderr().lock(), "{text}")
    }
}

fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(WIDTH).clamp(40, 160)
}
