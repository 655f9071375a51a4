//! The numbers of the texts on tensor parallelism, on TPUs and on rooflines, each as a test named
//! by its id, against `tests/facts/tp-blog.json`, `tpus.json` and `roofline.json`.

use shardwise::{Hardware, Options, Planned};
use shardwise_tests::facts::holds;
use shardwise_tests::planning::{
    book, collectives, decode, evaluated, findings, fires, moves, refused, runs_right, searched,
    seconds, textbook,
};
use shardwise_tests::{fact, read};

fn source(name: &str) -> String {
    read(&format!("tests/programs/book/{name}.shard"))
}

fn count(plan: &Planned, kind: &str) -> f64 {
    collectives(plan).iter().filter(|text| text.starts_with(kind)).count() as f64
}

fn gives(plan: &Planned, text: &str) {
    assert!(
        plan.json().steps.iter().any(|step| step.text.starts_with(&format!("{text} ="))),
        "{text}\n{plan}"
    );
}

/// A layer of attention and MLP as the blog splits it, without what stays whole.
fn layer(tail: &str) -> String {
    format!(
        "hardware h100\nmesh Y=8\ndim B=4, T=2048, S=2048, C=8192, F=32768, N=64, H=128\n\
            input x[B, T, C], dy[B, T, C]\n\
            param WQ[C, N_Y, H], WO[N_Y, H, C], W1[C, F_Y], W2[F_Y, C]\nQ = x *C WQ\n\
            z = Q *N,H WO\nh = gelu(z *C W1)\ny = h *F W2\n{tail}"
    )
}

fn chip(name: &str) -> Hardware {
    Hardware::preset(name).expect("a preset")
}

fn chips(name: &str) -> f64 {
    chip(name).pod.iter().map(|&edge| edge as f64).product()
}

/// Which axes of a slice wrap.
fn wraps(hardware: &str, mesh: &str) -> Vec<bool> {
    let plan = textbook(&format!("hardware {hardware}\nmesh {mesh}\ndim D=64\nparam W[D]\n"));
    plan.json().mesh.iter().map(|axis| axis.kind == "ring").collect()
}

/// The rows at which a product of int8 changes sides, all its bytes counted, with memory so many
/// times as fast.
fn rows(faster: f64) -> f64 {
    let excess = |rows: u64| {
        let source = format!(
            "hardware tpu-v5e\nmesh Y=1\ndim B={rows}, D=4096, F=16384\ninput x: int8[B, D]\n\
                param w: int8[D, F]\ny = x *D w\noutput y[B, F]\n"
        );
        let statement = textbook(&source).cost().statements[0].clone();
        statement.flops / 3.94e14 - statement.bytes / (faster * 8.1e11)
    };
    let low =
        (1..1024).rev().find(|&rows| excess(rows) < 0.0).expect("few rows are bound by memory");
    let (below, above) = (excess(low), excess(low + 1));
    low as f64 + below / (below - above)
}

/// From how many rows on a product is bound by FLOPs, its weight alone counted.
fn critical(hardware: &str, activations: &str, weights: &str) -> f64 {
    let source = format!(
        "hardware {hardware}\nmesh Y=1\ndim B=8, D=8192, F=8192\ninput x: {activations}[B, D]\n\
            param w: {weights}[D, F]\ny = x *D w\noutput y[B, F]\n"
    );
    decode(&textbook(&source), &[]).critical.expect("it turns").batch
}

/// A product over two chips with its contraction split: seconds of compute, and of sending partial
/// sums.
fn two_chips() -> (f64, f64) {
    let source = "hardware tpu-v5e\nmesh X=2 line\ndim B=4096, D=8192, F=16384\ninput x[B, D_X]\n\
        param w[D_X, F]\ny = x *D w\noutput y[B, F]\n";
    let cost = textbook(source).json().cost;
    (cost.compute_s, cost.comm_s)
}

const BDF: f64 = 4096.0 * 8192.0 * 16384.0;

