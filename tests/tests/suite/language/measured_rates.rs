//! Times at measured rates, held against measured kernels; and what a program and an option say of
//! them.

use shardwise::{Options, Planned, Rates, Strategy, hardware};
use shardwise_tests::planning::planned;
use shardwise_tests::read;

const PRODUCT: &str = "mesh X=4\ndim M=4096, N=4096, K=4096\ninput A[M_X, K], B[K, N]\nC = A *K B\n\
    output C[M_X, N]\n";

fn serial_s(source: &str, rates: Option<Rates>) -> f64 {
    let options = Options {
        rates,
        strategy: Strategy::Textbook,
        memory: Some(f64::INFINITY),
        ..Options::default()
    };
    planned(source, &options).report.serial_s
}

/// A measured kernel as a program, with the microseconds that it took; `None` where the language
/// has no such program, or the chip no preset.
fn kernel(row: &str) -> Option<(String, f64)> {
    let fields: Vec<&str> = row.splitn(16, ',').collect();
    let [chip, kind, dtype, m, n, k, .., bytes, devices, measured, _] = fields[..] else {
        return None;
    };
    shardwise::Hardware::preset(chip)?;
    let elements = || bytes.parse::<u64>().ok().map(|bytes| bytes / 2);
    let body = match (kind, dtype) {
        ("product", "bf16") => format!(
            "mesh X=1\ndim M={m}, N={n}, K={k}\ninput A[M, K], B[K, N]\nC = A *K B\noutput C[M, N]"
        ),
        ("all_gather", "f16") => {
            format!("mesh X={devices}\ndim N={}\ninput A[N_X]\noutput A[N]", elements()?)
        }
        ("all_reduce", "f16") => {
            format!("mesh X={devices}\ndim N={}\ninput A[N] {{U_X}}\noutput A[N]", elements()?)
        }
        _ => return None,
    };
    Some((format!("hardware {chip}, rates=measured\n{body}\n"), measured.parse().ok()?))
}

/// The mean of `|predicted / measured - 1|` over the sampled kernels whose name contains `kind`.
fn mean_error(kind: &str, rates: Rates) -> f64 {
    let samples = read("tests/measured/kernels.csv");
    let rows = samples.lines().filter(|row| row.split(',').nth(1) == Some(kind));
    let errors: Vec<f64> = rows
        .filter_map(kernel)
        .map(|(program, measured)| (serial_s(&program, Some(rates)) * 1e6 / measured - 1.0).abs())
        .collect();
    assert!(errors.len() >= 10, "{} kernels of kind {kind}", errors.len());
    errors.iter().sum::<f64>() / errors.len() as f64
}

#[test]
fn sampled_kernels_take_about_the_time_that_was_measured() {
    for (kind, bound) in [("product", 0.18), ("all_gather", 0.12), ("all_reduce", 0.12)] {
        let (peak, measured) = (mean_error(kind, Rates::Peak), mean_error(kind, Rates::Measured));
        assert!(measured < bound && measured < peak / 2.0, "{kind}: {measured} {peak}");
    }
}

#[test]
fn the_option_comes_before_the_program() {
    let (plain, asked) =
        (format!("hardware h100\n{PRODUCT}"), format!("hardware h100, rates=measured\n{PRODUCT}"));
    let [peak, measured] = [serial_s(&plain, None), serial_s(&asked, None)];
    assert!(measured > peak, "{measured} {peak}");
    let same = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * b, "{a} {b}");
    same(serial_s(&plain, Some(Rates::Measured)), measured);
    same(serial_s(&asked, Some(Rates::Peak)), peak);
}

#[test]
fn a_plan_at_measured_rates_is_planned_again_at_the_same() {
    let source = format!("hardware h100, rates=measured\n{PRODUCT}");
    let plan = planned(&source, &Options::default());
    let again = planned(&plan.plan.to_string(), &Options::default());
    assert!(plan.to_string().contains("hardware h100, rates=measured"), "{plan}");
    assert_eq!(plan.report.serial_s.to_bits(), again.report.serial_s.to_bits());
}

