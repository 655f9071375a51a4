//! The bubble in the sum of steps, a formula, against the simulated one, with and without
//! gradients.

use shardwise::json::{CostJson, PlanJson};
use shardwise::{Objective, Options, Planned};
use shardwise_ir::stages::{Schedule, Stages};
use shardwise_passes::pipeline_schedule::{
    Pass, PassTimes, PipelineShape, StageTimes, order, simulate,
};
use shardwise_passes::{Effort, Optimality, Request, Tables, report, search};
use shardwise_tests::{close, files};

/// Layers at each position: the bubble is whole layers for each of the three passes.
const LAYERS: u64 = 3;
/// Stages and microbatches of the tests.
const MOST: u64 = 8;

/// The shapes that a schedule can have on up to eight stages, with more microbatches only where
/// it needs them.
fn shapes(schedule: Schedule, trains: bool) -> Vec<PipelineShape> {
    let is_dual = matches!(schedule, Schedule::DualPipe | Schedule::DualPipeV);
    let chunks = schedule.fixed_chunks().unwrap_or(1);
    let all = (1..=MOST).flat_map(|stages| (1..=2 * MOST + 4).map(move |count| (stages, count)));
    let can = |&(stages, microbatches): &(u64, u64)| {
        let is_even = |count: u64| !schedule.is_bidirectional() || count.is_multiple_of(2);
        is_even(stages) && is_even(microbatches) && (!is_dual || microbatches >= 2 * stages)
    };
    let shape =
        |(stages, microbatches)| PipelineShape { stages, microbatches, chunks, schedule, trains };
    all.filter(can).map(shape).collect()
}

fn equal_times(trains: bool) -> StageTimes {
    let backward_s = if trains { 2.0 } else { 0.0 };
    let longest = PassTimes { forward_s: 1.0, backward_s, weights_s: backward_s / 2.0 };
    StageTimes { longest, ..StageTimes::default() }
}

#[test]
fn the_bubble_of_equal_passes_is_the_simulated_one() {
    for (schedule, trains) in Schedule::ALL.into_iter().flat_map(|of| [(of, true), (of, false)]) {
        for shape in shapes(schedule, trains) {
            let times = equal_times(trains);
            let PipelineShape { stages, microbatches, chunks, .. } = shape;
            let simulated_s = simulate(&shape, &times).makespan_s;
            let thirds = schedule.bubble_thirds(stages, microbatches, trains) as f64;
            let busy_s = times.longest.busy_s(trains);
            let formula_s = busy_s * ((chunks * microbatches) as f64 + thirds / 3.0);
            assert!(close(simulated_s, formula_s), "{shape:?}: {simulated_s}, not {formula_s}");
            let layers = Stages::new(schedule, stages, vec![LAYERS; (stages * chunks) as usize]);
            let turns = layers.trip_count(microbatches, 1, trains);
            let in_sum_s = turns.including_bubble as f64 / LAYERS as f64 * busy_s;
            assert!(close(simulated_s, in_sum_s), "{shape:?}: {simulated_s}, not {in_sum_s}");
            let least_s = turns.waited as f64 / LAYERS as f64 * busy_s;
            assert!(least_s <= simulated_s * (1.0 + 1e-9), "{shape:?}: {least_s} {simulated_s}");
            let sends = layers.receives(microbatches, trains);
            assert!(sends.including_bubble >= sends.per_device, "{shape:?}: {sends:?}");
        }
    }
}

/// Each stage passes all of its chunks and copies once per microbatch, and no order is shorter: the
/// stages before and after the middle ones, or the last one, have to be passed.
#[test]
fn without_gradients_stages_only_wait_to_fill_and_drain() {
    for schedule in Schedule::ALL {
        for shape in shapes(schedule, false) {
            let PipelineShape { stages, microbatches, chunks, .. } = shape;
            let run = simulate(&shape, &equal_times(false));
            let mut works: Vec<_> = run.placed.iter().map(|it| (it.stage, it.work)).collect();
            works.sort_unstable();
            works.dedup();
            assert_eq!(works.len() as u64, stages * chunks * microbatches, "{shape:?}");
            assert!(works.iter().all(|(_, work)| work.pass == Pass::Forward), "{shape:?}");
            let waits = match schedule {
                Schedule::DualPipe => stages - 2,
                Schedule::ZeroBubbleV | Schedule::DualPipeV => 2 * (stages - 1),
                _ => stages - 1,
            };
            let shortest_s = (chunks * microbatches + waits) as f64;
            assert!(close(run.makespan_s, shortest_s), "{shape:?} {}", run.makespan_s);
        }
    }
}

#[test]
fn without_gradients_zb_h1_is_1f1b() {
    for shape in shapes(Schedule::ZeroBubble, false) {
        let plain = PipelineShape { schedule: Schedule::OneForwardOneBackward, ..shape };
        for stage in 0..shape.stages {
            assert_eq!(order(&shape, stage), order(&plain, stage), "{shape:?}");
        }
    }
}

