//! A picture of a plan: each statement, with the arrays that it reads and writes beside it, cut
//! into the blocks of the devices.
//!
//! An array is drawn with two sides, whatever the number of its dimensions: those up to the first
//! that is split go down, the others go across. The block of the first device is dark; every device
//! has one like it. Blocks that are partial sums are hatched. What a collective does is the
//! difference of the picture before its arrow and after it.
//!
//! Coordinates are integer pixels, so that equal plans give equal bytes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use shardwise_ir::ids::OpId;
use shardwise_ir::plan::{Materialization, Step, StepKind};
use shardwise_ir::print::{self, Printer};
use shardwise_ir::program::{MapFn, MapForm, OpKind};

use crate::Planned;
use crate::display::chart::{Drawn, FAINT, INK, PALETTE};
use crate::display::units;
use crate::planned::blocks::{Blocks, blocks};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Pixels of the statements, of what is above the first of them, and of each.
const TEXT: i32 = 520;
const HEAD: i32 = 66;
const ROW: i32 = 136;
/// Pixels of an array, of what is left of and above it, and of the sign after it.
const SIDE: (i32, i32) = (120, 72);
const MARGIN: (i32, i32) = (40, 34);
const SIGN: i32 = 84;
/// An array with more blocks along a side is drawn with so many.
const MOST_BLOCKS: u64 = 32;
/// Longer statements are broken before their right side.
const COLUMNS: usize = 62;

/// The statement and the sizes of its picture.
struct Row<'a> {
    text: String,
    price: String,
    operands: &'a [Materialization],
    /// What stands between the operands, and between them and the result.
    signs: (String, String),
    result: &'a Materialization,
    is_collective: bool,
}

/// The picture as SVG.
pub(crate) fn svg(planned: &Planned) -> Result<String, String> {
    let rows: Vec<Row<'_>> = (0..planned.plan.steps.len()).map(|at| row(planned, at)).collect();
    let most = rows.iter().map(|row| row.operands.len() + 1).max().unwrap_or(1);
    let width = TEXT + pixels(most) * (MARGIN.0 + SIDE.0 + SIGN);
    let height = HEAD + ROW * pixels(rows.len());
    let mut text = String::new();
    {
        let size = (width.cast_unsigned(), height.cast_unsigned());
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| {
            head(&area, planned)?;
            rows.iter().zip(0..).try_for_each(|(row, at)| draw(&area, planned, row, at))
        });
        drawn
            .and_then(|()| area.present())
            .map_err(|error| format!("the picture cannot be drawn: {error}"))?;
    }
    Ok(text + "\n")
}

fn row(planned: &Planned, at: usize) -> Row<'_> {
    let step: &Step = &planned.plan.steps[at];
    let cost = &planned.report.steps[at];
    let is_collective = matches!(step.kind, StepKind::Collective(..));
    let time = units::seconds(cost.seconds);
    let price = match (cost.seconds > 0.0, is_collective) {
        (false, _) => "no time".to_owned(),
        (true, true) => format!("{}, {time}", units::bytes(cost.bytes)),
        (true, false) => time,
    };
    Row {
        text: print::step(&planned.plan.program, step),
        price,
        operands: &step.operands,
        signs: signs(planned, step),
        result: &step.result,
        is_collective,
    }
}

/// The sign between operands, and that before the result.
fn signs(planned: &Planned, step: &Step) -> (String, String) {
    match &step.kind {
        StepKind::Collective(collective, _) => (String::new(), collective.kind.name().to_owned()),
        StepKind::Local(op) => {
            let name = sign(planned, *op);
            if step.operands.len() > 1 { (name, String::new()) } else { (String::new(), name) }
        }
    }
}

/// `*D` of a product, `+` of a sum, else the name of what is called.
fn sign(planned: &Planned, op: OpId) -> String {
    let program = &planned.plan.program;
    match &program.ops[op].kind {
        OpKind::Einsum { contracted } => {
            let dims = contracted.iter().map(|&dim| program.dims[dim].name.as_str());
            format!("*{}", dims.collect::<Vec<_>>().join(","))
        }
        OpKind::Map(MapFn { form: MapForm::Infix(symbol), .. }) => symbol.symbol().to_string(),
        _ => {
            let name = Printer::new(program).operation_name(op);
            name.split('(').next().unwrap_or_default().to_owned()
        }
    }
}

fn head(area: &Area<'_>, planned: &Planned) -> Drawn {
    let mesh = &planned.plan.program.mesh;
    let axes = print::mesh(mesh);
    let title = format!("{}: mesh {}", planned.name, axes.join(", "));
    write(area, &title, (14, 12), 16, "sans-serif", HPos::Left)?;
    let key = "dark: the block of the first device; every device has one of this size";
    write(area, key, (TEXT + MARGIN.0, 8), 13, "sans-serif", HPos::Left)?;
    let key = "hatched: partial sums, to be added up over the devices of an axis";
    write(area, key, (TEXT + MARGIN.0, 26), 13, "sans-serif", HPos::Left)
}

