//! Explains a collective: the reader that needs it, the brackets that cause it, and the
//! alternatives with their costs.
//!
//! Causes are derived from the finished plan, statement by statement, since they hold whichever
//! strategy made it; a log of the search would record what it tried, not why the result is right.
//! Alternatives are edits of the program's text, and each edited program is planned: an author can
//! type the edit, and no number is an estimate. For a program that cannot be planned, the brackets
//! that contradict each other are found by leaving brackets open; for one that does not fit into
//! memory, what is live at its peak.

mod alternatives;
mod causes;
mod conflict;
mod sites;
mod summary;
mod target;
mod text;

use serde::Serialize;
use shardwise_ir::codes::budget;
use shardwise_ir::plan::StepKind;

use crate::display::Format;
use crate::driver;
use crate::planned::link_breakdown::Network;
use crate::use_def::moves_data;
use crate::{Findings, Options, Planned};

pub use alternatives::Alternative;
pub(crate) use causes::Explainer;
pub use conflict::{Conflict, OverCapacity, Remedy};
pub use summary::{Costly, Summary};
pub use target::Target;

/// The explanation of a program's collectives, or of why there is no plan. `Display` is the text
/// for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Explanation {
    /// The program can be planned: the requested collectives.
    Plan(Causes),
    /// Its brackets contradict each other.
    Conflict(Conflict),
    /// No plan fits into the memory.
    #[serde(rename = "no_room")]
    OverCapacity(OverCapacity),
}

/// Why a plan's collectives are there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causes {
    /// The target in words: `` `Win` ``, `line 7`, `every collective`.
    pub about: String,
    /// The objective that alternatives change: `serial`, `comm`, `overlap` or `scheduled`.
    pub objective: String,
    /// The plan's own number, in seconds.
    pub now_s: f64,
    /// The plan's own peak memory of a device, in bytes.
    pub now_peak_bytes: f64,
    /// The whole plan in short; absent where a value or a line is explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The collectives, in the plan's order.
    pub collectives: Vec<Collective>,
}

/// One collective and its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Collective {
    /// The line as the plan prints it.
    pub text: String,
    /// Bytes: the cost model's `V`.
    pub bytes: f64,
    /// Seconds.
    pub time_s: f64,
    /// Its time on each network, innermost first; absent where it runs over one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Network>,
    /// Whether it is critical: a longer step makes the schedule longer.
    pub critical: bool,
    /// The producer of its operand, and why that is partial if it is.
    pub from: End,
    /// The readers of its result, with the rule and the brackets that require it.
    pub needs: Vec<End>,
    /// Other programs near this one, cheapest first; only where a value or a line is explained.
    pub alternatives: Vec<Alternative>,
    /// The index in `alternatives` of the cheapest whose plan does not have this collective.
    pub cure: Option<usize>,
}

/// Something at one end of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// A declaration, a statement, another collective, the brackets of a left side, or an output.
    pub who: String,
    /// Why it produces or needs the value in this sharding: rules, and the brackets that they
    /// depend on.
    pub because: Vec<String>,
}

/// A progress callback: the number of planned programs and of all programs; called from any thread,
/// in no order.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// The share of the time limit for the plan that is explained; the rest is for alternatives to it.
const FOR_THE_PLAN: f64 = 0.5;

