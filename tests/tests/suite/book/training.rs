//! The numbers of the book's chapter on training, each as a test named by its id: what `plan`,
//! `cost` and `sweep` answer, against `tests/facts/training.json`, which was recomputed from the
//! book's formulas at full precision.
//!
//! A coefficient (the 8 of `8DF/W`) is the tool's answer over its unit (`DF/W`). The best split
//! between powers of two follows from the tool's busy times at one of them: the time of the weights
//! grows with X and that of the activations falls with it, so that they meet at
//! `X * sqrt(t_Y / t_X)`.

use shardwise::cost::Cost;
use shardwise::{Options, Planned, Strategy};
use shardwise_tests::facts::holds;
use shardwise_tests::planning::{textbook, warned};
use shardwise_tests::{fact, read};

use super::mlp::{
    B, C, D, DP, F, FSDP, MIXED, Part, Scheme, TP, W, best_crossover, best_split, busy, crossover,
    fsdp_crossover, mixed, moved, optimum, rings, split,
};

/// What is held, of declarations alone.
fn held(mesh: &str, dims: &str, declarations: &str) -> Cost {
    textbook(&format!("hardware tpu-v5p\nmesh {mesh}\ndim {dims}\n{declarations}\n")).cost()
}

fn parameters(dims: &str, declarations: &str) -> f64 {
    held("X=1", dims, &format!("param {declarations}")).parameters.elements
}

fn fits(declarations: &str, dims: &str) -> bool {
    let source = format!("hardware tpu-v5p\nmesh X=64 over 3\ndim {dims}\n{declarations}\n");
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    shardwise::plan("fact", &source, &options).is_ok_and(|planned| planned.warnings.is_empty())
}

const ADAM: &str = "param W[P]\nstate M: f32[P], V: f32[P]";

/// FLOPs over `BDF` on a device, times the devices.
fn coefficient(cost: &Cost) -> f64 {
    cost.device_flops * cost.devices as f64 / (B * D * F)
}

/// Bytes a parameter and device with bf16 weights and gradients and fp32 moments, split in this
/// way.
fn zero(weight: &str, gradient: &str, moments: &str) -> f64 {
    let declarations =
        format!("param W[{weight}]\nstate G[{gradient}], M: f32[{moments}], V: f32[{moments}]");
    let cost = held("X=8", "P=8192", &declarations);
    (cost.parameters.device_bytes + cost.state.device_bytes) / cost.parameters.elements
}

const LLAMA_13B: &str = "L=40, D=5120, F=13824, N=40, K=40, H=128, V=32000";

