//! The programs that the editor has open.

use gen_lsp_types::{Range, TextDocumentContentChangeEvent};
use shardwise::editor::{Change, Document, Insight};
use shardwise::lint::{Finding, Linted};
use shardwise::{Analyzed, Checked, Options, Program};

use super::convert;

/// A program.
pub(super) struct Open {
    pub(super) document: Document,
    /// The editor's number of its text.
    pub(super) version: i32,
    /// The server's, which also counts changes of other files.
    pub(super) revision: u64,
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
        revision: u64,
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

    /// Finds the errors and warnings that are found at once.
    pub(super) fn check(&mut self, options: &Options) {
        let Checked { program, findings } = self.document.check(options);
        self.program = program;
        self.checked = findings.reports.into_iter().map(|report| report.diag.into()).collect();
    }

    /// Another text.
    pub(super) fn replace(&mut self, text: String, version: i32, revision: u64, options: &Options) {
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

    /// The plan of this text is known, or that there is none.
    pub(super) fn set_insight(&mut self, insight: Option<Insight>) {
        self.insight = insight;
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
