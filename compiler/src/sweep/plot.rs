//! The plot: compute against communication over one dimension, both axes logarithmic, a panel for
//! every hardware and every choice of the other dimensions; strips above show which series wins at
//! which size, and whether it is bound by compute.
//!
//! Communication is `links_s`, the busiest axis: which can overlap compute where its line is below
//! that of compute. Coordinates are integer pixels and all elements are ordered, so that equal rows
//! give equal bytes.

mod series;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use self::series::{Panel, Series, panels};
use super::Swept;
use crate::display::units;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: i32 = 1000;
const PANEL: i32 = 500;
/// Pixels of a panel left of, right of, above and below the lines.
const LEFT: i32 = 86;
const RIGHT: i32 = 300;
const TOP: i32 = 96;
const BOTTOM: i32 = 62;
/// Height of a strip.
const STRIP: i32 = 16;
/// The limit of panels.
const MOST_PANELS: usize = 12;

const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(205, 205, 205);
const GRID: RGBColor = RGBColor(232, 232, 232);
const BY_COMPUTE: RGBColor = RGBColor(214, 234, 214);
const BY_LINKS: RGBColor = RGBColor(248, 218, 210);
/// Colours for colour-blind readers (Okabe and Ito, and three more).
const PALETTE: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 240),
    RGBColor(140, 86, 75),
    RGBColor(128, 128, 0),
    RGBColor(90, 90, 90),
];

/// The picture as SVG, or why there is none.
pub(super) fn svg(swept: &Swept) -> Result<String, String> {
    let Some(dim) = swept.varied() else {
        return Err(
            "a plot needs a dimension with several sizes, such as --dim B=1e4..1e7".to_owned()
        );
    };
    let panels = panels(swept, dim);
    if panels.is_empty() {
        return Err(
            "no point has a plan, so there is nothing to draw; --format text says why".to_owned()
        );
    }
    if panels.len() > MOST_PANELS {
        return Err(format!(
            "{} panels cannot be read; give at most {MOST_PANELS} combinations of hardware and \
                other sizes",
            panels.len()
        ));
    }
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(
            &mut text,
            (WIDTH.cast_unsigned(), PANEL.cast_unsigned() * panels.len() as u32),
        )
        .into_drawing_area();
        let drawn = root.fill(&WHITE).and_then(|()| {
            let areas = root.split_evenly((panels.len(), 1));
            areas.iter().zip(&panels).try_for_each(|(area, panel)| draw(area, panel))
        });
        drawn
            .and_then(|()| root.present())
            .map_err(|error| format!("the plot cannot be drawn: {error}"))?;
    }
    Ok(text + "\n")
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The mapping from sizes and seconds to pixels.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    const RIGHT_EDGE: i32 = WIDTH - RIGHT;
    const FLOOR: i32 = PANEL - BOTTOM;

    fn column(&self, size: f64) -> i32 {
        LEFT + (f64::from(Self::RIGHT_EDGE - LEFT) * share(size, self.x)).round() as i32
    }

    fn row(&self, seconds: f64) -> i32 {
        Self::FLOOR - (f64::from(Self::FLOOR - TOP) * share(seconds, self.y)).round() as i32
    }

    fn path(&self, points: &[(f64, f64)]) -> Vec<(i32, i32)> {
        points.iter().map(|&(size, seconds)| (self.column(size), self.row(seconds))).collect()
    }
}

/// The position of `value` in a logarithmic range, from 0 to 1.
fn share(value: f64, (from, to): (f64, f64)) -> f64 {
    if to > from { ((value / from).ln() / (to / from).ln()).clamp(0.0, 1.0) } else { 0.5 }
}

fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    let frame = Frame { x: panel.x_range(), y: panel.y_range() };
    grid(area, &frame)?;
    strips(area, &frame, panel)?;
    for series in panel.series.iter().filter(|series| series.rank.is_none()) {
        area.draw(&PathElement::new(frame.path(&series.links), FAINT.stroke_width(1)))?;
    }
    for series in panel.series.iter().filter(|series| series.rank.is_some()) {
        area.draw(&PathElement::new(frame.path(&series.links), colour(series).stroke_width(2)))?;
    }
    area.draw(&DashedPathElement::new(frame.path(&panel.compute), 7, 4, INK.stroke_width(2)))?;
    words(area, panel)?;
    legend(area, panel)
}