#[test]
fn a_product_takes_what_the_page_says() {
    let chip = "[mine]\nbf16 = 1e15\nmemory = 1e11\nmemory_bandwidth = 1e12\n\
        link_bandwidth = 1e11\nlinks = \"switch\"\nproduct = 0.5\nproduct_memory = 0.8\n\
        product_fixed = 4e-6\nlink_share = 0.8\nlink_saturation = 1e-5\nlink_fixed = 3e-6\n\
        link_per_device = 1e-6\n";
    let options = Options {
        known: hardware::parse("mine.toml", chip).expect("a hardware file"),
        rates: Some(Rates::Measured),
        ..Options::default()
    };
    let serial_s =
        |source: &str| planned(&format!("hardware mine\n{source}"), &options).report.serial_s;
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * b, "{a} {b}");
    let (flops, bytes): (f64, f64) =
        (2.0 * 1024.0 * 4096.0 * 4096.0, 2.0 * 4096.0 * (1024.0 * 2.0 + 4096.0));
    near(serial_s(PRODUCT), (flops / 0.5e15).hypot(bytes / 0.8e12) + 4e-6);
    // 16 MB over 4 devices, of which three quarters come from others.
    let at_full_s: f64 = 16e6 * 0.75 / 1e11;
    let gather = "mesh X=4\ndim N=8000000\ninput A[N_X]\noutput A[N]\n";
    let latency_s = |ways: f64| 3e-6 + ways * 4.0 * 1e-6;
    near(serial_s(gather), at_full_s / 0.8 + (at_full_s * 1e-5).sqrt() + latency_s(1.0));
    let reduce = "mesh X=4\ndim N=8000000\ninput A[N] {U_X}\noutput A[N]\n";
    let twice_s = 2.0 * at_full_s;
    let unsaturated_s = (twice_s * 1e-5).sqrt() + latency_s(2.0);
    near(serial_s(reduce), twice_s / 0.8 + unsaturated_s);
    // A switch that adds up itself moves the 16 MB once, and is filled as slowly.
    let chip = format!("{chip}link_in_switch = 0.7\n");
    let known = hardware::parse("mine.toml", &chip).expect("a hardware file");
    let options = Options { known, ..options };
    let in_switch_s = planned(&format!("hardware mine\n{reduce}"), &options).report.serial_s;
    near(in_switch_s, 16e6 / 0.7e11 + unsaturated_s);
}

/// Over racks of 72 GPUs a long message passes each device, with the hop of NCCL's own table; a
/// short one goes in rounds.
#[test]
fn long_messages_over_several_racks_pass_every_device() {
    let reduce_s = |devices: u64, log_bytes: u32| {
        serial_s(
            &format!(
                "hardware gb200-nvl72, rates=measured\nmesh X={devices}\ndim N={}\n\
                    input A[N] {{U_X}}\noutput A[N]\n",
                1_u64 << (log_bytes - 1)
            ),
            None,
        )
    };
    let hops_s = 2.0 * 1440.0 * 3.4e-6;
    let long_s = reduce_s(1440, 31);
    assert!((hops_s..1.6 * hops_s).contains(&long_s), "{long_s}");
    assert!(reduce_s(1440, 14) < hops_s / 10.0);
    assert!(reduce_s(72, 31) < hops_s, "one rack has no such ring");
    let sizes: Vec<f64> = (10..34).map(|log_bytes| reduce_s(144, log_bytes)).collect();
    assert!(sizes.is_sorted(), "{sizes:?}");
}

/// By hand, from the figures that `hardware --format toml` prints, and the factor on the page.
#[test]
fn passes_take_longer_in_training() {
    let source = "hardware h100, rates=measured\nmesh X=1\ndim B=65536, D=8192\n\
        param x[B, D]\ninput dy[B, D]\ny = gelu(x)\nbackward from y given dy\n\
        output y[B, D], dx[B, D]\n";
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    let planned = planned(source, &options);
    let values = &planned.plan.program.values;
    let pass = planned.plan.steps.iter().position(|of| values[of.result.value].name == "y");
    let seconds = planned.report.steps[pass.expect("the pass is a step")].seconds;
    let rates = shardwise::Hardware::preset("h100").expect("a preset").measured.passes();
    let traffic_s = 2.0 * 65536.0 * 8192.0 * 2.0 / 3.35e12 / rates.memory;
    let by_hand = 2.5 * traffic_s + rates.fixed_s;
    assert!((seconds / by_hand - 1.0).abs() < 1e-3, "{seconds} for {by_hand}");
    assert!(read("compiler/docs/hardware.md").contains("take 2.5 times as long in training"));
}

