//! Plans within a limit on memory: they fit, they are not costlier than necessary, and their claims
//! are true.

use std::time::Duration;

use shardwise::options::Effort;
use shardwise::{AxisParts, Grouping, Objective, Options, Planned, Strategy};
use shardwise_passes::least_at_the_end;
use shardwise_tests::planning::planned;
use shardwise_tests::random::draws;
use shardwise_tests::{drawn, random_program, read, statements};

fn plan(source: &str, memory: f64) -> Result<Planned, shardwise::Findings> {
    shardwise::plan("program", source, &Options { memory: Some(memory), ..Options::default() })
}

#[test]
fn two_matrices_under_300_megabytes() {
    let tensor_parallel = read("tests/programs/book/p3-q7.shard");
    let planned = plan(&tensor_parallel, 300e6).expect("the second option fits");
    assert_eq!(
        statements(&planned.to_string()),
        statements(&read("tests/programs/book/p3-q7.plan"))
    );
    assert_eq!(planned.status_name(), "optimal");

    let gathered = read("tests/programs/book/p3-q7-fsdp.shard");
    let textbook =
        Options { strategy: Strategy::Textbook, memory: Some(300e6), ..Options::default() };
    let findings =
        shardwise::plan("q7", &gathered, &textbook).expect_err("a whole matrix does not fit");
    assert!(drawn(&findings).contains("`Win[D, F]` 537 MB"), "{}", drawn(&findings));
    let planned = plan(&gathered, 300e6).expect("the activations can be moved instead");
    assert!(planned.report.memory.peak_bytes <= 300e6, "{planned}");
    assert!(!planned.to_string().contains("Win[D, F]"), "{planned}");
}

#[test]
fn what_cannot_fit_is_reported_with_what_is_in_the_way() {
    let findings = plan(&read("tests/programs/book/p3-q7.shard"), 200e6)
        .expect_err("the matrices alone are 268 MB");
    let text = drawn(&findings);
    assert_eq!(findings.reports[0].diag.code, "SW505", "{text}");
    assert!(
        text.contains("the smallest plan found needs") && text.contains("params and state 268 MB"),
        "{text}"
    );
}

/// Plans of a program within ever larger limits: none is refused or costlier where a tighter limit
/// had a plan, and what each claims is true of all others.
fn agree(source: &str, limits: &[f64]) {
    let mut known: Vec<Planned> = Vec::new();
    let program = shardwise::check("program", source, &Options::default()).program;
    let at_the_end = program.as_ref().map_or(0.0, least_at_the_end);
    for &limit in limits {
        let planned = match plan(source, limit) {
            Ok(planned) => planned,
            Err(error) => {
                assert!(known.is_empty(), "refused at {limit}, not below\n{error}\n{source}");
                continue;
            }
        };
        let seconds = planned.report.serial_s;
        let peak_bytes = planned.report.memory.peak_bytes;
        assert!(peak_bytes <= limit, "{source}\n{planned}");
        assert!(peak_bytes >= at_the_end, "{source}\n{planned}");
        for tighter in &known {
            let least = tighter.report.serial_s * (1.0 + 1e-9);
            assert!(seconds <= least, "{source}\nwithin {limit}\n{tighter}\n{planned}");
            assert!(planned.lower_bound_s() <= least, "{source}\n{tighter}\n{planned}");
            let looser_fits = planned.report.memory.peak_bytes
                <= tighter.capacity_bytes.expect("it was planned within a limit");
            assert!(
                !looser_fits || tighter.lower_bound_s() <= seconds * (1.0 + 1e-9),
                "{source}\n{tighter}\n{planned}"
            );
        }
        known.push(planned);
    }
}

/// These parts of what the cheapest plan takes.
fn ladder(source: &str, parts: &[f64]) -> Vec<f64> {
    let all = plan(source, f64::INFINITY).expect("it has a plan").report.memory.peak_bytes;
    parts.iter().map(|part| part * all).collect()
}

/// A program whose looser limit once was refused, and one where it had the costlier plan.
const REFUSED: &str = "hardware tpu-v5p\nmesh X=8, Y=2\ndim F=256, K=48, G=128, B=64\n\
    input in1[B_{X,Y}, K, G]\nparam w4[B]\ninput in9[B_X, F_Y, G]\n\
    v2 = causal_{G,B}(in1)\nv3 = in1 *B w4\nv7 = layernorm_K(in1)\nv8 = v7 *B in9\n\
    output v3[K_X, G]\n";
