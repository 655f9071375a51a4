//! Rows that are looked up, added up and overwritten: their communication, memory, time and values.

use shardwise::verify::{Setup, evaluate, verify};
use shardwise::{Options, Planned, Strategy};
use shardwise_tests::planning::collectives;

const STRATEGIES: [Strategy; 2] = [Strategy::Textbook, Strategy::Search];

/// A decode step whose cache is split along the sequence; what follows the updates, and what ends
/// the step.
fn decode(middle: &str, end: &str) -> String {
    format!(
        "hardware tpu-v5e\nmesh Z=4, Y=2\ndim B=2, S=131072, H=256, K=8, M=4\n\
            input Q[B, K_Y, M, H], k[B, K_Y, H], v[B, K_Y, H], at: int32[B]\n\
            state Kc[B, S_Z, K_Y, H], Vc[B, S_Z, K_Y, H]\nKn = update_S(Kc, at, k)\n\
            Vn = update_S(Vc, at, v)\n{middle}L = Q *H Kn\n\
            P = softmax_S(select(less_equal(position_S(L), at), L, -1e9))\nA = P *S Vn\n{end}\n\
            output A[B, K_Y, M, H]\n"
    )
}

const YIELDED: &str = "next Kc = Kn\nnext Vc = Vn";
/// Bytes of a device's part of both caches.
const CACHES: f64 = 2.0 * 2.0 * 131_072.0 * 8.0 * 256.0 * 2.0 / 8.0;

