//! Blocks in blocks: planned once, and equivalent to their unrolled layers.

use proptest::prelude::*;
use shardwise::Strategy as Planning;
use shardwise::verify::Sizes;
use shardwise_ir::unroll;
use shardwise_passes::Tables;
use shardwise_passes::collective::Refinement;
use shardwise_passes::textbook;
use shardwise_passes::{Request, search};
use shardwise_tests::properties::{checked_plans, gradients_are_right, plan, program};
use shardwise_tests::random::{for_all, numbers};
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read};

#[test]
fn the_page_is_right() {
    let page = read("compiler/docs/repeat.md");
    let blocks = page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.for_each(|block| {
        checked_plans("page", block, Sizes::Scaled);
    });
}

#[test]
fn programs_with_nested_blocks_are_right_and_their_plans_kept() {
    for (name, source) in files("tests/programs/nested", ".shard") {
        let [planned, _] = checked_plans(&name, &source, Sizes::Scaled);
        plan_snapshot("nested", &name, &planned);
    }
}

const BODY: &str = "carry x\nparam Win[D_X, F_Y], Wout[F_Y, D_X]\nx = x + gelu(x *D Win) *F Wout\n";

/// A step of layers that this text opens and closes.
fn step(layers: &str) -> String {
    format!(
        "hardware tpu-v5p\nmesh X=4, Y=4\ndim B=4096, D=2048, F=8192\ninput x[B_X, D_Y]\n\
        {layers}backward from x\noutput dx[B_X, D_Y]\n"
    )
}

/// Six times five layers take the time and the memory of thirty.
#[test]
fn layers_in_layers_cost_their_product() {
    for checkpoint in ["", "checkpoint\n"] {
        let flat = step(&format!("repeat L=30 {{\n{BODY}{checkpoint}}}\n"));
        let nested = format!("repeat L=6 {{\ncarry x\nrepeat M=5 {{\n{BODY}{checkpoint}}}\n}}\n");
        let [flat, nested] =
            [flat, step(&nested)].map(|source| plan("layers", &source, Planning::Search).report);
        assert!((flat.serial_s / nested.serial_s - 1.0).abs() <= 1e-9, "{flat:?}\n{nested:?}");
        let (flat_bytes, bytes) = (flat.memory.peak_bytes, nested.memory.peak_bytes);
        assert!((flat_bytes / bytes - 1.0).abs() <= 1e-9, "{flat_bytes} {bytes}");
        // Both schedules are extrapolated, one from three layers and one from three times three.
        let (flat_s, s) = (flat.schedule.makespan_s, nested.schedule.makespan_s);
        assert!((flat_s / s - 1.0).abs() <= 0.05, "{flat_s} {s}");
    }
}

/// So do two times two layers on each of two stages.
#[test]
fn layers_in_layers_of_a_stage_cost_their_product() {
    let pipeline = |layers: &str| {
        step(&format!("pipeline Z, microbatches=8 of B, schedule=1f1b {{\n{layers}}}\n"))
            .replace("mesh X=4, Y=4", "mesh Z=2, X=4, Y=2")
            .replace("backward from x\n", "backward from x given x\n")
    };
    let flat = pipeline(&format!("repeat L=8 {{\n{BODY}}}\n"));
    let nested = pipeline(&format!("repeat L=4 {{\ncarry x\nrepeat M=2 {{\n{BODY}}}\n}}\n"));
    let [flat, nested] =
        [flat, nested].map(|source| plan("layers", &source, Planning::Search).report);
    assert!((flat.memory.peak_bytes / nested.memory.peak_bytes - 1.0).abs() <= 1e-9);
    assert!((flat.serial_s / nested.serial_s - 1.0).abs() <= 1e-9, "{flat:?}\n{nested:?}");
}

const SPLITS: [&str; 4] = ["[B, D]", "[B_X, D]", "[B, D_X]", "[B_Y, D_X]"];
const WEIGHTS: [&str; 4] = ["[D, F]", "[D_X, F]", "[D, F_Y]", "[D_Y, F_X]"];
const OUTER: [&str; 4] =
    ["", "x = x + tanh(x *D P) *F Q\n", "x = x * s\n", "a = a + 0.5 * tanh(x)\n"];
const INNER: [&str; 6] = [
    "x = x * s\n",
    "x = x + a\n",
    "x = x + 0.5 * q\n",
    "x = x + (q *D W) *F U\n",
    "x = x + tanh(x *D P) *F V\n",
    "x = tanh(x)\n",
];
const AFTER: [&str; 5] = [
    "",
    "x = x + q\n",
    "x = x + 0.25 * t *F U\n",
    "x = x - 0.5 * t *F U\n",
    "x = x * q + t *F Q\n",
];
const CHECKPOINTS: [&str; 4] =
    ["", "checkpoint\n", "checkpoint only h\n", "checkpoint only h\ncheckpoint offload x\n"];

