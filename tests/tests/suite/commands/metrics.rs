//! Figures of a step: tokens, utilisation, what a plan waits for, what a token costs.

use shardwise::metrics::Metrics;
use shardwise::{Fusion, Grouping, Options, Rates, Strategy};
use shardwise_tests::planning::planned;
use shardwise_tests::read;

fn metrics(source: &str, options: Options) -> Metrics {
    let (memory, strategy) = (Some(f64::INFINITY), Strategy::Textbook);
    planned(source, &Options { memory, strategy, ..options }).metrics()
}

fn near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 1e-9, "{found} for {wanted}");
}

fn product(rows: u64, mesh: &str, a: &str, b: &str, c: &str) -> String {
    format!(
        "hardware h100\nmesh {mesh}\ndim B={rows}, D=8192, F=8192\ninput A[{a}]\nparam W[{b}]\n\
         C = A *D W\noutput C[{c}]\n"
    )
}

#[test]
fn a_large_product_runs_at_its_peak() {
    let source = product(65536, "X=8", "B_X, D", "D, F", "B_X, F");
    let found = metrics(&source, Options { price: Some(3.6), ..Options::default() });
    let step_s = 2.0 * 65536.0 * 8192.0 * 8192.0 / 8.0 / 989e12;
    near(found.step_s, step_s);
    near(found.mfu, 1.0);
    near(found.hfu, 1.0);
    assert_eq!(found.bound_by, "FLOPs");
    let tokens = found.tokens.expect("the rows of A");
    near(tokens.count, 65536.0);
    near(tokens.per_s, 65536.0 / step_s);
    near(tokens.per_s_and_chip, 65536.0 / step_s / 8.0);
    near(tokens.price_of_million.expect("a price is given"), 8.0 * 1e-3 * step_s / 65536.0 * 1e6);
}

#[test]
fn work_that_devices_repeat_is_no_work_of_the_model() {
    let source = product(65536, "X=8", "B, D", "D, F", "B, F");
    let found = metrics(&source, Options::default());
    near(found.mfu, 1.0 / 8.0);
    near(found.hfu, 1.0);
}

#[test]
fn plans_say_what_they_wait_for() {
    let bound = |source: &str, rates| {
        metrics(source, Options { rates: Some(rates), ..Options::default() }).bound_by
    };
    let few_rows = product(16, "X=8", "B, D", "D, F_X", "B, F_X");
    assert_eq!(bound(&few_rows, Rates::Peak), "HBM bandwidth");
    let gathered = product(1024, "X=8", "B_X, D", "D, F_X", "B_X, F");
    assert_eq!(bound(&gathered, Rates::Peak), "the links of X");
    let tiny = "hardware h100\nmesh X=8\ndim N=64\ninput A[N_X]\noutput A[N]\n";
    assert_eq!(bound(tiny, Rates::Peak), "latency");
    assert_eq!(bound(tiny, Rates::Measured), "latency");
    let nothing = "hardware h100\nmesh X=8\ndim N=64\ninput A[N_X]\noutput A[N_X]\n";
    assert_eq!(bound(nothing, Rates::Peak), "nothing");
    let bubble = read("tests/programs/pipelines/gpipe.shard")
        .replace("microbatches=8", "microbatches=2")
        .replace("Z=4", "Z=16");
    assert_eq!(bound(&bubble, Rates::Peak), "the bubble");
}

#[test]
fn products_that_a_checkpoint_computes_again_are_no_work_of_the_model() {
    let found = metrics(&read("tests/programs/microbatches/checkpoint.shard"), Options::default());
    // Two products, four of gradients, and the first again.
    near(found.hfu / found.mfu, 7.0 / 6.0);
    // All microbatches together.
    near(found.tokens.expect("rows of the batch").count, 98304.0);
}

