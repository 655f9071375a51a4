//! More of the numbers of the book's chapter on sharding, each as a test named by its id: hops,
//! latencies, adjoints, plans and what they cost, against `tests/facts/sharding.json`.
//! (`sharding.rs` has the others.)

use shardwise::json::PlanJson;
use shardwise::{Options, Pass, Planned, Refinement};
use shardwise_tests::facts::{holds, record};
use shardwise_tests::planning::{
    book, collectives, decode, evaluated, fires, moves, planned, reshard, runs_right, searched,
    seconds, textbook,
};
use shardwise_tests::{fact, read};

fn source(name: &str) -> String {
    read(&format!("tests/programs/book/{name}.shard"))
}

/// The plan written beside a program as its alternative.
fn other(name: &str) -> Planned {
    textbook(&read(&format!("tests/programs/book/alternatives/{name}.shard")))
}

/// What the gradient of a program is.
fn gradient(name: &str) -> Planned {
    planned(&read(&format!("tests/programs/training/{name}.shard")), &Options::default())
}

const LINE4: &str = "hardware tpu-v5e\nmesh X=4 line";

/// Seconds of a gather of so many bytes.
fn gathered(mesh: &str, bytes: u64) -> f64 {
    seconds(&format!("hardware tpu-v5e\nmesh {mesh}\ndim N={bytes}"), ": int8[N_X]", "[N]")
}

/// The bytes from which on that takes longer than its hops: the largest that take as long as the
/// fewest.
fn latency_edge(mesh: &str, devices: u64) -> f64 {
    let (mut low, mut high) = (1, 1 << 20);
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if gathered(mesh, devices * middle) > gathered(mesh, devices) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low as f64
}

/// The first strategy gathers the weight, the second slices the activations and adds up; seconds,
/// as the book times them.
struct Strategies {
    gather: f64,
    whole: f64,
    reduce: f64,
    sliced: f64,
}

const TOKENS: f64 = 1024.0;
const DEPTH: f64 = 8192.0;
const WAYS: f64 = 4.0;

fn strategies() -> Strategies {
    let times = |plan: &Planned| (plan.json().cost.comm_s, plan.json().cost.compute_s);
    let ((gather, whole), (reduce, sliced)) = (times(&book("p3-q4")), times(&other("p3-q4.2")));
    Strategies { gather, whole, reduce, sliced }
}

fn serial(plan: &Planned) -> f64 {
    plan.json().cost.serial_s
}

/// The one step of a reshard from a pending value.
fn reduced(to: &str) -> String {
    reshard("hardware tpu-v5p\nmesh X=4\ndim I=8192, K=8192", "[I, K] {U_X}", to, Refinement::Book)
        .kind
}

