//! The numbers of the book's chapter on transformers, each as a test named by its id: FLOPs,
//! parameters and bytes that `cost` and `plan` count, against `tests/facts/transformers.json`.
//!
//! A coefficient (the 18 of `18 BTDF`) is what the tool counts over its unit, at sizes that are all
//! different, so that no other formula gives the same number. What grows with layers and tokens
//! (activations kept) is a second difference: what does not grow with both falls out.

use shardwise::cost::Cost;
use shardwise::{DimSize, Options, Planned, Strategy};
use shardwise_tests::facts::{numbers, record, value_holds};
use shardwise_tests::{fact, read, statements};

fn number(id: &str) -> f64 {
    numbers(id)[0]
}

fn textbook(source: &str, dims: &[(&str, u64)]) -> Planned {
    let dims = dims.iter().map(|&(name, size)| DimSize { name: name.to_owned(), size }).collect();
    let options = Options {
        strategy: Strategy::Textbook,
        memory: Some(f64::INFINITY),
        dims,
        ..Options::default()
    };
    shardwise::plan("fact", source, &options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn cost(source: &str) -> Cost {
    textbook(source, &[]).cost()
}

/// A program on one chip, from its dimensions on.
fn alone(dims: &str, body: &str) -> String {
    format!("hardware tpu-v5p\nmesh X=1\ndim {dims}\n{body}\n")
}

/// FLOPs of the statements that contract something, and whose text `counts`.
fn flops(cost: &Cost, counts: impl Fn(&str) -> bool) -> f64 {
    let product = |text: &str| text.split(" *").skip(1).any(|rest| !rest.starts_with(' '));
    let counted = cost
        .statements
        .iter()
        .filter(|statement| product(&statement.text) && counts(&statement.text));
    counted.map(|statement| statement.flops * statement.times as f64).sum()
}

fn products(source: &str) -> f64 {
    flops(&cost(source), |_| true)
}

fn has_weight(text: &str) -> bool {
    ["wq", "wk", "wv", "wo", "win", "wgate", "wout"].iter().any(|weight| text.contains(weight))
}

const SIZES: &str = "B=2, T=6, S=T, D=10, F=14, K=3, G=5, H=4";
const ATTENTION: &str = "a = rmsnorm_D(x)
q = a *D wq
k[B_?, S_?, K_?, H_?] = rename(a *D wk)
v[B_?, S_?, K_?, H_?] = rename(a *D wv)
p = softmax_S(q *H k)
o = p *S v
y = o *K,G,H wo";
const HEADS: &str = "param wq[D, K, G, H], wk[D, K, H], wv[D, K, H], wo[K, G, H, D]";
const GATED: &str = "g = m *D wgate\nu = m *D win\nz = (gelu(g) * u) *F wout";
const MATRICES: &str = "param win[D, F], wgate[D, F], wout[F, D]";

/// Attention alone, trained.
fn attention(dims: &str) -> String {
    alone(
        dims,
        &format!(
            "input x[B, T, D], dy[B, T, D]\n{HEADS}\n{ATTENTION}\nbackward from y given dy\n\
                output dx[B, T, D]"
        ),
    )
}

/// A gated MLP alone, trained.
fn gated() -> String {
    alone(
        SIZES,
        &format!(
            "input m[B, T, D], dz[B, T, D]\n{MATRICES}\n{GATED}\nbackward from z given dz\n\
                output dm[B, T, D]"
        ),
    )
}

/// Layers of both, trained; what stands after `checkpoint`, if anything.
fn layers(dims: &str, checkpoint: Option<&str>) -> String {
    let kept = checkpoint.map_or(String::new(), |kept| format!("checkpoint {kept}\n"));
    let body =
        format!("carry x\n{HEADS}\n{MATRICES}\n{ATTENTION}\nm = x + y\n{GATED}\nx = m + z\n{kept}");
    alone(
        dims,
        &format!(
            "input x[B, T, D], dy[B, T, D]\nrepeat L=7 {{\n{body}}}\nbackward from x given dy\n\
                output dx[B, T, D]"
        ),
    )
}

/// Attention's own products over all others, in training, where `F=4D`, `D=NH` and every head has
/// its keys.
fn attention_share(d: u64, t: u64) -> f64 {
    let dims = format!("B=1, T={t}, S=T, D={d}, F=4*D, K={}, G=1, H=128", d / 128);
    let cost = cost(&layers(&dims, None));
    flops(&cost, |text| !has_weight(text)) / flops(&cost, has_weight)
}

/// Bytes that are held for each token and layer, over layers.
fn kept(body: &str, tokens: u64, d: u64, layers: u64) -> f64 {
    let source = |layers| {
        let head = format!(
            "input x[B, D], g[B, D]\nrepeat L={layers} {{\ncarry x\nparam n[D]\n{body}\n}}\n"
        );
        alone(
            &format!("B=1000, D={d}, E={d}"),
            &format!("{head}backward from x given g\noutput dx[B, D]"),
        )
    };
    let peak = |layers, tokens| {
        textbook(&source(layers), &[("B", tokens)]).json().memory.peak_bytes as f64
    };
    let of = |tokens| peak(2 * layers, tokens) - peak(layers, tokens);
    of(2 * tokens) - of(tokens)
}

fact!(t4_dot, "T4-DOT", |id| value_holds(
    id,
    products(&alone("P=64", "input a[P], b[P]\nc = a *P b\noutput c[]")) / 64.0
));
fact!(t4_matmul, "T4-MATMUL", |id| {
    let source = alone("N=8, P=24, M=32", "input a[N, P], b[P, M]\nc = a *P b\noutput c[N, M]");
    value_holds(id, products(&source) / (8.0 * 24.0 * 32.0));
});
fact!(t4_general, "T4-GENERAL", |id| {
    let source = alone(
        "G=2, H=3, I=4, J=5, K=6, L=7, M=8, N=9",
        "input c[G, H, I, J, K, L], d[G, H, M, N, K, L]\noutput e[G, H, I, J, M, N] = c *K,L d",
    );
    value_holds(id, products(&source) / 362_880.0);
});
fact!(t4_q3, "T4-Q3", |id| {
    let source = alone(
        "I=2, J=3, K=4, L=5, M=6, N=7, O=8",
        "input a[I, J, K, L], b[I, J, M, N, O]\noutput c[K, L, M, N, O] = a *I,J b",
    );
    value_holds(id, products(&source) / 40_320.0);
});
fact!(t4_bwd, "T4-BWD", |id| value_holds(id, products(TRAINED_PRODUCT) / (8.0 * 24.0 * 32.0)));
fact!(t4_deriv, "T4-DERIV", |id| {
    let plan = statements(&textbook(TRAINED_PRODUCT, &[]).to_string());
    let formula =
        record(id)["formula"].as_str().expect("a formula is text").replace("[P,M]", "[P, M]");
    for statement in formula.replace("[N,M]", "[N, M]").replace("[N,P]", "[N, P]").split("; ") {
        assert!(plan.iter().any(|line| line == statement), "{statement} in {plan:?}");
    }
});
fact!(t4_mlp_f, "T4-MLP-F", |id| value_holds(id, products(&gated()) / (2.0 * 6.0 * 10.0 * 14.0)));
fact!(t4_mlp_p, "T4-MLP-P", |id| value_holds(
    id,
    cost(&gated()).parameters.elements / (10.0 * 14.0)
));
fact!(t4_qkvo_f, "T4-QKVO-F", |id| value_holds(
    id,
    flops(&cost(&attention(SIZES)), has_weight) / (2.0 * 6.0 * 10.0 * (15.0 + 3.0) * 4.0)
));
fact!(t4_qkvo_p, "T4-QKVO-P", |id| value_holds(
    id,
    cost(&attention(SIZES)).parameters.elements / (10.0 * (15.0 + 3.0) * 4.0)
));
fact!(t4_att_f, "T4-ATT-F", |id| value_holds(
    id,
    flops(&cost(&attention(SIZES)), |text| !has_weight(text)) / (2.0 * 6.0 * 6.0 * 15.0 * 4.0)
));
fact!(t4_causal, "T4-CAUSAL", |id| {
    let whole = attention(SIZES);
    let masked = whole.replace("softmax_S(q *H k)", "softmax_S(causal_{T,S}(q *H k))");
    let own = |source: &str| flops(&cost(source), |text| !has_weight(text));
    value_holds(id, own(&masked) / own(&whole));
});
fact!(t4_unemb, "T4-UNEMB", |id| {
    let body = "input x[B, T, D], dy[B, T, V]\nparam U[D, V]\ny = x *D U\n\
        backward from y given dy\noutput dx[B, T, D]";
    value_holds(id, products(&alone("B=2, T=6, D=10, V=40", body)) / (2.0 * 6.0 * 10.0 * 40.0));
});
fact!(t4_6nd, "T4-6ND", |id| {
    let cost = cost(&layers(SIZES, None));
    value_holds(id, flops(&cost, has_weight) / cost.parameters.elements / (2.0 * 6.0));
});
fact!(t4_attratio, "T4-ATTRATIO", |id| value_holds(
    id,
    attention_share(1024, 512) / (512.0 / 1024.0)
));
// As many FLOPs in attention as in everything else.
fact!(t4_att_8k, "T4-ATT-8K", |id| assert!(
    (attention_share(8192, number(id) as u64) - 1.0).abs() < 1e-9
));
fact!(t4_att_gemma, "T4-ATT-GEMMA", |id| assert!(
    (attention_share(4608, number(id) as u64) - 1.0).abs() < 1e-9
));
fact!(t4_q5, "T4-Q5", |id| {
    let dims = format!("B=1, T={}, S=T, D=4096, K=32, G=1, H=128", number(id));
    let cost = cost(&attention(&dims));
    assert!((flops(&cost, |text| !has_weight(text)) / flops(&cost, has_weight) - 1.0).abs() < 1e-9);
});
fact!(t4_moe_a2a, "T4-MOE-A2A", |id| {
    let plan = textbook(&read("tests/programs/book/p4-moe.shard"), &[]).json();
    value_holds(id, plan.steps.iter().filter(|step| step.kind == "all_to_all").count() as f64);
});
// Twenty products one after the other, each of whose operands is kept for its gradient.
fact!(t4_act84, "T4-ACT84", |id| {
    let pair = |number: u32| format!("y{number} = x *D V\nx = y{number} *E W");
    let pairs: Vec<String> = (0..10).map(pair).collect();
    let body = format!("param V[D, E], W[E, D]\n{}", pairs.join("\n"));
    value_holds(id, kept(&body, 4_000_000, 8192, 64));
});
fact!(t4_act_block, "T4-ACT-BLOCK", |id| {
    value_holds(
        id,
        kept(&format!("{}\ncheckpoint", ["x = tanh(x)"; 20].join("\n")), 4_000_000, 8192, 64),
    );
});
fact!(t4_kv_8g, "T4-KV-8G", |id| {
    let body = "input x[H]\nrepeat L=64 {\ncarry x\nstate k: int8[S, K, H], v: int8[S, K, H]\n\
        x = 2.0 * x\n}\noutput x[H]";
    value_holds(id, cost(&alone("S=8192, K=64, H=128", body)).state.bytes);
});
fact!(t4_q1_p, "T4-Q1-P", |id| value_holds(id, cost(&question_1()).parameters.elements));
fact!(t4_q1_att, "T4-Q1-ATT", |id| {
    let of_layers =
        |weights: &str| cost(&alone("D=4096, F=4*D, N=32, H=128", weights)).parameters.elements;
    let heads = of_layers(QUESTION_1_HEADS);
    value_holds(id, heads / (heads + of_layers(MATRICES)));
});
fact!(t4_q1_kv, "T4-Q1-KV", |id| value_holds(id, cost(&question_1()).state.bytes));
fact!(t4_q2_dev, "T4-Q2-DEV", |id| value_holds(id, question_2().device_flops / QUESTION_2_UNIT));
fact!(t4_q2_tot, "T4-Q2-TOT", |id| value_holds(
    id,
    question_2().device_flops * 128.0 / QUESTION_2_UNIT
));
fact!(t4_q2_lint, "T4-Q2-LINT", |id| {
    let cost = question_2();
    value_holds(id, cost.device_flops * cost.devices as f64 / cost.flops);
});
fact!(t4_q6, "T4-Q6", |id| {
    let extra =
        products(&layers(SIZES, Some("q, k, v, y, g, u, z"))) - products(&layers(SIZES, None));
    value_holds(id, extra / 7.0 / (2.0 * 6.0 * 6.0 * 15.0 * 4.0));
});
// Six FLOPs a token and parameter that it meets: those of the program, with as many experts as
// a token is sent to.
fact!(t4_q7_used, "T4-Q7-USED", |id| {
    let one = "mesh P=1 dcn, X=1 dcn, Y=1\n";
    let source = read("tests/programs/models/deepseek-v3-train.shard")
        .replace("mesh P=16 dcn, X=16 dcn, Y=8\n", one);
    value_holds(id, 6.0 * textbook(&source, &[("E", 8)]).cost().parameters.elements * 14.8e12);
});
fact!(t4_q8, "T4-Q8", |id| value_holds(id, number(id) * experts_bound(8, 2, number(id) * 4.0)));
fact!(t4_q8_ds, "T4-Q8-DS", |id| value_holds(id, number(id) * experts_bound(256, 8, number(id))));

const TRAINED_PRODUCT: &str = "hardware tpu-v5p
mesh X=1
dim N=8, P=24, M=32
input dC[N, M]
param A[N, P], B[P, M]
C = A *P B
backward from C given dC
";

const QUESTION_1_HEADS: &str = "param wq[D, N, H], wk[D, N, H], wv[D, N, H], wo[N, H, D]";

/// The chapter's first question, with a cache for one token.
fn question_1() -> String {
    let layer = format!(
        "carry x\n{QUESTION_1_HEADS}\n{MATRICES}\nparam n[D]\nstate k: int8[N, H], v: int8[N, H]\n\
            x = x * n\n"
    );
    let body = format!(
        "input x[D]\nparam embed[V, D], unembed[D, V]\nrepeat L=64 {{\n{layer}}}\noutput x[D]"
    );
    alone("D=4096, F=4*D, V=32000, N=32, H=128", &body)
}

fn question_2() -> Cost {
    cost(&read("tests/programs/book/p4-q2.shard"))
}

/// `BDF` of the second question.
const QUESTION_2_UNIT: f64 = 4096.0 * 8192.0 * 32768.0;

/// HBM over FLOPs of the experts' product, weights in int8, where each of `tokens` goes to `chosen`
/// of `experts`: 1 where they take as long.
fn experts_bound(experts: u64, chosen: u64, tokens: f64) -> f64 {
    let each = (tokens * chosen as f64 / experts as f64).round();
    let body = format!(
        "hardware tpu-v5e\nmesh X=1\ndim E={experts}, C={each}, D=65536, F=65536\n\
            input x[E, C, D]\nparam w: int8[E, D, F]\noutput y[E, C, F] = x *D w\n"
    );
    let cost = cost(&body);
    let statement = &cost.statements[0];
    let factor = statement.factor.expect("both rates are known");
    if statement.bound == "hbm" { factor } else { 1.0 / factor }
}
