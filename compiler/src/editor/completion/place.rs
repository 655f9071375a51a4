//! Finds out what is wanted at a place: from the beginning of its statement up to it.

use shardwise_ir::program::CollectiveKind;

use crate::editor::names::{Kind, Names};

/// What can stand at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Names of the program.
    Names(Kind),
    /// Words of a table of the reference.
    Words(&'static str),
    /// Functions and collectives.
    Calls,
    Dtypes,
    Hardware,
    Lints,
    /// These words.
    Exactly(&'static [&'static str]),
}

use Wanted::{Calls, Dtypes, Exactly, Lints, Words};

const VALUES: Wanted = Wanted::Names(Kind::Value);
const DIMS: Wanted = Wanted::Names(Kind::Dim);
const AXES: Wanted = Wanted::Names(Kind::Axis);

/// Where the word at `offset` begins, and what can stand there.
pub(super) fn wanted(source: &str, offset: usize, names: &Names) -> (usize, Vec<Wanted>) {
    let statement = &source[beginning(source, offset)..offset];
    let statement = statement.trim_start();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '.');
    // Chips and codes have more characters.
    let is_chip = statement.starts_with("hardware") && !statement.contains(',');
    let is_part = |c: char| is_word(c) || is_chip && matches!(c, '-' | '_');
    let typed = statement.trim_end_matches(is_part).len();
    let start = offset - (statement.len() - typed);
    let is_comment = statement.rsplit(['\n', '\r']).next().unwrap_or_default().contains('#');
    if is_comment || statement.matches('"').count() % 2 == 1 {
        return (start, Vec::new());
    }
    (start, at(without_allow(&statement[..typed]), names))
}

/// The beginning of the statement: its line, or the first of those that go on.
fn beginning(source: &str, offset: usize) -> usize {
    let mut start = source[..offset].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    while start > 0 {
        let above = source[..start - 1].rfind(['\n', '\r']).map_or(0, |end| end + 1);
        let line = source[above..start].split('#').next().unwrap_or_default().trim_end();
        if !line.ends_with([',', '=', '+', '*', '(', '[']) {
            break;
        }
        start = above;
    }
    start
}

/// A statement without the `allow`s before it.
fn without_allow(text: &str) -> &str {
    let is_code = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.ends_with(|c: char| c.is_ascii_digit())
    };
    let after = |rest: &'_ str| -> Option<usize> {
        let (code, after) = rest.strip_prefix("allow ")?.split_once(' ')?;
        is_code(code).then(|| rest.len() - after.len())
    };
    let mut rest = text;
    while let Some(length) = after(rest) {
        rest = &rest[length..];
    }
    rest
}

/// What can stand after `text`, which ends before the word.
fn at(text: &str, names: &Names) -> Vec<Wanted> {
    if text.is_empty() {
        return vec![Words("Statements")];
    }
    let (keyword, rest) = text.split_at(text.find(|c: char| !c.is_alphanumeric()).unwrap_or(0));
    let defines = rest.trim_start().starts_with(['=', '[', ':']);
    let own = if defines { None } else { of_keyword(keyword, rest) };
    own.unwrap_or_else(|| of_expression(text, names))
}

