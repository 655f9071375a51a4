//! The roofline: what each kernel reaches over the FLOPs that it does for a byte of HBM traffic,
//! below what the chip can do at most. `cost --format svg` draws the same for documents.

use askama::Template;

use crate::Planned;
use crate::cost::roofline::{Kernel, kernels};
use crate::display::labels::{Circle, labels};
use crate::display::{chart, units};

/// The size of the chart.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// How many kernels have a number and a row of the table.
const NUMBERED: usize = 10;

/// A kernel on the chart.
struct Point {
    x: f64,
    y: f64,
    radius: f64,
    is_numbered: bool,
    /// Its number, or those of kernels beside it, and where that begins; empty where another has
    /// it.
    label: String,
    label_x: f64,
    title: String,
}

/// A kernel in the table.
struct Row {
    text: String,
    time: String,
    share: f64,
    of_roof: f64,
}

/// A line of the grid, with its label.
struct Line {
    at: f64,
    label: String,
}

/// The roofline of a plan.
#[derive(Template)]
#[template(path = "roofline.html")]
pub(super) struct Roofline {
    /// Why there is none; empty where there is.
    missing: String,
    columns: Vec<Line>,
    lines: Vec<Line>,
    roofs: Vec<String>,
    points: Vec<Point>,
    rows: Vec<Row>,
    others: usize,
}

/// Logarithmic axes.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn column(&self, x: f64) -> f64 {
        round(WIDTH * share(x, self.x))
    }

    fn row(&self, y: f64) -> f64 {
        round(HEIGHT * (1.0 - share(y, self.y)))
    }
}

/// The roofline of a plan.
pub(super) fn roofline(planned: &Planned) -> Roofline {
    let hardware = &planned.plan.program.hardware;
    let kernels = kernels(planned);
    let missing = match hardware.hbm_bandwidth {
        None => format!("The memory bandwidth of {} is not known.", hardware.name),
        Some(_) if kernels.is_empty() => "No statement computes anything.".to_owned(),
        Some(_) => String::new(),
    };
    match hardware.hbm_bandwidth {
        Some(bandwidth) if missing.is_empty() => drawn(planned, &kernels, bandwidth),
        _ => Roofline {
            missing,
            columns: Vec::new(),
            lines: Vec::new(),
            roofs: Vec::new(),
            points: Vec::new(),
            rows: Vec::new(),
            others: 0,
        },
    }
}

fn drawn(planned: &Planned, kernels: &[Kernel], bandwidth: f64) -> Roofline {
    let compute_s = planned.report.compute_s;
    let peaks = peaks(kernels);
    let ridges = peaks.iter().map(|peak| peak / bandwidth);
    let axes = Axes {
        x: range(kernels.iter().map(Kernel::intensity).chain(ridges)),
        y: range(kernels.iter().map(Kernel::rate).chain(peaks.iter().copied())),
    };
    let roof = |peak: &f64| {
        let from = axes.x.0.max(axes.y.0 / bandwidth);
        let path = [(from, from * bandwidth), (peak / bandwidth, *peak), (axes.x.1, *peak)];
        path.map(|(x, y)| format!("{},{}", axes.column(x), axes.row(y))).join(" ")
    };
    let row = |kernel: &Kernel| Row {
        text: kernel.statement.1.clone(),
        time: units::seconds(kernel.seconds),
        share: round(100.0 * kernel.seconds / compute_s),
        of_roof: round(100.0 * kernel.rate() / kernel.peak.min(kernel.intensity() * bandwidth)),
    };
    Roofline {
        missing: String::new(),
        columns: chart::ticks(axes.x)
            .into_iter()
            .map(|tick| Line { at: axes.column(tick), label: chart::count(tick) })
            .collect(),
        lines: chart::ticks(axes.y)
            .into_iter()
            .map(|tick| Line { at: axes.row(tick), label: units::flops(tick) + "/s" })
            .collect(),
        roofs: peaks.iter().map(roof).collect(),
        // The longest are drawn last, above the others.
        points: points(&axes, kernels, compute_s),
        rows: kernels.iter().take(NUMBERED).map(row).collect(),
        others: kernels.len().saturating_sub(NUMBERED),
    }
}

/// The kernels, the longest last.
fn points(axes: &Axes, kernels: &[Kernel], compute_s: f64) -> Vec<Point> {
    let circle = |kernel: &Kernel| Circle {
        x: axes.column(kernel.intensity()),
        y: axes.row(kernel.rate()),
        radius: round(4.0 + 14.0 * (kernel.seconds / compute_s).clamp(0.0, 1.0).sqrt()),
    };
    let circles: Vec<Circle> = kernels.iter().map(circle).collect();
    let labels = labels(&circles[..circles.len().min(NUMBERED)], WIDTH);
    let point = |((number, kernel), circle): ((usize, &Kernel), &Circle)| {
        let label = labels.iter().find(|label| label.circle == number);
        Point {
            x: circle.x,
            y: circle.y,
            radius: circle.radius,
            is_numbered: number < NUMBERED,
            label: label.map_or_else(String::new, |label| label.text.clone()),
            label_x: label.map_or(0.0, |label| round(label.x)),
            title: format!("{}: {}", number + 1, kernel.statement.1),
        }
    };
    let mut points: Vec<Point> = kernels.iter().enumerate().zip(&circles).map(point).collect();
    points.reverse();
    points
}

/// The peaks of arithmetic, each once.
fn peaks(kernels: &[Kernel]) -> Vec<f64> {
    let mut peaks: Vec<f64> = kernels.iter().map(|kernel| kernel.peak).collect();
    peaks.sort_by(f64::total_cmp);
    peaks.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-9);
    peaks
}

/// From half of the least to twice the greatest.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    (least / 2.0, 2.0 * values.fold(0.0, f64::max))
}

/// The position of `value` in a logarithmic range, from 0 to 1.
fn share(value: f64, (from, to): (f64, f64)) -> f64 {
    if to > from { ((value / from).ln() / (to / from).ln()).clamp(0.0, 1.0) } else { 0.5 }
}

fn round(number: f64) -> f64 {
    (10.0 * number).round() / 10.0
}
