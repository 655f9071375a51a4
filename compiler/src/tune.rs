//! Finds the best way to run a program on a number of chips, over everything that a person would
//! try by hand: mesh shapes and the networks that their axes use, pipeline stages, microbatches,
//! recomputation, and the dtypes of products that are allowed ([`dtypes`]). Shardings are not
//! enumerated: the planner chooses them for each of these.
//!
//! The space is a list of *candidates*: each is the program with another mesh, number of
//! microbatches, recomputation, pipeline or dtypes, written as text ([`template`]) and planned
//! like any program, so that the winner is a program that `plan` reproduces. What the program pins
//! stays: a bracket that names an axis, a `checkpoint`, a `pipeline`, `microbatches=`. Brackets
//! that name no axis are left to the search.
//!
//! The search ([`branch`]) proves the best candidate with three bounds, each costlier and tighter
//! than the one before:
//!
//! 1. *floor*: the plan on one device, divided by the devices. No device computes less than its
//!    share, and none holds less; communication is free. One plan for each number of microbatches,
//!    recomputation and dtypes, whatever the mesh.
//! 2. *unlimited*: the planner's bound where memory is no limit. If that plan fits, it is the
//!    candidate's. More microbatches never take less time than fewer of which they are parts (every
//!    step costs at least its share), so it bounds them, too, and the fewest come first.
//! 3. *within memory*: the plan that fits, and the planner's bound of it. In large spaces with
//!    little effort first; with all effort only for those that could be the first: of the best, and
//!    of those for which little effort found no plan, or one far from its bound.
//!
//! A search for plans below a time looks at other plans than one for the cheapest, and none within
//! memory finds all. So in small spaces the best so far only serves to exclude: what a bound does
//! not is planned alone, as in an enumeration.
//!
//! What is no sum of steps (`overlap`, `scheduled`) has no memory in its bound, and its search
//! starts from plans within memory, so the second and the third are one run there. With little
//! effort it ends at a bound or a plan far above the best so far, or at a plan near the bound.
//!
//! Candidates are expanded best bound first, a fixed number at once, so that the result and all
//! counts are the same on every machine. One whose bound reaches the best so far is cut.
//!
//! Alternatives: simulated annealing or a genetic search over degrees has no bound, and answers
//! differently each time; enumerating degrees with closed formulas (as calculon does) is fast, but
//! prices a fixed list of strategies and not the shardings in between; dynamic programming over
//! meshes needs costs that add up over axes, and hierarchical collectives do not.

mod against;
mod axis_words;
mod branch;
mod candidate;
mod curve;
mod dtypes;
mod flags;
mod html;
mod leaf;
mod machine;
mod plot;
mod records;
mod resident;
mod serving;
mod shared_time;
mod stage_layers;
mod strategy;
mod table;
mod template;
mod unused;
mod what_if;

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use shardwise_ir::stages::Schedule;

use crate::diagnostics::Findings;
use crate::display::Format;
use crate::options::{Objective, Options};
use shared_time::SharedTime;

pub use against::Against;
pub use candidate::{Recompute, Staging};
pub use curve::{CURVE_FORMATS, Curve, Point, curve, doubled};
pub use dtypes::Dtypes;
pub use serving::{Deployment, Kind, Pool, SERVING_FORMATS, Serve, Served, serve};
pub use strategy::{ActingAxis, Degree, Strategy};
pub use unused::Given;
pub use what_if::WhatIf;

/// Mesh axes where no number is given.
const AXES: usize = 2;

