//! Lints: what a right program would still be better without, with what it costs and the edit that
//! mends it.
//!
//! A lint is a row of a table ([`Lint`]), not an object with methods: its page (what, why, a
//! program that triggers it, the cure) is data that `explain`, the reference and the tests read
//! alike, and its check is one function over a program and its plans. The costs are differences
//! between plans: where a lint proposes an edit, the edited program is planned too, so no number
//! here is a rule of thumb.
//!
//! Lints live in this crate and not among the passes, since an edit is text at a place of the
//! syntax tree and a finding is a sentence with units, and passes see neither.

mod allow;
mod config;
mod fix;
pub mod formats;
mod page;
mod settings;
mod subject;

use std::collections::BTreeSet;

use shardwise_ir::program::Program;
use shardwise_ir::{Diag, Severity, Span};

use crate::driver;
use crate::failure::Findings;
use crate::lints;
use crate::options::{Options, Strategy};

pub use crate::place::{Lines, Place};
pub use config::{Config, FILE_NAME};
pub use fix::{Edit, Fix, Safety, apply, fixed};
pub use page::reference;
pub use settings::{Levels, Selector, Settings};
pub(crate) use subject::{Priced, Saving, Subject};

/// What a lint is about; levels can be set by group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Bytes between devices that need not travel.
    Communication,
    /// Arithmetic that is repeated or badly shaped.
    Compute,
    /// Bytes on a device.
    Memory,
    /// The mesh against the hardware.
    Mesh,
    /// What nobody uses, or reads as something else.
    Tidiness,
    /// What the tool itself is told: `allow`.
    Tool,
}

impl Group {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 6] =
        [Self::Communication, Self::Compute, Self::Memory, Self::Mesh, Self::Tidiness, Self::Tool];

    /// As configurations write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Communication => "communication",
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Mesh => "mesh",
            Self::Tidiness => "tidiness",
            Self::Tool => "tool",
        }
    }
}

/// How seriously a finding is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The lint does not run.
    Allow,
    /// Its findings are warnings.
    Warn,
    /// Its findings are errors.
    Deny,
}

impl Level {
    /// As pages write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// A number that a configuration may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// As configurations write it.
    pub name: &'static str,
    /// What it is if nothing is said.
    pub default: f64,
    /// What it decides, with its unit.
    pub meaning: &'static str,
}

/// A lint: its page, its level, its check.
#[derive(Clone, Copy, Debug)]
pub struct Lint {
    /// `SW301`; never reused.
    pub code: &'static str,
    /// Kebab case, for people.
    pub name: &'static str,
    /// What it is about.
    pub group: Group,
    /// What it is if nothing is said.
    pub level: Level,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Why that is bad.
    pub why: &'static str,
    /// A whole program in which it fires, and no other lint does.
    pub trigger: &'static str,
    /// The same program mended: no lint fires.
    pub cure: &'static str,
    /// Numbers that can be set.
    pub parameters: &'static [Parameter],
    /// Finds it.
    pub(crate) check: fn(&Subject<'_>) -> Vec<Finding>,
}

/// What a fault costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Seconds a step on the critical resource, as the cost model counts them; 0 where it costs no
    /// time.
    pub seconds: f64,
    /// Bytes of one device, moved or held; 0 where it costs none.
    pub bytes: f64,
}

/// One finding: what a diagnostic says, what the fault costs, and the edit that mends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is said, and where.
    pub diag: Diag,
    /// What it costs, where that can be said.
    pub price: Option<Price>,
    /// What mends it, where that can be typed.
    pub fix: Option<Fix>,
}

impl From<Diag> for Finding {
    fn from(diag: Diag) -> Self {
        Self { diag, price: None, fix: None }
    }
}

impl Finding {
    /// A warning of `lint` at `span`.
    pub(crate) fn new(
        lint: &Lint,
        message: impl Into<String>,
        span: Span,
        label: impl Into<String>,
    ) -> Self {
        Diag::warning(lint.code, message, span, label).into()
    }

