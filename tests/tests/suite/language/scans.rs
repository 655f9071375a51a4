//! Scans: planned once, and equivalent to their steps written out.

use proptest::prelude::*;
use shardwise::Strategy as Planning;
use shardwise::verify::{Sizes, evaluate};
use shardwise_ir::unroll;
use shardwise_tests::properties::{checked_plans, gradients_are_right, plan, program};
use shardwise_tests::random::{arrays, for_all, numbers};
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read};

#[test]
fn the_page_is_right() {
    let page = read("compiler/docs/scan.md");
    let blocks = page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.for_each(|block| {
        checked_plans("page", block, Sizes::Scaled);
    });
}

#[test]
fn programs_with_scans_are_right_and_their_plans_kept() {
    for (name, source) in files("tests/programs/scans", ".shard") {
        let [planned, _] = checked_plans(&name, &source, Sizes::Scaled);
        plan_snapshot("scans", &name, &planned);
    }
}

const HEAD: &str = "hardware tpu-v5p, fusion=none\nmesh X=2, Y=2\ndim B=8, T=16, C=4, C1=C, C2=C, \
    C3=C, D=16, F=32\ninput x[B_X, T, D]\nparam W[D, F_Y], U[F_Y, D]\nS: f32[B_X, F_Y] = 0.0\n";
const SCAN: &str = "scan T in C {\ncarry S\nh[B_X, C, F_Y] = tanh(x *D W)\n\
    S = 0.5 * S + mean_C(h)\no[B_X, C, D_Y] = (h + S) *F U\n}\nO = stack(o)\n";

/// The statements of one step, with their names and the chunk numbered.
fn written_out(step: usize) -> String {
    let state = if step == 0 { "S".to_owned() } else { format!("S{}", step - 1) };
    let part = if step == 0 {
        String::new()
    } else {
        format!("p{step}[B_X, C{step}, D_Y] = rename(o{step})\n")
    };
    format!(
        "c{step} = slice_{{T->C}}(x, {})\nh{step}[B_X, C, F_Y] = tanh(c{step} *D W)\n\
        S{step}: f32[B_X, F_Y] = 0.5 * {state} + mean_C(h{step})\n\
        o{step}[B_X, C, D_Y] = (h{step} + S{step}) *F U\n{part}",
        4 * step,
    )
}

/// A scan has the numbers and the cost of its steps, written out by `slice` and `concat`. Without
/// fusion, which no iteration shares with the next, and with the result of each step placed, since
/// a search may otherwise combine what a loop cannot.
#[test]
fn a_scan_is_its_steps_written_out() {
    let steps: String = (0..4).map(written_out).collect();
    let joined = "O = concat_{C,C1,C2,C3->T}(o0, p1, p2, p3)\n";
    let sources = [SCAN.to_owned(), steps + joined]
        .map(|body| format!("{HEAD}{body}output O[B_X, T, D_Y]\n"));
    let [scanned, written] = sources.each_ref().map(|source| {
        let whole = program("scan", source);
        let whole = unroll::program(&whole, &|block| whole.repeats[block].count);
        evaluate(&whole, &arrays(&whole, 1)).expect("all is declared")["O"].clone()
    });
    assert_eq!(scanned, written);
    let [scan, flat] = sources.map(|source| plan("scan", &source, Planning::Search).report);
    assert!((scan.serial_s / flat.serial_s - 1.0).abs() <= 1e-9, "{scan:?}\n{flat:?}");
    assert!((scan.comm_s - flat.comm_s).abs() <= 1e-12, "{scan:?}\n{flat:?}");
}

/// With `checkpoint`, going back has the scores of one chunk in memory; without it, all of them.
#[test]
fn a_checkpoint_of_a_scan_keeps_no_scores() {
    let source = read("tests/programs/scans/chunked-loss.shard");
    let bytes = |source: &str| plan("loss", source, Planning::Search).report.memory.peak_bytes;
    let (without, with) = (bytes(&source.replace("  checkpoint\n", "")), bytes(&source));
    let scores = 2.0 * 32.0 * 4096.0 * 131_072.0 / 16.0;
    assert!(without > scores && with < 0.5 * scores, "{without} {with}");
}

const SPLITS: [&str; 4] = ["[B, T, D]", "[B_X, T, D]", "[B, T_X, D_Y]", "[B_Y, T, D_X]"];
const WEIGHTS: [&str; 3] = ["[D, F]", "[D_X, F_Y]", "[D, F_X]"];
const BLOCKS: [(&str, &str); 3] =
    [("scan T", ""), ("scan T in C", "mean_C"), ("scan T in E", "mean_E")];
