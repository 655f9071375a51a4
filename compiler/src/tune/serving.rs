//! Serving on a number of chips: prefill and decode on chips of their own (*apart*), or on the same
//! (*together*), with how many chips to a replica, how many replicas of each, and which batches.
//!
//! Each phase is a program, tuned like any other on replicas of 1, 2, 4, … chips and for each size
//! of the batch. From these times a deployment follows:
//!
//! * apart, `x` replicas of prefill and `y` of decode serve the smaller of what both sustain:
//!   `x·b_p/t_p` and `y·b_d/(n·t_d)` requests a second, for `n` tokens a request;
//! * together, a replica spends `t_p/b_p + n·t_d/b_d` seconds on a request. While it prefills for
//!   others a sequence waits, so that the time between two tokens is `t_d + b_d·t_p/(n·b_p)`.
//!
//! Every deployment within the limits on the time to the first token (`t_p`; queues are not
//! counted) and between tokens is compared, by requests a second on all chips. The same formulas
//! with the lower bounds of the times give what no deployment of these replicas exceeds.
//!
//! Together, a device holds what the running phase needs at its peak, and the parameters and the
//! state (the caches of the sequences that wait) that only the other one has, or has in another
//! place. Each phase is tuned for itself: that a slower plan of one would share the weights of the
//! other is not looked for, so the bound is that without this limit.
//!
//! What is not counted: sending the caches from prefill to decode, which needs as many bytes as the
//! cache of a prompt.
//!
//! Alternatives: a simulation of arrivals gives distributions of waiting times, but needs a trace
//! of requests; a closed formula for every phase, as `AIConfigurator` has, needs tables of kernels
//! where here plans are priced.

mod checks;
mod deployment;
mod words;

use schemars::JsonSchema;
use serde::Serialize;

pub use deployment::{Deployment, Kind, Pool};

use super::curve::doubled;
use super::shared_time::SharedTime;
use super::template::pairs;
use super::{Dtypes, Refused, Report, Request, Strategy, tune};
use crate::display::{Format, units};
use crate::options::Options;
use checks::Checked;
use deployment::Phases;

/// What is served, and within which limits.
#[derive(Clone, Debug)]
pub struct Serve {
    /// The prefill of a batch of prompts: name and text.
    pub prefill: (String, String),
    /// A decode step: name and text.
    pub decode: (String, String),
    /// Tokens that a request asks for.
    pub tokens: u64,
    /// Prompts of a prefill that are tried.
    pub prompts: Vec<u64>,
    /// Sequences of a decode step that are tried.
    pub sequences: Vec<u64>,
    /// The longest time to the first token, seconds.
    pub first_s: Option<f64>,
    /// The longest time between two tokens, seconds.
    pub next_s: Option<f64>,
}

/// A phase on a replica of so many chips.
#[derive(Clone, Debug)]
struct Point {
    chips: u64,
    batch: u64,
    strategy: Strategy,
}

/// The best deployments.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Served {
    /// Always `shardwise.tune-serving/1`.
    pub schema: &'static str,
    /// Chips.
    pub chips: u64,
    /// Tokens that a request asks for.
    pub tokens: u64,
    /// Best first: by requests a second, then by fewer chips.
    pub deployments: Vec<Deployment>,
    /// No deployment of replicas that have a plan serves more requests a second.
    pub bound_per_s: f64,
    /// Deployments compared.
    pub compared: usize,
    /// Replicas tuned: sizes and batches of both phases.
    pub tuned: usize,
    /// What the programs do not say of such requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Finds the best deployments; `request` holds for both phases, its chips are all of them.
