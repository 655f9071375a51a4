//! The head of the report: the figures that people ask for first, as what each axis acts, and the
//! lines that end a plan's text.

use askama::Template;
use shardwise_ir::print;

use crate::Planned;
use crate::display::units;

/// A figure with its name and a remark.
pub(super) struct Figure {
    name: &'static str,
    value: String,
    remark: String,
}

/// The head of the report.
#[derive(Template)]
#[template(path = "summary.html")]
pub(super) struct Summary {
    name: String,
    machine: String,
    figures: Vec<Figure>,
    axes: Vec<String>,
    lines: Vec<String>,
}

/// The head of a plan's report.
pub(super) fn summary(planned: &Planned) -> Summary {
    let mesh = &planned.plan.program.mesh;
    let axes = print::mesh(mesh);
    let devices = units::counted(mesh.devices(), "device");
    let hardware = planned.plan.program.hardware.reference();
    Summary {
        name: planned.name.clone(),
        machine: format!("{devices} of {hardware}, mesh {}", axes.join(", ")),
        figures: figures(planned),
        axes: planned.parallelism().iter().map(ToString::to_string).collect(),
        lines: planned.summary(planned.metrics_line()),
    }
}

fn figures(planned: &Planned) -> Vec<Figure> {
    let (report, metrics) = (&planned.report, planned.metrics());
    let share = |part: f64, of: f64| if of > 0.0 { 100.0 * part / of } else { 0.0 };
    let mut figures = vec![
        Figure {
            name: "a step",
            value: units::seconds(metrics.step_s),
            remark: format!("bound by {}", metrics.bound_by),
        },
        Figure {
            name: "communication",
            value: units::seconds(report.comm_s),
            remark: format!(
                "{:.0}% of all work, one after another",
                share(report.comm_s, report.serial_s)
            ),
        },
        Figure {
            name: "peak memory",
            value: units::bytes(report.memory.peak_bytes),
            remark: planned.capacity_bytes.map_or_else(String::new, |capacity| {
                let per_cent = share(report.memory.peak_bytes, capacity);
                format!("{per_cent:.0}% of {}", units::bytes(capacity))
            }),
        },
    ];
    if let Some(tokens) = &metrics.tokens {
        figures.push(Figure {
            name: "tokens a second",
            value: units::count(tokens.per_s),
            remark: format!("{} a chip", units::count(tokens.per_s_and_chip)),
        });
        figures.push(Figure {
            name: "MFU",
            value: format!("{:.1}%", 100.0 * metrics.mfu),
            remark: format!("HFU {:.1}%", 100.0 * metrics.hfu),
        });
    }
    if report.bubble_s > 0.0 {
        figures.push(Figure {
            name: "bubble",
            value: units::seconds(report.bubble_s),
            remark: format!("{:.0}% of all work", share(report.bubble_s, report.serial_s)),
        });
    }
    figures
}