/// A layer on one device, whose `queries` tokens of each of eight sequences look at 512 others.
fn attending(chip: &str, queries: u64, keys: &str) -> String {
    format!(
        "hardware {chip}, rates=measured\nmesh X=1\ndim B=8, T={queries}, S=512\n\
         dim D=512, N=4, H=128\ninput x[B, T, D]\nparam wq[D, N, H], wo[N, H, D]\n{keys}\n\
         q = x *D wq\no = softmax_S(q *H k) *S v\ny = o *N,H wo\noutput y[B, T, D]\n"
    )
}

/// A plan on a chip of a hardware file.
fn planned_on(keys: &str, source: &str) -> Planned {
    let chip = format!("[mine]\nbase = \"h100\"\n{keys}");
    let known = hardware::parse("mine.toml", &chip).expect("a hardware file");
    let options = Options { known, memory: Some(f64::INFINITY), ..Options::default() };
    planned(&format!("hardware mine, rates=measured\n{source}"), &options)
}

#[test]
fn attention_has_a_rate_of_its_own_in_training() {
    let attention = "mesh X=1\ndim B=1, T=16384, S=T, N=32, H=128\n\
        input q[B, T, N, H], k[B, S, N, H], v[B, S, N, H]\n\
        o = softmax_S(causal_{T,S}(q *H k)) *S v\n";
    let forward = format!("{attention}output o[B, T, N, H]\n");
    let both = format!(
        "{attention}input do[B, T, N, H]\nbackward from o given do\n\
         output dq[B, T, N, H], dk[B, S, N, H], dv[B, S, N, H]\n"
    );
    let seconds = |source: &str, keys: &str| planned_on(keys, source).report.serial_s;
    let keys = |training: f64| {
        format!("sustained = 1.0\nattention = 0.6\nattention_training = {training}\n")
    };
    let (same, half) = (keys(0.6), keys(0.3));
    assert_eq!(seconds(&forward, &same).to_bits(), seconds(&forward, &half).to_bits());
    let slower = seconds(&both, &half) / seconds(&both, &same);
    assert!((1.9..2.0).contains(&slower), "{slower}");
    // Without a figure of its own, a chip has that of attention.
    let typical = "[other]\nbf16 = 989e12\nmemory = 80e9\nmemory_bandwidth = 3.35e12\n\
        links = \"switch\"\nlink_bandwidth = 450e9\nsustained = 1.0\nattention = 0.6\n";
    let known = |text: &str| hardware::parse("other.toml", text).expect("a hardware file");
    let on = |text: &str| {
        let options = Options { known: known(text), ..Options::default() };
        planned(&format!("hardware other, rates=measured\n{both}"), &options).report.serial_s
    };
    let stated = format!("{typical}attention_training = 0.6\n");
    assert_eq!(on(typical).to_bits(), on(&stated).to_bits());
    // Without weights it is no step of training, and runs at the rate alone.
    let hot = keys(0.3).replace("sustained = 1.0", "sustained = 0.7");
    assert_eq!(seconds(&both, &half).to_bits(), seconds(&both, &hot).to_bits());
    let with_weight = both.replacen("v[B, S, N, H]", "v[B, S, N, H]\nparam w[N]", 1);
    assert!(seconds(&with_weight, &hot) > 1.3 * seconds(&with_weight, &half));
}

#[test]
fn hidden_collectives_slow_the_compute_beside_them() {
    // The gather of each layer's weight runs beside the products of the layer before.
    let source = "mesh X=8\ndim B=65536, D=4096, F=16384\ninput x[B_X, D]\n\
        repeat L=6 {\n  carry x\n  param Win[D_X, F], Wout[F, D_X]\n\
        \x20 x = x + gelu(x *D Win) *F Wout\n}\noutput x[B_X, D]\n";
    let report = |share: f64| planned_on(&format!("contention = {share}\n"), source).report;
    let (free, half, whole) = (report(0.0), report(0.5), report(1.0));
    let hidden_s = free.serial_s - free.schedule.makespan_s;
    assert!(hidden_s > 0.5 * free.comm_s, "{hidden_s} of {}", free.comm_s);
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * b, "{a} {b}");
    near(half.schedule.makespan_s, free.schedule.makespan_s + 0.5 * hidden_s);
    near(whole.schedule.makespan_s, free.serial_s);
    near(half.serial_s, free.serial_s);
    let chip =
        |name: &str| shardwise::Hardware::preset(name).expect("a preset").measured.contention;
    assert_eq!((chip("h100"), chip("tpu-v5p")), (Some(0.6), None));
}

