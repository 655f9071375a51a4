//! Wording of syntax errors: each expected token of the grammar, as a sentence about the reader's
//! program.

mod sizes;

pub(crate) use sizes::Sizes;
use sizes::size_and_axes;

use crate::codes as syntax;
use crate::diag::Diag;
use crate::keywords::{KEYWORDS, nearest_keyword};
use crate::span::Span;

/// A missing or unexpected piece, as the grammar marks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Name,
    Size,
    Axis,
    Dim,
    Operand,
    Bracket,
    Brace,
    Paren,
    Block,
    Limit,
    Phase,
    Until,
    Weights,
    Code,
    Setting,
    File,
    Quote,
    /// A number where a dimension must stand.
    NumberAsDim,
    /// `A {U_X}`: unreduced axes without brackets before them.
    Unbracketed,
    /// Text after a statement that is complete.
    Rest,
    /// Nothing fits.
    Statement,
}

/// A statement with a mistake in it.
#[derive(Clone, Copy)]
pub(crate) struct Faulty<'t> {
    /// Its text, comments blanked out.
    pub(crate) text: &'t str,
    /// Where it stands.
    pub(crate) span: Span,
    /// The sizes of its file.
    pub(crate) sizes: &'t Sizes<'t>,
}

/// What to write where a second comparison stands in an expression.
const ONE_COMPARISON: &str = "an expression has one comparison: put those in it into parentheses, \
                              as in `(a < b) == (c < d)`";

/// `gelu(x)` of `gelu x` at the end of a definition.
fn call_without_parentheses(before: &str, rest: &str) -> Option<String> {
    let first = before.split(char::is_whitespace).next()?;
    let is_definition = first == "output" || !KEYWORDS.contains(&first);
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\'');
    let function = &before[before.trim_end_matches(is_word).len()..];
    let is_name = |name: &str| name.starts_with(char::is_alphabetic);
    let is_operand = is_name(rest) && rest.chars().all(is_word);
    let is_call = is_definition && is_name(function) && is_operand;
    is_call.then(|| format!("{function}({rest})"))
}

/// Whether a text begins with a comparison.
fn compares(text: &str) -> bool {
    ["<", ">", "==", "!="].iter().any(|sign| text.starts_with(sign))
}

