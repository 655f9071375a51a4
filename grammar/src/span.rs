//! Positions in the source text.

/// A half-open byte range `start..end` of the source text; both ends lie on character boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The range `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest span that covers both.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// The same range, widened to whole characters of `source`.
    #[must_use]
    pub(crate) fn whole_characters(self, source: &str) -> Self {
        let start = (0..=self.start).rev().find(|&at| source.is_char_boundary(at));
        let end = (self.end..source.len()).find(|&at| source.is_char_boundary(at));
        Self::new(start.unwrap_or(0), end.unwrap_or(source.len()))
    }
}

/// A node of the tree with its span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The node.
    pub node: T,
    /// Its span.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// `node` with its `span`.
    pub fn new(node: T, span: Span) -> Self {
        Self { node, span }
    }
}

/// A name with its span.
pub type Name = Spanned<String>;
