//! The page and the table of errors.

use std::fmt::Write as _;

use shardwise::accuracy::Group;
use shardwise::units;

use super::left_out::{seconds_unseen, sustained};
use super::{Case, PlannedPart};

/// A case of times with its predictions.
pub struct Prediction {
    /// The case.
    pub case: Case,
    /// Seconds at measured rates.
    pub predicted: f64,
    /// Seconds of the same plan at peak rates.
    pub at_peak: f64,
    pub(super) parts: Vec<PlannedPart>,
}

/// A line of the page.
pub struct Line {
    case: Case,
    predicted: Result<f64, String>,
    unseen: f64,
    at_peak: Option<f64>,
}

/// Lines of all cases: of times, and of memory with the peaks that plans have.
pub fn lines(times: &[Prediction], memory: Vec<(Case, Result<f64, String>)>) -> Vec<Line> {
    let time = |prediction: &Prediction| Line {
        case: prediction.case.clone(),
        predicted: Ok(prediction.predicted),
        unseen: seconds_unseen(prediction, times),
        at_peak: Some(prediction.at_peak),
    };
    // Nothing is fitted to measured memory.
    let peak = |(case, predicted): (Case, Result<f64, String>)| {
        let unseen = *predicted.as_ref().unwrap_or(&f64::NAN);
        Line { case, predicted, unseen, at_peak: None }
    };
    times.iter().map(time).chain(memory.into_iter().map(peak)).collect()
}

impl Line {
    fn off(&self, predicted: f64) -> f64 {
        predicted / self.case.measured - 1.0
    }

    fn is_counted(&self) -> bool {
        self.case.outlier.is_none() && self.predicted.is_ok()
    }

    fn quantity(&self, value: f64) -> String {
        if self.case.group == Group::Memory { units::bytes(value) } else { units::seconds(value) }
    }

    /// Its row of the table of its group.
    pub fn row(&self) -> String {
        let Case { id, source, what, measured, outlier, .. } = &self.case;
        let measured = self.quantity(*measured);
        let mark = if outlier.is_some() { " (not counted)" } else { "" };
        let what = format!("{what}{mark}");
        let machine = self.case.hardware();
        match &self.predicted {
            Err(_) => {
                format!("| {id} | {source} | {machine} | {what} | {measured} | no plan | | |")
            }
            Ok(predicted) => {
                let (seen, unseen) = (self.off(*predicted), self.off(self.unseen));
                let predicted = self.quantity(*predicted);
                format!(
                    "| {id} | {source} | {machine} | {what} | {measured} | {predicted} | {} | {} |",
                    signed(seen),
                    signed(unseen)
                )
            }
        }
    }
}

fn signed(share: f64) -> String {
    format!("{:+.0}%", 100.0 * share)
}

/// Mean and median.
fn mean_and_median(errors: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut errors: Vec<f64> = errors.map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    let count = errors.len();
    let median = f64::midpoint(errors[(count - 1) / 2], errors[count / 2]);
    (errors.iter().sum::<f64>() / count as f64, median)
}

fn without_plan(lines: &[Line], group: Group) -> usize {
    lines.iter().filter(|line| line.case.group == group && line.predicted.is_err()).count()
}

fn counted(lines: &[Line], group: Group) -> Vec<&Line> {
    lines.iter().filter(|line| line.case.group == group && line.is_counted()).collect()
}

/// The groups in the order of the page.
const GROUPS: [(Group, &str); 6] = [
    (Group::Collectives, "Collectives"),
    (Group::Kernels, "Products and passes"),
    (Group::Training, "Training steps"),
    (Group::Prefill, "Prefill"),
    (Group::Decode, "Decode"),
    (Group::Memory, "Peak memory"),
];

fn errors(lines: &[&Line]) -> [(f64, f64); 2] {
    let of = |pick: &dyn Fn(&Line) -> f64| {
        mean_and_median(lines.iter().map(|line| line.off(pick(line))))
    };
    [of(&|line| *line.predicted.as_ref().expect("counted")), of(&|line| line.unseen)]
}