fact!(s3_pq0_load, "S3-PQ0-LOAD", |id| {
    // The chapter's H100 reads 3.4e12 bytes a second, the preset's 3.35e12.
    let source = "hardware h100\nmesh X=8, Y=2\ndim B=1, I=1024, J=4096\ninput x: f32[B, I_XY]\n\
        param A: f32[I_XY, J]\ny = x *I A\noutput y[B, J] \n";
    holds(id, &[decode(&searched(source), &[]).step.parameters_s * 3.35 / 3.4]);
});
fact!(s3_code_plan, "S3-CODE-PLAN", |_| assert_eq!(
    collectives(&book("p3-code")),
    ["AllGather_Y(A)"]
));
fact!(s3_intro, "S3-INTRO", |id| {
    let plans =
        [collectives(&book("p3-intro")).join("; "), collectives(&other("p3-intro.b")).join("; ")];
    assert_eq!(record(id)["value"], serde_json::json!(plans));
    // The operands are as large as the result: last is cheaper. With a short contraction it is
    // not.
    let moved = |source: &str| {
        moves(&searched(source).json()).iter().map(|step| step.value.clone()).collect::<Vec<_>>()
    };
    let whole = source("p3-intro");
    assert_eq!(
        [moved(&whole), moved(&whole.replace("J=8192", "J=64"))],
        [vec!["C"], vec!["A", "B"]]
    );
});
fact!(s3_ncag, "S3-NCAG", |_| {
    let (after, before) = (book("p3-ncag"), other("p3-ncag.before"));
    let flops = |plan: &Planned| plan.cost().device_flops;
    assert_eq!(
        [collectives(&after), collectives(&before)],
        [["AllGather_X(C)"], ["AllGather_X(A)"]]
    );
    assert!(
        (flops(&before) / flops(&after) - 4.0).abs() < 1e-9,
        "FLOPs are repeated on each of four"
    );
});
fact!(s3_ag_hops_uni, "S3-AG-HOPS-UNI", |id| holds(id, &[gathered("X=8 line", 8) / 1e-6]));
fact!(s3_ag_hops_bi, "S3-AG-HOPS-BI", |id| holds(id, &[gathered("X=8 ring", 8) / 1e-6]));
fact!(s3_thop, "S3-THOP", |_| {
    // Four hops: of a microsecond each, or of two blocks over both links.
    assert!((gathered("X=8 ring", 8) / 4.0 - 1e-6).abs() < 1e-15);
    assert!(
        (gathered("X=8 ring", 1 << 30) / 4.0 / (2.0 * f64::from(1 << 30) / (8.0 * 9e10)) - 1.0)
            .abs()
            < 1e-9
    );
});
fact!(s3_lat_45k, "S3-LAT-45K", |id| holds(id, &[latency_edge("X=2 line", 2)]));
fact!(s3_lint_lat, "S3-LINT-LAT", |id| holds(id, &[latency_edge("X=2 line", 2)]));
fact!(s3_meas_shard, "S3-MEAS-SHARD", |id| {
    let source = "hardware tpu-v5e\nmesh X=16\ndim N=10M\nparam A: int8[N_X]\n";
    holds(id, &[textbook(source).cost().parameters.device_bytes]);
});
// Measured on the machine: the price is that near.
fact!(s3_pq2_meas, "S3-PQ2-MEAS", |id| holds(
    id,
    &[seconds("hardware tpu-v5e\nmesh X=8, Y=4\ndim E=2048, F=8192", "[E_Y, F]", "[E, F]")]
));
fact!(s3_pq2_latbound, "S3-PQ2-LATBOUND", |id| holds(id, &[gathered("X=4 line", 4)]));
fact!(s3_pq2b_hop, "S3-PQ2B-HOP", |id| {
    // A thousand such blocks over one link, so that hops do not count.
    holds(id, &[gathered("X=2 line", 2 * 32_768_000) / 1000.0]);
});
fact!(s3_c3_ar, "S3-C3-AR", |id| {
    let plan = book("p3-ar-split");
    assert_eq!(collectives(&plan), ["AllReduce_Y(A)"]);
    assert!(plan.json().steps[0].text.starts_with(record(id)["value"].as_str().unwrap_or("?")));
});
fact!(s3_c3_rs, "S3-C3-RS", |id| {
    let (scattered, reduced) = (book("p3-c3-rs"), book("p3-c3"));
    assert!(
        scattered.json().steps[1].text.starts_with(record(id)["value"].as_str().unwrap_or("?"))
    );
    let comm = |plan: &Planned| plan.json().cost.comm_s;
    assert!((comm(&reduced) / comm(&scattered) - 2.0).abs() < 1e-9, "at half the cost");
});
fact!(s3_rs_dim, "S3-RS-DIM", |id| {
    let dims = record(id)["value"].as_array().cloned().unwrap_or_default();
    let kinds: Vec<String> =
        dims.iter().filter_map(|dim| dim.as_str()).map(|text| reduced(&text[1..])).collect();
    assert_eq!(kinds, ["reduce_scatter", "reduce_scatter"]);
});
fact!(s3_ar_split, "S3-AR-SPLIT", |_| {
    let (one, two) = (book("p3-ar-split"), other("p3-ar-split.two"));
    assert_eq!(collectives(&two), ["ReduceScatter_Y(A)", "AllGather_Y(A)"]);
    assert!((serial(&two) / serial(&one) - 1.0).abs() < 1e-9);
    runs_right(&two.to_string());
});
fact!(s3_a2a_nd, "S3-A2A-ND", |_| {
    for (mesh, devices, longest) in
        [("X=4, Y=4", 16.0, 4.0), ("X=8, Y=4", 32.0, 8.0), ("X=4, Y=16", 64.0, 16.0)]
    {
        let time = seconds(
            &format!("hardware tpu-v5p\nmesh {mesh}\ndim I=4096, J=4096"),
            "[I_XY, J]",
            "[I, J_XY]",
        );
        let formula = 4096.0 * 4096.0 * 2.0 * longest / (4.0 * devices * 1.8e11);
        assert!((time / formula - 1.0).abs() < 1e-9, "{mesh}");
    }
});
fact!(s3_adj_ag, "S3-ADJ-AG", |_| {
    let plan = gradient("written-gather");
    let wanted = ["AllGather_X(Whole)", "ReduceScatter_X(dW)"];
    assert_eq!(
        collectives(&plan).iter().map(|text| text.split('(').next()).collect::<Vec<_>>(),
        wanted.map(|text| text.split('(').next())
    );
    runs_right(&read("tests/programs/training/written-gather.shard"));
});
fact!(s3_adj_rs, "S3-ADJ-RS", |_| {
    let derived = shardwise::print_after(
        "fact",
        &read("tests/programs/training/written-scatter.shard"),
        &Options::default(),
        Pass::Gradient,
    );
    let text = derived.unwrap_or_else(|error| panic!("{error}"));
    assert!(text.contains("ReduceScatter_{X,D}(Sum"), "{text}");
    let moved = collectives(&gradient("written-scatter"));
    assert!(
        moved[0].starts_with("ReduceScatter_X") && moved[1].starts_with("AllGather_X(dOut")
            || moved[1].starts_with("AllGather_X(d"),
        "{moved:?}"
    );
});
fact!(s3_adj_a2a, "S3-ADJ-A2A", |_| {
    let moved = collectives(&gradient("written-all-to-all"));
    assert_eq!(
        moved.iter().filter(|text| text.starts_with("AllToAll_X")).count(),
        2,
        "there and back: {moved:?}"
    );
    runs_right(&read("tests/programs/training/written-all-to-all.shard"));
});
fact!(s3_adj_kron, "S3-ADJ-KRON", |id| {
    // Three devices with two elements each, and with all six.
    let held = |brackets: &str| {
        let cost =
            textbook(&format!("hardware tpu-v5e\nmesh X=3\ndim N=6\nparam A: int8{brackets}\n"))
                .cost();
        cost.parameters.device_bytes * cost.devices as f64
    };
    holds(id, &[held("[N_X]"), held("[N]")]);
    runs_right("hardware tpu-v5e\nmesh X=3\ndim N=6\ninput A[N_X]\noutput A[N]\n");
});
fact!(s3_adj_ex1, "S3-ADJ-EX1", |id| {
    let source = "hardware tpu-v5e\nmesh X=2\ndim N=1, P=2\ninput x[N]\ny = broadcast_P(x)\n\
        output y[N, P_X]\n";
    holds(id, &evaluated(source, &[("x", &[7.0])])["y"]);
    runs_right(source);
});
fact!(s3_adj_ex2, "S3-ADJ-EX2", |id| {
    let source = "hardware tpu-v5e\nmesh X=2\ndim N=1, P=2\ninput x[N, P_X]\ny = sum_P(x)\n\
        output y[N]\n";
    holds(id, &evaluated(source, &[("x", &[8.0, 9.0])])["y"]);
    assert_eq!(collectives(&textbook(source)), ["AllReduce_X(y)"]);
    runs_right(source);
});
fact!(s3_overlap, "S3-OVERLAP", |_| {
    for name in ["p3-q7", "p5-mixed", "p5-tp"] {
        let PlanJson { cost, mesh, .. } = book(name).json();
        let links = mesh.iter().map(|axis| axis.busy_s).fold(0.0, f64::max);
        assert!((cost.overlap_s - cost.compute_s.max(links)).abs() < 1e-15, "{name}");
    }
});
fact!(s3_x_a2a_odd, "S3-X-A2A-ODD", |id| {
    let head = "hardware tpu-v5p\nmesh X=5 ring\ndim I=5000, J=5000";
    holds(
        id,
        &[reshard(head, "[I_X, J]", "[I, J_X]", Refinement::Exact).time_s
            / (5000.0 * 5000.0 * 2.0 / 1.8e11)],
    );
});
fact!(s3_q2b_lat, "S3-Q2B-LAT", |id| holds(
    id,
    &[seconds("hardware tpu-v4p\nmesh X=4, Y=4, Z=4\ndim B=16", "[B_XY]", "[B]")]
));

