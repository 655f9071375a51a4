//! Error recovery: extracts names from statements that could not be parsed, so that one mistake
//! causes one error. Complete items of a list are kept, and so are the names that the statement
//! would have defined, whose uses are then not reported as unknown.
//!
//! A block whose head could not be parsed is skipped: its statements would have another meaning
//! outside. The alternative, to guess the head, would report errors about a program that the author
//! did not write.

use super::{Pair, Pieces, Reader, Rule, pieces};
use crate::ast::{File, Statement};
use crate::errors::{Faulty, Mark};
use crate::habits::{makes_mesh, role_meant};
use crate::keywords::nearest_keyword;
use crate::scan;
use crate::span::{Span, Spanned};

/// The state of the reader.
#[derive(Default)]
pub(super) struct Unread {
    /// Open blocks, the outermost of which has a head that could not be parsed.
    depth: usize,
    /// The statements in it, and what they would name.
    inside: Vec<Spanned<Statement>>,
    names: Vec<String>,
}

impl Unread {
    /// Statements without a mistake: kept, unless their block is skipped.
    pub(super) fn keep(
        &mut self,
        file: &mut File,
        statements: impl Iterator<Item = Spanned<Statement>>,
        pairs: Pieces<'_>,
    ) {
        if self.depth == 0 {
            file.statements.extend(statements);
            return;
        }
        self.names.extend(names(pairs));
        for statement in statements {
            match &statement.node {
                of if of.opens_block() => self.depth += 1,
                Statement::Close => self.depth -= 1,
                _ => {}
            }
            self.inside.push(statement);
        }
        if self.depth == 0 {
            self.inside.clear();
            file.lost.names.append(&mut self.names);
        }
    }

    /// At the end of a file: a skipped block that is never closed is skipped all the same. Its
    /// statements would have another meaning outside.
    pub(super) fn end(self, file: &mut File) {
        file.lost.names.extend(self.names);
    }

    /// A statement with mistakes: its valid parts are kept.
    pub(super) fn recover(
        &mut self,
        file: &mut File,
        faulty: Faulty<'_>,
        pairs: Pieces<'_>,
        marks: &[(Mark, Span)],
    ) {
        if scan::is_opening(faulty.text) || is_foreign_loop(faulty.text) {
            self.depth += 1;
        }
        file.lost.mesh |= makes_mesh(faulty.text);
        for pair in pairs {
            match pair.as_rule() {
                Rule::dim | Rule::declaration if self.depth == 0 => list(file, faulty, pair, marks),
                Rule::mesh => file.lost.mesh = true,
                Rule::hardware => file.lost.hardware = true,
                Rule::backward => file.lost.backward = true,
                Rule::bad_statement => self.misspelt(file, faulty.text),
                _ => file.lost.names.extend(names(pair.into_inner())),
            }
        }
        for joined in faulty.text.split(';').skip(1).map(str::trim).filter(|text| !text.is_empty())
        {
            self.misspelt(file, joined);
        }
    }

    /// A statement that is not read, since it is nested too deeply.
    pub(super) fn refused(file: &mut File, text: &str) {
        file.lost.names.extend(words_on_the_left(text));
    }

    /// A statement that begins with no keyword, though perhaps with something like one.
    fn misspelt(&mut self, file: &mut File, text: &str) {
        let word = text.split(' ').next().unwrap_or(text);
        let Some(keyword) = nearest_keyword(word).or_else(|| role_meant(word)) else {
            return file.lost.names.extend(words_on_the_left(text));
        };
        file.lost.hardware |= keyword == "hardware";
        file.lost.mesh |= keyword == "mesh";
        let meant = format!("{keyword}{}", &text[word.len()..]);
        self.depth += usize::from(scan::is_opening(&meant) && meant.ends_with('{'));
        file.lost.names.extend(pieces(&meant).into_iter().flat_map(names));
    }
}

/// Whether a statement opens a block of another language: `for L=4 {`.
fn is_foreign_loop(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or(text);
    matches!(word, "for" | "while" | "loop") && text.ends_with('{')
}

/// A list with mistakes: its complete items are kept, except the last if unexpected text follows.
/// Other possible names in it are recorded as lost.
fn list(file: &mut File, faulty: Faulty<'_>, pair: Pair<'_, Rule>, marks: &[(Mark, Span)]) {
    let reader = Reader { offset: faulty.span.start, broken: &[] };
    let items = || pair.clone().into_inner().filter(|item| is_item(item.as_rule()));
    let last = items()
        .last()
        .filter(|_| marks.iter().any(|(mark, _)| *mark == Mark::Rest))
        .map(|item| reader.span(&item));
    let broken: Vec<Span> = marks.iter().map(|(_, at)| *at).chain(last).collect();
    let reader = Reader { broken: &broken, ..reader };
    let (whole, lost): (Vec<_>, Vec<_>) = items().partition(|item| reader.is_whole(item));
    let whole: Vec<String> =
        whole.into_iter().filter_map(|item| named(item.into_inner())).collect();
    let after = marks.first().map_or("", |(_, at)| &faulty.text[at.start - faulty.span.start..]);
    file.lost.names.extend(lost.into_iter().filter_map(|item| named(item.into_inner())));
    file.lost.names.extend(words(after).filter(|word| !whole.contains(word)));
    file.statements.extend(reader.statement(pair).filter(|statement| !is_empty(&statement.node)));
}

/// Everything that could be a name in what stands before a definition's right side.
fn words_on_the_left(text: &str) -> impl Iterator<Item = String> {
    let words = words(text.split(['=', '<', '+', ':']).next().unwrap_or(""));
    // `y_` of `y_{B,H} = …` is meant as `y`.
    words.flat_map(|word| {
        let meant = word.strip_suffix('_').map(str::to_owned);
        std::iter::once(word).chain(meant)
    })
}

/// Everything in a text that could be a name.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && !"_.'".contains(c));
    words.filter(|word| word.starts_with(char::is_alphabetic)).map(str::to_owned)
}

fn is_empty(statement: &Statement) -> bool {
    match statement {
        Statement::Dim(dims) => dims.is_empty(),
        Statement::Declare(_, tensors) => tensors.is_empty(),
        _ => false,
    }
}

fn is_item(rule: Rule) -> bool {
    matches!(rule, Rule::dim_decl | Rule::tensor_decl)
}

/// The names that a statement defines or declares.
fn names(pairs: Pieces<'_>) -> Vec<String> {
    let items = pairs.flatten().filter(|pair| is_item(pair.as_rule()));
    items.filter_map(|item| named(item.into_inner())).collect()
}

fn named(mut pieces: Pieces<'_>) -> Option<String> {
    let name = pieces.find(|piece| matches!(piece.as_rule(), Rule::name | Rule::dim_name))?;
    Some(name.as_str().to_owned())
}
