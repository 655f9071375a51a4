//! Pipelines: planned, run on simulated devices stage by stage, and priced by the formulas of
//! pipelines.

use proptest::prelude::*;
use serde_json::Value;
use shardwise::json::{PlanJson, StepJson};
use shardwise::verify::{Setup, Sizes, evaluate, execute};
use shardwise::{Objective, Options, Planned, Strategy as Planning};
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::Unreduced;
use shardwise_ir::unroll;
use shardwise_tests::facts::holds;
use shardwise_tests::properties::{checked_plans, plan, program};
use shardwise_tests::random::{Arrays, arrays, for_all, numbers};
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{close, files, read};

fn options(strategy: Planning) -> Options {
    Options { strategy, ..Options::default() }
}

fn fixture(name: &str) -> String {
    read(&format!("tests/programs/pipelines/{name}.shard"))
}

fn json(name: &str) -> PlanJson {
    plan(name, &fixture(name), Planning::Textbook).json()
}

/// The search makes small what it is asked to.
fn objectives_hold(name: &str, source: &str) {
    let textbook = plan(name, source, Planning::Textbook).report;
    let cheapest = |objective: Objective| {
        shardwise::plan(name, source, &Options { objective, ..Options::default() })
            .unwrap_or_else(|e| panic!("{name}: {e}"))
            .report
    };
    let (comm_s, overlap_s) =
        (cheapest(Objective::Comm).comm_s, cheapest(Objective::Overlap).overlap_s);
    assert!(
        comm_s <= textbook.comm_s * (1.0 + 1e-12),
        "{name}: {comm_s} {}\n{source}",
        textbook.comm_s
    );
    assert!(
        overlap_s <= textbook.overlap_s * (1.0 + 1e-12),
        "{name}: {overlap_s} {}\n{source}",
        textbook.overlap_s
    );
}

#[test]
fn programs_with_pipelines_are_right_and_their_plans_kept() {
    for (name, source) in files("tests/programs/pipelines", ".shard") {
        let [planned, _] = checked_plans(&name, &source, Sizes::Scaled);
        plan_snapshot("pipelines", &name, &planned);
    }
}

#[test]
fn the_page_is_right() {
    let page = read("compiler/docs/pipelines.md");
    for block in page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        checked_plans("page", block, Sizes::Scaled);
    }
    let is_summary =
        |line: &&str| ["# pipe", "# serial", "#   stage"].iter().any(|it| line.starts_with(it));
    let summary: Vec<&str> = page.lines().filter(is_summary).collect();
    let of = |name: &str| plan(name, &fixture(name), Planning::Search).to_string();
    let planned = of("3d") + &of("uneven");
    assert!(summary.len() == 5 && summary.iter().all(|line| planned.contains(line)), "{planned}");
}

#[test]
fn other_objectives_are_met() {
    objectives_hold("forward", &fixture("forward"));
    let small = "hardware h100\nmesh Z=2 dcn, X=2\ndim B=64, D=512, F=1024\ninput x[B, D_X]\n";
    let layers = "repeat L=4 {\ncarry x\nparam W[D_X, F], V[F, D_X]\nx = x + gelu(x *D W) *F V\n}\n\
        }\noutput x[B_X, D]\n";
    objectives_hold("small", &format!("{small}pipeline Z, microbatches=4 {{\n{layers}"));
}

