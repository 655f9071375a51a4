//! What opens the explanation of a whole program: its times and memory, as what its axes act, its
//! costliest collectives with their reasons, and the edits of declarations that would help most.
//!
//! It has at most twenty lines, so that it is read: the detail of each follows. Only declarations
//! are edited here, since every edit is a plan of its own; `explain FILE VALUE` tries every place.

use std::fmt::Write as _;

use serde::Serialize;

use super::alternatives::{self, Alternative};
use super::{Collective, Progress};
use crate::display::units;
use crate::planned::parallelism::AxisRoles;
use crate::planned::summary::sum_of_steps;
use crate::use_def::moves_data;
use crate::{Options, Planned};

/// The most collectives that are named.
const COSTLIEST: usize = 5;

/// The most edits that are named.
const EDITS: usize = 3;

/// The most axes that have a line.
const AXES: usize = 4;

/// What a plan costs and why, in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The sum of all steps, seconds.
    pub serial_s: f64,
    /// The sum of all local operations, seconds.
    pub compute_s: f64,
    /// The sum of all collectives, seconds.
    pub comm_s: f64,
    /// The bubble of pipelines in `serial_s`, seconds.
    pub bubble_s: f64,
    /// The peak memory of a device, bytes.
    pub peak_bytes: f64,
    /// The memory of a device, bytes, where it is limited.
    pub capacity_bytes: Option<f64>,
    /// As what each axis acts.
    pub parallelism: Vec<AxisRoles>,
    /// The costliest collectives, the costliest first.
    pub costliest: Vec<Costly>,
    /// Edits of declarations that make the plan cheaper, the most helpful first.
    pub helpful: Vec<Alternative>,
}

/// A collective that takes much of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costly {
    /// The line as the plan prints it.
    pub text: String,
    /// How often a device runs it.
    pub times: f64,
    /// Seconds, all executions together.
    pub total_s: f64,
    /// Why it is there: the rule, or who asks for it.
    pub why: String,
}

/// The summary of a plan whose collectives `explained` are the steps `steps`.
pub(super) fn summary(
    planned: &Planned,
    (source, options): (&str, &Options),
    (steps, explained): (&[usize], &[Collective]),
    progress: Progress<'_>,
) -> Summary {
    let report = &planned.report;
    let total_s = |at: &usize| report.steps[steps[*at]].total_s();
    let mut costliest: Vec<usize> = (0..steps.len())
        .filter(|&at| moves_data(&planned.plan.steps[steps[at]], &report.steps[steps[at]]))
        .collect();
    costliest.sort_by(|a, b| total_s(b).total_cmp(&total_s(a)));
    costliest.truncate(COSTLIEST);
    let weighed: Vec<usize> = costliest.iter().map(|&at| steps[at]).collect();
    let mut helpful = alternatives::helpful(planned, source, options, &weighed, progress);
    helpful.truncate(EDITS);
    let costly = |&at: &usize| Costly {
        text: explained[at].text.clone(),
        times: report.steps[steps[at]].times,
        total_s: total_s(&at),
        why: why(&explained[at]),
    };
    Summary {
        serial_s: report.serial_s,
        compute_s: report.compute_s,
        comm_s: report.comm_s,
        bubble_s: report.bubble_s,
        peak_bytes: report.memory.peak_bytes,
        capacity_bytes: planned.capacity_bytes,
        parallelism: planned.parallelism(),
        costliest: costliest.iter().map(costly).collect(),
        helpful,
    }
}

/// Why the operand is partial, or why a reader cannot use it as it is, or who needs the result.
fn why(collective: &Collective) -> String {
    let reasons = |ends: &[super::End]| ends.iter().find_map(|end| end.because.first().cloned());
    reasons(std::slice::from_ref(&collective.from))
        .or_else(|| reasons(&collective.needs))
        .or_else(|| collective.needs.first().map(|need| format!("needed by {}", need.who)))
        .unwrap_or_default()
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self
            .capacity_bytes
            .map_or(String::new(), |capacity| format!(" of {}", units::bytes(capacity)));
        writeln!(
            f,
            "{}; peak memory {}{of}",
            sum_of_steps(self.serial_s, [self.compute_s, self.comm_s, self.bubble_s]),
            units::bytes(self.peak_bytes)
        )?;
        for axis in self.parallelism.iter().take(AXES) {
            writeln!(f, "{axis}")?;
        }
        if !self.costliest.is_empty() {
            f.write_str("the costliest collectives:\n")?;
        }
        for costly in &self.costliest {
            costly.write(f, self.serial_s)?;
        }
        self.write_help(f)
    }
}

impl Summary {
    fn write_help(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.costliest.is_empty() {
            return Ok(());
        }
        if self.helpful.is_empty() {
            return f.write_str("no edit of one declaration near them makes the plan cheaper\n");
        }
        f.write_str("what would help most:\n")?;
        for edit in &self.helpful {
            writeln!(f, "  {}", super::text::priced(edit))?;
        }
        Ok(())
    }
}

impl Costly {
    fn write(&self, f: &mut std::fmt::Formatter<'_>, serial_s: f64) -> std::fmt::Result {
        let mut times = String::new();
        if self.times > 1.0 {
            let _ = write!(times, " x{}", units::number(self.times));
        }
        let share = 100.0 * self.total_s / serial_s.max(f64::MIN_POSITIVE);
        let time = units::seconds(self.total_s);
        writeln!(f, "  {time:>7} ({share:.1}%)  {}{times}", self.text)?;
        writeln!(f, "    {}", self.why)
    }
}