/// The table of errors, as CSV: what the command takes its error bars from.
pub fn table(lines: &[Line]) -> String {
    let mut text = "group,cases,mean,median,unseen_mean,unseen_median\n".to_owned();
    for (group, _) in GROUPS {
        let lines = counted(lines, group);
        let [(mean, median), (unseen_mean, unseen_median)] = errors(&lines);
        let (name, count) = (group.name(), lines.len());
        let _ = writeln!(
            text,
            "{name},{count},{mean:.3},{median:.3},{unseen_mean:.3},{unseen_median:.3}"
        );
    }
    text
}

/// The text of the page above its tables.
const HEAD: &str = include_str!("head.md");

/// The page.
pub fn page(lines: &[Line], times: &[Prediction]) -> String {
    let mut text = format!("{HEAD}\n## By group\n\n{}\n", groups(lines));
    let _ = write!(text, "## What training sustains\n\n{}\n", sustained_table(times));
    let _ = write!(text, "## Farthest off\n\n{}", farthest(lines));
    for (group, title) in GROUPS {
        let _ = write!(
            text,
            "\n## {title}\n\n| case | source | machine | what | measured | predicted | off | \
             source left out |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n"
        );
        for line in lines.iter().filter(|line| line.case.group == group) {
            let _ = writeln!(text, "{}", line.row());
        }
    }
    text
}

fn groups(all: &[Line]) -> String {
    let mut text =
        "| group | cases | refused | mean | median | source left out: mean | median | at \
        peak rates: mean |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for (group, title) in GROUPS {
        let lines = counted(all, group);
        let [seen, unseen] = errors(&lines);
        let peak = lines.iter().filter_map(|line| line.at_peak.map(|peak| line.off(peak)));
        let peaks: Vec<f64> = peak.collect();
        let peak = if peaks.is_empty() {
            String::new()
        } else {
            percent(mean_and_median(peaks.into_iter()).0)
        };
        let cells = [seen.0, seen.1, unseen.0, unseen.1].map(percent).join(" | ");
        let refused = without_plan(all, group);
        let _ = writeln!(text, "| {title} | {} | {refused} | {cells} | {peak} |", lines.len());
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// The sustained share of each chip with training steps: the preset's, and those that its cases
/// have.
fn sustained_table(times: &[Prediction]) -> String {
    let mut text = "| chip | preset | all its cases | without each source |\n\
        | --- | ---: | ---: | --- |\n"
        .to_owned();
    for chip in ["a100", "h100", "tpu-v6e", "tpu7x"] {
        let preset = shardwise::Hardware::preset(chip).and_then(|chip| chip.measured.sustained);
        let shown =
            |share: Option<f64>| share.map_or("typical".to_owned(), |share| format!("{share:.2}"));
        let without: Vec<String> = ["korthikanti", "mpt", "llama3", "tpu-recipes"]
            .into_iter()
            .filter(|source| {
                times.iter().any(|p| {
                    super::left_out::chip(p.case.hardware()) == chip && p.case.source == *source
                })
            })
            .map(|source| format!("{source}: {}", shown(sustained(times, chip, Some(source)))))
            .collect();
        let all = shown(sustained(times, chip, None));
        let _ = writeln!(text, "| {chip} | {} | {all} | {} |", shown(preset), without.join(", "));
    }
    text
}

/// The cases farthest off, in times the measured value.
fn farthest(lines: &[Line]) -> String {
    let mut sorted: Vec<(&Line, f64)> = lines
        .iter()
        .filter(|line| line.is_counted())
        .map(|line| (line, line.off(*line.predicted.as_ref().expect("counted"))))
        .collect();
    sorted.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let mut text = String::new();
    for (line, off) in sorted.iter().take(6) {
        let _ = writeln!(text, "* `{}`, {}: {}", line.case.id, line.case.what, signed(*off));
    }
    text
}
