//! The numbers of the book's chapters that train and serve LLaMA-3 70B, each as a test named by its
//! id: the output of `cost` for the programs in `tests/programs/models`, against
//! `tests/facts/applied-training.json` and `applied-inference.json`.
//!
//! Where the book rounds its inputs (70e9 parameters, 160 kB a token), the fact has that tolerance.

use shardwise::cost::Cost;
use shardwise::{DimSize, Options, Program, Strategy};
use shardwise_ir::Role;
use shardwise_tests::facts::value_holds;
use shardwise_tests::read;

fn options() -> Options {
    Options { strategy: Strategy::Textbook, memory: Some(f64::INFINITY), ..Options::default() }
}

fn model(name: &str) -> String {
    read(&format!("tests/programs/models/{name}.shard"))
}

fn cost(source: &str, options: &Options) -> Cost {
    shardwise::plan("fact", source, options).unwrap_or_else(|e| panic!("{e}\n{source}")).cost()
}

fn decode() -> Cost {
    cost(&model("llama3-70b-decode"), &options())
}

fn elements(program: &Program, names: &[&str]) -> f64 {
    let of = program
        .values
        .iter()
        .filter(|value| value.role == Some(Role::Param) && names.contains(&value.name.as_str()));
    of.map(|value| {
        value.dims.iter().map(|&dim| program.dims[dim].size as f64).product::<f64>()
            * program.iterations(value.repeat) as f64
    })
    .sum()
}

/// Parameters of the 70B model that have these names.
fn parameters(names: &[&str]) -> f64 {
    elements(
        &shardwise::check("fact", &model("llama3-70b-train"), &options())
            .program
            .expect("the model resolves"),
        names,
    )
}

const FFW: &[&str] = &["win", "wgate", "wout"];
const VOC: &[&str] = &["Embed", "Unembed"];
const ATT: &[&str] = &["wq", "wk", "wv", "wo"];

#[test]
fn a6_ffw() {
    value_holds("A6-FFW", parameters(FFW));
}

#[test]
fn a6_voc() {
    value_holds("A6-VOC", parameters(VOC));
}

#[test]
fn a6_att() {
    value_holds("A6-ATT", parameters(ATT));
}

#[test]
fn a6_tot() {
    value_holds("A6-TOT", parameters(&[FFW, VOC, ATT].concat()));
}

/// Four values a layer are kept; what does not grow with layers and tokens falls out of the second
/// difference.
#[test]
fn a6_ckpt() {
    let peak = |layers: u64, tokens: u64| {
        let body = "carry x\nparam n[D]\na = tanh(x)\nb = tanh(a)\nc = tanh(b)\nx = tanh(c)\n\
            checkpoint a, b, c\n";
        let head =
            format!("hardware tpu-v5p\nmesh X=1\ndim B={tokens}, D=8192\ninput x[B, D], g[B, D]\n");
        let source = format!(
            "{head}repeat L={layers} {{\n{body}}}\nbackward from x given g\noutput dx[B, D]\n"
        );
        let planned =
            shardwise::plan("fact", &source, &options()).unwrap_or_else(|e| panic!("{e}"));
        planned.json().memory.peak_bytes as f64
    };
    let of = |tokens| peak(160, tokens) - peak(80, tokens);
    value_holds("A6-CKPT", of(8_000_000) - of(4_000_000));
}

/// One of the model's MLPs on a pod, all of whose axes gather weights.
#[test]
fn a6_fsdp() {
    let dims = "dim B=4Mi pad, D=8192 pad, F=28672";
    let source = format!(
        "hardware tpu-v5p\nmesh X=8960 over 16x20x28\n{dims}\ninput In[B_X, D]\n\
            param Win[D_X, F], Wout[F, D_X]\nOut = In *D Win *F Wout\noutput Out[B_X, D]\n"
    );
    let cost = cost(&source, &options());
    let threshold =
        cost.thresholds.iter().find(|threshold| threshold.dim == "B").expect("B is no parameter's");
    value_holds("A6-FSDP", threshold.per_device);
    assert_eq!(cost.verdict.bound, "communication");
    let needed = threshold.crossovers[0].per_device;
    assert!((needed / 850.0 - 1.0).abs() < 0.01, "{needed} tokens a chip");
}