fact!(s3_q4_s1, "S3-Q4-S1", |_| {
    let Strategies { gather, whole, .. } = strategies();
    let overlap_s = book("p3-q4").json().cost.overlap_s;
    assert!((overlap_s - gather.max(whole)).abs() < 1e-15);
    assert!((whole / (2.0 * TOKENS * DEPTH * 32768.0 / 4.59e14) - 1.0).abs() < 1e-9);
    assert!((gather / (2.0 * DEPTH * 32768.0 / 1.8e11) - 1.0).abs() < 1e-9);
});
fact!(s3_q4_s2, "S3-Q4-S2", |_| {
    let Strategies { reduce, sliced, .. } = strategies();
    assert!((sliced / (2.0 * TOKENS * DEPTH * 32768.0 / (WAYS * 4.59e14)) - 1.0).abs() < 1e-9);
    assert!((reduce / (4.0 * TOKENS * 32768.0 / 1.8e11) - 1.0).abs() < 1e-9);
});
fact!(s3_q4_alpha, "S3-Q4-ALPHA", |id| holds(
    id,
    &[TOKENS * strategies().gather / strategies().whole]
));
fact!(s3_q4_s1cb, "S3-Q4-S1CB", |id| {
    let threshold = book("p3-q4").threshold("B").expect("a dimension");
    holds(id, &[threshold.crossovers[0].size]);
});
fact!(s3_q4_s2cb, "S3-Q4-S2CB", |id| holds(
    id,
    &[WAYS * strategies().sliced / strategies().reduce]
));
fact!(s3_q4_small, "S3-Q4-SMALL", |id| holds(
    id,
    &[(DEPTH / TOKENS) * strategies().reduce / strategies().gather]
));
fact!(s3_q4_large, "S3-Q4-LARGE", |id| holds(
    id,
    &[DEPTH * strategies().reduce / strategies().whole]
));
fact!(s3_q5_tie, "S3-Q5-TIE", |id| {
    let overlap = |name: &str| book(name).json().cost.overlap_s;
    assert_eq!(record(id)["value"], serde_json::json!(["P3-Q5-1", "P3-Q5-2"]));
    let [first, second, third, fourth] = ["p3-q5-1", "p3-q5-2", "p3-q5-3", "p3-q5-4"].map(overlap);
    assert!((first / second - 1.0).abs() < 1e-12 && first < third && first < fourth);
});
fact!(s3_q5_x14, "S3-Q5-X14", |id| {
    let (first, fourth) =
        (book("p3-q5-1").json().cost.comm_s, book("p3-q5-4").json().cost.compute_s);
    holds(id, &[8192.0 * first / fourth]);
});
fact!(s3_q6a, "S3-Q6A", |_| {
    let plan = book("p3-q6a");
    assert_eq!(collectives(&plan), ["AllReduce_Y(C)"]);
    let cost = plan.json().cost;
    let product = 2.0 * 8192_f64.powi(3) / (16.0 * 1.97e14);
    let moved = 2.0 * 0.75 * 2.0 * 8192_f64.powi(2) / (4.0 * 4.5e10);
    assert!(
        (cost.comm_s / moved - 1.0).abs() < 1e-9 && (cost.compute_s / product - 1.0).abs() < 1e-9
    );
});
fact!(s3_q6b, "S3-Q6B", |_| {
    let plan = book("p3-q6b");
    assert_eq!(collectives(&plan), ["AllGather_X(B)"]);
    assert!(
        (plan.json().cost.comm_s / (0.75 * 2.0 * 8192_f64.powi(2) / (4.0 * 4.5e10)) - 1.0).abs()
            < 1e-9
    );
});
fact!(s3_q6c, "S3-Q6C", |_| assert_eq!(collectives(&book("p3-q6c")), Vec::<String>::new()));
fact!(s3_q7_plan, "S3-Q7-PLAN", |_| assert_eq!(
    collectives(&book("p3-q7")),
    ["AllGather_XY(In)", "ReduceScatter_XY(Out)"]
));
fact!(s3_q9_idx, "S3-Q9-IDX", |id| {
    // A device's block of M over four devices is its row of M cut into four: the cut is local.
    let source = "hardware tpu-v5e\nmesh X=4\ndim P=4, Q=4, M=P*Q\ninput x[M_X]\n\
        y = position_M(x)\nz[P_X, Q] = reshape(y)\noutput z[P_X, Q]\n";
    holds(id, &evaluated(source, &[("x", &[0.0; 16])])["z"]);
    assert!(moves(&textbook(source).json()).is_empty());
});
fact!(s3_q9_rs, "S3-Q9-RS", |id| {
    let dims = record(id)["value"].as_array().cloned().unwrap_or_default();
    for to in dims.iter().filter_map(|dim| dim.as_str()) {
        let head = "hardware tpu-v5p\nmesh X=4\ndim N=8192, K=8192";
        assert_eq!(
            reshard(head, "[N, K] {U_X}", &to[1..], Refinement::Book).kind,
            "reduce_scatter"
        );
    }
});
fact!(s3_q10_ag, "S3-Q10-AG", |id| {
    // A line is a ring used one way: everything passes over its last link.
    let head = format!("{LINE4}\ndim N=4096, M=4096");
    holds(id, &[seconds(&head, "[N_X, M]", "[N, M]") * 4.5e10 / 2.0 / 4096_f64.powi(2)]);
});
fact!(s3_q10_bi_ag, "S3-Q10-BI-AG", |id| {
    let time = |mesh: &str| {
        let head = format!("hardware tpu-v5e\nmesh {mesh}\ndim N=4096, M=4096");
        reshard(&head, "[N_X, M]", "[N, M]", Refinement::Exact).time_s
    };
    holds(id, &[time("X=4 line") / time("X=4 ring")]);
});
fact!(s3_q10_total, "S3-Q10-TOTAL", |id| {
    let head = "hardware tpu-v5e\nmesh X=4 ring\ndim N=4096, M=4096";
    holds(id, &[seconds(head, "[N_X, M]", "[N, M_X]") / seconds(head, "[N_X, M]", "[N, M]")]);
});

