//! Attention over long sequences: `roll`, ring attention, and the ways that `cost` compares.

use shardwise::attention::{Attention, Outcome};
use shardwise::verify::evaluate;
use shardwise::{AxisParts, Fusion, Options, Planned};
use shardwise_tests::planning::{planned, runs_right};
use shardwise_tests::{close, read};

const LONG: &str = "tests/programs/attention/long.shard";
const RING: &str = "tests/programs/attention/ring.shard";

/// Bytes a second over one link of a TPU v5p, one way.
const LINK: f64 = 9e10;

fn plan(source: &str) -> Planned {
    planned(source, &Options::default())
}

/// With whole axes: parts of `X` split heads instead of the sequence.
fn plan_of_whole_axes(source: &str) -> Planned {
    planned(source, &Options { parts: AxisParts::AsWritten, ..Options::default() })
}

fn compared(source: &str) -> Attention {
    let cost = plan_of_whole_axes(source).cost();
    assert_eq!(cost.attention.len(), 1, "{source}");
    cost.attention[0].clone()
}

fn way<'a>(attention: &'a Attention, name: &str) -> &'a Outcome {
    attention.ways.iter().find(|outcome| outcome.way == name).expect(name)
}

fn comm_s(attention: &Attention, name: &str) -> f64 {
    way(attention, name)
        .price
        .unwrap_or_else(|| panic!("{name}: {:?}", way(attention, name).why_not))
        .comm_s
}

#[test]
fn a_ring_gives_what_attention_gives() {
    let ring = "
hardware tpu-v5p
mesh X=4
dim R=4, Tq=2, S=3, H=2, M=R*S
input q[R_X, Tq, H], k[R_X, S, H], v[R_X, S, H]
top = sum_H(q) * 0.0 - 1e30
total = sum_H(q) * 0.0
acc = q * 0.0
repeat blocks=4 {
  carry k, v, top, total, acc
  scores = q *H k
  best = maximum(top, max_S(scores))
  p = exp(scores - best)
  fade = exp(top - best)
  total = total * fade + sum_S(p)
  acc = acc * fade + p *S v
  top = best
  k = roll_R(k)
  v = roll_R(v)
}
output o[R_X, Tq, H] = acc / total
keys[M_?, H_?] = reshape(k)
values[M_?, H_?] = reshape(v)
output plain[R_?, Tq_?, H_?] = softmax_M(q *H keys) *M values
";
    let program = shardwise::check("ring", ring, &Options::default()).program.expect("a program");
    let numbers = |seed: usize, count: usize| {
        (0..count).map(|i| ((i * 37 + seed * 11) % 17) as f64 / 8.0 - 1.0).collect::<Vec<f64>>()
    };
    let given = [("q", 1, 16), ("k", 2, 24), ("v", 3, 24)]
        .map(|(name, seed, count)| (name.to_owned(), numbers(seed, count)));
    let values = evaluate(&program, &given.into_iter().collect()).expect("all is declared");
    let (ring, plain) = (&values["o"], &values["plain"]);
    assert_eq!(ring.len(), 16);
    assert!(ring.iter().zip(plain).all(|(a, b)| (a - b).abs() < 1e-12), "{ring:?}\n{plain:?}");
    assert!(plain.iter().any(|x| x.abs() > 0.1), "{plain:?}");
}

#[test]
fn a_ring_passes_blocks_to_the_neighbour_beside_its_compute() {
    let source = read(RING);
    runs_right(&source);
    let planned = plan(&source);
    let json = planned.json();
    let passed: Vec<_> = json.steps.iter().filter(|step| step.kind == "roll").collect();
    assert_eq!(passed.len(), 2, "keys and values:\n{planned}");
    let block = 8192.0 * 8.0 * 128.0 * 2.0;
    for step in passed {
        assert!(close(step.time_s, block / LINK) && !step.critical && step.times == 16, "{step:?}");
    }
    assert!(
        json.cost.scheduled_s < 1.001 * json.cost.compute_s,
        "nothing waits for it:\n{planned}"
    );
    assert_eq!(
        shardwise::plan("again", &planned.to_string(), &Options::default())
            .expect("a plan")
            .to_string(),
        planned.to_string()
    );
}