fact!(p5_base, "P5-BASE", |id| {
    let cost = textbook(&read("tests/programs/book/p5-base.shard")).cost();
    let flops: Vec<f64> = cost.statements.iter().map(|statement| statement.flops).collect();
    let unit = 4096.0 * D * F;
    holds(id, &[flops[..2].iter().sum::<f64>() / unit, flops[2..].iter().sum::<f64>() / unit]);
});
fact!(p5_dp_fwd, "P5-DP-FWD", |id| holds(id, &[coefficient(&DP.cost(Part::Forward))]));
fact!(p5_dp_bwd, "P5-DP-BWD", |id| holds(id, &[coefficient(&DP.cost(Part::Backward))]));
fact!(p5_dp_comm, "P5-DP-COMM", |id| holds(id, &[moved(&DP.cost(Part::Both), "X") / (D * F)]));
fact!(p5_dp_tcomm, "P5-DP-TCOMM", |id| holds(
    id,
    &[busy(&DP.cost(Part::Backward), "X") / (D * F / W)]
));
fact!(p5_dp_tmath, "P5-DP-TMATH", |id| holds(
    id,
    &[DP.cost(Part::Backward).verdict.compute_s / (B * D * F / (16.0 * C))]
));
fact!(p5_dp_cb, "P5-DP-CB", |id| holds(id, &[crossover(&DP.cost(Part::Backward)).1]));
fact!(p5_dp_3ax, "P5-DP-3AX", |id| holds(
    id,
    &[crossover(&DP.on("X=64 over 3").cost(Part::Backward)).1]
));
fact!(p5_dp_pod, "P5-DP-POD", |id| {
    let source =
        DP.on("X=8960 over 16x20x28").source(Part::Backward, "tpu-v5p", "B=8960k, D=8192, F=32768");
    holds(id, &[crossover(&textbook(&source).cost()).0]);
});
fact!(p5_dp_adam, "P5-DP-ADAM", |id| {
    let cost = held("X=16", "P=1M", ADAM);
    holds(id, &[(cost.parameters.bytes + cost.state.bytes) / cost.parameters.elements]);
});
fact!(p5_dp_max, "P5-DP-MAX", |id| {
    holds(id, &[parameters("P=9600M", "W[P]")]);
    assert!(fits(ADAM, "P=9600M") && !fits(ADAM, "P=9601M"));
});
fact!(p5_dp_lint_mem, "P5-DP-LINT-MEM", |id| {
    let cost = held("X=64 over 3", "P=13G", ADAM);
    holds(id, &[cost.parameters.device_bytes + cost.state.device_bytes]);
    assert!(!fits(ADAM, "P=13G"));
});
fact!(p5_dp_memtot, "P5-DP-MEMTOT", |id| {
    let cost = DP.cost(Part::Forward);
    holds(id, &[cost.parameters.device_bytes / cost.parameters.bytes]);
});
fact!(p5_fsdp_comm, "P5-FSDP-COMM", |id| {
    holds(id, &[Part::Forward, Part::Backward].map(|part| moved(&FSDP.cost(part), "X") / (D * F)));
});
fact!(p5_fsdp_held, "P5-FSDP-HELD", |id| {
    let forward = moved(&FSDP.cost(Part::Forward), "X");
    holds(
        id,
        &[forward, moved(&FSDP.cost(Part::Both), "X") - forward].map(|bytes| bytes / (D * F)),
    );
});
fact!(p5_fsdp_fwd, "P5-FSDP-FWD", |id| holds(
    id,
    &[busy(&FSDP.cost(Part::Forward), "X") / (D * F / W)]
));
fact!(p5_fsdp_cb, "P5-FSDP-CB", |id| holds(id, &[fsdp_crossover("X=16", "tpu-v5p")]));
fact!(p5_fsdp_ratio, "P5-FSDP-RATIO", |id| {
    let moved_by = |scheme: &Scheme| {
        moved(&scheme.cost(Part::Forward), "X") + moved(&scheme.cost(Part::Backward), "X")
    };
    holds(id, &[moved_by(&FSDP) / moved_by(&DP)]);
});
fact!(p5_dsv2, "P5-DSV2", |id| holds(id, &[40e6 / fsdp_crossover("X=64 over 3", "tpu-v5p")]));
fact!(p5_l3_chips, "P5-L3-CHIPS", |id| holds(
    id,
    &[16e6 / fsdp_crossover("X=64 over 3", "tpu-v5p")]
));
fact!(p5_dcn_l3_fsdp, "P5-DCN-L3-FSDP", |id| holds(
    id,
    &[2e6 / fsdp_crossover("X=64 over 3", "tpu-v5p")]
));
fact!(p5_q3_2_minb, "P5-Q3-2-MINB", |id| holds(
    id,
    &[crossover(&FSDP.on("X=4096 over 3").cost(Part::Forward)).0]
));
fact!(p5_alpha_v5p, "P5-ALPHA-v5p", |id| holds(id, &[fsdp_crossover("X=16", "tpu-v5p")]));
fact!(p5_alpha_v5e, "P5-ALPHA-v5e", |id| holds(id, &[fsdp_crossover("X=16", "tpu-v5e")]));
fact!(p5_alpha_v4p, "P5-ALPHA-v4p", |id| holds(id, &[fsdp_crossover("X=16", "tpu-v4p")]));
fact!(p5_alpha_v6e, "P5-ALPHA-v6e", |id| holds(id, &[fsdp_crossover("X=16", "tpu-v6e")]));

