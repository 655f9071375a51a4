//! `verify`: runs a plan on simulated devices and compares it with the unsharded program.
//!
//! The text of the plan is parsed and executed step by step: every device has only its blocks,
//! local operations read only local blocks, and only collectives communicate, by their definition.
//! Neither the planner nor the verifier is used: the effect of a step follows from the sharding of
//! its operand and the name, axes and receiving dimensions of its collective. After every step
//! every device is compared with the unsharded value, replicas included; partial values are
//! compared after combining their parts.
//!
//! Sizes are scaled down to the smallest that keep every split whole and the dimensions apart
//! (`scale`); data are small integers, so that sums and products are exact in `f64` and equality is
//! plain (`unsharded`); functions that are not linear are compared with a tolerance.
//!
//! A correctly typed plan computes its own statements correctly, but these may differ from what its
//! author meant. Therefore a plan written by hand can be run [`against`] the sketch that it
//! implements.

mod collectives;
mod compared;
mod devices;
mod effort;
mod evaluate;
mod run;
mod scale;
mod slices;
mod unsharded;
mod verdict;

use rustc_hash::FxHashMap;
use shardwise_ir::codes;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Op, Output, Program};
use shardwise_ir::{Diag, print, verify as rules};

use crate::diagnostics::Findings;
use crate::driver::{check, plan as make_plan, read_whole_batch};
use crate::options::{AxisParts, Options};

pub use scale::Sizes;
pub(crate) use scale::gcd;
pub(crate) use scale::{padded_sizes, small};
pub use unsharded::evaluate;
pub use verdict::{Fault, Mismatch, Verdict};

/// The tolerance for results of functions that are not linear, relative to a value's largest
/// element, or to what rounding errors become on the way to it.
pub const TOLERANCE: f64 = 1e-9;

/// Options of a run.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The sizes.
    pub sizes: Sizes,
    /// The seed of the data.
    pub seed: u64,
    /// Whether what is too large to be run whole is run in samples, instead of being refused.
    pub samples: bool,
    /// Called after every statement with the number of those run and of all.
    pub progress: &'a dyn Fn(usize, usize),
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self { sizes: Sizes::Scaled, seed: 1, samples: true, progress: &|_, _| {} }
    }
}

/// Plans `source` (an explicit program is its own plan) and runs the plan against the program.
///
/// ```
/// use shardwise::verify::{Setup, verify};
/// let source = "
/// hardware tpu-v5p
/// mesh X=4
/// dim I=8192, J=8192, K=8192
/// input A[I, J_X], B[J_X, K]
/// C = A *J B
/// output C[I, K_X]
/// ";
/// let verdict = verify("example", source, &shardwise::Options::default(), &Setup::default())?;
/// assert!(verdict.mismatch.is_none() && verdict.largest_error == 0.0);
/// # Ok::<(), shardwise::Findings>(())
/// ```
///
/// # Errors
///
/// The errors of the program, or that it is too large to be run at the sizes asked for. A plan that
/// computes other values is no error: [`Verdict::mismatch`].
pub fn verify(
    name: &str,
    source: &str,
    options: &Options,
    setup: &Setup<'_>,
) -> Result<Verdict, Findings> {
    let planned = make_plan(name, source, options)?;
    let plan = explicit(name, &planned.plan.to_string(), options)?;
    let original = read_whole_batch(name, source, &planned.options);
    let Some(program) = original.program else { return Err(original.findings) };
    let verdict =
        execute(&program, &plan, setup).map_err(|diag| Findings::new(vec![diag], name, source))?;
    Ok(Verdict { plan: planned.strategy_name(), rules_fail: planned.rules_fail, ..verdict })
}

/// Runs the explicit program `source` against the program `reference`; values are matched by name.
///
/// ```
/// use shardwise::verify::{Setup, against};
/// let sketch = "hardware tpu-v5p\nmesh X=4\ndim I=8, J=8\ninput A[I_X, J]\nB = gelu(A)\n\
///     C = 2.0 * B\noutput C[I_X, J]";
/// let forgets = "plan\nhardware tpu-v5p\nmesh X=4\ndim I=8, J=8\ninput A[I_X, J]\n\
///     C[I_X, J] = 2.0 * A[I_X, J]\noutput C[I_X, J]";
/// let options = shardwise::Options::default();
/// let verdict = against(("plan", forgets), ("sketch", sketch), &options, &Setup::default())?;
/// assert_eq!(verdict.mismatch.unwrap().statement, "C[I_X, J] = 2.0 * A[I_X, J]");
/// # Ok::<(), shardwise::Findings>(())
/// ```
///
/// # Errors
///
/// Those of [`verify`], of either program.
pub fn against(
    source: (&str, &str),
    reference: (&str, &str),
    options: &Options,
    setup: &Setup<'_>,
) -> Result<Verdict, Findings> {
    let plan = explicit(source.0, source.1, options)?;
    let parts = AxisParts::of(&plan.program.mesh);
    let checked = read_whole_batch(reference.0, reference.1, &Options { parts, ..options.clone() });
    let Some(program) = checked.program else { return Err(checked.findings) };
    let unlike = unlike(&program, &plan);
    if !unlike.is_empty() {
        return Err(Findings::new(unlike, source.0, source.1));
    }
    execute(&program, &plan, setup)
        .map_err(|diag| Findings::new(vec![diag], reference.0, reference.1))
}

