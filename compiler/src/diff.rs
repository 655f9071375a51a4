//! Compares two plans: lists the collectives that were added, removed or changed, for a reviewer.
//!
//! Collectives are matched by the value that they reshard and the statement (or output) that reads
//! the result, not by line: one more step is one addition, wherever the other lines are. A textual
//! diff of two plans would be simpler, but every comment of a plan changes with a size, and a step
//! at another line would be both removed and added. Free steps (slices, axes of one device) are
//! left out.

mod html;
mod limits;
mod markdown;
mod pairs;
mod text;

use serde::Serialize;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::print;
use shardwise_passes::report::StepCost;
use strum::VariantArray;

use crate::Planned;
use crate::display::Format;
use crate::hardware;
use crate::planned::step_name::category;
use crate::use_def::{UseDef, User, moves_data};

pub use limits::{Limits, Quantity};

/// The difference between two plans.
///
/// ```
/// let source = "
/// hardware tpu-v5p
/// mesh X=4
/// dim I=8192, J=8192, K=8192
/// input A[I, J_X], B[J_X, K]
/// C = A *J B
/// output C[I, K_X]
/// ";
/// let options = shardwise::Options::default();
/// let before = shardwise::plan("before", source, &options)?;
/// let after = shardwise::plan("after", &source.replace("C[I, K_X]", "C[I, K]"), &options)?;
/// let diff = shardwise::diff(&before, &after);
/// assert_eq!((diff.added.len(), diff.removed.len(), diff.changed.len()), (0, 0, 1));
/// assert!(diff.to_string().contains("C[I, K] = AllReduce_X(C[I, K] {U_X})"));
/// # Ok::<(), shardwise::Findings>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Always `shardwise.diff/1`.
    pub schema: String,
    /// The name of the first plan.
    pub before: String,
    /// The name of the second plan.
    pub after: String,
    /// Hardware, rates, axes, dimensions and blocks that differ.
    pub settings: Vec<Setting>,
    /// Collectives that only the second plan has.
    pub added: Vec<Line>,
    /// Collectives that only the first plan has.
    pub removed: Vec<Line>,
    /// Collectives whose sharding, number of times, bytes, time or criticality differ.
    pub changed: Vec<Change>,
    /// How many collectives are the same.
    pub unchanged: usize,
    /// Local operations that have another layout or time, or are in one plan only.
    pub statements: Vec<Statement>,
    /// The totals: times, bytes communicated, memory.
    pub totals: Vec<Total>,
}

/// A collective or a local operation of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// `AllGather_X`, `ReduceScatter_{X,K}`; `compute` for local operations.
    pub what: String,
    /// The value that it produces.
    pub value: String,
    /// The reader of the result: the value of a statement, `output`, or `home` for the brackets on
    /// its own left side.
    pub needed_by: Vec<String>,
    /// How often a device runs it: for each layer and microbatch.
    pub times: f64,
    /// Bytes, all times together: the cost model's `V` of a collective, the traffic of a local
    /// operation.
    pub bytes: f64,
    /// Seconds, all times together.
    pub time_s: f64,
    /// Whether it is critical: a longer step makes the schedule longer.
    pub critical: bool,
    /// The line as the plan prints it.
    pub text: String,
}

/// The same collective in both plans.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// In the first plan.
    pub before: Line,
    /// In the second plan.
    pub after: Line,
}

/// A local operation; absent on one side where only one plan has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// In the first plan.
    pub before: Option<Line>,
    /// In the second plan.
    pub after: Option<Line>,
}

/// A declaration that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// `hardware`, `rates`, `mesh` or `dim`, or the keyword of a block: `repeat`, `pipeline`.
    pub what: String,
    /// As the first program writes it; empty where it does not.
    pub before: String,
    /// As the second program writes it; empty where it does not.
    pub after: String,
}

/// One total.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Total {
    /// `serial`, `scheduled`, `overlap`, `compute`, `comm`, `bubble` (where there is a pipeline),
    /// `moved` (bytes of all collectives) or `memory` (bytes at the peak).
    pub name: String,
    /// `seconds` or `bytes`.
    pub unit: String,
    /// Of the first plan.
    pub before: f64,
    /// Of the second plan.
    pub after: f64,
}

