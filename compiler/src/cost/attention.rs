//! Compares the ways to run attention over a sharded sequence: plans each of them.
//!
//! Which way is best depends on the sizes: keys and values can be gathered, passed around a ring,
//! or stay in place while running maxima and sums are reduced (split-KV softmax); or an `AllToAll`
//! before and after moves the axes from the sequence to the heads. The search finds the first, the
//! last two and their mixtures by itself; a ring is another program (`roll`), which an author
//! writes. `cost` plans each of them for every attention whose sequence is sharded: a program of
//! its own with the sizes, the mesh and the other shardings of the current plan. Planning the
//! complete program four times would show the same differences with more noise, and could not
//! include the ring.
//!
//! Masks are ignored in all of them: which blocks a causal mask removes depends on the assignment
//! of blocks to devices, and is the same for all.

mod programs;
mod split;

use serde::Serialize;
use shardwise_passes::Objective;

use crate::display::units;
use crate::{Options, Planned, driver};
use programs::{Way, ways};

/// An attention whose sequence is sharded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attention {
    /// The scores, by the program's name.
    pub scores: String,
    /// The dimension of the queries, and its size.
    pub queries: (String, u64),
    /// The dimension of the keys, and its size.
    pub keys: (String, u64),
    /// The axes that split the sequence.
    pub axes: Vec<String>,
    /// The ways to run it, in a fixed order.
    pub ways: Vec<Outcome>,
}

/// One way to run it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// What happens to keys and values: `gather`, `ring`, `heads` or `statistics`.
    pub way: &'static str,
    /// Whether the plan uses this way.
    pub planned: bool,
    /// Its cost; absent where it cannot run.
    pub price: Option<Price>,
    /// Why it cannot run.
    pub why_not: Option<String>,
    /// The program that was planned, to be copied.
    pub program: Option<String>,
}

/// The cost of one attention, run in one way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Seconds of all collectives.
    pub comm_s: f64,
    /// Seconds of all steps.
    pub serial_s: f64,
    /// Seconds of the plan's own schedule.
    pub scheduled_s: f64,
    /// Bytes of a device at the peak.
    pub peak_bytes: f64,
}

/// Every attention of a plan whose sequence is sharded, run in every way.
pub(crate) fn compare(planned: &Planned) -> Vec<Attention> {
    planned
        .attention
        .iter()
        .filter_map(|site| split::found(planned, site))
        .map(|found| outcome(planned, &found))
        .collect()
}

fn outcome(planned: &Planned, found: &split::Found<'_>) -> Attention {
    let ways = ways(found).into_iter().map(|Way { name, program }| {
        let planned_so = name == found.planned_way();
        let outcome = |price, why_not, program| Outcome {
            way: name,
            planned: planned_so,
            price,
            why_not,
            program,
        };
        match program {
            Ok(text) => match price(planned, &text) {
                Ok(price) => outcome(Some(price), None, Some(text)),
                Err(why_not) => outcome(None, Some(why_not), Some(text)),
            },
            Err(why_not) => outcome(None, Some(why_not), None),
        }
    });
    Attention {
        scores: found.site.scores.clone(),
        queries: found.length(found.site.query_dim),
        keys: found.length(found.site.key_dim),
        axes: found.axis_names(),
        ways: ways.collect(),
    }
}

fn price(planned: &Planned, text: &str) -> Result<Price, String> {
    let chip = planned.plan.program.hardware.clone();
    let (hardware, known) = (Some(chip.name.clone()), vec![chip]);
    let memory = Some(f64::INFINITY);
    let options = Options {
        refinement: planned.refinement,
        objective: Objective::Serial,
        memory,
        hardware,
        known,
        ..Options::default()
    };
    let plan = driver::plan("attention", text, &options).map_err(|findings| {
        findings.reports.first().map_or_else(String::new, |first| first.diag.message.clone())
    })?;
    let report = &plan.report;
    Ok(Price {
        comm_s: report.comm_s,
        serial_s: report.serial_s,
        scheduled_s: report.schedule.makespan_s,
        peak_bytes: report.memory.peak_bytes,
    })
}

/// The same in lines for people.
pub(crate) fn lines(attention: &Attention) -> Vec<String> {
    let Attention { scores, queries: (query, length), axes, .. } = attention;
    let head = format!(
        "attention `{scores}`, {query}={length} over {}: comm, scheduled, peak memory",
        axes.join("")
    );
    let rows = attention.ways.iter().map(|outcome| {
        let mark = if outcome.planned { "  <- this plan" } else { "" };
        let cells = match (&outcome.price, &outcome.why_not) {
            (Some(price), _) => {
                let (comm, scheduled) =
                    (units::seconds(price.comm_s), units::seconds(price.scheduled_s));
                format!("{comm:>7}  {scheduled:>7}  {:>7}{mark}", units::bytes(price.peak_bytes))
            }
            (None, why_not) => why_not.clone().unwrap_or_default(),
        };
        format!("  {:<26} {cells}", described(outcome.way))
    });
    [head].into_iter().chain(rows).collect()
}

fn described(way: &str) -> &'static str {
    match way {
        "gather" => "keys and values gathered",
        "ring" => "passed round (ring)",
        "heads" => "split heads (AllToAll)",
        _ => "split keys (split-KV)",
    }
}
