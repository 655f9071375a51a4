//! An explanation for people: the collective, its causes indented under it, then the alternatives.

use std::fmt::Write as _;

use super::{Alternative, Causes, Collective, Conflict, Explanation, OverCapacity};
use crate::display::units;
use crate::planned::link_breakdown;

/// The complete text.
pub(super) fn text(explanation: &Explanation) -> String {
    match explanation {
        Explanation::Plan(causes) => plan(causes),
        Explanation::Conflict(conflict) => self::conflict(conflict),
        Explanation::OverCapacity(over) => over_capacity(over),
    }
}

fn plan(causes: &Causes) -> String {
    if causes.collectives.is_empty() {
        return match causes.about.as_str() {
            "every collective" => "the plan has no collective\n".to_owned(),
            about => format!("{about}: no collective is needed\n"),
        };
    }
    let texts: Vec<String> =
        causes.collectives.iter().map(|collective| self::collective(causes, collective)).collect();
    let opening = causes.summary.as_ref().map(ToString::to_string);
    opening.into_iter().chain(texts).collect::<Vec<_>>().join("\n")
}

fn collective(causes: &Causes, of: &Collective) -> String {
    let cost = if of.time_s > 0.0 {
        let critical = if of.critical { ", critical" } else { "" };
        format!("{}, {}{critical}", units::bytes(of.bytes), units::seconds(of.time_s))
    } else {
        "free".to_owned()
    };
    let mut out = format!("{}  # {cost}\n", of.text);
    if !of.networks.is_empty() {
        let _ = writeln!(out, "  network by network: {}", link_breakdown::shares(&of.networks));
    }
    for (role, end) in [("starts from", &of.from)]
        .into_iter()
        .chain(of.needs.iter().map(|need| ("needed by", need)))
    {
        let _ = writeln!(out, "  {role}: {}", end.who);
        for because in &end.because {
            let _ = writeln!(out, "    {because}");
        }
    }
    if !of.alternatives.is_empty() {
        let _ = writeln!(
            out,
            "  otherwise, as whole plans ({} {}, peak memory {} now):",
            causes.objective,
            units::seconds(causes.now_s),
            units::bytes(causes.now_peak_bytes)
        );
        for alternative in &of.alternatives {
            let _ = writeln!(out, "    {}", self::alternative(alternative));
        }
    }
    match of.cure.map(|cure| &of.alternatives[cure]) {
        Some(cure) => {
            let _ = writeln!(
                out,
                "  one edit removes it: line {}: `{}` ({}, {})",
                cure.line,
                cure.edit,
                units::seconds_change(cure.change_s),
                units::bytes_change(cure.peak_change_bytes)
            );
        }
        None if !of.alternatives.is_empty() => out.push_str("  none of these edits removes it\n"),
        None => {}
    }
    out
}

fn alternative(of: &Alternative) -> String {
    let gone = if of.removes_it { ", without this collective" } else { "" };
    format!("{}{gone}", priced(of))
}

/// The change of time and memory, and the edit.
pub(super) fn priced(of: &Alternative) -> String {
    let what = match of.what.as_str() {
        "keep" | "read" => "reshard here:",
        _ => "declare",
    };
    format!(
        "{:>9} {:>9}  line {}: {what} `{}`",
        units::seconds_change(of.change_s),
        units::bytes_change(of.peak_change_bytes),
        of.line,
        of.edit
    )
}

fn conflict(conflict: &Conflict) -> String {
    let mut out = format!("no plan: {}\n", conflict.message);
    for set in &conflict.sets {
        out.push_str(if set.len() == 1 {
            "these brackets cannot be kept:\n"
        } else {
            "these brackets cannot all be kept; any one of them left open is enough:\n"
        });
        for remedy in set {
            let after = match remedy.serial_s {
                Some(serial_s) => format!(", then serial {}", units::seconds(serial_s)),
                None => ", which does not fit into the memory".to_owned(),
            };
            let _ = writeln!(
                out,
                "  line {}: `{}`; leave it open as `{}`{after}",
                remedy.line, remedy.written, remedy.edit
            );
        }
    }
    out
}

fn over_capacity(over: &OverCapacity) -> String {
    let mut out = format!("no plan: {}\n{}\n", over.message, over.held);
    if over.remedies.is_empty() {
        out.push_str("leaving any one declaration open does not help\n");
    }
    for remedy in &over.remedies {
        let after = remedy.serial_s.map_or_else(String::new, |serial_s| {
            format!(", then serial {}", units::seconds(serial_s))
        });
        let _ = writeln!(
            out,
            "one edit makes it fit: line {}: `{}` instead of `{}`{after}",
            remedy.line, remedy.edit, remedy.written
        );
    }
    out
}
