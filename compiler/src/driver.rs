//! The only loop over the pipeline: text in, result out.

use shardwise_grammar::ast;
use shardwise_ir::codes;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Mode, Program};
use shardwise_ir::resolve::{Overrides, resolve};
use shardwise_ir::{Diag, Severity, Span, verify};
use shardwise_passes::cost::report::report;
use shardwise_passes::propagate::composite::written_out;
use shardwise_passes::propagate::textbook::{self, Infeasible};
use shardwise_passes::reshard::tables::Tables;
use shardwise_passes::search::plan::{Found, Refusal, Request, search};

use crate::diagnostics::Findings;
use crate::hardware::named_file::hardware_file;
use crate::options::{Options, Strategy};
use crate::pipeline::{self, Pass};
use crate::planned::{Origin, Planned, attention_site, budget, claim};

/// A program that was read, and what is to be said of it.
#[derive(Debug)]
pub struct Checked {
    /// The program, unless an error was found.
    pub program: Option<Program>,
    /// Errors and warnings, in source order.
    pub findings: Findings,
}

/// Reads a program and says everything that is wrong with it. `name` is what diagnostics call the
/// source.
///
/// ```
/// let checked = shardwise::check("mlp.shard", "hardware tpu-v5p\nmesh X=4\ndim B=8\ninput A[B_Y]\noutput A[B]", &shardwise::Options::default());
/// assert!(checked.findings.has_errors());
/// assert!(checked.findings.to_string().contains('Y'));
/// ```
pub fn check(name: &str, source: &str, options: &Options) -> Checked {
    read(name, source, options, Pass::LAST)
}

/// The program as it is after a pass, printed as a program.
///
/// ```
/// let source = "
/// hardware tpu-v5p
/// mesh X=4
/// dim B=1024, D=64, F=256
/// input In[B_X, D], dOut[B_X, F]
/// param W[D, F]
/// Out = In *D W
/// backward from Out given dOut
/// output Out[B_X, F]
/// ";
/// let derived = shardwise::print_after("w", source, &shardwise::Options::default(), shardwise::Pass::Gradient)?;
/// assert!(derived.contains("dW = In *B dOut"));
/// # Ok::<(), shardwise::Findings>(())
/// ```
pub fn print_after(
    name: &str,
    source: &str,
    options: &Options,
    pass: Pass,
) -> Result<String, Findings> {
    let checked = read(name, source, options, pass);
    checked.program.map(|program| program.to_string()).ok_or(checked.findings)
}

/// Reads a program as far as `last`.
fn read(name: &str, source: &str, options: &Options, last: Pass) -> Checked {
    let (file, diags) = shardwise_grammar::parse(source);
    resolved(&file, diags, (name, source), options, &|program| pipeline::rewrite(program, last))
}

/// Reads a program for what it computes, however it is to be cut into microbatches.
pub(crate) fn read_whole_batch(name: &str, source: &str, options: &Options) -> Checked {
    let (file, diags) = shardwise_grammar::parse(source);
    resolved(&file, diags, (name, source), options, &pipeline::whole_batch)
}

type Rewrite<'r> = &'r dyn Fn(Program) -> Result<Program, Vec<Diag>>;

/// Reads a program, and keeps the tree beside it.
pub(crate) fn read_tree(name: &str, source: &str, options: &Options) -> (ast::File, Checked) {
    let (file, diags) = shardwise_grammar::parse(source);
    let checked = resolved(&file, diags, (name, source), options, &|program| {
        pipeline::rewrite(program, Pass::LAST)
    });
    (file, checked)
}