#[test]
fn a_roll_goes_no_further_than_the_next_block() {
    let source = |by: u64, size: u64| {
        format!(
            "hardware tpu-v5p\nmesh X=4\ndim R={size}, D=4194304\ninput A[R_X, D]\n\
                B = roll_R(A, {by})\noutput B[R_X, D]\n"
        )
    };
    let kinds = |by: u64, size: u64| {
        let text = source(by, size);
        runs_right(&text);
        plan(&text).json().steps.iter().map(|step| step.kind.clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(1, 8), ["roll"]);
    assert_eq!(kinds(7, 8), ["roll"]);
    assert_ne!(kinds(3, 8), ["roll"]);
    let half = |by: u64| plan(&source(by, 8)).json().cost.comm_s;
    assert!(close(2.0 * half(1), half(2)), "half a block takes half as long");
    let refused = "plan\nhardware tpu-v5p\nmesh X=4\ndim R=8, D=4\ninput A[R_X, D]\n\
        B[R_X, D] = roll_R(A[R_X, D], 3)\noutput B[R_X, D]\n";
    let findings = shardwise::plan("far", refused, &Options::default())
        .expect_err("three places are more than a block");
    assert_eq!(findings.reports[0].diag.code, "SW212");
}

#[test]
fn gradients_roll_back() {
    let source = "
hardware tpu-v5p
mesh X=4
dim R=4, D=64, F=32
input x[R_X, D], dy[R_X, F]
param W[D, F]
y = roll_R(x *D W)
backward from y given dy
output y[R_X, F]
";
    let derived =
        shardwise::print_after("roll", source, &Options::default(), shardwise::Pass::Gradient)
            .expect(source);
    assert!(derived.contains("roll_R(dy, 3)"), "{derived}");
    runs_right(source);
}

#[test]
fn every_way_is_a_program_that_is_right() {
    let source = read(LONG).replace("mesh X=16, Y=4", "mesh X=2, Y=4").replace("131072", "8192");
    let attention = compared(&source);
    assert_eq!(
        attention.ways.iter().map(|outcome| outcome.way).collect::<Vec<_>>(),
        ["gather", "ring", "heads", "statistics"]
    );
    for outcome in &attention.ways {
        runs_right(outcome.program.as_ref().expect(outcome.way));
    }
    assert_eq!(attention.ways.iter().filter(|outcome| outcome.planned).count(), 1);
    assert_eq!((attention.queries.1, attention.axes.join("")), (8192, "X".to_owned()));
}

#[test]
fn the_ways_cost_what_the_formulas_say() {
    let attention = compared(&read(LONG));
    // Keys of one device: T/16 * K/4 * H in bf16.
    let block = 131_072.0 / 16.0 * 2.0 * 128.0 * 2.0;
    assert!(close(comm_s(&attention, "gather"), 2.0 * 16.0 * block / (2.0 * LINK)));
    assert!(close(comm_s(&attention, "ring"), 2.0 * 16.0 * block / LINK));
    let unfused =
        Options { fusion: Some(Fusion::None), parts: AxisParts::AsWritten, ..Options::default() };
    let unfused = planned(&read(LONG), &unfused).cost().attention[0].clone();
    let peak = |name: &str| way(&unfused, name).price.map_or(f64::NAN, |price| price.peak_bytes);
    assert!(peak("ring") < peak("gather") / 15.0, "a ring holds one block of scores at a time");
    let heads =
        way(&attention, "heads").why_not.clone().expect("8 heads over Y=4 leave 2 for X=16");
    assert!(heads.contains("K=8"), "{heads}");
}

/// A causal mask leaves the last of 16 devices along the sequence twice the average work: 8 query
/// heads in each group, and the 2 key heads that `Y` leaves, split it evenly.
#[test]
fn parts_of_an_axis_split_heads_where_a_causal_mask_leaves_devices_unequal_work() {
    let source = read(LONG);
    let (parts, whole) = (plan(&source), plan_of_whole_axes(&source));
    assert!(parts.to_string().contains("mesh X=16 as 8x2"), "{parts}");
    assert!(parts.report.serial_s < 0.65 * whole.report.serial_s, "{parts}\n{whole}");
    let open = source.replace("causal_{T,S}((q *H k) * 0.0883883)", "(q *H k) * 0.0883883");
    assert_ne!(open, source);
    let even = plan(&open).to_string();
    assert!(even.contains("mesh X=16, Y=4\n"), "every device has as much to do:\n{even}");
    runs_right(
        &source.replace("131072", "256").replace("X=16, Y=4", "X=4, Y=2").replace("G=8", "G=2"),
    );
}

/// Eight heads over four devices: queries, keys, values and results are moved, each a quarter of
/// what a gather of keys costs eightfold.
#[test]
fn the_search_goes_over_to_heads_where_that_is_cheaper() {
    let source = read(LONG).replace("mesh X=16, Y=4", "mesh X=4, Y=2").replace("G=8", "G=1");
    runs_right(&source);
    let planned = plan(&source);
    let json = planned.json();
    let moved: Vec<&str> = json
        .steps
        .iter()
        .map(|step| step.kind.as_str())
        .filter(|kind| kind.starts_with("all_"))
        .collect();
    assert_eq!(moved, ["all_to_all"; 4], "{planned}");
    let attention = compared(&source);
    assert!(
        way(&attention, "heads").planned
            && comm_s(&attention, "heads") < comm_s(&attention, "gather"),
        "{attention:?}"
    );
    assert!(close(comm_s(&attention, "heads"), json.cost.comm_s), "the same as in the plan");
}

#[test]
fn the_page_shows_what_cost_prints() {
    let table = plan_of_whole_axes(&read(LONG)).cost_table();
    let page = read("compiler/docs/attention.md");
    let shown = page
        .split("```text\nattention")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a block");
    assert!(table.contains(shown.trim_end()), "{table}");
}

#[test]
fn whole_sequences_are_not_compared() {
    let source = read(LONG)
        .replace("T_X", "T")
        .replace("mesh X=16, Y=4", "mesh Y=4")
        .replace("131072", "8192");
    assert!(plan(&source).cost().attention.is_empty());
}
