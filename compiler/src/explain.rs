//! Why a collective is there: what asked for it, what fixed that, what else could have been done
//! and what each would have cost.
//!
//! Causes are read off the finished plan, statement by statement, since they are true of it
//! whichever strategy made it; a log of the search would record what it tried, not why the result
//! is right. Alternatives are edits of the program's text, each planned again as a whole: an author
//! can type what is offered, and no number is an estimate. For a program that cannot be planned,
//! the brackets that contradict each other are found by leaving brackets open; for one that does
//! not fit into memory, what is live at its peak.

mod alternatives;
mod causes;
mod conflict;
mod sites;
mod target;
mod text;

use serde::Serialize;
use shardwise_ir::codes::budget;

use crate::driver;
use crate::export::Format;
use crate::planned::link_breakdown::Network;
use crate::use_def::moves_data;
use crate::{Findings, Options};

pub use alternatives::Alternative;
pub use conflict::{Conflict, NoRoom, Remedy};
pub use target::Target;

/// What can be said of a program's collectives, or of why there are none. `Display` is the text for
/// people.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Explanation {
    /// The program can be planned: its collectives, as far as they were asked about.
    Plan(Causes),
    /// Its brackets contradict each other.
    Conflict(Conflict),
    /// No plan fits into the memory.
    NoRoom(NoRoom),
}

/// Why a plan's collectives are there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causes {
    /// What was asked about, in words: `` `Win` ``, `line 7`, `every collective`.
    pub about: String,
    /// What the numbers of alternatives are differences of: `serial`, `comm` or `overlap`.
    pub objective: String,
    /// The plan's own number, in seconds.
    pub now_s: f64,
    /// One by one, in the plan's order.
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
    /// What it takes on each network, innermost first; absent where it runs over one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Network>,
    /// Whether making it longer makes the schedule longer.
    pub critical: bool,
    /// What gives its operand, and why that is partial if it is.
    pub from: End,
    /// What needs its result, and by which rule and which brackets.
    pub needs: Vec<End>,
    /// Other programs near this one, cheapest first; only where a value or a line was asked about.
    pub alternatives: Vec<Alternative>,
    /// The cheapest of them whose plan is without this collective, as a place among `alternatives`.
    pub cure: Option<usize>,
}

/// Something at one end of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// A declaration, a statement, another collective, the brackets of a left side, or an output.
    pub who: String,
    /// Why it gives or needs the value so: rules, and where what they rest on was written.
    pub because: Vec<String>,
}

/// Called with how many programs of how many are planned, in no order, from any thread.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Explains the collectives of a program that `target` names. Errors are those that keep the
/// program from being read, or a target that is not there.
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
    let planned = match driver::plan(name, &source, options) {
        Ok(planned) => planned,
        Err(findings) => return refused(name, &source, options, findings),
    };
    let steps = target::steps(&planned, &source, target)
        .map_err(|diag| Findings::new(vec![diag], name, &source))?;
    let explainer =
        causes::Explainer::new(&planned, &source, driver::check(name, &source, options).program);
    let mut collectives: Vec<Collective> =
        steps.iter().map(|&step| explainer.collective(step)).collect();
    if *target != Target::Everything {
        let costing: Vec<usize> = (0..steps.len())
            .filter(|&at| {
                moves_data(&planned.plan.steps[steps[at]], &planned.report.steps[steps[at]])
            })
            .collect();
        let weighed: Vec<usize> = costing.iter().map(|&at| steps[at]).collect();
        let alternatives =
            alternatives::alternatives(&planned, &source, options, &weighed, progress);
        for (at, alternatives) in costing.into_iter().zip(alternatives) {
            collectives[at].cure =
                alternatives.iter().position(|alternative| alternative.removes_it);
            collectives[at].alternatives = alternatives;
        }
    }
    let objective = planned.objective.name().to_owned();
    Ok(Explanation::Plan(Causes {
        about: target.words(),
        objective,
        now_s: planned.objective_s(&planned.report),
        collectives,
    }))
}

/// What can be said of a program without a plan.
fn refused(
    name: &str,
    source: &str,
    options: &Options,
    findings: Findings,
) -> Result<Explanation, Findings> {
    if findings.reports.iter().any(|report| report.diag.code == budget::NO_ROOM) {
        return Ok(Explanation::NoRoom(conflict::no_room(name, source, options, &findings)));
    }
    match conflict::conflict(name, source, options, &findings) {
        Some(conflict) => Ok(Explanation::Conflict(conflict)),
        None => Err(findings),
    }
}

/// What [`Explanation::json`] writes.
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
    /// The JSON text, indented: `kind` is `plan`, `conflict` or `no_room`, the rest is what stands
    /// in the value.
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
