//! Places in a source as people name them: lines and columns, counted from 1.

use shardwise_ir::Span;

/// The line and the column (in characters) of a byte.
pub(crate) fn line_and_column(source: &str, offset: usize) -> (usize, usize) {
    let offset = (0..=offset.min(source.len())).rev().find(|&at| source.is_char_boundary(at)).unwrap_or(0);
    let before = &source[..offset];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// Where the lines of a source begin, for whoever asks often.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(source: &str) -> Self {
        Self([0].into_iter().chain(source.match_indices('\n').map(|(end, _)| end + 1)).collect())
    }

    /// The line on which a span begins.
    pub(crate) fn of(&self, span: Span) -> usize {
        self.0.partition_point(|&start| start <= span.start)
    }

    /// The bytes of a line and its end; `None` where there is no such line.
    pub(crate) fn bytes(&self, line: usize, source: &str) -> Option<Span> {
        let start = *self.0.get(line.checked_sub(1)?)?;
        let end = self.0.get(line).copied().unwrap_or(source.len());
        // Behind the last line end no line begins.
        (start < end || source.is_empty()).then(|| Span::new(start, end))
    }
}

/// Longer statements are cut.
const LONGEST: usize = 100;

/// What stands at a span, on one line and not too long.
pub(crate) fn quote(source: &str, span: Span) -> String {
    let text = source.get(span.start..span.end).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST - 3).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        assert_eq!(line_and_column("", 0), (1, 1));
        assert_eq!(line_and_column("a\nµb\n", 4), (2, 2));
        assert_eq!(line_and_column("a\nµb\n", 99), (3, 1));
        assert_eq!(line_and_column("a\nµb\n", 3), (2, 1), "inside a character");
        let lines = Lines::new("a\nµb\n");
        assert_eq!((lines.of(Span::new(0, 1)), lines.of(Span::new(4, 5))), (1, 2));
        assert_eq!((lines.bytes(2, "a\nµb\n"), lines.bytes(3, "a\nµb\n"), lines.bytes(0, "a")), (Some(Span::new(2, 6)), None, None));
        assert_eq!(quote("x  =\n y", Span::new(0, 7)), "x = y");
    }
}