const COSTLIER: &str = "hardware tpu-v5p\nmesh X=2, Y=2, Z=8\n\
    dim K=64, T=1024, E=128, K2=K\ninput in1[K2, E]\ninput in4[K2, K_{Z,X}, E_Y]\n\
    param w8[K, T, K2_Z]\nv3[E, K] = in1 *K2 in4\nv5 = in1 *E,K2 in4\n\
    v6[K_?, E_?] = rename(in1)\nv7 = v5 *K w8\n";

/// They have values that nothing reads, which left gaps of 10% to 23%.
#[test]
fn plans_with_unread_values_are_optimal_within_memory() {
    for (source, limits) in [(REFUSED, [0.9e6, 1.2e6]), (COSTLIER, [1.4e6, 1_580_646.0])] {
        for limit in limits {
            let planned = plan(source, limit).expect("it fits");
            assert_eq!(planned.status_name(), "optimal", "{source}\n{planned}");
        }
    }
}

#[test]
fn a_looser_limit_has_no_costlier_plan() {
    agree(REFUSED, &[0.9e6, 1e6, 1.1e6, 1.2e6, 1.4e6]);
    agree(COSTLIER, &[1.4e6, 1_487_667.0, 1_580_646.0, 1.7e6, 2e6]);
    let through_smaller_blocks = "hardware h100\nmesh X=2, Y=4, Z=3\ndim X=4800, L=1\n\
        param A0[X_XZY]\ninput A1[L, X_Z]\nT0 = silu(A1)\nT1 = silu(A0)\nT2 = min_X(A1)\n\
        T3 = (T0 == T0) * T0\nT4 = T0 + T2\noutput T1[X_Z], T4[L, X_XZY]\n";
    let parts = [0.5, 0.57, 0.64, 0.7, 0.76, 0.9];
    agree(through_smaller_blocks, &ladder(through_smaller_blocks, &parts));
    let reshaped = "hardware tpu-v5p\nmesh X=2, Y=2, Z=2\ndim I=96, J=48, K=48, N=I*J\n\
        input A0[K_?], A1: int8[J_XYZ, I], A2[K, J_Z]\nT1 = 2.0 * (A0 * A1)\n\
        T3 = roll_K(A2, -1)\nT4[K, J, I_XZ] = T3 + T1\nT5[K_?, N_?] = reshape(T4)\n\
        output T4[K_ZYX, J, I], T5[K_XZ, N]\n";
    agree(reshaped, &ladder(reshaped, &[0.36, 0.57, 0.76, 0.82, 0.9]));
    let in_parts = "hardware tpu-v5e\nmesh X=8, Y=4\ndim B=64, D=256, F=2048, K=16\n\
        input x[B, D_?]\nparam W0[D_Y, F_?]\nh0 = softmax_F(x *D W0)\nparam W1[F_Y, D]\n\
        h1 = h0 *F W1\noutput h1[B_X, D]\n";
    agree(in_parts, &[452_198.0, 536_985.0, 600_000.0]);
}

/// At measured rates frameworks keep operands that are computed again where memory is too small. A
/// limit in which they fit at a price once had a costlier plan than a tighter one, and called it
/// nearly optimal.
#[test]
fn what_frameworks_keep_makes_no_plan_costlier() {
    let gated = "hardware h100, rates=measured\nmesh X=2, Y=4\ndim B=65536, D=4096, F=16384\n\
        input x[B_X, D], dy[B_X, D]\nrepeat L=4 {\ncarry x\n\
        param Win[D, F_Y], Wgate[D, F_Y], Wout[F_Y, D], n[D]\na = rmsnorm_D(x) * n\n\
        x = x + (silu(a *D Wgate) * (a *D Win)) *F Wout\n}\n\
        backward from x given dy, microbatches=2 of B, gradients=f32\n\
        optimizer adam over X, master=f32\n";
    agree(gated, &[4.2e9, 4.5e9, 4.7e9, 4.9e9, 5.1e9]);
}

/// Between a value and its third part there are two slices; of the steps that lead there, one that
/// is at the peak is left out alone, since the output needs larger blocks.
#[test]
fn one_step_at_the_peak_is_left_out_alone() {
    let source = "hardware h100\nmesh X=1, Y=4, Z=3\n\
        dim I=96, J=10 pad, K=10 pad, L=1, X=48, M=96, N=16, U=8, V=4\n\
        input A0[L]\nparam A1[L]\ninput A2[J_YZ], Q: int32[L_X]\nT0 = A0 / A2\nT1 = A2 * A2\n\
        T2 = layernorm_{L,J}(T0)\nT3[L, J_?, X] = broadcast_X(T2)\nT4 = maximum(T1, T3)\n\
        output T3[L, J, X]\noutput T4[J, L, X_YXZ]\n";
    let seconds = |memory: f64| {
        let (parts, grouping) = (AxisParts::AsWritten, Grouping::AsWritten);
        let options = Options { memory: Some(memory), parts, grouping, ..Options::default() };
        shardwise::plan("program", source, &options).expect("it fits").report.serial_s
    };
    assert!(seconds(1243.0) <= seconds(1179.0));
}