/// Explains the collectives of a program that `target` names. Errors are those of reading the
/// program, or that the target does not exist.
///
/// # Errors
///
/// The errors of the program, but for those that are explained: shardings that do not fit together,
/// and too little memory. Or that the program has no such value or line.
///
/// ```
/// use shardwise::explain::{Explanation, Target, explain};
/// let source = "
/// hardware tpu-v5p
/// mesh X=4
/// dim I=8192, J=8192, K=8192
/// input A[I, J_X], B[J, K_X]
/// C = A *J B
/// output C[I, K_X]
/// ";
/// let (options, target) = (shardwise::Options::default(), Target::Value("A".to_owned()));
/// let explanation = explain("example", source, &options, &target, &|_, _| ())?;
/// let Explanation::Plan(causes) = &explanation else { panic!("it can be planned") };
/// let gather = &causes.collectives[0];
/// assert_eq!(gather.from.who, "declared at line 5: `input A[I, J_X]`");
/// assert!(gather.needs[0].because[0].starts_with("`X` splits `K` of `B` there"));
/// assert!(gather.cure.is_some());
/// # Ok::<(), shardwise::Findings>(())
/// ```
pub fn explain(
    name: &str,
    source: &str,
    options: &Options,
    target: &Target,
    progress: Progress<'_>,
) -> Result<Explanation, Findings> {
    // A plan that breaks a budget is the one that needs to be explained.
    let source = sites::without_asserts(source);
    let options = &options.started();
    let planned = match driver::plan(name, &source, &options.part(FOR_THE_PLAN)) {
        Ok(planned) => planned,
        Err(findings) => return refused(name, &source, options, findings),
    };
    let steps = target::steps(&planned, &source, target)
        .map_err(|diag| Findings::new(vec![diag], name, &source))?;
    let explainer = causes::Explainer::new(
        &planned,
        &source,
        driver::check(name, &source, &planned.options).program,
    );
    let mut collectives: Vec<Collective> =
        steps.iter().map(|&step| explainer.collective(step)).collect();
    let mut summary = None;
    if *target == Target::Everything {
        let (program, all) = ((&*source, options), (&*steps, &*collectives));
        summary = Some(summary::summary(&planned, program, all, progress));
    } else {
        weigh(&planned, (&source, options), &steps, &mut collectives, progress);
    }
    let objective = planned.objective.name().to_owned();
    Ok(Explanation::Plan(Causes {
        about: target.words(),
        objective,
        now_s: planned.objective_s(&planned.report),
        now_peak_bytes: planned.report.memory.peak_bytes,
        summary,
        collectives,
    }))
}

/// The collectives of a plan that move data, by their steps, with their reasons.
pub(crate) fn reasons(planned: &Planned) -> Vec<(usize, Collective)> {
    let written = driver::check(&planned.name, &planned.source, &planned.options).program;
    let explainer = causes::Explainer::new(planned, &planned.source, written);
    let steps = planned.plan.steps.iter().zip(&planned.report.steps).enumerate();
    let moving = steps.filter(|(_, (step, cost))| {
        matches!(step.kind, StepKind::Collective(..)) && moves_data(step, cost)
    });
    moving.map(|(number, _)| (number, explainer.collective(number))).collect()
}

/// Adds the alternatives to the collectives that cost time.
fn weigh(
    planned: &Planned,
    (source, options): (&str, &Options),
    steps: &[usize],
    collectives: &mut [Collective],
    progress: Progress<'_>,
) {
    let costs =
        |&at: &usize| moves_data(&planned.plan.steps[steps[at]], &planned.report.steps[steps[at]]);
    let costing: Vec<usize> = (0..steps.len()).filter(costs).collect();
    let weighed: Vec<usize> = costing.iter().map(|&at| steps[at]).collect();
    let found = alternatives::alternatives(planned, source, options, &weighed, progress);
    for (at, alternatives) in costing.into_iter().zip(found) {
        collectives[at].cure = alternatives.iter().position(|alternative| alternative.removes_it);
        collectives[at].alternatives = alternatives;
    }
}

/// Explains a program without a plan.
fn refused(
    name: &str,
    source: &str,
    options: &Options,
    findings: Findings,
) -> Result<Explanation, Findings> {
    if findings.reports.iter().any(|report| report.diag.code == budget::NO_ROOM) {
        return Ok(Explanation::OverCapacity(conflict::over_capacity(
            name, source, options, &findings,
        )));
    }
    match conflict::conflict(name, source, options, &findings) {
        Some(conflict) => Ok(Explanation::Conflict(conflict)),
        None => Err(findings),
    }
}

/// The JSON form of an [`Explanation`].
#[derive(Serialize)]
struct Document<'e> {
    /// Always `shardwise.explain/1`.
    schema: &'static str,
    #[serde(flatten)]
    explanation: &'e Explanation,
}

/// The formats of explanations.
pub const FORMATS: &[Format<Explanation>] = &[
    Format { name: "text", about: "Sentences", write: |explanation| Ok(explanation.to_string()) },
    Format {
        name: "json",
        about: "JSON, `shardwise.explain/1`",
        write: |explanation| Ok(explanation.json()),
    },
];

impl Explanation {
    /// The JSON text, indented: `kind` is `plan`, `conflict` or `no_room`, the rest are the fields
    /// of the value.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&Document { schema: "shardwise.explain/1", explanation: self })
            .unwrap_or_default()
            + "\n"
    }
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text::text(self))
    }
}
