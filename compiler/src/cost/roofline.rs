//! The roofline of a plan: what its kernels reach, over the FLOPs that they do for each byte of HBM
//! traffic, below what the chip can do at most (Williams, Waterman and Patterson, 2009).
//!
//! A point is a kernel: the statements that run as one, so that what stays on the chip is no
//! traffic. Its height is FLOPs over time at the rates asked for, and the longest kernels are
//! numbered. There is a roof for each rate of arithmetic that kernels run at.

use indexmap::IndexMap;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use shardwise_ir::plan::StepKind;
use shardwise_ir::print;
use shardwise_ir::sharding::Sharding;
use shardwise_passes::local;

use crate::Planned;
use crate::display::chart::{self, Area, Drawn, FAINT, Frame, INK, PALETTE, TOP, write};
use crate::display::labels::{self, labels};
use crate::display::units;

/// How many kernels have a number and a line of the legend.
const NUMBERED: usize = 10;
/// Columns of a line of the legend.
const COLUMNS: usize = 38;

/// The work of a kernel on a device, all its executions together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    flops: f64,
    bytes: f64,
    pub(crate) seconds: f64,
    /// FLOP/s at most.
    pub(crate) peak: f64,
    /// The statement with most FLOPs, and their number.
    pub(crate) statement: (f64, String),
}

impl Kernel {
    /// FLOPs a byte.
    pub(crate) fn intensity(&self) -> f64 {
        self.flops / self.bytes
    }

    /// FLOP/s.
    pub(crate) fn rate(&self) -> f64 {
        self.flops / self.seconds
    }
}

/// The picture: kernels from the longest to the shortest, and the memory bandwidth.
struct Roofline {
    title: String,
    kernels: Vec<Kernel>,
    bandwidth: f64,
    compute_s: f64,
}

impl Planned {
    /// The roofline of the plan as SVG, or why there is none.
    ///
    /// # Errors
    ///
    /// A sentence: the memory bandwidth of the chip is not known, or nothing is computed.
    pub fn roofline(&self) -> Result<String, String> {
        let program = &self.plan.program;
        let hardware = &program.hardware;
        let Some(bandwidth) = hardware.hbm_bandwidth else {
            return Err(format!("the memory bandwidth of `{}` is not known", hardware.name));
        };
        let kernels = kernels(self);
        if kernels.is_empty() {
            return Err("no statement computes anything, so there is nothing to draw".to_owned());
        }
        let title = format!("{}: a device of {}", self.name, hardware.reference());
        let compute_s = self.report.compute_s;
        chart::svg(&[Roofline { title, kernels, bandwidth, compute_s }], draw)
    }
}

/// What tells kernels apart: their numbers, or steps that run alone.
type Key = Result<u32, usize>;

/// The kernels of a plan that compute and read or write, the longest first.
pub(crate) fn kernels(planned: &Planned) -> Vec<Kernel> {
    let (plan, program) = (&planned.plan, &planned.plan.program);
    let mut kernels: IndexMap<Key, Kernel> = IndexMap::new();
    for (number, (step, cost)) in plan.steps.iter().zip(&planned.report.steps).enumerate() {
        let StepKind::Local(op) = &step.kind else { continue };
        let op = &program.ops[*op];
        let operands: Vec<&Sharding> = step.operands.iter().map(|of| &of.sharding).collect();
        let work = local::work(program, op, &operands, &step.result.sharding);
        let kernel = kernels.entry(op.kernel.number.ok_or(number)).or_default();
        kernel.flops += cost.times * work.flops;
        kernel.bytes += cost.times * work.bytes;
        kernel.seconds += cost.total_s();
        if work.flops_s > 0.0 && work.flops >= kernel.statement.0 {
            kernel.peak = (work.flops + work.recomputed_flops) / work.flops_s;
            kernel.statement = (work.flops, print::step(program, step));
        }
    }
    let mut kernels: Vec<Kernel> = kernels.into_values().collect();
    kernels.retain(|kernel| kernel.flops > 0.0 && kernel.bytes > 0.0 && kernel.seconds > 0.0);
    kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    kernels
}

impl Roofline {
    /// The peaks of arithmetic, each once.
    fn peaks(&self) -> Vec<f64> {
        let mut peaks: Vec<f64> = self.kernels.iter().map(|kernel| kernel.peak).collect();
        peaks.sort_by(f64::total_cmp);
        peaks.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-9);
        peaks
    }

    fn frame(&self) -> Frame {
        let peaks = self.peaks();
        let ridges = peaks.iter().map(|peak| peak / self.bandwidth);
        let x = range(self.kernels.iter().map(Kernel::intensity).chain(ridges));
        let y = range(self.kernels.iter().map(Kernel::rate).chain(peaks.iter().copied()));
        Frame { x, y }
    }
}

