//! The numbers of the book's chapter on inference, each as a test named by its id: the output of
//! `cost` for a decode step, against `tests/facts/inference.json`.
//!
//! The chapter rounds: 13e9 weights, 6.7 GB of cache a sequence. A sketch with just these sizes
//! matches its tables to the last digit, and LLaMA-2 13B itself within two percent. Its v5e has 820
//! GB/s of HBM (`tpu-v5e-820` here), that of its questions 810.

use shardwise::cost::Cost;
use shardwise::inference::{Inference, Row, Sizing};
use shardwise::{DimSize, Options, Planned, Strategy};
use shardwise_tests::facts::{holds, record};
use shardwise_tests::planning::{decode, planned, searched, textbook};
use shardwise_tests::{fact, read};

const BATCHES: [u64; 6] = [1, 8, 16, 32, 64, 240];

fn same(given: f64, wanted: f64) {
    assert!((given / wanted - 1.0).abs() < 1e-12, "{given} against {wanted}");
}

/// Weights of `2DC` elements and a cache of `2SC` a sequence.
struct Sketch {
    hardware: &'static str,
    mesh: &'static str,
    sizes: &'static str,
    weights: &'static str,
    cache: &'static str,
}

impl Sketch {
    fn plan(&self) -> Planned {
        let Sketch { hardware, mesh, sizes, weights, cache } = self;
        textbook(&format!(
            "hardware {hardware}\nmesh {mesh}\ndim {sizes}\ninput x[B, D]\n\
                param wq: {weights}[D, C_Y], wo: {weights}[C_Y, D]\n\
                state kc: {cache}[B, S, C_Y], vc: {cache}[B, S, C_Y]\nq = x *D wq\n\
                p = softmax_S(q *C kc)\no = p *S vc\ny = o *C wo\noutput y[B, D]\n"
        ))
    }
}

/// 26e9 bytes of weights; 6.7e9 bytes of cache, and a fifth of that.
const MHA: Sketch = Sketch {
    hardware: "tpu-v5e-820",
    mesh: "Y=8",
    sizes: "B=8, S=8375, C=200k, D=32500",
    weights: "bf16",
    cache: "bf16",
};
const GQA: Sketch = Sketch { sizes: "B=8, S=8375, C=40k, D=162500", ..MHA };
/// 30e9 bytes of weights, 100 kB of cache a token.
const PQ: Sketch = Sketch {
    hardware: "tpu-v5e",
    mesh: "Y=16",
    sizes: "B=4, S=8192, C=50k, D=300k",
    weights: "int8",
    cache: "int8",
};

/// What the id names of the table: heads, batch, quantity.
fn row(id: &str) {
    let parts: Vec<&str> = id.split('-').collect();
    let batch: u64 = parts[3].parse().expect("a batch");
    let sketch = if parts[2] == "MHA" { MHA } else { GQA };
    let rows = decode(&sketch.plan(), &BATCHES).batches;
    let row = rows.iter().find(|row| row.batch == batch).expect("a row");
    holds(id, &[quantity(row, parts[4])]);
}

fn quantity(row: &Row, name: &str) -> f64 {
    match name {
        "MEM" => row.held_bytes,
        "T" => row.step_s,
        _ => row.tokens_per_s,
    }
}

fn llama(heads: u64, limit: Option<f64>) -> Planned {
    let dims = [("K", heads), ("G", 40 / heads)]
        .map(|(name, size)| DimSize { name: name.to_owned(), size });
    let hardware = Some("tpu-v5e-820".to_owned());
    let options = Options {
        hardware,
        dims: dims.to_vec(),
        strategy: Strategy::Textbook,
        memory: limit,
        ..Options::default()
    };
    planned(&read("tests/programs/models/llama2-13b-decode.shard"), &options)
}