/// Devices of stages with fewer layers execute less: no work is repeated where stages are unequal.
#[test]
fn unequal_stages_execute_the_work_of_the_model_once() {
    let source = |layers: &str| {
        format!(
            "hardware h100\nmesh Z=4 dcn\ndim B=64, D=1024, F=4096\n\
             input x[B, D], dy[B, D]\n\
             pipeline Z, microbatches=8, schedule=1f1b, layers=[{layers}] {{\n\
             repeat L=8 {{\ncarry x\nparam W[D, F], V[F, D]\nx = x + gelu(x *D W) *F V\n}}\n\
             }}\nbackward from x given dy\noutput dx[B, D]\n"
        )
    };
    for layers in ["2, 2, 2, 2", "1, 3, 3, 1", "5, 1, 1, 1"] {
        let found = planned(&source(layers), &Options::default());
        let (metrics, cost) = (found.metrics(), found.cost());
        near(metrics.hfu, metrics.mfu);
        near(cost.device_flops * 4.0, cost.flops);
    }
}

/// Of a causal mask over a split sequence the last device has the most terms: others wait for it.
#[test]
fn devices_that_wait_for_the_busiest_execute_less() {
    let source = |dims: &str, rest: &str| format!("hardware tpu-v5p\nmesh X=8\ndim {dims}\n{rest}");
    let causal = source(
        "T=8192, S=T, N=8, H=128",
        "input q[T_X, N, H]\nparam k[S, N, H], v[S, N, H]\n\
         y[T_X, N, H] = attention(q, k, v, causal)\noutput y[T_X, N, H]\n",
    );
    let experts = source(
        "G=64, T=2048, C=T, E=64, D=4096, F=2048",
        "input x[G_X, T, D]\nparam r[D, E], w[E_X, D, F]\ns = softmax_E(x *D r)\n\
         sent = route_{T,E->C}(s, 4, busiest=1.5)\nin = sent *T x\n\
         h[G, E_X, C, F] = in *D w\noutput h[G, E_X, C, F]\n",
    );
    for source in [causal, experts] {
        let found = metrics(&source, Options::default());
        near(found.hfu, found.mfu);
    }
}

/// A head is on one stage of four, whatever the number of microbatches.
#[test]
fn statements_beside_layers_are_executed_on_their_stage() {
    let source = "hardware h100\nmesh Z=4 dcn\ndim B=64, D=1024, F=4096, V=8192\n\
        input x[B, D]\npipeline Z, microbatches=2 {\nrepeat L=8 {\ncarry x\n\
        param W[D, F], U[F, D]\nx = x + gelu(x *D W) *F U\n}\n\
        stage head {\nparam H[D, V]\nloss = sum_B(logsumexp_V(x *D H))\n}\n}\n\
        backward from loss\noutput loss[]\n";
    let found = metrics(source, Options::default());
    near(found.hfu, found.mfu);
}

#[test]
fn expected_times_stand_beside_those_at_peak_rates() {
    let source = read("tests/programs/models/llama3-8b-decode.shard");
    let peak = metrics(&source, Options::default());
    assert_eq!((peak.at_peak_s, peak.mean_error), (None, None));
    let measured = metrics(&source, Options { rates: Some(Rates::Measured), ..Options::default() });
    near(measured.at_peak_s.expect("beside it"), peak.step_s);
    assert!(measured.step_s > peak.step_s && measured.mean_error.is_some());
    assert!(measured.mfu < peak.mfu);
}

#[test]
fn a_price_is_a_key_of_hardware_files() {
    let file = "[mine]\nbase = \"h100\"\nprice = 2.5 # a chip-hour\n";
    let known = shardwise::hardware::parse("hw.toml", file).expect("it is a file");
    assert_eq!(known[0].price, Some(2.5));
    let source = product(4096, "X=8", "B_X, D", "D, F", "B_X, F").replace("h100", "mine");
    let tokens = metrics(&source, Options { known, ..Options::default() }).tokens;
    assert!(tokens.is_some_and(|tokens| tokens.price_of_million.is_some()));
    let free = shardwise::hardware::parse("hw.toml", "[mine]\nbase = \"h100\"\nprice = -1\n");
    assert!(free.is_err());
}

