//! What a program costs as a page: work and bounds of every statement, the roofline, and where its
//! bound changes.

use super::roofline;
use crate::Planned;
use crate::cost::{Cost, Statement, Threshold};
use crate::display::units;
use crate::inference::Sizing;
use crate::page::{self, Cell, Row, Section, Table};

/// The page.
pub(super) fn html(planned: &Planned, sizing: &Sizing) -> Result<String, String> {
    let cost = planned.cost_sized(sizing);
    let sections = vec![
        Section::new("summary", "Summary", &super::summary::summary(planned)),
        Section::new("statements", "Statements", &statements(&cost)),
        Section::new("roofline", "Roofline", &roofline::roofline(planned)),
        Section::new("crossovers", "Crossovers", &crossovers(&cost)),
    ];
    page::page(&planned.name, sections, &super::values::values(planned).script())
}

fn statements(cost: &Cost) -> Table {
    let all_s = |of: &Statement| of.times as f64 * of.time_s;
    let longest = cost.statements.iter().map(all_s).fold(0.0, f64::max);
    let row = |(step, of): (usize, &Statement)| Row {
        cells: vec![
            Cell::bar(units::seconds(all_s(of)), all_s(of), longest),
            Cell::code(of.text.clone()),
            Cell::number(
                if of.flops > 0.0 { units::flops(of.flops) } else { String::new() },
                of.flops,
            ),
            Cell::number(units::bytes(of.bytes), of.bytes),
            Cell::text(of.intensity_in_words()),
            Cell::text(of.times.to_string()),
            Cell::text(of.bound.clone()),
        ],
        is_marked: false,
        step: Some(step),
    };
    Table {
        id: "statements",
        title: "Statements".to_owned(),
        notes: vec![
            "FLOPs and bytes of a device and one execution; time of all of them. Point at a line \
                to see more of it, click the head of a column to sort by it."
                .into(),
        ],
        heads: page::heads(&[
            "time#",
            "statement",
            "FLOPs#",
            "bytes#",
            "FLOPs a byte#",
            "times#",
            "bound by",
        ]),
        rows: cost.statements.iter().enumerate().map(row).collect(),
    }
}

fn crossovers(cost: &Cost) -> Table {
    let row = |of: &Threshold| {
        let found = of
            .crossovers
            .iter()
            .map(|at| format!("{} from {} on", at.above, units::count(at.size)));
        let found: Vec<String> = found.collect();
        Row {
            cells: vec![
                Cell::code(of.dim.clone()),
                Cell::text(of.size.to_string()),
                Cell::text(if found.is_empty() { "none".to_owned() } else { found.join(", ") }),
            ],
            ..Row::default()
        }
    };
    Table {
        id: "crossovers",
        title: "Crossovers".to_owned(),
        notes: vec![format!(
            "The program is bound by {} with perfect overlap. At these sizes of a dimension its \
                bound changes, while the plan stays the same.",
            cost.verdict.bound
        )],
        heads: page::heads(&["dimension", "size#", "bound"]),
        rows: cost.thresholds.iter().map(row).collect(),
    }
}
