//! `cost`: statement by statement, FLOPs, bytes, time and what bounds it.

use std::fmt::Write as _;

use shardwise_ir::plan::StepKind;

use crate::Planned;
use crate::{text, units};

/// The table, a row a step, and the summary.
pub(crate) fn table(planned: &Planned) -> String {
    let program = &planned.plan.program;
    let mut out = format!("{:>12} {:>8} {:>8}  {:<10} step\n", "FLOPs", "bytes", "time", "bound by");
    for (step, cost) in planned.plan.steps.iter().zip(&planned.report.steps) {
        let bound = match &step.kind {
            StepKind::Local(op) => {
                let operands = &program.ops[*op].operands;
                let dtype = operands.iter().map(|o| program.values[o.value].dtype).reduce(|a, b| a.promote(b)).unwrap_or_default();
                let compute = cost.flops / program.hardware.peak_flops(dtype);
                if compute >= cost.seconds * (1.0 - 1e-9) { "FLOPs".to_owned() } else { "HBM".to_owned() }
            }
            StepKind::Collective(..) => cost.axes.iter().map(|&axis| program.mesh.axes[axis].name.as_str()).collect::<Vec<_>>().join(" "),
        };
        let flops = if cost.flops > 0.0 { units::flops(cost.flops) } else { String::new() };
        let _ = writeln!(
            out,
            "{flops:>12} {:>8} {:>8}  {bound:<10} {}",
            units::bytes(cost.bytes),
            units::seconds(cost.seconds),
            text::step(&planned.plan, step)
        );
    }
    out.push('\n');
    for line in text::summary(planned) {
        let _ = writeln!(out, "{line}");
    }
    out
}
