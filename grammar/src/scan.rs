//! Separates a source into statements before the grammar parses them.
//!
//! A statement is a line; it continues where a bracket is open or the line ends in a comma, and the
//! block of an unknown form continues until its brace is closed. The line that opens a block
//! (`repeat`, `scan`, `microbatches`, `pipeline`, `stage`) and the brace that closes it are
//! statements of their own, so a file is a flat list. A line that can only begin a statement ends
//! an unclosed one before it. Separating first keeps every error inside its statement, keeps
//! parsing linear, and rejects hostile input (50,000 open parentheses) before anything recursive
//! runs.

use std::borrow::Cow;

use crate::diag::Diag;
use crate::errors;
use crate::keywords::KEYWORDS;
use crate::span::Span;

/// Parentheses within parentheses.
const DEEPEST: usize = 64;
/// Operators in one statement: trees of products lean to the left, and are walked by recursion.
const MOST_OPERATORS: usize = 400;

/// Keywords that open a block whose statements are statements of the file.
const OPENING: [&str; 5] = ["repeat", "scan", "microbatches", "pipeline", "stage"];

/// Keywords of lists in which no item has a `=`.
const LISTS_OF_NAMES: [&str; 8] =
    ["input", "frozen", "param", "state", "output", "carry", "hold", "checkpoint"];

/// A statement whose end is not found yet.
struct Open {
    span: Span,
    brackets: usize,
    braces: usize,
    comma: bool,
    operator: bool,
    /// Whether it lists names without `=`.
    is_list_of_names: bool,
}

/// The statements of `source` as ranges of it, comments and blank lines left out.
pub(crate) fn statements(source: &str) -> Vec<Span> {
    let mut found = Vec::new();
    let mut open: Option<Open> = None;
    let mut blocks = 0;
    let mut offset = 0;
    for line in source.split_inclusive(['\n', '\r']) {
        let code = code_of(line);
        let text = code.trim_matches(is_blank);
        let start = offset + (code.len() - code.trim_start_matches(is_blank).len());
        offset += line.len();
        let mut rest = text;
        while !rest.is_empty() {
            let at = start + (text.len() - rest.len());
            if let Some(cut) = open.take_if(|open| open.is_cut_by(rest)) {
                found.push(cut.span);
            }
            if open.is_none() {
                let before = found.pop_if(|last| goes_on_with(&source[last.start..last.end], rest));
                open = before.map(|span| Open { span, ..Open::new(at) });
            }
            let braces = open.as_ref().map_or(0, |open| open.braces);
            let piece = piece(rest, braces, &mut blocks);
            let statement = open.get_or_insert_with(|| Open::new(at));
            statement.take(piece, at);
            if !statement.goes_on() || piece.len() < rest.len() {
                found.push(statement.span);
                open = None;
            }
            rest = rest[piece.len()..].trim_start_matches(is_blank);
        }
    }
    found.extend(open.map(|unclosed| unclosed.span));
    found
}

/// The part of a line that belongs to one statement: the line, but for braces that open or close a
/// block.
fn piece<'t>(text: &'t str, mut braces: usize, blocks: &mut usize) -> &'t str {
    let opens_block = is_opening(text);
    if *blocks == 0 && !opens_block && !text.starts_with('}') {
        return text;
    }
    for (at, c) in text.char_indices() {
        match c {
            '{' if opens_block => {
                *blocks += 1;
                return &text[..=at];
            }
            '{' => braces += 1,
            '}' if braces == 0 => {
                let end = at.max(1);
                *blocks -= usize::from(at == 0 && *blocks > 0);
                return text[..end].trim_end_matches(is_blank);
            }
            '}' => braces -= 1,
            _ => {}
        }
    }
    text
}

/// Whether a statement opens a block whose statements are statements of the file.
pub(crate) fn is_opening(text: &str) -> bool {
    OPENING.iter().any(|keyword| is_of_form(text, keyword))
}

/// Whether a statement begins with a keyword, and does not define a value of that name.
fn is_of_form(text: &str, keyword: &str) -> bool {
    text.strip_prefix(keyword).is_some_and(|rest| {
        !rest.starts_with(is_word) && !rest.trim_start().starts_with(['=', '[', ':'])
    })
}

impl Open {
    fn new(start: usize) -> Self {
        Self {
            span: Span::new(start, start),
            brackets: 0,
            braces: 0,
            comma: false,
            operator: false,
            is_list_of_names: false,
        }
    }

