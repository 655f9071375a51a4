//! Answers to questions of several chapters, each a test named by its id: the intensity of
//! attention, utilisation and days of a training run, tensor parallelism of LLaMA-3 70B, what
//! chunks of a softmax make together.

use shardwise::inference::{RequestedPhase, Row, Sizing};
use shardwise::verify::{Setup, verify};
use shardwise::{Hardware, Options, Planned};
use shardwise_tests::facts::holds;
use shardwise_tests::planning::{decode, evaluated, seconds, textbook};
use shardwise_tests::{fact, read};

/// Attention of so many queries to so many keys, eight heads of each group of queries to one of
/// keys.
struct Heads {
    queries: f64,
    keys: f64,
    groups: f64,
}

impl Heads {
    /// The pass on one v5e.
    fn pass(&self) -> Row {
        let Heads { queries, keys, groups } = self;
        let source = format!(
            "hardware tpu-v5e\nmesh X=1\ndim B=2, T={queries}, S={keys}, D=64, K=8, G={groups}, \
                H=128\ninput x[B, T, D], k[B, S, K, H], v[B, S, K, H]\nparam wq[D, K, G, H]\n\
                q = x *D wq\np = softmax_S(q *H k)\no = p *S v\noutput o[B, T, K, G, H]\n"
        );
        let sizing = Sizing { phase: RequestedPhase::Prefill, batches: Vec::new() };
        textbook(&source).inference(&sizing).expect("tokens look at each other").step
    }

    fn intensity(&self) -> f64 {
        let pass = self.pass();
        pass.attention_flops / pass.attention_bytes
    }

    /// Whether it is as the formula says.
    fn is(&self, formula: f64) {
        assert!(
            (self.intensity() / formula - 1.0).abs() < 1e-9,
            "{} against {formula}",
            self.intensity()
        );
    }
}

fn heads(queries: u32, keys: u32, groups: u32) -> Heads {
    Heads { queries: f64::from(queries), keys: f64::from(keys), groups: f64::from(groups) }
}

/// The sequence from which on attention to itself is bound by FLOPs, at the book's 820 GB/s.
fn long_enough(groups: u32) -> f64 {
    let is_bound = |length: u32| {
        let pass = heads(length, length, groups).pass();
        pass.attention_flops / 1.97e14 >= pass.attention_bytes / 8.2e11
    };
    let (mut low, mut high) = (1, 4096);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if is_bound(middle) { high = middle } else { low = middle }
    }
    f64::from(high)
}

/// A training step of a weight: six FLOPs a token and parameter.
fn step_of(mesh: &str, dims: &str, tokens: &str) -> Planned {
    textbook(&format!(
        "hardware tpu-v5p\nmesh {mesh}\ndim {dims}\ninput In[{tokens}, D], dOut[{tokens}, F]\n\
            param W[D, F]\nOut = In *D W\nbackward from Out given dOut\n\
            output Out[{tokens}, F], dIn[{tokens}, D], dW[D, F]\n"
    ))
}

/// FLOPs of a preset's chip at dense fp8 in the hours that were reported.
fn available() -> f64 {
    2.79e6
        * 3600.0
        * Hardware::preset("h800").and_then(|chip| chip.fp8_flops).expect("it is in the book")
}

