//! How syntax errors are worded: each mark of the grammar, said as a sentence about the reader's program.

use crate::codes::syntax;
use crate::diag::Diag;
use crate::span::Span;

/// The words a statement can begin with.
const KEYWORDS: [&str; 13] =
    ["plan", "hardware", "mesh", "dim", "input", "param", "state", "output", "assert", "allow", "repeat", "backward", "pipeline"];

/// A statement that the grammar did not match at all; it is total, so this is the last resort.
pub(crate) fn unreadable(text: &str, span: Span) -> Diag {
    describe("bad_statement", span, text, span)
}

/// The diagnostic for a mark.
pub(crate) fn describe(mark: &str, at: Span, text: &str, statement: Span) -> Diag {
    if mark == "bad_statement" {
        return bad_statement(text, statement);
    }
    if mark == "bad_rest" {
        let rest = excerpt(&text[at.start - statement.start..]);
        let message = format!("the statement ends before `{rest}`");
        return Diag::error(syntax::TRAILING, message, at, "not expected here").help(rest_help(&rest));
    }
    let (what, help) = missing(mark);
    let at = widened(at, text, statement);
    Diag::error(syntax::MISSING, format!("{what} is missing here"), at, format!("expected {what}")).help(help)
}

fn missing(mark: &str) -> (&'static str, &'static str) {
    match mark {
        "missing_name" => ("a name", "a name holds letters, digits, `_`, `.` and `'`"),
        "missing_size" => ("a size", "write `=` and a whole number, such as `B=4096`, `B=48k` or `F=4*D`"),
        "missing_axis" => ("a mesh axis", "write the axis behind the `_`, as in `B_X` or `B_{X,Y}`, or `?` to leave it open"),
        "missing_dim" => ("a dimension", "write a dimension behind the comma, as in `A[I, J]`"),
        "missing_rbracket" => ("a `,` or `]`", "close the brackets: `A[I, J_X]`"),
        "missing_rbrace" => ("a `}`", "close the braces: `{U_X}`, `D_{X,Y}`"),
        "missing_rparen" => ("a `)`", "close the parenthesis"),
        "missing_limit" => {
            ("a limit", "write `assert comm <= 2ms`, `assert memory <= 16GB`, `assert no AllGather over X` or `assert W stays sharded`")
        }
        "missing_code" => ("a code", "write the code of the lint, as in `allow SW301`"),
        _ => ("an operand", "write a value, a number, or a function of them"),
    }
}

fn rest_help(rest: &str) -> &'static str {
    if rest.starts_with(';') { "write one statement a line" } else { "write one statement a line, and comments behind `#`" }
}

/// A mark has no width: point at the character that stands there instead, or at the end of the statement.
fn widened(at: Span, text: &str, statement: Span) -> Span {
    let offset = at.start - statement.start;
    match text[offset..].chars().next() {
        Some(next) if at.start == at.end => Span::new(at.start, at.start + next.len_utf8()),
        None => {
            let last = text.chars().next_back().map_or(0, char::len_utf8);
            Span::new(statement.end - last, statement.end)
        }
        Some(_) => at,
    }
}

fn bad_statement(text: &str, span: Span) -> Diag {
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let first = Span::new(span.start, span.start + text.find(char::is_whitespace).unwrap_or(text.len()));
    let diag = Diag::error(syntax::UNREADABLE, format!("`{}` is not a statement", excerpt(text)), first, "not understood");
    let near = KEYWORDS.iter().map(|keyword| (strsim::damerau_levenshtein(keyword, &word), keyword)).min();
    match near {
        Some((distance, keyword)) if distance <= 2 && !word.is_empty() => diag.help(format!("did you mean `{keyword}`?")),
        _ => diag.help("a statement is a declaration (`mesh X=4`, `input A[I_X]`) or a definition (`C = A *J B`)"),
    }
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or("").trim();
    if line.chars().count() > 40 { format!("{}…", line.chars().take(40).collect::<String>()) } else { line.to_owned() }
}