/// Rounding makes no bubble negative, which was printed as `-0.0%`.
#[test]
fn no_bubble_is_negative() {
    let [forward_s, backward_s, weights_s] = [0.1, 0.7, 0.3];
    let longest = PassTimes { forward_s, backward_s, weights_s };
    let times = StageTimes { longest, ..StageTimes::default() };
    for schedule in Schedule::ALL {
        for shape in shapes(schedule, true) {
            let bubble = shape.bubble(&times);
            assert!(bubble.is_sign_positive() && bubble < 1.0, "{shape:?}: {bubble}");
            assert!(shape.stages > 1 || bubble < 1e-12, "{shape:?}: {bubble}");
        }
    }
}

/// Four layers on each of the stages.
fn program(shape: &PipelineShape, checkpoint: &str) -> String {
    let PipelineShape { stages, microbatches, schedule, trains, .. } = *shape;
    let (schedule, layers, batch) = (schedule.name(), 4 * stages, 2048 * microbatches);
    let (given, end) = if trains {
        ("x[B, D], dy[B, D]", "backward from x given dy\n")
    } else {
        ("x[B, D]", "output x[B, D]\n")
    };
    format!(
        "hardware h100\nmesh Z={stages}\ndim B={batch}, D=4096, F=16384\ninput {given}\n\
        pipeline Z, microbatches={microbatches}, schedule={schedule} {{\nrepeat L={layers} {{\n\
        carry x\n{checkpoint}param w1[D, F], w2[F, D]\nx = x + gelu(x *D w1) *F w2\n}}\n}}\n{end}"
    )
}

fn planned(source: &str) -> Planned {
    shardwise::plan("pipeline", source, &Options::default())
        .unwrap_or_else(|no| panic!("{no}\n{source}"))
}

/// What the times of a plan with a pipeline have to be to each other.
fn ordered(name: &str, planned: &Planned) -> PlanJson {
    let json = planned.json();
    let cost = &json.cost;
    let makespan_s: f64 = json.pipelines.iter().map(|of| of.makespan_s).sum();
    let parts_s = cost.compute_s + cost.comm_s + cost.bubble_s.unwrap_or(0.0);
    assert!(cost.scheduled_s >= makespan_s * (1.0 - 1e-9), "{name}: {planned}");
    assert!(cost.scheduled_s <= cost.serial_s, "{name}: {planned}");
    assert!(cost.overlap_s <= cost.scheduled_s, "{name}: {planned}");
    assert!(close(parts_s, cost.serial_s), "{name}: {planned}");
    assert!(planned.lower_bound_s() <= cost.serial_s, "{name}: {planned}");
    assert!(cost.serial_s <= planned.textbook.serial_s * (1.0 + 1e-12), "{name}: {planned}");
    assert!(!planned.to_string().contains("-0.0%"), "{name}: {planned}");
    json
}

#[test]
fn no_schedule_is_shorter_than_its_pipeline_or_longer_than_the_sum() {
    let few = [(1, 8), (2, 1), (4, 1), (4, 2), (4, 4), (4, 8), (8, 8), (8, 16)];
    for (schedule, trains) in Schedule::ALL.into_iter().flat_map(|of| [(of, true), (of, false)]) {
        let all = shapes(schedule, trains).into_iter();
        for shape in all.filter(|of| few.contains(&(of.stages, of.microbatches))) {
            let kept: &[&str] = if trains { &["", "checkpoint\n"] } else { &[""] };
            for checkpoint in kept {
                let source = program(&shape, checkpoint);
                ordered(&source, &planned(&source));
            }
        }
    }
    for (name, source) in files("tests/programs/pipelines", ".shard") {
        ordered(&name, &planned(&source));
    }
}

/// One microbatch passes all chunks forward and back while every other stage waits, whatever the
/// gradients of weights could fill.
#[test]
fn a_microbatch_alone_takes_the_time_of_all_stages() {
    for schedule in [Schedule::ZeroBubble, Schedule::ZeroBubbleV] {
        let chunks = schedule.fixed_chunks().expect("it decides them");
        let shape = PipelineShape { stages: 4, microbatches: 1, chunks, schedule, trains: true };
        let planned = planned(&program(&shape, ""));
        let json = ordered(schedule.name(), &planned);
        // Two of three passes on all four stages, and the gradients of weights of the first.
        let alone_s = json.cost.compute_s * (4.0 * 2.0 + 1.0) / 3.0;
        assert!(json.cost.scheduled_s >= alone_s, "{:?}", json.cost);
        // The search has minimised a sum below that: its plan may not be the best.
        let steps = planned.report.steps.iter();
        let sum_s: f64 = steps.map(|step| step.including_bubble * step.seconds).sum();
        assert!(sum_s < 0.99 * json.cost.serial_s, "{sum_s} {:?}", json.cost);
        assert_eq!(planned.status_name(), "bounded", "{planned}");
        assert!(planned.lower_bound_s() <= sum_s * (1.0 + 1e-9), "{planned}");
    }
}