/// The model of the chapter's questions, in int8, on 4x4 chips.
fn model(heads: u64, batch: u64) -> Planned {
    let group = 32 / heads;
    let cache = if heads == 8 { "[B, S_X, K, H_Y]" } else { "[B, S_XY, K, H]" };
    searched(&format!(
        "hardware tpu-v5e\nmesh X=4, Y=4\n\
            dim B={batch}, S=128000, D=4096, F=16384, H=256, K={heads}, G={group}, V=32128\n\
            input ids: int32[B]\nparam E: int8[V_Y, D_X]\nx[B, D] = cast<bf16>(take_V(E, ids))\n\
            repeat L=64 {{\n  carry x[B, D]\n\
            param wq: int8[D_X, K, G, H_Y], wk: int8[D_X, K, H_Y], wv: int8[D_X, K, H_Y], wo: \
            int8[K, G, H_Y, D_X]\nparam win: int8[D_X, F_Y], wgate: int8[D_X, F_Y], wout: \
            int8[F_Y, D_X]\n  state kc: int8{cache}, vc: int8{cache}\n\
            q = x *D wq\n  p = softmax_S(q *H kc)\n  o = p *S vc\n  k = x *D wk\n  v = x *D wv\n  \
            x = x + (o + k * v) *K,G,H wo\nx = x + (silu(x *D wgate) * (x *D win)) *F wout\n}}\n\
            logits = x *D E\noutput logits[B, V_Y]\n"
    ))
}

fn sized(planned: &Planned) -> Inference {
    planned.inference(&Sizing::default()).expect("caches are read")
}

/// Its feed-forward layers of 16 experts, two a token: groups of eight tokens, of which each expert
/// takes one.
fn experts(mesh: &str, split: [&str; 3], hardware: &str) -> String {
    let [expert, dim, wide] = split;
    format!(
        "hardware {hardware}\nmesh {mesh}\n\
            dim G=2, T=8, E=16, C=1, D=4096, F=16384, V=32128, N=32, K=8, H=256\ninput x[G, T, D]\n\
            param Table: int8[V_{wide}, D_Z]\nrepeat L=64 {{\n  carry x[G, T, D]\n\
            param router: int8[D_YZ, E], wgate: int8[E{expert}, D{dim}, F_{wide}], win: \
            int8[E{expert}, D{dim}, F_{wide}], wout: int8[E{expert}, F_{wide}, D{dim}]\n\
            param wq: int8[D_Z, N_{wide}, H], wk: int8[D_Z, K_{wide}, H], wv: int8[D_Z, K_{wide}, \
            H], wo: int8[N_{wide}, H, D_Z]\n\
            scores = softmax_E(x *D router)\n  sent = route_{{T,E->C}}(scores, 2)\n  h = sent *T \
            x\ny = (silu(h *D wgate) * (h *D win)) *F wout\n  x = x + (sent * scores) *E,C y\n  q \
            = x *D wq\n  k = x *D wk\n  v = x *D wv\nm = sum_K(k + v)\n  x = x + (q + m) *N,H wo\n\
            }}\nlogits = x *D Table\noutput logits[G, T, V_{wide}]\n"
    )
}

const EXPERTS: [&str; 3] = ["_Z", "", "Y"];

fn slice8x16() -> Planned {
    searched(&experts("Y=8, Z=16", EXPERTS, "tpu-v5e"))
}

/// Parameters without the router, which the chapter leaves out.
fn counted(cost: &Cost) -> f64 {
    cost.parameters.elements - 64.0 * 4096.0 * 16.0
}

/// One weight, from its own memory, with activations of one dtype and weights of another.
fn weight(hardware: &str, activations: &str, weights: &str) -> Planned {
    textbook(&format!(
        "hardware {hardware}\nmesh Y=1\ndim B=8, D=1Mi, F=1Mi\ninput x: {activations}[B, D]\n\
            param w: {weights}[D, F]\ny = x *D w\noutput y[B, F]\n"
    ))
}

fn critical(planned: &Planned) -> f64 {
    decode(planned, &[]).critical.expect("it turns").batch
}

fn total_params(planned: &Planned) -> f64 {
    planned.cost().parameters.elements
}

