//! Published measurements, predicted: the cases of `tests/measured`, their plans, and what they
//! take at the rates of presets and at rates that know nothing of a case's source.

mod cases;
mod left_out;
mod page;

use shardwise::{Fusion, Options, Planned, Rates, Refinement, Strategy, hardware, setting};
use shardwise_ir::hardware::Hardware;
use shardwise_ir::plan::Plan;
use shardwise_passes::report::report;

pub use cases::{Case, Part, calculon_cases, megatron_cases, memory_cases, time_cases};
pub use page::{Line, Prediction, lines, page, table};

use crate::read;

/// The plan of a part of a case, and how often it runs.
pub struct PlannedPart {
    plan: Plan,
    times: f64,
}

/// The machines of the cases, beside the presets.
fn machines() -> Vec<Hardware> {
    hardware::parse("clusters.toml", &read("tests/measured/clusters.toml")).expect("machines")
}

/// How a part is planned, but for its mesh: on its machine, at measured rates.
pub(crate) fn options(part: &Part) -> Options {
    Options {
        strategy: Strategy::Search,
        hardware: Some(part.hardware.clone()),
        known: machines(),
        dims: if part.dims.is_empty() {
            Vec::new()
        } else {
            setting::dims(&part.dims).expect("sizes")
        },
        rates: Some(Rates::Measured),
        fusion: Some(Fusion::Attention),
        ..Options::default()
    }
}

/// The plan of a part. The runs that were measured did fit into memory: plans have no limit, unless
/// memory itself is predicted.
fn planned(case: &Case, part: &Part, is_limited: bool) -> Result<Planned, String> {
    let mesh = setting::mesh(&part.mesh).expect("a mesh");
    let memory = if is_limited { None } else { Some(f64::INFINITY) };
    let fusion = if case.writes_scores { Fusion::ElementWise } else { Fusion::Attention };
    let options = Options { mesh, memory, fusion: Some(fusion), ..options(part) };
    let planned = shardwise::plan(&part.program, &part.source(), &options);
    planned.map_err(|findings| findings.to_string())
}

/// The plans of all parts of a case of times.
///
/// # Panics
/// If one cannot be planned.
pub fn plans(case: &Case) -> Vec<PlannedPart> {
    let plan = |part: &Part| {
        let planned = planned(case, part, false);
        let planned = planned.unwrap_or_else(|error| panic!("{}: {error}", case.id));
        PlannedPart { plan: Plan::clone(&planned.plan), times: part.times }
    };
    case.parts.iter().map(plan).collect()
}

/// Seconds of a case on its machine, changed by `change`.
pub fn seconds(parts: &[PlannedPart], change: &dyn Fn(&mut Hardware)) -> f64 {
    let of_part = |part: &PlannedPart| {
        let mut plan = part.plan.clone();
        change(&mut plan.program.hardware);
        part.times * report(&plan.into(), Refinement::default()).schedule.makespan_s
    };
    parts.iter().map(of_part).sum()
}

/// The peak memory of a case, the largest of its parts; the reason where there is no plan.
pub fn peak_bytes(case: &Case) -> Result<f64, String> {
    let peak = |part: &Part| {
        let planned = planned(case, part, true)?;
        Ok(planned.report.memory.peak_bytes)
    };
    let peaks: Result<Vec<f64>, String> = case.parts.iter().map(peak).collect();
    Ok(peaks?.into_iter().fold(0.0, f64::max))
}

/// Predicts a case of times.
pub fn predict(case: &Case) -> Prediction {
    let parts = plans(case);
    Prediction {
        case: case.clone(),
        predicted: seconds(&parts, &|_| {}),
        at_peak: seconds(&parts, &|hardware| hardware.rates = Rates::Peak),
        parts,
    }
}
