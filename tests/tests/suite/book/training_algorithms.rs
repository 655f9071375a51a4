//! More of the numbers of the book's chapter on training, each as a test named by its id:
//! algorithms collective by collective, kept and dropped values, sizes of machines, against
//! `tests/facts/training.json`. (`training.rs` has times, bytes and thresholds.)

use shardwise::{Hardware, Options, Pass, Planned};
use shardwise_ir::ids::ValueId;
use shardwise_passes::liveness::live_at;
use shardwise_tests::facts::{holds, record};
use shardwise_tests::planning::{collectives, decode, listed, moves, refused, searched, textbook};
use shardwise_tests::{fact, read};

/// The book's plan of a forward pass and its gradients.
fn trained(name: &str) -> Planned {
    textbook(&read(&format!("tests/programs/training/{name}.shard")))
}

fn written_out(name: &str) -> Planned {
    textbook(&read(&format!("tests/programs/book/{name}.shard")))
}

/// Whether the plan has the collectives that the fact lists, in this order, and none that the fact
/// calls asynchronous holds anything up between the first and the last.
fn as_listed(id: &str, name: &str) {
    let plan = trained(name);
    let wanted = listed(record(id));
    assert_eq!(collectives(&plan), wanted.iter().map(|(op, _)| op.clone()).collect::<Vec<_>>());
    let json = plan.json();
    let moved = moves(&json);
    // Nothing hides what comes before the first product, or after the last one.
    let place = |text: &str| json.steps.iter().position(|step| step.text == text).unwrap_or(0);
    let first = json.steps.iter().position(|step| step.kind == "einsum").unwrap_or(0);
    let last = moved.last().map(|step| step.text.clone()).unwrap_or_default();
    for (step, (op, critical)) in moved.iter().zip(&wanted) {
        let hidden = place(&step.text) > first && step.text != last;
        assert!(*critical || !step.critical || !hidden, "{op} is waited for\n{plan}");
    }
}

/// Forward and backward through one weight of `dim` columns: six FLOPs a token and parameter.
fn step_of(mesh: &str, dims: &str, brackets: [&str; 3]) -> Planned {
    let [tokens, weight, out] = brackets;
    textbook(&format!(
        "hardware tpu-v5p\nmesh {mesh}\ndim {dims}\ninput In{tokens}, dOut{out}\nparam W{weight}\n\
            Out = In *D W\nbackward from Out given dOut\noutput Out{out}, dIn{tokens}, dW{weight}\n"
    ))
}

/// What is live beside parameters while the statement that gives `result` runs.
fn live(plan: &Planned, result: &str) -> Vec<String> {
    let name = |value: ValueId| plan.plan.program.values[value].name.clone();
    let step =
        plan.plan.steps.iter().position(|step| name(step.result.value) == result).expect("a step");
    let whole = |of: &shardwise_ir::plan::Materialization| of.sharding.axes().next().is_none();
    live_at(&plan.plan, plan.plan.dataflow(), step)
        .into_iter()
        .filter(|(of, _)| whole(of))
        .map(|(of, _)| name(of.value))
        .collect()
}

