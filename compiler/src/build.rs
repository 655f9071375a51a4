//! Compiles folders of programs in a build script: writes their plans, and a Rust module with their
//! numbers.
//!
//! In `build.rs`:
//!
//! ```no_run
//! fn main() -> Result<(), shardwise::build::Failed> {
//!     shardwise::build::compile("programs")?;
//!     Ok(())
//! }
//! ```
//!
//! and in the crate: `mod plans { include!(concat!(env!("OUT_DIR"), "/shardwise.rs")); }`, then
//! `plans::mlp::SERIAL_S`, `plans::mlp::STEPS`, … See `compiler/docs/build.md`.
//!
//! One function for the usual case, a builder for the rest, as in `prost-build` and `tonic-build`.
//! Errors are reported twice: in lines that cargo shows with the place in the program, and as a
//! value, for callers that are not cargo. The output depends on the programs and options alone; a
//! file is written to a temporary name and renamed, and only where its bytes differ, so that
//! nothing is rebuilt without need. This module is the only one of the library that reads and
//! writes files and prints.

mod depfile;
mod files;
mod rust;
mod write;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexSet;
use shardwise_ir::{Diag, Severity};

use crate::hardware;
use crate::lint::{self, Settings};
use crate::source::place::{Lines, Place};
use crate::{Findings, Options, Planned, Report};

pub use depfile::depfile;
pub use files::from_disk;
pub use write::{write, write_if_changed};

/// Compiles the programs of a folder into `OUT_DIR`, with default options.
///
/// # Errors
///
/// Those of [`Builder::compile`].
pub fn compile(folder: impl AsRef<Path>) -> Result<Built, Failed> {
    configure().compile(&[folder])
}

/// The builder, with default options.
///
/// ```no_run
/// # fn main() -> Result<(), shardwise::build::Failed> {
/// shardwise::build::configure()
///     .options(shardwise::Options { memory: Some(16e9), ..Default::default() })
///     .deny_warnings(true)
///     .compile(&["programs", "more/decode.shard"])?;
/// # Ok(())
/// # }
/// ```
///
/// By default: the options of the command, output into `OUT_DIR`, warnings do not fail the build,
/// and no lints.
pub fn configure() -> Builder {
    Builder {
        options: Options::default(),
        hardware: Vec::new(),
        out_dir: None,
        deny_warnings: false,
        lints: None,
    }
}

/// Options of a compilation, and its entry point.
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled until `compile` is called"]
pub struct Builder {
    options: Options,
    hardware: Vec<PathBuf>,
    out_dir: Option<PathBuf>,
    deny_warnings: bool,
    lints: Option<Settings>,
}

/// The result of a compilation.
#[derive(Clone, Debug)]
pub struct Built {
    /// The programs, in the order of their paths.
    pub programs: Vec<Compiled>,
    /// Every output file, including those that did not change.
    pub files: Vec<PathBuf>,
    /// The lines printed for cargo.
    pub cargo_lines: Vec<String>,
}

/// A program and its plan.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Its path, as given or below the folder that was given.
    pub path: PathBuf,
    /// The Rust module that it became, from the outermost.
    pub module: Vec<String>,
    /// Its plan.
    pub planned: Planned,
}

/// Why nothing was compiled. `Debug` is the sentence of `Display`, since that is what `main` shows.
pub struct Failed {
    /// The errors of the programs, in the order of their paths.
    pub findings: Vec<Findings>,
    /// The lines printed for cargo.
    pub cargo_lines: Vec<String>,
    sentence: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Failed {}

impl Builder {
    /// Sets the options of planning.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Adds a TOML file of hardware that programs may name beside the presets. Files that a program
    /// names itself (`hardware "cluster.toml"`) need not be added.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), shardwise::build::Failed> {
    /// shardwise::build::configure().hardware_file("cluster.toml").compile(&["programs"])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hardware_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.hardware.push(path.into());
        self
    }