/// The program, if its pipelines can run; else what keeps them from that.
fn staged(program: Program, diags: &mut Vec<Diag>) -> Option<Program> {
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
    let Options { hardware, known, mesh, dims, explicit, .. } = options.clone();
    let (file_named, unread) = hardware_file(file, name, options);
    diags.extend(unread);
    let overrides = Overrides { hardware, known, file: file_named, mesh, dims, explicit };
    let (program, more) = resolve(file, &overrides);
    // Hardware that cannot be read is no hardware that is not named.
    let is_named = diags
        .iter()
        .filter_map(|diag| diag.labels.first())
        .any(|label| line_at(source, label.span).starts_with("hardware"));
    diags
        .extend(more.into_iter().filter(|diag| !is_named || diag.code != codes::mesh::NO_HARDWARE));
    let mut program = program.filter(|_| !has_errors(&diags));
    if let Some(explicit) = program.take_if(|program| program.mode == Mode::Explicit) {
        match verify::explicit(explicit) {
            Ok(plan) => program = staged(plan.program, &mut diags),
            Err(faults) => diags.extend(faults),
        }
    } else if let Some(ordinary) = program.take() {
        match rewrite(ordinary) {
            Ok(rewritten) => program = staged(rewritten, &mut diags),
            Err(faults) => diags.extend(faults),
        }
    }
    Checked { program, findings: Findings::new(diags, name, source) }
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
pub fn plan(name: &str, source: &str, options: &Options) -> Result<Planned, Findings> {
    let checked = check(name, source, options);
    let Some(program) = checked.program else {
        return Err(checked.findings);
    };
    let refuse = |diags: Vec<Diag>| Findings::new(diags, name, source);
    let attention = attention_site::sites(&program);
    let made = match program.mode {
        Mode::Explicit => explicit(program),
        Mode::Ordinary => choose(&program, options).map(in_full),
    };
    let (plan, textbook_plan, origin) = made.map_err(refuse)?;
    let report_of = |plan: &Plan| report(plan, options.refinement);
    let report = report_of(&plan);
    let textbook = textbook_plan.map_or_else(|| report.clone(), |textbook| report_of(&textbook));
    let broken = budget::broken(&plan, &report);
    if !broken.is_empty() {
        return Err(refuse(broken));
    }
    let capacity_bytes =
        options.memory.or(plan.program.hardware.hbm_bytes).filter(|bytes| bytes.is_finite());
    let mut warnings: Vec<Diag> =
        checked.findings.reports.into_iter().map(|report| report.diag).collect();
    warnings.extend(budget::over_capacity(&plan, &report, capacity_bytes));
    let carried_claim =
        (origin == Origin::Explicit).then(|| claim::read(source, &plan.to_string())).flatten();
    let warnings = refuse(warnings);
    let objective = options.objective;
    let name = name.to_owned();
    let refinement = options.refinement;
    Ok(Planned {
        name,
        plan,
        report,
        textbook,
        objective,
        capacity_bytes,
        refinement,
        warnings,
        attention,
        origin,
        carried_claim,
    })
}

/// The canonical layout of a program, its comments kept.
///
/// ```
/// assert_eq!(shardwise::format("a.shard", "dim   B = 8 ,D=4").unwrap(), "dim B=8, D=4\n");
/// ```
pub fn format(name: &str, source: &str) -> Result<String, Findings> {
    shardwise_grammar::format(source).map_err(|diags| Findings::new(diags, name, source))
}

/// The plan of a program, and nothing beside it.
pub(crate) fn plan_of(program: &Program, options: &Options) -> Result<Plan, Vec<Diag>> {
    let made = match program.mode {
        Mode::Explicit => explicit(program.clone()),
        Mode::Ordinary => choose(program, options),
    };
    made.map(|(plan, ..)| plan)
}

type Made = (Plan, Option<Plan>, Origin);

/// The same with composites written out.
fn in_full((plan, textbook, origin): Made) -> Made {
    let plan = written_out(&plan).into_owned();
    debug_assert!(
        verify::plan(&plan).is_ok(),
        "a plan is a plan: {:?}\n{plan}",
        verify::plan(&plan)
    );
    (plan, textbook, origin)
}

fn explicit(program: Program) -> Result<Made, Vec<Diag>> {
    let plan = verify::explicit(program)?;
    Ok((plan, None, Origin::Explicit))
}

fn choose(program: &Program, options: &Options) -> Result<Made, Vec<Diag>> {
    if let Some(value) = Tables::too_large(program) {
        return Err(vec![too_large(program, value)]);
    }
    let tables = Tables::new(program, options.refinement);
    let refuse = |infeasible: Infeasible| vec![no_layout(program, infeasible)];
    let textbook = textbook::plan(&tables).map_err(refuse)?;
    let capacity = options.memory.or(program.hardware.hbm_bytes);
    if options.strategy == Strategy::Textbook {
        return match budget::no_room(&textbook, "the textbook's plan", capacity) {
            Some(diag) => Err(vec![diag]),
            None => Ok((textbook.clone(), Some(textbook), Origin::Textbook)),
        };
    }
    let Found { plan, optimality, alternatives, .. } = {
        let request = Request { objective: options.objective, timeout: options.timeout, capacity };
        search(&tables, &textbook, request).map_err(|refusal| match refusal {
            Refusal::Infeasible(infeasible) => refuse(infeasible),
            Refusal::NoRoom(smallest, _) => {
                budget::no_room(&smallest, "the smallest plan found", capacity)
                    .into_iter()
                    .collect()
            }
        })?
    };
    Ok((plan, Some(textbook), Origin::Searched(optimality, alternatives)))
}

fn too_large(program: &Program, value: ValueId) -> Diag {
    let value = &program.values[value];
    let axes = program.mesh.axes.len();
    let message = format!(
        "`{}` has {} dimensions on {axes} mesh axes: more shardings than can be tabulated",
        value.name,
        value.dims.len()
    );
    Diag::error(codes::mesh::TOO_LARGE, message, value.span, "this value")
        .help("leave out axes of size 1, or join axes that always go together")
}

fn no_layout(program: &Program, infeasible: Infeasible) -> Diag {
    let op = &program.ops[infeasible.op];
    if let Some(fault) = verify::pinned_fault(program, op) {
        return fault;
    }
    let result = &program.values[op.result].name;
    let mut diag = Diag::error(
        codes::sharding::NO_LAYOUT,
        format!("no layout of `{result}` fits what its brackets ask for"),
        op.span,
        "every way to split this statement breaks one of its brackets",
    );
    for operand in op.operands.iter().filter(|operand| operand.pin.is_some()) {
        diag = diag.and(operand.span, "this use is pinned");
    }
    diag.help(
        "leave the brackets off one operand, so that it can be gathered or sliced for this use",
    )
}

fn has_errors(diags: &[Diag]) -> bool {
    diags.iter().any(|diag| diag.severity == Severity::Error)
}