fact!(p5_base_appx, "P5-BASE-APPX", |id| {
    let source = read("tests/programs/training/p5-base.shard");
    let derived = shardwise::print_after("fact", &source, &Options::default(), Pass::Gradient)
        .unwrap_or_else(|error| panic!("{error}"));
    let operand = record(id)["value"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(derived.contains(&format!("dWin = {operand} *B dTmp")), "{derived}");
});
fact!(p5_dout, "P5-DOUT", |_| {
    // The gradients have no brackets; those of the values that they are gradients of are
    // taken.
    let source = read("tests/programs/training/p5-mixed.shard");
    let (head, _) = source.split_once("output ").expect("outputs");
    let json = textbook(&format!(
        "{head}output Out[B_X, D_Y], dWin[D_X, F_Y], dWout[F_Y, D_X], dIn[B_X, D_Y]\n"
    ))
    .json();
    for (name, wanted) in
        [("dWin", "dWin[D_X, F_Y] ="), ("dWout", "dWout[F_Y, D_X] ="), ("dIn", "dIn[B_X, D_Y] =")]
    {
        assert!(
            json.steps.iter().any(|step| step.value == name && step.text.starts_with(wanted)),
            "{name}"
        );
    }
    let bare = searched(&format!("{head}output Out[B_X, D_Y]\n")).json();
    let last = |name: &str| {
        bare.steps
            .iter()
            .rfind(|step| step.value == name)
            .map(|step| step.text.clone())
            .unwrap_or_default()
    };
    assert!(
        last("dWin").starts_with("dWin[D_X, F_Y] =")
            && last("dWout").starts_with("dWout[F_Y, D_X] ="),
        "{}",
        last("dWin")
    );
});
fact!(p5_dp_alg, "P5-DP-ALG", |id| as_listed(id, "p5-dp"));
fact!(p5_fsdp_alg, "P5-FSDP-ALG", |id| as_listed(id, "p5-fsdp"));
fact!(p5_tp_alg, "P5-TP-ALG", |id| as_listed(id, "p5-tp"));
fact!(p5_mix_alg, "P5-MIX-ALG", |id| as_listed(id, "p5-mixed"));
fact!(p5_fsdp_drop, "P5-FSDP-DROP", |_| {
    let plan = trained("p5-fsdp");
    // After its last use a gathered weight is not there any more: Win while Out is made, Wout
    // while dWin is, both while dOut waits.
    assert!(live(&plan, "Tmp").contains(&"Win".to_owned()));
    assert!(
        !live(&plan, "Out").contains(&"Win".to_owned())
            && live(&plan, "Out").contains(&"Wout".to_owned())
    );
    assert!(
        live(&plan, "dTmp").contains(&"Wout".to_owned())
            && !live(&plan, "dIn").contains(&"Wout".to_owned())
    );
    assert!(
        plan.json().memory.peak_bytes < written_out("p5-fsdp").json().memory.peak_bytes,
        "held, they take more"
    );
});
fact!(p5_tp_drop, "P5-TP-DROP", |_| {
    let plan = trained("p5-tp");
    assert!(
        live(&plan, "dTmp").contains(&"dOut".to_owned())
            && !live(&plan, "dWin").contains(&"dOut".to_owned())
    );
});
fact!(p5_zero, "P5-ZERO", |_| {
    let kinds = |plan: &Planned| {
        collectives(plan)
            .iter()
            .map(|text| text.split('_').next().unwrap_or("").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&written_out("p5-zero1")),
        ["AllReduce", "AllGather"],
        "gradients are whole, the optimizer's state is split"
    );
    assert_eq!(
        kinds(&written_out("p5-zero2")),
        ["ReduceScatter", "AllGather"],
        "gradients are split too"
    );
    assert_eq!(
        collectives(&written_out("p5-fsdp"))[..2],
        ["AllGather_X(Win)", "AllGather_X(Wout)"],
        "and weights"
    );
});
fact!(p5_dp_hbm240, "P5-DP-HBM240", |id| {
    let source = "hardware tpu-v5e\nmesh X=1\ndim B=8, D=8192, F=32768\ninput In[B, D]\n\
        param W[D, F]\nOut = In *D W\noutput Out[B, F]\n";
    holds(id, &[decode(&textbook(source), &[]).critical.expect("it turns").batch * 810.0 / 820.0]);
});
fact!(p5_dp_limit, "P5-DP-LIMIT", |_| {
    let source = read("tests/programs/training/p5-dp.shard");
    refused(&source.replace("B=65536", "B=8"), "SW202");
    assert!(
        shardwise::check("fact", &source.replace("B=65536", "B=16"), &Options::default())
            .program
            .is_some()
    );
});
fact!(p5_ctx, "P5-CTX", |_| {
    let layer = |brackets: &str| {
        textbook(&format!(
            "hardware tpu-v5p\nmesh X=16\ndim B=64, T=1024, D=8192, F=32768\n\
                input In{brackets}, dOut{brackets}\nparam Win[D, F], Wout[F, D]\nTmp = In *D Win\n\
                Out = Tmp *F Wout\nbackward from Out given dOut\n\
                output Out{brackets}, dWin[D, F], dWout[F, D]\n"
        ))
    };
    let (batch, sequence) = (layer("[B_X, T, D]"), layer("[B, T_X, D]"));
    assert_eq!(collectives(&batch), collectives(&sequence));
    assert!((batch.json().cost.serial_s / sequence.json().cost.serial_s - 1.0).abs() < 1e-12);
    let attention = "hardware tpu-v5p\nmesh X=16\ndim T=8192, S=8192, N=32, H=128\n\
        input Q[T_X, N, H], Ks[S_X, N, H], Vs[S_X, N, H]\np = softmax_S(Q *H Ks)\nA = p *S Vs\n\
        output A[T_X, N, H]\n";
    assert_eq!(
        collectives(&textbook(attention))[0],
        "AllGather_X(Q)",
        "queries, or else keys and values"
    );
});
fact!(p5_tp_ar, "P5-TP-AR", |_| {
    let source = |out: &str, win: &str| {
        format!(
            "hardware tpu-v5p\nmesh Y=8\ndim B=4096, D=8192, F=32768\ninput In[B, D_Y]\n\
                param Win[{win}], Wout[F_Y, D]\nTmp = In *D Win\nAct = gelu(Tmp)\n\
                Out = Act *F Wout\noutput Out[{out}]\n"
        )
    };
    let (pair, naive) =
        (textbook(&source("B, D_Y", "D, F_Y")), textbook(&source("B, D", "D_Y, F")));
    assert_eq!(collectives(&pair), ["AllGather_Y(In)", "ReduceScatter_Y(Out)"]);
    assert_eq!(collectives(&naive), ["AllReduce_Y(Tmp)", "AllReduce_Y(Out)"]);
    let ratio = naive.json().cost.comm_s / pair.json().cost.comm_s;
    assert!((ratio - (4.0 * 8192.0 + 4.0 * 32768.0) / (4.0 * 8192.0)).abs() < 1e-9, "{ratio}");
});
fact!(p5_l3_flops, "P5-L3-FLOPS", |id| {
    holds(
        id,
        &[step_of("X=1", "B=15000G, D=70k, F=1M", ["[B, D]", "[D, F]", "[B, F]"]).cost().flops],
    );
});
fact!(p5_l3_days, "P5-L3-DAYS", |id| {
    // The nearest number of tokens that so many chips divide; they are more than a pod has.
    let plan =
        step_of("X=18823 dcn", "B=15000000004899, D=70k, F=1M", ["[B_X, D]", "[D, F]", "[B_X, F]"]);
    holds(id, &[plan.cost().verdict.compute_s / 0.5 / 86400.0]);
});
fact!(p5_q3_3_step, "P5-Q3-3-STEP", |id| {
    let plan = step_of(
        "X=64 over 2, Y=64",
        "B=3M, D=25390625, F=512",
        ["[B_X, D]", "[D, F_Y]", "[B_X, F_Y]"],
    );
    holds(id, &[plan.cost().device_flops / (4.6e14 * 0.4)]);
});
fact!(p5_dcn_perchip, "P5-DCN-PERCHIP", |id| {
    holds(
        id,
        &[Hardware::preset("tpu-v5p")
            .and_then(|chip| chip.dcn_bandwidth)
            .expect("it is in the book")],
    );
});
fact!(p5_q3_hbm, "P5-Q3-HBM", |id| {
    let source = "hardware tpu-v5p\nmesh X=16, Y=16, Z=16\ndim P=4096\nparam W[P_XYZ]\n";
    let plan = shardwise::plan("fact", source, &Options::default())
        .unwrap_or_else(|error| panic!("{error}"));
    holds(id, &[plan.capacity_bytes.expect("it is known") * plan.cost().devices as f64]);
});
fact!(p5_q3_seq, "P5-Q3-SEQ", |id| {
    let source = "hardware tpu-v5p\nmesh X=1\ndim B=96, T=32768, D=128, F=128\ninput x[B, T, D]\n\
        param w[D, F]\ny = x *D w\noutput y[B, T, F]\n";
    let step = decode(&textbook(source), &[]).step;
    assert!((step.tokens - 3_145_728.0).abs() < 1e-9);
    holds(id, &[step.batch as f64]);
});