fact!(i7_13b_mha_1_mem, "I7-13B-MHA-1-MEM", row);
fact!(i7_13b_mha_1_t, "I7-13B-MHA-1-T", row);
fact!(i7_13b_mha_1_q, "I7-13B-MHA-1-Q", row);
fact!(i7_13b_mha_8_mem, "I7-13B-MHA-8-MEM", row);
fact!(i7_13b_mha_8_t, "I7-13B-MHA-8-T", row);
fact!(i7_13b_mha_8_q, "I7-13B-MHA-8-Q", row);
fact!(i7_13b_mha_16_mem, "I7-13B-MHA-16-MEM", row);
fact!(i7_13b_mha_16_t, "I7-13B-MHA-16-T", row);
fact!(i7_13b_mha_16_q, "I7-13B-MHA-16-Q", row);
fact!(i7_13b_mha_32_mem, "I7-13B-MHA-32-MEM", row);
fact!(i7_13b_mha_32_t, "I7-13B-MHA-32-T", row);
fact!(i7_13b_mha_32_q, "I7-13B-MHA-32-Q", row);
fact!(i7_13b_mha_64_mem, "I7-13B-MHA-64-MEM", row);
fact!(i7_13b_mha_64_t, "I7-13B-MHA-64-T", row);
fact!(i7_13b_mha_64_q, "I7-13B-MHA-64-Q", row);
fact!(i7_13b_mha_240_mem, "I7-13B-MHA-240-MEM", row);
fact!(i7_13b_mha_240_t, "I7-13B-MHA-240-T", row);
fact!(i7_13b_mha_240_q, "I7-13B-MHA-240-Q", row);
fact!(i7_13b_gqa_1_mem, "I7-13B-GQA-1-MEM", row);
fact!(i7_13b_gqa_1_t, "I7-13B-GQA-1-T", row);
fact!(i7_13b_gqa_1_q, "I7-13B-GQA-1-Q", row);
fact!(i7_13b_gqa_8_mem, "I7-13B-GQA-8-MEM", row);
fact!(i7_13b_gqa_8_t, "I7-13B-GQA-8-T", row);
fact!(i7_13b_gqa_8_q, "I7-13B-GQA-8-Q", row);
fact!(i7_13b_gqa_16_mem, "I7-13B-GQA-16-MEM", row);
fact!(i7_13b_gqa_16_t, "I7-13B-GQA-16-T", row);
fact!(i7_13b_gqa_16_q, "I7-13B-GQA-16-Q", row);
fact!(i7_13b_gqa_32_mem, "I7-13B-GQA-32-MEM", row);
fact!(i7_13b_gqa_32_t, "I7-13B-GQA-32-T", row);
fact!(i7_13b_gqa_32_q, "I7-13B-GQA-32-Q", row);
fact!(i7_13b_gqa_64_mem, "I7-13B-GQA-64-MEM", row);
fact!(i7_13b_gqa_64_t, "I7-13B-GQA-64-T", row);
fact!(i7_13b_gqa_64_q, "I7-13B-GQA-64-Q", row);
fact!(i7_13b_gqa_240_mem, "I7-13B-GQA-240-MEM", row);
fact!(i7_13b_gqa_240_t, "I7-13B-GQA-240-T", row);
fact!(i7_13b_gqa_240_q, "I7-13B-GQA-240-Q", row);
fact!(i7_13b_oom, "I7-13B-OOM", |id| holds(id, &[largest_of_table(&MHA.plan())]));
fact!(i7_13b_fit_gqa, "I7-13B-FIT-GQA", |id| holds(id, &[largest_of_table(&GQA.plan())]));
fact!(i7_13b_hbm, "I7-13B-HBM", |id| {
    let step = decode(&MHA.plan(), &[]).step;
    holds(id, &[step.held_bytes / step.step_s]);
});
fact!(i7_step, "I7-STEP", |_| {
    let plan = PQ.plan();
    let (cost, sizing) = (plan.cost(), decode(&plan, &[1, 2, 4]));
    for row in sizing.batches {
        let bytes = row.batch as f64 * sizing.cache.sequence_bytes + cost.parameters.bytes;
        assert!((row.step_s * 16.0 * 8.1e11 / bytes - 1.0).abs() < 1e-9);
    }
});
fact!(i7_tput, "I7-TPUT", |_| {
    let sizing = decode(&PQ.plan(), &[4, 8]);
    let ratio = |row: &Row| row.tokens_per_s * row.held_bytes / (row.batch as f64 * 16.0 * 8.1e11);
    assert!(sizing.batches.iter().all(|row| (ratio(row) - 1.0).abs() < 1e-9));
});
fact!(i7_step_gen, "I7-STEP-GEN", |_| {
    for row in decode(&PQ.plan(), &[4, 256]).batches {
        assert!((row.step_s - row.attention_s - row.parameters_s.max(row.flops_s)).abs() < 1e-12);
        assert_eq!(
            row.flops_s > row.parameters_s,
            row.batch == 256,
            "above the critical batch FLOPs count"
        );
    }
});
fact!(i7_pq_kv, "I7-PQ-KV", |id| holds(id, &[decode(&PQ.plan(), &[]).cache.sequence_bytes]));
fact!(i7_pq_4, "I7-PQ-4", |id| holds(id, &[decode(&PQ.plan(), &[]).step.step_s]));
fact!(i7_pq_256a, "I7-PQ-256A", |id| holds(
    id,
    &[decode(&PQ.plan(), &[256]).batches[0].attention_s]
));
fact!(i7_pq_256, "I7-PQ-256", |id| holds(id, &[decode(&PQ.plan(), &[256]).batches[0].step_s]));
fact!(i7_w26, "I7-W26", |id| holds(id, &[MHA.plan().cost().parameters.bytes]));
fact!(i7_kv, "I7-KV", |_| {
    for heads in [40, 8] {
        let cache = sized(&llama(heads, Some(f64::INFINITY))).cache;
        same(cache.sequence_bytes, (2 * 2 * 128 * heads * 40 * 8192) as f64);
        same(cache.token_bytes * 8192.0, cache.sequence_bytes);
    }
});
fact!(i7_kv_13b, "I7-KV-13B", |id| holds(id, &[sized(&llama(40, None)).cache.sequence_bytes]));
fact!(i7_kv_4, "I7-KV-4", |id| {
    let plan = llama(40, None);
    holds(id, &[(plan.cost().parameters.bytes / sized(&plan).cache.sequence_bytes).ceil()]);
});
fact!(i7_param_kv, "I7-PARAM-KV", |_| {
    let ratio = |sizes| {
        let plan = Sketch { sizes, ..PQ }.plan();
        plan.cost().parameters.bytes / decode(&plan, &[]).cache.sequence_bytes
    };
    let one = ratio("B=4, S=8192, C=64k, D=4096");
    // A context twice as long, and weights twice as large.
    same(one / ratio("B=4, S=16384, C=64k, D=4096"), 2.0);
    same(ratio("B=4, S=8192, C=64k, D=8192") / one, 2.0);
});

