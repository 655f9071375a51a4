//! Blocks: planned once, and equivalent to their unrolled layers.

use proptest::prelude::*;
use shardwise::Strategy as Planning;
use shardwise::verify::Sizes;
use shardwise_ir::program::Program;
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
fn programs_with_blocks_are_right_and_their_plans_kept() {
    for (name, source) in files("tests/programs/layers", ".shard") {
        let [planned, _] = checked_plans(&name, &source, Sizes::Scaled);
        plan_snapshot("layers", &name, &planned);
    }
}

/// One layer whose value leaves as it enters costs what its body written out costs.
#[test]
fn one_layer_is_its_body() {
    let body = "h = gelu(x *D Win)\n";
    let head = "hardware tpu-v5p\nmesh X=4, Y=4\ndim B=4096, D=2048, F=8192\n\
                input x[B_X, D_Y], g[B_X, D_Y]\n";
    let params = "param Win[D_X, F_Y], Wout[F_Y, D_X]\n";
    let block = format!(
        "{head}repeat L=1 {{\ncarry x\n{params}{body}x = x + h *F Wout\n}}\n\
            backward from x given g\noutput x[B_X, D_Y], dx[B_X, D_Y]\n"
    );
    let flat = format!(
        "{head}{params}{body}y = x + h *F Wout\nbackward from y given g\n\
            output y[B_X, D_Y], dx[B_X, D_Y]\n"
    );
    let (block, flat) =
        (plan("block", &block, Planning::Search), plan("flat", &flat, Planning::Search));
    assert!(
        (block.report.serial_s - flat.report.serial_s).abs() <= 1e-12 * flat.report.serial_s,
        "{block}\n{flat}"
    );
    assert!(
        (block.report.memory.peak_bytes - flat.report.memory.peak_bytes).abs()
            <= 0.2 * flat.report.memory.peak_bytes,
        "{block}\n{flat}"
    );
}

#[test]
fn a_hundred_layers_cost_a_hundred_times_one_more() {
    let source = read("tests/programs/layers/train.shard");
    let cost = |layers: u64| {
        plan("train", &source.replace("L=40", &format!("L={layers}")), Planning::Search).report
    };
    let (few, more, many) = (cost(40), cost(41), cost(140));
    let step = more.serial_s - few.serial_s;
    assert!((many.serial_s - few.serial_s - 100.0 * step).abs() <= 1e-9 * many.serial_s);
    let step = more.memory.peak_bytes - few.memory.peak_bytes;
    assert!((many.memory.peak_bytes - few.memory.peak_bytes - 100.0 * step).abs() <= 1.0);
}

#[test]
fn what_is_not_kept_is_computed_again() {
    // With every operation alone, `checkpoint` is all that is computed again.
    let of = |name: &str| {
        let source = read(&format!("tests/programs/layers/{name}.shard"));
        let alone = source.replace("hardware tpu-v5p", "hardware tpu-v5p, fusion=none");
        plan(name, &alone, Planning::Textbook)
    };
    let (kept, again) = (of("train"), of("checkpoint"));
    assert!(
        again.report.memory.peak_bytes < 0.5 * kept.report.memory.peak_bytes,
        "{kept}\n{again}"
    );
    let (few, many) = (kept.cost().flops, again.cost().flops);
    // One product and an activation more, beside six products and what goes with them.
    assert!((many / few - 7.0 / 6.0).abs() < 1e-3, "{few} {many}");
}

/// The cheapest plan of the layers written out, each free to be laid out otherwise: a lower bound.
fn written_out_s(program: &Program) -> f64 {
    let flat = unroll::program(program, &|block| program.iterations(Some(block))).into();
    let tables = Tables::new(&flat, Refinement::Book);
    let known = textbook::plan(&tables).expect("it is feasible");
    let found = search(&tables, &known, &Request::default()).expect("it is feasible");
    shardwise_passes::report::report(&found.plan.into(), Refinement::Book).serial_s
}

const SPLITS: [&str; 4] = ["[B, D]", "[B_X, D]", "[B, D_X]", "[B_Y, D_X]"];
const WEIGHTS: [&str; 4] = ["[D, F]", "[D_X, F]", "[D, F_Y]", "[D_Y, F_X]"];
const STEPS: [&str; 8] = [
    "x = x + tanh(x *D W) *F V\n",
    "x = x * s\n",
    "x = x + a\n",
    "x = x - 0.125 * sum_B(x)\n",
    "x = tanh(x)\n",
    "x = x + (a *D W) *F U\n",
    "a = 0.5 * a + 0.25 * x\n",
    "x = x + (tanh(x *D W + x *D W) *F V) * s\n",
];

/// A program with a block of random statements over layers' own and shared weights.
fn random(numbers: &[u32], layers: u64) -> String {
    let pick = |place: usize, of: &[&'static str]| of[numbers[place] as usize % of.len()];
    let mut source = "hardware tpu-v5p\nmesh X=2, Y=2\ndim B=4, D=4, F=8\n".to_owned();
    source +=
        &format!("input x{}, a{}\nparam s[D]\nparam U[F, D]\n", pick(0, &SPLITS), pick(1, &SPLITS));
    source +=
        &format!("repeat L={layers} {{\ncarry x, a\nparam W{}, V[F, D_X]\n", pick(2, &WEIGHTS));
    numbers[3..4].iter().for_each(|&number| source += STEPS[number as usize % STEPS.len()]);
    source += "x = x + tanh(x *D W) *F V\na = 0.5 * a\n}\n";
    let from = ["y = tanh(x)\n", "y = x * s + a\n", "y = x\n"][numbers[7] as usize % 3];
    source + from + "Loss = sum_{B,D}(y)\nbackward from Loss\noutput y" + pick(8, &SPLITS) + "\n"
}

fn run(cases: u32, check: impl Fn(&[u32], u64) -> Result<(), TestCaseError>) {
    let inputs = (numbers(9), any::<u32>());
    for_all(cases, &inputs, |(numbers, seed)| check(&numbers, u64::from(seed)));
}

#[test]
fn gradients_through_layers_are_numerical_differences() {
    let names = ["s", "U", "W@0", "W@1", "V@0"];
    run(100, |numbers, seed| {
        gradients_are_right(&random(numbers, 1 + seed % 3), &names, 2e-5, seed)
    });
}

#[test]
fn random_blocks_are_right() {
    run(8, |numbers, seed| {
        checked_plans("random", &random(numbers, 1 + seed % 3), Sizes::Full);
        Ok(())
    });
}

#[test]
fn layers_written_out_are_never_costlier() {
    run(10, |numbers, seed| {
        let source =
            random(numbers, 1 + seed % 2).replace("Loss = sum_{B,D}(y)\nbackward from Loss\n", "");
        let block_s = plan("random", &source, Planning::Search).report.serial_s;
        let flat_s = written_out_s(&program("random", &source));
        prop_assert!(flat_s <= block_s * (1.0 + 1e-9), "{flat_s} {block_s}\n{source}");
        Ok(())
    });
}
