//! What `check` finds in the program, with what it costs and the edit that fixes it.

use askama::Template;

use crate::Planned;
use crate::display::units;
use crate::lint::{self, Finding, Lines, Settings};

/// A finding.
struct Item {
    code: &'static str,
    line: usize,
    message: String,
    help: String,
    cost: String,
    /// What the edit does, the lines before it and those after it.
    edit: Option<(String, Vec<String>, Vec<String>)>,
}

/// The findings of a program.
#[derive(Template)]
#[template(path = "findings.html")]
pub(super) struct FindingsPanel {
    items: Vec<Item>,
}

/// The findings of the program of a plan.
pub(super) fn findings(planned: &Planned) -> FindingsPanel {
    let (name, source) = (&planned.name, &planned.source);
    let linted = lint::lint(name, source, &planned.options, &Settings::default());
    let lines = Lines::new(source);
    let items = linted.findings.iter().map(|finding| item(finding, source, &lines));
    FindingsPanel { items: items.collect() }
}

fn item(finding: &Finding, source: &str, lines: &Lines<'_>) -> Item {
    let cost = finding.price.map_or_else(String::new, |price| match (price.seconds, price.bytes) {
        (seconds, _) if seconds > 0.0 => units::seconds(seconds),
        (_, bytes) if bytes > 0.0 => units::bytes(bytes),
        _ => String::new(),
    });
    let edit = finding.fix.as_ref().map(|fix| {
        let (edited, _) = lint::apply(source, [fix]);
        let (before, after) = changed(source, &edited);
        (fix.title.clone(), before, after)
    });
    Item {
        code: finding.diag.code,
        line: lines.of(finding.span()),
        message: finding.diag.message.clone(),
        help: finding.diag.help.clone().unwrap_or_default(),
        cost,
        edit,
    }
}

/// The lines that an edit changes: those that are not the same at the start or at the end.
fn changed(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
    let [before, after] = [before, after].map(|text| text.lines().collect::<Vec<_>>());
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let (before, after) = (&before[same..], &after[same..]);
    let ends = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
    let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    (owned(&before[..before.len() - ends]), owned(&after[..after.len() - ends]))
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn only_changed_lines_are_shown() {
        let (before, after) = changed("a\nb\nc\nd", "a\nx\ny\nd");
        assert_eq!((before.join(" "), after.join(" ")), ("b c".to_owned(), "x y".to_owned()));
        let (before, after) = changed("a\na\nb", "a\nb");
        assert_eq!((before.join(" "), after.len()), ("a".to_owned(), 0));
    }
}
