//! The plots: the time of strategies against their memory, with the line of those that nothing
//! found beats in both; and the time of the best strategy against the number of chips, beside the
//! line along which twice the chips take half the time. Both axes are logarithmic.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::curve::Curve;
use super::{Strategy, Tuned};
use crate::display::chart::{self, Area, Drawn, FAINT, Frame, INK, PALETTE, write};
use crate::display::units;

/// Pixels of a point.
const RADIUS: i32 = 4;

/// A plot of times.
struct Plot {
    title: String,
    x_text: &'static str,
    x_number: fn(f64) -> String,
    /// All points, seconds over what `x_text` counts.
    points: Vec<(f64, f64)>,
    /// The points on the line, with their words.
    line: Vec<((f64, f64), String)>,
    /// What the line is compared with.
    ideal: Vec<(f64, f64)>,
}

/// The picture of the strategies on one number of chips.
pub(super) fn of_strategies(tuned: &Tuned) -> Result<String, String> {
    let place = |seconds: f64, bytes: f64| (bytes, seconds);
    let words = |of: &Strategy| ((place(of.objective_s, of.peak_bytes)), of.in_words());
    let plot = Plot {
        title: format!(
            "{} on {} of {}",
            tuned.program,
            units::counted(tuned.chips, "chip"),
            tuned.hardware
        ),
        x_text: "memory of a device at the peak (log)",
        x_number: units::bytes,
        points: tuned.time_and_memory.iter().map(|&(s, bytes)| place(s, bytes)).collect(),
        line: tuned.pareto.iter().map(words).collect(),
        ideal: Vec::new(),
    };
    chart::svg(&[plot], draw)
}

/// The picture of a scaling curve.
pub(super) fn of_curve(curve: &Curve) -> Result<String, String> {
    let best = |point: &super::Point| {
        let best = point.tuned.as_ref()?.strategies.first()?;
        Some(((point.chips as f64, best.objective_s), best.in_words()))
    };
    let line: Vec<_> = curve.points.iter().filter_map(best).collect();
    let Some(&((fewest, longest_s), _)) = line.first() else {
        return Err("no number of chips has a strategy, so there is nothing to draw".to_owned());
    };
    let points: Vec<(f64, f64)> = line.iter().map(|(at, _)| *at).collect();
    let plot = Plot {
        title: curve.program.clone(),
        x_text: "chips (log)",
        x_number: chart::count,
        ideal: points.iter().map(|&(chips, _)| (chips, longest_s * fewest / chips)).collect(),
        points,
        line,
    };
    chart::svg(&[plot], draw)
}

fn draw(area: &Area<'_>, plot: &Plot) -> Drawn {
    let all = || plot.points.iter().chain(&plot.ideal);
    let frame = Frame { x: around(all().map(|at| at.0)), y: around(all().map(|at| at.1)) };
    chart::grid(area, &frame, [plot.x_number, chart::seconds])?;
    chart::words(area, &plot.title, plot.x_text, "time (log)")?;
    area.draw(&PathElement::new(frame.path(&plot.ideal), FAINT.stroke_width(2)))?;
    for at in frame.path(&plot.points) {
        area.draw(&Circle::new(at, RADIUS, INK.mix(0.5).filled()))?;
    }
    let line: Vec<(f64, f64)> = plot.line.iter().map(|(at, _)| *at).collect();
    area.draw(&PathElement::new(frame.path(&line), PALETTE[0].stroke_width(2)))?;
    for ((number, at), named) in (0..).zip(frame.path(&line)).zip(&plot.line) {
        area.draw(&Circle::new(at, RADIUS, PALETTE[0].filled()))?;
        write(
            area,
            &(number + 1).to_string(),
            (at.0 + 6, at.1 - 6),
            13,
            (HPos::Left, VPos::Bottom),
        )?;
        legend(area, number, named)?;
    }
    Ok(())
}

/// `1  454 ms, DP8 TP2` right of the frame, while lines fit beside it.
fn legend(area: &Area<'_>, number: i32, ((_, seconds), words): &((f64, f64), String)) -> Drawn {
    let top = chart::TOP + 18 * number;
    if top > Frame::FLOOR {
        return Ok(());
    }
    let text = format!("{}  {}, {words}", number + 1, units::seconds(*seconds));
    write(area, &text, (Frame::RIGHT_EDGE + 14, top), 12, (HPos::Left, VPos::Top))
}

/// A range of round numbers that has all values inside.
fn around(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
    let most = values.fold(least, f64::max);
    let round = chart::ticks((least / 10.0, most * 10.0));
    let from = round.iter().copied().rfind(|&tick| tick < least).unwrap_or(least);
    let to = round.iter().copied().find(|&tick| tick > most).unwrap_or(most);
    (from, to)
}