fact!(p5_tp_comm, "P5-TP-COMM", |id| {
    let forward = moved(&TP.cost(Part::Forward), "Y");
    holds(id, &[forward, moved(&TP.cost(Part::Both), "Y") - forward].map(|bytes| bytes / (B * D)));
});
fact!(p5_lint_regather, "P5-LINT-REGATHER", |id| {
    let apart = moved(&TP.cost(Part::Forward), "Y") + moved(&TP.cost(Part::Backward), "Y");
    holds(id, &[(apart - moved(&TP.cost(Part::Both), "Y")) / (B * D)]);
});
fact!(p5_tp_time, "P5-TP-TIME", |id| holds(
    id,
    &[busy(&TP.cost(Part::Forward), "Y") / (B * D / W)]
));
fact!(p5_tp_cb, "P5-TP-CB", |_| {
    let cost = TP.cost(Part::Forward);
    assert!(cost.thresholds[0].crossovers.is_empty(), "the limit is independent of the batch");
    assert_eq!(cost.verdict.bound, "compute");
    assert_eq!(TP.on("Y=16").cost(Part::Forward).verdict.bound, "communication");
});
fact!(p5_tp_int8, "P5-TP-INT8", |id| {
    let source = TP.source(Part::Forward, "tpu-v5p", "B=65536, D=8192, F=32768");
    let planned =
        textbook(&["Win", "Wout", "In"].iter().fold(source, |text, name| {
            text.replace(&format!("{name}["), &format!("{name}: int8["))
        }));
    let cost = planned.cost();
    holds(
        id,
        &[(cost.device_flops / cost.verdict.compute_s)
            / (moved(&cost, "Y") / cost.verdict.links_s)],
    );
    let limit =
        |planned: &Planned| planned.threshold("F").map(|threshold| threshold.crossovers[0].size);
    assert_eq!(
        limit(&planned),
        limit(&TP.plan(Part::Forward)),
        "the limit does not depend on precision"
    );
});
fact!(p5_tp_l3, "P5-TP-L3", |id| holds(id, &[widest("B=65536, D=8192, F=30000")]));
fact!(p5_dcn_l3_tp, "P5-DCN-L3-TP", |id| holds(id, &[widest("B=65536, D=8192, F=30000")]));
fact!(p5_tp_gemma, "P5-TP-GEMMA", |id| holds(id, &[widest("B=65536, D=8192, F=50000")]));
fact!(p5_tp_l3_f, "P5-TP-L3-F", |id| {
    let crossovers = TP
        .plan(Part::Forward)
        .threshold("F")
        .map(|threshold| threshold.crossovers)
        .unwrap_or_default();
    holds(id, &[crossovers[0].size]);
});

