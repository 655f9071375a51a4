//! Which programs are sized as a serving step, which are not, and the messages about caches that
//! are not like one another.

use shardwise::Planned;
use shardwise::inference::{Inference, RequestedPhase, Sizing};
use shardwise_tests::planning::textbook;
use shardwise_tests::read;

const HEAD: &str = "hardware tpu-v5e\nmesh Y=8\ndim B=8, S=8192, W=4096, D=4096, H=1024\n\
    input x[B, D]\nparam w[D, H_Y]\nq = x *D w\n";

/// A decode step that looks at caches.
fn looks_at(caches: &str, products: &str) -> Planned {
    textbook(&format!("{HEAD}state {caches}\n{products}\n"))
}

fn sized(planned: &Planned) -> Inference {
    planned.inference(&Sizing::default()).unwrap_or_else(|e| panic!("{e}\n{planned}"))
}

fn lines(planned: &Planned) -> String {
    planned
        .cost_table()
        .lines()
        .skip_while(|line| !line.starts_with("decode:"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn caches_of_two_lengths_have_no_bytes_a_token() {
    let one = looks_at("near[B, W, H_Y]", "p = q *H near\noutput p[B, W]");
    let two = looks_at(
        "near[B, W, H_Y], far[B, S, H_Y]",
        "p = q *H near\no = q *H far\noutput p[B, W], o[B, S]",
    );
    let [near, both] = [&one, &two].map(|planned| sized(planned).cache);
    assert_eq!((near.token_bytes, near.context), (2048.0, 4096));
    assert_eq!(
        (both.token_bytes, both.context, both.sequence_bytes),
        (0.0, 8192, 2048.0 * (8192.0 + 4096.0))
    );
    assert!(
        lines(&one).contains("KV cache: 2.05 kB a token, 8.39 MB a sequence of 4096 tokens"),
        "{}",
        lines(&one)
    );
    assert!(
        lines(&two).contains("KV cache: 25.2 MB a sequence of up to 8192 tokens"),
        "{}",
        lines(&two)
    );
}

#[test]
fn a_cache_of_all_sequences_is_shared() {
    let planned = looks_at(
        "own[B, S, H_Y], prompt[W, H_Y]",
        "p = q *H own\no = q *H prompt\noutput p[B, S], o[B, W]",
    );
    let cache = sized(&planned).cache;
    assert_eq!((cache.sequence_bytes, cache.shared_bytes), (2048.0 * 8192.0, 2048.0 * 4096.0));
    assert!(
        lines(&planned).contains("a sequence of 8192 tokens, 8.39 MB shared"),
        "{}",
        lines(&planned)
    );
}

/// What leaves the layers of a prefill is what a decode step reads of the same model.
#[test]
fn a_prefill_gives_the_cache_that_decoding_reads() {
    let of =
        |name: &str| sized(&textbook(&read(&format!("tests/programs/models/{name}.shard")))).cache;
    for model in ["mixtral-8x7b", "llama3-405b", "deepseek-v3"] {
        let [given, read] = ["prefill", "decode"].map(|phase| of(&format!("{model}-{phase}")));
        let wide = if model == "llama3-405b" { 2.0 } else { 1.0 };
        assert_eq!(
            (given.token_bytes, given.is_read),
            (wide * read.token_bytes, false),
            "{model}: the 405B keeps fp8 and gives bf16"
        );
        assert!(read.is_read);
    }
    let shown = textbook(&read("tests/programs/models/mixtral-8x7b-prefill.shard")).cost_table();
    assert!(
        shown.contains("KV cache: gives 131 kB a token, 1.07 GB a sequence of 8192 tokens"),
        "{shown}"
    );
    assert!(shown.contains("= attention "), "{shown}");
}

/// A sequence may be a product of groups and tokens, as before experts.
#[test]
fn a_sequence_that_is_a_product_is_sized_as_any() {
    let source = |sizes: &str| {
        format!(
            "hardware h100\nmesh X=1\ndim B=1, {sizes}, S=T, D=4096, K=8, G=4, H=128\n\
             input x[B, T, D]\nparam wq[D, K, G, H], wk[D, K, H], wv[D, K, H], wo[K, G, H, D]\n\
             q = x *D wq\nk[B, S, K, H] = rename(x *D wk)\nv[B, S, K, H] = rename(x *D wv)\n\
             o = attention(q, k, v, causal)\noutput y[B, T, D] = o *K,G,H wo\n"
        )
    };
    let of = |sizes: &str| sized(&textbook(&source(sizes)));
    let (plain, product) = (of("T=8192"), of("Groups=16, Tokens=512, T=Groups*Tokens"));
    let figures = |of: &Inference| {
        let step = &of.step;
        [step.tokens, step.attention_s, step.flops_s, step.parameters_s].map(f64::to_bits)
    };
    assert_eq!(figures(&plain), figures(&product));
}

/// Tokens that go to experts and back do not look at each other.
#[test]
fn a_layer_of_experts_alone_is_no_prefill() {
    let layer = "hardware h100\nmesh X=8\ndim T=16384, D=4096, E=64, C=1024, F=2048\n\
        input x[T_X, D]\nparam wr[D, E], w1[E_X, D, F], w2[E_X, F, D]\n\
        s = softmax_E(x *D wr)\nr = route_{T,E->C}(s, 4)\nh = silu((r *T x) *D w1)\n\
        output y[T_X, D] = (r * s) *E,C (h *F w2)\n";
    let planned = textbook(layer);
    let refused = planned.inference(&Sizing::default()).map(|sizing| sizing.phase);
    assert!(refused.expect_err("it has no attention").to_string().contains("give --phase"));
    let sizing = Sizing { phase: RequestedPhase::Prefill, ..Sizing::default() };
    let sized = planned.inference(&sizing).unwrap_or_else(|no| panic!("{no}"));
    assert_eq!(sized.step.attention_s.to_bits(), 0.0_f64.to_bits());
}

/// Writing a row into a cache reads none of it; looking at the result reads all.
#[test]
fn a_cache_that_is_updated_is_read_once() {
    let at = "at: int32[B]";
    let with = |statements: &str| {
        format!("{}{statements}\n", HEAD.replace("input x[B, D]", &format!("input x[B, D], {at}")))
    };
    let updated = textbook(&with(
        "state c[B, S, H_Y]\nn = update_S(c, at, q)\np = q *H n\nnext c = n\noutput p[B, S]",
    ));
    let read = textbook(&with("state c[B, S, H_Y]\np = q *H c\noutput p[B, S]"));
    let [updated, read] = [updated, read].map(|planned| sized(&planned));
    assert_eq!(
        (updated.cache, updated.step.attention_s.to_bits()),
        (read.cache, read.step.attention_s.to_bits())
    );
    assert_eq!(updated.largest_batch, read.largest_batch);
}

#[test]
fn what_is_no_step_of_serving_says_why() {
    let why = |source: &str, wanted: RequestedPhase| {
        let planned = textbook(source);
        planned
            .inference(&Sizing { phase: wanted, ..Sizing::default() })
            .map(|sizing| sizing.phase)
            .expect_err(source)
            .to_string()
    };
    let training = read("tests/programs/models/llama3-8b-train.shard");
    for wanted in [RequestedPhase::Auto, RequestedPhase::Decode] {
        assert!(why(&training, wanted).contains("it has gradients"));
    }
    let layer = read("tests/programs/fsdp_tp.shard");
    assert!(why(&layer, RequestedPhase::Auto).contains("give --phase decode or --phase prefill"));
    assert!(why(&layer, RequestedPhase::None).contains("leave --phase none out"));
    let plain = "hardware tpu-v5e\nmesh Y=2\ndim D=64, F=64\nparam a[D], w[D, F]\ny = a *D w\n\
        output y[F]\n";
    assert!(why(plain, RequestedPhase::Decode).contains("there is no such product"));
    let apart = format!(
        "{HEAD}input old[W, H_Y]\nstate c[S, H_Y]\np = old *H c\noutput p[W, S], q[B, H_Y]\n"
    );
    assert!(
        why(&apart, RequestedPhase::Auto)
            .contains("no cache (`state`) that it reads has a dimension that the batch has")
    );
}

/// Requests that decode beside a chunk of a prompt: two caches, each read by a part of the tokens.
#[test]
fn a_mixed_step_is_reported_as_two() {
    let source = "hardware h100\nmesh X=2\ndim B=64, P=2048, T=B+P, D=4096, S=4096, U=8192, H=128\n\
        input x[T, D]\nparam w[D, H_X]\nstate c[B, S, H_X], k[U, H_X]\n\
        a, b = split_{T->B,P}(x *D w)\noutput p[B, S] = a *H c\noutput r[P, U] = b *H k\n";
    let planned = textbook(source);
    let reason = planned.inference(&Sizing::default()).expect_err("two steps").to_string();
    assert!(reason.contains("its tokens are those of several steps"), "{reason}");
    let table = planned.cost_table();
    assert!(table.contains("not sized as a step of serving: its tokens are"), "{table}");
}
