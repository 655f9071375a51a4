//! `checkpoint` by kinds of values: what is computed again, and that gradients stay the same.

use shardwise::verify::{Sizes, evaluate};
use shardwise::{Hardware, Options, Planned};
use shardwise_ir::unroll;
use shardwise_passes::report::Report;
use shardwise_tests::planning::planned;
use shardwise_tests::properties::{checked_plans, program};
use shardwise_tests::random::arrays;
use shardwise_tests::read;

#[test]
fn the_page_is_right() {
    let page = read("compiler/docs/checkpoint.md");
    let blocks = page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.for_each(|block| {
        checked_plans("page", block, Sizes::Scaled);
    });
}

/// Two small layers of attention and a gated MLP, with this statement at the end of each.
fn layers(checkpoint: &str) -> String {
    format!(
        "hardware h100\nmesh X=1\ndim B=2, T=4, S=T, D=8, N=2, H=4, F=16\n\
        input x[B, T, D], dy[B, T, D]\nrepeat L=2 {{\ncarry x\n\
        param wq[D, N, H], wk[D, N, H], wv[D, N, H], wo[N, H, D], win[D, F], wout[F, D]\n\
        q = x *D wq\nk[B, S, N, H] = rename(x *D wk)\nv[B, S, N, H] = rename(x *D wv)\n\
        l = causal_{{T,S}}(q *H k)\np = softmax_S(l)\no = p *S v\nx = x + o *N,H wo\n\
        m = rmsnorm_D(x)\nh = gelu(m *D win)\nx = x + h *F wout\n{checkpoint}\n}}\n\
        backward from x given dy\noutput dx[B, T, D]\n"
    )
}

/// The names of the values that are computed again.
fn again(checkpoint: &str) -> Vec<String> {
    again_in(&layers(checkpoint))
}

fn again_in(source: &str) -> Vec<String> {
    let program = program("layers", source);
    let names = program.ops.iter().map(|op| program.values[op.result].name.clone());
    names.filter_map(|name| Some(name.split_once(".again")?.0.to_owned())).collect()
}

#[test]
fn kinds_of_values_are_computed_again() {
    assert_eq!(again(""), [""; 0]);
    // The scores before the mask are read by nothing going back but the mask.
    let written = |checkpoint: &str| {
        again_in(&layers(checkpoint).replace("h100", "h100, fusion=elementwise"))
    };
    assert_eq!(written("checkpoint only attention"), ["l.1", "l", "p"]);
    assert_eq!(written("checkpoint only attention, mlp"), ["l.1", "l", "p", "h.1", "h"]);
    // The kernel of gradients does that by itself, unless its result is computed again, too.
    assert_eq!(again("checkpoint only attention"), [""; 0]);
    assert_eq!(again("checkpoint only o"), ["l.1", "l", "p", "o"]);
    assert_eq!(again("checkpoint only mlp"), ["h.1", "h"]);
    assert_eq!(again("checkpoint only h"), ["h"]);
    let kept_products = again("checkpoint keep products");
    assert!(kept_products.contains(&"p".to_owned()) && kept_products.contains(&"h".to_owned()));
    assert!(!kept_products.contains(&"q".to_owned()) && !kept_products.contains(&"h.1".to_owned()));
    // The product inside of attention is not kept, its result is.
    assert!(kept_products.contains(&"l.1".to_owned()) && !kept_products.contains(&"o".to_owned()));
    assert!(again("checkpoint").contains(&"q".to_owned()));
    assert_eq!(again("checkpoint keep h"), again("checkpoint h"));
}

/// Gradients gather what was kept: that is no statement of the block that keeps it.
#[test]
fn a_value_that_is_moved_going_back_is_kept_in_its_own_block() {
    let source = "hardware tpu-v5p\nmesh X=2, Y=2\ndim B=256, D=256, F=512\n\
        input x[B_X, D], dy[B_X, D]\nrepeat L=4 {\ncarry x\nparam W[D, F], V[F, D]\n\
        h[B_X, F] = gelu(x *D W)\nx[B_X, D] = x + h *F V\ncheckpoint h\n}\n\
        backward from x given dy\n";
    let [plan, _] = checked_plans("moved", source, Sizes::Scaled);
    let text = plan.plan.to_string();
    assert!(text.contains("  h[B, F] = AllGather_X(h[B_X, F])"), "{text}");
    assert_eq!(text.matches("checkpoint h").count(), 1, "{text}");
    assert_eq!(planned(&text, &Options::default()).plan.to_string(), text);
}

#[test]
fn gradients_do_not_depend_on_what_is_kept() {
    let gradients = |checkpoint: &str| {
        let program = program("layers", &layers(checkpoint));
        let whole = unroll::program(&program, &|block| program.iterations(Some(block)));
        evaluate(&whole, &arrays(&whole, 11)).expect("all is declared")
    };
    let kept = gradients("");
    for checkpoint in [
        "checkpoint",
        "checkpoint q, h",
        "checkpoint only attention",
        "checkpoint only mlp, q",
        "checkpoint keep products",
        "checkpoint keep attention, mlp",
        "checkpoint offload x, q, mlp",
        "checkpoint\ncheckpoint offload x",
    ] {
        let again = gradients(checkpoint);
        for name in ["dx", "dwq@0", "dwv@1", "dwin@0", "dwout@1"] {
            let pairs = kept[name].iter().zip(&again[name]);
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 1e-12, "{checkpoint}: {name} {worst}");
        }
    }
}