fact!(p5_mix_comm_w, "P5-MIX-COMM-W", |id| {
    holds(
        id,
        &[Part::Forward, Part::Backward].map(|part| moved(&MIXED.cost(part), "X") / (D * F / 4.0)),
    );
});
fact!(p5_mix_comm_a, "P5-MIX-COMM-A", |id| {
    holds(
        id,
        &[Part::Forward, Part::Backward].map(|part| moved(&MIXED.cost(part), "Y") / (B * D / 16.0)),
    );
});
fact!(p5_mix_tfsdp, "P5-MIX-TFSDP", |id| holds(
    id,
    &[busy(&MIXED.cost(Part::Forward), "X") / (D * F / (4.0 * W * 2.0))]
));
fact!(p5_mix_ttp, "P5-MIX-TTP", |id| holds(
    id,
    &[busy(&MIXED.cost(Part::Forward), "Y") / (B * D / (16.0 * W))]
));
fact!(p5_mix_tmath, "P5-MIX-TMATH", |id| holds(
    id,
    &[MIXED.cost(Part::Forward).verdict.compute_s / (B * D * F / (64.0 * C))]
));
fact!(p5_mix_shrink, "P5-MIX-SHRINK", |id| {
    let cost = MIXED.cost(Part::Forward);
    let gathered = |name: &str| {
        cost.statements.iter().find(|s| s.text.contains(name)).map_or(0.0, |s| s.bytes)
    };
    holds(
        id,
        &[gathered("AllGather_Y(In") / (B * D / 16.0), gathered("AllGather_X(Win") / (D * F / 4.0)],
    );
});
fact!(p5_mix_mem, "P5-MIX-MEM", |id| {
    let cost = held(
        "X=16 over 2, Y=4",
        "D=8192, F=32768",
        "param W[D_X, F_Y]\nstate M: f32[D_X, F_Y], V: f32[D_X, F_Y]",
    );
    holds(
        id,
        &[(cost.parameters.device_bytes + cost.state.device_bytes) * 64.0
            / cost.parameters.elements],
    );
});
fact!(p5_zero_mem, "P5-ZERO-MEM", |id| {
    holds(
        id,
        &[
            zero("P", "P", "P"),
            zero("P", "P", "P_X"),
            zero("P", "P_X", "P_X"),
            zero("P_X", "P_X", "P_X"),
        ],
    );
});
fact!(p5_xopt_ex, "P5-XOPT-EX", |id| holds(
    id,
    &[optimum(&mixed("X=16 over 2, Y=4", "B=48000, D=8192, F=32768"), 16.0)]
));
fact!(p5_xopt_round, "P5-XOPT-ROUND", |id| holds(
    id,
    &split(&best_split(48000, 64, rings("B=48000, D=8192, F=32768")))
));
fact!(p5_q3_3_xopt, "P5-Q3-3-XOPT", |id| holds(
    id,
    &[optimum(&mixed("X=64 over 2, Y=64", "B=3M, D=160Ki, F=13824"), 64.0)]
));
fact!(p5_q3_3_pick, "P5-Q3-3-PICK", |id| holds(
    id,
    &split(&best_split(2_998_272, 4096, rings("B=2998272, D=8192, F=13824")))
));
fact!(p5_dcn_l3_xy, "P5-DCN-L3-XY", |id| holds(
    id,
    &split(&best_split(1 << 20, 8192, rings("B=1Mi, D=8192, F=30000")))
));
fact!(p5_mix_cb, "P5-MIX-CB", |id| holds(id, &[best_crossover(&MIXED.cost(Part::Forward))]));
fact!(p5_mix_4096, "P5-MIX-4096", |id| holds(
    id,
    &[4096.0 * best_crossover(&mixed("X=256 over 2, Y=16", "B=1Mi, D=8192, F=32768"))]
));
fact!(p5_mix_gain, "P5-MIX-GAIN", |id| holds(
    id,
    &[fsdp_crossover("X=64 over 3", "tpu-v5p") / best_crossover(&MIXED.cost(Part::Forward))]
));
fact!(p5_q3_3_min, "P5-Q3-3-MIN", |id| holds(
    id,
    &[best_crossover(&mixed("X=256 over 2, Y=16", "B=1Mi, D=8192, F=13824"))]
));
fact!(p5_dcn_l3_mix, "P5-DCN-L3-MIX", |id| holds(
    id,
    &[best_crossover(&mixed("X=256 over 2, Y=16", "B=1Mi, D=8192, F=30000"))]
));
fact!(p5_dcn_l3_mixn, "P5-DCN-L3-MIXN", |id| holds(
    id,
    &[2e6 / best_crossover(&mixed("X=256 over 2, Y=16", "B=1Mi, D=8192, F=30000"))]
));
fact!(p5_mix_ratio, "P5-MIX-RATIO", |id| {
    // Four times the batch doubles the best X, a power of two in both cases.
    let ratio = |batch: u64| {
        let best = best_split(batch, 64, rings("B=65536, D=8192, F=32768"));
        best.cost.compute_s / best.cost.links_s
    };
    holds(id, &[(ratio(4 << 16) / ratio(1 << 16)).log(4.0)]);
});