/// A program with a block of random statements in another, and these lines around both.
fn random(numbers: &[u32], (open, close): (&str, &str), backward: &str) -> String {
    let pick = |place: usize, of: &[&'static str]| of[numbers[place] as usize % of.len()];
    let (outer, inner) = (2 + numbers[0] % 2, 1 + numbers[1] % 3);
    let carried = if numbers[2].is_multiple_of(2) { "x, a" } else { "x" };
    let redefined = if carried == "x" { "" } else { "a = 0.5 * a + 0.25 * x\n" };
    let checkpoint = pick(10, &CHECKPOINTS);
    let outside = if checkpoint.is_empty() { "" } else { "checkpoint\n" };
    format!(
        "hardware tpu-v5p\nmesh Z=2, X=2, Y=2\ndim B=8, D=4, F=8\n\
        input x{}, a{}, g[B, D]\nparam s[D]\nparam U[F, D]\n{open}repeat L={outer} {{\n\
        carry x, a\nparam P[D, F], Q[F, D_X]\n{}q = tanh(x * s)\n\
        repeat M={inner} {{\ncarry {carried}\nparam W{}, V[F, D_X]\n{}{}h = tanh(x *D W)\n\
        x = x + h *F V\n{redefined}{checkpoint}}}\nt = total(h)\n{}a = 0.5 * a\n{outside}}}\n\
        {close}{backward}output y{}\n",
        pick(3, &SPLITS),
        pick(4, &SPLITS),
        pick(5, &OUTER),
        pick(6, &WEIGHTS),
        pick(7, &INNER),
        pick(8, &INNER),
        pick(9, &AFTER),
        pick(11, &SPLITS),
    )
}

const LOSS: &str = "y = x * s + a\nLoss = sum_{B,D}(y)\nbackward from Loss\n";

fn run(cases: u32, check: impl Fn(&[u32], u64) -> Result<(), TestCaseError>) {
    let inputs = (numbers(12), any::<u32>());
    for_all(cases, &inputs, |(numbers, seed)| check(&numbers, u64::from(seed)));
}

#[test]
fn gradients_through_nested_layers_are_numerical_differences() {
    let names = ["s", "U", "P@0", "Q@1", "W@0", "W@1", "V@1"];
    run(60, |numbers, seed| {
        gradients_are_right(&random(numbers, ("", ""), LOSS), &names, 5e-5, seed)
    });
}

#[test]
fn random_nested_blocks_are_right() {
    run(8, |numbers, _| {
        checked_plans("random", &random(numbers, ("", ""), LOSS), Sizes::Full);
        Ok(())
    });
}

#[test]
fn random_nested_blocks_are_right_in_microbatches() {
    let backward = LOSS.replace("from Loss", "from Loss, microbatches=2 of B");
    run(6, |numbers, _| {
        checked_plans("random", &random(numbers, ("", ""), &backward), Sizes::Full);
        Ok(())
    });
}

#[test]
fn random_nested_blocks_are_right_in_pipelines() {
    let backward = "y = x * s + a\nbackward from y given g\n";
    run(6, |numbers, seed| {
        let schedule = ["gpipe", "1f1b", "zb-h1"][seed as usize % 3];
        let open = format!("pipeline Z, microbatches=2 of B, schedule={schedule} {{\n");
        checked_plans("random", &random(numbers, (&open, "}\n"), backward), Sizes::Full);
        Ok(())
    });
}

#[test]
fn nested_layers_written_out_are_never_costlier() {
    run(4, |numbers, _| {
        let source = random(numbers, ("", ""), "y = x + a\n").replace("Z=2, ", "");
        let nested_s = plan("random", &source, Planning::Search).report.serial_s;
        let program = program("random", &source);
        let flat = unroll::program(&program, &|block| program.repeats[block].count).into();
        let tables = Tables::new(&flat, Refinement::Book);
        let known = textbook::plan(&tables).expect("it is feasible");
        let found = search(&tables, &known, &Request::default()).expect("it is feasible");
        let flat_s =
            shardwise_passes::report::report(&found.plan.into(), Refinement::Book).serial_s;
        prop_assert!(flat_s <= nested_s * (1.0 + 1e-9), "{flat_s} {nested_s}\n{source}");
        Ok(())
    });
}