const STEPS: [&str; 5] = [
    "z = tanh(y * s)\n",
    "z = y + t\n",
    "z = tanh(y * a)\n",
    "z = (y *D W) *F U\n",
    "z = tanh(y *D W) *F U + y\n",
];
const STATES: [&str; 4] = [
    "a = 0.5 * a + READ(z)\n",
    "a = tanh(READ(z * p) - a)\n",
    "a = a * s\nb = 0.5 * b + READ(z *D W)\n",
    "a = 0.25 * a + READ(y)\n",
];
const AFTER: [&str; 4] = [
    "Q = stack(z)\n",
    "Q = x + stack(z) * p\n",
    "Q = stack(z) + 0.5 * a\n",
    "Q = stack(z) * stack(y)\n",
];
const CHECKPOINTS: [&str; 3] = ["", "checkpoint\n", "checkpoint only z\n"];

/// A program with a scan of random statements, and these lines around it.
fn random(numbers: &[u32], (open, close): (&str, &str), backward: &str) -> String {
    let pick = |place: usize, of: &[&'static str]| of[numbers[place] as usize % of.len()];
    let (scan, read) = BLOCKS[numbers[0] as usize % 3];
    let state = pick(6, &STATES).replace("READ", read);
    let has_second = state.contains("b =");
    let second = if has_second { "b[B_?, F_?] = 0.0\n" } else { "" };
    let carried = if has_second { "a, b" } else { "a" };
    let inner = ["repeat M=2 {\ncarry e\ne = 0.5 * e + x\n}\n", "", ""];
    let entered = ["y = e + 0.5 * a\n", "y = e * s\n"];
    format!(
        "hardware tpu-v5p\nmesh Z=2, X=2, Y=2\ndim B=4, T=4, C=2, E=1, D=4, F=8\n\
        input x{}, t[T, D], g[B, T, D]\nparam s[D], p[T, D_X]\nparam W{}, U[F, D_X]\n\
        {open}a[B_?, D_?] = 0.5 * max_T(x)\n{second}{scan} {{\ncarry {carried}\ne = x * s\n\
        {}{}{}{state}{}}}\n{}{close}{backward}output Z{}\n",
        pick(1, &SPLITS),
        pick(2, &WEIGHTS),
        pick(7, &inner),
        pick(8, &entered),
        pick(3, &STEPS),
        pick(4, &CHECKPOINTS),
        pick(5, &AFTER),
        pick(9, &SPLITS),
    )
}

/// A program without stages.
fn flat(numbers: &[u32], around: (&str, &str), backward: &str) -> String {
    random(numbers, around, backward).replace("mesh Z=2, ", "mesh ")
}

const ALONE: (&str, &str) = ("", "Z = 2.0 * Q\n");
const LAYERS: (&str, &str) = ("repeat L=2 {\ncarry x\n", "x = 0.5 * Q\n}\nZ = 2.0 * x\n");
const LOSS: &str = "Loss = sum_{B,T,D}(Z * Z)\nbackward from Loss\n";

fn run(cases: u32, check: impl Fn(&[u32], u64) -> Result<(), TestCaseError>) {
    let inputs = (numbers(10), any::<u32>());
    for_all(cases, &inputs, |(numbers, seed)| check(&numbers, u64::from(seed)));
}

#[test]
fn gradients_through_scans_are_numerical_differences() {
    run(60, |numbers, seed| {
        gradients_are_right(&flat(numbers, ALONE, LOSS), &["s", "p", "W", "U"], 5e-5, seed)
    });
}

#[test]
fn gradients_through_scans_in_layers_are_numerical_differences() {
    run(20, |numbers, seed| {
        gradients_are_right(&flat(numbers, LAYERS, LOSS), &["s", "p", "W", "U"], 5e-5, seed)
    });
}

#[test]
fn random_scans_are_right() {
    run(8, |numbers, _| {
        for sizes in [Sizes::Full, Sizes::Scaled] {
            checked_plans("random", &flat(numbers, ALONE, LOSS), sizes);
        }
        Ok(())
    });
}

#[test]
fn random_scans_are_right_in_layers() {
    run(4, |numbers, _| {
        checked_plans("random", &flat(numbers, LAYERS, LOSS), Sizes::Full);
        Ok(())
    });
}

#[test]
fn random_scans_are_right_in_microbatches() {
    let backward = LOSS.replace("from Loss", "from Loss, microbatches=2 of B");
    run(4, |numbers, _| {
        checked_plans("random", &flat(numbers, ALONE, &backward), Sizes::Full);
        Ok(())
    });
}

#[test]
fn random_scans_are_right_in_pipelines() {
    let open = "pipeline Z, microbatches=2 of B, schedule=1f1b {\nrepeat L=2 {\ncarry x\n";
    let close = "x = 0.5 * Q\n}\n}\nZ = 2.0 * x\n";
    run(4, |numbers, _| {
        let source = random(numbers, (open, close), "backward from Z given g\n");
        checked_plans("random", &source, Sizes::Full);
        Ok(())
    });
}