fact!(p5_mix_range, "P5-MIX-RANGE", |id| holds(
    id,
    &[best_crossover(&MIXED.cost(Part::Forward)), fsdp_crossover("X=64 over 3", "tpu-v5p")]
));
fact!(p5_mix_tcomm, "P5-MIX-TCOMM", |_| {
    let plan = MIXED.plan(Part::Both);
    let (cost, all) = (plan.cost(), plan.json().cost.comm_s);
    assert!((cost.verdict.links_s - busy(&cost, "X").max(busy(&cost, "Y"))).abs() < 1e-15);
    assert!((all - busy(&cost, "X") - busy(&cost, "Y")).abs() < 1e-12, "one family an axis");
});
fact!(p5_xopt, "P5-XOPT", |_| {
    for (mesh, x) in [("X=16 over 2, Y=4", 16.0), ("X=64 over 2, Y=4", 64.0)] {
        let wanted = (B / F * 2.0 * x * 4.0).sqrt();
        assert!(
            (optimum(&mixed(mesh, "B=65536, D=8192, F=32768"), x) / wanted - 1.0).abs() < 1e-9,
            "{mesh}"
        );
    }
});
fact!(p5_tp_range, "P5-TP-RANGE", |id| {
    let is_compute = |mesh| TP.on(mesh).cost(Part::Forward).verdict.bound == "compute";
    let widest = [("Y=4", 4.0), ("Y=8", 8.0), ("Y=16", 16.0)]
        .into_iter()
        .filter(|(mesh, _)| is_compute(mesh))
        .map(|(_, ways)| ways)
        .fold(0.0, f64::max);
    holds(id, &[widest, 2.0 * widest]);
});
fact!(p5_tp_vs_fsdp, "P5-TP-VS-FSDP", |_| {
    for (dims, smaller) in [("B=65536, D=8192, F=32768", true), ("B=1Mi, D=8192, F=32768", false)] {
        let cost = mixed("X=16 over 2, Y=4", dims);
        let bytes = |name: &str| {
            cost.statements.iter().find(|s| s.text.contains(name)).map_or(0.0, |s| s.bytes)
        };
        assert_eq!(bytes("AllGather_Y(In") < bytes("AllGather_X(Win"), smaller, "{dims}");
    }
});
fact!(p5_dcn_tmath, "P5-DCN-TMATH", |id| holds(
    id,
    &[DP.on("X=64 over 3").cost(Part::Backward).verdict.compute_s / (B * D * F / (64.0 * C))]
));
fact!(p5_dcn_l3_per, "P5-DCN-L3-PER", |id| holds(
    id,
    &[tokens_a_chip("P=2 dcn, X=8960 over 16x20x28", "2M")]
));
fact!(p5_q3_3_have, "P5-Q3-3-HAVE", |id| holds(id, &[tokens_a_chip("X=16, Y=16, Z=16", "3M")]));
fact!(p5_q4_1m, "P5-Q4-1M", |id| holds(id, &[tokens_a_chip("X=16, Y=16, Z=16", "1M")]));
fact!(p5_q4_10m, "P5-Q4-10M", |id| holds(id, &[tokens_a_chip("X=16, Y=16, Z=16", "10M")]));
fact!(p5_q2_act, "P5-Q2-ACT", |id| holds(id, &[checkpoints("X=1", "16M", "").0]));
fact!(p5_q3_2_act, "P5-Q3-2-ACT", |id| holds(id, &[checkpoints("X=1", "3M", "").0]));
fact!(p5_q3_2_tot, "P5-Q3-2-TOT", |id| holds(
    id,
    &[checkpoints("X=1", "3M", "param W[P]\nstate M: f32[P], V: f32[P]\n").0]
));
fact!(p5_q3_2_dev, "P5-Q3-2-DEV", |id| {
    holds(
        id,
        &[checkpoints("X=8, Y=512", "3M", "param W[P_XY]\nstate M: f32[P_XY], V: f32[P_XY]\n").1],
    );
});
fact!(p5_lint_fsdp, "P5-LINT-FSDP", |_| {
    // 2550 tokens a chip are needed on one axis.
    let at =
        |batch: u64| FSDP.source(Part::Forward, "tpu-v5p", &format!("B={batch}, D=8192, F=32768"));
    assert!(warned(&at(16 * 2000), "SW313") && !warned(&at(16 * 3000), "SW313"));
});
fact!(p5_lint_tp, "P5-LINT-TP", |_| {
    // As it is written: with so many tokens the search would move weights instead.
    let at = |mesh| TP.on(mesh).plan(Part::Forward).plan.to_string();
    assert!(warned(&at("Y=16"), "SW313") && !warned(&at("Y=8"), "SW313"));
});

fact!(p5_dcn_cb, "P5-DCN-CB", |id| holds(id, &[dcn_crossover()]));
fact!(p5_dcn_lint, "P5-DCN-LINT", |id| holds(id, &[dcn_crossover()]));
fact!(p5_dcn_tcomm, "P5-DCN-TCOMM", |id| {
    // Two weights; of two slices, each sends half of what a long ring would.
    holds(id, &[2.0 * 2.0 * busy(&dcn(), "P") / (D * F / (64.0 * 6.25e9))]);
});

fact!(p5_table_dp, "P5-TABLE-DP", |id| {
    let moved = |part| moved(&DP.cost(part), "X") / (D * F);
    let flops = |part| coefficient(&DP.cost(part));
    holds(
        id,
        &[flops(Part::Forward), flops(Part::Backward), moved(Part::Forward), moved(Part::Backward)],
    );
});
fact!(p5_table_fsdp, "P5-TABLE-FSDP", |id| {
    let moved = |part| moved(&FSDP.cost(part), "X") / (D * F);
    let flops = |part| coefficient(&FSDP.cost(part));
    holds(
        id,
        &[flops(Part::Forward), flops(Part::Backward), moved(Part::Forward), moved(Part::Backward)],
    );
});
fact!(p5_table_tp, "P5-TABLE-TP", |id| {
    let flops = |part| coefficient(&TP.cost(part));
    let forward = moved(&TP.cost(Part::Forward), "Y") / (B * D);
    let backward = moved(&TP.cost(Part::Both), "Y") / (B * D) - forward;
    holds(id, &[flops(Part::Forward), flops(Part::Backward), forward, backward]);
});
fact!(p5_table_mix, "P5-TABLE-MIX", |id| {
    let pass = |part| MIXED.cost(part);
    let moved =
        |part| [moved(&pass(part), "Y") / (B * D / 16.0), moved(&pass(part), "X") / (D * F / 4.0)];
    let flops = [coefficient(&pass(Part::Forward)), coefficient(&pass(Part::Backward))];
    holds(id, &[flops, moved(Part::Forward), moved(Part::Backward)].concat());
});

