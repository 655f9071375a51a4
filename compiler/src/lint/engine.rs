//! Runs the rules on a program, and applies levels and `allow`s to their findings.

pub(super) mod config;
pub(super) mod fix;
pub(super) mod page;
pub(super) mod settings;

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Mode, Program};
use shardwise_ir::{Diag, Severity};

use super::definition::{Finding, KnownLint, Level, Lint, LintContext, Priced};
use super::rules::all;
use crate::diagnostics::Findings;
use crate::driver;
use crate::options::{Options, Strategy};
use crate::planned::{Origin, Planned};
use settings::Settings;

/// One source and its findings, in source order.
#[derive(Clone, Debug)]
pub struct Linted {
    /// The name of the source.
    pub name: String,
    /// Its text.
    pub source: String,
    /// Errors and lints.
    pub findings: Vec<Finding>,
    /// The number of edits that were not tried because the program is too large: their findings are
    /// missing.
    pub untried: usize,
}

impl Linted {
    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.diag.severity == Severity::Error)
    }

    /// The findings as diagnostics, in the same order.
    pub fn reports(&self) -> Findings {
        Findings::in_order(
            self.findings.iter().map(|finding| finding.diag.clone()).collect(),
            &self.name,
            &self.source,
        )
    }
}

/// Reports all errors of a program, and the findings of all lints.
///
/// Findings that a plan is the reason for are those of the plan that [`crate::plan`] makes: where
/// it uses an axis in parts, or another grouping of a product, they are found on that form of the
/// program; where the program is too large for a search for each edit, edits are compared by the
/// textbook's plans, and all else is that of the plan.
///
/// ```
/// use shardwise::lint::{Settings, lint};
/// let source = "hardware tpu-v5p\nmesh X=4\ndim I=8, J=8\ninput A[I_X]\noutput A[I_X]\n";
/// let linted = lint("a.shard", source, &shardwise::Options::default(), &Settings::default());
/// assert_eq!(linted.findings[0].diag.message, "dimension `J` is not used");
/// ```
pub fn lint(name: &str, source: &str, options: &Options, settings: &Settings) -> Linted {
    let (written, is_searched_once) = lint_form((name, source), (options, options), settings, None);
    // Only these depend on the plan.
    let has_price = written.findings.iter().any(|finding| finding.price.is_some());
    let of_plan = is_searched_once || has_price || written.has_errors();
    match of_plan.then(|| planned(name, source, options)).flatten() {
        Some((form, plan)) if is_searched_once || !form.has_same_form(options) => {
            lint_form((name, source), (&form, options), settings, plan).0
        }
        _ => written,
    }
}

/// The plan of a program without a limit on memory, and the options with its parts of axes and its
/// grouping.
fn planned(name: &str, source: &str, options: &Options) -> Option<(Options, Option<Plan>)> {
    let asked = Options { memory: Some(f64::INFINITY), timeout: None, ..options.clone() };
    let Planned { options: Options { parts, grouping, .. }, origin, .. } =
        driver::plan(name, source, &asked).ok()?;
    let plan = match origin {
        Origin::Searched(found) => Some(found.plan),
        Origin::Textbook | Origin::Explicit => None,
    };
    Some((Options { parts, grouping, ..options.clone() }, plan))
}

/// The findings of the program in the form that the first options name, whose plan may be known;
/// and whether one search is made of it. The other options leave the form open.
fn lint_form(
    (name, source): (&str, &str),
    (options, asked): (&Options, &Options),
    settings: &Settings,
    plan: Option<Plan>,
) -> (Linted, bool) {
    let (file, checked) = driver::read_tree(name, source, options);
    let mut findings: Vec<Finding> =
        checked.findings.reports.into_iter().map(|report| report.diag.into()).collect();
    let (mut untried, mut is_searched_once) = (0, false);
    if let Some(program) = &checked.program {
        match feasible(program, options) {
            Err(diags) => findings.extend(diags.into_iter().map(Finding::from)),
            Ok(textbook) => {
                let context = LintContext::new(
                    (name, source),
                    &file,
                    program,
                    (textbook, plan),
                    (options, asked),
                    (known(program, settings), settings.numbers()),
                );
                findings.extend(run(&context, settings));
                untried = context.untried();
                is_searched_once = context.is_searched_once();
            }
        }
    }
    findings.sort_by_key(|finding| (finding.span(), finding.diag.code));
    (
        Linted { name: name.to_owned(), source: source.to_owned(), findings, untried },
        is_searched_once,
    )
}

/// The textbook's plan of a program that can be planned and keeps its budgets, by the textbook's
/// plan or the searched one.
fn feasible(program: &Analyzed, options: &Options) -> Result<Priced, Vec<Diag>> {
    // The memory capacity decides whether there is a plan, not whether the program is correct.
    let options =
        Options { strategy: Strategy::Textbook, memory: Some(f64::INFINITY), ..options.clone() };
    let search =
        || driver::plan_of(program, &Options { strategy: Strategy::Search, ..options.clone() });
    let textbook = driver::plan_of(program, &options).or_else(|_| search())?;
    let textbook = Priced::new(textbook, options.refinement);
    let mut broken = textbook.broken();
    if !broken.is_empty() {
        let searched = search()?;
        broken = Priced::new(searched, options.refinement).broken();
    }
    if broken.is_empty() { Ok(textbook) } else { Err(broken) }
}

fn known(program: &Program, settings: &Settings) -> Vec<KnownLint> {
    let known = all().iter().map(|lint| KnownLint {
        code: lint.code,
        name: lint.name,
        runs: runs(lint, program, settings),
    });
    known.collect()
}

/// Whether a lint judges a program.
fn runs(lint: &Lint, program: &Program, settings: &Settings) -> bool {
    settings.level(lint) != Level::Allow && (lint.of_plans || program.mode == Mode::Ordinary)
}

/// The findings of every enabled lint, without those that `allow`s silence.
fn run(context: &LintContext<'_>, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let enabled = all().iter().filter(|lint| runs(lint, context.program, settings));
    for lint in enabled.take_while(|_| !context.is_cancelled()) {
        let found = (lint.check)(context).into_iter();
        findings.extend(found.filter(|it| !context.allows(it.diag.code, it.span())));
    }
    for finding in &mut findings {
        finding.diag.severity = settings.severity(finding.diag.code);
    }
    findings
}
