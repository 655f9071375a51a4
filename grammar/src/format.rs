//! The canonical layout of a source, comments kept.
//!
//! Statements are printed from the tree; comments and blank lines are recovered from the gaps
//! between statements, so the tree stores neither. A comment after a statement stays on its line, a
//! comment on its own line stays on its own line, a comment inside a statement of several lines
//! moves before it, and consecutive blank lines become one.
//!
//! Spaces before a comment stay, if there are two at least: comments that stand in a column, as in
//! printed plans, do so on purpose. Aligning them here would change lines that nobody touched
//! whenever a longer one comes; one fixed distance would destroy the columns.

mod subscripts;
#[cfg(test)]
pub(crate) mod tests;

use crate::diag::Diag;
use crate::parse::parse;
use crate::print;
use crate::scan;

/// `source` in canonical layout; its syntax errors if it has any.
pub fn format(source: &str) -> Result<String, Vec<Diag>> {
    let (mut file, diags) = parse(source);
    if !diags.is_empty() {
        return Err(diags);
    }
    subscripts::join(&mut file);
    let mut out = Output::default();
    let mut at = 0;
    let mut statements = file.statements.iter().peekable();
    for span in scan::statements(source) {
        out.closes = source[span.start..].starts_with('}');
        out.gap(&source[at..span.start]);
        let whole = &source[span.start..span.end];
        scan::comments_in(whole).for_each(|text| out.line(comment(text)));
        let mut parts = Vec::new();
        while let Some(statement) = statements.next_if(|next| next.span.start < span.end) {
            parts.push(print::statement(&statement.node, source));
        }
        out.depth -= usize::from(out.closes && out.depth > 0);
        out.line(parts.join(" "));
        out.depth +=
            parts.iter().filter(|part| scan::is_opening(part) && part.ends_with('{')).count();
        at = span.end;
    }
    out.closes = false;
    out.gap(&format!("{}\n", &source[at..]));
    Ok(out.finish())
}

/// Lines so far.
#[derive(Default)]
struct Output {
    lines: Vec<String>,
    /// The open blocks.
    depth: usize,
    /// Whether the current statement closes one: no blank line goes before it.
    closes: bool,
}

impl Output {
    /// The text between two statements: the rest of the first one's line, then whole lines.
    fn gap(&mut self, gap: &str) {
        let gap = gap.replace("\r\n", "\n");
        let spaces = gap.len() - gap.trim_start_matches(' ').len();
        let mut pieces: Vec<&str> =
            gap.split(['\n', '\r']).map(|p| p.trim_matches(scan::is_blank)).collect();
        pieces.pop();
        for (number, text) in pieces.into_iter().enumerate() {
            match (number, text, self.lines.last_mut()) {
                (0, "", Some(_)) => {}
                (0, _, Some(line)) => {
                    line.push_str(&" ".repeat(spaces.max(2)));
                    line.push_str(&comment(text));
                }
                (_, "", _) => self.blank(),
                _ => self.line(comment(text)),
            }
        }
    }

    fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) && !self.closes {
            self.lines.push(String::new());
        }
    }

    fn line(&mut self, text: String) {
        self.lines.push(format!("{}{text}", "  ".repeat(self.depth)));
    }

    fn finish(mut self) -> String {
        while self.lines.last().is_some_and(String::is_empty) {
            self.lines.pop();
        }
        self.lines.push(String::new());
        let text = self.lines.join("\n");
        if text == "\n" { String::new() } else { text }
    }
}

/// One space after the `#`.
fn comment(text: &str) -> String {
    match text.strip_prefix('#') {
        Some(rest) if !rest.starts_with([' ', '!', '#']) && !rest.is_empty() => format!("# {rest}"),
        _ => text.to_owned(),
    }
}