    /// Sets the output folder, instead of cargo's `OUT_DIR`.
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(folder.into());
        self
    }

    /// Whether a warning fails the build.
    pub fn deny_warnings(mut self, deny: bool) -> Self {
        self.deny_warnings = deny;
        self
    }

    /// Lints programs too, with these levels: warnings become warnings of cargo, denied lints fail
    /// the build.
    pub fn lints(mut self, settings: Settings) -> Self {
        self.lints = Some(settings);
        self
    }

    /// Compiles programs, and all programs (`*.shard`) of folders and the folders in them, and
    /// prints lines for cargo.
    ///
    /// # Errors
    ///
    /// The errors of all programs, also an `assert` that fails, lints that are denied, and warnings
    /// where these fail the build; then nothing is written. Or that a file cannot be read or
    /// written.
    pub fn compile<P: AsRef<Path>>(self, inputs: &[P]) -> Result<Built, Failed> {
        let done = self.run(inputs);
        let lines = match &done {
            Ok(built) => &built.cargo_lines,
            Err(failed) => &failed.cargo_lines,
        };
        for line in lines {
            say(line);
        }
        done
    }

    /// The same without printing.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::compile`].
    pub fn run<P: AsRef<Path>>(mut self, inputs: &[P]) -> Result<Built, Failed> {
        let mut lines: Vec<String> = inputs
            .iter()
            .map(|input| format!("cargo::rerun-if-changed={}", files::slashed(input.as_ref())))
            .collect();
        let out_dir =
            self.out_dir.clone().or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from));
        let Some(out_dir) = out_dir else {
            return Err(environment(
                lines,
                "`OUT_DIR` is not set: call this from a build script, or call `.out_dir(…)`"
                    .to_owned(),
            ));
        };
        self.know_hardware(&mut lines)?;
        let mut sources = Vec::new();
        for input in inputs {
            match files::programs(input.as_ref()) {
                Ok(found) => sources.extend(found),
                Err((path, error)) => {
                    return Err(environment(lines, cannot("read", &path, &error)));
                }
            }
        }
        // Watching a folder includes its files; each file is listed too, since other tools read
        // these lines.
        lines.extend(
            sources
                .iter()
                .map(|source| format!("cargo::rerun-if-changed={}", files::slashed(&source.path))),
        );
        // A missing file is watched as well: cargo runs the script again until it exists.
        let named: IndexSet<String> = sources.iter().flat_map(files::Source::hardware).collect();
        lines.extend(named.iter().map(|path| format!("cargo::rerun-if-changed={path}")));
        let programs = self.plan(sources, &mut lines)?;
        let files = files::write_all(&out_dir, &programs);
        match files {
            Ok(files) => Ok(Built { programs, files, cargo_lines: lines }),
            Err((path, error)) => Err(environment(lines, cannot("write", &path, &error))),
        }
    }

    /// Reads the hardware files, and sets how those that programs name are read.
    fn know_hardware(&mut self, lines: &mut Vec<String>) -> Result<(), Failed> {
        lines.extend(
            self.hardware
                .iter()
                .map(|path| format!("cargo::rerun-if-changed={}", files::slashed(path))),
        );
        for path in &self.hardware {
            let text = files::text(path)
                .map_err(|error| environment(lines.clone(), cannot("read", path, &error)))?;
            let name = files::slashed(path);
            match hardware::parse(&name, &text) {
                Ok(chips) => self.options.known.extend(chips),
                Err(findings) => {
                    lines.extend(
                        findings
                            .reports
                            .iter()
                            .map(|report| line(&name, &text, report, Severity::Error)),
                    );
                    let sentence = format!("a hardware file cannot be used: {findings}");
                    return Err(Failed {
                        findings: vec![findings],
                        cargo_lines: std::mem::take(lines),
                        sentence,
                    });
                }
            }
        }
        if let Some(chip) = hardware::clash(&self.options.known) {
            let sentence = format!(
                "`{}` is described twice, with other numbers; give one of them another name",
                chip.name
            );
            return Err(environment(std::mem::take(lines), sentence));
        }
        if !self.options.files.are_read() {
            self.options.files = from_disk();
        }
        Ok(())
    }

    /// The findings of lints in a program that can be planned.
    fn findings(&self, name: &str, text: &str) -> Findings {
        let Some(settings) = &self.lints else { return Findings::in_order(Vec::new(), name, text) };
        let linted = lint::lint(name, text, &self.options, settings);
        let found = linted.findings.into_iter().map(|finding| finding.diag).map(|diag| {
            match (diag.severity, self.deny_warnings) {
                (Severity::Warning, true) => Diag { severity: Severity::Error, ..diag },
                _ => diag,
            }
        });
        Findings::in_order(found.collect(), name, text)
    }

    /// Plans every program; returns all errors of any of them.
    fn plan(
        &self,
        sources: Vec<files::Source>,
        lines: &mut Vec<String>,
    ) -> Result<Vec<Compiled>, Failed> {
        let mut programs: Vec<Compiled> = Vec::new();
        let mut refused: Vec<Findings> = Vec::new();
        for files::Source { path, module, text } in sources {
            let name = files::slashed(&path);
            match crate::plan(&name, &text, &self.options) {
                Err(findings) => {
                    lines.extend(
                        findings
                            .reports
                            .iter()
                            .map(|report| line(&name, &text, report, report.diag.severity)),
                    );
                    refused.push(findings);
                }
                Ok(mut planned) => {
                    let severity =
                        if self.deny_warnings { Severity::Error } else { Severity::Warning };
                    lines.extend(
                        planned
                            .warnings
                            .reports
                            .iter()
                            .map(|report| line(&name, &text, report, severity)),
                    );
                    if self.deny_warnings && !planned.warnings.is_empty() {
                        refused.push(planned.warnings.clone());
                    }
                    let findings = self.findings(&name, &text);
                    lines.extend(
                        findings
                            .reports
                            .iter()
                            .map(|report| line(&name, &text, report, report.diag.severity)),
                    );
                    if findings.has_errors() {
                        refused.push(findings);
                    }
                    planned.name = module.last().cloned().unwrap_or_default();
                    programs.push(Compiled { path, module, planned });
                }
            }
        }
        if let Some(clash) = clash(&programs) {
            return Err(environment(std::mem::take(lines), clash));
        }
        if refused.is_empty() {
            return Ok(programs);
        }
        let sentence = match refused.as_slice() {
            [one] => format!("a program cannot be compiled: {one}"),
            many => format!("{} programs cannot be compiled", many.len()),
        };
        Err(Failed { findings: refused, cargo_lines: std::mem::take(lines), sentence })
    }
}

