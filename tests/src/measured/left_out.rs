//! What a case would take if nothing were fitted to its source.
//!
//! Rates of kernels of GPUs come from tables that no case is in. What does come from cases is
//! fitted again without the source: the sustained share of training on a chip, and the network.
//! Where no other source has measured a chip's kernels, the typical figures of the cost model are
//! taken, as for a chip that nobody has measured.

use shardwise::accuracy::Group;
use shardwise::calibrate::calibrate;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::rates::{LinkFigures, MeasuredRates};

use super::{Case, Prediction, machines, seconds};

/// Seconds of a case at rates that know nothing of its source.
pub(super) fn seconds_unseen(prediction: &Prediction, all: &[Prediction]) -> f64 {
    let Case { group, source, .. } = &prediction.case;
    let at = |change: &dyn Fn(&mut Hardware)| seconds(&prediction.parts, change);
    match (group, source.as_str()) {
        (Group::Training, _) => {
            let sustained = sustained(all, chip(prediction.case.hardware()), Some(source));
            at(&|hardware| hardware.measured.sustained = sustained)
        }
        (_, "ml-engineering" | "coreweave") => {
            let network = network_without(all, source);
            at(&|hardware| hardware.measured.network = network)
        }
        (_, "tpu-recipes-micro" | "scaling-book") => at(&|hardware| {
            let MeasuredRates { sustained, network, .. } = hardware.measured;
            hardware.measured = MeasuredRates { sustained, network, ..MeasuredRates::default() };
        }),
        (_, "deepgemm") => {
            let h100 = Hardware::preset("h100").map(|chip| chip.measured).unwrap_or_default();
            at(&|hardware| hardware.measured = h100)
        }
        _ => prediction.predicted,
    }
}

/// The chip of a machine: `a100` of `selene-a100`.
pub(super) fn chip(machine: &str) -> &'static str {
    let mut names: Vec<&str> = Hardware::preset_names().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.into_iter().find(|name| machine.contains(name)).unwrap_or("another")
}

/// The share of kernel rates that training sustains on a chip: the mean, over the sources but
/// `without`, of the means of the shares at which their cases are predicted exactly.
pub(super) fn sustained(all: &[Prediction], of: &str, without: Option<&str>) -> Option<f64> {
    let is_used = |prediction: &&Prediction| {
        let case = &prediction.case;
        let is_left_out = without == Some(case.source.as_str()) || case.outlier.is_some();
        case.group == Group::Training && chip(case.hardware()) == of && !is_left_out
    };
    let used: Vec<&Prediction> = all.iter().filter(is_used).collect();
    let mut sources: Vec<&str> = used.iter().map(|p| p.case.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let mean_of = |source: &&str| {
        let own = used.iter().filter(|prediction| prediction.case.source == *source);
        mean(own.map(|prediction| exact_share(prediction)))
    };
    if sources.is_empty() { None } else { Some(mean(sources.iter().map(mean_of))) }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sustained share at which a training step is predicted exactly. Its time is a part that the
/// share divides, and one that it does not.
fn exact_share(prediction: &Prediction) -> f64 {
    let at = |share: f64| {
        seconds(&prediction.parts, &|hardware| hardware.measured.sustained = Some(share))
    };
    let (high, low) = (0.9, 0.6);
    let (short, long) = (at(high), at(low));
    let divided = (long - short) / (1.0 / low - 1.0 / high);
    let rest = short - divided / high;
    (divided / (prediction.case.measured - rest)).clamp(0.3, 1.0)
}

/// The network's figures by the reductions between nodes of one other source, from typical ones on.
fn network_without(all: &[Prediction], source: &str) -> LinkFigures {
    let other = if source == "coreweave" { "ml-engineering" } else { "coreweave" };
    let cases = all.iter().map(|prediction| &prediction.case);
    let rows: Vec<(&str, String)> =
        cases.filter(|case| case.source == other).filter_map(between_nodes).collect();
    let machine = rows[0].0;
    let rows: String =
        rows.iter().filter(|(other, _)| *other == machine).map(|(_, row)| row.as_str()).collect();
    let text = format!("kind,bytes,devices,nodes,measured_s\n{rows}");
    let mut base = machine_called(machine);
    base.measured.network = LinkFigures::default();
    let fitted = calibrate(&[(other, &text)], &base, "without").expect("measurements");
    fitted.hardware.measured.network
}

/// An AllReduce of f32 that spans nodes, as a row of measurements, with its machine.
fn between_nodes(case: &Case) -> Option<(&str, String)> {
    let part = &case.parts[0];
    let devices: u64 = part.mesh.strip_prefix("X=")?.parse().ok()?;
    let elements: u64 = part.dims.strip_prefix("N=")?.parse().ok()?;
    let inside = machine_called(&part.hardware).nvlink_domain()?;
    let row =
        format!("all_reduce,{},{devices},{},{}\n", 4 * elements, devices / inside, case.measured);
    (devices > inside).then_some((part.hardware.as_str(), row))
}

fn machine_called(name: &str) -> Hardware {
    let known = machines().into_iter().find(|machine| machine.name == name);
    known.or_else(|| Hardware::preset(name)).expect("a machine of the cases")
}