#[test]
fn without_gradients_pipelines_cost_what_their_bubble_does() {
    let cost = |schedule: Schedule| {
        let chunks = schedule.fixed_chunks().unwrap_or(1);
        let shape = PipelineShape { stages: 4, microbatches: 32, chunks, schedule, trains: false };
        let json = ordered(schedule.name(), &planned(&program(&shape, "")));
        (json.cost, json.pipelines[0].bubble)
    };
    let (plain, bubble) = cost(Schedule::OneForwardOneBackward);
    assert!(close(bubble, 3.0 / 35.0), "{bubble}");
    let (delayed, bubble) = cost(Schedule::ZeroBubble);
    assert!(close(bubble, 3.0 / 35.0), "{bubble}");
    let times = |of: &CostJson| [of.serial_s, of.overlap_s, of.scheduled_s];
    assert!(times(&plain).into_iter().zip(times(&delayed)).all(|(a, b)| close(a, b)));
    for schedule in [Schedule::ZeroBubbleV, Schedule::DualPipeV] {
        let (turned, bubble) = cost(schedule);
        assert!(close(bubble, 3.0 / 35.0), "{schedule:?} {bubble}");
        assert!(close(turned.overlap_s, turned.compute_s * 35.0 / 32.0), "{turned:?}");
    }
    let (both_ends, bubble) = cost(Schedule::DualPipe);
    assert!(close(bubble, 2.0 / 34.0), "{bubble}");
    assert!(both_ends.scheduled_s < plain.scheduled_s, "{both_ends:?} {plain:?}");
}

/// The plan of the least sum has the longer schedule of two, and is the costlier one by that: where
/// the search starts from the other, it stays with it.
#[test]
fn a_start_with_a_shorter_schedule_is_not_left_for_a_smaller_sum() {
    let source = "hardware tpu-v5p\nmesh Z=4, X=2\ndim B=2048, D=2048, F=704, G=2304\n\
        input x[B, D], dy[B, D]\npipeline Z, microbatches=1, schedule=zb-h1 {\nrepeat L=8 {\n\
        carry x\nparam W1[D, F], W2[F, D], U1[D, G], U2[G, D]\na = gelu(x *D W1) *F W2\n\
        b[B, D] = gelu(x *D U1) *G U2\nx[B, D] = x + tanh(a) + b\n}\n}\n\
        backward from x given dy\n";
    // With more effort, the schedule is shorter still, and the sum larger.
    let (objective, effort) = (Objective::Scheduled, Effort::Quick);
    let options = Options { objective, effort, ..Options::default() };
    let start = shardwise::plan("pipeline", source, &options).expect("it has a plan");
    let program = start.plan.program.clone().into();
    let tables = Tables::new(&program, start.refinement);
    let without_s = planned(source).report.serial_s;
    assert!(start.report.serial_s < 0.99 * without_s, "{start}");
    let found = search(&tables, &start.plan, &Request::default()).expect("it is feasible");
    let optimality = found.optimality;
    let with_s = report::report(&found.plan.into(), start.refinement).serial_s;
    assert!(with_s <= start.report.serial_s * (1.0 + 1e-9), "{with_s} {start}");
    assert!(matches!(optimality, Optimality::Bounded { lower_bound_s } if lower_bound_s < with_s));
}

/// With microbatches from both ends a device runs half of them through each of two stages: unequal
/// stages `i` and `n-1-i` even out.
#[test]
fn compute_of_two_directions_is_that_of_the_busiest_device() {
    let source = |layers: &str| {
        format!(
            "hardware h100\nmesh Z=4 dcn\ndim B=64, T=512, D=1024, F=4096\n\
             input x[B, T, D], dy[B, T, D]\n\
             pipeline Z, microbatches=64 of B, schedule=dualpipe{layers} {{\n\
             repeat L=10 {{\ncarry x\nparam win[D, F], wout[F, D]\n\
             x = x + gelu(x *D win) *F wout\n}}\n}}\nbackward from x given dy\n\
             output dx[B, T, D]\n"
        )
    };
    for layers in ["", ", layers=[2, 2, 3, 3]", ", layers=[1, 2, 3, 4]", ", layers=[4, 2, 2, 2]"] {
        let planned = shardwise::plan("both ends", &source(layers), &Options::default())
            .unwrap_or_else(|e| panic!("{e}"));
        let stages = planned.json().pipelines[0].by_stage.clone();
        let busiest_s = stages.iter().map(|stage| stage.busy_s).fold(0.0, f64::max);
        let report = &planned.report;
        assert!(close(report.compute_s, busiest_s), "{layers}: {} {busiest_s}", report.compute_s);
        assert!(report.overlap_s <= report.schedule.makespan_s * (1.0 + 1e-9), "{planned}");
    }
}