#[test]
fn collectives_between_nodes_slow_compute_by_what_they_move() {
    let gathers = |axis: &str| {
        format!(
            "mesh {axis}\ndim B=262144, D=4096, F=16384\ninput x[B_X, D]\n\
             repeat L=6 {{\n  carry x\n  param Win[D_X, F], Wout[F, D_X]\n\
             \x20 x = x + gelu(x *D Win) *F Wout\n}}\noutput x[B_X, D]\n"
        )
    };
    let slowed = |axis: &str| {
        let report =
            |share: f64| planned_on(&format!("contention = {share}\n"), &gathers(axis)).report;
        let (free, whole) = (report(0.0), report(1.0));
        let hidden_s = free.serial_s - free.schedule.makespan_s;
        (whole.schedule.makespan_s - free.schedule.makespan_s) / hidden_s
    };
    // An H100 has 450 GB/s inside of its node, of which messages reach 0.8, and 50 GB/s outside.
    let (inside, outside) = (slowed("X=8 nvlink"), slowed("X=8 ib"));
    assert!((inside - 1.0).abs() < 1e-9, "{inside}");
    assert!((outside / (46.5 / 360.0) - 1.0).abs() < 0.2, "{outside}");
}

#[test]
fn hosts_launch_the_kernels_of_prompts_on_gpus() {
    let (given, cached) =
        ("input k[B, S, N, H], v[B, S, N, H]", "state k[B, S, N, H], v[B, S, N, H]");
    // Two products and the attention, each smaller than a launch.
    let launches_s = 3.0 * 26e-6;
    for keys in [given, cached] {
        let prompt_s = serial_s(&attending("h100", 64, keys), None);
        assert!((prompt_s / launches_s - 1.0).abs() < 0.05, "{keys}: {prompt_s} s");
    }
    for (chip, queries) in [("h100", 1), ("tpu-v6e", 64)] {
        let seconds = serial_s(&attending(chip, queries, cached), None);
        assert!(seconds < 0.6 * launches_s, "{chip} with {queries}: {seconds} s");
    }
}

/// Eight experts with 64 tokens each, whose weights are `kind`.
fn experts(kind: &str) -> String {
    format!(
        "hardware h100, rates=measured\nmesh X=1\ndim E=8, T=64, D=4096, F=1536\n\
         input x[E, T, D]\n{kind} w[E, D, F]\nh = x *D w\noutput h[E, T, F]\n"
    )
}

#[test]
fn products_of_experts_have_rates_of_their_own_in_serving() {
    let bytes = 2.0 * 8.0 * (4096.0 * 1536.0 + 64.0 * (4096.0 + 1536.0));
    let flops: f64 = 2.0 * 8.0 * 64.0 * 4096.0 * 1536.0;
    let expected_s = (flops / 989e12 / 0.30).hypot(bytes / 3.35e12 / 0.84) + 10.2e-6;
    let found_s = serial_s(&experts("param"), None);
    assert!((found_s / expected_s - 1.0).abs() < 1e-6, "{found_s} for {expected_s}");
    let of_tokens_s = serial_s(&experts("input"), None);
    assert!(of_tokens_s < found_s, "{of_tokens_s} against {found_s}");
}

/// A view runs nothing, so that the product after it begins the kernel; what it is of is read.
#[test]
fn kernels_that_begin_with_a_view_take_their_fixed_time() {
    let product = |declared: &str, view: &str| {
        let source = format!(
            "hardware h100, rates=measured\nmesh X=1\n\
             dim B=8, T=128, S=T, D=1024, N=8, H=64, A=N*H\n{declared}\nparam w[D, N, H]\n\
             {view}y = k *H w\noutput y[B, S, N, D]\n"
        );
        serial_s(&source, None)
    };
    let alone_s = product("input k[B, S, N, H]", "");
    let renamed_s = product("input x[B, T, N, H]", "k = rename_{T->S}(x)\n");
    let reshaped_s = product("input x[B, S, A]", "k[B, S, N, H] = reshape(x)\n");
    for seconds in [renamed_s, reshaped_s] {
        assert!((seconds / alone_s - 1.0).abs() < 0.01, "{seconds} s, {alone_s} s without a view");
    }
}