fact!(i7_att_int, "I7-ATT-INT", |_| {
    for (queries, keys) in [(1, 512), (64, 4096), (4096, 4096)] {
        heads(queries, keys, 1)
            .is(f64::from(queries) * f64::from(keys) / (f64::from(queries) + f64::from(keys)));
    }
});
fact!(i7_att_pre, "I7-ATT-PRE", |id| holds(id, &[heads(2048, 2048, 1).intensity() / 2048.0]));
fact!(i7_att_480, "I7-ATT-480", |id| holds(id, &[long_enough(1)]));
fact!(t4_q4_bytes, "T4-Q4-BYTES", |id| {
    let pass = heads(64, 4096, 4).pass();
    holds(id, &[pass.attention_bytes / (2.0 * 128.0 * 8.0 * (64.0 * 4.0 + 4096.0))]);
});
fact!(t4_q4_pre, "T4-Q4-PRE", |_| {
    for groups in [1, 4, 8] {
        heads(1024, 1024, groups).is(1024.0 * f64::from(groups) / (f64::from(groups) + 1.0));
    }
});
fact!(t4_q4_gen, "T4-Q4-GEN", |_| {
    for groups in [1, 4, 8] {
        let intensity = heads(1, 1 << 20, groups).intensity();
        assert!((intensity / f64::from(groups) - 1.0).abs() < 1e-4, "{intensity}");
    }
});
// With many queries a key head, reading keys and values is little.
fact!(t4_q4_cb, "T4-Q4-CB", |id| holds(id, &[long_enough(1024)]));
fact!(t4_q7_avail, "T4-Q7-AVAIL", |id| holds(id, &[available()]));
fact!(t4_q7, "T4-Q7", |id| holds(
    id,
    &[step_of("X=1", "B=14800G, D=37k, F=1M", "B").cost().flops / available()]
));
fact!(t4_flash, "T4-FLASH", |_| {
    // Every device has a chunk of the keys: the plan combines them through maxima and sums, and
    // is right.
    let source = read("tests/programs/book/p7-kv-seq.shard");
    let text = textbook(&source).to_string();
    assert!(text.contains("{max_Z}") && text.contains("sum_S("), "{text}");
    let verdict = verify("fact", &source, &Options::default(), &Setup::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(verdict.mismatch.is_none(), "{verdict}");
});
fact!(t4_flash_vjp, "T4-FLASH-VJP", |_| {
    let source = "hardware tpu-v5e\nmesh X=1\ndim I=2, J=3, D=2\ninput L[I, J], V[J, D], dO[I, D]\n\
        P = softmax_J(L)\nO = P *J V\ndP = dO *D V\nkeys = P *J dP\ndepth = O *D dO\n\
        output keys[I], depth[I]\n";
    let values = evaluated(
        source,
        &[
            ("L", &[0.3, -1.0, 2.0, 0.1, 0.7, -0.4]),
            ("V", &[1.0, 2.0, -3.0, 0.5, 4.0, -1.5]),
            ("dO", &[0.2, -0.7, 1.1, 0.9]),
        ],
    );
    assert!(
        values["keys"].iter().zip(&values["depth"]).all(|(one, other)| (one - other).abs() < 1e-12),
        "{values:?}"
    );
});

fact!(a6_days, "A6-DAYS", |id| {
    // The nearest number of tokens that a pod divides.
    let plan = step_of("X=8960 over 16x20x28", "B=15000000001280, D=70k, F=1M", "B_X");
    holds(id, &[plan.cost().verdict.compute_s / 0.4 / 86400.0]);
});
fact!(a6_years, "A6-YEARS", |id| holds(
    id,
    &[step_of("X=1", "B=15000G, D=70k, F=1M", "B").cost().verdict.compute_s / 3.156e7]
));
fact!(a6_totmem, "A6-TOTMEM", |id| {
    // Four activations of each of 80 layers, weights in bf16 and both moments in f32.
    let source = "hardware tpu-v5p\nmesh X=1\ndim P=70G, L=80, Kept=4, B=4M, D=8192\nparam W[P]\n\
        state M: f32[P], V: f32[P], Acts[L, Kept, B, D]\n";
    let cost = textbook(source).cost();
    holds(id, &[cost.parameters.bytes + cost.state.bytes]);
});
fact!(a8_tp22, "A8-TP22", |id| {
    let source = "hardware tpu-v5p\nmesh Y=16 over 4x4 ring\ndim B=65536, D=8192, F=28672\n\
        input In[B, D_Y]\nparam Win[D, F_Y], Wout[F_Y, D]\nTmp = In *D Win\nOut = Tmp *F Wout\n\
        output Out[B, D_Y]\n";
    let verdict = textbook(source).cost().verdict;
    holds(id, &[16.0 * verdict.compute_s / verdict.links_s]);
});
fact!(a8_full, "A8-FULL", |id| {
    let source = "hardware tpu-v5e\nmesh X=1\ndim B=1, D=16k, F=1M\ninput x: int8[B, D]\n\
        param w: int8[D, F]\ny = x *D w\noutput y[B, F]\n";
    holds(id, &[decode(&textbook(source), &[]).step.parameters_s * 810.0 / 820.0]);
});
fact!(a8_y56, "A8-Y56", |id| {
    // At 8000 tokens, so that the links are not bound by latency; the book takes 8 for the
    // ratio of memory to links, which is 9.
    let head = "hardware tpu-v5e\nmesh Y=16 ring\ndim B=8k, D=8192, F=28672";
    let source =
        format!("{head}\ninput In[B, D]\nparam w[D, F_Y]\ny = In *D w\noutput y[B, F_Y]\n");
    let ways = 16.0 * decode(&textbook(&source), &[]).step.parameters_s
        / seconds(head, "[B, D_Y]", "[B, D]");
    holds(id, &[ways * 8000.0 / 64.0 * 9.0 / 8.0]);
});
