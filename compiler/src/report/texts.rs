//! The program and its plan side by side, line by line, with the names of values marked so that the
//! page can follow a value through both.
//!
//! Names are found in the text by their characters and the table of values, and not by spans of the
//! parser: a plan is printed and has no spans, and one way for both texts is one way to be right.

use askama::Template;
use rustc_hash::FxHashSet;
use shardwise_grammar::keywords::KEYWORDS;
use shardwise_ir::print;
use shardwise_ir::program::CollectiveKind;

use crate::Planned;
use crate::display::units;
use crate::planned::step_name::category;

/// A part of a line.
#[derive(Debug, PartialEq)]
pub(super) struct Piece {
    text: String,
    /// Its class on the page; empty for plain text.
    class: String,
    /// The value that it names, if it names one.
    value: Option<String>,
}

/// A line of the program.
pub(super) struct SourceLine {
    number: usize,
    pieces: Vec<Piece>,
}

/// A line of the plan.
pub(super) struct PlanLine {
    pieces: Vec<Piece>,
    /// The step that it is.
    step: Option<usize>,
    bytes: String,
    time: String,
    /// The share of its time in that of the longest line, in per cent.
    share: f64,
    class: String,
}

/// Both texts.
#[derive(Template)]
#[template(path = "texts.html")]
pub(super) struct Texts {
    source: Vec<SourceLine>,
    plan: Vec<PlanLine>,
}

/// Both texts of a plan.
pub(super) fn texts(planned: &Planned) -> Texts {
    let names: FxHashSet<&str> =
        planned.plan.program.values.iter().map(|value| value.name.as_str()).collect();
    let bases: FxHashSet<&str> = names.iter().map(|name| base(name)).collect();
    let in_source = |name: &str| names.contains(name) || bases.contains(name);
    let lines = planned.source.lines().zip(1..);
    Texts {
        source: lines
            .map(|(line, number)| SourceLine { number, pieces: pieces(line, &in_source) })
            .collect(),
        plan: plan_lines(planned, &|name| names.contains(name)),
    }
}

/// The name that the author wrote: `x` of `x.2.1`.
pub(super) fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn plan_lines(planned: &Planned, is_value: &dyn Fn(&str) -> bool) -> Vec<PlanLine> {
    let (plan, report) = (&planned.plan, &planned.report);
    let longest = report.steps.iter().map(|cost| cost.total_s()).fold(0.0, f64::max);
    let plain = |line: &str| PlanLine {
        pieces: pieces(line, is_value),
        step: None,
        bytes: String::new(),
        time: String::new(),
        share: 0.0,
        class: String::new(),
    };
    let mut lines: Vec<PlanLine> = print::plan_header(plan).lines().map(plain).collect();
    for (text, step) in print::plan_body(plan) {
        let mut line = plain(&text);
        if let Some(number) = step {
            let (step, cost) = (&plan.steps[number], &report.steps[number]);
            let is_move = cost.is_move(step);
            line.step = Some(number);
            if cost.seconds > 0.0 {
                line.time = units::seconds(cost.seconds);
                line.bytes = if is_move { units::bytes(cost.bytes) } else { String::new() };
                line.share = (1000.0 * cost.total_s() / longest).round() / 10.0;
            }
            let critical =
                if is_move && report.schedule.critical[number] { " critical" } else { "" };
            line.class = format!("k-{}{critical}", category(step, cost));
        }
        lines.push(line);
    }
    lines.extend(print::plan_footer(plan).lines().map(plain));
    lines
}

/// Cuts a line into its parts.
fn pieces(line: &str, is_value: &dyn Fn(&str) -> bool) -> Vec<Piece> {
    let code = line.find('#').map_or(line, |at| &line[..at]);
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut rest, mut in_brackets, mut before, mut is_first) = (code, false, ' ', true);
    while let Some(c) = rest.chars().next() {
        if !is_start(c) {
            in_brackets = (in_brackets || c == '[') && c != ']';
            plain(&mut pieces, c.len_utf8(), rest);
            (before, rest) = (c, &rest[c.len_utf8()..]);
            continue;
        }
        let end = rest.find(|c: char| !is_start(c) && !c.is_numeric() && !"._'".contains(c));
        let word = &rest[..end.unwrap_or(rest.len())];
        let is_name = !in_brackets && before != '*' && is_value(word);
        let head = word.split('_').next().unwrap_or(word);
        if is_name {
            let (text, value) = (word.to_owned(), Some(word.to_owned()));
            pieces.push(Piece { text, class: "value".to_owned(), value });
        } else if is_first && KEYWORDS.contains(&word) {
            pieces.push(Piece { text: word.to_owned(), class: "keyword".to_owned(), value: None });
        } else if !in_brackets && CollectiveKind::ALL.iter().any(|kind| kind.name() == head) {
            let class = format!("collective k-{head}");
            pieces.push(Piece { text: word.to_owned(), class, value: None });
        } else {
            plain(&mut pieces, word.len(), rest);
        }
        (before, rest, is_first) = (' ', &rest[word.len()..], false);
    }
    if code.len() < line.len() {
        let text = line[code.len()..].to_owned();
        pieces.push(Piece { text, class: "comment".to_owned(), value: None });
    }
    pieces
}

fn is_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// Adds the first `length` bytes of `rest` as plain text.
fn plain(pieces: &mut Vec<Piece>, length: usize, rest: &str) {
    match pieces.last_mut() {
        Some(last) if last.class.is_empty() => last.text.push_str(&rest[..length]),
        _ => pieces.push(Piece {
            text: rest[..length].to_owned(),
            class: String::new(),
            value: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::pieces;

    fn marked(line: &str, values: &[&str]) -> String {
        let pieces = pieces(line, &|name| values.contains(&name));
        let joined: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(joined, line);
        let names = pieces.iter().map(|piece| match piece.class.as_str() {
            "" => piece.text.clone(),
            class => format!("<{class} {}>", piece.text),
        });
        names.collect()
    }

    #[test]
    fn names_are_marked_and_dimensions_are_not() {
        assert_eq!(
            marked("D[B_X, D] = a.1[B, D] *D D[D_X]  # of D", &["D", "a.1"]),
            "<value D>[B_X, D] = <value a.1>[B, D] *D <value D>[D_X]  <comment # of D>"
        );
        assert_eq!(
            marked("  param W[D_X] in k1", &["W"]),
            "  <keyword param> <value W>[D_X] in k1"
        );
        assert_eq!(
            marked("W[D] = AllGather_X(W[D_X])", &["W"]),
            "<value W>[D] = <collective k-AllGather AllGather_X>(<value W>[D_X])"
        );
    }

    #[test]
    fn any_text_is_cut_and_joined_again() {
        for line in ["", "#", "ä*β'_ \u{1f600}[[", "]]* *x", "<script>alert('x')</script>"] {
            marked(line, &["x"]);
        }
    }
}
