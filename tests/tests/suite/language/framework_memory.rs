//! What training frameworks hold in memory at measured rates: gradients until the end of the step,
//! operands of products, gradients in 32 bits, and weights that are gathered again.

use shardwise::{Options, Planned, Strategy};
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::{CollectiveKind, MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::unroll;
use shardwise_passes::held::HeldKind;
use shardwise_passes::liveness::memory;
use shardwise_tests::files;
use shardwise_tests::planning::planned;

fn searched(source: &str) -> Planned {
    planned(source, &Options { strategy: Strategy::Search, ..Options::default() })
}

/// Two products a layer, fully sharded.
fn layers(hardware: &str, rows: u64, options: &str) -> String {
    format!(
        "hardware {hardware}\nmesh X=4\ndim B={rows}, D=512, F=2048\ninput x[B_X, D], dy[B_X, D]\n\
         repeat L=6 {{\n  carry x\n  param Win[D_X, F], Wout[F, D_X]\n\
         \x20 x[B_X, D] = x + gelu(x *D Win) *F Wout\n}}\n\
         backward from x given dy{options}\noptimizer adam\n"
    )
}

fn held(planned: &Planned, kind: HeldKind) -> f64 {
    planned.report.held.iter().filter(|(of, _)| *of == kind).map(|(_, bytes)| bytes).sum()
}

/// The peak of a plan with its layers written out, where every value is there once.
fn written_out_bytes(planned: &Planned) -> f64 {
    let program = &planned.plan.program;
    let out = unroll::plan(&planned.plan, &|block| program.repeats[block].count);
    memory(&(&out.plan).into()).peak_bytes
}

#[test]
fn the_peak_is_that_of_layers_written_out() {
    // Few rows: gradients are most at the end. Many: activations are most at the beginning.
    for rows in [64, 2048, 65536] {
        for options in [", until=step", ", until=update"] {
            let planned = searched(&layers("tpu-v5p", rows, options));
            let (folded, out) = (planned.report.memory.peak_bytes, written_out_bytes(&planned));
            let off = folded / out - 1.0;
            assert!(off.abs() < 1e-9, "{rows}{options}: {folded} for {out}");
        }
    }
}

/// Whether an iteration of a block reads or adds to what is there for all of them: written out,
/// each has its own.
fn shares_with_others(program: &Program) -> bool {
    let is_part = |op: &Op| matches!(op.kind, OpKind::Rearrange(Rearrange::Part { .. }));
    program.ops.iter().any(|op| op.is(&MapForm::Total) || is_part(op))
        || program.repeats.iter().any(|of| of.microbatches_of.is_some() || of.pipeline.is_some())
}

#[test]
fn peaks_of_layers_in_layers_are_those_of_layers_written_out() {
    let all =
        ["layers", "nested"].map(|folder| files(&format!("tests/programs/{folder}"), ".shard"));
    let mut compared = 0;
    for (name, source) in all.into_iter().flatten() {
        let unlimited = Options { memory: Some(f64::INFINITY), ..Options::default() };
        let planned = planned(&source, &unlimited);
        if shares_with_others(&planned.plan.program) {
            continue;
        }
        let (folded, out) = (planned.report.memory.peak_bytes, written_out_bytes(&planned));
        let off = folded / out - 1.0;
        assert!((-1e-9..2e-3).contains(&off), "{name}: {folded} for {out}");
        compared += 1;
    }
    assert!(compared >= 11, "{compared}");
}

/// A device that has run all but the last of the layers has what all of them keep.
#[test]
fn what_leaves_every_layer_is_there_while_others_run() {
    let source = "hardware h100\nmesh X=1\ndim B=1048576, D=1024, F=16384, E=1024\n\
        input x[B, D]\nrepeat L=8 {\ncarry x\nparam w[D, F], v[F, D], p[D, E]\n\
        x = x + gelu(x *D w) *F v\nk = x *D p\n}\noutput k[B, E]\n";
    // Seven of `k`, two of `x`, the hidden values, and the parameters.
    let array = 2.0 * 1_048_576.0 * 1024.0;
    let parameters = 8.0 * 2.0 * 1024.0 * (2.0 * 16384.0 + 1024.0);
    let bytes = (7.0 + 2.0 + 16.0) * array + parameters;
    let found = searched(source).report.memory.peak_bytes;
    assert!((found / bytes - 1.0).abs() < 1e-9, "{found} for {bytes}");
}

#[test]
fn what_products_read_going_back_is_kept_at_measured_rates_while_it_fits() {
    let source = layers("h100, rates=measured", 65536, ", weights=regathered");
    let kept = searched(&source);
    let at_peak_rates = searched(&source.replace(", rates=measured", ""));
    // `gelu(x *D Win)` of six layers, beside the product that it is computed from; at the peak that
    // of the last layer has been read.
    let hidden = 6.0 * 65536.0 / 4.0 * 2048.0 * 2.0;
    let more = held(&kept, HeldKind::Activations) - held(&at_peak_rates, HeldKind::Activations);
    assert!((0.8 * hidden..=hidden).contains(&more), "{more} of {hidden}");
    let own = kept.report.memory.peak_bytes - held(&kept, HeldKind::Allocator);
    let limit = own - hidden / 2.0;
    let tight = planned(&source, &Options { memory: Some(limit), ..Options::default() });
    assert!(tight.report.memory.peak_bytes <= limit, "it is computed again");
    let more = held(&tight, HeldKind::Activations) - held(&at_peak_rates, HeldKind::Activations);
    assert!(more.abs() < 0.1 * hidden, "{more} of {hidden}");
}

#[test]
fn gradients_beside_a_master_copy_that_is_sharded_otherwise_have_32_bits() {
    let gradients = |dtype: &str, optimizer: &str| {
        let source = format!(
            "hardware h100, rates=measured\nmesh X=4\ndim B=64, D=512, F=2048\ninput x[B_X, D], \
             dy[B_X, F]\nparam W[D, F]\ny = x *D W\n\
             backward from y given dy, microbatches=2 of B{dtype}\noptimizer {optimizer}"
        );
        held(&searched(&source), HeldKind::Gradients)
    };
    // The sum over microbatches and the part of one of them.
    let is = |optimizer: &str, sum: f64, part: f64| {
        let more = gradients(", gradients=f32", optimizer) / gradients("", optimizer);
        (more * (sum + part) - 2.0 * 32.0).abs() < 1.0
    };
    assert!(is("adam over X, master=f32", 32.0, 16.0), "the sum has 32 bits anyhow");
    assert!(is("adam, master=f32", 16.0, 16.0), "the parameter's own bits stand for the others");
    assert!(is("adam over X", 16.0, 16.0), "no master copy");
}

/// How often the plan gathers a weight of a layer.
fn gathers(planned: &Planned, weight: &str) -> usize {
    let steps = planned.plan.steps.iter().filter(|step| {
        let is_gather = matches!(&step.kind, StepKind::Collective(collective, _)
            if matches!(collective.kind, CollectiveKind::AllGather));
        is_gather && planned.plan.program.values[step.result.value].name == weight
    });
    steps.count()
}

#[test]
fn weights_are_gathered_again_or_kept_as_the_program_says() {
    let rows = 65536;
    let count = |options: &str| gathers(&searched(&layers("tpu-v5p", rows, options)), "Win");
    assert_eq!(count(", weights=regathered"), 2);
    assert_eq!(count(", weights=kept"), 1);
    assert_eq!(count(", weights=chosen"), 1, "it fits");
    assert_eq!(count(""), 1, "the search chooses at peak rates");
    let measured = |options: &str| {
        gathers(&searched(&layers("tpu-v5p, rates=measured", rows, options)), "Win")
    };
    assert_eq!(measured(""), 2, "as frameworks do");
    assert_eq!(measured(", weights=kept"), 1);
    let claim =
        |options: &str| searched(&layers("tpu-v5p, rates=measured", rows, options)).to_string();
    assert!(claim("").contains("(serial, weights=regathered); "), "{}", claim(""));
    assert!(claim(", weights=regathered").contains("(serial); "), "a program's own choice");
    let kept = searched(&layers("tpu-v5p", rows, ", weights=kept")).report;
    let again = searched(&layers("tpu-v5p", rows, ", weights=regathered")).report;
    assert!(again.memory.peak_bytes < kept.memory.peak_bytes);
    assert!(again.serial_s > kept.serial_s);
}

#[test]
fn the_allocator_takes_a_share_of_what_a_step_allocates_and_yields_to_the_limit() {
    let source = layers("h100, rates=measured", 65536, "");
    let free = searched(&source);
    let share = held(&free, HeldKind::Allocator)
        / (free.report.memory.peak_bytes
            - free.report.memory.resident_bytes
            - held(&free, HeldKind::Allocator));
    assert!((share - 0.05).abs() < 1e-9, "{share}");
    let own = free.report.memory.peak_bytes - held(&free, HeldKind::Allocator);
    let memory = Some(own + 1.0);
    let tight = planned(&source, &Options { memory, ..Options::default() });
    assert!(tight.report.memory.peak_bytes <= own + 1.0);
    let peak_rates = searched(&source.replace(", rates=measured", ""));
    assert!(held(&peak_rates, HeldKind::Allocator).abs() < 1.0);
}

/// The collectives that a plan has as statements neither read inputs nor make gradients.
#[test]
fn a_plan_holds_what_it_held_when_it_was_made() {
    let stages = "hardware h100, rates=measured\nmesh X=2, P=2\ndim B=1024, T=16, D=64, F=128\n\
        input x[B, T, D], dy[B, T, D]\npipeline P, microbatches=8 of B {\nrepeat L=4 {\n\
        carry x\nparam U[D, F_X], V[F_X, D]\nx[B_X, T, D] = x + gelu(x *D U) *F V\n}\n}\n\
        backward from x given dy\noptimizer sgd, momentum=0.9\noutput dx[B_X, T, D]\n";
    let gathered = "hardware h100, rates=measured\nmesh X=4\ndim B=64, D=512, F=2048\n\
        input x[B_X, D], dy[B_X, D]\nrepeat L=6 {\ncarry x\nparam U[D, F], V[F, D]\n\
        x[B_X, D] = x + gelu(x *D U) *F V\n}\n\
        backward from x given dy\noptimizer adam over X, master=f32\n";
    for source in [stages, gathered] {
        let plan = searched(source);
        assert_eq!(plan.to_string(), searched(&plan.to_string()).to_string());
    }
}

/// What is gathered in another dtype is the weight: cast by hand here, by `products=fp8` elsewhere.
#[test]
fn weights_that_are_cast_before_they_are_gathered_are_gathered_again() {
    let layers = |weights: &str| {
        format!(
            "hardware h100, rates=measured\nmesh X=8\ndim B=65536, D=4096, F=16384\n\
             input x[B_X, D], dy[B_X, D]\nrepeat L=8 {{\n  carry x\n  \
             param win: f32[D_X, F], wout: f32[F, D_X]\n  nin = cast<bf16>(win)\n  \
             nout = cast<bf16>(wout)\n  x[B_X, D] = x + gelu(x *D nin) *F nout\n}}\n\
             backward from x given dy{weights}\noutput dx[B_X, D]\n"
        )
    };
    for (options, count) in [("", 2), (", weights=regathered", 2), (", weights=kept", 1)] {
        let planned = searched(&layers(options));
        assert_eq!(gathers(&planned, "nin"), count, "{planned}");
    }
}
