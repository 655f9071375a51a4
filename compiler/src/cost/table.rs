//! `cost` as text: a row for each statement, then the totals in sentences.

use std::fmt::Write as _;

use shardwise_passes::limits::Limit;

use super::{Cost, Held, Statement, Threshold, attention};
use crate::display::table::Column::{self, Left, Right};
use crate::display::{table, units};
use crate::inference;

const COLUMNS: [Column; 6] = [Right(12), Right(8), Right(8), Right(8), Left(12), Left(0)];

/// The rows, `summary`'s lines after those of `cost`, then the serving step on devices of
/// `capacity` bytes.
pub(crate) fn table(cost: &Cost, summary: &[String], capacity: Option<f64>) -> String {
    let head = ["FLOPs", "bytes", "FLOPs/B", "time", "bound by", "step"];
    let mut out = table::row(&COLUMNS, &head) + "\n";
    for statement in &cost.statements {
        out.push_str(&row(statement));
        out.push('\n');
    }
    out.push('\n');
    for line in whole(cost).iter().chain(summary) {
        let _ = writeln!(out, "{line}");
    }
    for line in cost.inference.iter().flat_map(|inference| inference::lines(inference, capacity)) {
        let _ = writeln!(out, "{line}");
    }
    if let Some(reason) = &cost.not_sized {
        let _ = writeln!(out, "\nnot sized as a step of serving: {reason}");
    }
    out
}

fn row(statement: &Statement) -> String {
    let flops = if statement.flops > 0.0 { units::flops(statement.flops) } else { String::new() };
    let intensity = statement.intensity_in_words();
    let bound = match (statement.intensity, statement.bound.as_str()) {
        (Some(_), bound) => {
            let factor = statement
                .factor
                .map_or_else(String::new, |factor| format!(" {}x", units::number(factor)));
            format!("{}{factor}", if bound == "flops" { "FLOPs" } else { "HBM" })
        }
        (None, axes) => axes.to_owned(),
    };
    let (bytes, time) = (units::bytes(statement.bytes), units::seconds(statement.time_s));
    table::row(&COLUMNS, &[flops, bytes, intensity, time, bound, statement.text.clone()])
}

fn whole(cost: &Cost) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(held_line("parameters", &cost.parameters));
    lines.extend(held_line("state", &cost.state));
    let activations = &cost.activations;
    lines.push(format!(
        "activations: {} made; at the peak a device has {} beside parameters and state",
        units::bytes(activations.bytes),
        units::bytes(activations.device_peak_bytes as f64)
    ));
    lines.push(format!(
        "FLOPs: {}, {} a device{}",
        units::flops(cost.flops),
        units::flops(cost.device_flops),
        repeated(cost)
    ));
    lines.extend(verdict(cost));
    lines.extend(cost.metrics.lines());
    lines.extend(cost.thresholds.iter().map(|threshold| threshold_line(cost, threshold)));
    lines.extend(cost.attention.iter().flat_map(attention::lines));
    lines
}

fn held_line(what: &str, held: &Held) -> Option<String> {
    let Held { elements, bytes, device_bytes } = *held;
    (elements > 0.0).then(|| {
        format!(
            "{what}: {} ({}), {} a device",
            units::count(elements),
            units::bytes(bytes),
            units::bytes(device_bytes)
        )
    })
}

fn repeated(cost: &Cost) -> String {
    let times = cost.device_flops * cost.devices as f64 / cost.flops.max(1.0);
    // Less is printed as `1x`.
    if times >= 1.005 {
        format!(" (work repeated {}x)", units::number(times))
    } else {
        String::new()
    }
}

/// What bounds the program; nothing where nothing takes time, which the metrics say.
fn verdict(cost: &Cost) -> Option<String> {
    let verdict = &cost.verdict;
    let limit = verdict.limit.as_ref()?;
    let factor =
        verdict.factor.map_or_else(String::new, |factor| format!(" by {}x", units::number(factor)));
    let compute = units::seconds(verdict.compute_s);
    let bound = match limit {
        Limit::Flops => "FLOPs",
        Limit::Hbm => "HBM",
        Limit::Latency => "latency",
        Limit::Bubble => "bubble",
        Limit::Host => "host",
        Limit::Links(_) => verdict.bound,
    };
    Some(match &verdict.axis {
        Some(axis) => format!(
            "{bound}-bound{factor}: compute {compute}, links of {axis} {}",
            units::seconds(verdict.links_s)
        ),
        None => format!("{bound}-bound: nothing is communicated"),
    })
}

fn threshold_line(cost: &Cost, threshold: &Threshold) -> String {
    let Threshold { dim, size, per_device, crossovers } = threshold;
    if crossovers.is_empty() {
        return match cost.verdict.bound {
            "compute" => format!("communication-bound at no size of {dim} with this plan"),
            bound => format!("{bound}-bound at every size of {dim} with this plan"),
        };
    }
    let crossover = |crossover: &super::Crossover| {
        let (size, per_device) =
            (units::number(crossover.size), units::number(crossover.per_device));
        format!("{}-bound above {dim} = {size} ({per_device} a device)", crossover.above)
    };
    let crossovers: Vec<String> = crossovers.iter().map(crossover).collect();
    format!("{}; now {size} ({} a device)", crossovers.join(", "), units::number(*per_device))
}