fact!(i7_bcrit, "I7-BCRIT", |id| holds(id, &[critical(&weight("tpu-v5e-820", "bf16", "bf16"))]));
fact!(i7_bcrit_h100, "I7-BCRIT-H100", |id| holds(id, &[critical(&weight("h100", "bf16", "bf16"))]));
fact!(i7_bcrit_w8, "I7-BCRIT-W8", |id| holds(
    id,
    &[critical(&weight("tpu-v5e-820", "bf16", "int8"))]
));
fact!(i7_bcrit_w8a8, "I7-BCRIT-W8A8", |id| holds(
    id,
    &[critical(&weight("tpu-v5e-820", "int8", "int8"))]
));
fact!(i7_bcrit_gen, "I7-BCRIT-GEN", |_| {
    let of = |weights| critical(&weight("tpu-v5e", "bf16", weights));
    assert!(
        (of("bf16") / of("int8") - 2.0).abs() < 1e-9
            && (of("bf16") / of("int4") - 4.0).abs() < 1e-9
    );
});
fact!(i7_int, "I7-INT", |id| {
    let statement = weight("tpu-v5e", "bf16", "bf16").cost().statements[0].clone();
    holds(id, &[statement.intensity.expect("a product") / 8.0]);
});
fact!(i7_att_gen, "I7-ATT-GEN", |id| {
    // One query against a long cache; scores are few beside keys.
    let source = "hardware tpu-v5e\nmesh Y=1\ndim B=4, S=64Ki, H=64Ki\ninput q[B, H]\n\
        state kc[B, S, H]\np = q *H kc\noutput p[B, S]\n";
    holds(id, &[textbook(source).cost().statements[0].intensity.expect("a product")]);
});
fact!(i7_act, "I7-ACT", |id| {
    let source = "hardware tpu-v5e\nmesh Y=1\ndim T=8192, D=5120\ninput x[T, D]\ny = gelu(x)\n\
        output y[T, D]\n";
    holds(id, &[textbook(source).cost().activations.bytes]);
});
fact!(i7_appa, "I7-APPA", |id| {
    let source = "hardware tpu-v5e-820\nmesh Y=4\ndim B=8, D=8k, F=75k\ninput x[B, D]\n\
        param w[D, F_Y]\ny = x *D w\noutput y[B, F_Y]\n";
    holds(id, &[decode(&textbook(source), &[]).step.parameters_s]);
});
fact!(i7_prefix, "I7-PREFIX", |id| {
    let flops = |tokens: u64| {
        let dims = [DimSize { name: "T".to_owned(), size: tokens }].to_vec();
        let options = Options { strategy: Strategy::Textbook, dims, ..Options::default() };
        let source = "hardware tpu-v5e\nmesh Y=1\ndim B=1, T=3072, D=4096, F=16384\n\
            input x[B, T, D]\nparam w[D, F]\ny = x *D w\noutput y[B, T, F]\n";
        planned(source, &options).cost().flops
    };
    holds(id, &[flops(1024) / flops(3072)]);
});