/// Scores that a kernel computes again are work of the devices, and not of the model.
#[test]
fn attention_has_the_same_work_however_it_is_fused() {
    let source = "hardware h100\nmesh X=8\ndim B=8, T=4096, S=4096, H=128\n\
        input q[B_X, T, H], g[B_X, T, H]\nparam k[S, H], v[S, H]\n\
        p = softmax_S(q *H k)\no[B_X, T, H] = p *S v\nbackward from o given g\n";
    let of = |fusion| metrics(source, Options { fusion: Some(fusion), ..Options::default() });
    let (alone, fused) = (of(Fusion::None), of(Fusion::Attention));
    near(fused.mfu * fused.step_s, alone.mfu * alone.step_s);
    near(alone.hfu, alone.mfu);
    // Two products going forward and three going back (inputs have no gradients), all of one size;
    // one of them is computed twice.
    near(fused.hfu / fused.mfu, 6.0 / 5.0);
}

/// Experts compute all of their slots, of which tokens fill some.
#[test]
fn empty_slots_of_experts_are_no_work_of_the_model() {
    let of = |capacity: u64| {
        let source = format!(
            "hardware h100\nmesh X=8\ndim T=4096, D=1024, F=4096, E=8, C={capacity}\n\
             input x[T_X, D], dy[T_X, D]\nparam router[D, E], win[E_X, D, F], wout[E_X, F, D]\n\
             place = route_{{T,E->C}}(x *D router, 2)\nsent = place *T x\n\
             y = place *E,C (gelu(sent *D win) *F wout)\nbackward from y given dy\n"
        );
        metrics(&source, Options::default())
    };
    let [full, padded] = [1024, 2048].map(of);
    near(padded.model_flops, full.model_flops);
    assert!(padded.mfu < 0.7 * full.mfu, "{} {}", padded.mfu, full.mfu);
    // Where none is dropped, each expert has a slot for every token, and the used ones count.
    assert!((of(4096).model_flops / full.model_flops - 1.0).abs() < 0.01);
}

/// A layer of experts, two for each token.
fn experts(tokens: u64, experts: u64, slots: u64, rates: &str) -> String {
    format!(
        "hardware h100, rates={rates}\nmesh X=1\ndim B={tokens}, D=4096, F=14336, E={experts}\n\
         dim C={slots}\ninput m[B, D]\nparam router[D, E], win[E, D, F], wout[E, F, D]\n\
         weight = softmax_E(m *D router)\nsent = route_{{B,E->C}}(weight, 2)\n\
         h = gelu((sent *B m) *D win)\ny = (sent * weight) *E,C (h *F wout)\noutput y[B, D]\n"
    )
}

/// A few tokens read the weights of the experts that they choose, and not those of all.
#[test]
fn weights_of_experts_that_no_token_chooses_are_not_read() {
    let product_s = |tokens: u64, count: u64| {
        let source = experts(tokens, count, tokens, "peak");
        let grouping = Grouping::AsWritten;
        let steps =
            planned(&source, &Options { grouping, ..Options::default() }).json().steps.clone();
        let product = steps.iter().find(|step| step.text.contains("*F wout"));
        product.map(|step| step.time_s).expect("it is in the plan")
    };
    near(product_s(1, 8), product_s(1, 2));
    // Each of eight experts is chosen by one of two tokens at least: 1 - (3/4)^2 of them.
    let share = product_s(2, 8) / product_s(64, 8);
    assert!((share - 0.4375).abs() < 0.01, "{share}");
}

/// The model's work is that of its statements, where the plan does more to read less.
#[test]
fn the_work_of_a_model_does_not_depend_on_how_a_plan_groups_its_products() {
    let of = |rates: &str| {
        let source = experts(64, 8, 24, rates).replace("X=1", "X=8").replace("[E, ", "[E_X, ");
        planned(&source, &Options::default()).metrics()
    };
    let (peak, measured) = (of("peak"), of("measured"));
    near(measured.model_flops, peak.model_flops);
    assert!(measured.hfu > 2.0 * measured.mfu, "the plan is regrouped, else nothing is tested");
}

#[test]
fn a_roofline_has_a_point_for_each_kernel() {
    let source = product(65536, "X=8", "B_X, D", "D, F_X", "B_X, F");
    let planned = planned(&source, &Options { memory: Some(f64::INFINITY), ..Options::default() });
    let picture = planned.roofline().expect("it computes something");
    assert_eq!(picture.matches("<circle").count(), 1, "{picture}");
    assert!(picture.contains("989TFLOP/s") && picture.contains("100% of the roof"), "{picture}");
    assert_eq!(picture, planned.roofline().expect("the same again"));
}