/// What can stand in a statement that a keyword begins; `None` where operands or brackets can.
fn of_keyword(keyword: &str, rest: &str) -> Option<Vec<Wanted>> {
    let item = rest.rsplit(',').next().unwrap_or(rest);
    let is_first = item.len() == rest.len();
    let option = item.split_once('=').map(|(name, _)| name.trim());
    let last = rest.split_whitespace().next_back().unwrap_or_default();
    Some(match keyword {
        "hardware" => match (option, last) {
            (Some("rates"), _) => vec![Words("Rates")],
            (Some("fusion"), _) => vec![Words("Fusion")],
            (Some("collectives"), _) => vec![Words("Parts of collectives")],
            (Some("products"), _) => vec![Words("Products")],
            _ if !is_first => {
                vec![Exactly(&["rates=", "fusion=", "collectives=", "products="])]
            }
            (_, "from") => Vec::new(),
            _ => vec![Wanted::Hardware],
        },
        "mesh" | "dim" if option.is_none() => Vec::new(),
        "mesh" => vec![Words("Kinds of mesh axes"), Exactly(&["over", "as"])],
        "dim" => vec![DIMS, Exactly(&["pad", "zigzag"])],
        "allow" => vec![Lints],
        "assert" => match last {
            "" => vec![Words("What assert limits"), Exactly(&["no"]), VALUES],
            "no" => vec![Words("Collectives")],
            "over" => vec![AXES, Words("Kinds of mesh axes")],
            _ => vec![Exactly(&["stays sharded", "over", "<="])],
        },
        "backward" => match (option, last) {
            (Some("gradients"), _) => vec![Dtypes],
            (Some("until"), _) => vec![Exactly(&["step", "update"])],
            (Some("weights"), _) => vec![Exactly(&["regathered", "kept", "chosen"])],
            (_, "from" | "given") => vec![VALUES],
            (_, "of") => vec![DIMS],
            _ => vec![Exactly(OPTIONS_OF_BACKWARD)],
        },
        "phase" => vec![Exactly(&["forward", "backward"])],
        "pipeline" => match option {
            Some("schedule") => vec![Words("Schedules of a pipeline")],
            Some("microbatches") => vec![Exactly(&["of"]), DIMS],
            Some(_) => Vec::new(),
            None if is_first => vec![AXES],
            None => OPTIONS_OF_PIPELINE.to_vec(),
        },
        "stage" => vec![Exactly(&["reversed"])],
        "repeat" if rest.trim().is_empty() => Vec::new(),
        "repeat" => vec![DIMS, Exactly(&["reversed"])],
        "scan" | "microbatches" => vec![DIMS, Exactly(&["in", "reversed"])],
        "optimizer" => match (option, last) {
            (Some(_), _) => vec![Dtypes],
            (_, "over") => vec![AXES],
            _ if !is_first => vec![Words("Settings of optimizers")],
            _ => vec![Words("Optimizers"), Exactly(&["over"])],
        },
        "checkpoint" => {
            vec![VALUES, Words("What checkpoint names"), Exactly(&["keep", "only"])]
        }
        _ => return None,
    })
}

const OPTIONS_OF_BACKWARD: &[&str] =
    &["from", "given", "microbatches=", "gradients=", "until=", "weights="];

const OPTIONS_OF_PIPELINE: [Wanted; 1] =
    [Exactly(&["microbatches=", "schedule=", "chunks=", "layers="])];

/// What can stand in declarations, brackets and expressions.
fn of_expression(text: &str, names: &Names) -> Vec<Wanted> {
    let is_declaration = ["input", "param", "frozen", "state"]
        .iter()
        .any(|keyword| text.strip_prefix(keyword).is_some_and(|rest| rest.starts_with(' ')));
    if let Some(owner) = text.strip_suffix('_') {
        return subscript(owner, names, true);
    }
    match open(text) {
        Some(('[', _)) => vec![DIMS],
        Some(('{', before)) => match before.strip_suffix('_') {
            Some(owner) => subscript(owner, names, false),
            None if text.ends_with('{') => vec![Exactly(&["U_", "max_", "min_"])],
            None => vec![AXES],
        },
        Some(('<', _)) => vec![Dtypes],
        None if text.trim_end().ends_with(':') => vec![Dtypes],
        None if is_declaration => Vec::new(),
        _ if text.ends_with(['*', '·', '⋅']) => vec![DIMS, VALUES, Calls],
        Some(_) | None => vec![VALUES, Calls],
    }
}

/// What can stand in the subscript of a word, of which `owner` is the text up to the `_`.
fn subscript(owner: &str, names: &Names, can_be_open: bool) -> Vec<Wanted> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'' | '.');
    let word = &owner[owner.trim_end_matches(is_word).len()..];
    let is_dim = names.defined(Kind::Dim).any(|dim| dim.name == word.trim_end_matches('\''));
    match open(owner) {
        Some(('{', _)) => vec![AXES],
        _ if CollectiveKind::find(word).is_some() => vec![AXES, DIMS],
        Some(('[', _)) if can_be_open => vec![AXES, Exactly(&["?"])],
        Some(('[', _)) => vec![AXES],
        _ if is_dim => vec![AXES],
        _ => vec![DIMS],
    }
}

/// The innermost bracket that is open at the end of a text, and the text before it.
fn open(text: &str) -> Option<(char, &str)> {
    let mut stack = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => stack.push((c, at)),
            // `cast<`, and not a comparison.
            '<' if text[..at].ends_with("cast") => stack.push((c, at)),
            '>' if matches!(stack.last(), Some(('<', _))) => drop(stack.pop()),
            ')' | ']' | '}' => drop(stack.pop()),
            _ => {}
        }
    }
    stack.pop().map(|(c, at)| (c, &text[..at]))
}
