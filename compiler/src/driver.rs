//! The only loop over the pipeline: text in, result out.

use std::sync::Arc;

use shardwise_grammar::ast;
use shardwise_ir::codes;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Mode, Program};
use shardwise_ir::resolve::{Overrides, resolve};
use shardwise_ir::{Diag, Severity, Span, verify};
use shardwise_passes::identical::Once;
use shardwise_passes::liveness;
use shardwise_passes::pipeline::{
    self, Pass, PlanFault, PlanRequest, Planning, Reports, RewriteFault, Rewritten,
};
use shardwise_passes::regroup::Regrouping;
use shardwise_passes::report::report;
use shardwise_passes::{ExpandedPlan, Goal, Request};

use crate::diagnostics::Findings;
use crate::forms;
use crate::hardware::named_file::hardware_file;
use crate::options::{Options, Strategy};
use crate::pass_faults;
use crate::planned::{NoPlan, Origin, Planned, attention_site, budget, claim};

/// A program that was read, with its diagnostics.
#[derive(Debug)]
pub struct Checked {
    /// The program with its dataflow, unless an error was found.
    pub program: Option<Analyzed>,
    /// Errors and warnings, in source order.
    pub findings: Findings,
    /// The values that the program does not compute, since others are equal to them.
    pub computed_once: Vec<Once>,
}

/// Reads a program and reports all its errors and warnings. `name` is the name of the source in
/// diagnostics.
///
/// ```
/// let source = "hardware tpu-v5p\nmesh X=4\ndim B=8\ninput A[B_Y]\noutput A[B]";
/// let checked = shardwise::check("mlp.shard", source, &shardwise::Options::default());
/// assert!(checked.findings.has_errors());
/// assert!(checked.findings.to_string().contains('Y'));
/// ```
pub fn check(name: &str, source: &str, options: &Options) -> Checked {
    read(name, source, options, Pass::LAST_REWRITE)
}

/// Reads a program as far as `last`.
pub(crate) fn read(name: &str, source: &str, options: &Options, last: Pass) -> Checked {
    let (file, diags) = shardwise_grammar::parse(source);
    let regroupings = options.grouping.known();
    resolved(&file, diags, (name, source), options, &|program| {
        pipeline::rewrite(program, regroupings, last)
    })
}

/// The warnings of [`check`] that times are at typical rates, since none were measured on the chip:
/// for commands whose results have no place for warnings.
pub fn unmeasured(name: &str, source: &str, options: &Options) -> Findings {
    let mut findings = check(name, source, options).findings;
    findings.reports.retain(|report| report.diag.code == codes::mesh::NO_MEASUREMENTS);
    findings
}

/// Reads a program without its microbatches, as a reference for what it computes.
pub(crate) fn read_whole_batch(name: &str, source: &str, options: &Options) -> Checked {
    let (file, diags) = shardwise_grammar::parse(source);
    resolved(&file, diags, (name, source), options, &|program| {
        pipeline::rewrite_whole_batch(program).map(Rewritten::from)
    })
}

type Rewrite<'r> = &'r dyn Fn(Program) -> Result<Rewritten, RewriteFault>;

/// Reads a program, and keeps the tree beside it.
pub(crate) fn read_tree(name: &str, source: &str, options: &Options) -> (ast::File, Checked) {
    let (file, diags) = shardwise_grammar::parse(source);
    let checked = check_parsed(&file, diags, (name, source), options);
    (file, checked)
}

/// Checks a program that is parsed, with the errors found there.
pub(crate) fn check_parsed(
    file: &ast::File,
    diags: Vec<Diag>,
    source: (&str, &str),
    options: &Options,
) -> Checked {
    resolved(file, diags, source, options, &|program| {
        pipeline::rewrite(program, options.grouping.known(), Pass::LAST_REWRITE)
    })
}

/// The program, if its pipelines can run; else the reason.
fn staged(program: Analyzed, diags: &mut Vec<Diag>) -> Option<Analyzed> {
    let faults = shardwise_ir::pipeline::faults(&program);
    let can_run = faults.is_empty();
    diags.extend(faults);
    can_run.then_some(program)
}