///
/// # Errors
///
/// [`Refused`]: the errors of either program; a sentence where one of them is no such phase, or
/// where no two phases fit onto the chips within the limits.
pub fn serve(
    serve: &Serve,
    request: &Request,
    options: &Options,
    report: Report<'_>,
) -> Result<Served, Refused> {
    let [prompts, sequences] =
        [&serve.prompts, &serve.sequences].map(|batches| replicas(batches, request));
    let mut time = SharedTime::new(request.timeout, prompts.len() + sequences.len());
    let mut of = |phase: &(String, String), of: &[Replica], limit: Option<f64>, raise: &str| {
        let request = Request { latency_s: limit, ..request.clone() };
        let found = points(phase, of, (&request, &mut time), options, report);
        found.map_err(|refused| match refused {
            Refused::TooSlow(text, _) => {
                Refused::Options(format!("`{}`: {text}; {raise}, or use more --chips", phase.0))
            }
            other => other,
        })
    };
    let checked = checks::checked(serve, request, options)?;
    let raise = "raise --ttft, allow fewer --prompts";
    let prefill = of(&serve.prefill, &prompts, serve.first_s, raise)?;
    let raise = "raise --tpot, allow a smaller --batch";
    let decode = of(&serve.decode, &sequences, serve.next_s, raise)?;
    let Checked { capacity_bytes, remarks } = checked;
    let phases = Phases { chips: request.chips, capacity_bytes, serve, prefill, decode };
    let (all, bound_per_s) = (phases.deployments(), phases.bound());
    if all.is_empty() {
        return Err(Refused::Options(no_two_phases(serve, request.chips)));
    }
    Ok(Served {
        schema: "shardwise.tune-serving/1",
        chips: request.chips,
        tokens: serve.tokens,
        compared: all.len(),
        tuned: phases.prefill.len() + phases.decode.len(),
        deployments: deployment::best(all, request.best),
        bound_per_s,
        remarks,
    })
}

/// What to do where each phase fits alone, and no two of them do.
fn no_two_phases(serve: &Serve, chips: u64) -> String {
    let limits = [(serve.first_s, ", --ttft"), (serve.next_s, ", --tpot")];
    let given: String =
        limits.iter().filter(|(limit, _)| limit.is_some()).map(|(_, name)| *name).collect();
    format!(
        "no two phases fit onto {} together; use more --chips, allow fewer --prompts or a smaller \
            --batch, or raise --memory{given}",
        units::counted(chips, "chip")
    )
}

/// A number of chips with the size of a batch and dtypes.
type Replica = (u64, u64, Dtypes);

/// Replicas of each size with each batch.
fn replicas(batches: &[u64], request: &Request) -> Vec<Replica> {
    let sizes = doubled(1, request.chips).into_iter();
    let of_size = |chips| {
        let pairs = pairs(batches, &request.dtypes);
        pairs.into_iter().map(move |(batch, dtypes)| (chips, batch, dtypes))
    };
    sizes.flat_map(of_size).collect()
}

/// A phase on these replicas, but those that are refused. If all are, the
/// error is that of the fastest, or of the last where none is only too slow.
fn points(
    (name, text): &(String, String),
    replicas: &[Replica],
    (request, time): (&Request, &mut SharedTime),
    options: &Options,
    report: Report<'_>,
) -> Result<Vec<Point>, Refused> {
    let (mut found, mut refusal) = (Vec::new(), None::<Refused>);
    let fastest_s = |refused: &Refused| match refused {
        Refused::TooSlow(_, fastest_s) => *fastest_s,
        Refused::Program(_) | Refused::Options(_) => f64::INFINITY,
    };
    for &(chips, batch, dtypes) in replicas {
        let (batches, dtypes, timeout) = (vec![batch], vec![dtypes], time.next());
        let one = Request { chips, batches, dtypes, timeout, best: 1, ..request.clone() };
        match tune(name, text, &one, options, report) {
            Ok(mut tuned) => {
                let mut strategy = tuned.strategies.swap_remove(0);
                strategy.lower_bound_s = tuned.lower_bound_s;
                found.push(Point { chips, batch, strategy });
            }
            Err(refused) => {
                let before_s = refusal.as_ref().map_or(f64::INFINITY, fastest_s);
                if fastest_s(&refused) <= before_s {
                    refusal = Some(refused);
                }
            }
        }
    }
    match refusal {
        Some(refused) if found.is_empty() => Err(refused),
        _ => Ok(found),
    }
}

impl Served {
    /// How much more something else could serve, as a share of the best.
    pub fn gap(&self) -> f64 {
        let best = self.deployments.first().map_or(0.0, |best| best.requests_per_s);
        if best > 0.0 { (self.bound_per_s - best).max(0.0) / best } else { 0.0 }
    }
}

/// The formats of deployments.
pub const SERVING_FORMATS: &[Format<Served>] = &[
    Format { name: "text", about: "A table", write: |served| Ok(words::text(served)) },
    Format { name: "md", about: "A table in Markdown", write: |of| Ok(words::markdown(of)) },
    Format {
        name: "json",
        about: "JSON, `shardwise.tune-serving/1`",
        write: |served| Ok(serde_json::to_string_pretty(served).unwrap_or_default() + "\n"),
    },
];