/// Layers of attention and an MLP, larger, with these weights and this checkpoint.
fn trained(rates: &str, weights: &str, checkpoint: &str) -> Report {
    let source = format!(
        "hardware h100, rates={rates}\nmesh X=8\n\
         dim B=8, T=4096, S=T, D=2048, N=16, H=128, F=8192\n\
         input x[B_X, T, D], dy[B_X, T, D]\nrepeat L=4 {{\ncarry x\n\
         param wq[D, N, H], wk[D, N, H], wv[D, N, H], wo[N, H, D], w1[D, F], w2[F, D]\n\
         a = rmsnorm_D(x)\nq = a *D wq\nk = rename_{{T->S}}(a *D wk)\n\
         v = rename_{{T->S}}(a *D wv)\nl = causal_{{T,S}}(0.09 * (q *H k))\n{weights}\n\
         x = x + o *N,H wo\nx = x + gelu(rmsnorm_D(x) *D w1) *F w2\n{checkpoint}\n}}\n\
         backward from x given dy\noutput dx[B_X, T, D]\n"
    );
    planned(&source, &Options::default()).report
}

/// Attention is one operation to policies: its scores are products that no kernel writes, so that
/// keeping products keeps its result.
#[test]
fn keeping_products_takes_time_and_memory_between_all_and_nothing() {
    let softmax = "p = softmax_S(l)\no = p *S v";
    let written_out = "e = exp(l - max_S(l))\no = (e *S v) / sum_S(e)";
    for (rates, weights) in [("peak", softmax), ("measured", softmax), ("measured", written_out)] {
        let with = |checkpoint: &str| trained(rates, weights, checkpoint);
        let [all, products, nothing] = ["", "checkpoint keep products", "checkpoint"].map(with);
        let seconds = [&all, &products, &nothing].map(|report| report.compute_s);
        assert!(seconds.is_sorted() && seconds[1] < 1.05 * seconds[0], "{weights}: {seconds:?}");
        let bytes = [&nothing, &products, &all].map(|report| report.memory.peak_bytes);
        // At peak rates nothing else than products is kept without a checkpoint either.
        let least = if rates == "peak" { 1.03 * bytes[2] } else { 0.9 * bytes[2] };
        assert!(bytes[0] < 0.85 * bytes[1] && bytes[1] < least, "{rates} {weights}: {bytes:?}");
        // Whatever a checkpoint says of scores, the kernels are the same.
        for scores in ["checkpoint only attention", "checkpoint only l", "checkpoint offload l"] {
            let other = with(scores);
            near(other.memory.host_bytes, 0.0);
            assert!(other.memory.peak_bytes <= all.memory.peak_bytes, "{scores}");
            assert!(other.compute_s <= all.compute_s, "{rates} {weights} {scores}");
        }
        near(with("checkpoint l").compute_s, nothing.compute_s);
    }
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
}

/// Layers with these statements at their end, planned.
fn offloaded(statements: &str) -> Planned {
    let source = read("tests/programs/layers/offload.shard");
    let source = source.replace("  checkpoint\n  checkpoint offload x\n", statements);
    planned(&source, &Options::default())
}

#[test]
fn what_waits_on_the_host_takes_no_memory_of_the_device() {
    let kept = offloaded("  checkpoint\n").report;
    let sent = offloaded("  checkpoint\n  checkpoint offload x\n").report;
    // Of 8 layers, and of 8 devices: rows of the batch, all positions, two bytes.
    let bytes = 8.0 * (64.0 * 512.0 * 1024.0 * 2.0) / 8.0;
    near(sent.memory.host_bytes, bytes);
    near(kept.memory.host_bytes, 0.0);
    // One of them is on the device, when it has come back.
    near(kept.memory.peak_bytes - sent.memory.peak_bytes, bytes * 7.0 / 8.0);
    near(sent.host_s, 2.0 * bytes / 64e9);
    near(sent.serial_s - kept.serial_s, sent.host_s);
    // Schedules hide most of it.
    assert!(sent.schedule.makespan_s - kept.schedule.makespan_s < 0.2 * sent.host_s);
    assert!(sent.schedule.makespan_s >= sent.overlap_s);
}

#[test]
fn only_what_gradients_read_is_sent_to_the_host() {
    let sent = |checkpoint: &str| {
        let source = layers(checkpoint).replace("h100", "h100, fusion=none");
        let program = program("layers", &source);
        let sent = program.ops.iter().filter(|op| op.is_stored_on_host());
        sent.map(|op| program.values[op.operands[0].value].name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(sent("checkpoint offload x, o"), ["x.in", "o"]);
    // The mask and what it reads are no part of the gradients of softmax.
    assert_eq!(sent("checkpoint offload l, p"), ["p"]);
    // Computed again from what comes back, and no longer read itself.
    assert_eq!(sent("checkpoint\ncheckpoint offload m, h"), ["m", "h"]);
    assert_eq!(sent("checkpoint offload attention"), ["p"]);
    let fused = program("layers", &layers("checkpoint offload attention, o"));
    let stored = fused.ops.iter().filter(|op| op.is_stored_on_host());
    let stored: Vec<_> = stored.map(|op| &fused.values[op.operands[0].value].name).collect();
    assert_eq!(stored, ["o"]);
}

#[test]
fn tighter_host_links_make_schedules_longer_and_never_shorter_than_the_transfers() {
    let at = |bandwidth: f64| {
        let chip = Hardware {
            name: "chip".to_owned(),
            host_bandwidth: Some(bandwidth),
            ..Hardware::preset("h100").expect("it is one")
        };
        let source = read("tests/programs/layers/offload.shard").replace("h100", "chip");
        planned(&source, &Options { known: vec![chip], ..Options::default() }).report
    };
    let (slow, fast) = (at(4e9), at(64e9));
    assert!(slow.schedule.makespan_s > fast.schedule.makespan_s);
    assert!(slow.schedule.makespan_s >= slow.host_s && slow.overlap_s >= slow.host_s);
    near(slow.host_s, 16.0 * fast.host_s);
}
