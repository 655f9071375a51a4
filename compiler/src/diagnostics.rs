//! Turns diagnostics into `miette` ones: the only module that knows how they are drawn.

mod escape;
mod shown;

use std::fmt;
use std::sync::Arc;

use miette::{LabeledSpan, SourceSpan};
use shardwise_grammar::diag::Inside;
use shardwise_ir::{Diag, Severity};

pub use escape::escaped;
use shown::Shown;

/// One finding together with its source. With miette's `fancy` feature it is drawn with the source;
/// without, it is a plain error.
#[derive(Clone, Debug)]
pub struct Report {
    /// The finding.
    pub diag: Diag,
    /// The source, unless the lines concerned are too long to show.
    source: Option<Arc<Shown>>,
    /// Where its labels are in the escaped source.
    spans: Vec<SourceSpan>,
    /// The place of its first label, where its line is too long to be shown.
    place: Option<String>,
    /// The place in another file where the fault is, drawn below.
    inside: Option<Box<Report>>,
}

/// Longer lines are not shown.
const LONGEST_LINE: usize = 1000;

impl Report {
    /// A finding about a source, which is shown as `shown`.
    fn new(diag: Diag, source: &str, shown: &Arc<Shown>) -> Self {
        let fits =
            diag.labels.iter().all(|label| line_length(source, label.span.start) <= LONGEST_LINE);
        let spans = diag.labels.iter().filter(|_| fits).map(|label| {
            let end = label.span.end.min(source.len());
            shown.span(label.span.start.min(end)..end)
        });
        let spans = spans.collect();
        let inside = diag.inside.as_deref().map(|inside| Box::new(Self::of_file(&diag, inside)));
        let first = diag.labels.first().filter(|_| !fits);
        let place = first.map(|label| shown.place_of(label.span.start));
        Self { diag, source: fits.then(|| Arc::clone(shown)), spans, place, inside }
    }

    /// The place in a file that a source names.
    fn of_file(diag: &Diag, inside: &Inside) -> Self {
        let message = format!("in `{}`", inside.name);
        let there = Diag {
            code: diag.code,
            severity: diag.severity,
            message,
            labels: vec![inside.label.clone()],
            help: None,
            inside: None,
        };
        Self::new(there, &inside.text, &Arc::new(Shown::new(&inside.name, &inside.text)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&self.diag.message))?;
        self.place.iter().try_for_each(|place| write!(f, " (at {place})"))
    }
}

impl std::error::Error for Report {}

impl miette::Diagnostic for Report {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.diag.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diag.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.diag.help.as_ref().map(|help| Box::new(escaped(help)) as Box<dyn fmt::Display>)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        let inside = self.inside.as_deref()?;
        Some(Box::new(std::iter::once(inside as &dyn miette::Diagnostic)))
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.source.as_deref().map(|source| source as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.source.as_ref()?;
        Some(Box::new(self.diag.labels.iter().zip(&self.spans).enumerate().map(
            |(i, (label, &span))| {
                let text = Some(escaped(&label.text).into_owned());
                if i == 0 {
                    LabeledSpan::new_primary_with_span(text, span)
                } else {
                    LabeledSpan::new_with_span(text, span)
                }
            },
        )))
    }
}

/// Bytes of the line that `offset` is in.
fn line_length(source: &str, offset: usize) -> usize {
    let bytes = source.as_bytes();
    let offset = offset.min(bytes.len());
    let before = bytes[..offset]
        .iter()
        .rev()
        .take(LONGEST_LINE + 1)
        .take_while(|&&byte| byte != b'\n')
        .count();
    let after =
        bytes[offset..].iter().take(LONGEST_LINE + 1).take_while(|&&byte| byte != b'\n').count();
    before + after
}

/// Findings about one source, mostly in source order.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The findings.
    pub reports: Vec<Report>,
}

impl Findings {
    /// `diags` about the source called `name`, sorted by place.
    pub fn new(mut diags: Vec<Diag>, name: &str, source: &str) -> Self {
        diags.sort_by_key(|diag| (diag.labels.first().map(|label| label.span.start), diag.code));
        Self::in_order(diags, name, source)
    }

    /// The same in the order given.
    pub fn in_order(diags: Vec<Diag>, name: &str, source: &str) -> Self {
        let shown = Arc::new(Shown::new(name, source));
        Self { reports: diags.into_iter().map(|diag| Report::new(diag, source, &shown)).collect() }
    }

    /// Whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.reports.iter().any(|report| report.diag.severity == Severity::Error)
    }

    /// Whether the finding is about an option and not the source: it has no place there.
    pub fn blame_options(&self) -> bool {
        self.reports.iter().any(|report| report.diag.labels.is_empty())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentences: Vec<_> =
            self.reports.iter().map(|report| escaped(&report.diag.message)).collect();
        f.write_str(&sentences.join("\n"))
    }
}

impl std::error::Error for Findings {}

impl miette::Diagnostic for Findings {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.reports.iter().map(|report| report as &dyn miette::Diagnostic)))
    }
}
