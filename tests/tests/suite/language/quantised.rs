//! Quantised weights and caches: products and attention read them in their dtype and convert them
//! on the chip, unless something else needs the wide value in memory.

use shardwise::{Options, Planned, Rates};
use shardwise_tests::planning::{planned, searched};

fn at(source: &str, rates: Rates) -> Planned {
    let memory = Some(f64::INFINITY);
    planned(source, &Options { rates: Some(rates), memory, ..Options::default() })
}

fn bytes(planned: &Planned) -> f64 {
    planned.report.steps.iter().map(|step| step.bytes).sum()
}

/// The bytes of the first step whose text begins so.
fn bytes_of(planned: &Planned, text: &str) -> f64 {
    let place = planned.json().steps.iter().position(|step| step.text.starts_with(text));
    planned.report.steps[place.unwrap_or_else(|| panic!("{text}\n{}", *planned.plan))].bytes
}

/// A plan that is read again costs the same, in time and memory.
fn costs_the_same_when_read_again(planned: &Planned) {
    let text = planned.plan.to_string();
    let again = at(&text, planned.plan.program.hardware.rates);
    let (one, other) = (planned.report.serial_s, again.report.serial_s);
    assert!((one - other).abs() <= 1e-9 * one, "{one} {other}\n{text}");
    let (one, other) = (planned.report.memory.peak_bytes, again.report.memory.peak_bytes);
    assert!((one - other).abs() <= 1.0, "{one} {other}\n{text}");
}

const CACHE: &str = "hardware h100\nmesh X=1\ndim B=8, S=8192, K=8, G=4, H=128\n\
    input q[B, K, G, H]\nstate k: fp8[B, S, K, H], v: fp8[B, S, K, H], ks[B, S, K], vs[B, S, K]\n";

/// Whatever is written for attention over a cache, it takes as long as reading the cache.
#[test]
fn attention_reads_a_cache_in_its_dtype() {
    let written = |keys: &str, values: &str| {
        format!(
            "{CACHE}p = softmax_S(0.088 * (q *H {keys}))\no = p *S {values}\noutput o[B, K, G, H]\n"
        )
    };
    let called = |keys: &str, values: &str| {
        format!("{CACHE}o = attention(q, {keys}, {values})\noutput o[B, K, G, H]\n")
    };
    for rates in [Rates::Peak, Rates::Measured] {
        for (keys, values) in [
            ("cast<bf16>(k)", "cast<bf16>(v)"),
            ("cast<f32>(k)", "cast<f32>(v)"),
            ("(cast<bf16>(k) * ks)", "(cast<bf16>(v) * vs)"),
        ] {
            for (wide, narrow) in [
                (written(keys, values), written("k", "v")),
                (called(keys, values), called("k", "v")),
            ] {
                let (wide, narrow) = (at(&wide, rates), at(&narrow, rates));
                let ratio = wide.report.serial_s / narrow.report.serial_s;
                assert!((0.99..1.05).contains(&ratio), "{keys}: {ratio}");
                let peak = |planned: &Planned| planned.report.memory.peak_bytes;
                let ratio = peak(&wide) / peak(&narrow);
                assert!(ratio <= 1.001, "{keys}: {ratio}");
                costs_the_same_when_read_again(&wide);
            }
        }
    }
}

/// Keys that are the values, too, are read once.
#[test]
fn attention_reads_latents_once() {
    let source = "hardware h100\nmesh X=1\ndim B=8, S=8192, G=16, R=512\ninput q[B, G, R]\n\
        state c: fp8[B, S, R]\nw = cast<bf16>(c)\no = softmax_S(q *R w) *S w\noutput o[B, G, R]\n";
    let cache: f64 = 8.0 * 8192.0 * 512.0;
    let read = bytes(&searched(source));
    assert!((cache..1.02 * cache).contains(&read), "{read} {cache}");
}

const WEIGHT: &str = "hardware h100\nmesh X=1\ndim B=64, D=8192, F=28672\ninput x[B, D]\n\
    param w: int8[D, F], s[F]\n";

/// A product takes the larger of its read and its FLOPs, and at measured rates what the product of
/// the narrow weight takes that runs in the same dtype.
#[test]
fn products_read_weights_in_their_dtype() {
    let source = |product: &str| format!("{WEIGHT}y: bf16[B, F] = {product}\noutput y[B, F]\n");
    for rates in [Rates::Peak, Rates::Measured] {
        let narrow = at(&source("x *D w"), rates).report.serial_s;
        for product in
            ["x *D cast<bf16>(w)", "(x *D cast<bf16>(w)) * s", "x *D (cast<bf16>(w) * s)"]
        {
            let wide = at(&source(product), rates);
            let ratio = wide.report.serial_s / narrow;
            assert!((0.99..1.02).contains(&ratio), "{product}: {ratio}");
            costs_the_same_when_read_again(&wide);
        }
    }
}