/// An explicit program as a plan.
fn explicit(name: &str, text: &str, options: &Options) -> Result<Plan, Findings> {
    let read = check(name, text, &Options { explicit: true, ..options.clone() });
    let Some(program) = read.program else { return Err(read.findings) };
    rules::explicit(program.into_program()).map_err(|diags| Findings::new(diags, name, text))
}

/// Differences between what a plan starts from and leaves, and what `program` does.
fn unlike(program: &Program, plan: &Plan) -> Vec<Diag> {
    let mut diags = Vec::new();
    for value in plan.program.values.iter().filter(|value| value.is_declared()) {
        if !program.values.iter().any(|other| other.name == value.name) {
            let message = format!("the program has no `{}` for the plan to start from", value.name);
            diags.push(
                Diag::error(codes::budget::UNLIKE, message, value.span, "declared here")
                    .help("declare what the program declares"),
            );
        }
    }
    for dim in &plan.program.dims {
        if let Some(other) =
            program.dims.iter().find(|other| other.name == dim.name && other.size != dim.size)
        {
            let message =
                format!("`{}` is {} here, and {} in the program", dim.name, dim.size, other.size);
            diags.push(
                Diag::error(codes::budget::UNLIKE, message, dim.span, "this size")
                    .help(format!("write `{}={}`", dim.name, other.size)),
            );
        }
    }
    diags.extend(other_axes(program, plan));
    diags.extend(other_outputs(program, plan));
    diags
}

/// Errors about what leaves `program` or is there in the next step, where the plan has the value
/// and does not say so. A value that it never produces is found when it is run.
fn other_outputs(program: &Program, plan: &Plan) -> Vec<Diag> {
    let plan = &plan.program;
    let kept = |of: &Program, output: &Output| {
        let updated = of.updates(output).map(|value| whole_name(of, value));
        (whole_name(of, output.value), updated)
    };
    let leaves = |of: &&Output| of.yields_to.is_none() || program.updates(of).is_some();
    let missing = program.outputs.iter().filter(leaves).filter_map(|output| {
        let wanted = kept(program, output);
        let has_same = plan.outputs.iter().any(|other| kept(plan, other) == wanted);
        let value = plan.values.indices().find(|&value| whole_name(plan, value) == wanted.0)?;
        (!has_same).then_some((wanted, value))
    });
    let diag = |((name, updated), value): ((String, Option<String>), ValueId)| {
        let Some(updated) = updated else {
            let message = format!("`{name}` leaves the program, and not the plan");
            return Diag::error(
                codes::budget::UNLIKE,
                message,
                plan.values[value].span,
                "made here",
            )
            .help(format!("write `output {name}` with its brackets"));
        };
        let update = format!("next {updated} = {name}");
        let others = plan.outputs.iter().find(|of| kept(plan, of).1.as_ref() == Some(&updated));
        let span = others.map_or(plan.values[value].span, |other| other.span);
        let message = format!("the program has `{update}`, and the plan has not");
        Diag::error(codes::budget::UNLIKE, message, span, "not kept for the next step")
            .help(format!("write `{update}` with the brackets of both"))
    };
    missing.map(diag).collect()
}

/// The name of a value; of one of a layer or microbatch, that of all of them.
fn whole_name(program: &Program, value: ValueId) -> String {
    let name = &program.values[value].name;
    name.split_once('@').map_or(name.clone(), |(name, _)| name.to_owned())
}

/// An error where the axes of the plan's mesh, or their parts, are others than in `program`:
/// shardings of outputs are compared by axis. Sizes may differ.
fn other_axes(program: &Program, plan: &Plan) -> Option<Diag> {
    let axes = |program: &Program| {
        let axes = program.mesh.declared().map(|(axis, parts)| (axis.name.clone(), parts));
        axes.collect::<Vec<_>>()
    };
    let value = plan.program.values.iter().find(|_| axes(program) != axes(&plan.program))?;
    let [here, there] = [&plan.program, program].map(|of| print::mesh(&of.mesh).join(", "));
    let message = format!("the mesh is `{here}` here, and `{there}` in the program");
    Some(
        Diag::error(codes::budget::UNLIKE, message, value.span, "on this mesh")
            .help(format!("write `mesh {there}`, and shardings over its axes")),
    )
}