/// Neither the search within the limit nor those within tighter ones return a plan of this program,
/// but the one for the smallest plan meets some that fit. It was refused without an error.
const FOUND_LATE: &str = "hardware tpu-v5e\nmesh X=2, Y=8, Z=2\ndim B=65536, D=4096, F=32768\n\
    input v0[F_Z, D_Y]\nparam v1: f32[D, B], v2[B_Y, D], v3[F_?, D], v4[D, B]\n\
    t0 = v0 * v0\nt1 = v0 *D v1\nt2 = v1 *D t0\nt3 = t1 *B v2\nt4 = t1 *F v3\n\
    t5 = t3 *D v4\nt6 = v3 *D t4\nt7 = t5 *F v0\noutput t2[B_Z, F]\noutput t6[F, B]\n";

fn least_comm(effort: Effort, timeout: Option<Duration>) -> Result<Planned, shardwise::Findings> {
    let (parts, grouping) = (AxisParts::AsWritten, Grouping::AsWritten);
    let (objective, memory) = (Objective::Comm, Some(16e9));
    let asked = Options { objective, memory, effort, timeout, ..Options::default() };
    shardwise::plan("program", FOUND_LATE, &Options { parts, grouping, ..asked })
}

#[test]
fn a_plan_that_only_the_search_for_the_smallest_meets_is_no_refusal() {
    let planned = least_comm(Effort::Normal, None).expect("a plan of 15.7 GB is known");
    assert!(planned.report.memory.peak_bytes <= 16e9, "{planned}");
    assert!(planned.lower_bound_s() <= planned.report.comm_s, "{planned}");
}

/// Where the search did not look for all plans that may fit, the refusal says what makes it.
#[test]
fn a_refusal_says_that_more_work_may_find_a_plan() {
    let refusal = |effort, timeout| {
        let findings = least_comm(effort, timeout).expect_err("it finds no plan that fits");
        findings.reports[0].diag.help.clone().unwrap_or_default()
    };
    let quick = refusal(Effort::Quick, None);
    assert!(quick.ends_with("; `--effort normal` looks for more plans that may fit"), "{quick}");
    let hasty = refusal(Effort::Normal, Some(Duration::ZERO));
    assert!(hasty.ends_with(": give it more time"), "{hasty}");
}

/// Reshards run as late as what they make is read and as early as they save memory: only so do
/// these fit at the price of the cheapest plan that need not.
#[test]
fn reshards_run_early_or_late_as_the_limit_needs() {
    let source = "hardware h100\nmesh X=2, Y=4, Z=3\ndim X=4800, L=1\n\
        param A0[X_XZY]\ninput A1[L, X_Z]\nT0 = silu(A1)\nT1 = silu(A0)\nT2 = min_X(A1)\n\
        T3 = (T0 == T0) * T0\nT4 = T0 + T2\noutput T1[X_Z]\noutput T4[L, X_XZY]\n";
    let as_written = |memory: f64| {
        let (parts, grouping) = (AxisParts::AsWritten, Grouping::AsWritten);
        let options = Options { memory: Some(memory), parts, grouping, ..Options::default() };
        shardwise::plan("program", source, &options).expect("it fits")
    };
    let free = as_written(f64::INFINITY).report;
    for part in [0.85, 0.95] {
        let within = as_written(part * free.memory.peak_bytes);
        assert_eq!(within.status_name(), "optimal", "{within}");
        assert!(within.report.serial_s <= free.serial_s * (1.0 + 1e-9), "{within}");
    }
}

/// The smallest plan moves `A0` before all else, so that its two blocks alone are the peak; halving
/// the limits between those of other plans once ended at a larger one.
#[test]
fn a_refusal_names_the_smallest_peak_of_all() {
    let source = "hardware h100\nmesh X=2, Y=4, Z=2\n\
        dim I=48, J=96, K=480, L=480, X=480, M=48, N=I*J, U=8, V=4\n\
        input A0[K_X, L, I]\nstate A1: f32[K, I_ZYX, J]\ninput Q: int32[L]\n\
        T0 = route_{K,I->V}(A1, 2)\nT1 = maximum(T0, A1)\nT2[K_?, L, I_Z] = roll_K(A0, -1)\n\
        output T2[K_Y, L_XZ, I]\n";
    let as_written = |memory: f64| {
        let (parts, grouping) = (AxisParts::AsWritten, Grouping::AsWritten);
        let options = Options { memory: Some(memory), parts, grouping, ..Options::default() };
        shardwise::plan("program", source, &options)
    };
    let refusal = as_written(10.2e6).expect_err("the output takes more").to_string();
    assert!(refusal.contains("the smallest plan found needs 13 MB"), "{refusal}");
    let planned = as_written(13e6).expect("it fits");
    assert!(as_written(planned.report.memory.peak_bytes - 1.0).is_err(), "{planned}");
}