/// From half of the least to twice the greatest.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    (least / 2.0, 2.0 * values.fold(0.0, f64::max))
}

fn draw(area: &Area<'_>, roofline: &Roofline) -> Drawn {
    let frame = roofline.frame();
    chart::grid(area, &frame, [chart::count, |rate| chart::count(rate) + "FLOP/s"])?;
    let peaks = roofline.peaks();
    for &peak in &peaks {
        roof(area, &frame, peak, roofline.bandwidth)?;
    }
    let circles: Vec<labels::Circle> =
        roofline.kernels.iter().map(|kernel| circle(&frame, kernel, roofline.compute_s)).collect();
    for (number, circle) in circles.iter().enumerate().rev() {
        point(area, number, *circle)?;
    }
    let numbered = &circles[..circles.len().min(NUMBERED)];
    for label in labels(numbered, f64::from(Frame::RIGHT_EDGE)) {
        let at = (label.x as i32, circles[label.circle].y as i32);
        write(area, &label.text, at, 12, (HPos::Left, VPos::Center))?;
    }
    chart::words(area, &roofline.title, "FLOPs a byte of HBM traffic (log)", "FLOP/s (log)")?;
    legend(area, roofline)
}

/// The most that the chip can do: bandwidth times intensity, up to the peak.
fn roof(area: &Area<'_>, frame: &Frame, peak: f64, bandwidth: f64) -> Drawn {
    let from = frame.x.0.max(frame.y.0 / bandwidth);
    let path = [(from, from * bandwidth), (peak / bandwidth, peak), (frame.x.1, peak)];
    area.draw(&PathElement::new(frame.path(&path), INK.stroke_width(2)))?;
    let text = chart::count(peak) + "FLOP/s";
    let at = (Frame::RIGHT_EDGE - 6, frame.row(peak) - 10);
    write(area, &text, at, 12, (HPos::Right, VPos::Center))
}

/// A kernel, the larger the more of the time it takes.
fn circle(frame: &Frame, kernel: &Kernel, compute_s: f64) -> labels::Circle {
    let share = kernel.seconds / compute_s;
    let radius = 3.0 + (12.0 * share.clamp(0.0, 1.0).sqrt()).round();
    let at = |pixel: i32| f64::from(pixel);
    let (x, y) = (at(frame.column(kernel.intensity())), at(frame.row(kernel.rate())));
    labels::Circle { x, y, radius }
}

fn point(area: &Area<'_>, number: usize, circle: labels::Circle) -> Drawn {
    let colour = if number < NUMBERED { PALETTE[number] } else { FAINT };
    let at = (circle.x as i32, circle.y as i32);
    area.draw(&Circle::new(at, circle.radius as i32, colour.filled()))
}

fn legend(area: &Area<'_>, roofline: &Roofline) -> Drawn {
    let left = Frame::RIGHT_EDGE + 16;
    let line = |row: usize, text: &str| -> Drawn {
        let at = (left, TOP + 6 + 16 * i32::try_from(row).unwrap_or(0));
        write(area, text, at, 12, (HPos::Left, VPos::Center))
    };
    let bandwidth = units::bytes(roofline.bandwidth);
    line(0, &format!("HBM: {bandwidth}/s; compute: {}", units::seconds(roofline.compute_s)))?;
    let named = roofline.kernels.iter().take(NUMBERED).enumerate();
    for (number, kernel) in named {
        let share = 100.0 * kernel.seconds / roofline.compute_s;
        let of_roof =
            100.0 * kernel.rate() / kernel.peak.min(kernel.intensity() * roofline.bandwidth);
        let took = units::seconds(kernel.seconds);
        line(2 + 2 * number, &short(&format!("{}  {}", number + 1, kernel.statement.1)))?;
        let text = format!("    {took}, {share:.0}% of the time, {of_roof:.0}% of the roof");
        line(3 + 2 * number, &text)?;
    }
    match roofline.kernels.len().saturating_sub(NUMBERED) {
        0 => Ok(()),
        others => line(2 + 2 * NUMBERED, &format!("and {others} shorter ones")),
    }
}

/// The beginning of a line.
fn short(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    line.chars().take(COLUMNS - 1).chain(['…']).collect()
}