fact!(tb_col, "TB-COL", |_| {
    gives(&book("b-col"), "y[B, F_Y]");
    assert!(collectives(&book("b-col")).is_empty());
});
fact!(tb_row, "TB-ROW", |_| gives(&book("b-row"), "y[B, F] {U_Y}"));
fact!(tb_gelu, "TB-GELU", |_| refused(&read("tests/programs/errors/b-mlp-row.shard"), "SW207"));
fact!(tb_gelu_ex, "TB-GELU-EX", |id| {
    // The exact function, by its definition: `gelu` itself is the usual approximation by tanh.
    let gelu = |x: &str| format!("0.5 * {x} * (1.0 + erf({x} * 0.7071067811865476))");
    let source = format!(
        "hardware h100\nmesh Y=2\ndim N=1\ninput p[N], q[N]\ns = p + q\nwhole = {}\n\
            parts = {} + {}\noutput whole[N], parts[N]\n",
        gelu("s"),
        gelu("p"),
        gelu("q")
    );
    let of = |name| evaluated(&source, &[("p", &[1.0]), ("q", &[1.0])])[name][0];
    holds(id, &[of("whole"), of("parts")]);
});
fact!(tb_mlp, "TB-MLP", |id| holds(id, &[count(&book("b-mlp"), "AllReduce")]));
fact!(tb_mlp_naive, "TB-MLP-NAIVE", |id| holds(id, &[count(&book("b-mlp-row"), "All")]));
fact!(tb_attn, "TB-ATTN", |id| holds(id, &[count(&book("b-attn"), "AllReduce")]));
fact!(tb_heads, "TB-HEADS", |_| refused(&read("tests/programs/errors/b-attn.shard"), "SW202"));
fact!(tb_softmax, "TB-SOFTMAX", |_| {
    let source = "plan\nhardware h100\nmesh Y=8\ndim B=4, T=64, S=64, N=8\ninput O[B, T, S_Y, N]\n\
        P[B, T, S_Y, N] = softmax_S(O[B, T, S_Y, N])\noutput P[B, T, S_Y, N]\n";
    refused(source, "SW212");
});
fact!(tb_fg, "TB-FG", |_| {
    // g stands in the forward part; f is what the gradient has in its place.
    let plan = textbook(&read("tests/programs/training/b-layer-bwd.shard"));
    assert_eq!(collectives(&plan), ["AllReduce_Y(y2)", "AllReduce_Y(dx)"]);
});
fact!(tb_dx, "TB-DX", |_| gives(&book("b-layer-bwd"), "dx[B, D] {U_Y}"));
fact!(tb_count_f, "TB-COUNT-F", |id| {
    let plan = textbook(&layer("output y[B, T, C]\n"));
    assert_eq!(collectives(&plan).len(), 2);
    holds(id, &[count(&plan, "AllReduce")]);
});
fact!(tb_count_b, "TB-COUNT-B", |id| {
    let whole = textbook(&layer("backward from y given dy\noutput y[B, T, C], dx[B, T, C]\n"));
    let forward = textbook(&layer("output y[B, T, C]\n"));
    holds(id, &[count(&whole, "AllReduce") - count(&forward, "AllReduce")]);
});
fact!(tb_count_eq, "TB-COUNT-EQ", |id| {
    let json = book("b-mlp").json();
    holds(id, &[2.0 * moves(&json)[0].local_bytes as f64 / (4096.0 * 8192.0)]);
});
fact!(tb_emb, "TB-EMB", |_| assert_eq!(collectives(&book("b-emb")), ["AllReduce_Y(X)"]));
fact!(tb_emb_shard, "TB-EMB-SHARD", |id| {
    let source = "hardware h100\nmesh Y=8\ndim V=102400, C=8192\nparam E: int8[V_Y, C]\n";
    holds(id, &[textbook(source).cost().parameters.device_bytes / 8192.0]);
});
fact!(tb_emb_mask, "TB-EMB-MASK", |_| {
    runs_right(&source("b-emb"));
    let source = "hardware h100\nmesh Y=1\ndim B=3, V=2, C=1\ninput Ids: int32[B]\nparam E[V, C]\n\
        X = take_V(E, Ids)\noutput X[B, C]\n";
    let rows = evaluated(source, &[("E", &[5.0, 7.0]), ("Ids", &[1.0, 2.0, -1.0])])["X"].clone();
    assert_eq!(rows, [7.0, 0.0, 0.0], "what is out of range is zero");
});
fact!(tb_tied, "TB-TIED", |_| {
    assert!(collectives(&book("b-tied")).iter().all(|text| !text.contains("(dE")));
    gives(&book("b-tied"), "dE[V_Y, C]");
});
fact!(tb_logits, "TB-LOGITS", |id| holds(id, &[gathered_logits() / (4.0 * 2048.0 * 102_400.0)]));
fact!(tb_loss, "TB-LOSS", |_| {
    let source = "hardware h100\nmesh Y=8\ndim B=8192, D=8192, V=131072\ninput In[B, D]\n\
        param Wv[D, V_Y]\nLogits[B, V] = In *D Wv\nE = exp(Logits)\nZ = sum_V(E)\noutput Z[B]\n";
    fires(source, "SW306");
    assert_eq!(
        collectives(&book("b-loss")).iter().filter(|text| !text.starts_with("AllReduce")).count(),
        0
    );
});
fact!(tb_loss_x, "TB-LOSS-X", |id| {
    let json = book("b-loss").json();
    let tokens: f64 = moves(&json).iter().map(|step| step.local_bytes as f64 / 2.0).sum();
    holds(id, &[gathered_logits() / tokens]);
});
fact!(tb_loss_bwd, "TB-LOSS-BWD", |_| assert_eq!(
    collectives(&book("b-tied")),
    ["AllReduce_Y(dXl)"]
));
fact!(tb_node, "TB-NODE", |_| {
    let source = "hardware h100\nmesh P=4 dcn, Y=8\ndim B=8192, D=8192, F=32768\ninput In[B_Y, D]\n\
        param Win[D, F_P], Wout[F_P, D]\nTmp = In *D Win\nOut = Tmp *F Wout\noutput Out[B_Y, D]\n";
    fires(source, "SW309");
    assert!(
        !findings(&source.replace("_P", "_Q").replace("_Y", "_P").replace("_Q", "_Y"))
            .contains(&"SW309")
    );
});
fact!(tb_zero3, "TB-ZERO3", |id| {
    let comm = |name: &str| {
        textbook(&read(&format!("tests/programs/training/{name}.shard"))).json().cost.comm_s
    };
    holds(id, &[comm("p5-fsdp") / comm("p5-dp")]);
});
fact!(tb_ring, "TB-RING", |_| {
    let time = |ways: u64, bytes: u64| {
        seconds(
            &format!("hardware tpu-v5p\nmesh X={ways} ring\ndim N={bytes}"),
            ": int8[N_X]",
            "[N]",
        )
    };
    for ways in [16, 32, 64] {
        assert!(
            (time(ways, ways) / time(8, 8) - ways as f64 / 8.0).abs() < 1e-9,
            "latency grows with the ring"
        );
        assert!((time(ways, 1 << 32) / time(8, 1 << 32) - 1.0).abs() < 1e-9, "volume does not");
    }
});
fact!(tb_1024, "TB-1024", |id| {
    holds(id, &[ways_left(1024, 16)]);
    let planned = textbook(
        "hardware h100\nmesh X=64, Y=16\ndim B=8192, F=32768\ninput Tmp[B_X, F_Y]\n\
            Act = gelu(Tmp)\noutput Act[B_X, F_Y]\n",
    );
    let nodes = planned.json().mesh[1].nodes.as_ref().map(|nodes| (nodes.inside, nodes.nodes));
    assert_eq!(nodes, Some((8, 2)), "two nodes of 8 per tensor group");
});
fact!(tb_256, "TB-256", |id| holds(id, &[ways_left(256, 8)]));