/// The time of gathered weights grows with X, that of activations falls with it: they meet at
/// `X * sqrt(t_Y / t_X)`, whatever D is.
#[test]
fn a6_xopt() {
    let source = "hardware tpu-v5p\nmesh X=80 over 8x10 ring, Y=112 ring\n\
        dim B=4190000, D=8960, F=28672\ninput In[B_X, D_Y]\nparam Win[D_X, F_Y], Wout[F_Y, D_X]\n\
        Tmp = In *D Win\nOut = Tmp *F Wout\noutput Out[B_X, D_Y]\n";
    let cost = cost(source, &options());
    assert_eq!(cost.devices, 8960);
    value_holds("A6-XOPT", 80.0 * (cost.axes[1].busy_s / cost.axes[0].busy_s).sqrt());
}

#[test]
fn a8_kv() {
    value_holds("A8-KV", decode().state.bytes / (32.0 * 8192.0));
}

#[test]
fn a8_kv32k() {
    let longer = vec![
        DimSize { name: "S".to_owned(), size: 32768 },
        DimSize { name: "A".to_owned(), size: 32769 },
    ];
    let source =
        model("llama3-70b-decode").replace("slice_{A->Now}(p, 8192)", "slice_{A->Now}(p, 32768)");
    value_holds(
        "A8-KV32K",
        cost(&source, &Options { dims: longer, ..options() }).state.bytes / 32.0,
    );
}

#[test]
fn a8_mem32() {
    let cost = decode();
    value_holds("A8-MEM32", cost.parameters.bytes + cost.state.bytes);
}

/// Everything that is held is read once, by all chips.
#[test]
fn a8_step() {
    let cost = decode();
    value_holds("A8-STEP", (cost.parameters.device_bytes + cost.state.device_bytes) / 8.1e11);
    let step = cost.verdict.compute_s;
    assert!(step > 0.0173 && step < 0.023, "{step}: reading it all is the most of a step");
}

#[test]
fn a8_min_int4() {
    let source = model("llama3-70b-decode").replace("int8", "int4");
    value_holds("A8-MIN-INT4", cost(&source, &options()).parameters.bytes);
}

#[test]
fn a8_free_int8() {
    value_holds("A8-FREE-INT8", 8.0 * 16e9 - decode().parameters.bytes);
}

/// The second matrix of an MLP, 32-way, with this many sequences.
fn matrix(batch: u64) -> shardwise::cost::Statement {
    let source = format!(
        "hardware tpu-v5e\nmesh X=4, Y=8\ndim B={batch}, D=8192, F=28672\ninput x[B, D]\n\
            param w[D, F_XY]\noutput y[B, F_XY] = x *D w\n"
    );
    cost(&source, &options()).statements[0].clone()
}

#[test]
fn a8_tici() {
    let source =
        "hardware tpu-v5e\nmesh X=4 ring\ndim B=64, D=8192\ninput x[B, D_X]\noutput x[B, D]\n";
    value_holds("A8-TICI", cost(source, &options()).statements[0].time_s);
}

/// With no sequences left: the time at 8 and 16 continued.
#[test]
fn a8_thbm() {
    value_holds("A8-THBM", 2.0 * matrix(8).time_s - matrix(16).time_s);
}

#[test]
fn a8_tmath() {
    let matrix = matrix(64);
    assert_eq!(matrix.bound, "hbm");
    value_holds("A8-TMATH", matrix.time_s / matrix.factor.expect("both rates are known"));
}

/// Without the products of scores, at 40% of the peak.
#[test]
fn a8_prefill() {
    let cost = cost(&model("llama3-70b-prefill"), &options());
    let weights = |text: &str| {
        ["wq", "wk", "wv", "wo[", "win", "wgate", "wout"].iter().any(|weight| text.contains(weight))
    };
    let products = cost
        .statements
        .iter()
        .filter(|statement| statement.times == 80 && weights(&statement.text));
    let flops: f64 = products.map(|statement| 80.0 * statement.flops).sum();
    value_holds("A8-PREFILL", flops / (1.97e14 * 0.4));
}
