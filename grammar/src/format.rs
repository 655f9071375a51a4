//! The canonical layout of a source, comments kept.
//!
//! Statements are printed from the tree; comments and blank lines are found again in the gaps between them, so the tree needs to hold
//! neither. A comment behind a statement stays behind it, one on its own line stays on its own line, runs of blank lines become one.

use crate::ast::Statement;
use crate::diag::Diag;
use crate::parse::parse;
use crate::print;
use crate::scan;

/// `source` in canonical layout; its syntax errors if it has any.
pub fn format(source: &str) -> Result<String, Vec<Diag>> {
    let (file, diags) = parse(source);
    if !diags.is_empty() {
        return Err(diags);
    }
    let mut out = Output::default();
    let mut at = 0;
    let mut statements = file.statements.iter().peekable();
    for span in scan::statements(source) {
        out.gap(&source[at..span.start]);
        let mut first = true;
        while let Some(statement) = statements.next_if(|statement| statement.span.start < span.end) {
            let written = &source[statement.span.start..statement.span.end.max(statement.span.start)];
            let text = if matches!(statement.node, Statement::NotYet(_)) {
                source[span.start..span.end].to_owned()
            } else {
                print::statement(&statement.node, source)
            };
            let _ = written;
            let kept_on_line = !first && !matches!(statement.node, Statement::Allow(_));
            out.statement(&text, kept_on_line);
            first = false;
        }
        at = span.end;
    }
    out.gap(&(source[at..].to_owned() + "\n"));
    Ok(out.finish())
}

/// Lines so far.
#[derive(Default)]
struct Output {
    lines: Vec<String>,
}

impl Output {
    /// What stands between two statements: the rest of the first one's line, then whole lines.
    fn gap(&mut self, gap: &str) {
        let mut pieces = gap.trim_start_matches('\u{FEFF}').split('\n');
        let behind = pieces.next().unwrap_or("").trim();
        if !behind.is_empty() {
            match self.lines.last_mut() {
                Some(line) if !line.is_empty() => line.push_str(&format!("  {}", comment(behind))),
                _ => self.lines.push(comment(behind)),
            }
        }
        let mut rest: Vec<&str> = pieces.collect();
        rest.pop();
        for line in rest {
            match line.trim() {
                "" => self.blank(),
                text => self.lines.push(comment(text)),
            }
        }
    }

    fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    fn statement(&mut self, text: &str, on_same_line: bool) {
        match self.lines.last_mut() {
            Some(line) if on_same_line => line.push_str(&format!(" {text}")),
            _ => self.lines.push(text.to_owned()),
        }
    }

    fn finish(mut self) -> String {
        while self.lines.last().is_some_and(String::is_empty) {
            self.lines.pop();
        }
        if self.lines.is_empty() { String::new() } else { self.lines.join("\n") + "\n" }
    }
}

/// One space behind the `#`.
fn comment(text: &str) -> String {
    match text.strip_prefix('#') {
        Some(rest) if !rest.starts_with([' ', '!', '#']) && !rest.is_empty() => format!("# {rest}"),
        _ => text.to_owned(),
    }
}
