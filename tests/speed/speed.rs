//! Measures planning inside one process.

use criterion::{Criterion, criterion_group, criterion_main};
use shardwise::sweep::{Grid, Source, sweep};
use shardwise::tune::{Request, tune};
use shardwise::{Options, Strategy};

fn read(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    std::fs::read_to_string(root.to_owned() + path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A chain of products on two axes, weights shared.
fn chain(statements: usize) -> String {
    let mut text =
        "hardware tpu-v5p\nmesh X=16, Y=4\ndim B=49152, D=8192, F=8192\ninput A0[B_X, D_Y]\n\
            param W[D_X, F_Y], V[F_Y, D_X]\n"
            .to_owned();
    for i in 0..statements / 2 {
        text += &format!("T{i} = A{i} *D W\nA{} = T{i} *F V\n", i + 1);
    }
    text + &format!("output A{}[B_X, D_Y]\n", statements / 2)
}

/// A gated MLP and the projections of attention, forward and backward, on three axes.
const LAYER: &str = "\
hardware tpu-v5p
mesh X=4, Y=4, Z=4
dim B=65536, D=4096, F=14336, N=32, H=128
input x[B_X, D_YZ], dy[B_X, D_YZ]
param wq[D_XZ, N_Y, H], wk[D_XZ, N_Y, H], wv[D_XZ, N_Y, H], wo[N_Y, H, D_XZ]
param wgate[D_XZ, F_Y], win[D_XZ, F_Y], wout[F_Y, D_XZ]
o = (x *D wq) * (x *D wk) * (x *D wv)
h = x + o *N,H wo
y = h + (silu(h *D wgate) * (h *D win)) *F wout
output y[B_X, D_YZ]
backward from y given dy
";

fn plan(source: &str, strategy: Strategy) -> f64 {
    let options = Options { strategy, ..Options::default() };
    shardwise::plan("bench", source, &options).map_or(f64::NAN, |planned| planned.report.serial_s)
}

fn speed(criterion: &mut Criterion) {
    for name in ["mlp-2d", "mlp-3d"] {
        let source = read(&format!("tests/programs/{name}.shard"));
        criterion.bench_function(&format!("{name}: proven optimal"), |b| {
            b.iter(|| plan(&source, Strategy::Search))
        });
    }
    criterion.bench_function("layer forward and backward on 3 axes: proven optimal", |b| {
        b.iter(|| plan(LAYER, Strategy::Search))
    });
    for name in [
        "llama3-70b-decode",
        "llama3-70b-train",
        "mixtral-8x7b-train",
        "llama3-405b-train",
        "deepseek-v3-layer",
    ] {
        let source = read(&format!("tests/programs/models/{name}.shard"));
        criterion.bench_function(name, |b| b.iter(|| plan(&source, Strategy::Search)));
    }
    let grid =
        Grid::parse(&["X=4|16|64|256,Y=4|16".to_owned()], &["B=1e4..1e7/25".to_owned()], &[])
            .expect("a grid");
    let mlp = [Source {
        path: "bench".to_owned(),
        name: "bench".to_owned(),
        text: read("tests/programs/mlp-2d.shard"),
    }];
    criterion.bench_function("mlp-2d: a sweep of 200 points", |b| {
        b.iter(|| {
            sweep(&mlp, &grid, &Options::default(), &|_, _| ()).map_or(0, |swept| swept.planned)
        });
    });
    for (name, chips) in [("mlp", 512), ("llama3-70b", 512), ("llama3-405b", 16384)] {
        let source = read(&format!("tests/programs/tune/{name}.shard"));
        let request = Request { best: 1, ..Request::of_chips(chips) };
        criterion.bench_function(&format!("tune {name} on {chips} chips: the best"), |b| {
            b.iter(|| {
                tune("bench", &source, &request, &Options::default(), &|_| ())
                    .map_or(f64::NAN, |tuned| tuned.lower_bound_s)
            });
        });
    }
    let long = chain(10_000);
    criterion.bench_function("10,000 statements: textbook", |b| {
        b.iter(|| plan(&long, Strategy::Textbook))
    });
    let longest = chain(100_000);
    criterion.bench_function("100,000 statements: read and resolved", |b| {
        b.iter(|| shardwise::check("bench", &longest, &Options::default()).findings.is_empty());
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = speed
}
criterion_main!(benches);