fact!(i7_q1_p, "I7-Q1-P", |id| holds(id, &[total_params(&model(8, 1))]));
fact!(i7_q1_kv, "I7-Q1-KV", |id| holds(id, &[sized(&model(8, 1)).cache.token_bytes]));
fact!(i7_q2_seq, "I7-Q2-SEQ", |id| holds(id, &[sized(&model(8, 1)).cache.sequence_bytes]));
fact!(i7_q2_b, "I7-Q2-B", |id| holds(id, &[largest(&model(8, 1))]));
fact!(i7_q2_b1, "I7-Q2-B1", |id| holds(id, &[largest(&model(1, 1))]));
fact!(i7_q3, "I7-Q3", |id| holds(id, &[sized(&model(8, 1)).step.parameters_s]));
fact!(i7_q5_p, "I7-Q5-P", |id| holds(id, &[counted(&slice8x16().cost())]));
fact!(i7_q5_x, "I7-Q5-X", |id| holds(
    id,
    &[counted(&slice8x16().cost()) / total_params(&model(8, 1))]
));
fact!(i7_q5_a, "I7-Q5-A", |id| holds(id, &[flops_per_token() / 2.0]));
fact!(i7_q5_f, "I7-Q5-F", |id| holds(id, &[flops_per_token()]));
fact!(i7_q5_b, "I7-Q5-B", |id| {
    let source = "hardware tpu-v5e-820\nmesh Y=1\ndim G=1, T=8, E=16, C=1, D=4096, F=16384\n\
        input x[G, T, D]\nparam router[D, E], win[E, D, F], wout[E, F, D]\nscores = x *D router\n\
        sent = route_{T,E->C}(scores, 2)\ny = gelu((sent *T x) *D win) *F wout\n\
        z = (sent * scores) *E,C y\noutput z[G, T, D]\n";
    let sizing = decode(&textbook(source), &[]);
    holds(id, &[sizing.critical.expect("it turns").tokens]);
});
fact!(i7_q6_free, "I7-Q6-FREE", |id| {
    let plan = slice8x16();
    let router = 64.0 * 4096.0 * 16.0 / 128.0;
    let capacity = plan.plan.program.hardware.hbm_bytes.expect("it is known");
    holds(id, &[capacity - (plan.cost().parameters.device_bytes - router)]);
});
fact!(i7_q6_min, "I7-Q6-MIN", |id| {
    let fits = |chips: u64| {
        let source = experts(&format!("Y=1, Z={chips}"), EXPERTS, "tpu-v5e");
        shardwise::plan(
            "fact",
            &source,
            &Options { strategy: Strategy::Textbook, ..Options::default() },
        )
        .is_ok()
    };
    holds(id, &[[1, 2, 4, 8, 16].into_iter().find(|&chips| fits(chips)).expect("a slice") as f64]);
});
fact!(i7_q6_load, "I7-Q6-LOAD", |id| {
    // The router, which the chapter leaves out, is small enough to be gathered, and read whole.
    let router_s = 64.0 * 4096.0 * 16.0 / 8.1e11;
    holds(id, &[decode(&slice8x16(), &[]).step.parameters_s - router_s]);
});

/// The largest batch of the book's table that fits.
fn largest_of_table(plan: &Planned) -> f64 {
    let source = plan.plan.to_string();
    let limited = planned(&source, &Options::default());
    decode(&limited, &BATCHES)
        .batches
        .iter()
        .filter(|row| row.fits == Some(true))
        .map(|row| row.batch)
        .max()
        .unwrap_or(0) as f64
}

fn largest(plan: &Planned) -> f64 {
    let limited = planned(&plan.plan.to_string(), &Options::default());
    sized(&limited).largest_batch.expect("memory is known") as f64
}

/// FLOPs of the products with parameters, the router apart.
fn flops_per_token() -> f64 {
    let plan = textbook(&experts("Y=1, Z=1", EXPERTS, "tpu-v5e"));
    let cost = plan.cost();
    let weights = ["wgate[", "win[", "wout[", "wq[", "wk[", "wv[", "wo[", "Table["];
    let products = cost.statements.iter().filter(|statement| {
        statement.intensity.is_some() && weights.iter().any(|name| statement.text.contains(name))
    });
    let flops: f64 = products.map(|statement| statement.times as f64 * statement.flops).sum();
    flops / decode(&plan, &[]).step.tokens
}