#[expect(clippy::print_stdout, reason = "cargo reads what a build script prints")]
fn say(line: &str) {
    println!("{line}");
}

/// `cargo::error=programs/mlp.shard:7:5: SW104: …; help: …`.
fn line(path: &str, source: &str, report: &Report, severity: Severity) -> String {
    let diag = &report.diag;
    let kind = if severity == Severity::Error { "error" } else { "warning" };
    let place = diag.labels.first().map_or_else(String::new, |label| {
        let Place { line, column } = Lines::new(source).place(label.span.start);
        format!(":{line}:{column}")
    });
    let help = diag.help.as_ref().map_or_else(String::new, |help| format!("; help: {help}"));
    let text = format!("{path}{place}: {}: {}{help}", diag.code, diag.message);
    // A line break would end the line that cargo reads.
    format!("cargo::{kind}={}", text.replace(['\n', '\r'], " "))
}

fn environment(mut lines: Vec<String>, sentence: String) -> Failed {
    lines.push(format!("cargo::error={}", sentence.replace(['\n', '\r'], " ")));
    Failed { findings: Vec::new(), cargo_lines: lines, sentence }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {verb} `{}`: {error}", files::slashed(path))
}

/// Two programs that would be the same module, if any.
fn clash(programs: &[Compiled]) -> Option<String> {
    programs.iter().enumerate().find_map(|(number, program)| {
        // A program may not have the name of a folder beside it either.
        let same = |other: &&Compiled| {
            other.module.starts_with(&program.module) || program.module.starts_with(&other.module)
        };
        let other = programs[..number].iter().find(same)?;
        let (one, two) = (files::slashed(&other.path), files::slashed(&program.path));
        Some(format!(
            "`{one}` and `{two}` would both be the module `{}`; rename one of them",
            program.module.join("::")
        ))
    })
}