// The text's v4p reads 1230 GB/s, the preset's, as its table, 1200.
fact!(h2_q1, "H2-Q1", |id| {
    let source = "hardware tpu-v4p\nmesh X=32\ndim B=1, D=200k, F=1M\ninput x[B, D]\n\
        param w[D, F_X]\ny = x *D w\noutput y[B, F_X]\n";
    holds(id, &[decode(&textbook(source), &[]).step.parameters_s * 1200.0 / 1230.0]);
});
fact!(h2_q2_flops5e, "H2-Q2-FLOPS5E", |id| holds(
    id,
    &[chips("tpu-v5e") * chip("tpu-v5e").bf16_flops.expect("it is known")]
));
fact!(h2_q2_chips5p, "H2-Q2-CHIPS5P", |id| holds(id, &[chips("tpu-v5p")]));
fact!(h2_q2_flops5p, "H2-Q2-FLOPS5P", |id| holds(
    id,
    &[chips("tpu-v5p") * chip("tpu-v5p").bf16_flops.expect("it is known")]
));
fact!(h2_q2_hbm5p, "H2-Q2-HBM5P", |id| holds(
    id,
    &[chips("tpu-v5p") * chip("tpu-v5p").hbm_bytes.expect("it is known")]
));
fact!(h2_q2_hbm5e, "H2-Q2-HBM5E", |id| holds(
    id,
    &[chips("tpu-v5e") * chip("tpu-v5e").hbm_bytes.expect("it is known")]
));
fact!(h2_q4, "H2-Q4", |id| holds(id, &[rows(1.0)]));
fact!(h2_q4_vmem, "H2-Q4-VMEM", |id| holds(id, &[rows(22.0)]));
fact!(h2_q5_bytes, "H2-Q5-BYTES", |id| holds(
    id,
    &[textbook("hardware tpu-v5e\nmesh X=1\ndim A=8, B=128, D=8192\nparam W[A, B, D]\n")
        .cost()
        .parameters
        .bytes]
));
fact!(h2_q5_hops, "H2-Q5-HOPS", |id| {
    // The furthest block of a gather over both axes goes from corner to corner.
    holds(
        id,
        &[seconds("hardware tpu-v5e\nmesh X=4, Y=4\ndim N=16", ": int8[N_XY]", "[N]") / 1e-6],
    );
});
fact!(h2_q6_ici, "H2-Q6-ICI", |id| {
    // A corner has two links, and gets what the other fifteen hold.
    holds(id, &[seconds("hardware tpu-v5e\nmesh X=4, Y=4\ndim N=16G", ": int8[N_XY]", "[N]")]);
});
fact!(h2_q6_hbm, "H2-Q6-HBM", |id| {
    let source = "hardware tpu-v5e\nmesh X=1\ndim B=1, D=16k, F=1M\ninput x: int8[B, D]\n\
        param w: int8[D, F]\ny = x *D w\noutput y[B, F]\n";
    holds(id, &[decode(&textbook(source), &[]).step.parameters_s]);
});
fact!(h2_wrap_e, "H2-WRAP-E", |_| assert_eq!(wraps("tpu-v5e", "X=8, Y=16"), [false, true]));
fact!(h2_wrap_p, "H2-WRAP-P", |_| assert_eq!(
    wraps("tpu-v5p", "X=2, Y=2, Z=4"),
    [false, false, false]
));
fact!(h2_wrap_p2, "H2-WRAP-P2", |_| assert_eq!(
    wraps("tpu-v5p", "X=4, Y=4, Z=8"),
    [true, true, true]
));
fact!(h2_pad, "H2-PAD", |_| {
    let source = |wide: u64| {
        format!(
            "hardware tpu-v5e\nmesh X=16\ndim B=4096, D=8192, F={wide}\ninput x[B, D]\n\
                param w[D, F_X]\ny = x *D w\noutput y[B, F_X]\n"
        )
    };
    fires(&source(16 * 64), "SW322");
    assert!(!findings(&source(16 * 128)).contains(&"SW322"));
});

