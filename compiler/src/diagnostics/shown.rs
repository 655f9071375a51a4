//! A source as it is shown under findings: escaped once, with the places of its lines, for all
//! findings of a file.
//!
//! `miette` reads a text from its start for every label: of ten thousand findings each would take
//! as long as the whole file. Here it is given the lines around the label.

use std::borrow::Cow;
use std::ops::Range;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::escape::{escaped, hidden};

/// An escaped source.
#[derive(Debug)]
pub(super) struct Shown {
    name: String,
    text: String,
    /// Where its lines start.
    lines: Vec<usize>,
    /// Places in the source right after an escaped character, and how much longer the text is up to
    /// there.
    longer: Vec<(usize, usize)>,
}

impl Shown {
    pub(super) fn new(name: &str, source: &str) -> Self {
        let text = escaped(source).into_owned();
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        let mut longer = Vec::new();
        let mut more = 0;
        for (at, c) in hidden(source) {
            more += c.escape_unicode().len() - c.len_utf8();
            longer.push((at + c.len_utf8(), more));
        }
        Self { name: escaped(name).into_owned(), text, lines, longer }
    }

    /// A part of the source in the escaped text.
    pub(super) fn span(&self, part: Range<usize>) -> SourceSpan {
        let start = self.place(part.start);
        SourceSpan::new(start.into(), self.place(part.end).max(start) - start)
    }

    /// A place in the source as `name:line:column`.
    pub(super) fn place_of(&self, offset: usize) -> String {
        let place = self.place(offset);
        let line = self.line_of(place);
        let before = self.text.get(self.lines[line]..place).unwrap_or_default();
        format!("{}:{}:{}", self.name, line + 1, before.chars().count() + 1)
    }

    fn place(&self, offset: usize) -> usize {
        let before = self.longer.partition_point(|(end, _)| *end <= offset);
        let more = before.checked_sub(1).map_or(0, |last| self.longer[last].1);
        (offset + more).min(self.text.len())
    }

    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset).saturating_sub(1)
    }
}

impl SourceCode for Shown {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        // A line more than asked for on both sides, so that the part begins and ends as the whole.
        let first = self.line_of(span.offset()).saturating_sub(context_lines_before + 1);
        let last = self.line_of(span.offset() + span.len()) + context_lines_after + 2;
        let start = self.lines[first];
        let end = self.lines.get(last).copied().unwrap_or(self.text.len());
        let inner = SourceSpan::new((span.offset() - start).into(), span.len());
        let part = &self.text.as_bytes()[start..end];
        let found = part.read_span(&inner, context_lines_before, context_lines_after)?;
        let found_at = found.span();
        let outer = SourceSpan::new((start + found_at.offset()).into(), found_at.len());
        let data = &part[found_at.offset()..found_at.offset() + found_at.len()];
        let contents = MietteSpanContents::new_named(
            self.name.clone(),
            data,
            outer,
            first + found.line(),
            found.column(),
            first + found.line_count(),
        );
        Ok(Box::new(contents.with_language(Cow::Borrowed("shard"))))
    }
}

#[cfg(test)]
mod tests {
    use miette::{SourceCode, SourceSpan};

    use super::Shown;

    #[test]
    fn a_part_is_shown_as_in_the_whole() {
        let texts = ["a\nbc\n\nd\u{e9}f\n  g\nh", "", "\n\n", "one line", "a\r\nb\r\nc\n"];
        for text in texts {
            let shown = Shown::new("a.shard", text);
            for (offset, length) in (0..=text.len()).flat_map(|at| (0..4).map(move |n| (at, n))) {
                let span = SourceSpan::new(offset.into(), length);
                if offset + length > text.len() {
                    continue;
                }
                for context in 0..3 {
                    let [part, whole] = [&shown as &dyn SourceCode, &text as &dyn SourceCode]
                        .map(|source| source.read_span(&span, context, context).ok());
                    let facts = |of: &dyn miette::SpanContents<'_>| {
                        (of.data().to_vec(), *of.span(), of.line(), of.column(), of.line_count())
                    };
                    let facts = [part, whole].map(|found| found.map(|of| facts(&*of)));
                    assert_eq!(facts[0], facts[1], "{text:?} {span:?} {context}");
                }
            }
        }
    }

    #[test]
    fn places_follow_what_is_escaped() {
        let source = "a\u{1b}b\u{202e}\rc\r\n\td";
        let shown = Shown::new("a.shard", source);
        for c in ['b', 'c', 'd'] {
            let at = source.find(c).expect("it is there");
            let place = shown.span(at..at + 1).offset();
            assert_eq!(shown.text[place..].chars().next(), Some(c), "{c}");
        }
    }
}