fact!(p5_q1_ffw, "P5-Q1-FFW", |id| holds(
    id,
    &[parameters(LLAMA_13B, "Wgate[L, D, F], Wup[L, D, F], Wdown[L, F, D]")]
));
fact!(p5_q1_att, "P5-Q1-ATT", |id| holds(
    id,
    &[parameters(LLAMA_13B, "Q[L, D, N, H], O[L, N, H, D], Keys[L, D, K, H], Vals[L, D, K, H]")]
));
fact!(p5_q1_voc, "P5-Q1-VOC", |id| holds(id, &[parameters(LLAMA_13B, "E[V, D], U[D, V]")]));
fact!(p5_q1_tot, "P5-Q1-TOT", |id| {
    let feed_forward = "Wgate[L, D, F], Wup[L, D, F], Wdown[L, F, D]";
    let attention = "Q[L, D, N, H], O[L, N, H, D], Keys[L, D, K, H], Vals[L, D, K, H]";
    holds(id, &[parameters(LLAMA_13B, &format!("{feed_forward}, {attention}, E[V, D], U[D, V]"))]);
});
fact!(p5_q2_state, "P5-Q2-STATE", |id| {
    let cost = held("X=64 over 3", "P=13G", ADAM);
    holds(id, &[cost.parameters.bytes + cost.state.bytes]);
});
fact!(p5_q3_1, "P5-Q3-1", |_| assert!(
    !fits(ADAM, "P=13G"),
    "130 GB do not fit on a chip of 96 GB"
));

/// Tokens of a batch for each device.
fn tokens_a_chip(mesh: &str, batch: &str) -> f64 {
    let source = format!(
        "hardware tpu-v5p\nmesh {mesh}\ndim B={batch}, D=8192, F=32768\ninput In[B, D]\n\
            param W[D, F]\nOut = In *D W\noutput Out[B, F]\n"
    );
    textbook(&source).threshold("B").expect("a dimension").per_device
}

/// Bytes of what LLaMA-2 13B keeps of its feed-forward layers for a batch, and of other
/// declarations; in all, and on a device.
fn checkpoints(mesh: &str, batch: &str, others: &str) -> (f64, f64) {
    let split = if mesh == "X=1" { ["B", "D", "F"] } else { ["B_X", "D_Y", "F_Y"] };
    let [b, d, f] = split;
    let declarations =
        format!("state In[L, {b}, {d}], Gate[L, {b}, {f}], Up[L, {b}, {f}]\n{others}");
    let cost = held(mesh, &format!("L=40, B={batch}, D=5120, F=13824, P=13G pad"), &declarations);
    (
        cost.parameters.bytes + cost.state.bytes,
        cost.parameters.device_bytes + cost.state.device_bytes,
    )
}

/// The widest compute-bound tensor parallelism: on 8 ways compute over the links' time is the limit
/// over 8.
fn widest(dims: &str) -> f64 {
    let cost = textbook(&TP.source(Part::Forward, "tpu-v5p", dims)).cost();
    8.0 * cost.verdict.compute_s / cost.verdict.links_s
}

/// One weight of data parallelism over two slices, split over the 64 chips of each.
fn dcn() -> Cost {
    let source = "hardware tpu-v5p\nmesh P=2 dcn, Y=64 over 3\ndim B=131072, D=8192, F=32768\n\
        param Wout[F_Y, D]\ninput Tmp[B_P, F_Y], dOut[B_P, D]\ndWout = Tmp *B dOut\n\
        dTmp = dOut *D Wout\noutput dWout[F_Y, D], dTmp[B_P, F_Y]\n";
    textbook(source).cost()
}

/// Tokens a slice from which the reduction hides. The cost model keeps the `(n-1)/n` of two slices,
/// which the book's ring leaves out.
fn dcn_crossover() -> f64 {
    let slices = 2.0;
    crossover(&dcn()).0 / slices * (slices / (slices - 1.0))
}