impl Faulty<'_> {
    /// The diagnostic for the mark at `at`.
    pub(crate) fn describe(self, mark: Mark, at: Span) -> Diag {
        let marked = excerpt(&self.text[at.start - self.span.start..at.end - self.span.start]);
        match mark {
            Mark::Statement => self.bad_statement(),
            Mark::Rest => self.bad_rest(at, &marked),
            Mark::NumberAsDim => {
                let (size, axes) = size_and_axes(&marked);
                let before = &self.text[..at.start - self.span.start];
                let name = self.sizes.name(before, size);
                Diag::error(
                    syntax::BAD_DIM,
                    format!("`{marked}` is a size, not a dimension"),
                    at,
                    "not a name",
                )
                .help(format!("declare `dim {name}={size}`, and write `{name}{axes}` here"))
            }
            Mark::Unbracketed => Diag::error(
                syntax::MISSING,
                format!("the brackets are missing before `{marked}`"),
                at,
                "follows brackets",
            )
            .help(format!("write the dimensions too: `A[I, J] {marked}`")),
            _ => self.missing(mark, at),
        }
    }

    fn missing(self, mark: Mark, at: Span) -> Diag {
        if let Some(diag) = self.negative(mark, at) {
            return diag;
        }
        let is_scan = self.text.starts_with("scan");
        let (what, help) = match mark {
            Mark::Dim if is_scan => (
                "a dimension",
                "write that of a chunk: `scan T in C {`, or `scan T {` for one element a step",
            ),
            Mark::Block if is_scan => (
                "`in` or `{`",
                "write `scan T in C {`: the number of steps follows from the sizes of `T` and `C`",
            ),
            Mark::Block if self.text[at.start - self.span.start..].contains('{') => (
                "a `,` or `{`",
                "put commas between the options of a block: `pipeline Z, microbatches=8 {`",
            ),
            Mark::Paren if compares(&self.text[at.start - self.span.start..]) => {
                ("a `)`", ONE_COMPARISON)
            }
            _ => wanted(mark),
        };
        if let Some((word, at)) = self.word_at(at).filter(|_| is_one_of_words(mark)) {
            let message = format!("`{word}` does not say {what}");
            return Diag::error(syntax::MISSING, message, at, "not one of the words for it")
                .help(help);
        }
        let at = self.widened(at);
        Diag::error(
            syntax::MISSING,
            format!("{what} is missing here"),
            at,
            format!("expected {what}"),
        )
        .help(help)
    }

    /// `dim B=-64`: a sign before a size.
    fn negative(self, mark: Mark, at: Span) -> Option<Diag> {
        let (before, rest) = self.text.split_at(at.start - self.span.start);
        let is_first = mark == Mark::Size && before.trim_end().ends_with('=');
        let after = rest.strip_prefix('-').filter(|_| is_first)?.trim_start();
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
        let size = &after[..end];
        let is_mesh = self.text.starts_with("mesh");
        let at = Span::new(at.start, at.start + rest.len() - after.len() + end);
        let help = match size {
            "" => return None,
            "1" if is_mesh => "write how many devices the axis has, as in `X=4`".to_owned(),
            "1" => "write the size itself, as in `B=64`".to_owned(),
            _ => format!("write `{size}`"),
        };
        let message = format!("`-{size}` is no size: sizes are at least 1");
        Some(Diag::error(syntax::MISSING, message, at, "below zero").help(help))
    }

    /// The word that stands at a mark.
    fn word_at(&self, at: Span) -> Option<(&str, Span)> {
        let rest = &self.text[at.start - self.span.start..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (end > 0).then(|| (&rest[..end], Span::new(at.start, at.start + end)))
    }

    /// The place of a mark, which has no width: the character there, or the last of the statement.
    fn widened(self, at: Span) -> Span {
        let offset = at.start - self.span.start;
        match self.text[offset..].chars().next() {
            Some(next) if at.start == at.end => Span::new(at.start, at.start + next.len_utf8()),
            Some(_) => at,
            None => {
                let last = self.text.chars().next_back().map_or(0, char::len_utf8);
                Span::new(self.span.end - last, self.span.end)
            }
        }
    }

    fn bad_rest(self, at: Span, rest: &str) -> Diag {
        let message = format!("the statement ends before `{rest}`");
        let diag = Diag::error(syntax::TRAILING, message, at, "not expected here");
        let before = self.text[..at.start - self.span.start].trim_end();
        if let Some(dims) =
            detached_suffix(before).filter(|_| rest.starts_with(char::is_alphabetic))
        {
            return diag.help(format!("the suffix sticks to the `*`: write `*{dims} {rest}`"));
        }
        if compares(rest) {
            return diag.help(ONE_COMPARISON);
        }
        if let Some(call) = call_without_parentheses(before, rest) {
            return diag.help(format!(
                "a call has parentheses: write `{call}`, or one statement a line, and comments \
                    after `#`"
            ));
        }
        diag.help(match rest.chars().next() {
            Some(';') => "write one statement a line",
            Some('=') => "only a definition has `=`: `C[I] = gelu(A)`, `output C[I] = gelu(A)`",
            Some(')' | ']' | '}') => "nothing is open that this would close",
            _ => "write one statement a line, and comments after `#`",
        })
    }

    fn bad_statement(self) -> Diag {
        let Self { text, span, .. } = self;
        let word = text.split(char::is_whitespace).next().unwrap_or(text);
        let first = Span::new(span.start, span.start + word.len());
        if word == "frozen" {
            let message = "`frozen` is not followed by `param`";
            return Diag::error(syntax::UNREADABLE, message, first, "not understood")
                .help("only parameters are frozen: `frozen param W[D, F]`");
        }
        if let Some(keyword) = nearest_keyword(word) {
            let message = format!("`{word}` is not a keyword");
            return Diag::error(syntax::UNREADABLE, message, first, "not understood")
                .help(format!("did you mean `{keyword}`?"));
        }
        if text.starts_with(|c: char| c.is_alphabetic()) && text.contains(['*', '·', '+', '(', '['])
        {
            let message = format!("`{}` is given no name", excerpt(text));
            return Diag::error(syntax::UNREADABLE, message, first, "defines nothing")
                .help("write `C[I] = …`, or `… -> C[I]` after it");
        }
        let message = format!("`{}` is not a statement", excerpt(text));
        Diag::error(syntax::UNREADABLE, message, first, "not understood")
            .help("a statement declares (`mesh X=4`, `input A[I_X]`) or defines (`C = A *J B`)")
    }
}