fact!(r1_dot, "R1-DOT", |id| {
    let source =
        "hardware tpu-v5e\nmesh X=1\ndim N=1Mi\ninput x[N], y[N]\nz = x *N y\noutput z[]\n";
    holds(id, &[textbook(source).cost().statements[0].intensity.expect("a product")]);
});
fact!(r1_b240, "R1-B240", |id| holds(id, &[critical("tpu-v5e", "bf16", "bf16") * 810.0 / 820.0]));
fact!(r1_q1, "R1-Q1", |id| holds(id, &[critical("tpu-v5e", "int8", "int8")]));
fact!(r1_q2, "R1-Q2", |id| holds(id, &[critical("tpu-v5e", "bf16", "int8") * 810.0 / 820.0]));
// The text rounds the peak to 1e15.
fact!(r1_q5, "R1-Q5", |id| holds(id, &[critical("h100", "bf16", "bf16") * 1000.0 / 989.0]));
fact!(r1_2chip_math, "R1-2CHIP-MATH", |id| holds(id, &[two_chips().0 / (BDF / 1.97e14)]));
fact!(r1_2chip_comm, "R1-2CHIP-COMM", |id| holds(
    id,
    &[two_chips().1 / (4096.0 * 16384.0 / 4.5e10)]
));
fact!(r1_2chip_d, "R1-2CHIP-D", |id| holds(id, &[8192.0 * two_chips().1 / two_chips().0]));
fact!(r1_q4, "R1-Q4", |id| {
    let source = "hardware tpu-v5e\nmesh X=1\ndim B=64, D=8192, F=8192\ninput x: int8[B, D]\n\
        param w: int8[B, D, F]\ny = x *D w\noutput y[B, F]\n";
    holds(id, &[textbook(source).cost().statements[0].intensity.expect("a product")]);
});
fact!(r1_bounds, "R1-BOUNDS", |_| {
    for name in ["p3-c3", "p3-q7", "p5-dp", "p5-tp"] {
        let cost = searched(&source(name)).json().cost;
        let most = cost.compute_s.max(cost.comm_s);
        assert!(
            cost.overlap_s <= cost.scheduled_s
                && cost.scheduled_s <= cost.serial_s
                && cost.serial_s <= 2.0 * most,
            "{name}"
        );
    }
});

