//! Words the reasons why gradients cannot be derived.

use shardwise_ir::Diag;
use shardwise_ir::codes::gradient as codes;
use shardwise_ir::ids::{DimId, OpId, RepeatId, ValueId};
use shardwise_ir::program::{OpKind, Program};
use shardwise_ir::suggest::nearest_divisor;
use shardwise_passes::GradientFault;
use shardwise_passes::MicrobatchFault;

/// Why `program` cannot be differentiated, or cut into microbatches.
pub(super) fn describe(program: &Program, fault: &GradientFault) -> Diag {
    match fault {
        GradientFault::Nothing => nothing(program),
        GradientFault::Unreached(of) => unreached(program, *of),
        GradientFault::NoDerivative(op, operand) => no_derivative(program, *op, *operand),
        GradientFault::NameTaken(of, by) => name_taken(program, *of, *by),
        GradientFault::Microbatches(fault) => microbatches(program, fault),
    }
}

/// The `backward` statement, and the name of what it starts from.
fn start(program: &Program) -> (shardwise_ir::Span, &str) {
    program.backward.as_ref().map_or_else(Default::default, |backward| {
        (backward.span, program.values[backward.from].name.as_str())
    })
}

fn nothing(program: &Program) -> Diag {
    let (span, from) = start(program);
    let message = format!("`{from}` depends on no `param`, and no gradient is named");
    let diag = Diag::error(codes::NOTHING, message, span, "nothing to differentiate");
    diag.help("declare weights as `param`, or name the gradient that is meant: `output dIn[…]`")
}

fn unreached(program: &Program, of: ValueId) -> Diag {
    let ((span, from), of) = (start(program), &program.values[of]);
    let message =
        format!("`{from}` does not depend on `{}`, so there is no `d{}`", of.name, of.name);
    let diag = Diag::error(codes::NOTHING, message, span, "starts here")
        .and(of.span, format!("`{}` is not on the way", of.name));
    diag.help(format!("leave `d{}` out, or differentiate what `{}` leads to", of.name, of.name))
}

fn no_derivative(program: &Program, op: OpId, operand: usize) -> Diag {
    let op = &program.ops[op];
    let function = match &op.kind {
        OpKind::Map(function) => function.form.function_name(),
        OpKind::Update { .. } => Some("update".to_owned()),
        OpKind::Opaque(opaque) => Some(opaque.name.clone()),
        _ => None,
    };
    let function = function.as_deref().unwrap_or("this");
    let value = &program.values[op.operands[operand].value].name;
    let message = format!("`{function}` has no derivative with respect to `{value}`");
    let diag = Diag::error(codes::NO_DERIVATIVE, message, op.span, "a gradient would pass here")
        .and(start(program).0, "asked for here");
    diag.help(format!("`stop_gradient({value})` makes it a constant to the gradient"))
}