/// Each product that reads a cast converts the weight by itself.
#[test]
fn each_product_converts_what_it_reads() {
    let weight: f64 = 8192.0 * 28672.0;
    let two = format!(
        "{WEIGHT}input z[B, F]\nc = cast<bf16>(w)\ny = x *D c\nu = z *F c\n\
         output y[B, F], u[B, D]\n"
    );
    let planned = searched(&two);
    let read = bytes(&planned);
    assert!((2.0 * weight..2.1 * weight).contains(&read), "{read}");
    let peak = planned.report.memory.peak_bytes;
    assert!(peak < 1.1 * weight, "{peak}");
    costs_the_same_when_read_again(&planned);
}

/// So do those going back, for which nothing wide is kept.
#[test]
fn products_going_back_convert_frozen_weights_again() {
    let source = "hardware h100\nmesh X=1\ndim B=64, D=8192, E=D, F=28672\n\
        input x[B, D], dy[B, F]\nparam a[D, E]\nfrozen param w: int8[E, F]\n\
        y = (x *D a) *E cast<bf16>(w)\n\
        backward from y given dy\n";
    let (weight, trained) = (8192.0 * 28672.0, 2.0 * 8192.0 * 8192.0);
    for rates in [Rates::Peak, Rates::Measured] {
        let planned = at(source, rates);
        let (read, held) = (bytes(&planned), planned.report.memory.peak_bytes);
        let others = 2.0 * trained;
        let is_near = |bytes: f64, near: f64| (near..1.1 * near).contains(&bytes);
        assert!(is_near(read, 2.0 * weight + others), "{read}");
        assert!(is_near(held, weight + others), "{held}");
        costs_the_same_when_read_again(&planned);
    }
}

/// In layers, too, and where the weights are sharded.
#[test]
fn weights_of_layers_are_converted_on_the_chip() {
    let source = "hardware h100\nmesh X=8\ndim B=64, D=8192, F=28672\ninput x[B, D]\n\
        repeat L=10 {\n  carry x\n  param win: int8[D, F_X], wout: int8[F_X, D], s[F]\n\
        h = gelu((x *D cast<bf16>(win)) * s)\n  x = x + h *F cast<bf16>(wout)\n}\noutput x[B, D]\n";
    let planned = searched(source);
    let weights: f64 = 10.0 * 2.0 * 8192.0 * 28672.0 / 8.0;
    let held = planned.report.memory.peak_bytes;
    assert!((weights..1.02 * weights).contains(&held), "{held}");
    let local = planned.report.steps.iter().filter(|step| step.axes.is_empty());
    let read: f64 = local.map(|step| step.times * step.bytes).sum();
    assert!((weights..1.1 * weights).contains(&read), "{read}");
    costs_the_same_when_read_again(&planned);
}

/// What is read otherwise is written, and read as it was written.
#[test]
fn casts_that_are_read_otherwise_are_passes() {
    let weight: f64 = 8192.0 * 28672.0;
    let is_pass = |statements: &str, bytes: f64| {
        let source = format!("{WEIGHT}{statements}\n");
        let moved = bytes_of(&searched(&source), "c[D, F] = cast");
        assert!((0.99..1.01).contains(&(moved / (bytes * weight))), "{statements}: {moved}");
    };
    is_pass("c = cast<bf16>(w)\ny = x *D c\noutput y[B, F], c[D, F]", 3.0);
    is_pass("c = cast<bf16>(w)\ny = x *D c\nm = max_F(c)\noutput y[B, F], m[D]", 3.0);
    // To fewer bits: the copy is read by both.
    let master = "param m: f32[D, F]\nc = cast<bf16>(m)\ny = x *D c\nu = y *F c\n\
        output u[B, D], y[B, F]";
    is_pass(master, 6.0);
}

const SHARDED: &str = "hardware h100\nmesh X=8\ndim B=64, D=8192, F=28672\n\
    input x[B_X, D]\nparam w: int8[D_X, F]\n";

/// A collective after a cast reads it from memory: there is a pass, and a wide value.
#[test]
fn a_cast_that_is_gathered_is_a_pass() {
    let weight: f64 = 8192.0 * 28672.0;
    let source =
        format!("{SHARDED}c[D_X, F] = cast<bf16>(w)\ny = x *D c[D, F]\noutput y[B_X, F]\n");
    for rates in [Rates::Peak, Rates::Measured] {
        let planned = at(&source, rates);
        let cast = bytes_of(&planned, "c[D_X, F] = cast");
        assert!((cast / (3.0 * weight / 8.0) - 1.0).abs() < 0.01, "{cast}");
        let product = bytes_of(&planned, "y[B_X, F] = ");
        assert!((product / (2.0 * weight) - 1.0).abs() < 0.01, "{product}");
        assert!(planned.report.memory.peak_bytes > 2.0 * weight);
        costs_the_same_when_read_again(&planned);
    }
}

/// Without brackets narrow bytes are gathered.
#[test]
fn weights_are_gathered_before_they_are_converted() {
    let source = format!("{SHARDED}y = x[B_X, D] *D cast<bf16>(w)\noutput y[B_X, F]\n");
    let planned = searched(&source);
    let weight: f64 = 8192.0 * 28672.0;
    let gathered = bytes_of(&planned, "w[D, F] = AllGather");
    assert!((gathered / weight - 1.0).abs() < 0.01, "{gathered}");
    let peak = planned.report.memory.peak_bytes;
    assert!(peak < 1.3 * weight, "{peak}");
    costs_the_same_when_read_again(&planned);
}
