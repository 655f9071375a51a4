//! The schedule over time: a lane for compute, one for the links of each axis, and one for the
//! critical path. For a pipeline a second chart has a lane for each stage, whose gaps are the
//! bubble.

use askama::Template;
use shardwise_passes::pipeline_schedule::{Pass, Placed};
use shardwise_passes::pipeline_stages::Staged;

use crate::Planned;
use crate::display::units;
use crate::planned::stages::stage_tasks;
use crate::planned::step_name::{category, goes_back};

/// The width of a chart.
const WIDTH: f64 = 1000.0;
/// Shorter bars are not drawn: they would be thinner than a pixel at the largest zoom.
const THINNEST: f64 = 0.01;
/// A pipeline with more stages is not drawn.
const MOST_STAGES: u64 = 64;

/// Something that runs.
struct Bar {
    x: f64,
    width: f64,
    class: &'static str,
    step: usize,
}

/// What runs on one resource. Bars of a step can be pointed at; tasks of stages are one path for
/// each class.
struct Lane {
    name: String,
    remark: String,
    bars: Vec<Bar>,
    paths: Vec<(&'static str, String)>,
}

/// Lanes over the same time.
struct Chart {
    title: String,
    note: String,
    ticks: Vec<(f64, String)>,
    lanes: Vec<Lane>,
}

/// The charts of a plan.
#[derive(Template)]
#[template(path = "timeline.html")]
pub(super) struct Timeline {
    charts: Vec<Chart>,
}

/// The timeline of a plan.
pub(super) fn timeline(planned: &Planned) -> Timeline {
    let pipelines = &planned.report.schedule.pipelines;
    let drawn = pipelines.iter().filter(|of| of.shape.stages <= MOST_STAGES);
    let mut charts: Vec<Chart> = drawn.map(|of| stages(planned, of)).collect();
    charts.extend(device(planned));
    Timeline { charts }
}

/// The schedule of a device.
fn device(planned: &Planned) -> Option<Chart> {
    let (plan, report) = (&planned.plan, &planned.report);
    let runs = &report.schedule.runs;
    let end_s = runs.iter().map(|run| run.end_s).fold(0.0, f64::max);
    if end_s <= 0.0 {
        return None;
    }
    let lane = |name: String, shows: &dyn Fn(usize) -> bool| {
        let shown = runs.iter().filter(|run| shows(run.step));
        let busy_s: f64 = shown.clone().map(|run| run.end_s - run.start_s).sum();
        let bars = shown.map(|run| Bar {
            x: place(run.start_s, end_s),
            width: place(run.end_s - run.start_s, end_s),
            class: class(planned, run.step),
            step: run.step,
        });
        let idle = 100.0 * (1.0 - busy_s / end_s).max(0.0);
        let bars = bars.filter(|bar| bar.width >= THINNEST).collect();
        Lane { name, remark: format!("idle {idle:.0}%"), bars, paths: Vec::new() }
    };
    let is_move = |step: usize| report.steps[step].is_move(&plan.steps[step]);
    let mut critical = lane("critical path".to_owned(), &|step| report.schedule.critical[step]);
    critical.remark = String::new();
    let mut lanes = vec![critical, lane("compute".to_owned(), &|step| !is_move(step))];
    for (id, axis) in plan.program.mesh.ids().zip(&plan.program.mesh.axes) {
        let uses = |step: usize| is_move(step) && report.steps[step].axes.contains(&id);
        lanes.push(lane(format!("links of {}", axis.name), &uses));
    }
    if report.host_s > 0.0 {
        lanes.push(lane("link to the host".to_owned(), &|step| report.steps[step].uses_host));
    }
    let note = if plan.program.repeats.is_empty() {
        String::new()
    } else {
        "The first layers of each block are drawn; the others repeat them.".to_owned()
    };
    let title = format!("One device, {}", units::seconds(end_s));
    Some(Chart { title, note, ticks: ticks(end_s), lanes })
}

fn class(planned: &Planned, number: usize) -> &'static str {
    let (step, cost) = (&planned.plan.steps[number], &planned.report.steps[number]);
    match category(step, cost) {
        "compute" if goes_back(&planned.plan.program, step) => "backward",
        category => category,
    }
}

/// The stages of a pipeline.
fn stages(planned: &Planned, staged: &Staged) -> Chart {
    let program = &planned.plan.program;
    let axis = program.pipeline(Some(staged.block));
    let axis = axis.map_or("", |pipeline| program.mesh.axes[pipeline.axis].name.as_str());
    let run = stage_tasks(staged);
    let end_s = run.placed.iter().map(|task| task.end_s).fold(0.0, f64::max);
    let lane = |stage: u64| {
        let tasks = || run.placed.iter().filter(move |task| task.stage == stage);
        let busy_s: f64 = tasks().map(|task| task.end_s - task.start_s).sum();
        let classes = ["forward", "backward", "weights"];
        let paths = classes.map(|class| {
            let of_class = tasks().filter(|task| class_of(task) == class);
            (class, of_class.map(|task| path(task, end_s)).collect::<String>())
        });
        Lane {
            name: format!("stage {axis}={stage}"),
            remark: format!("idle {:.0}%", 100.0 * (1.0 - busy_s / end_s).max(0.0)),
            bars: Vec::new(),
            paths: paths.into_iter().filter(|(_, path)| !path.is_empty()).collect(),
        }
    };
    let shape = &staged.shape;
    let bubble = 100.0 * shape.bubble(&staged.times);
    let schedule = shape.schedule.name();
    Chart {
        title: format!("Stages of the pipeline over {axis}, {}", units::seconds(end_s)),
        note: format!("{} microbatches, {schedule}, bubble {bubble:.1}%.", shape.microbatches),
        ticks: ticks(end_s),
        lanes: (0..shape.stages).map(lane).collect(),
    }
}

fn class_of(task: &Placed) -> &'static str {
    match task.work.pass {
        Pass::Forward => "forward",
        Pass::Backward | Pass::InputGradients => "backward",
        Pass::WeightGradients => "weights",
    }
}

/// A task as a box, with a gap before the next.
fn path(task: &Placed, end_s: f64) -> String {
    let (x, width) = (place(task.start_s, end_s), place(task.end_s - task.start_s, end_s));
    let gap = (width / 10.0).min(0.8);
    format!("M{x} 1h{:.2}v8h-{:.2}z", width - gap, width - gap)
}

/// A time on the chart, to a hundredth of a unit.
fn place(seconds: f64, end_s: f64) -> f64 {
    (100.0 * WIDTH * seconds / end_s).round() / 100.0
}

/// Round times with their places in per cent.
fn ticks(end_s: f64) -> Vec<(f64, String)> {
    let step = round_up(end_s / 6.0);
    let count = (end_s / step).floor() as u32;
    (0..=count)
        .map(|at| f64::from(at) * step)
        .filter(|at| *at < 0.97 * end_s)
        .map(|at| ((10_000.0 * at / end_s).round() / 100.0, units::seconds(at)))
        .collect()
}

/// The next number above that is 1, 2 or 5 times a power of ten.
fn round_up(number: f64) -> f64 {
    let power = 10_f64.powf(number.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= number);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::{round_up, ticks};

    #[test]
    fn ticks_are_round_and_few() {
        assert!((round_up(0.0013) - 0.002).abs() < 1e-12);
        let ticks = ticks(0.0128);
        assert_eq!(ticks[1], (39.06, "5 ms".to_owned()));
        assert_eq!(ticks.len(), 3);
    }
}