/// JSON in place of a program, such as that of a plan.
pub(crate) fn json(source: &str) -> Option<Diag> {
    let at = source.len() - source.trim_start().len();
    let message = "this is JSON, and not a program";
    source[at..].starts_with('{').then(|| {
        Diag::error(syntax::UNREADABLE, message, Span::new(at, at + 1), "begins here")
            .help("give the program itself: what `plan --format json` writes is not read again")
    })
}

/// A block that is never closed.
pub(crate) fn open_block(text: &str, span: Span) -> Diag {
    let head = text.find('{').map_or(text.len(), |brace| brace + 1);
    let at = Span::new(span.start, span.start + head);
    Diag::error(syntax::MISSING, "the block is never closed", at, "opened here")
        .help("write a `}` after it")
}

/// A closing brace without a block.
pub(crate) fn nothing_to_close(at: Span) -> Diag {
    Diag::error(syntax::TRAILING, "no block is open here", at, "closes nothing")
        .help("leave it out, or open a block: `repeat L=40 {`")
}

/// More of something than a statement may hold.
pub(crate) fn too_much(count: usize, what: &str, limit: usize, text: &str, span: Span) -> Diag {
    let short = text.char_indices().nth(40).map_or(text.len(), |(at, _)| at);
    let message = format!("{count} {what}, and the limit is {limit}");
    Diag::error(
        syntax::TOO_DEEP,
        message,
        Span::new(span.start, span.start + short),
        "this statement",
    )
    .help("name the parts: write one statement for each")
}

fn wanted(mark: Mark) -> (&'static str, &'static str) {
    match mark {
        Mark::Name => ("a name", "a name holds letters, digits, `_`, `.` and `'`"),
        Mark::Size => {
            ("a size", "write `=` and a whole number, such as `B=4096`, `B=48k` or `F=4*D`")
        }
        Mark::Axis => (
            "a mesh axis",
            "write the axis after the `_`, as in `B_X` or `B_{X,Y}`, or `?` to leave it open; in \
                `B_{X,?}` it stands last",
        ),
        Mark::Dim => ("a dimension", "write a dimension after the comma, as in `A[I, J]`"),
        Mark::Bracket => ("a `,` or `]`", "close the brackets: `A[I, J_X]`"),
        Mark::Brace => ("a `}`", "close the braces: `{U_X}`, `D_{X,Y}`"),
        Mark::Paren => ("a `)`", "close the parenthesis: `gelu(A)`"),
        Mark::Block => ("a `{`", "open the block on the same line: `repeat L=40 {`"),
        Mark::Phase => (
            "`forward` or `backward`",
            "`phase backward` begins the part of a step that computes gradients",
        ),
        Mark::Until => (
            "how long gradients are kept",
            "write `until=step` if they are kept all through the step, or `until=update` if each \
                is freed when its parameter is updated",
        ),
        Mark::Weights => (
            "what happens to gathered weights",
            "write `weights=regathered` if they are gathered again going back, `weights=kept` if \
                they are kept until then, or `weights=chosen` if the search decides",
        ),
        Mark::Limit => (
            "a limit",
            "write `assert comm <= 2ms`, `assert memory <= 16GB`, `assert no AllGather over X` or \
                `assert W stays sharded`",
        ),
        Mark::Setting => (
            "the value of a setting",
            "write the setting and its value, as in `moments=bf16` or `rate=1e-3`",
        ),
        Mark::File => (
            "a file",
            "write the path of a hardware file in quotes: `hardware my-chip from \"cluster.toml\"`",
        ),
        Mark::Quote => (
            "a `\"`",
            "close the quotes on the same line: `hardware \"cluster.toml\"`; a path holds no `#`",
        ),
        Mark::Code => ("a code", "write the code of the lint, as in `allow SW301`"),
        _ => ("an operand", "write a value, a number, or a function of them"),
    }
}

/// The `J` of `A * J`, where `A *J B` was meant.
fn detached_suffix(before: &str) -> Option<&str> {
    let (_, dims) = before.rsplit_once(['*', '·', '⋅'])?;
    let name = dims.trim_start();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == ',');
    (is_name && name.len() < dims.len()).then_some(name)
}

/// Whether one of a few words must stand at a mark.
fn is_one_of_words(mark: Mark) -> bool {
    matches!(mark, Mark::Until | Mark::Weights)
}

/// The beginning of a text.
fn excerpt(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