/// What is searched, and how far.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Request {
    /// Chips to use, all of them.
    pub chips: u64,
    /// Mesh axes at most, the axis of pipeline stages among them; where none are given, two beside
    /// that one, or with it where the objective is no sum.
    pub axes: Option<usize>,
    /// Numbers of microbatches, for programs with gradients.
    pub microbatches: Vec<u64>,
    /// Numbers of pipeline stages, for programs whose layers can be a pipeline; 1 is none.
    pub stages: Vec<u64>,
    /// Schedules of pipelines.
    pub schedules: Vec<Schedule>,
    /// Runs of layers on a stage, for schedules that leave it open.
    pub chunks: Vec<u64>,
    /// Whether stages that keep more microbatches may have fewer layers, with `1f1b` and one chunk.
    pub fewer_first: bool,
    /// What may be computed again for gradients, where the program does not say.
    pub recompute: Vec<Recompute>,
    /// The dtypes of products with weights.
    pub dtypes: Vec<Dtypes>,
    /// Sizes of the batch; none for that of the program. Strategies with batches of several sizes
    /// are compared by their time an element.
    pub batches: Vec<u64>,
    /// The longest time of a step, seconds, in the terms of the objective.
    pub latency_s: Option<f64>,
    /// Programs with strategies written by people, compared with those found: names and texts.
    pub against: Vec<(String, String)>,
    /// Whether to search again with more memory, and with faster links.
    pub what_if: bool,
    /// Whether to release what the program pins: brackets, `checkpoint`, `microbatches=`,
    /// `pipeline`.
    pub free: bool,
    /// How many of the best distinct strategies are asked for.
    pub best: usize,
    /// Branches that could be better by this fraction at most are cut.
    pub within: f64,
    /// Time for all of it, what-if and curves included; the best so far is returned.
    pub timeout: Option<Duration>,
    /// Whether every candidate is planned, and none is cut: to check the search.
    pub exhaustive: bool,
    /// What of this was asked for, and is an error where it has no effect.
    pub given: Given,
}

impl Request {
    /// The most mesh axes beside that of so many pipeline stages. Bounds of schedules exclude few
    /// candidates, so that by default there are fewer of them.
    fn axes_beside(&self, stages: u64, objective: Objective) -> usize {
        match self.axes {
            None if objective.is_sum() => AXES,
            axes => axes.unwrap_or(AXES) - usize::from(stages > 1),
        }
    }

    /// The request of the command without options, for so many chips.
    pub fn of_chips(chips: u64) -> Self {
        Self {
            chips,
            axes: None,
            microbatches: vec![1, 2, 4, 8, 16, 32],
            stages: vec![1, 2, 4, 8, 16],
            schedules: vec![Schedule::OneForwardOneBackward],
            chunks: vec![1],
            fewer_first: false,
            recompute: vec![Recompute::Nothing, Recompute::Layers],
            dtypes: vec![Dtypes::Written],
            batches: Vec::new(),
            latency_s: None,
            against: Vec::new(),
            what_if: false,
            free: false,
            best: 10,
            within: 0.0,
            timeout: None,
            exhaustive: false,
            given: Given::default(),
        }
    }

