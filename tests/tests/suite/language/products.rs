//! `products=fp8`: which operands are converted, what that saves, and that nothing else changes.

use shardwise::verify::{Setup, verify};
use shardwise::{Options, Pass, Planned, Products};
use shardwise_ir::dtype::DType;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::Op;
use shardwise_passes::held::{self, HeldKind};
use shardwise_passes::report::Report;
use shardwise_tests::planning::planned;
use shardwise_tests::read;

/// Layers in training with a head: FSDP over `X`, tensors over `Y`.
const LAYERS: &str = "mesh X=4, Y=2\ndim B=4096, D=2048, F=8192, V=512\n\
    input x[B_X, D], y[B_X, V]\nparam head[D_X, V]\nrepeat L=2 {\n  carry x\n\
    param n[D], win[D_X, F_Y], wout[F_Y, D_X]\n\
    x = x + gelu((rmsnorm_D(x) * n) *D win) *F wout\nCHECKPOINT}\n\
    Loss = sum_{B,V}((x *D head) * y)\nbackward from Loss\noptimizer adam\n";

fn program(settings: &str, checkpoint: &str) -> String {
    format!("hardware h100{settings}\n{}", LAYERS.replace("CHECKPOINT", checkpoint))
}

fn products(planned: &Planned) -> impl Iterator<Item = &Op> {
    let steps = planned.plan.steps.iter();
    let local = steps.filter_map(|step| match step.kind {
        StepKind::Local(op) => Some(&planned.plan.program.ops[op]),
        StepKind::Collective(..) => None,
    });
    local.filter(|op| op.is_product())
}

/// The dtypes of the operands and the result.
fn dtypes(planned: &Planned, op: &Op) -> (Vec<DType>, DType) {
    let dtype = |value: ValueId| planned.plan.program.values[value].dtype;
    (op.operands.iter().map(|operand| dtype(operand.value)).collect(), dtype(op.result))
}

#[test]
fn products_of_layers_read_fp8_and_the_head_does_not() {
    for (checkpoint, again) in [("", 0), ("  checkpoint\n", 1)] {
        let options = Options { grouping: shardwise::Grouping::AsWritten, ..Options::default() };
        let planned = planned(&program(", products=fp8", checkpoint), &options);
        let narrow = |op: &&Op| dtypes(&planned, op).0 == [DType::Fp8, DType::Fp8];
        // Three for each of two weights; with a checkpoint one of them is computed again.
        assert_eq!(products(&planned).filter(narrow).count(), 6 + again, "{planned}");
        assert!(products(&planned).all(|op| dtypes(&planned, op).1 == DType::Bf16), "{planned}");
        let wide = products(&planned).filter(|op| !narrow(op));
        let wide: Vec<_> = wide.map(|op| dtypes(&planned, op).0).collect();
        // The head's three, and the gradient of a scale.
        assert!(wide.len() >= 3, "{planned}");
        assert!(wide.iter().flatten().all(|&dtype| dtype == DType::Bf16), "{planned}");
        let resident = planned.plan.program.values.iter().filter(|value| value.role.is_some());
        assert!(resident.into_iter().all(|value| value.dtype != DType::Fp8));
    }
}

#[test]
fn it_saves_compute_and_bytes_of_gathers() {
    let of = |settings: &str| planned(&program(settings, ""), &Options::default()).report;
    let (wide, narrow) = (of(""), of(", products=fp8"));
    assert!(narrow.compute_s < 0.7 * wide.compute_s, "{} {}", narrow.compute_s, wide.compute_s);
    assert!(narrow.comm_s < 0.9 * wide.comm_s, "{} {}", narrow.comm_s, wide.comm_s);
    assert!(narrow.memory.peak_bytes <= wide.memory.peak_bytes);
}

#[test]
fn plans_compute_the_same_in_all_kinds_of_blocks() {
    let whole = program(", products=fp8", "");
    let regathered = whole.replace("from Loss", "from Loss, weights=regathered");
    let parts = whole.replace("from Loss", "from Loss, microbatches=2 of B");
    let staged = "hardware h100, products=fp8\nmesh P=2, X=2\ndim B=64, D=16, F=32\n\
        input x[B_X, D], dy[B_X, D]\npipeline P, microbatches=4 of B, schedule=1f1b {\n\
        repeat L=4 {\n  carry x\n  param win[D_X, F], wout[F, D_X]\n\
        x = x + gelu(x *D win) *F wout\n}\n}\nbackward from x given dy\noptimizer muon\n";
    let forward = "hardware h100, products=fp8\nmesh X=4\ndim B=64, D=16, F=32\ninput x[B_X, D]\n\
        param w[D, F], up[F, D]\noutput y[B_X, D] = gelu(x *D w) *F up\n";
    let mixtral = read("tests/programs/models/mixtral-8x7b-train.shard");
    let mixtral = mixtral.replace("tpu-v5p", "h100, products=fp8").replace("X=16, Y=8", "X=2, Y=4");
    let again = program(", products=fp8", "  checkpoint\n");
    for source in [again.as_str(), &parts, &regathered, staged, forward, &mixtral] {
        let options = Options { memory: Some(f64::INFINITY), ..Options::default() };
        let verdict = verify("products", source, &options, &Setup::default())
            .unwrap_or_else(|no| panic!("{no}\n{source}"));
        assert!(verdict.mismatch.is_none(), "{verdict}\n{source}");
    }
}