fn resolved(
    file: &ast::File,
    mut diags: Vec<Diag>,
    (name, source): (&str, &str),
    options: &Options,
    rewrite: Rewrite<'_>,
) -> Checked {
    let Options { hardware, rates, price, fusion, collectives, products, .. } = options.clone();
    let Options { known, mesh, parts, dims, explicit, .. } = options.clone();
    let (file_named, unread) = hardware_file(file, name, options);
    diags.extend(unread);
    let parts = parts.known();
    let overrides = Overrides {
        hardware,
        rates,
        price,
        fusion,
        collectives,
        products,
        known,
        file: file_named,
        mesh,
        parts,
        dims,
        explicit,
    };
    let (program, more) = resolve(file, &overrides);
    // Hardware that cannot be read is reported as such, not as missing.
    let is_named = diags
        .iter()
        .filter_map(|diag| diag.labels.first())
        .any(|label| line_at(source, label.span).starts_with("hardware"));
    diags
        .extend(more.into_iter().filter(|diag| !is_named || diag.code != codes::mesh::NO_HARDWARE));
    let rewritten = program.filter(|_| !has_errors(&diags)).map(|program| match program.mode {
        Mode::Explicit => verify::explicit(program).and_then(|plan| {
            let program = pipeline::with_kernels(plan.program).map(Analyzed::from);
            program.map(Rewritten::from).map_err(|fault| vec![pass_faults::not_one_kernel(&fault)])
        }),
        Mode::Ordinary => rewrite(program).map_err(|fault| pass_faults::of_rewrite(&fault)),
    });
    let mut computed_once = Vec::new();
    let program = match rewritten {
        Some(Ok(rewritten)) => {
            computed_once = rewritten.computed_once;
            staged(rewritten.program, &mut diags)
        }
        Some(Err(faults)) => {
            diags.extend(faults);
            None
        }
        None => None,
    };
    Checked { program, findings: Findings::new(diags, name, source), computed_once }
}

/// The line on which a span begins.
fn line_at(source: &str, span: Span) -> &str {
    let before = source.get(..span.start).unwrap_or_default();
    let start = before.rfind(['\n', '\r']).map_or(0, |end| end + 1);
    source.get(start..).unwrap_or_default().trim_start()
}

/// Plans a program.
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
/// let planned = shardwise::plan("example", source, &shardwise::Options::default())?;
/// assert!(planned.to_string().contains("C[I, K_X] = ReduceScatter_{X,K}(C[I, K] {U_X})"));
/// assert_eq!(planned.json().optimality.status, "optimal");
/// # Ok::<(), shardwise::Findings>(())
/// ```
///
/// # Errors
///
/// The errors of the program, with their places in it: of its text, of its meaning, an `assert`
/// that the plan breaks (SW501), or that no plan fits into the memory of a device. Warnings are in
/// [`Planned::warnings`].
pub fn plan(name: &str, source: &str, options: &Options) -> Result<Planned, Findings> {
    let timed = options.started();
    let again = |other: &Options, goal: Option<Goal>| {
        if goal.is_some() && other.is_due() {
            Err(NoPlan::NotBelow(None))
        } else {
            plan_with(name, source, other, goal)
        }
    };
    let program = || read(name, source, options, Pass::Resolve).program;
    let best = match forms::best(&timed, program, again).and_then(kept_asserts) {
        Ok(best) => best,
        Err(NoPlan::Refused(findings)) => return Err(findings),
        Err(NoPlan::NotBelow(_)) => unreachable!("without a goal every plan is wanted"),
    };
    let Options { parts, grouping, .. } = best.options.clone();
    Ok(Planned { options: Options { parts, grouping, ..options.clone() }, ..best })
}