/// Compares two plans.
pub fn diff(before: &Planned, after: &Planned) -> Diff {
    let (old, new) = (lines(before, true), lines(after, true));
    let pairs::Pairs { added, removed, both } = pairs::pair(old, new);
    let (same, changed): (Vec<Change>, Vec<Change>) =
        both.into_iter().partition(|change| same(&change.before, &change.after));
    Diff {
        schema: "shardwise.diff/1".to_owned(),
        before: before.name.clone(),
        after: after.name.clone(),
        settings: settings(&before.plan, &after.plan),
        added,
        removed,
        changed,
        unchanged: same.len(),
        statements: pairs::statements(lines(before, false), lines(after, false)),
        totals: totals(before, after),
    }
}

/// Whether two lines have the same text and cost.
fn same(before: &Line, after: &Line) -> bool {
    let numbers = |line: &Line| [line.times, line.bytes, line.time_s].map(f64::to_bits);
    let cost = |line: &Line| (numbers(line), line.critical);
    before.text == after.text && cost(before) == cost(after)
}

/// The collectives that communicate, or the local operations.
fn lines(planned: &Planned, collectives: bool) -> Vec<Line> {
    let steps = planned.plan.steps.iter().zip(&planned.report.steps).enumerate();
    let wanted = |step: &Step, cost: &StepCost| {
        if collectives { moves_data(step, cost) } else { !cost.is_move(step) }
    };
    let use_def = UseDef::of(planned);
    steps
        .filter(|(_, (step, cost))| wanted(step, cost))
        .map(|(number, _)| line(planned, use_def, number))
        .collect()
}

fn line(planned: &Planned, use_def: UseDef<'_>, number: usize) -> Line {
    let (step, cost) = (&planned.plan.steps[number], &planned.report.steps[number]);
    let program = &planned.plan.program;
    let value = &program.values[step.result.value];
    let (what, needed_by) = match &step.kind {
        StepKind::Local(_) if cost.is_move(step) => {
            let axes = program.mesh.names(&cost.axes).concat();
            let over = if cost.uses_host { String::new() } else { format!("_{axes}") };
            let what = category(step, cost).to_owned() + &over;
            (what, needed_by(&planned.plan, &use_def.users(number)))
        }
        StepKind::Local(_) => ("compute".to_owned(), Vec::new()),
        StepKind::Collective(collective, _) => (
            print::Printer::new(program).collective(&value.dims, collective),
            needed_by(&planned.plan, &use_def.users(number)),
        ),
    };
    Line {
        what,
        value: value.name.clone(),
        needed_by,
        times: cost.times,
        bytes: cost.total_bytes(),
        time_s: cost.total_s(),
        critical: planned.report.schedule.critical[number],
        text: print::step(&planned.plan.program, step),
    }
}

fn needed_by(plan: &Plan, readers: &[User]) -> Vec<String> {
    let name = |reader: &User| match reader {
        User::DeclaredSharding(_) => "home".to_owned(),
        User::Statement(_, op) => plan.program.values[plan.program.ops[*op].result].name.clone(),
        User::Output(_) => "output".to_owned(),
    };
    readers.iter().map(name).collect()
}

fn settings(before: &Plan, after: &Plan) -> Vec<Setting> {
    let (old, new) = (&before.program, &after.program);
    let mut settings = vec![("hardware", old.hardware.name.clone(), new.hardware.name.clone())];
    if old.hardware.name == new.hardware.name {
        // A hardware file may define other numbers under the same name.
        let numbers = pairs::named(
            hardware::assignments(&old.hardware),
            hardware::assignments(&new.hardware),
        );
        settings.extend(numbers.into_iter().map(|(old, new)| ("hardware", old, new)));
    }
    // Times at different rates differ though plans are the same.
    let rates = |plan: &Plan| plan.program.hardware.rates.name().to_owned();
    settings.push(("rates", rates(before), rates(after)));
    let axes = |plan: &Plan| {
        plan.program
            .mesh
            .declared()
            .map(|(axis, parts)| (axis.name.clone(), print::axis(axis, &parts)))
            .collect::<Vec<_>>()
    };
    let dims = |plan: &Plan| {
        plan.program
            .dims
            .iter()
            .map(|dim| (dim.name.clone(), format!("{}={}", dim.name, dim.size)))
            .collect::<Vec<_>>()
    };
    settings.extend(
        pairs::named(axes(before), axes(after)).into_iter().map(|(old, new)| ("mesh", old, new)),
    );
    settings.extend(
        pairs::named(dims(before), dims(after)).into_iter().map(|(old, new)| ("dim", old, new)),
    );
    let settings = settings.into_iter().map(|(what, before, after)| Setting {
        what: what.to_owned(),
        before,
        after,
    });
    let settings = settings.chain(blocks(before, after));
    settings.filter(|setting| setting.before != setting.after).collect()
}

