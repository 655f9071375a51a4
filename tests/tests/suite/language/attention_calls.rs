//! `attention(q, k, v, …)`: the same values, prices and memory as the statements it stands for.

use shardwise::verify::{Sizes, evaluate};
use shardwise::{Options, Strategy as Planning};
use shardwise_ir::unroll;
use shardwise_tests::properties::{checked_plans, plan, program};
use shardwise_tests::random::arrays;

/// A training step of one attention between projections, with this statement in the middle.
fn source(mesh: &str, statement: &str) -> String {
    format!(
        "hardware h100\nmesh {mesh}\ndim B=16, T=64, S=T, D=32, K=4, G=2, H=8, V=16\n\
        input x[B_X, T, D]\nparam wq[D, K, G, H], wk[D, K, H], wv[D, K, V], wo[K, G, V, D]\n\
        q = x *D wq\nk[B_?, S_?, K_?, H_?] = rename(x *D wk)\n\
        v[B_?, S_?, K_?, V_?] = rename(x *D wv)\n{statement}\ny = o *K,G,V wo\n\
        Loss = sum_{{B,T,D}}(y * y)\nbackward from Loss\noutput Loss[], y[B_X, T, D]\n"
    )
}

const FORMS: [(&str, &str); 5] = [
    ("o = attention_H(q, k, v)", "o = softmax_S(0.3535533906 * (q *H k)) *S v"),
    (
        "o = attention(q, k, v, causal, scale=0.5)",
        "o = softmax_S(causal_{T,S}(0.5 * (q *H k))) *S v",
    ),
    ("o = attention(q, k, v, scale=1)", "o = softmax_S(q *H k) *S v"),
    (
        "o = attention(q, k, v, causal, cap=5.0)",
        "o = softmax_S(causal_{T,S}(5.0 * tanh((0.3535533906 * (q *H k)) / 5.0))) *S v",
    ),
    (
        "o = attention(q, k, v, causal, window=6)",
        "l = causal_{T,S}(0.3535533906 * (q *H k))\n\
        o = softmax_S(select(position_T(l) - position_S(l) < 6, l, -1e9)) *S v",
    ),
];

#[test]
fn a_call_costs_what_its_statements_cost() {
    for (call, written) in FORMS {
        let [call, written] = [call, written].map(|it| source("X=4, Y=2", it));
        for strategy in [Planning::Search, Planning::Textbook] {
            let [one, other] = [("call", &call), ("written", &written)]
                .map(|(name, source)| plan(name, source, strategy).report);
            assert_eq!(one.serial_s.to_bits(), other.serial_s.to_bits(), "{call}");
            assert_eq!(one.memory, other.memory, "{call}");
        }
    }
}

#[test]
fn a_call_gives_the_values_and_gradients_of_its_statements() {
    for (call, written) in FORMS {
        let values = |statement: &str| {
            let small = source("X=1", statement).replace("B=16, T=64", "B=2, T=8");
            let program = program("attention", &small);
            let whole = unroll::program(&program, &|block| program.iterations(Some(block)));
            evaluate(&whole, &arrays(&whole, 7)).expect("all is declared")
        };
        let (one, other) = (values(call), values(written));
        for name in ["y", "dwq", "dwk", "dwv", "dwo"] {
            let pairs = one[name].iter().zip(&other[name]);
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 1e-9, "{call}: {name} {worst}");
        }
    }
}

#[test]
fn calls_are_right_on_devices() {
    for (call, _) in FORMS {
        checked_plans("attention", &source("X=2, Y=2", call), Sizes::Scaled);
    }
}

#[test]
fn positions_may_be_more_than_can_be_counted() {
    let source = "hardware tpu-v5p\nmesh X=2\ndim B=2, T=8, S=8589934592, P=S, H=4\n\
        input q[B, T, H], k[B, S, P, H], v[B, S, P, H]\no = attention(q, k, v)\n\
        output o[B, T, H]\n";
    let checked = shardwise::check("large", source, &Options::default());
    assert!(!checked.findings.has_errors(), "{}", checked.findings);
}

#[test]
fn queries_that_attend_to_heads_are_warned_of() {
    let warns = |call: &str, brackets: [&str; 2]| {
        let [q, k] = brackets;
        let source = format!(
            "hardware tpu-v5p\nmesh X=2\ndim B=8, T=64, S=T, N=8, M=8, K=2, G=4, H=16\n\
                input q[{q}], k[{k}], v[{k}]\no = {call}\noutput o[{q}]\n"
        );
        let checked = shardwise::check("heads", &source, &Options::default());
        assert!(!checked.findings.has_errors(), "{}", checked.findings);
        let mut codes = checked.findings.reports.iter().map(|report| report.diag.code);
        codes.any(|code| code == "SW118")
    };
    let (call, causal) = ("attention_H(q, k, v)", "attention_H(q, k, v, causal)");
    assert!(warns(causal, ["B, T, N, H", "B, T, K, H"]));
    assert!(warns(call, ["B, T, N, H", "B, S, K, H"]));
    assert!(warns(call, ["B, T, N, H", "B, S, M, H"]));
    for own in [["B, T, K, G, H", "B, S, K, H"], ["B, N, T, H", "B, N, S, H"]] {
        assert!(!warns(call, own) && !warns(causal, own), "{own:?}");
    }
}