#[test]
fn a_program_without_operations_is_bound_by_nothing() {
    let empty = "hardware h100\nmesh X=4\ndim I=8\ninput A[I_X]\noutput A[I_X]\n";
    let table = planned(empty, &Options::default()).cost_table();
    assert!(table.contains("; bound by nothing;") && !table.contains("-bound"), "{table}");
    let some =
        planned(&empty.replace("output A[I_X]", "B = 2 * A\noutput B[I_X]"), &Options::default());
    assert!(some.cost_table().contains("-bound: nothing is communicated"));
}

#[test]
fn kernels_at_one_place_of_a_roofline_share_a_label() {
    for (count, label) in [(1, ">\n1\n<"), (2, ">\n1, 2\n<"), (6, ">\n1–6\n<")] {
        let mut source =
            "hardware h100\nmesh X=1\ndim B=4096, D=4096, F=4096\ninput A[B, D]\n".to_owned();
        for n in 0..count {
            source += &format!("input W{n}[D, F]\nC{n} = A *D W{n}\noutput C{n}[B, F]\n");
        }
        let planned = planned(&source, &Options::default());
        let picture = planned.roofline().expect("it computes something");
        assert_eq!(picture.matches(label).count(), 1, "{count} {picture}");
    }
}

#[test]
fn summaries_have_the_expected_time_where_anything_was_measured() {
    let text = |chip: &str| {
        let source = product(65536, "X=8", "B_X, D", "D, F", "B_X, F").replace("h100", chip);
        planned(&source, &Options::default()).to_string()
    };
    let plan = text("h100");
    assert!(plan.contains(" at measured rates, 1.11 ms at peak rates"), "{plan}");
    assert!(plan.contains("MFU 100.0%, HFU 100.0%; 58.9 M tokens a second"), "{plan}");
    assert!(!text("tpu-v3").contains("expected"));
}

#[test]
fn work_is_repeated_only_as_often_as_three_digits_show() {
    let of = |rows: u64| {
        let source = product(rows, "X=2", "B_X, D", "D, F", "B_X, F");
        let source = source.replace("h100", "h100, products=fp8");
        let strategy = Strategy::Textbook;
        planned(&source, &Options { strategy, ..Options::default() }).cost_table()
    };
    // Both devices convert all of `W`: that is 1 in 2 B of the product's FLOPs.
    assert!(of(16).contains("(work repeated 1.03x)"), "{}", of(16));
    assert!(!of(512).contains("work repeated"), "{}", of(512));
}

/// Positions are a parameter, too, but nothing is multiplied with it.
#[test]
fn rows_that_a_parameter_of_positions_has_are_tokens() {
    let source = "hardware h100\nmesh X=8\ndim B=64, T=1024, D=4096, F=8192\ninput x[B_X, T, D]\n\
        param pos[T, D], W[D, F]\nh = x + pos\noutput y[B_X, T, F] = h *D W\n";
    let tokens = metrics(source, Options::default()).tokens.expect("rows of h");
    near(tokens.count, 64.0 * 1024.0);
}

#[test]
fn products_of_an_optimizer_are_no_work_of_the_model() {
    let source = |optimizer: &str| {
        format!(
            "hardware h100\nmesh X=8\ndim B=65536, D=4096, F=16384\ninput x[B_X, D], dy[B_X, D]\n\
             param W1[D, F], W2[F, D]\ny = gelu(x *D W1) *F W2\nbackward from y given dy\n\
             optimizer {optimizer}\n"
        )
    };
    let of = |optimizer: &str| metrics(&source(optimizer), Options::default());
    let (adam, muon) = (of("adam"), of("muon"));
    near(adam.model_flops, 5.0 * 2.0 * 65536.0 * 4096.0 * 16384.0);
    near(muon.model_flops, adam.model_flops);
    assert!(muon.hfu > 1.2 * muon.mfu && muon.step_s > adam.step_s, "{muon:?}");
}