fn colour(series: &Series) -> RGBColor {
    series.rank.map_or(FAINT, |rank| PALETTE[rank % PALETTE.len()])
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: u32, place: (HPos, VPos)) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(place.0, place.1));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Lines and numbers at round values, and the frame.
fn grid(area: &Area<'_>, frame: &Frame) -> Drawn {
    for size in ticks(frame.x) {
        let x = frame.column(size);
        area.draw(&PathElement::new(vec![(x, TOP), (x, Frame::FLOOR)], GRID.stroke_width(1)))?;
        write(area, &count(size), (x, Frame::FLOOR + 8), 13, (HPos::Center, VPos::Top))?;
    }
    for seconds in ticks(frame.y) {
        let y = frame.row(seconds);
        area.draw(&PathElement::new(
            vec![(LEFT, y), (Frame::RIGHT_EDGE, y)],
            GRID.stroke_width(1),
        ))?;
        write(area, &units::seconds(seconds), (LEFT - 8, y), 13, (HPos::Right, VPos::Center))?;
    }
    area.draw(&Rectangle::new(
        [(LEFT, TOP), (Frame::RIGHT_EDGE, Frame::FLOOR)],
        INK.stroke_width(1),
    ))
}

/// The strips: the winner at each size, and its bound.
fn strips(area: &Area<'_>, frame: &Frame, panel: &Panel) -> Drawn {
    let (upper, lower) = (TOP - 2 * STRIP - 6, TOP - STRIP - 4);
    for stretch in panel.winners(|winner| winner.series) {
        strip(area, frame, upper, stretch.from, stretch.to, colour(&panel.series[stretch.of]))?;
    }
    for stretch in panel.winners(|winner| winner.by_compute) {
        let (from, to) = (frame.column(stretch.from), frame.column(stretch.to));
        strip(
            area,
            frame,
            lower,
            stretch.from,
            stretch.to,
            if stretch.of { BY_COMPUTE } else { BY_LINKS },
        )?;
        let text = if stretch.of { "compute-bound" } else { "communication-bound" };
        if f64::from(to - from) > 8.0 * text.len() as f64 {
            write(
                area,
                text,
                (i32::midpoint(from, to), lower + STRIP / 2),
                12,
                (HPos::Center, VPos::Center),
            )?;
        }
    }
    write(area, "best", (LEFT - 8, upper + STRIP / 2), 12, (HPos::Right, VPos::Center))?;
    write(area, "bound", (LEFT - 8, lower + STRIP / 2), 12, (HPos::Right, VPos::Center))
}

fn strip(area: &Area<'_>, frame: &Frame, top: i32, from: f64, to: f64, colour: RGBColor) -> Drawn {
    area.draw(&Rectangle::new(
        [(frame.column(from), top), (frame.column(to), top + STRIP)],
        colour.filled(),
    ))
}

fn words(area: &Area<'_>, panel: &Panel) -> Drawn {
    let middle = i32::midpoint(LEFT, Frame::RIGHT_EDGE);
    write(area, &panel.title, (LEFT, 14), 16, (HPos::Left, VPos::Top))?;
    write(
        area,
        &format!("size of {} (log)", panel.dim),
        (middle, Frame::FLOOR + 30),
        14,
        (HPos::Center, VPos::Top),
    )?;
    let style = ("sans-serif", 14)
        .into_font()
        .color(&INK)
        .transform(FontTransform::Rotate270)
        .pos(Pos::new(HPos::Center, VPos::Top));
    let centre = i32::midpoint(TOP, Frame::FLOOR);
    area.draw(&Text::new("time per device (seconds, log)".to_owned(), (8, centre), style))
}

fn legend(area: &Area<'_>, panel: &Panel) -> Drawn {
    let left = Frame::RIGHT_EDGE + 16;
    let mut y = TOP + 6;
    let mut line = |stroke: ShapeStyle, dashed: bool, text: &str| -> Drawn {
        let path = vec![(left, y), (left + 26, y)];
        if dashed {
            area.draw(&DashedPathElement::new(path, 7, 4, stroke))?;
        } else {
            area.draw(&PathElement::new(path, stroke))?;
        }
        write(area, text, (left + 34, y), 13, (HPos::Left, VPos::Center))?;
        y += 20;
        Ok(())
    };
    line(INK.stroke_width(2), true, "compute, of the best")?;
    line(WHITE.stroke_width(1), false, "communication, busiest links:")?;
    for series in panel.series.iter().filter(|series| series.rank.is_some()) {
        line(colour(series).stroke_width(2), false, &series.label)?;
    }
    let others = panel.series.iter().filter(|series| series.rank.is_none()).count();
    if others > 0 {
        line(FAINT.stroke_width(1), false, &format!("{others} meshes that are never best"))?;
    }
    Ok(())
}

/// Round values within a range: 1, 2, 5 of each power of ten, or the powers alone where those would
/// be too many.
fn ticks((from, to): (f64, f64)) -> Vec<f64> {
    let steps: &[f64] = if (to / from).log10() > 4.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
    all.filter(|value| (from..=to).contains(value)).collect()
}

/// `20k`, `1M`.
fn count(number: f64) -> String {
    let (unit, name) = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(unit, _)| number >= *unit)
        .unwrap_or((1.0, ""));
    format!("{}{name}", (number / unit * 1e3).round() / 1e3)
}
