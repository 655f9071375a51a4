//! Separates a word in brackets, such as `d_ff_Y`, into a dimension and the axes that split it.
//!
//! Names of dimensions and of axes may both hold `_`, so what a word means depends on what the file
//! declares: the longest declared dimension wins after which only axes are left. This is done here
//! and not in `ir`, so that all readers of the tree, the formatter among them, see one meaning.

use std::collections::BTreeSet;

use crate::ast::{DimUse, File, Statement, Subscript};
use crate::layouts;
use crate::span::{Name, Span, Spanned};

/// Separates the words of all brackets of a file.
pub(super) fn split(file: &mut File) {
    let declared = Declared::of(file);
    layouts::each(file, &mut |layout| {
        for dim in &mut layout.dims {
            declared.split(dim);
        }
    });
}

/// The names that a file declares.
struct Declared {
    dims: BTreeSet<String>,
    axes: BTreeSet<String>,
}

impl Declared {
    fn of(file: &File) -> Self {
        let mut dims: BTreeSet<String> = file.lost.names.iter().cloned().collect();
        let mut axes = BTreeSet::new();
        for statement in &file.statements {
            match &statement.node {
                Statement::Dim(declared) => {
                    dims.extend(declared.iter().map(|dim| dim.name.node.clone()));
                }
                Statement::Mesh(declared) => {
                    axes.extend(declared.iter().map(|axis| axis.name.node.clone()));
                }
                _ => {}
            }
        }
        Self { dims, axes }
    }

    fn split(&self, dim: &mut DimUse) {
        let word = &dim.name.node;
        if dim.subscript != Subscript::Whole || self.is_dim(word) {
            return;
        }
        let Some(at) = self.border(word) else { return };
        let Span { start, end } = dim.name.span;
        let axes = Spanned::new(word[at + 1..].to_owned(), Span::new(start + at + 1, end));
        dim.name = Name::new(word[..at].to_owned(), Span::new(start, start + at));
        dim.subscript = Subscript::Axes(vec![axes]);
    }

    /// The `_` between dimension and axes, if there is one.
    fn border(&self, word: &str) -> Option<usize> {
        let borders = || word.rmatch_indices('_').map(|(at, _)| at);
        let is_dim = |at: &usize| self.is_dim(&word[..*at]);
        let is_axes = |at: &usize| self.is_axes(&word[at + 1..]);
        let is_like_axes = |at: &usize| word[at + 1..].starts_with(char::is_uppercase);
        borders()
            .find(|at| is_dim(at) && is_axes(at))
            .or_else(|| borders().find(is_dim))
            .or_else(|| borders().find(is_axes))
            .or_else(|| borders().find(is_like_axes))
    }

    fn is_dim(&self, word: &str) -> bool {
        self.dims.contains(word) || self.dims.contains(word.trim_end_matches('\''))
    }

    fn is_axes(&self, word: &str) -> bool {
        let is_letter = |c: char| self.axes.contains(c.encode_utf8(&mut [0; 4]) as &str);
        self.axes.contains(word) || word.chars().all(is_letter)
    }
}