#[test]
fn an_option_replaces_the_setting() {
    let of = |settings: &str, products: Option<Products>| {
        let options = Options { products, ..Options::default() };
        planned(&program(settings, ""), &options).to_string()
    };
    assert_eq!(of("", Some(Products::Fp8)), of(", products=fp8", None));
    assert_eq!(of(", products=fp8", Some(Products::Written)), of("", None));
    // What has 16 bits has not more.
    assert_eq!(of(", products=bf16", None), of("", None));
    let plan = of(", products=fp8", None);
    assert_eq!(planned(&plan, &Options::default()).to_string(), plan);
}

#[test]
fn the_state_after_the_pass_is_a_program_with_the_same_statements() {
    let after = |source: &str| {
        shardwise::print_after("products", source, &Options::default(), Pass::Products)
            .unwrap_or_else(|no| panic!("{no}"))
    };
    let source = program(", products=fp8", "").replace("optimizer adam\n", "");
    let converted = after(&source);
    assert!(converted.contains("win.fp8 = cast<fp8>(win)"), "{converted}");
    assert!(!converted.contains(".back"), "{converted}");
    let again = source.replace("from Loss", "from Loss, weights=regathered");
    assert!(after(&again).contains("wout.fp8.back = cast<fp8>(wout)"));
    assert_eq!(after(&converted), converted);
    let before = shardwise::print_after(
        "products",
        &program(", products=fp8", ""),
        &Options::default(),
        Pass::Gradient,
    );
    assert!(before.is_ok_and(|text| text.starts_with("hardware h100, products=fp8\n")));
}

#[test]
fn a_chip_without_units_is_an_error() {
    for chip in ["a100", "tpu-v5p"] {
        let source = program(", products=fp8", "").replace("h100", chip);
        let checked = shardwise::check("products", &source, &Options::default());
        let text = checked.findings.to_string();
        assert!(text.contains(&format!("`{chip}` has no units that multiply fp8")), "{text}");
    }
}

/// A stage keeps what is converted once a step for all microbatches, and its gradients read the
/// same: it is not there a second time.
#[test]
fn a_converted_weight_that_a_stage_keeps_is_there_once() {
    let planned = planned(
        "hardware b200, products=fp8\nmesh X=8, Y=4, Z=2\n\
         dim B=64, T=512, D=1024, F=4096, E=8, C=160\ninput x[B_XY, T, D], dy[B_XY, T, D]\n\
         pipeline Z, microbatches=4 of B, schedule=1f1b {\nrepeat L=4 {\n carry x\n\
         param Wg[D, E], Win[E_X, D, F], Wout[E, F, D]\n\
         Sc = softmax_E(layernorm_D(x) *D Wg)\n Sent = route_{T,E->C}(Sc, 2)\n\
         h = gelu((Sent *T x) *D Win)\n x = x + (Sent * Sc) *E,C (h *F Wout)\n\
         checkpoint h\n}\n}\nbackward from x given dy, gradients=f32, until=step\n\
         output dx[B_XY, T, D]\n",
        &Options::default(),
    );
    let report = &planned.report;
    let held: f64 = report.held.iter().map(|(_, bytes)| bytes).sum();
    assert!((held - report.memory.peak_bytes).abs() < 1.0, "{held} held\n{planned}");
}

/// As FSDP does, whether a program says it or not.
#[test]
fn converted_weights_are_gathered_again_at_measured_rates() {
    let settings = ", products=fp8, rates=measured";
    for checkpoint in ["", "  checkpoint\n"] {
        let source = program(settings, checkpoint);
        let written = source.replace("from Loss", "from Loss, weights=regathered");
        let [default, written] =
            [source, written].map(|source| planned(&source, &Options::default()).report);
        let figures = |of: &Report| [of.memory.peak_bytes, of.serial_s].map(f64::to_bits);
        assert_eq!(figures(&default), figures(&written));
    }
}

#[test]
fn converted_weights_that_are_kept_count_as_gathered_parameters() {
    let source = program(", products=fp8", "").replace("from Loss", "from Loss, weights=kept");
    let planned = planned(&source, &Options::default());
    let kinds = held::kinds(&planned.plan.program);
    let casts = planned.plan.program.values.iter_enumerated();
    let casts: Vec<ValueId> = casts
        .filter(|(_, value)| ["win.fp8", "wout.fp8"].contains(&value.name.as_str()))
        .map(|(value, _)| value)
        .collect();
    assert_eq!(casts.len(), 2, "{planned}");
    assert!(casts.iter().all(|&value| kinds[value] == HeldKind::GatheredParameters));
}
