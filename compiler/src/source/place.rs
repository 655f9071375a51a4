//! Places in a source as lines and columns, counted from 1.
//!
//! Columns count characters (code points): what editors show and what SARIF can express
//! (`unicodeCodePoints`).

use shardwise_ir::Span;

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// The starts of the lines of a text.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of `text`.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            starts: [0]
                .into_iter()
                .chain(text.match_indices('\n').map(|(end, _)| end + 1))
                .collect(),
        }
    }

    /// The place of the byte at `offset`; the end of the text for a larger one.
    ///
    /// ```
    /// use shardwise::lint::{Lines, Place};
    /// assert_eq!(Lines::new("α = 1\nβ").place(7), Place { line: 2, column: 1 });
    /// ```
    pub fn place(&self, offset: usize) -> Place {
        let offset = (0..=offset.min(self.text.len()))
            .rev()
            .find(|&at| self.text.is_char_boundary(at))
            .unwrap_or(0);
        let line = self.line_of(offset);
        Place { line, column: self.text[self.starts[line - 1]..offset].chars().count() + 1 }
    }

    /// Where a span begins and ends.
    pub fn range(&self, span: Span) -> (Place, Place) {
        (self.place(span.start), self.place(span.end))
    }

    /// The line on which a span begins.
    pub(crate) fn of(&self, span: Span) -> usize {
        self.line_of(span.start)
    }

    fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    /// The line's text, without its ending.
    pub fn line(&self, line: usize) -> &'a str {
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        self.text[self.starts[line - 1]..end].trim_end_matches(['\n', '\r'])
    }

    /// The bytes of a line and its end; `None` where there is no such line.
    pub(crate) fn bytes(&self, line: usize) -> Option<Span> {
        let start = *self.starts.get(line.checked_sub(1)?)?;
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        // After the last line end no line begins.
        (start < end || self.text.is_empty()).then(|| Span::new(start, end))
    }
}

/// Longer statements are cut.
const LONGEST: usize = 100;

/// The text of a span, on one line and not too long.
pub(crate) fn quote(source: &str, span: Span) -> String {
    let text = source.get(span.start..span.end).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    if text.chars().count() <= LONGEST {
        text
    } else {
        text.chars().take(LONGEST - 3).chain("...".chars()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, offset: usize) -> (usize, usize) {
        let Place { line, column } = Lines::new(text).place(offset);
        (line, column)
    }

    #[test]
    fn lines_and_columns_count_from_one() {
        assert_eq!(at("", 0), (1, 1));
        assert_eq!(at("a\nµb\n", 4), (2, 2));
        assert_eq!(at("a\nµb\n", 99), (3, 1));
        assert_eq!(at("a\nµb\n", 3), (2, 1), "inside a character");
        let lines = Lines::new("a\nµb\n");
        assert_eq!((lines.of(Span::new(0, 1)), lines.of(Span::new(4, 5))), (1, 2));
        assert_eq!(
            (lines.bytes(2), lines.bytes(3), lines.bytes(0)),
            (Some(Span::new(2, 6)), None, None)
        );
        assert_eq!(quote("x  =\n y", Span::new(0, 7)), "x = y");
    }
}
