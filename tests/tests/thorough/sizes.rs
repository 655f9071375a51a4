//! Programs of ten times as many statements take about ten times as long, and not a hundred times.

#![expect(clippy::print_stdout, reason = "its times are printed")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use shardwise::Options;

const HEADER: &str = "hardware h100\nmesh X=4, Y=2\ndim B=64, D=256, F=512\n";

/// One value that is read by every statement.
fn star(count: usize) -> String {
    let mut text = format!("{HEADER}input x[B_X, D]\n");
    for i in 0..count {
        let _ = writeln!(text, "v{i} = gelu(x)\noutput v{i}[B_X, D]");
    }
    text
}

/// Each statement reads the one before.
fn chain(count: usize) -> String {
    let mut text = format!("{HEADER}input v0[B_X, D]\n");
    for i in 0..count {
        let _ = writeln!(text, "v{} = gelu(v{i})", i + 1);
    }
    text + &format!("output v{count}[B_X, D]\n")
}

/// Each statement reads two of all before it.
fn graph(count: usize) -> String {
    let mut text = format!("{HEADER}input v0[B_X, D]\n");
    let mut state = 1_u64;
    let mut below = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    for i in 1..=count {
        let _ = writeln!(text, "v{i} = v{} + v{}", below(i), below(i));
    }
    text + &format!("output v{count}[B_X, D]\n")
}

/// Layers of two products and their gradients, each written out.
fn layers(count: usize) -> String {
    let mut text = format!("{HEADER}input r0[B_X, D], g[B, D]\n");
    for i in 0..count.div_ceil(10) {
        let _ = writeln!(text, "param w{i}[D, F], u{i}[F, D]");
        let _ = writeln!(text, "h{i} = gelu(r{i} *D w{i})\nr{} = r{i} + h{i} *F u{i}", i + 1);
    }
    let last = count.div_ceil(10);
    text + &format!("backward from r{last} given g\noutput r{last}[B_X, D]\n")
}

/// A program with so many statements.
type Family = fn(usize) -> String;

fn time(text: &str) -> Duration {
    let start = Instant::now();
    if let Err(findings) = shardwise::plan("long", text, &Options::default()) {
        panic!("{findings}");
    }
    start.elapsed()
}

#[test]
fn time_grows_as_the_program_does() {
    let families: [(&str, Family); 4] =
        [("star", star), ("chain", chain), ("graph", graph), ("layers", layers)];
    for (name, program) in families {
        let [short, long] = [1000, 10_000].map(|count| time(&program(count)));
        println!("{name}: {short:?} for 1000 statements, {long:?} for 10 000");
        let most = short * 40 + Duration::from_secs(2);
        assert!(long < most, "{name}: {short:?} for 1000 statements, {long:?} for 10 000");
    }
}