    /// The sizes of the batch; none for that of the program.
    fn batches(&self) -> Vec<Option<u64>> {
        match &self.batches[..] {
            [] => vec![None],
            sizes => sizes.iter().copied().map(Some).collect(),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Refused {
    /// The program has errors, or fits nowhere.
    Program(Findings),
    /// The options leave nothing to plan: a sentence with what to write instead.
    Options(String),
    /// No strategy takes as little time as `--latency` asks for: a sentence, and the seconds of the
    /// fastest that was looked at.
    TooSlow(String, f64),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(findings) => match findings.reports.first() {
                Some(report) => f.write_str(&report.diag.message),
                None => f.write_str("the program has errors"),
            },
            Self::Options(text) => f.write_str(text),
            Self::TooSlow(text, _) => {
                write!(f, "{text}; raise --latency, use more --chips, or allow a smaller --batch")
            }
        }
    }
}

/// The best strategies, and what is proven of them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Tuned {
    /// Always `shardwise.tune/1`.
    pub schema: &'static str,
    /// The program's name.
    pub program: String,
    /// The hardware's.
    pub hardware: String,
    /// Chips.
    pub chips: u64,
    /// The size of the batch of all chips, where the program has one.
    pub batch: Option<u64>,
    /// The dtypes of products with weights that were compared.
    pub dtypes: Vec<&'static str>,
    /// What was not compared, with the reason: such dtypes as the program or the chip cannot have,
    /// and better machines without a plan.
    pub left_out: Vec<String>,
    /// The time that is minimized: `serial`, `comm`, `overlap` or `scheduled`.
    pub objective: &'static str,
    /// The best distinct strategies found, best first.
    pub strategies: Vec<Strategy>,
    /// The number of the strategy whose schedule is the shortest, counted from 1, where that of the
    /// first is longer by more than 1%; not where schedules are minimized.
    pub shorter_step: Option<usize>,
    /// A plan that is not among `strategies`, and whose schedule is shorter than all of theirs by
    /// more than 1%: the shortest; not where schedules are minimized.
    pub shorter_unprinted: Option<Strategy>,
    /// Of all plans made, those for which no other takes both less time and less memory: by time.
    pub pareto: Vec<Strategy>,
    /// Seconds and peak bytes of the best plan of each distinct strategy.
    #[serde(skip)]
    pub time_and_memory: Vec<(f64, f64)>,
    /// Strategies written by hand.
    pub against: Vec<Against>,
    /// The best on machines that have more of one thing each, where that was asked for.
    pub what_if: Vec<WhatIf>,
    /// Nothing in the space takes less, seconds; of several batches, for that of the winner.
    pub lower_bound_s: f64,
    /// What was searched.
    pub space: Space,
    /// The winner as a program.
    #[serde(skip)]
    pub winner: String,
    /// The winner's plan.
    #[serde(skip)]
    pub plan: String,
}

/// The size of the space, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Space {
    /// Mesh shapes.
    pub shapes: usize,
    /// Candidates: shapes times stages, microbatches, recomputation and dtypes.
    pub candidates: usize,
    /// Cut because a bound reached the best so far.
    pub cut: usize,
    /// Refused because no plan fits into memory, by the floor or by the planner.
    pub over_memory: usize,
    /// Refused because a step takes longer than it may.
    pub over_latency: usize,
    /// Refused by a rule of the language, such as a batch that is not divisible.
    pub illegal: usize,
    /// The rule that refused most of them.
    pub illegal_because: Option<String>,
    /// Planned to the end.
    pub planned: usize,
    /// Runs of the planner, bounds included.
    pub runs: usize,
    /// Left when the time was over.
    pub left: usize,
    /// Whether somebody stopped it.
    pub stopped: bool,
}

/// How far a search is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// On so many chips: a curve, and deployments, are a search for each number of them.
    pub chips: u64,
    /// Candidates done.
    pub done: usize,
    /// Of so many.
    pub all: usize,
    /// Seconds of the best so far.
    pub best_s: Option<f64>,
    /// Nothing takes less than this, seconds.
    pub bound_s: f64,
}

/// Called when a search begins, and while it runs.
pub type Report<'a> = &'a (dyn Fn(Progress) + Sync);