/// The blocks of two plans, those of one keyword and name together.
fn blocks(before: &Plan, after: &Plan) -> impl Iterator<Item = Setting> {
    let heads = |plan: &Plan| {
        let heads = print::Printer::new(&plan.program).block_heads().into_iter();
        heads.map(|head| (head.split(['=', ',']).next().unwrap_or_default().to_owned(), head))
    };
    let both = pairs::named(heads(before).collect(), heads(after).collect()).into_iter();
    both.map(|(before, after)| {
        let keyword = [&after, &before].into_iter().find_map(|head| head.split_once(' '));
        let what = keyword.map_or("block", |(keyword, _)| keyword).to_owned();
        let rest = |head: String| head.trim_start_matches(&what).trim_start().to_owned();
        Setting { before: rest(before), after: rest(after), what }
    })
}

fn totals(before: &Planned, after: &Planned) -> Vec<Total> {
    let time = |quantity: Quantity| {
        (quantity.name(), "seconds", quantity.of(&before.report), quantity.of(&after.report))
    };
    let moved = |planned: &Planned| {
        lines(planned, true).iter().map(|line| line.bytes).fold(0.0, |a, b| a + b)
    };
    let bytes = [
        ("moved", "bytes", moved(before), moved(after)),
        ("memory", "bytes", before.report.memory.peak_bytes, after.report.memory.peak_bytes),
    ];
    let bubbles = [before, after].map(|planned| planned.report.bubble_s);
    let bubble = ("bubble", "seconds", bubbles[0], bubbles[1]);
    let bubble = Some(bubble).filter(|_| bubbles.iter().any(|bubble| *bubble > 0.0));
    let rows = Quantity::VARIANTS.iter().copied().map(time).chain(bubble).chain(bytes);
    rows.map(|(name, unit, before, after)| Total {
        name: name.to_owned(),
        unit: unit.to_owned(),
        before,
        after,
    })
    .collect()
}

/// The formats of differences.
pub const FORMATS: &[Format<Diff>] = &[
    Format { name: "text", about: "Lines for a terminal", write: |diff| Ok(diff.to_string()) },
    Format {
        name: "md",
        about: "Markdown, for a comment on a pull request",
        write: |diff| Ok(diff.markdown()),
    },
    Format { name: "json", about: "JSON, `shardwise.diff/1`", write: |diff| Ok(diff.json()) },
    Format { name: "html", about: "A page for the browser", write: html::html },
];

impl Diff {
    /// Whether both plans have the same steps at the same price.
    pub fn is_empty(&self) -> bool {
        let steps = self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && self.statements.is_empty();
        steps
            && self.settings.is_empty()
            && self.totals.iter().all(|total| total.before.to_bits() == total.after.to_bits())
    }

    /// The JSON text, indented.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// A comment for a pull request.
    pub fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    /// The limits that the second plan breaks, a sentence each.
    pub fn broken(&self, limits: &Limits) -> Vec<String> {
        limits.broken(self)
    }

    /// What differs, before and after: collectives that are gone, new and changed, then local
    /// operations.
    fn lines(&self) -> impl Iterator<Item = [Option<&Line>; 2]> {
        let removed = self.removed.iter().map(|line| [Some(line), None]);
        let added = self.added.iter().map(|line| [None, Some(line)]);
        let changed = self.changed.iter().map(|change| [Some(&change.before), Some(&change.after)]);
        let statements = self.statements.iter();
        let statements = statements.map(|of| [of.before.as_ref(), of.after.as_ref()]);
        removed.chain(added).chain(changed).chain(statements)
    }

    /// One total, by its name.
    pub fn total(&self, name: &str) -> Option<&Total> {
        self.totals.iter().find(|total| total.name == name)
    }
}

impl std::fmt::Display for Diff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text::text(self))
    }
}