fn planned(source: &str, strategy: Strategy) -> Planned {
    let options = Options { strategy, ..Options::default() };
    shardwise::plan("tables", source, &options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn is_right(source: &str) {
    for seed in 1..4 {
        let setup = Setup { seed, ..Setup::default() };
        let verdict = verify("tables", source, &Options::default(), &setup)
            .unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert!(verdict.mismatch.is_none(), "{verdict}\n{source}");
    }
}

/// Seconds of the statements that begin so.
fn seconds(planned: &Planned, start: &str) -> f64 {
    planned
        .cost()
        .statements
        .iter()
        .filter(|statement| statement.text.starts_with(start))
        .map(|statement| statement.time_s)
        .sum()
}

/// Bytes beside what is resident.
fn live(planned: &Planned) -> f64 {
    let memory = planned.json().memory;
    (memory.peak_bytes - memory.resident_bytes) as f64
}

#[test]
fn a_cache_split_along_the_sequence_is_updated_where_it_is() {
    let source = decode("", YIELDED);
    is_right(&source);
    for strategy in STRATEGIES {
        let planned = planned(&source, strategy);
        let moved = planned.json().steps.into_iter().filter(|step| !step.axes.is_empty());
        let moved: Vec<String> = moved.map(|step| step.value).collect();
        assert!(
            moved.iter().all(|value| !["Kc", "Vc", "Kn", "Vn"].contains(&value.as_str())),
            "{moved:?}"
        );
        assert!(
            planned
                .to_string()
                .contains("Kn[B, S_Z, K_Y, H] = update_S(Kc[B, S_Z, K_Y, H], at[B], k[B, K_Y, H])"),
            "{planned}"
        );
        assert!(live(&planned) < CACHES / 8.0, "in place: {planned}");
        // A row is read and written: less than a microsecond.
        assert!(seconds(&planned, "Kn[") < 1e-6, "{planned}");
    }
}

#[test]
fn a_cache_that_is_still_read_is_copied() {
    let row = seconds(&planned(&decode("", YIELDED), Strategy::Search), "Kn[");
    let old = "O = Q *H Kc\nZ = sum_{S,M}(O)\noutput Z[B, K_Y]\n";
    for source in [decode(old, YIELDED), decode("", "")] {
        is_right(&source);
        let planned = planned(&source, Strategy::Search);
        assert!(live(&planned) >= CACHES / 2.0, "{planned}");
        let copied = seconds(&planned, "Kn[") - row;
        assert!(
            (copied * 8.1e11 / CACHES - 1.0).abs() < 1e-9,
            "one cache is read and written: {copied}"
        );
    }
}

/// Several rows with one place: the last counts. A place that there is not: the row is dropped.
/// Indices may be given per sequence, or once for all.
#[test]
fn rows_are_written_one_after_another() {
    let of = |dims: &str, declared: &str, at: &[f64], rows: &[f64]| {
        let source = format!(
            "hardware tpu-v5p\nmesh X=1\ndim {dims}\ninput {declared}\nA = update_S(C, at, New)\n\
                output A[B, S]\n"
        );
        let program =
            shardwise::check("update", &source, &Options::default()).program.expect("it resolves");
        let cache = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let given = [("C", cache), ("at", at.to_vec()), ("New", rows.to_vec())];
        evaluate(&program, &given.into_iter().map(|(name, data)| (name.to_owned(), data)).collect())
            .expect("all is given")["A"]
            .clone()
    };
    let sizes = "B=2, S=3, T=2";
    let each = of(sizes, "C[B, S], at: int32[B], New[B]", &[2.0, 0.0], &[8.0, 9.0]);
    assert_eq!(each, [1.0, 2.0, 8.0, 9.0, 5.0, 6.0]);
    let once = of(sizes, "C[B, S], at: int32[], New[B]", &[1.0], &[8.0, 9.0]);
    assert_eq!(once, [1.0, 8.0, 3.0, 4.0, 9.0, 6.0]);
    let several = of(
        sizes,
        "C[B, S], at: int32[B, T], New[B, T]",
        &[1.0, 1.0, 0.0, 3.0],
        &[7.0, 8.0, 9.0, 10.0],
    );
    assert_eq!(several, [1.0, 8.0, 3.0, 9.0, 5.0, 6.0]);
}

#[test]
fn rows_are_split_as_the_cache_is_but_not_along_one_another() {
    let source = "hardware tpu-v5p\nmesh X=2, Y=2\ndim B=4, S=8, T=4, H=4\n\
        input at: int32[B, T], New[B_X, T_Y, H]\nstate C[B_X, S_Y, H]\nD = update_S(C, at, New)\n\
        next C = D\n";
    is_right(source);
    let plan = planned(source, Strategy::Search).to_string();
    assert!(
        plan.contains("D[B_X, S_Y, H] = update_S(C[B_X, S_Y, H], at[B_X, T], New[B_X, T, H])"),
        "{plan}"
    );
    let wrong = "plan\nhardware tpu-v5p\nmesh Y=2\ndim S=8, T=4\n\
        input C[S], at: int32[T_Y], New[T_Y]\nD[S] = update_S(C[S], at[T_Y], New[T_Y])\n\
        output D[S]\n";
    let findings = shardwise::check("wrong", wrong, &Options::default());
    assert!(
        findings.findings.reports.iter().any(|report| report.diag.code == "SW212"),
        "{}",
        findings.findings
    );
}

/// The gradient of a table is laid out like it, without any of its elements.
#[test]
fn a_gradient_needs_no_copy_of_the_table() {
    let source = "hardware tpu-v5p\nmesh X=4, Y=4\ndim B=64, T=512, V=32000, D=4096\n\
        input ids: int32[B_X, T], dx[B_X, T_Y, D]\nparam E[V_Y, D_X]\n\
        x[B_X, T_Y, D] = take_V(E, ids)\nbackward from x given dx\noutput dE[V_Y, D_X]\n";
    is_right(source);
    for strategy in STRATEGIES {
        let planned = planned(source, strategy);
        let plan = planned.to_string();
        let put = plan.lines().find(|line| line.contains("put_V")).expect("rows are added up");
        assert!(put.contains("E[V_Y, D_X])"), "{put}");
        let gathers = planned
            .json()
            .steps
            .into_iter()
            .filter(|step| !step.axes.is_empty() && step.value == "E")
            .count();
        assert!(gathers <= 1, "for the rows that are looked up: {plan}");
        let again = shardwise::plan("again", &plan, &Options::default())
            .unwrap_or_else(|e| panic!("{e}\n{plan}"));
        assert_eq!(again.to_string(), plan);
    }
}

/// Adding rows up is linear in them: few places are reduced rather than many rows, and gradients of
/// microbatches are sums of their parts.
#[test]
fn rows_may_be_pending_sums() {
    let source = "hardware tpu-v5e\nmesh X=2, Y=4\ndim B=4096, D=256, K=4096, M=8\n\
        input x[B, K_Y], Ids: int32[B], like[M, D]\nparam w[K_Y, D]\n\
        y[M, D] = put_M(x *K w, Ids, like)\noutput y[M, D]\n";
    let small = source.replace("4096", "8").replace("256", "8");
    is_right(&small);
    let plan = planned(source, Strategy::Search);
    assert_eq!(collectives(&plan), ["AllReduce_XY(y)"], "{plan}");
    let parts = "hardware tpu-v5e\nmesh X=2, Y=4\ndim B=64, V=128, R=32, D=64\n\
        input x[B_X, R], dy[B_X, D], ids: int32[R]\nparam E[V, D_Y]\ny = x *R take_V(E, ids)\n\
        backward from y given dy, microbatches=4 of B\noutput dE[V, D_Y]\n";
    is_right(parts);
    let plan = planned(parts, Strategy::Search).to_string();
    assert!(plan.contains("put_V(") && plan.contains("{U_X}, ids"), "{plan}");
}

#[test]
fn gather_and_scatter_add_are_take_and_put() {
    let source = "hardware h100\nmesh X=2, Y=4\ndim B=8, T=4, V=32, C=16\n\
        input Ids: int32[B_X, T], Like[V_Y, C]\nparam E[V_Y, C]\nX = take_V(E, Ids)\n\
        Sums = put_V(X, Ids, Like)\noutput Sums[V_Y, C]\n";
    let synonyms = source.replace("take_V", "gather_V").replace("put_V(", "scatter_add_V(");
    assert_ne!(source, synonyms);
    is_right(&synonyms);
    for strategy in STRATEGIES {
        let [canonical, other] = [source, &synonyms].map(|source| planned(source, strategy));
        assert_eq!(canonical.to_string(), other.to_string());
    }
    assert_eq!(shardwise::format("synonyms", &synonyms).expect("it parses"), synonyms);
}

#[test]
fn mistakes_in_calls_by_another_name_are_reported_by_either() {
    let declared = "mesh X=2\ndim B=8, V=32, C=16\ninput Ids: int32[B], E[V, C], R[B, C]\n";
    let wrong = [
        ("gather(E, Ids)", "`gather_V(Table, Ids)`"),
        ("scatter_add(R, Ids, E)", "`scatter_add_V(Rows, Ids, Like)`"),
        ("scatter_add_W(R, Ids, E)", "`W`"),
        ("scatter_V(R, Ids, E)", "`scatter` is not a known function"),
    ];
    for (call, wanted) in wrong {
        let source = format!("{declared}Y = {call}\noutput Y\n");
        let errors = shardwise::plan("wrong", &source, &Options::default()).expect_err(call);
        assert!(errors.to_string().contains(wanted), "{call}: {errors}");
    }
}
