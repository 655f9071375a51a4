//! Laws of plans: they are accepted, correct, no costlier than the textbook's, and say the same in
//! every form.

use std::time::Duration;

use shardwise::explain::{Target, explain};
use shardwise::json::PlanJson;
use shardwise::verify::{Setup, verify};
use shardwise::{Findings, Options, Planned, Strategy, diff};

use super::inputs::{Input, Kind, unlimited};
use super::texts::points_into;
use super::{Checked, Law, Outcome};

const PROGRAMS: &[Kind] = &[Kind::Program, Kind::Model];

/// Two lines of times that differ by less than this are equal.
pub(super) const ROUNDING: f64 = 1.0 + 1e-9;

pub(super) fn laws() -> Vec<Law> {
    let law = |name, says, kinds, one_in, check| Law { name, says, kinds, one_in, check };
    vec![
        law(
            "plan or refused",
            "Any text is planned, or refused with errors that point into it.",
            &[Kind::Mutant],
            8,
            is_planned_or_refused,
        ),
        law(
            "plan of a plan",
            "A plan is read without an error, formats to itself, and is planned to itself.",
            PROGRAMS,
            1,
            is_its_own_plan,
        ),
        law(
            "bounds",
            "The search is no costlier than the textbook and no cheaper than its lower bound; \
             steps add up; a schedule lies between the busiest resource and the sum.",
            PROGRAMS,
            1,
            is_bounded,
        ),
        law(
            "verify",
            "Both plans compute on simulated devices what the program computes on one.",
            PROGRAMS,
            2,
            is_right,
        ),
        law("JSON", "A plan's JSON is read again as the same.", PROGRAMS, 2, is_json),
        law("diff with itself", "A plan does not differ from itself.", PROGRAMS, 2, is_itself),
        law(
            "diff",
            "Two plans differ in one direction as in the other, and are distinguished where their \
             steps are.",
            PROGRAMS,
            4,
            are_distinguished,
        ),
        law("explain", "Every plan and every refusal is explained.", PROGRAMS, 16, is_explained),
    ]
}

pub(super) fn planned(text: &str, options: &Options) -> Result<Planned, Findings> {
    shardwise::plan("input", text, options)
}

fn is_planned_or_refused(input: &Input) -> Checked {
    let options = Options { timeout: Some(Duration::from_secs(2)), ..Options::default() };
    match planned(&input.text, &options) {
        Ok(planned) => points_into(&planned.warnings, &input.text)?,
        Err(findings) => points_into(&findings, &input.text)?,
    }
    Ok(Outcome::Holds)
}

fn is_its_own_plan(input: &Input) -> Checked {
    let Ok(found) = input.plan() else { return Ok(Outcome::DoesNotApply) };
    let text = found.to_string();
    let explicit = Options { explicit: true, ..Options::default() };
    let findings = shardwise::check("plan", &text, &explicit).findings;
    if !findings.is_empty() {
        return Err(format!("{findings}\n{text}"));
    }
    let formatted = shardwise::format("plan", &text).map_err(|error| format!("{error}\n{text}"))?;
    let again = planned(&text, &unlimited()).map_err(|error| format!("{error}\n{text}"))?;
    for (what, other) in [("formats to", formatted), ("is planned to", again.to_string())] {
        if other != text {
            return Err(format!("{text}\n{what}\n{other}"));
        }
    }
    Ok(Outcome::Holds)
}

fn is_bounded(input: &Input) -> Checked {
    let Ok(found) = input.plan() else { return Ok(Outcome::DoesNotApply) };
    let report = &found.report;
    let parts_s = report.compute_s + report.comm_s + report.bubble_s;
    let is_close = (parts_s - report.serial_s).abs() <= 1e-9 * report.serial_s.max(1e-300);
    let ordered = [
        ("lower bound", found.lower_bound_s(), "plan", report.serial_s),
        ("plan", report.serial_s, "textbook", found.textbook.serial_s),
        ("busiest resource", report.overlap_s, "schedule", report.schedule.makespan_s),
        ("schedule", report.schedule.makespan_s, "sum", report.serial_s),
        ("parts", if is_close { 0.0 } else { f64::INFINITY }, "sum", report.serial_s),
    ];
    for (small, least, large, most) in ordered {
        if least.is_nan() || least > most * ROUNDING {
            return Err(format!("{small} {least} s, {large} {most} s\n{found}"));
        }
    }
    Ok(Outcome::Holds)
}

fn is_right(input: &Input) -> Checked {
    for strategy in [Strategy::Search, Strategy::Textbook] {
        let options = Options { strategy, ..unlimited() };
        match verify("input", &input.text, &options, &Setup::default()) {
            Ok(verdict) if verdict.mismatch.is_some() => {
                return Err(format!("{strategy:?}: {verdict}"));
            }
            Ok(_) => {}
            Err(findings) => {
                points_into(&findings, &input.text)?;
                return Ok(Outcome::DoesNotApply);
            }
        }
    }
    Ok(Outcome::Holds)
}

fn is_json(input: &Input) -> Checked {
    let Ok(found) = input.plan() else { return Ok(Outcome::DoesNotApply) };
    let json = found.json();
    let read: PlanJson =
        serde_json::from_str(&json.to_text()).map_err(|error| error.to_string())?;
    // Numbers are written with as many digits as tell them apart.
    if read.to_text() != json.to_text() {
        return Err(format!("{}\nis read as\n{}", json.to_text(), read.to_text()));
    }
    Ok(Outcome::Holds)
}

fn is_itself(input: &Input) -> Checked {
    let Ok(found) = input.plan() else { return Ok(Outcome::DoesNotApply) };
    let difference = diff(found, found);
    if difference.is_empty() { Ok(Outcome::Holds) } else { Err(difference.to_string()) }
}

/// The plan and that of the program without one of its lines.
fn are_distinguished(input: &Input) -> Checked {
    let Ok(found) = input.plan() else { return Ok(Outcome::DoesNotApply) };
    let mut lines: Vec<&str> = input.text.lines().collect();
    let chosen = input.choice as usize;
    let other = (0..lines.len()).find_map(|offset| {
        let at = (chosen + offset) % lines.len();
        let line = lines.remove(at);
        let other = planned(&lines.join("\n"), &unlimited()).ok();
        lines.insert(at, line);
        other
    });
    let Some(other) = other else { return Ok(Outcome::DoesNotApply) };
    let (there, back) = (diff(found, &other), diff(&other, found));
    let counts = [&there, &back].map(|diff| [diff.added.len(), diff.removed.len()]);
    if counts[0][0] != counts[1][1] || counts[0][1] != counts[1][0] {
        return Err(format!("differ as\n{there}\nand, the other way round, as\n{back}"));
    }
    let steps = [found, &other].map(|planned| planned.plan.steps.len());
    if there.is_empty() && steps[0] != steps[1] {
        return Err(format!("{found}\ndoes not differ from\n{other}"));
    }
    Ok(Outcome::Holds)
}

fn is_explained(input: &Input) -> Checked {
    match explain("input", &input.text, &Options::default(), &Target::Everything, &|_, _| ()) {
        Ok(explanation) if explanation.to_string().is_empty() => Err("explains nothing".to_owned()),
        Ok(_) => Ok(Outcome::Holds),
        Err(findings) => points_into(&findings, &input.text).map(|()| Outcome::DoesNotApply),
    }
}