    pub(crate) fn and(mut self, span: Span, text: impl Into<String>) -> Self {
        self.diag = self.diag.and(span, text);
        self
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Self {
        self.diag = self.diag.help(text);
        self
    }

    pub(crate) fn costs(mut self, seconds: f64, bytes: f64) -> Self {
        self.price = Some(Price { seconds: seconds.max(0.0), bytes: bytes.max(0.0) });
        self
    }

    pub(crate) fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Where it is.
    pub fn span(&self) -> Span {
        self.diag.labels.first().map(|label| label.span).unwrap_or_default()
    }
}

/// One source and everything that was found in it, in source order.
#[derive(Clone, Debug)]
pub struct Linted {
    /// What the source is called.
    pub name: String,
    /// Its text.
    pub source: String,
    /// Errors and lints.
    pub findings: Vec<Finding>,
    /// Edits that were not tried, since the program is too large to try more: what they would have
    /// found is not among the findings.
    pub untried: usize,
}

impl Linted {
    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.diag.severity == Severity::Error)
    }

    /// The findings as diagnostics that draw themselves, in their order here.
    pub fn reports(&self) -> Findings {
        Findings::in_order(
            self.findings.iter().map(|finding| finding.diag.clone()).collect(),
            &self.name,
            &self.source,
        )
    }
}

/// All lints, in the order of their codes.
pub fn all() -> &'static [Lint] {
    lints::ALL
}

/// The lint whose code or name is `word`, in any case.
pub fn find(word: &str) -> Option<&'static Lint> {
    all()
        .iter()
        .find(|lint| lint.code.eq_ignore_ascii_case(word) || lint.name.eq_ignore_ascii_case(word))
}

/// Says everything that is wrong with a program, and what it would be better without.
///
/// ```
/// use shardwise::lint::{Settings, lint};
/// let source = "hardware tpu-v5p\nmesh X=4\ndim I=8, J=8\ninput A[I_X]\noutput A[I_X]\n";
/// let linted = lint("a.shard", source, &shardwise::Options::default(), &Settings::default());
/// assert_eq!(linted.findings[0].diag.message, "dimension `J` is not used");
/// ```
pub fn lint(name: &str, source: &str, options: &Options, settings: &Settings) -> Linted {
    let (file, checked) = driver::read_tree(name, source, options);
    let mut findings: Vec<Finding> =
        checked.findings.reports.into_iter().map(|report| report.diag.into()).collect();
    let mut untried = 0;
    if let Some(program) = &checked.program {
        match feasible(program, options) {
            Err(diags) => findings.extend(diags.into_iter().map(Finding::from)),
            Ok(textbook) => {
                let subject = Subject::new(source, &file, program, textbook, options, settings);
                findings.extend(run(&subject, settings));
                untried = subject.untried();
            }
        }
    }
    findings.sort_by_key(|finding| (finding.span(), finding.diag.code));
    Linted { name: name.to_owned(), source: source.to_owned(), findings, untried }
}

/// The textbook's plan of a program that can be planned and keeps its budgets, by the textbook's
/// plan or the searched one.
fn feasible(program: &Program, options: &Options) -> Result<Priced, Vec<Diag>> {
    // How much memory there is decides what can be planned, not whether the program is right.
    let options =
        Options { strategy: Strategy::Textbook, memory: Some(f64::INFINITY), ..options.clone() };
    let textbook = driver::plan_of(program, &options)?;
    let textbook = Priced::new(textbook, options.refinement);
    let mut broken = textbook.broken();
    if !broken.is_empty() {
        let searched =
            driver::plan_of(program, &Options { strategy: Strategy::Search, ..options.clone() })?;
        broken = Priced::new(searched, options.refinement).broken();
    }
    if broken.is_empty() { Ok(textbook) } else { Err(broken) }
}

/// Every lint that is on, less what is allowed; then what was allowed for nothing.
fn run(subject: &Subject<'_>, settings: &Settings) -> Vec<Finding> {
    let allowed = allow::read(subject.file, subject.source);
    let mut used = BTreeSet::new();
    let mut findings = Vec::new();
    let on = |lint: &&Lint| settings.level(lint) != Level::Allow;
    for lint in all().iter().filter(on) {
        for finding in (lint.check)(subject) {
            match allowed.iter().position(|allow| allow.covers(&finding)) {
                Some(number) => drop(used.insert(number)),
                None => findings.push(finding),
            }
        }
    }
    findings.extend(allow::judge(&allowed, &used, settings, subject.source));
    for finding in &mut findings {
        finding.diag.severity = settings.severity(finding.diag.code);
    }
    findings
}
