//! The page: a section for each source of configurations.

use shardwise::tune::{Against, Strategy, Tuned};
use shardwise::units;

use super::Found;

/// The cases of a source, and the heading of their table.
pub struct Section {
    /// The heading.
    pub title: &'static str,
    /// How the names of its cases begin.
    pub cases: &'static str,
}

/// The sections of the page.
pub const SECTIONS: [Section; 7] = [
    Section { title: "Megatron, 1.7B to 1T", cases: "n21-" },
    Section { title: "Megatron", cases: "k22-" },
    Section { title: "LLaMA 3 405B", cases: "llama3-" },
    Section { title: "MPT", cases: "mpt-" },
    Section { title: "MaxText", cases: "mx-" },
    Section { title: "PaLM inference", cases: "pope-" },
    Section { title: "calculon", cases: "calculon-" },
];

/// The row of a case.
pub fn row(found: &Found) -> String {
    let Found { case, chips, tuned, .. } = found;
    let measured = units::seconds(case.measured);
    let cells = match tuned {
        Ok(tuned) => cells(tuned, found.as_recomputed_s),
        Err(refused) => vec![format!("nothing found: {refused}"); 1],
    };
    let head = format!("{} | {} | {measured}", case.id, chips);
    format!("| {head} | {} |", cells.join(" | "))
}

fn cells(tuned: &Tuned, as_recomputed_s: Option<f64>) -> Vec<String> {
    let (first, by_hand) = (&tuned.strategies[0], &tuned.against[0]);
    let less = |ours: f64, theirs: f64| format!("{:+.1}%", 100.0 * (ours / theirs - 1.0));
    let theirs = &by_hand.strategy;
    vec![
        times(theirs),
        by_hand.outside.clone().map_or("yes".to_owned(), |what| format!("no: {what}")),
        rank(tuned, by_hand),
        in_words(first),
        times(first),
        less(first.objective_s, theirs.objective_s),
        less(first.step_s, theirs.step_s),
        as_recomputed_s.map_or("no plan".to_owned(), |own_s| less(own_s, theirs.objective_s)),
        format!("{:.1}%", 100.0 * tuned.gap()),
        memory(theirs, first),
        by_hand.reason(tuned).unwrap_or_default(),
    ]
}

/// The time that is minimized, and that of the schedule.
pub(super) fn times(of: &Strategy) -> String {
    format!("{} / {}", units::seconds(of.objective_s), units::seconds(of.step_s))
}

/// The place of a strategy among those that were found.
fn rank(tuned: &Tuned, by_hand: &Against) -> String {
    let better = by_hand.better(tuned);
    let is_after = better == tuned.strategies.len();
    let rank = if is_after { format!("> {better}") } else { (better + 1).to_string() };
    if by_hand.exceeds_bytes.is_some() { format!("{rank}, over memory") } else { rank }
}

pub(super) fn in_words(of: &Strategy) -> String {
    let degrees = of.degrees.iter().map(|of| format!("{}{}", of.role, of.ways));
    let parts = of.microbatches.map(|count| format!("{count} parts"));
    let pipeline = of.pipeline.map(|of| format!("{} x{}", of.schedule.name(), of.chunks));
    let again = Some(of.recompute).filter(|again| !["none", "as written"].contains(again));
    let again = again.map(|again| format!("again: {again}"));
    let words: Vec<String> = degrees.chain(parts).chain(pipeline).chain(again).collect();
    words.join(" ")
}

fn memory(theirs: &Strategy, first: &Strategy) -> String {
    format!("{} / {}", units::bytes(theirs.peak_bytes), units::bytes(first.peak_bytes))
}

/// The page with these rows in a section.
pub fn with_section(page: &str, section: &Section, rows: &[String]) -> String {
    let heading = format!("## {}", section.title);
    let is_row = |line: &&str| line.starts_with(&format!("| {}", section.cases));
    let before = page.lines().take_while(|line| *line != heading);
    let of_section = page.lines().skip_while(|line| *line != heading);
    let head = of_section.clone().take_while(|line| !line.starts_with("| ---")).count() + 1;
    let rest = of_section.clone().skip(head).skip_while(is_row);
    let lines: Vec<&str> = before
        .chain(of_section.take(head))
        .chain(rows.iter().map(String::as_str))
        .chain(rest)
        .collect();
    lines.join("\n") + "\n"
}
