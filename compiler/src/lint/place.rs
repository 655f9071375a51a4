//! Offsets to lines and columns, for formats that people and other tools read.
//!
//! Columns count characters (code points), from 1: what editors show and what SARIF can be told (`unicodeCodePoints`).

use shardwise_ir::Span;

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of `text`.
    pub fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Where the byte at `offset` is.
    ///
    /// ```
    /// use shardwise::lint::{Lines, Place};
    /// assert_eq!(Lines::new("α = 1\nβ").place(7), Place { line: 2, column: 1 });
    /// ```
    pub fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|&start| start <= offset);
        let before = self.text.get(self.starts[line - 1]..offset).unwrap_or_default();
        Place { line, column: before.chars().count() + 1 }
    }

    /// Where a span begins and ends.
    pub fn range(&self, span: Span) -> (Place, Place) {
        (self.place(span.start), self.place(span.end))
    }

    /// The line's text, without its ending.
    pub fn line(&self, line: usize) -> &'a str {
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        self.text[self.starts[line - 1]..end].trim_end_matches(['\n', '\r'])
    }
}