/// In blocks a step of the bisection has all searches of a limit: one of them alone ended at 822 MB
/// from one limit, and at 638 MB from another.
#[test]
fn refusals_of_a_program_with_microbatches_agree() {
    let source = "hardware h100\nmesh X=4\ndim B=32768, D=2048, F=8192\n\
        input x[B, D], dy[B, D]\nparam W1[D, F], W2[F, D]\nh[B, F] = x *D W1\n\
        y[B, D] = h *F W2\nbackward from y given dy, microbatches=4\noptimizer adam\n\
        output y[B_?, D_?]\n";
    for memory in [300e6, 500e6, 600e6] {
        let refusal = plan(source, memory).expect_err("state alone takes 336 MB").to_string();
        assert!(refusal.contains("the smallest plan found needs 638 MB"), "{refusal}");
    }
}

#[test]
fn ladders_of_random_programs() {
    for (i, numbers) in draws().enumerate().take(10) {
        let source = random_program::program(&numbers, 2 + i % 2, 2 + i % 4);
        if let Ok(free) = plan(&source, f64::INFINITY) {
            let all = free.report.memory.peak_bytes;
            agree(&source, &[0.4, 0.55, 0.7, 0.85, 0.95].map(|part| part * all));
        }
    }
}

/// Of two weights that every microbatch gathers, one can be kept for all of them where there is no
/// room for both.
#[test]
fn one_of_two_weights_is_kept() {
    let source = read("tests/programs/microbatches/mlp.shard");
    let all = plan(&source, f64::INFINITY).expect("it has a plan");
    let within = plan(&source, 0.95 * all.report.memory.peak_bytes).expect("it fits");
    assert!(within.report.serial_s <= 1.2 * all.report.serial_s, "{within}");
}

/// Weights gathered once for all microbatches, and sums of their gradients that are reduced once,
/// compete for the same memory.
#[test]
fn weights_and_sums_of_gradients_share_the_memory() {
    let source = "hardware h100\nmesh X=64 ib\ndim B=512, T=4096, D=8192, F=32768\n\
        input x[B_?, T_?, D_?], dy[B_?, T_?, D_?]\n\
        repeat L=24 {\n  carry x\n  param Win[D_?, F_?], Wout[F_?, D_?]\n\
        h = gelu(x *D Win)\n  x = x + h *F Wout\n}\n\
        backward from x given dy, microbatches=4 of B\noptimizer adam\n";
    agree(source, &[30e9, 50e9, 60e9, 80e9]);
    let within = plan(source, 60e9).expect("one of the two fits");
    assert!(within.lower_bound_s() >= 0.9 * within.report.serial_s, "{within}");
}

/// Within memory no search finds every plan: the one for the sum of collectives was refused where
/// that of all steps has a plan, which communicates nothing.
#[test]
fn what_fits_under_another_objective_fits_under_that_of_collectives() {
    let source = "hardware tpu-v5p, fusion=elementwise, collectives=chunked\nmesh X=2, Y=4, Z=4\n\
    dim B=48, D=16, F=1024, K=4096, G=64, T=16\ninput i0[B_X, D_{Z,Y}]\n\
    param w1[B_?, T_?, K_?]\nparam w2[B_?]\nparam w3[B_?, T_?]\nv20 = gelu(w3)\n\
    v21 = w1 *B,T w1\nv22 = softmax_B(w3)\nv23 = gelu(w3)\nLoss = mean_{B,T}(square(v23))\n\
    backward from Loss\noutput v20[B_?, T_?]\noutput v21[K_?]\noutput v22[B_Y, T]\n\
    output v23[B_X, T_{Y,Z}]\noutput dw3[B_?, T_?]\n";
    let within = |objective| {
        let options = Options { objective, memory: Some(200_512.0), ..Options::default() };
        planned(source, &options)
    };
    let (of_all, of_collectives) = (within(Objective::Serial), within(Objective::Comm));
    assert!(of_collectives.report.comm_s <= of_all.report.comm_s);
    assert_eq!(of_collectives.status_name(), "optimal");
}