#[test]
fn the_model_itself_is_within_two_percent_of_the_table() {
    for (heads, name) in [(40, "MHA"), (8, "GQA")] {
        for row in sized_at(heads).batches {
            for what in ["MEM", "T", "Q"] {
                let id = format!("I7-13B-{name}-{}-{what}", row.batch);
                let wanted = record(&id)["value"].as_f64().expect("a number");
                // With fewer heads its keys and values are projected by smaller weights, which the
                // table leaves as they are.
                let given = quantity(&row, what);
                let smaller = if heads == 40 { 0.0 } else { 0.15 };
                assert!(
                    (given / wanted - 1.0).abs() < 0.02 + smaller,
                    "{id}: {given} against {wanted}"
                );
            }
        }
    }
}

fn sized_at(heads: u64) -> Inference {
    let plan = llama(heads, Some(f64::INFINITY));
    plan.cost_sized(&Sizing { batches: BATCHES.to_vec(), ..Sizing::default() })
        .inference
        .expect("it decodes")
}

/// The page shows what the command prints.
#[test]
fn the_page_is_current() {
    let page = read("compiler/docs/inference.md");
    let sizing = Sizing { batches: BATCHES.to_vec(), ..Sizing::default() };
    for heads in [40_u64, 8] {
        let dims = [("K", heads), ("G", 40 / heads)]
            .map(|(name, size)| DimSize { name: name.to_owned(), size });
        let options = Options { dims: dims.to_vec(), ..Options::default() };
        let table = planned(&read("tests/programs/models/llama2-13b-decode.shard"), &options)
            .cost_table_sized(&sizing);
        let shown = table
            .split("\n\n")
            .skip_while(|part| !part.starts_with("decode:"))
            .collect::<Vec<_>>()
            .join("\n\n");
        assert!(page.contains(&shown), "{shown}");
    }
    let sizing = Sizing { batches: vec![32, 256, 1024, 2048], ..Sizing::default() };
    let table =
        planned(&read("tests/programs/models/deepseek-v3-decode.shard"), &Options::default())
            .cost_table_sized(&sizing);
    let shown = table
        .split("\n\n")
        .skip_while(|part| !part.starts_with("decode:"))
        .collect::<Vec<_>>()
        .join("\n\n");
    assert!(page.contains(&shown), "{shown}");
}

#[test]
fn training_and_plain_layers_are_not_sized() {
    let auto = |path: &str| textbook(&read(path)).cost().inference;
    assert_eq!(auto("tests/programs/fsdp_tp.shard"), None);
    assert_eq!(auto("tests/programs/models/llama3-8b-train.shard"), None);
    assert_eq!(auto("tests/programs/book/p4-moe.shard"), None, "experts are not attention");
    let prefill = auto("tests/programs/book/b-attn.shard").expect("tokens look at each other");
    assert_eq!(
        (prefill.phase.name(), prefill.step.tokens, prefill.cache.sequence_bytes),
        ("prefill", 4.0 * 2048.0, 0.0)
    );
}

#[test]
fn what_is_replicated_is_read_by_every_device() {
    let source = |cache: &str| {
        format!(
            "hardware tpu-v5e\nmesh Y=8\ndim B=8, S=8192, D=4096, H=1024\ninput x[B, D]\n\
                param w[D, H]\nstate kc{cache}\nq = x *D w\np = q *H kc\noutput p[B, S_?]\n"
        )
    };
    let step = |cache: &str| {
        searched(&source(cache)).inference(&Sizing::default()).expect("a cache is read").step
    };
    let (split, whole) = (step("[B, S_Y, H]"), step("[B, S, H]"));
    // Slicing what is whole costs nothing, and reads a part of it.
    assert!(whole.attention_s >= split.attention_s && whole.device_bytes > 4 * split.device_bytes);
    let pinned = source("[B, S, H]")
        .replace("q *H kc\n", "q *H kc[B, S, H]\n")
        .replace("output p[B, S_?]", "output p[B, S]");
    let pinned = searched(&pinned.replace("p = q *H", "p[B, S] = q[B, H] *H"))
        .inference(&Sizing::default())
        .expect("a cache is read")
        .step;
    assert!((pinned.attention_s / split.attention_s - 8.0).abs() < 1e-9);
}