/// What is run: the program at the sizes asked for, or at its own where those that tell dimensions
/// apart are larger (many dimensions of size 2 are fewer elements than as many different sizes), or
/// samples of it where both are too large.
fn runnable(program: &Program, plan: &Plan, setup: &Setup<'_>) -> Result<Vec<scale::Scaled>, Diag> {
    let scaled =
        scale::scale(program, plan, setup.sizes).ok_or_else(|| effort::too_long(program, plan))?;
    let Some(diag) = effort::too_large(&[&scaled]) else { return Ok(vec![scaled]) };
    if setup.sizes == Sizes::Full {
        return Err(diag);
    }
    if let Some(own) = scale::scale(program, plan, Sizes::Full)
        && effort::too_large(&[&own]).is_none()
    {
        return Ok(vec![own]);
    }
    if !setup.samples {
        return Err(diag);
    }
    let samples = SHARES.iter().filter_map(|&share| scale::samples(program, plan, share));
    let fits = |samples: &Vec<scale::Scaled>| {
        effort::too_large(&samples.iter().collect::<Vec<_>>()).is_none()
    };
    samples.into_iter().find(fits).ok_or(diag)
}

/// One of so many dimensions has more than one element in a sample.
const SHARES: [usize; 6] = [2, 3, 4, 6, 10, 20];

/// Runs `plan` against `program`, whose values it names; an error about the program where that is
/// too large to be run at the sizes asked for.
///
/// # Errors
///
/// The program is too large to be run at the sizes asked for.
pub fn execute(program: &Program, plan: &Plan, setup: &Setup<'_>) -> Result<Verdict, Diag> {
    let runs = runnable(program, plan, setup)?;
    let count = runs.len();
    let mut verdicts = runs.into_iter().enumerate().map(|(number, scaled)| {
        let progress = |done: usize, of: usize| (setup.progress)(number * of + done, count * of);
        run(scaled, &Setup { progress: &progress, ..*setup })
    });
    let first = verdicts.next().unwrap_or_default();
    Ok(verdicts.fold(Verdict { samples: count, ..first }, Verdict::and))
}

/// The parts of statements that have another definition in the plan: where sums and products are
/// grouped in another way, equal names are numbers of other parts.
fn otherwise_defined(program: &Program, plan: &Plan) -> Vec<String> {
    let name = whole_name;
    let definition = |of: &Program, op: &Op| {
        let mut operands: Vec<String> =
            op.operands.iter().map(|operand| name(of, operand.value)).collect();
        operands.sort_unstable();
        (std::mem::discriminant(&op.kind), operands)
    };
    let of_plan = plan.program.ops.iter();
    let planned: FxHashMap<String, &Op> =
        of_plan.map(|op| (name(&plan.program, op.result), op)).collect();
    let outputs: Vec<ValueId> = program.outputs.iter().map(|output| output.value).collect();
    let is_other = |op: &&Op| {
        let other = planned.get(&name(program, op.result));
        other.is_some_and(|other| definition(&plan.program, other) != definition(program, op))
    };
    let parts = program
        .ops
        .iter()
        .filter(|op| program.values[op.result].is_part() && !outputs.contains(&op.result));
    parts.filter(is_other).map(|op| program.values[op.result].name.clone()).collect()
}

/// Runs a plan at sizes that were chosen.
fn run(scaled: scale::Scaled, setup: &Setup<'_>) -> Verdict {
    let scale::Scaled { program, plan, stages, parts, differs: scaled, batches, layers } = scaled;
    let mut truth = unsharded::Truth::new(&program, setup.seed);
    truth.forget(&otherwise_defined(&program, &plan));
    let tolerance = if truth.exact { 0.0 } else { TOLERANCE };
    let undefined = truth.undefined;
    let mut run =
        run::Run::new(&plan, (&stages, &parts), (truth, &batches), (setup.seed, tolerance));
    let mismatch = run.all(&program, setup.progress);
    Verdict {
        plan: "explicit",
        rules_fail: false,
        statements: plan.steps.len(),
        devices: run.mesh.len(),
        setting: scale::describe(&plan.program, &layers),
        scaled,
        samples: 1,
        largest_error: run.largest_error,
        tolerance,
        undefined,
        seed: setup.seed,
        mismatch,
    }
}
