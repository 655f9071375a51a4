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
        let formatted = shardwise_grammar::format(&self.text).ok()?;
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

    /// What is said of the word at a byte, in Markdown, and where that word is.
    pub fn hover(&self, offset: usize, known: Known<'_>) -> Option<(Span, String)> {
        hover::hover(self, offset, known)
    }

    /// Whether something can be renamed; an error says why not.
    pub fn can_be_renamed(&self, of: &Occurrence) -> Result<(), String> {
        rename::can_be_renamed(self, of)
    }

    /// The edits that give something another name; an error says why there are none.
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
        actions::fixes(&self.file, finding)
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