fn draw(area: &Area<'_>, planned: &Planned, row: &Row<'_>, at: i32) -> Drawn {
    let top = HEAD + at * ROW;
    let edge = vec![(14, top - 8), (area.dim_in_pixel().0.cast_signed() - 14, top - 8)];
    area.draw(&PathElement::new(edge, FAINT.stroke_width(1)))?;
    statement(area, row, top + MARGIN.1)?;
    let mut left = TEXT + MARGIN.0;
    for (number, operand) in row.operands.iter().enumerate() {
        array(area, planned, operand, (left, top + MARGIN.1))?;
        let is_last = number + 1 == row.operands.len();
        let sign = if is_last { &row.signs.1 } else { &row.signs.0 };
        arrow(area, sign, is_last, row.is_collective, (left + SIDE.0, top + MARGIN.1))?;
        left += MARGIN.0 + SIDE.0 + SIGN;
    }
    array(area, planned, row.result, (left, top + MARGIN.1))
}

/// The statement with its price, broken where it is long.
fn statement(area: &Area<'_>, row: &Row<'_>, top: i32) -> Drawn {
    let broken = row.text.find(" = ").filter(|_| row.text.chars().count() > COLUMNS);
    let lines = match broken {
        Some(at) => vec![row.text[..at + 2].to_owned(), format!("    {}", &row.text[at + 3..])],
        None => vec![row.text.clone()],
    };
    let mut y = top;
    for line in &lines {
        write(area, line, (14, y), 13, "monospace", HPos::Left)?;
        y += 18;
    }
    write(area, &row.price, (14, y + 2), 12, "sans-serif", HPos::Left)
}

/// What is between two arrays: a sign, or an arrow to the result with the sign above it.
fn arrow(
    area: &Area<'_>,
    sign: &str,
    to_result: bool,
    is_collective: bool,
    (x, top): (i32, i32),
) -> Drawn {
    let middle = x + i32::midpoint(SIGN, MARGIN.0) - 10;
    let y = top + SIDE.1 / 2;
    if !to_result {
        return write(area, sign, (middle, y - 8), 14, "monospace", HPos::Center);
    }
    let color = if is_collective { PALETTE[1] } else { INK };
    let (from, to) = (middle - 26, middle + 26);
    let line = |points| PathElement::new(points, color.stroke_width(2));
    area.draw(&line(vec![(from, y), (to, y)]))?;
    area.draw(&line(vec![(to - 7, y - 5), (to, y), (to - 7, y + 5)]))?;
    write(area, sign, (middle, y - 20), 12, "sans-serif", HPos::Center)
}

/// A number of rows or columns, which is small.
fn pixels(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX / 1000)
}

/// An array in its blocks.
fn array(area: &Area<'_>, planned: &Planned, of: &Materialization, at: (i32, i32)) -> Drawn {
    let Blocks { down, across, is_partial, share } = blocks(planned, of);
    let (x, y) = at;
    let (blocks_x, blocks_y) = (across.blocks.min(MOST_BLOCKS), down.blocks.min(MOST_BLOCKS));
    let edge = |length: i32, at: u64, blocks: u64| {
        (f64::from(length) * at as f64 / blocks as f64).round() as i32
    };
    let corner = (x + SIDE.0, y + SIDE.1);
    area.draw(&Rectangle::new([at, corner], PALETTE[5].mix(0.18).filled()))?;
    let own = (x + edge(SIDE.0, 1, blocks_x), y + edge(SIDE.1, 1, blocks_y));
    area.draw(&Rectangle::new([at, own], PALETTE[0].filled()))?;
    if is_partial {
        hatch(area, at)?;
    }
    for column in 1..blocks_x {
        let x = x + edge(SIDE.0, column, blocks_x);
        area.draw(&PathElement::new(vec![(x, y), (x, corner.1)], INK.mix(0.35).stroke_width(1)))?;
    }
    for line in 1..blocks_y {
        let y = y + edge(SIDE.1, line, blocks_y);
        area.draw(&PathElement::new(vec![(x, y), (corner.0, y)], INK.mix(0.35).stroke_width(1)))?;
    }
    area.draw(&Rectangle::new([at, corner], INK.stroke_width(1)))?;
    let name = &planned.plan.program.values[of.value].name;
    write(area, name, (x, y - 32), 13, "sans-serif", HPos::Left)?;
    write(area, &across.label, (x + SIDE.0 / 2, y - 16), 11, "monospace", HPos::Center)?;
    write(area, &down.label, (x - 4, y + SIDE.1 / 2 - 6), 11, "monospace", HPos::Right)?;
    write(area, &share, (x + SIDE.0 / 2, y + SIDE.1 + 3), 11, "sans-serif", HPos::Center)
}

/// Lines across an array of partial sums.
fn hatch(area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    for start in (8..SIDE.0 + SIDE.1).step_by(8) {
        let from = (x + start.min(SIDE.0), y + (start - SIDE.0).max(0));
        let to = (x + (start - SIDE.1).max(0), y + start.min(SIDE.1));
        area.draw(&PathElement::new(vec![from, to], PALETTE[1].stroke_width(1)))?;
    }
    Ok(())
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: u32, font: &str, place: HPos) -> Drawn {
    let style = (font, size).into_font().color(&INK).pos(Pos::new(place, VPos::Top));
    area.draw(&Text::new(text.to_owned(), at, style))
}