/// Finds the best strategies for a program; `options` hold for every candidate.
///
/// # Errors
///
/// [`Refused`]: the errors of the program, or that no strategy fits into memory; a sentence about
/// options that leave nothing to plan; or the time of the fastest strategy where that is above the
/// limit.
///
/// ```
/// use shardwise::tune::{Request, tune};
/// let source = "hardware h100\ndim B=4096, D=4096, F=16384\ninput x[B, D]\n\
///     param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";
/// let tuned = tune("mlp", source, &Request::of_chips(8), &Default::default(), &|_| ())
///     .map_err(|_| "refused")?;
/// let best = &tuned.strategies[0];
/// assert_eq!((best.degree("DP"), tuned.gap() < 0.01), (8, true));
/// let again = shardwise::plan("mlp", &tuned.winner, &Default::default()).map_err(|_| "wrong")?;
/// assert_eq!(again.report.serial_s, best.objective_s);
/// # Ok::<(), &str>(())
/// ```
pub fn tune(
    name: &str,
    source: &str,
    request: &Request,
    options: &Options,
    report: Report<'_>,
) -> Result<Tuned, Refused> {
    // What-if has the other half of the time.
    let mut time = SharedTime::new(request.timeout, 1 + usize::from(request.what_if));
    let template = template::Template::new(name, source, request, options)?;
    let (batches, without) = template.possible_batches(request)?;
    let hardware = template.hardware()?;
    let machine = machine::Machine::new(&hardware, request.chips).map_err(Refused::Options)?;
    let most_axes = |stages| request.axes_beside(stages, options.objective);
    let shapes = machine.shapes(&template.named_axes, &request.stages, most_axes);
    let shapes = shapes.map_err(Refused::Options)?;
    let (dtypes, mut left_out) = dtypes::possible(&template, &hardware, request)?;
    left_out.extend(without);
    let by_default = request.axes.is_none() && template.layer_count.is_some();
    if by_default && request.axes_beside(2, options.objective) < AXES {
        left_out.push(format!(
            "meshes of {0} axes, one of stages, are left out: `--axes {0}` plans them, too",
            AXES + 1
        ));
    }
    let request = &Request { dtypes, batches, ..request.clone() };
    let candidates = template.candidates(&shapes, request);
    if candidates.is_empty() {
        return Err(Refused::Options(template.emptied_by(request, &machine, &shapes)));
    }
    unused::check(&template, request)?;
    if !request.against.is_empty() && !request.batches.is_empty() {
        return Err(Refused::Options(
            "--against compares steps of one batch; leave --batch out, or write its size with --dim"
                .to_owned(),
        ));
    }
    let against = against::planned(&template, &candidates, request, options)?;
    let of_candidates =
        candidates.iter().map(|of| &of.shape).collect::<indexmap::IndexSet<_>>().len();
    let own = Request { timeout: time.next(), ..request.clone() };
    let search = branch::Search::new(&template, candidates, &own, options, report);
    let mut tuned = search.run()?;
    tuned.space.shapes = of_candidates;
    tuned.against = against;
    tuned.left_out = left_out;
    if request.what_if {
        let request = Request { timeout: time.next(), ..request.clone() };
        let (answers, without) = what_if::answers(name, source, (&request, &hardware), options);
        tuned.what_if = answers;
        tuned.left_out.extend(without);
    }
    Ok(tuned)
}

impl Tuned {
    /// Whether strategies with other dtypes were compared.
    fn compares_dtypes(&self) -> bool {
        self.dtypes.len() > 1
    }

    /// How far the winner is above the bound of the space, as a share of the bound.
    pub fn gap(&self) -> f64 {
        let best = self.strategies.first().map_or(0.0, |best| best.objective_s);
        if best > 0.0 { (best / self.lower_bound_s - 1.0).max(0.0) } else { 0.0 }
    }
}

/// The formats of an answer.
pub const FORMATS: &[Format<Tuned>] = &[
    Format { name: "text", about: "A table", write: |tuned| Ok(table::text(tuned)) },
    Format { name: "md", about: "A table in Markdown", write: |tuned| Ok(table::markdown(tuned)) },
    Format { name: "csv", about: "CSV, a line a strategy", write: |tuned| Ok(records::csv(tuned)) },
    Format {
        name: "json",
        about: "JSON, `shardwise.tune/1`",
        write: |tuned| Ok(records::json(tuned)),
    },
    Format { name: "svg", about: "A plot of time against memory", write: plot::of_strategies },
    Format { name: "html", about: "A page for the browser", write: html::html },
    Format {
        name: "megatron",
        about: "The winner as flags of Megatron-LM, with what they cannot say",
        write: flags::megatron,
    },
    Format {
        name: "maxtext",
        about: "The winner as settings of MaxText, with what they cannot say",
        write: flags::maxtext,
    },
    Format {
        name: "torchtitan",
        about: "The winner as flags of torchtitan, with what they cannot say",
        write: flags::torchtitan,
    },
    Format {
        name: "deepspeed",
        about: "The winner as a configuration of DeepSpeed, with what it cannot say",
        write: flags::deepspeed,
    },
];
