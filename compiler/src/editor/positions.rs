//! Places as editors count them: lines from 0, and UTF-16 code units in a line from 0.
//!
//! The Language Server Protocol counts so unless a client and a server agree otherwise, and every
//! client can. Spans are bytes. A line ends with `\n`, `\r\n` or `\r`, as the protocol says.

use shardwise_ir::Span;

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 0.
    pub line: u32,
    /// UTF-16 code units before it in the line.
    pub character: u32,
}

/// The starts of the lines of a text.
#[derive(Clone, Debug)]
pub struct Positions {
    starts: Vec<usize>,
}

impl Positions {
    /// Finds the lines of `text`.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ends = (0..bytes.len()).filter(|&at| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        Self { starts: std::iter::once(0).chain(ends.map(|end| end + 1)).collect() }
    }

    /// The place of a byte of `text`, which must be the same text; the end for a larger one.
    ///
    /// ```
    /// use shardwise::editor::{Position, Positions};
    /// let text = "# α 𝛼\nIn";
    /// let positions = Positions::new(text);
    /// assert_eq!(positions.position(text, 9), Position { line: 0, character: 6 });
    /// assert_eq!(positions.offset(text, Position { line: 0, character: 6 }), 9);
    /// ```
    pub fn position(&self, text: &str, offset: usize) -> Position {
        let offset = floor(text, offset);
        let line = self.starts.partition_point(|&start| start <= offset) - 1;
        let before = &text[self.starts[line]..offset];
        let character = before.chars().map(|c| c.len_utf16() as u32).sum();
        Position { line: line as u32, character }
    }

    /// Where a span begins and ends.
    pub fn range(&self, text: &str, span: Span) -> (Position, Position) {
        (self.position(text, span.start), self.position(text, span.end))
    }

    /// The byte at a place: the end of its line for a larger character, the end of the text for a
    /// larger line, the start of the character for a place inside a surrogate pair.
    pub fn offset(&self, text: &str, position: Position) -> usize {
        let Some(&start) = self.starts.get(position.line as usize) else { return text.len() };
        let end = self.starts.get(position.line as usize + 1).map_or(text.len(), |&end| end);
        let line = text[start..end].trim_end_matches(['\n', '\r']);
        let mut units = 0;
        for (at, c) in line.char_indices() {
            units += c.len_utf16() as u32;
            if units > position.character {
                return start + at;
            }
        }
        start + line.len()
    }
}

/// The largest character boundary up to `offset`.
fn floor(text: &str, offset: usize) -> usize {
    let offset = offset.min(text.len());
    (0..=offset).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn every_boundary_comes_back() {
        let text = "a\r\nα𝛼b\n\rend\n";
        let positions = Positions::new(text);
        for offset in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
            let position = positions.position(text, offset);
            // Between `\r` and `\n` is no place of a line.
            let expected = if offset == 2 { 1 } else { offset };
            assert_eq!(positions.offset(text, position), expected, "{position:?}");
        }
        assert_eq!(positions.position(text, 9), at(1, 3));
        assert_eq!(positions.position(text, 10), at(1, 4));
        assert_eq!(positions.position(text, 12), at(3, 0), "a lone `\\r` ends a line");
    }

    #[test]
    fn places_outside_are_the_nearest_inside() {
        let text = "𝛼\nb";
        let positions = Positions::new(text);
        assert_eq!(positions.offset(text, at(0, 1)), 0, "inside a surrogate pair");
        assert_eq!(positions.offset(text, at(0, 99)), 4);
        assert_eq!(positions.offset(text, at(9, 0)), text.len());
        assert_eq!(positions.position(text, 99), at(1, 1));
        assert_eq!(positions.position(text, 2), at(0, 0), "inside a character");
    }
}
