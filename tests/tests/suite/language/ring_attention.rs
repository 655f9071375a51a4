//! Rings in other shapes than the page's: both ways at once, over two axes, beside heads, for
//! gradients, in layers and in stages. Each is run and planned again; blocks are sent to
//! neighbours, beside the compute.

use shardwise::verify::Sizes;
use shardwise::{Planned, Strategy};
use shardwise_tests::properties::{checked_plans, plan};

/// A step of softmax in progress over the current block of keys.
const STEP: &str = "  scores = (q *H k) * 0.0883883
  best = maximum(top, max_S(scores))
  p = exp(scores - best)
  fade = exp(top - best)
  sums = sums * fade + sum_S(p)
  acc = acc * fade + p *S v
  top = best
";

/// A ring over `R`, whose blocks are split as `r` and heads as `heads` say; `moved` says what
/// becomes of keys and values.
fn ring(mesh: &str, r: &str, heads: &str, moved: &str, after: &str) -> String {
    let blocks = mesh
        .split(", ")
        .filter_map(|axis| axis.split_once('='))
        .filter(|(axis, _)| r.contains(axis));
    let blocks: u64 = blocks.filter_map(|(_, size)| size.parse::<u64>().ok()).product();
    format!(
        "hardware tpu-v5p\nmesh {mesh}\ndim B=1, R={blocks}, Q=8192, S=8192, K=8, G=4, H=128\n\
            input q[B, {r}, Q, {heads}, G, H], k[B, {r}, S, {heads}, H], v[B, {r}, S, {heads}, H]\n\
            top = sum_H(q) * 0.0 - 1e30\nsums = sum_H(q) * 0.0\nacc = q * 0.0\n\
            repeat blocks={blocks} {{\n  carry k[B, {r}, S, {heads}, H], v[B, {r}, S, {heads}, H], \
            top, sums, acc\n{STEP}{moved}}}\no = acc / sums\n{after}"
    )
}

const ON: &str = "  k = roll_R(k)\n  v = roll_R(v)\n";

/// Whether every roll of a plan is sent over `axes`, and overlaps compute.
fn hides(planned: &Planned, axes: &[&str]) {
    let plan = planned.json();
    let rolls: Vec<_> = plan.steps.iter().filter(|step| step.text.contains("= roll_")).collect();
    assert!(
        rolls.len() >= 2 && rolls.iter().all(|step| step.axes == axes && step.time_s > 0.0),
        "{planned}"
    );
    assert!(planned.report.schedule.makespan_s < planned.report.serial_s * 0.995, "{planned}");
}

#[test]
fn keys_and_values_may_go_opposite_ways() {
    let source = ring(
        "X=16",
        "R_X",
        "K",
        "  k = roll_R(k)\n  v = roll_R(v, 15)\n",
        "output o[B, R_X, Q, K, G, H]\n",
    );
    let [found, _] = checked_plans("opposite", &source, Sizes::Scaled);
    hides(&found, &["X"]);
}

#[test]
fn a_ring_over_two_axes_takes_the_links_of_both() {
    for r in ["R_XY", "R_YX"] {
        let out = format!("output o[B, {r}, Q, K, G, H]\n");
        let [found, _] = checked_plans(r, &ring("X=4, Y=4", r, "K", ON, &out), Sizes::Scaled);
        hides(&found, &if r == "R_XY" { ["X", "Y"] } else { ["Y", "X"] });
    }
}

#[test]
fn rings_stand_beside_split_heads_of_keys() {
    let [found, _] = checked_plans(
        "heads",
        &ring("X=4, Y=8", "R_X", "K_Y", ON, "output o[B, R_X, Q, K_Y, G, H]\n"),
        Sizes::Scaled,
    );
    hides(&found, &["X"]);
    // An eighth of the heads, an eighth of the bytes.
    let bytes = |planned: &Planned| {
        planned
            .json()
            .steps
            .iter()
            .filter(|step| step.text.contains("= roll_"))
            .map(|step| step.local_bytes)
            .sum::<u64>()
    };
    let whole = plan(
        "whole",
        &ring("X=4, Y=8", "R_X", "K", ON, "output o[B, R_X, Q, K, G, H]\n"),
        Strategy::Textbook,
    );
    assert_eq!(8 * bytes(&found), bytes(&whole));
}