/// Why a step cannot be cut into microbatches.
fn microbatches(program: &Program, fault: &MicrobatchFault) -> Diag {
    let (span, _) = start(program);
    match fault {
        MicrobatchFault::Unclear(candidates) => unclear_batch(program, candidates),
        MicrobatchFault::OfParameter(param) => {
            let param = &program.values[*param];
            let message =
                format!("`{}` is a parameter and has the dimension that is cut", param.name);
            let diag = Diag::error(codes::BATCH, message, span, "asked for here")
                .and(param.span, "all microbatches share this");
            let count = count(program);
            diag.help(format!("cut a dimension that no parameter has: `microbatches={count} of B`"))
        }
        MicrobatchFault::NotPlain(of) => {
            let of = program.dims.get(*of);
            let message = format!(
                "`{}` is padded, or a product, and cannot be cut",
                of.map_or("", |dim| dim.name.as_str())
            );
            let diag = Diag::error(codes::BATCH, message, span, "asked for here");
            let diag = if let Some(of) = of { diag.and(of.span, "this dimension") } else { diag };
            diag.help(
                "cut one of its factors, and declare with this factor what is read or \
                leaves; leave `pad` out",
            )
        }
        MicrobatchFault::Staged(block) => {
            let message = "the layers of a pipeline have microbatches of their own";
            let diag = Diag::error(codes::CUT_BEFORE, message, span, "cut once more")
                .and(program.repeats[*block].span, "in a pipeline");
            diag.help(instead_of_cutting_twice(program, *block))
        }
        MicrobatchFault::Indivisible(of, count) => {
            let of = &program.dims[*of];
            let message = format!("{count} microbatches do not divide `{}` = {}", of.name, of.size);
            let near = nearest_divisor(of.size, *count);
            let diag =
                Diag::error(codes::INDIVISIBLE, message, span, "so many").and(of.span, "of this");
            diag.help(format!("write `microbatches={near}`"))
        }
        MicrobatchFault::Uneven { value, span: at, rows } => {
            let message =
                format!("`{value}` is split into more parts than the {rows} rows of a microbatch");
            let diag = Diag::error(codes::INDIVISIBLE, message, *at, "split too finely")
                .and(span, "cut here");
            diag.help("take fewer microbatches, or split the batch over fewer devices")
        }
        MicrobatchFault::Mixed { value, span: at } => {
            let message = format!("`{value}` needs the complete batch at once");
            let diag =
                Diag::error(codes::MIXED, message, *at, "not a sum over rows, nor row by row")
                    .and(span, "microbatches are asked for here");
            diag.help(
                "what a gradient passes through may add up rows, and do with such sums only \
                what is linear in them; else leave `microbatches` out",
            )
        }
    }
}

/// The batch dimension is not written, and cannot be inferred.
fn unclear_batch(program: &Program, candidates: &[DimId]) -> Diag {
    let (span, _) = start(program);
    let name = |dim: &DimId| program.dims.get(*dim).map_or("", |dim| dim.name.as_str());
    let names: Vec<&str> = candidates.iter().map(name).collect();
    let message = match names[..] {
        [] => "no dimension that no `param` has is shared by all inputs".to_owned(),
        _ => format!("all inputs share {}", names.join(", ")),
    };
    let example = names.first().copied().unwrap_or("B");
    let diag = Diag::error(codes::BATCH, message, span, "which dimension is the batch?");
    let count = count(program);
    diag.help(format!("name the one that is split: `microbatches={count} of {example}`"))
}

/// The number of microbatches that `backward` asks for.
fn count(program: &Program) -> u64 {
    let asked = program.backward.as_ref().and_then(|backward| backward.microbatches);
    asked.map_or(1, |(count, _)| count)
}

/// The proposal for a pipeline in microbatches: more microbatches of the pipeline. With `1f1b` a
/// stage then has as few of them in flight, and the pipeline has one bubble.
fn instead_of_cutting_twice(program: &Program, block: RepeatId) -> String {
    let (asked, own) = (
        program.backward.as_ref().and_then(|directive| directive.microbatches),
        program.pipeline(Some(block)),
    );
    let together = own.zip(asked).map(|(own, (outer, _))| {
        let (batch, axis) = (&program.dims[own.batch], &program.mesh.axes[own.axis].name);
        let parts = nearest_divisor(batch.size, own.microbatches.saturating_mul(outer));
        let chunks =
            if own.chunks == 1 { String::new() } else { format!(", chunks={}", own.chunks) };
        format!(" `pipeline {axis}, microbatches={parts} of {}, schedule=1f1b{chunks}`", batch.name)
    });
    format!(
        "leave `microbatches` out here, and let the pipeline have all of them:{}",
        together.unwrap_or_default()
    )
}

fn name_taken(program: &Program, of: ValueId, by: ValueId) -> Diag {
    let (of, by) = (&program.values[of], &program.values[by]);
    let message = format!("the gradient of `{}` is called `{}`, which is taken", of.name, by.name);
    let diag = Diag::error(codes::NAME_TAKEN, message, by.span, "has this name")
        .and(start(program).0, "gradients asked for here");
    let or_begin = if of.repeat.is_none() {
        format!(", or begin with it: `backward from {} given {}`", of.name, by.name)
    } else {
        String::new()
    };
    diag.help(format!("give it another name{or_begin}"))
}
