//! Pictures with two logarithmic axes: the frame, its grid and words, and lines of a legend, for
//! the plots of `sweep` and the roofline of `cost`.
//!
//! Coordinates are integer pixels, so that equal numbers give equal bytes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::units;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

const WIDTH: i32 = 1000;
const PANEL: i32 = 500;
/// Pixels of a panel left of, right of, above and below the lines.
pub(crate) const LEFT: i32 = 86;
const RIGHT: i32 = 300;
pub(crate) const TOP: i32 = 96;
const BOTTOM: i32 = 62;

pub(crate) const INK: RGBColor = RGBColor(34, 34, 34);
pub(crate) const FAINT: RGBColor = RGBColor(205, 205, 205);
const GRID: RGBColor = RGBColor(232, 232, 232);
/// Colours for colour-blind readers (Okabe and Ito, and three more).
pub(crate) const PALETTE: [RGBColor; 10] = [
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

/// A picture of `panels` below each other as SVG.
pub(crate) fn svg<T>(
    panels: &[T],
    draw: impl Fn(&Area<'_>, &T) -> Drawn,
) -> Result<String, String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(
            &mut text,
            (WIDTH.cast_unsigned(), PANEL.cast_unsigned() * panels.len() as u32),
        )
        .into_drawing_area();
        let drawn = root.fill(&WHITE).and_then(|()| {
            let areas = root.split_evenly((panels.len(), 1));
            areas.iter().zip(panels).try_for_each(|(area, panel)| draw(area, panel))
        });
        drawn
            .and_then(|()| root.present())
            .map_err(|error| format!("the picture cannot be drawn: {error}"))?;
    }
    Ok(text + "\n")
}

/// The mapping from values to pixels.
pub(crate) struct Frame {
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
}

impl Frame {
    pub(crate) const RIGHT_EDGE: i32 = WIDTH - RIGHT;
    pub(crate) const FLOOR: i32 = PANEL - BOTTOM;

    pub(crate) fn column(&self, x: f64) -> i32 {
        LEFT + (f64::from(Self::RIGHT_EDGE - LEFT) * share(x, self.x)).round() as i32
    }

    pub(crate) fn row(&self, y: f64) -> i32 {
        Self::FLOOR - (f64::from(Self::FLOOR - TOP) * share(y, self.y)).round() as i32
    }

    pub(crate) fn path(&self, points: &[(f64, f64)]) -> Vec<(i32, i32)> {
        points.iter().map(|&(x, y)| (self.column(x), self.row(y))).collect()
    }
}

/// The position of `value` in a logarithmic range, from 0 to 1.
fn share(value: f64, (from, to): (f64, f64)) -> f64 {
    if to > from { ((value / from).ln() / (to / from).ln()).clamp(0.0, 1.0) } else { 0.5 }
}

/// Writes `text` at a place.
pub(crate) fn write(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: u32,
    place: (HPos, VPos),
) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(place.0, place.1));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Lines and numbers at round values, and the frame; the numbers of the axes in words.
pub(crate) fn grid(
    area: &Area<'_>,
    frame: &Frame,
    [x_text, y_text]: [fn(f64) -> String; 2],
) -> Drawn {
    for size in ticks(frame.x) {
        let x = frame.column(size);
        area.draw(&PathElement::new(vec![(x, TOP), (x, Frame::FLOOR)], GRID.stroke_width(1)))?;
        write(area, &x_text(size), (x, Frame::FLOOR + 8), 13, (HPos::Center, VPos::Top))?;
    }
    for value in ticks(frame.y) {
        let y = frame.row(value);
        area.draw(&PathElement::new(
            vec![(LEFT, y), (Frame::RIGHT_EDGE, y)],
            GRID.stroke_width(1),
        ))?;
        write(area, &y_text(value), (LEFT - 8, y), 13, (HPos::Right, VPos::Center))?;
    }
    area.draw(&Rectangle::new(
        [(LEFT, TOP), (Frame::RIGHT_EDGE, Frame::FLOOR)],
        INK.stroke_width(1),
    ))
}

/// The title, and what the axes are.
pub(crate) fn words(area: &Area<'_>, title: &str, x: &str, y: &str) -> Drawn {
    let middle = i32::midpoint(LEFT, Frame::RIGHT_EDGE);
    write(area, title, (LEFT, 14), 16, (HPos::Left, VPos::Top))?;
    write(area, x, (middle, Frame::FLOOR + 30), 14, (HPos::Center, VPos::Top))?;
    let style = ("sans-serif", 14)
        .into_font()
        .color(&INK)
        .transform(FontTransform::Rotate270)
        .pos(Pos::new(HPos::Center, VPos::Top));
    let centre = i32::midpoint(TOP, Frame::FLOOR);
    area.draw(&Text::new(y.to_owned(), (8, centre), style))
}

/// Seconds of the left axis.
pub(crate) fn seconds(value: f64) -> String {
    units::seconds(value)
}

/// Round values within a range: 1, 2, 5 of each power of ten, or the powers alone where those would
/// be too many.
pub(crate) fn ticks((from, to): (f64, f64)) -> Vec<f64> {
    let steps: &[f64] = if (to / from).log10() > 4.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
    all.filter(|value| (from..=to).contains(value)).collect()
}

/// `20k`, `1M`.
pub(crate) fn count(number: f64) -> String {
    let (unit, name) = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(unit, _)| number >= *unit)
        .unwrap_or((1.0, ""));
    format!("{}{name}", (number / unit * 1e3).round() / 1e3)
}
