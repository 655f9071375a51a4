//! What an editor asks about a program while it is typed: names, outline, text that is to be
//! replaced. `shardwise lsp` translates the answers for the Language Server Protocol.
//!
//! Nothing here knows a protocol, so that other editors, a page in a browser among them, can use
//! it, and ordinary tests check it. A [`Document`] is made again from the whole text at each edit:
//! the parser reads a thousand lines in a few milliseconds, and a tree that is patched could
//! differ from the one that `check` sees.

mod actions;
mod change;
mod completion;
mod hover;
mod insight;
mod names;
mod outline;
mod positions;
mod reference;
mod rename;
mod tokens;

use shardwise_grammar::ast;
use shardwise_ir::{Diag, Span};

use crate::driver::{self, Checked};
use crate::lint::{Edit, Finding, Fix};
use crate::{Hardware, Options};

pub use change::Change;
pub use completion::{Completions, Item, ItemKind};
pub use hover::Known;
pub use insight::{Fact, Hint, Insight};
pub use names::{Kind, Names, Occurrence};
pub use outline::{Fold, Symbol};
pub use positions::{Position, Positions};
pub use tokens::{Token, TokenKind};

/// A program as it is being edited.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its name in diagnostics: its path, which hardware files are relative to.
    pub name: String,
    /// Its text.
    pub text: String,
    positions: Positions,
    file: ast::File,
    /// Syntax errors.
    diags: Vec<Diag>,
    names: Names,
}

impl Document {
    /// Reads a text, as far as it can be parsed.
    ///
    /// ```
    /// use shardwise::editor::Document;
    /// let document = Document::new("a.shard", "mesh X=4\ndim B=8\ninput In[B_X]\n");
    /// let names: Vec<String> = document.symbols().into_iter().map(|symbol| symbol.name).collect();
    /// assert_eq!(names, ["X", "B", "In"]);
    /// ```
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        let (file, diags) = shardwise_grammar::parse(&text);
        let (positions, names) = (Positions::new(&text), Names::of(&file));
        Self { name, text, positions, file, diags, names }
    }

    /// Its errors and warnings without lints, as [`crate::check`] finds them, and the program.
    pub fn check(&self, options: &Options) -> Checked {
        driver::check_parsed(&self.file, self.diags.clone(), (&self.name, &self.text), options)
    }

    /// The change that gives the text its canonical layout; `None` if it has it, or cannot be
    /// parsed.
    pub fn formatting(&self) -> Option<(Change, String)> {
        let formatted = crate::driver::formatted(&self.text).ok()?;
        let change = Change::between(&self.text, &formatted)?;
        let text = formatted[change.new.start..change.new.end].to_owned();
        Some((change, text))
    }

    /// Its names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What it declares and defines, block in block.
    pub fn symbols(&self) -> Vec<Symbol> {
        outline::symbols(&self.file, &self.names, &self.text)
    }

    /// What can be folded.
    pub fn folds(&self) -> Vec<Fold> {
        outline::folds(&self.file, &self.text)
    }

    /// Its parts, to be colored.
    pub fn tokens(&self) -> Vec<Token> {
        tokens::tokens(&self.file, &self.names, &self.text)
    }

    /// What can be typed at a byte; `known` are chips beside the presets.
    ///
    /// ```
    /// use shardwise::editor::Document;
    /// let text = "mesh X=4\ndim B=8\ninput In[B_";
    /// let items = Document::new("a.shard", text).completions(text.len(), &[]).items;
    /// assert_eq!(items[0].label, "X");
    /// ```
    pub fn completions(&self, offset: usize, known: &[Hardware]) -> Completions {
        completion::completions((&self.text, offset), &self.names, known)
    }

    /// The text about the word at a byte, in Markdown, and where that word is.
    pub fn hover(&self, offset: usize, known: Known<'_>) -> Option<(Span, String)> {
        hover::hover(self, offset, known)
    }

    /// Whether something can be renamed; an error says why not.
    ///
    /// # Errors
    ///
    /// A sentence: it has its name from the language, or is not declared in this program.
    pub fn can_be_renamed(&self, of: &Occurrence) -> Result<(), String> {
        rename::can_be_renamed(self, of)
    }

    /// The edits that give something another name; an error says why there are none.
    ///
    /// # Errors
    ///
    /// A sentence: it cannot be renamed, `name` is taken already, or the program with this name
    /// would be read differently or have an error.
    pub fn rename(
        &self,
        of: &Occurrence,
        name: &str,
        options: &Options,
    ) -> Result<Vec<Edit>, String> {
        rename::rename(self, of, name, options)
    }

    /// What can be changed about a finding, the edit to prefer first.
    pub fn fixes(&self, finding: &Finding) -> Vec<Fix> {
        actions::fixes(&self.file, &self.text, finding)
    }

    /// The place of a byte.
    pub fn position(&self, offset: usize) -> Position {
        self.positions.position(&self.text, offset)
    }

    /// The byte at a place; the nearest one for a place outside.
    pub fn offset(&self, position: Position) -> usize {
        self.positions.offset(&self.text, position)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Document, Insight, Known};
    use crate::lint::{Settings, lint};
    use crate::options::{Cancellation, Strategy};
    use crate::{Options, build};

    /// Every program of the fixtures, with its path.
    pub(super) fn fixtures() -> Vec<(String, String)> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/programs");
        let mut found = Vec::new();
        let mut folders = vec![PathBuf::from(root)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "shard") {
                    let bytes = std::fs::read(&path).expect("a file");
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    found.push((path.to_string_lossy().into_owned(), text));
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn every_question_about_every_beginning_of_a_program_has_an_answer() {
        for (path, text) in fixtures() {
            let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
            for end in ends.step_by(text.len() / 4 + 1).chain([text.len()]) {
                let document = Document::new(&*path, &text[..end]);
                for span in document.tokens().into_iter().map(|token| token.span) {
                    assert!(text.get(span.start..span.end).is_some(), "{path}: {span:?}");
                    document.completions(span.end, &[]);
                    document.hover(span.start, Known::default());
                }
                document.symbols();
                document.folds();
                document.formatting();
            }
        }
    }

    #[test]
    fn cancelled_work_on_any_program_ends_without_a_plan() {
        let cancellation = Cancellation::new();
        cancellation.cancel();
        let options = Options { cancellation, files: build::from_disk(), ..Options::default() };
        for (path, text) in fixtures() {
            let plan = crate::plan(&path, &text, &options);
            let is_explicit = plan.as_ref().is_ok_and(|plan| plan.strategy_name() == "explicit");
            assert!(plan.is_err() || is_explicit, "{path}");
            lint(&path, &text, &options, &Settings::default());
        }
    }

    #[test]
    fn what_a_plan_says_is_at_places_of_the_text() {
        let mut planned = 0;
        for (path, text) in fixtures() {
            let files = build::from_disk();
            let options = Options { strategy: Strategy::Textbook, files, ..Options::default() };
            let Ok(plan) = crate::plan(&path, &text, &options) else { continue };
            let insight = Insight::of(&Document::new(&*path, &*text), &plan);
            for fact in &insight.facts {
                let word = text.get(fact.span.start..fact.span.end).expect("a word");
                assert!(fact.text.starts_with("**"), "{path}: {word} {}", fact.text);
            }
            for hint in &insight.hints {
                assert!(text.is_char_boundary(hint.offset), "{path}: {hint:?}");
                assert!(!hint.label.is_empty() && !hint.label.contains('\n'), "{path}: {hint:?}");
            }
            planned += 1;
        }
        assert!(planned > 100, "{planned} plans");
    }
}