#[test]
fn gradients_of_a_ring_pass_it_in_reverse() {
    let after = "input do[B, R_X, Q, K, G, H]\nbackward from o given do\n\
        output dq[B, R_X, Q, K, G, H], dk[B, R_X, S, K, H], dv[B, R_X, S, K, H]\n";
    let [found, textbook] =
        checked_plans("gradients", &ring("X=4", "R_X", "K", ON, after), Sizes::Scaled);
    assert!(found.to_string().contains(", 3)"), "{found}");
    assert!(textbook.to_string().contains(", 3)"), "{textbook}");
}

/// Both halves of the keys at once, one each way, as a ring whose links are used in both directions
/// does.
#[test]
fn two_half_rings_go_both_ways() {
    let source = "hardware tpu-v5p
mesh X=8
dim B=1, R=8, Q=4096, S=2048, P=2048, K=8, G=4, H=128
input q[B, R_X, Q, K, G, H], k[B, R_X, S, K, H], v[B, R_X, S, K, H], k2[B, R_X, P, K, H], v2[B, \
R_X, P, K, H]
top = sum_H(q) * 0.0 - 1e30
sums = sum_H(q) * 0.0
acc = q * 0.0
repeat blocks=8 {
  carry k[B, R_X, S, K, H], v[B, R_X, S, K, H], k2[B, R_X, P, K, H], v2[B, R_X, P, K, H], top, \
  sums, acc
  s1 = (q *H k) * 0.0883883
  s2 = (q *H k2) * 0.0883883
  best = maximum(top, maximum(max_S(s1), max_P(s2)))
  p1 = exp(s1 - best)
  p2 = exp(s2 - best)
  fade = exp(top - best)
  sums = sums * fade + sum_S(p1) + sum_P(p2)
  acc = acc * fade + p1 *S v + p2 *P v2
  top = best
  k = roll_R(k)
  v = roll_R(v)
  k2 = roll_R(k2, 7)
  v2 = roll_R(v2, 7)
}
output o[B, R_X, Q, K, G, H] = acc / sums
";
    let [found, _] = checked_plans("both", source, Sizes::Scaled);
    hides(&found, &["X"]);
}

/// Layers that pass keys round in every layer, step by step, forward and back, alone and in stages.
fn layers(mesh: &str, open: &str, close: &str) -> String {
    let mut ring = String::new();
    let (mut k, mut v) = ("k".to_owned(), "v".to_owned());
    for block in 0..4 {
        ring += &format!("  s{block} = q *H {k}\n");
        let best = if block == 0 {
            "max_S(s0)".to_owned()
        } else {
            format!("maximum(b{}, max_S(s{block}))", block - 1)
        };
        ring += &format!("  b{block} = {best}\n  p{block} = exp(s{block} - b{block})\n");
        if block == 0 {
            ring += &format!("  l0 = sum_S(p0)\n  a0 = p0 *S {v}\n");
        } else {
            let before = block - 1;
            ring += &format!(
                "  f{block} = exp(b{before} - b{block})\n  l{block} = l{before} * f{block} + \
                    sum_S(p{block})\n"
            );
            ring += &format!("  a{block} = a{before} * f{block} + p{block} *S {v}\n");
        }
        if block < 3 {
            ring += &format!(
                "  k{block}[B_?, R_X, S_?, K_?, H_?] = roll_R({k})\n  v{block}[B_?, R_X, S_?, K_?, \
                    H_?] = roll_R({v})\n"
            );
            (k, v) = (format!("k{block}"), format!("v{block}"));
        }
    }
    format!(
        "hardware tpu-v5p\nmesh {mesh}\ndim B=8, R=4, Q=2048, S=2048, D=1024, K=8, G=4, H=128\n\
            input x[B, R_X, Q, D], d[B, R_X, Q, D]\n\
            {open}repeat L=4 {{\n  carry x\n  param WQ[D, K, G, H], WK[D, K, H], WV[D, K, H], \
            WO[K, G, H, D]\n  q = x *D WQ\n  k[B_?, R_?, S_?, K_?, H_?] = rename(x *D WK)\n  \
            v[B_?, R_?, S_?, K_?, H_?] = rename(x *D WV)\n\
            {ring}  o = a3 / l3\n  x = x + o *K,G,H WO\n}}\n{close}backward from x given d\n\
            output dWK[D, K, H]\n"
    )
}

#[test]
fn rings_stand_in_layers_and_in_stages() {
    for (name, source) in [
        ("layers", layers("X=4", "", "")),
        ("stages", layers("Z=2, X=4", "pipeline Z, microbatches=4 of B, schedule=1f1b {\n", "}\n")),
    ] {
        let [found, _] = checked_plans(name, &source, Sizes::Scaled);
        assert!(found.report.schedule.makespan_s < found.report.serial_s, "{found}");
    }
}