/// The plan of a program as the options say, without other orders or parts, if it reaches the goal.
pub(crate) fn plan_below(
    name: &str,
    source: &str,
    options: &Options,
    goal: Option<Goal>,
) -> Result<Planned, NoPlan> {
    let planned = plan_with(name, source, &options.started(), goal).and_then(kept_asserts)?;
    Ok(Planned { options: options.clone(), ..planned })
}

/// The plan, if it keeps the program's asserts.
fn kept_asserts(planned: Planned) -> Result<Planned, NoPlan> {
    if planned.keeps_asserts() { Ok(planned) } else { Err(NoPlan::Refused(planned.broken)) }
}

/// The plan with the parts of axes and the groupings that options name, whether or not it keeps the
/// program's asserts, if it reaches the goal.
fn plan_with(
    name: &str,
    source: &str,
    options: &Options,
    goal: Option<Goal>,
) -> Result<Planned, NoPlan> {
    let checked = check(name, source, options);
    let Some(program) = checked.program else {
        return Err(NoPlan::Refused(checked.findings));
    };
    let refuse = |diags: Vec<Diag>| Findings::new(diags, name, source);
    let attention = attention_site::sites(&program);
    let capacity_bytes = options.capacity(&program);
    let request = Request { goal: goal.map(Arc::new), ..request(&program, options) };
    let made = made_to_fit(program, options, request).map_err(|none| none.map(refuse));
    let (plan, reports, origin) = made?;
    let Reports { plan: mut report, mut textbook, rules_fail } = reports;
    let broken = refuse(budget::broken(&plan, &report));
    let mut warnings: Vec<Diag> =
        checked.findings.reports.into_iter().map(|report| report.diag).collect();
    warnings.extend(budget::over_capacity(&plan, &report, capacity_bytes));
    let share = plan.program.hardware.allocator_share();
    for report in [&mut report, &mut textbook] {
        report.add_allocator(share, capacity_bytes);
    }
    let carried_claim = matches!(origin, Origin::Explicit)
        .then(|| claim::read(source, &plan.to_string()))
        .flatten();
    let notes = if carried_claim.is_some() {
        claim::notes(source)
    } else {
        notes(options.grouping.known(), &checked.computed_once)
    };
    Ok(Planned {
        name: name.to_owned(),
        plan,
        report,
        textbook,
        rules_fail,
        objective: options.objective,
        capacity_bytes,
        refinement: options.refinement,
        warnings: refuse(warnings),
        broken,
        source: source.to_owned(),
        options: options.clone(),
        attention,
        notes,
        origin,
        carried_claim,
        is_small: false,
    })
}

/// The columns of a note.
const MOST_COLUMNS: usize = 78;

/// What the statements of a plan do not show, in lines.
fn notes(regrouped: &[Regrouping], computed_once: &[Once]) -> Vec<String> {
    let regrouped = regrouped.iter().map(|of| {
        let long = format!("regrouped, equal but for rounding: {}", of.text);
        if long.len() <= MOST_COLUMNS { long } else { format!("regrouped: {}", of.result) }
    });
    let once = computed_once.iter();
    let once = once.map(|of| format!("computed once: {} is equal to {}", of.name, of.equal_to));
    regrouped.chain(once).collect()
}

/// The canonical layout of a program, its comments kept; lines end as the first one does.
///
/// ```
/// assert_eq!(shardwise::format("a.shard", "dim   B = 8 ,D=4").unwrap(), "dim B=8, D=4\n");
/// assert_eq!(shardwise::format("a.shard", "dim  B=8\r\n").unwrap(), "dim B=8\r\n");
/// ```
///
/// # Errors
///
/// The statements that cannot be parsed.
pub fn format(name: &str, source: &str) -> Result<String, Findings> {
    formatted(source).map_err(|diags| Findings::new(diags, name, source))
}

/// The same, with the mistakes as they are.
pub(crate) fn formatted(source: &str) -> Result<String, Vec<Diag>> {
    let text = shardwise_grammar::format(source)?;
    let first = source.split_inclusive('\n').next().unwrap_or_default();
    Ok(if first.ends_with("\r\n") { text.replace('\n', "\r\n") } else { text })
}