/// The step that hands a value on to the next stage.
fn hop(plan: &PlanJson, value: &str) -> StepJson {
    plan.steps
        .iter()
        .find(|step| step.kind == "carry" && step.value == value)
        .cloned()
        .unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_device_does_its_layers_for_every_microbatch_and_waits_for_the_others() {
    let (stages, layers, microbatches) = (4.0, 16.0, 8.0);
    let plan = json("gpipe");
    let product = plan.steps.iter().find(|step| step.kind == "einsum").expect("there is one");
    assert!(close(product.times as f64, layers / stages * microbatches), "{product:?}");
    assert!(
        close(product.flops, 2.0 * (8192.0 / 4.0 / microbatches) * 4096.0 * 16384.0),
        "{product:?}"
    );
    let reduction = plan
        .steps
        .iter()
        .find(|step| step.kind == "all_reduce" && step.value == "dWin")
        .expect("there is one");
    assert!(close(reduction.times as f64, layers / stages), "{reduction:?}");
    let by_microbatch: f64 = plan
        .steps
        .iter()
        .filter(|step| step.times as f64 >= microbatches)
        .map(|step| step.times as f64 * step.time_s)
        .sum();
    let bubble_s = plan.cost.bubble_s.expect("there is a pipeline");
    assert!(
        close(
            bubble_s / (by_microbatch + bubble_s),
            (stages - 1.0) / (microbatches + stages - 1.0)
        ),
        "{bubble_s} {by_microbatch}"
    );
}

#[test]
fn chunks_make_the_bubble_smaller_and_the_hops_more() {
    let (one, two) = (json("1f1b"), json("chunks"));
    assert!(close(two.pipelines[0].bubble, 3.0 / (2.0 * 8.0 + 3.0)), "{:?}", two.pipelines);
    assert_eq!(hop(&two, "x.in").times, 2 * hop(&one, "x.in").times);
    assert!(two.cost.bubble_s < one.cost.bubble_s);
    assert!(two.cost.scheduled_s < one.cost.scheduled_s);
}

#[test]
fn schedules_differ_in_what_they_hold() {
    let (all, few) = (json("gpipe"), json("1f1b"));
    assert_eq!(all.pipelines[0].in_flight, [8.0; 4]);
    assert_eq!(few.pipelines[0].in_flight, [4.0, 3.0, 2.0, 1.0]);
    assert_eq!(all.cost.serial_s.to_bits(), few.cost.serial_s.to_bits());
    // What layers keep: what enters them, and what the activation reads; of four layers, four
    // microbatches fewer.
    let rows = 8192.0 / 4.0 / 8.0;
    let kept = 2.0 * rows * (4096.0 + 16384.0);
    let saved = (all.memory.peak_bytes - few.memory.peak_bytes) as f64;
    assert!(close(saved, 4.0 * 4.0 * kept), "{saved} {kept}");
}

#[test]
fn stages_hold_their_own_layers_only() {
    let source = fixture("forward");
    let alone = plan("forward", &source.replace("mesh Z=4", "mesh Z=1"), Planning::Textbook)
        .report
        .memory
        .resident_bytes;
    let staged = plan("forward", &source, Planning::Textbook).report.memory.resident_bytes;
    assert!(close(4.0 * staged, alone), "{staged} {alone}");
}

#[test]
fn one_stage_is_a_block() {
    let source = fixture("gpipe")
        .replace("mesh Z=4", "mesh Z=1")
        .replace("microbatches=8", "microbatches=1 of B");
    let block = source
        .lines()
        .filter(|line| !line.starts_with("pipeline") && *line != "}")
        .collect::<Vec<_>>()
        .join("\n")
        .replace("repeat L=16 {", "repeat L=16 {\n");
    let (staged, block) = (
        plan("staged", &source, Planning::Search).report,
        plan("block", &block, Planning::Search).report,
    );
    assert!(close(staged.serial_s, block.serial_s), "{} {}", staged.serial_s, block.serial_s);
    assert!(staged.bubble_s.abs() < 1e-15);
}

#[test]
fn a_whole_model_counts_all_stages() {
    let (source, options) = (fixture("gpipe"), options(Planning::Textbook));
    let staged = shardwise::plan("staged", &source, &options).expect("it is right").cost();
    let alone =
        shardwise::plan("alone", &source.replace("mesh Z=4, X=4", "mesh Z=1, X=4"), &options)
            .expect("it is right")
            .cost();
    assert!(
        close(staged.parameters.elements, 16.0 * 2.0 * 4096.0 * 16384.0),
        "{}",
        staged.parameters.elements
    );
    assert!(close(staged.flops, alone.flops), "{} {}", staged.flops, alone.flops);
    assert!(staged.flops > 6.0 * staged.parameters.elements * 8192.0);
}

#[test]
fn the_trace_has_a_track_for_each_stage() {
    let trace: Value =
        serde_json::from_str(&plan("1f1b", &fixture("1f1b"), Planning::Textbook).trace())
            .expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let of_pipeline = |phase: &str| {
        events
            .iter()
            .filter(|event| event["pid"] == 1 && event["ph"] == phase)
            .cloned()
            .collect::<Vec<_>>()
    };
    let tracks = of_pipeline("M").iter().filter(|event| event["name"] == "thread_name").count();
    assert_eq!(tracks, 4);
    // Eight microbatches on four stages, forward and back.
    assert_eq!(of_pipeline("X").len(), 2 * 8 * 4);
}

#[test]
fn p5_pp_alg() {
    let plan = json("gpipe");
    let each = |value: &str| hop(&plan, value).times as f64 / 8.0;
    holds("P5-PP-ALG", &[each("x.in"), each("dx.1"), plan.pipelines[0].bubble]);
}

#[test]
fn p5_pp_comm() {
    let source =
        fixture("forward").replace("mesh Z=4, X=4", "mesh Z=4").replace("[B_X, D]", "[B, D]");
    let plan = plan("forward", &source, Planning::Textbook).json();
    let sent = hop(&plan, "x.in");
    holds("P5-PP-COMM", &[sent.local_bytes as f64 / (8192.0 / 8.0 * 4096.0)]);
    // One link, one way: 90 GB/s on TPU v5p.
    assert!(close(sent.time_s, 2.0 * 1024.0 * 4096.0 / 9e10), "{}", sent.time_s);
}

#[test]
fn tb_3d() {
    let planned = plan("3d", &fixture("3d"), Planning::Textbook);
    holds("TB-3D", &[planned.plan.program.mesh.devices() as f64]);
    let of = |kind: &str, axes: &[&str]| {
        planned.json().steps.iter().filter(|step| step.kind == kind && step.axes == axes).count()
    };
    // Tensor parallelism reduces in the node, once forward and once back; gradients over data once
    // a step; stages send across nodes.
    assert_eq!(
        (of("carry", &["Z"]), of("all_reduce", &["Y"]), of("all_reduce", &["X"])),
        (2, 2, 2)
    );
}

#[test]
fn tb_bubble() {
    let share = |microbatches: u64| {
        let source =
            fixture("forward").replace("microbatches=8", &format!("microbatches={microbatches}"));
        plan("forward", &source, Planning::Textbook).json().pipelines[0].bubble
    };
    holds("TB-BUBBLE", &[share(1), share(4), share(16)]);
}

const STEPS: [&str; 6] = [
    "x = x + tanh(x *D W) *F V\n",
    "x = x * s\n",
    "x = tanh(x)\n",
    "x = x + m * x\n",
    "x = x + (tanh(x *D W + x *D W) *F V) * s\n",
    "x = x + softmax_D(x)\n",
];
const SPLITS: [&str; 3] = ["[B, D]", "[B_X, D]", "[B, D_X]"];
const WEIGHTS: [&str; 3] = ["[D, F]", "[D_X, F]", "[D, F_X]"];
const OPTIONS: [&str; 11] = [
    "",
    ", schedule=1f1b",
    ", chunks=2",
    ", schedule=1f1b, chunks=2",
    ", schedule=zb-h1",
    ", schedule=zb-v",
    ", schedule=dualpipe",
    ", schedule=dualpipe-v",
    ", layers=[1, 3]",
    ", schedule=1f1b, layers=[3, 1]",
    ", schedule=dualpipe, layers=[3, 1]",
];

/// A pipeline of random statements over layers' own and shared weights, on so many rows.
fn random(numbers: &[u32], rows: u64, frame: Option<&str>) -> String {
    let pick = |place: usize, of: &[&'static str]| of[numbers[place] as usize % of.len()];
    let mut source = format!("hardware tpu-v5p\nmesh Z=2, X=2\ndim B={rows}, D=4, F=8\n");
    source += &format!("input x{}, dy[B_X, D], m[B, D]\nparam s[D]\n", pick(0, &SPLITS));
    source += frame.unwrap_or("");
    source += &format!("repeat L=4 {{\ncarry x\nparam W{}, V[F, D_X]\n", pick(1, &WEIGHTS));
    source += STEPS[numbers[2] as usize % STEPS.len()];
    source += STEPS[numbers[3] as usize % STEPS.len()];
    source += STEPS[0];
    source += ["checkpoint\n", "", "checkpoint offload x\n"][numbers[4] as usize % 3];
    source += "}\n";
    source += if frame.is_some() { "}\n" } else { "" };
    let from = ["y = tanh(x * s)\n", "y = x * s\n"][numbers[4] as usize % 2];
    source + from + "backward from y given dy\noutput y" + pick(5, &SPLITS) + ", ds[D]\n"
}

fn run(cases: u32, check: impl Fn(&[u32], u64) -> Result<(), TestCaseError>) {
    let inputs = (numbers(6), any::<u32>());
    for_all(cases, &inputs, |(numbers, seed)| check(&numbers, u64::from(seed)));
}

fn frame(number: u64, microbatches: u64) -> String {
    format!(
        "pipeline Z, microbatches={microbatches}{} {{\n",
        OPTIONS[number as usize % OPTIONS.len()]
    )
}

#[test]
fn random_pipelines_are_right() {
    run(16, |numbers, seed| {
        let source = random(numbers, 8, Some(&frame(seed, 4)));
        checked_plans("random", &source, Sizes::Full);
        Ok(())
    });
}

/// All layers of a program written out, unsharded.
fn written_out(source: &str) -> Program {
    let derived = program("random", source);
    unroll::program(&derived, &|block| derived.iterations(Some(block)))
}

/// What a pipeline rests on: each microbatch by itself gives its own rows, and gradients add up.
#[test]
fn microbatches_by_themselves_give_the_whole() {
    run(40, |numbers, seed| {
        let framed = random(numbers, 8, Some(&frame(seed, 4)));
        let (whole, part) = (written_out(&framed), written_out(&random(numbers, 2, None)));
        let given = arrays(&whole, seed);
        let values = evaluate(&whole, &given).expect("all is declared");
        let mut joined: Arrays = Arrays::new();
        for microbatch in 0..4 {
            let rows = |name: &str, all: &[f64]| {
                if ["x", "dy", "m"].contains(&name) {
                    all[microbatch * 8..][..8].to_vec()
                } else {
                    all.to_vec()
                }
            };
            let own: Arrays =
                given.iter().map(|(name, all)| (name.clone(), rows(name, all))).collect();
            for (name, array) in evaluate(&part, &own).expect("all is declared") {
                let so_far = joined.entry(name.clone()).or_default();
                if name == "y" || name == "dx" {
                    so_far.extend(array);
                } else if so_far.is_empty() {
                    *so_far = array;
                } else {
                    so_far.iter_mut().zip(array).for_each(|(sum, more)| *sum += more);
                }
            }
        }
        for name in ["y", "ds", "dW@0", "dV@3"] {
            for (found, expected) in joined[name].iter().zip(&values[name]) {
                prop_assert!(
                    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
                    "{name}: {found} {expected}\n{framed}"
                );
            }
        }
        Ok(())
    });
}

/// `plan` with what comes out of the stages called whole.
fn forgetful(planned: &Planned) -> shardwise_ir::plan::Plan {
    let mut plan = shardwise::Plan::clone(&planned.plan);
    for step in &mut plan.steps {
        let StepKind::Local(op) = step.kind else { continue };
        if plan.program.stage_axis(&plan.program.ops[op]).is_some() {
            step.result.sharding.unreduced = Unreduced::default();
        }
    }
    plan
}

#[test]
fn other_stages_do_not_have_what_comes_out_of_one() {
    let source = fixture("loss");
    let planned = plan("loss", &source, Planning::Textbook);
    let text = planned.to_string();
    let findings =
        shardwise::check("loss", &text.replace("{U_Z} = last", "= last"), &Options::default())
            .findings;
    assert!(
        findings.has_errors() && findings.to_string().contains("`x.end[B_X, D] {U_Z}`"),
        "{findings}"
    );
    // Devices find out by themselves.
    let verdict = execute(&program("loss", &source), &forgetful(&planned), &Setup::default())
        .expect("small enough");
    assert!(verdict.mismatch.is_some(), "{verdict}");
}

/// The text that the first finding proposes.
fn proposed(name: &str, source: &str) -> String {
    let findings = shardwise::check(name, source, &Options::default()).findings;
    findings.reports.first().and_then(|report| report.diag.help.clone()).unwrap_or_default()
}

/// The text that SW609 proposes for microbatches around a pipeline.
#[test]
fn more_microbatches_of_its_own_are_better_than_microbatches_around_a_pipeline() {
    let around = read("tests/programs/codes/sw609-accumulated-around-a-pipeline.shard");
    let message = proposed("around", &around);
    let instead = "pipeline Z, microbatches=32 of B, schedule=1f1b";
    assert!(message.contains(instead), "{message}");
    let alone = around.replace(", microbatches=4\n", "\n");
    let more = alone.replace("pipeline Z, microbatches=8", instead);
    let [more, _] = checked_plans("more", &more, Sizes::Scaled);
    // As if it were done four times over a quarter of the batch.
    let quarter = plan("quarter", &alone.replace("B=8192", "B=2048"), Planning::Search).report;
    let rows = |report: &shardwise_passes::report::Report| {
        report.memory.peak_bytes - report.memory.resident_bytes
    };
    // It fills and drains once, and not four times.
    assert!(
        close(more.report.bubble_s, quarter.bubble_s),
        "{} {}",
        more.report.bubble_s,
        quarter.bubble_s
    );
    // What enters and leaves, and gradients, are there either way.
    let outside = 4.0 * 3.0 * 2.0 * (8192.0 - 2048.0) / 4.0 * 1024.0;
    assert!(
        rows(&more.report) <= rows(&quarter) + outside,
        "{} {}",
        rows(&more.report),
        rows(&quarter)
    );
}

#[test]
fn from_the_last_stage_to_the_first_a_line_takes_every_hop_between() {
    let seconds = |options: &str| {
        let source =
            fixture("forward").replace("mesh Z=4, X=4", "mesh Z=6").replace("[B_X, D]", "[B, D]");
        let source = source.replace("B=8192, D=4096", "B=96, D=64").replace("L=16", "L=24");
        hop(
            &plan("line", &source.replace("microbatches=8", options), Planning::Textbook).json(),
            "x.in",
        )
        .time_s
    };
    assert!(close(seconds("microbatches=12"), 1e-6), "{}", seconds("microbatches=12"));
    assert!(
        close(seconds("microbatches=12, chunks=2"), 5e-6),
        "{}",
        seconds("microbatches=12, chunks=2")
    );
}

#[test]
fn any_number_of_microbatches_and_stages_is_planned_at_once() {
    let with = |from: &str, to: &str| {
        fixture("1f1b").replace("B=8192", from).replace("microbatches=8", to)
    };
    let many = with("B=1048576", "microbatches=1048576")
        .replace("mesh Z=4, X=4", "mesh Z=4")
        .replace("[B_X, D]", "[B, D]");
    assert!(close(plan("many", &many, Planning::Textbook).json().pipelines[0].in_flight[0], 4.0));
    let wide = with("B=65536", "microbatches=65536")
        .replace("Z=4", "Z=65536 dcn")
        .replace("L=16", "L=65536");
    let planned = plan("wide", &wide, Planning::Textbook);
    assert!(close(planned.json().pipelines[0].bubble, 65535.0 / 131_071.0));
    assert!(planned.report.schedule.makespan_s <= planned.report.serial_s);
    let too_many = with("B=4096", "microbatches=4611686018427387905");
    let message = proposed("too many", &too_many);
    assert!(message.contains("write `microbatches=4096`"), "{message}");
    // More microbatches than memory counts: refused, and not tried.
    let endless = with("B=1099511627776", "microbatches=1099511627776").replace("1f1b", "gpipe");
    assert!(shardwise::plan("endless", &endless, &options(Planning::Search)).is_err());
}

#[test]
fn limits_on_memory_hold_and_1f1b_needs_less() {
    let peak = |name: &str| plan(name, &fixture(name), Planning::Textbook).report.memory.peak_bytes;
    let between = f64::midpoint(peak("1f1b"), peak("gpipe"));
    let within = |name: &str, bytes: f64| {
        shardwise::plan(
            name,
            &fixture(name),
            &Options { memory: Some(bytes), ..options(Planning::Textbook) },
        )
    };
    assert!(within("1f1b", between).is_ok_and(|planned| planned.warnings.is_empty()));
    assert!(!within("gpipe", between).is_ok_and(|planned| planned.warnings.is_empty()));
    assert!(
        shardwise::plan(
            "1f1b",
            &fixture("1f1b"),
            &Options { memory: Some(1e9), ..Options::default() }
        )
        .is_err()
    );
}