/// Elements that move where logits are gathered.
fn gathered_logits() -> f64 {
    let json = textbook(&read("tests/programs/book/alternatives/b-loss.gather.shard")).json();
    moves(&json)
        .iter()
        .find(|step| step.kind == "all_gather")
        .map_or(0.0, |step| step.local_bytes as f64 / 2.0)
}

/// Of so many devices, how many ways are left beside so many of tensor parallelism: the one shape
/// of the mesh that a sweep finds.
fn ways_left(devices: u64, tensor: u64) -> f64 {
    let grid =
        shardwise::sweep::Grid::parse(&[format!("X*Y={devices}")], &[], &[]).expect("a grid");
    let source = shardwise::sweep::Source {
        path: "fact".to_owned(),
        name: "fact".to_owned(),
        text: "hardware h100\nmesh X=2 dcn, Y=8\ndim D=65536, F=65536\nparam W[D_X, F_Y]\n"
            .to_owned(),
    };
    let swept = shardwise::sweep::sweep(&[source], &grid, &Options::default(), &|_, _| ())
        .unwrap_or_else(|refused| panic!("{refused:?}"));
    let shapes = swept.points.iter().filter_map(|point| point.plan.as_ref());
    let shape = shapes.map(|plan| &plan.axes).find(|axes| axes[1].size == tensor).expect("a shape");
    shape[0].size as f64
}