    fn take(&mut self, text: &str, start: usize) {
        if self.span.end == self.span.start {
            let is_list = |keyword: &str| is_of_form(text, keyword) && !gives(text);
            self.is_list_of_names = LISTS_OF_NAMES.iter().any(|keyword| is_list(keyword));
        }
        self.span.end = start + text.len();
        if is_opening(text) || text == "}" {
            return;
        }
        self.comma = text.ends_with(',');
        self.operator = ends_with_operator(text);
        for c in text.bytes() {
            match c {
                b'{' => self.braces += 1,
                b'}' => self.braces = self.braces.saturating_sub(1),
                b'(' | b'[' => self.brackets += 1,
                b')' | b']' => self.brackets = self.brackets.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.comma || self.operator || self.brackets > 0 || self.braces > 0
    }

    /// Whether the line `text` cannot belong to this statement: it begins with a keyword, or is a
    /// definition.
    fn is_cut_by(&self, text: &str) -> bool {
        let is_item = self.comma && !(self.is_list_of_names && self.brackets == 0);
        let defines = gives(text) && !is_item && !text.starts_with(OPERATORS);
        let closes = text.starts_with('}') && self.braces == 0;
        defines || closes || begins_with_keyword(text)
    }
}

/// The first characters of operators that cannot begin a statement.
const OPERATORS: [char; 13] = ['+', '*', '/', '·', '⋅', '→', '<', '>', '≤', '≥', '≠', '=', '!'];

/// Whether a line ends with an operator, so that its statement goes on below it.
fn ends_with_operator(text: &str) -> bool {
    text.ends_with(OPERATORS) || text.ends_with(['-']) || text.ends_with("\\cdot")
}

/// Whether the statement `before`, which could be complete, goes on with a line: one that begins
/// with an operator, or that has the right operand of `A *J`.
fn goes_on_with(before: &str, line: &str) -> bool {
    if is_opening(before) || before.ends_with('}') && !before.contains(['=', '[']) {
        return false;
    }
    let is_comment = ["//", "/*"].iter().any(|comment| line.starts_with(comment));
    let with_operator = line.starts_with(OPERATORS) && !is_comment
        || ["->", "- "].iter().any(|operator| line.starts_with(operator));
    let is_operand = line.starts_with(|c: char| c.is_alphanumeric() || c == '(')
        && !gives(line)
        && !line.contains("->")
        && !begins_with_keyword(line);
    with_operator || is_operand && ends_with_suffix(before)
}

/// Whether a line ends with `*J`: a product whose dimensions are named, without what follows.
fn ends_with_suffix(text: &str) -> bool {
    let last = text.rsplit(is_blank).next().unwrap_or("");
    let dims = last.trim_start_matches(['*', '·', '⋅']);
    let named = |dim: &str| dim.starts_with(char::is_alphabetic) && dim.chars().all(is_word);
    dims.len() < last.len() && dims.trim_matches(['_', '{', '}']).split(',').all(named)
}

pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{FEFF}'
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '\'' | '.')
}

/// A line without its comment.
pub(crate) fn code_of(line: &str) -> &str {
    line.split('#').next().unwrap_or("")
}

fn begins_with_keyword(text: &str) -> bool {
    let (word, rest) = text.split_at(text.find(|c| !is_word(c)).unwrap_or(text.len()));
    let next = rest.trim_start();
    let followed = next.is_empty() || (next.len() < rest.len() && next.starts_with(is_word));
    followed && KEYWORDS.contains(&word)
}

/// Whether a statement with this beginning is one with a keyword.
pub(crate) fn is_taken(text: &str) -> bool {
    let word = &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())];
    let names_too = ["input", "param", "frozen", "state", "output"];
    KEYWORDS.contains(&word) && !names_too.contains(&word)
}

/// Whether there is a `=` that is not part of a comparison.
fn gives(text: &str) -> bool {
    let bytes = text.as_bytes();
    let compares = |at: usize| {
        at.checked_sub(1).is_some_and(|before| b"<>!=".contains(&bytes[before]))
            || bytes.get(at + 1) == Some(&b'=')
    };
    (0..bytes.len()).any(|at| bytes[at] == b'=' && !compares(at))
}

/// A statement with spaces in place of its comments and of all white space, so that offsets stay as
/// they are.
pub(crate) fn blanked(statement: &str) -> Cow<'_, str> {
    let plain = |c: u8| c == b' ' || (c.is_ascii_graphic() && !matches!(c, b'#' | b'\\'));
    if statement.bytes().all(plain) {
        return Cow::Borrowed(statement);
    }
    let mut text = String::with_capacity(statement.len());
    let mut comment = false;
    let mut chars = statement.chars().peekable();
    while let Some(c) = chars.next() {
        comment = !matches!(c, '\n' | '\r') && (comment || c == '#');
        let escaped_space = c == '\\' && chars.peek() == Some(&' ');
        if comment || escaped_space || is_blank(c) {
            text.extend(std::iter::repeat_n(' ', c.len_utf8()));
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

/// The comments inside a statement that spans several lines.
pub(crate) fn comments_in(statement: &str) -> impl Iterator<Item = &str> {
    let lines = statement.split(['\n', '\r']);
    lines.filter_map(|line| line.find('#').map(|at| line[at..].trim_end()))
}

/// Rejects a statement that is nested too deeply for recursion.
pub(crate) fn refuse(text: &str, span: Span) -> Option<Diag> {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut operators = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '+' | '-' | '/' | '*' | '·' | '⋅' | '\\' => operators += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > DEEPEST {
        return Some(errors::too_much(
            deepest,
            "parentheses within each other",
            DEEPEST,
            text,
            span,
        ));
    }
    if operators > MOST_OPERATORS {
        return Some(errors::too_much(
            operators,
            "operators in one statement",
            MOST_OPERATORS,
            text,
            span,
        ));
    }
    None
}