/// The plan of a program, composites not yet expanded, and nothing beside it.
pub(crate) fn plan_of(program: &Analyzed, options: &Options) -> Result<Plan, Vec<Diag>> {
    match program.mode {
        Mode::Explicit => verify::explicit(Program::clone(program)),
        Mode::Ordinary => {
            planned_until(program, options, Pass::Search).map(|planning| planning.into_found().plan)
        }
    }
}

/// A rewritten program after the passes up to `last`.
pub(crate) fn planned_until<'p>(
    program: &'p Analyzed,
    options: &Options,
    last: Pass,
) -> Result<Planning<'p>, Vec<Diag>> {
    planned(program, options, request(program, options), last)
        .map_err(|fault| pass_faults::of_plan(program, &fault, options).into_iter().collect())
}

/// What the search is asked for.
fn request(program: &Program, options: &Options) -> Request {
    Request {
        objective: options.objective,
        interrupt: options.interrupt(),
        capacity: options.capacity(program),
        effort: options.effort,
        goal: None,
        most_busy_s: None,
    }
}

fn planned<'p>(
    program: &'p Analyzed,
    options: &Options,
    search: Request,
    last: Pass,
) -> Result<Planning<'p>, PlanFault> {
    let Options { strategy, refinement, .. } = *options;
    pipeline::plan(program, PlanRequest { strategy, refinement, search }, last)
}

/// A plan with its costs and its claim of optimality.
type Made = (ExpandedPlan<'static>, Reports, Origin);

/// The plan of a program; where the plan without a limit does not fit into memory, that of the
/// program without what frameworks keep where memory allows. Plans of the former are plans of the
/// latter in more memory, so that its bound holds for both.
fn made_to_fit(
    program: Analyzed,
    options: &Options,
    request: Request,
) -> Result<Made, NoPlan<Vec<Diag>>> {
    let Some(smaller) = pipeline::saving_memory(&program) else {
        return made(program, options, request);
    };
    let is_known = request.goal.as_ref().is_some_and(|goal| goal.unlimited_s.is_some());
    let is_sum = options.objective.is_sum();
    // What is no sum is searched from plans within memory.
    let capacity = request.capacity.filter(|_| !is_sum);
    if !is_known {
        match made(program, options, Request { capacity, ..request.clone() }) {
            Ok(kept) if fits(&kept, &request) => return Ok(kept),
            Err(not_below @ NoPlan::NotBelow(_)) if is_sum => return Err(not_below),
            _ => {}
        }
    }
    made(smaller.into(), options, request)
}

fn fits((_, reports, _): &Made, request: &Request) -> bool {
    request.capacity.is_none_or(|capacity| reports.plan.memory.peak_bytes <= capacity)
}

fn made(program: Analyzed, options: &Options, request: Request) -> Result<Made, NoPlan<Vec<Diag>>> {
    if program.mode == Mode::Explicit {
        let mut plan = verify::explicit(program.into_program()).map_err(NoPlan::Refused)?;
        liveness::charge_heaviest(&mut plan);
        let plan = ExpandedPlan::from(plan);
        let report = report(&plan, options.refinement);
        return Ok((
            plan,
            Reports { textbook: report.clone(), plan: report, rules_fail: false },
            Origin::Explicit,
        ));
    }
    let planning =
        planned(&program, options, request, Pass::Report).map_err(|fault| match fault {
            PlanFault::NotBelow(lower_bound_s) => NoPlan::NotBelow(lower_bound_s),
            _ => NoPlan::Refused(
                pass_faults::of_plan(&program, &fault, options).into_iter().collect(),
            ),
        })?;
    let (found, plan, reports) = planning.finish();
    let origin = match options.strategy {
        Strategy::Search => Origin::Searched(Box::new(found)),
        Strategy::Textbook => Origin::Textbook,
    };
    Ok((plan, reports, origin))
}

fn has_errors(diags: &[Diag]) -> bool {
    diags.iter().any(|diag| diag.severity == Severity::Error)
}
