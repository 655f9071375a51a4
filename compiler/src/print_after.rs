//! `--print-after`: prints the state of a compilation after a pass, as a program. State without a
//! notation is printed in comments.

use std::fmt::Write as _;

use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::print::Printer;
use shardwise_ir::program::{Mode, Op, Operand, Program};
use shardwise_ir::sharding::Sharding;
use shardwise_ir::verify;
use shardwise_passes::ExpandedPlan;
use shardwise_passes::pipeline::{Pass, Planning};

use crate::diagnostics::Findings;
use crate::driver;
use crate::options::{AxisParts, Grouping, Options};

/// Layouts of one operation that are listed.
const LISTED: usize = 16;

/// The program as it is after a pass, or the plan, printed as a program. An explicit program is
/// its own plan.
///
/// # Errors
///
/// The errors of the program that are found until then, with their places.
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
/// let options = shardwise::Options::default();
/// let derived = shardwise::print_after("w", source, &options, shardwise::Pass::Gradient)?;
/// assert!(derived.contains("dW = In *B dOut"));
/// # Ok::<(), shardwise::Findings>(())
/// ```
pub fn print_after(
    name: &str,
    source: &str,
    options: &Options,
    pass: Pass,
) -> Result<String, Findings> {
    if let Some(decided) = decided(name, source, options, pass)? {
        return print_after(name, source, &decided, pass);
    }
    let checked = driver::read(name, source, options, pass.min(Pass::LAST_REWRITE));
    let Some(program) = checked.program else { return Err(checked.findings) };
    if pass <= Pass::LAST_REWRITE {
        return Ok(program.to_string());
    }
    if pass == Pass::Report {
        return driver::plan(name, source, options).map(|planned| planned.to_string());
    }
    let refuse = |diags| Findings::new(diags, name, source);
    if program.mode == Mode::Explicit {
        return verify::explicit(program.into_program())
            .map(|plan| plan.to_string())
            .map_err(refuse);
    }
    let planning = driver::planned_until(&program, options, pass).map_err(refuse)?;
    Ok(match pass {
        Pass::Layouts => layouts(&program, &planning),
        Pass::Textbook => ExpandedPlan::from(planning.textbook()).to_string(),
        Pass::Search => chosen(&planning.found().plan).to_string(),
        _ => planning.plan().to_string(),
    })
}

/// The options with the parts of axes and the groupings of the plan, where they are open and the
/// pass depends on them.
fn decided(
    name: &str,
    source: &str,
    options: &Options,
    pass: Pass,
) -> Result<Option<Options>, Findings> {
    let is_open = options.parts == AxisParts::CalledFor || options.grouping == Grouping::Cheapest;
    if pass <= Pass::LAST_REWRITE || !is_open {
        return Ok(None);
    }
    let planned = driver::plan(name, source, options)?;
    let parts = AxisParts::of(&planned.plan.program.mesh);
    let grouping = Grouping::These(planned.options.grouping.known().to_vec());
    Ok(Some(Options { parts, grouping, ..options.clone() }))
}

/// The program, then the number of layouts of each operation, with the first of them.
fn layouts(program: &Program, planning: &Planning<'_>) -> String {
    let mut out = program.to_string();
    let mut laid_out = program.clone();
    for (id, op) in program.ops.iter_enumerated() {
        let layouts = planning.tables.layouts(op);
        let result = &program.values[op.result].name;
        let _ = writeln!(out, "\n# {} layouts of `{result}`:", layouts.len());
        for layout in layouts.iter().take(LISTED) {
            laid_out.ops[id] = with_layout(op, &layout.operands, &layout.result);
            let _ = writeln!(out, "#   {}", Printer::new(&laid_out).statement(id));
        }
        if layouts.len() > LISTED {
            let _ = writeln!(out, "#   and {} more", layouts.len() - LISTED);
        }
    }
    out
}

/// The program of a plan with the layout of every operation in brackets.
fn chosen(plan: &Plan) -> Program {
    let mut program = plan.program.clone();
    for step in &plan.steps {
        if let StepKind::Local(id) = step.kind {
            let operands: Vec<Sharding> =
                step.operands.iter().map(|operand| operand.sharding.clone()).collect();
            program.ops[id] = with_layout(&program.ops[id], &operands, &step.result.sharding);
        }
    }
    program
}

/// An operation with a layout in its brackets.
fn with_layout(op: &Op, operands: &[Sharding], result: &Sharding) -> Op {
    let pinned = |(operand, sharding): (&Operand, Option<&Sharding>)| Operand {
        pin: sharding.cloned().map(Into::into).or_else(|| operand.pin.clone()),
        ..operand.clone()
    };
    let shardings = operands.iter().map(Some).chain(std::iter::repeat(None));
    Op {
        operands: op.operands.iter().zip(shardings).map(pinned).collect(),
        result_pin: Some(result.clone().into()),
        ..op.clone()
    }
}
