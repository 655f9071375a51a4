//! The programs that the editor has open.

use gen_lsp_types::{Range, TextDocumentContentChangeEvent, Uri};
use shardwise::editor::{Change, Document, Insight};
use shardwise::lint::{Finding, Linted};
use shardwise::options::Cancellation;
use shardwise::{Analyzed, Checked, Options, Program};

use super::background::Job;
use super::convert;

/// A text of a program.
pub(super) struct Revision {
    /// Later texts have larger numbers.
    pub(super) number: u64,
    /// Cancels the work on it, once there is a newer text or the program is closed.
    pub(super) work: Cancellation,
}

impl Revision {
    pub(super) fn new(number: u64) -> Self {
        Self { number, work: Cancellation::new() }
    }
}

impl Drop for Revision {
    fn drop(&mut self) {
        self.work.cancel();
    }
}

/// A program.
pub(super) struct Open {
    pub(super) document: Document,
    /// The editor's number of its text.
    pub(super) version: i32,
    /// The server's, which also counts changes of other files.
    pub(super) revision: Revision,
    /// Errors and warnings, found at once.
    checked: Vec<Finding>,
    /// The program, if it has no errors.
    program: Option<Analyzed>,
    /// What the plan says; that of an older text, carried to this one, until there is another.
    insight: Option<Insight>,
    /// Other findings; of an older text, carried to this one, until they are found again.
    linted: Vec<Finding>,
}

impl Open {
    pub(super) fn new(
        (name, text): (String, String),
        version: i32,
        revision: Revision,
        options: &Options,
    ) -> Self {
        let document = Document::new(name, text);
        let mut open = Self {
            document,
            version,
            revision,
            checked: Vec::new(),
            program: None,
            insight: None,
            linted: Vec::new(),
        };
        open.check(options);
        open
    }

    /// This text, to work on.
    pub(super) fn job(&self, uri: &Uri) -> Job {
        Job {
            uri: uri.clone(),
            revision: self.revision.number,
            name: self.document.name.clone(),
            text: self.document.text.clone(),
            cancellation: self.revision.work.clone(),
        }
    }

    /// Finds the errors and warnings that are found at once.
    pub(super) fn check(&mut self, options: &Options) {
        let Checked { program, findings, .. } = self.document.check(options);
        self.program = program;
        self.checked = findings.reports.into_iter().map(|report| report.diag.into()).collect();
    }

    /// Another text.
    pub(super) fn replace(
        &mut self,
        text: String,
        version: i32,
        revision: Revision,
        options: &Options,
    ) {
        if let Some(change) = Change::between(&self.document.text, &text) {
            let carried = self.linted.iter().filter_map(|finding| change.carried_finding(finding));
            self.linted = carried.collect();
            if let Some(insight) = &mut self.insight {
                insight.carry(&change);
            }
            self.document = Document::new(self.document.name.clone(), text);
        }
        (self.version, self.revision) = (version, revision);
        self.check(options);
    }

    /// All findings of this text are known.
    pub(super) fn set_linted(&mut self, linted: Linted) {
        let is_new = |finding: &Finding| self.checked.iter().all(|it| it.diag != finding.diag);
        self.linted = linted.findings.into_iter().filter(is_new).collect();
    }

    /// The plan of this text is known, or that there is none. A program with errors keeps the plan
    /// of the text before them, since most errors are words that are half typed.
    pub(super) fn set_insight(&mut self, insight: Option<Insight>) {
        if insight.is_some() || self.program.is_some() {
            self.insight = insight;
        }
    }

    /// What the plan says.
    pub(super) fn insight(&self) -> Option<&Insight> {
        self.insight.as_ref()
    }

    /// The program, if it has no errors.
    pub(super) fn program(&self) -> Option<&Program> {
        self.program.as_deref()
    }

    /// What is known to be wrong.
    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.checked.iter().chain(&self.linted)
    }

    /// The text after changes of the editor, each of the text that the one before it leaves.
    pub(super) fn changed(&self, changes: Vec<TextDocumentContentChangeEvent>) -> String {
        let mut text = self.document.text.clone();
        for change in changes {
            match change {
                TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(whole) => {
                    text = whole.text;
                }
                TextDocumentContentChangeEvent::TextDocumentContentChangePartial(part) => {
                    text = with(text, part.range, &part.text);
                }
            }
        }
        text
    }
}

/// A text with other words in a range.
fn with(mut text: String, range: Range, words: &str) -> String {
    let positions = shardwise::editor::Positions::new(&text);
    let [start, end] =
        [range.start, range.end].map(|place| positions.offset(&text, convert::place(place)));
    text.replace_range(start..end.max(start), words);
    text
}