fact!(s3_lint_rs, "S3-LINT-RS", |_| {
    let source = "plan\nhardware tpu-v5p\nmesh X=4\ndim B=64, D=64, F=64\ninput In[B, F_X]\n\
        param W[F_X, D]\nSum[B, D] {U_X} = In[B, F_X] *F W[F_X, D]\n\
        Sum[B, D] = AllReduce_X(Sum[B, D] {U_X})\nSum[B, D_X] = Slice_X(Sum[B, D])\n\
        output Sum[B, D_X]\n";
    fires(source, "SW302");
});
fact!(s3_lint_wrap, "S3-LINT-WRAP", |id| {
    let time = |mesh: &str| {
        seconds(&format!("hardware tpu-v5e\nmesh {mesh}\ndim I=4096, J=4096"), "[I_X, J]", "[I, J]")
    };
    holds(id, &[time("X=4 line") / time("X=4 ring")]);
});
fact!(s3_lint_gatherlate, "S3-LINT-GATHERLATE", |_| {
    // The book's own plan gathers what its brackets gather first; the search gathers after the
    // product.
    assert_eq!(collectives(&searched(&source("p3-ncag"))), ["AllGather_X(C)"]);
    let early = "hardware tpu-v5p\nmesh X=4\ndim I=8192, J=8192, K=8192\ninput A[I_X, J], B[J, K]\n\
        C[I, K] = A[I, J] *J B\noutput C[I, K]\n";
    fires(early, "SW301");
});
