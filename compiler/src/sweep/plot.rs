//! The plot: compute against communication over one dimension, both axes logarithmic, a panel for
//! every hardware and every choice of the other dimensions; strips above show which series wins at
//! which size, and whether it is bound by compute.
//!
//! Without such a dimension [`bars`] draws the times of mesh shapes.
//!
//! Communication is `links_s`, the busiest axis: which can overlap compute where its line is below
//! that of compute. Coordinates are integer pixels and all elements are ordered, so that equal rows
//! give equal bytes.

mod bars;
mod series;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use self::series::{Panel, Series, panels};
use super::Swept;
use crate::display::chart::{self, Area, Drawn, FAINT, Frame, INK, LEFT, PALETTE, TOP, write};

/// Height of a strip.
const STRIP: i32 = 16;
/// The limit of panels.
const MOST_PANELS: usize = 12;

const BY_COMPUTE: RGBColor = RGBColor(214, 234, 214);
const BY_LINKS: RGBColor = RGBColor(248, 218, 210);

/// The picture as SVG, or why there is none.
pub(super) fn svg(swept: &Swept) -> Result<String, String> {
    let Some(dim) = swept.varied() else { return bars::svg(swept) };
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
    chart::svg(&panels, draw)
}

fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    let frame = Frame { x: panel.x_range(), y: panel.y_range() };
    chart::grid(area, &frame, [chart::count, chart::seconds])?;
    strips(area, &frame, panel)?;
    for series in panel.series.iter().filter(|series| series.rank.is_none()) {
        area.draw(&PathElement::new(frame.path(&series.links), FAINT.stroke_width(1)))?;
    }
    for series in panel.series.iter().filter(|series| series.rank.is_some()) {
        area.draw(&PathElement::new(frame.path(&series.links), colour(series).stroke_width(2)))?;
    }
    area.draw(&DashedPathElement::new(frame.path(&panel.compute), 7, 4, INK.stroke_width(2)))?;
    let size = format!("size of {} (log)", panel.dim);
    chart::words(area, &panel.title, &size, "time per device (seconds, log)")?;
    legend(area, panel)
}

fn colour(series: &Series) -> RGBColor {
    series.rank.map_or(FAINT, |rank| PALETTE[rank % PALETTE.len()])
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
