//! The plot of a sweep without sizes: for every mesh shape the time of compute and that of the
//! busiest links, which can overlap, the best shape first; a panel for each hardware.

use indexmap::IndexMap;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::series::label;
use crate::display::chart::{self, Area, Drawn, FAINT, Frame, INK, PALETTE, TOP, write};
use crate::display::units;
use crate::sweep::{Outcome, Point, Swept};

/// The most shapes of a panel; the others take longer.
const MOST: usize = 16;
/// Pixels left of the bars, of a shape, and of each of its bars.
const LEFT: i32 = 250;
const ROW: i32 = 22;
const BAR: i32 = 8;

/// A panel: a title, and shapes with their costs, the best first.
struct Panel<'s> {
    title: String,
    rows: Vec<(String, &'s Outcome)>,
    others: usize,
}

/// The picture as SVG, or why there is none.
pub(super) fn svg(swept: &Swept) -> Result<String, String> {
    let panels = panels(swept);
    if panels.is_empty() {
        return Err(
            "no point has a plan, so there is nothing to draw; --format text says why".to_owned()
        );
    }
    if panels.len() > super::MOST_PANELS {
        let (count, most) = (panels.len(), super::MOST_PANELS);
        return Err(format!("{count} panels cannot be read; give at most {most} chips"));
    }
    chart::svg(&panels, draw)
}

fn panels(swept: &Swept) -> Vec<Panel<'_>> {
    let mut groups: IndexMap<&str, Vec<(&Point, &Outcome)>> = IndexMap::new();
    for point in &swept.points {
        if let Some(plan) = &point.plan {
            groups.entry(&point.hardware).or_default().push((point, plan));
        }
    }
    let one_program = swept.points.windows(2).all(|pair| pair[0].program == pair[1].program);
    let program = swept.points.first().map_or("", |point| point.program.as_str());
    let named = if one_program { format!("{program} on ") } else { String::new() };
    let mut panels = Vec::new();
    for (hardware, mut points) in groups {
        points.sort_by(|(_, a), (_, b)| {
            let order = a.cost.overlap_s.total_cmp(&b.cost.overlap_s);
            order.then(a.cost.serial_s.total_cmp(&b.cost.serial_s))
        });
        let others = points.len().saturating_sub(MOST);
        let rows = points.into_iter().take(MOST);
        panels.push(Panel {
            title: format!("{named}{hardware} ({} plans)", swept.strategy),
            rows: rows.map(|(point, plan)| (label(point, one_program), plan)).collect(),
            others,
        });
    }
    panels
}

fn draw(area: &Area<'_>, panel: &Panel<'_>) -> Drawn {
    write(area, &panel.title, (14, 14), 16, (HPos::Left, VPos::Top))?;
    legend(area)?;
    let most = |(_, of): &(String, &Outcome)| of.cost.compute_s.max(of.cost.links_s);
    let longest = panel.rows.iter().map(most).fold(0.0, f64::max);
    let mut top = TOP - 16;
    for (number, (mesh, of)) in panel.rows.iter().enumerate() {
        let middle = top + BAR;
        write(area, mesh, (LEFT - 10, middle), 12, (HPos::Right, VPos::Center))?;
        for (seconds, colour, down) in
            [(of.cost.compute_s, INK, 0), (of.cost.links_s, PALETTE[number % PALETTE.len()], BAR)]
        {
            bar(area, seconds / longest.max(f64::MIN_POSITIVE), colour, top + down)?;
        }
        let text = format!(
            "{} and {}",
            units::seconds(of.cost.compute_s),
            units::seconds(of.cost.links_s)
        );
        write(area, &text, (Frame::RIGHT_EDGE + 16, middle), 12, (HPos::Left, VPos::Center))?;
        top += ROW;
    }
    if panel.others > 0 {
        let text = format!("and {} that take longer", panel.others);
        write(area, &text, (LEFT, top + BAR), 12, (HPos::Left, VPos::Center))?;
    }
    let line = vec![(LEFT, TOP - 20), (LEFT, top)];
    area.draw(&PathElement::new(line, FAINT.stroke_width(1)))
}

/// A bar of a share of the width.
fn bar(area: &Area<'_>, share: f64, colour: RGBColor, top: i32) -> Drawn {
    let length = (f64::from(Frame::RIGHT_EDGE - LEFT) * share).round() as i32;
    let corners = [(LEFT, top), (LEFT + length, top + BAR - 1)];
    area.draw(&Rectangle::new(corners, colour.filled()))
}

fn legend(area: &Area<'_>) -> Drawn {
    let text = "time per device: dark is compute, coloured is communication on the busiest links";
    write(area, text, (14, 44), 13, (HPos::Left, VPos::Top))
}
