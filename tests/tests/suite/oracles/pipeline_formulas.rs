//! Simulated pipelines against closed formulas.

use proptest::prelude::{prop_assert, prop_assert_eq};
use shardwise::Strategy;
use shardwise_ir::stages::{Schedule, Stages};
use shardwise_passes::pipeline_schedule::{
    Pass, PassTimes, PipelineShape, Placed, Slot, StageTimes, StageWork, order, simulate,
};
use shardwise_passes::pipeline_stages;
use shardwise_tests::properties::plan;
use shardwise_tests::random::for_all;
use shardwise_tests::{close, files};

/// Random shapes of each test.
const CASES: u32 = 256;
const SCHEDULES: [Schedule; 2] = [Schedule::GPipe, Schedule::OneForwardOneBackward];

fn shape(stages: u64, microbatches: u64, schedule: Schedule) -> PipelineShape {
    PipelineShape { stages, microbatches, chunks: 1, schedule, trains: true }
}

fn times(forward_s: f64, backward_s: f64) -> StageTimes {
    let longest = PassTimes { forward_s, backward_s, weights_s: 0.0 };
    StageTimes { longest, ..StageTimes::default() }
}

/// The share of time in which stages are idle.
fn idle(shape: &PipelineShape, times: &StageTimes) -> f64 {
    let run = simulate(shape, times);
    let busy: f64 = run.placed.iter().map(|placed| placed.end_s - placed.start_s).sum();
    1.0 - busy / (shape.stages as f64 * run.makespan_s)
}

#[test]
fn both_schedules_idle_as_long() {
    let inputs = (1_u64..9, 1_u64..40, 1_u32..9, 1_u32..20);
    for_all(CASES, &inputs, |(stages, microbatches, forward, backward)| {
        let times = times(f64::from(forward), f64::from(backward));
        let slots = (microbatches + stages - 1) as f64;
        for schedule in SCHEDULES {
            let shape = shape(stages, microbatches, schedule);
            let makespan_s = simulate(&shape, &times).makespan_s;
            let expected_s = slots * times.longest.busy_s(true);
            prop_assert!(close(makespan_s, expected_s), "{shape:?} {makespan_s} {expected_s}");
            let idle = idle(&shape, &times);
            prop_assert!((idle - (stages - 1) as f64 / slots).abs() < 1e-9);
            prop_assert!((shape.bubble(&times) - idle).abs() < 1e-9);
        }
        Ok(())
    });
}

#[test]
fn chunks_divide_the_bubble() {
    let inputs = (2_u64..7, 1_u64..6, 1_u64..5, 1_u32..5);
    for_all(CASES, &inputs, |(stages, rounds, chunks, backward)| {
        for schedule in SCHEDULES {
            let shape = PipelineShape { chunks, ..shape(stages, stages * rounds, schedule) };
            let times = times(1.0, f64::from(backward));
            let slots = (chunks * stages * rounds + stages - 1) as f64;
            let makespan_s = simulate(&shape, &times).makespan_s;
            let expected_s = slots * times.longest.busy_s(true);
            prop_assert!(close(makespan_s, expected_s), "{shape:?} {makespan_s}");
            prop_assert!((shape.bubble(&times) - idle(&shape, &times)).abs() < 1e-9);
        }
        Ok(())
    });
}

#[test]
fn forward_alone_idles_likewise() {
    for_all(CASES, &(1_u64..7, 1_u64..6, 1_u64..5), |(stages, rounds, chunks)| {
        let shape = shape(stages, stages * rounds, Schedule::GPipe);
        let shape = PipelineShape { chunks, trains: false, ..shape };
        let expected_s = (chunks * stages * rounds + stages - 1) as f64;
        prop_assert!(close(simulate(&shape, &times(1.0, 0.0)).makespan_s, expected_s));
        prop_assert!(close(shape.in_flight(0), 1.0));
        Ok(())
    });
}

#[test]
fn stages_hold_what_waits_for_gradients() {
    for_all(CASES, &(1_u64..9, 1_u64..40), |(stages, microbatches)| {
        let in_flight = |schedule, stage| shape(stages, microbatches, schedule).in_flight(stage);
        for stage in 0..stages {
            let all = in_flight(Schedule::GPipe, stage);
            let few = in_flight(Schedule::OneForwardOneBackward, stage);
            prop_assert!(close(all, microbatches as f64));
            prop_assert!(close(few, microbatches.min(stages - stage) as f64), "{few}");
        }
        Ok(())
    });
}

#[test]
fn nobody_does_two_things_at_once_or_before_they_can_be_done() {
    let inputs = (1_u64..6, 1_u64..5, 1_u64..4, 0_u32..4, 1_u32..4);
    for_all(CASES, &inputs, |(stages, rounds, chunks, hop, backward)| {
        let hop_s = f64::from(hop);
        let times = StageTimes { hop_s, hop_back_s: hop_s, ..times(1.0, f64::from(backward)) };
        for schedule in SCHEDULES {
            let shape = PipelineShape { chunks, ..shape(stages, stages * rounds, schedule) };
            let placed = simulate(&shape, &times).placed;
            prop_assert_eq!(placed.len() as u64, 2 * chunks * stages * stages * rounds);
            for stage in 0..stages {
                let own: Vec<_> = placed.iter().filter(|placed| placed.stage == stage).collect();
                prop_assert!(own.windows(2).all(|pair| pair[0].end_s <= pair[1].start_s));
            }
            for work in &placed {
                let source = producer(&shape, &placed, work);
                let wait_s = |it: &Placed| if it.stage == work.stage { 0.0 } else { hop_s };
                prop_assert!(source.is_none_or(|it| it.end_s + wait_s(it) <= work.start_s + 1e-9));
            }
        }
        Ok(())
    });
}

/// The work that this work waits for: the same microbatch at the position before, or going backward
/// the one after.
fn producer<'p>(shape: &PipelineShape, placed: &'p [Placed], work: &Placed) -> Option<&'p Placed> {
    let positions = shape.stages * shape.chunks;
    let here = position(shape, work);
    let find = |position: u64, back: bool| {
        placed.iter().find(|it| {
            it.work.microbatch == work.work.microbatch
                && is_on_path(it, back)
                && self::position(shape, it) == position
        })
    };
    match work.work.pass {
        Pass::Forward => here.checked_sub(1).and_then(|before| find(before, false)),
        Pass::WeightGradients => find(here, true),
        _ if here + 1 == positions => find(here, false),
        _ => find(here + 1, true),
    }
}

/// Whether work is forward, or computes gradients of activations.
fn is_on_path(placed: &Placed, back: bool) -> bool {
    match placed.work.pass {
        Pass::Forward => !back,
        Pass::Backward | Pass::InputGradients => back,
        Pass::WeightGradients => false,
    }
}

/// The position of the layers of work on the path of its microbatch.
fn position(shape: &PipelineShape, placed: &Placed) -> u64 {
    let mirrored = match shape.schedule {
        Schedule::DualPipe => placed.work.microbatch >= shape.microbatches / 2,
        Schedule::ZeroBubbleV | Schedule::DualPipeV => placed.work.chunk == 1,
        _ => false,
    };
    let place = if mirrored { shape.stages - 1 - placed.stage } else { placed.stage };
    placed.work.chunk * shape.stages + place
}

/// What is held, counted through the order of work.
fn counted(shape: &PipelineShape, stage: u64) -> f64 {
    let mut held = 0_u64;
    let mut most = 0;
    for work in order(shape, stage).into_iter().flat_map(Slot::works) {
        match work.pass {
            Pass::Forward => held += 1,
            Pass::Backward | Pass::WeightGradients => held -= 1,
            Pass::InputGradients => {}
        }
        most = most.max(held);
    }
    let copies = if shape.schedule.is_bidirectional() { 2 } else { shape.chunks };
    most as f64 / copies as f64
}

#[test]
fn what_is_in_flight_is_what_the_order_of_work_holds() {
    for (stages, microbatches, chunks) in
        [(1, 1, 1), (4, 2, 1), (4, 9, 1), (2, 6, 3), (4, 4, 2), (4, 16, 4), (8, 8, 1), (3, 12, 2)]
    {
        for schedule in SCHEDULES {
            let shape = PipelineShape { chunks, ..shape(stages, microbatches, schedule) };
            for stage in 0..stages {
                assert!(close(shape.in_flight(stage), counted(&shape, stage)), "{shape:?} {stage}");
            }
        }
    }
}

#[test]
fn more_stages_than_are_carried_out_follow_the_formula() {
    for (stages, microbatches) in [(4096_u64, 4096_u64), (1 << 20, 3), (1 << 20, 1 << 40)] {
        let shape = shape(stages, microbatches, Schedule::OneForwardOneBackward);
        let expected = (microbatches + stages - 1) as f64 * 3.0;
        assert!(close(shape.makespan_s(&times(1.0, 2.0)), expected), "{shape:?}");
    }
}

#[test]
fn very_many_microbatches_go_on_as_the_first() {
    for schedule in SCHEDULES {
        for (stages, microbatches, chunks, hop_s) in [
            (4, 2048, 1, 0.0),
            (3, 1001, 1, 0.25),
            (4, 1024, 2, 0.5),
            (1, 4096, 1, 0.0),
            (512, 4000, 1, 0.25),
        ] {
            let shape = PipelineShape { chunks, ..shape(stages, microbatches, schedule) };
            let times = StageTimes { hop_s, hop_back_s: hop_s, ..times(1.0, 2.0) };
            let (whole, extended) = (simulate(&shape, &times).makespan_s, shape.makespan_s(&times));
            assert!((whole - extended).abs() <= 1e-9 * whole, "{shape:?}: {extended} {whole}");
        }
    }
}

#[test]
fn slow_links_delay_the_first_and_the_last() {
    let times = StageTimes { hop_s: 0.25, hop_back_s: 0.25, ..times(1.0, 2.0) };
    let run = simulate(&shape(4, 8, Schedule::GPipe), &times);
    // Down the stages and up again, three hops each way.
    assert!(close(run.makespan_s, 11.0 * 3.0 + 6.0 * 0.25), "{}", run.makespan_s);
}

#[test]
fn chunks_of_1f1b_hold_as_much_as_megatron_says() {
    let shape = PipelineShape {
        stages: 4,
        microbatches: 16,
        chunks: 2,
        schedule: Schedule::OneForwardOneBackward,
        trains: true,
    };
    // 2(Z-1) + (v-1)Z ahead, and one in work, in halves of a stage.
    assert!(close(shape.in_flight(0), 11.0 / 2.0));
}

/// A shape of a schedule that delays gradients of weights.
fn delayed(schedule: Schedule, stages: u64, microbatches: u64) -> PipelineShape {
    let chunks = schedule.fixed_chunks().expect("it decides them");
    PipelineShape { chunks, ..shape(stages, microbatches, schedule) }
}

/// Times of forward, gradients of activations, and gradients of weights.
fn three(forward_s: f64, inputs_s: f64, weights_s: f64) -> StageTimes {
    let longest = PassTimes { forward_s, backward_s: inputs_s + weights_s, weights_s };
    StageTimes { longest, ..StageTimes::default() }
}

/// Seconds in which the stages that work longest are idle.
fn idle_s(shape: &PipelineShape, times: &StageTimes) -> f64 {
    let pieces = (shape.chunks * shape.microbatches) as f64;
    simulate(shape, times).makespan_s - pieces * times.longest.busy_s(true)
}

#[test]
fn zero_bubble_h1_idles_as_its_authors_say() {
    // (Z-1)(F+B-W): Qi et al. (2023), table 1.
    for (forward, inputs, weights) in [(1.0, 1.0, 1.0), (1.0, 1.25, 0.75), (1.0, 1.0, 0.5)] {
        for (stages, microbatches) in [(2_u64, 4), (4, 8), (4, 12), (8, 16), (8, 32)] {
            let shape = delayed(Schedule::ZeroBubble, stages, microbatches);
            let expected = (stages - 1) as f64 * (forward + inputs - weights);
            let found = idle_s(&shape, &three(forward, inputs, weights));
            assert!(close(found, expected), "{shape:?} {found} {expected}");
        }
    }
}

#[test]
fn zero_bubble_v_only_waits_for_the_first_microbatch() {
    for (stages, microbatches) in [(2_u64, 4), (4, 8), (4, 16), (8, 16), (8, 40)] {
        let shape = delayed(Schedule::ZeroBubbleV, stages, microbatches);
        let run = simulate(&shape, &three(1.0, 1.0, 1.0));
        for stage in 0..stages {
            let own: Vec<_> = run.placed.iter().filter(|placed| placed.stage == stage).collect();
            let first = own.iter().map(|placed| placed.start_s).fold(f64::INFINITY, f64::min);
            let last = own.iter().map(|placed| placed.end_s).fold(0.0, f64::max);
            assert!(close(last - first, 6.0 * microbatches as f64), "{shape:?} {stage}");
        }
    }
}

#[test]
fn dual_pipe_idles_as_its_authors_say() {
    // (Z/2-1)(F&B+B-3W), with F&B = F+B one after the other and B all gradients: the table of
    // deepseek-ai/DualPipe, whose Z is twice the stages of the V.
    for (forward, inputs, weights) in [(1.0, 1.0, 1.0), (1.0, 1.0, 0.5)] {
        for (stages, microbatches) in [(2_u64, 4), (4, 8), (4, 20), (8, 16), (8, 20), (8, 40)] {
            let all = inputs + weights;
            let each = (forward + all) + all - 3.0 * weights;
            let times = three(forward, inputs, weights);
            let dual = delayed(Schedule::DualPipe, stages, microbatches);
            let found = idle_s(&dual, &times);
            let expected = (stages / 2 - 1) as f64 * each;
            assert!(close(found, expected), "{dual:?} {found} {expected}");
            let v = delayed(Schedule::DualPipeV, stages, microbatches);
            let found = idle_s(&v, &times);
            let expected = (stages - 1) as f64 * each;
            assert!(close(found, expected), "{v:?} {found} {expected}");
        }
    }
}

#[test]
fn schedules_that_delay_weights_run_everything_once_and_hold_what_they_say() {
    let inputs = (1_u64..5, 0_u64..7, 0_u32..3, 1_u32..4, 1_u32..4);
    for_all(CASES, &inputs, |(half, more, hop, inputs, weights)| {
        let stages = 2 * half;
        let hop_s = f64::from(hop) / 4.0;
        let three = three(1.0, f64::from(inputs), f64::from(weights));
        let times = StageTimes { hop_s, hop_back_s: hop_s, ..three };
        for schedule in Schedule::ALL.into_iter().filter(|schedule| schedule.delays_weights()) {
            let shape = delayed(schedule, stages, 2 * (stages + more));
            let run = simulate(&shape, &times);
            let mut passes: Vec<(u64, StageWork)> =
                run.placed.iter().map(|placed| (placed.stage, placed.work)).collect();
            passes.sort_unstable();
            let all = passes.len();
            passes.dedup();
            prop_assert_eq!(all, passes.len());
            let count = |wanted: fn(Pass) -> bool| {
                passes.iter().filter(|(_, work)| wanted(work.pass)).count() as u64
            };
            let pieces = stages * shape.chunks * shape.microbatches;
            prop_assert_eq!(count(|pass| pass == Pass::Forward), pieces);
            prop_assert_eq!(
                count(|pass| matches!(pass, Pass::Backward | Pass::InputGradients)),
                pieces
            );
            prop_assert_eq!(
                count(|pass| matches!(pass, Pass::Backward | Pass::WeightGradients)),
                pieces
            );
            for stage in 0..stages {
                let own: Vec<_> =
                    run.placed.iter().filter(|placed| placed.stage == stage).collect();
                prop_assert!(own.windows(2).all(|pair| pair[0].end_s <= pair[1].start_s + 1e-9));
                prop_assert!(counted(&shape, stage) <= shape.in_flight(stage), "{shape:?}");
            }
            let most = (0..stages).map(|stage| counted(&shape, stage)).fold(0.0, f64::max);
            prop_assert!(close(most, shape.in_flight(0)), "{shape:?} {most}");
            for work in &run.placed {
                let source = producer(&shape, &run.placed, work);
                let first = work.work.pass == Pass::Forward && position(&shape, work) == 0;
                let wait_s = match source {
                    Some(it) if it.stage != work.stage => hop_s,
                    _ => 0.0,
                };
                prop_assert!(
                    first || source.is_some_and(|it| it.end_s + wait_s <= work.start_s + 1e-9),
                    "{shape:?} {work:?}"
                );
            }
        }
        Ok(())
    });
}

#[test]
fn very_many_microbatches_of_any_schedule_go_on_as_the_first() {
    for schedule in Schedule::ALL.into_iter().filter(|schedule| schedule.delays_weights()) {
        for (stages, microbatches, hop_s) in [(4, 1200, 0.0), (4, 1022, 0.25), (8, 1300, 0.5)] {
            let shape = delayed(schedule, stages, microbatches);
            let times = StageTimes { hop_s, hop_back_s: hop_s, ..three(1.0, 1.25, 0.75) };
            let (whole, extended) = (simulate(&shape, &times).makespan_s, shape.makespan_s(&times));
            assert!((whole - extended).abs() <= 1e-9 * whole, "{shape:?}: {extended} {whole}");
        }
    }
}

/// Stages of unequal length: nothing is faster than the longest one, and the rest fills and drains.
#[test]
fn the_longest_stage_decides() {
    let inputs = (proptest::collection::vec(1_u64..6, 2..7), 1_u64..20);
    for_all(CASES, &inputs, |(layers, microbatches)| {
        let stages = layers.len() as u64;
        let longest = layers.iter().copied().max().unwrap_or(1);
        let fill = layers.iter().sum::<u64>() - longest;
        let slots = (microbatches * longest + fill) as f64;
        for schedule in SCHEDULES {
            let shape = shape(stages, microbatches, schedule);
            let each = |forward_s: f64, backward_s: f64| {
                let one = PassTimes { forward_s, backward_s, weights_s: 0.0 };
                let own = layers.iter().map(|&count| one.times(count as f64));
                let longest = one.times(longest as f64);
                StageTimes { longest, own: own.collect(), ..StageTimes::default() }
            };
            let times = each(1.0, 0.0);
            // Forward alone: the first microbatch passes all stages, the others the longest.
            let forward = PipelineShape { trains: false, ..shape };
            prop_assert!(close(simulate(&forward, &times).makespan_s, slots));
            let trained = each(1.0, 2.0);
            let makespan_s = simulate(&shape, &trained).makespan_s;
            prop_assert!(makespan_s >= 3.0 * (microbatches * longest) as f64 - 1e-9);
            prop_assert!(makespan_s <= 3.0 * slots + 1e-9 || schedule.alternates());
        }
        Ok(())
    });
}

#[test]
fn layers_are_spread_over_stages_with_fewer_at_the_ends() {
    let spread = |stages, chunks, count| {
        Stages::spread(Schedule::OneForwardOneBackward, stages, chunks, count)
    };
    let llama = spread(16, 1, 126);
    assert_eq!(llama.layers(), [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]);
    assert_eq!(spread(4, 1, 61).layers(), [15, 16, 15, 15]);
    assert_eq!(spread(2, 2, 6).held(), [3, 3]);
    for_all(CASES, &(1_u64..9, 1_u64..4, 0_u64..40), |(stages, chunks, more)| {
        let count = stages * chunks + more;
        let all = spread(stages, chunks, count);
        prop_assert_eq!(all.layers().iter().sum::<u64>(), count);
        prop_assert!(all.is_spread());
        let (few, most) = (all.layers().iter().min(), all.layers().iter().max());
        prop_assert!(most.zip(few).is_some_and(|(most, few)| most - few <= 1 && *few > 0));
        for layer in 1..count {
            let (before, here) = (all.stage_of(layer - 1), all.stage_of(layer));
            prop_assert!(before == here || (before + 1) % stages == here);
        }
        Ok(())
    });
}

#[test]
fn stages_that_have_both_ends_differ_by_at_most_one_layer() {
    let both_ends = [Schedule::ZeroBubbleV, Schedule::DualPipeV, Schedule::DualPipe];
    let v = |stages, count| Stages::spread(Schedule::ZeroBubbleV, stages, 2, count);
    assert_eq!(v(4, 18).layers(), [2, 2, 3, 3, 2, 2, 2, 2]);
    assert_eq!(v(4, 18).held(), [4, 4, 5, 5]);
    for_all(CASES, &(0_usize..3, 1_u64..9, 0_u64..40), |(schedule, half, more)| {
        let schedule = both_ends[schedule];
        let (stages, chunks) = (2 * half, schedule.fixed_chunks().unwrap_or(1));
        let count = stages * chunks + more;
        let all = Stages::spread(schedule, stages, chunks, count);
        prop_assert_eq!(all.layers().iter().sum::<u64>(), count);
        prop_assert!(all.is_spread() && !all.layers().contains(&0));
        let (few, most) = (all.held().iter().min(), all.held().iter().max());
        prop_assert!(most.zip(few).is_some_and(|(most, few)| most - few <= 1), "{all:?}");
        Ok(())
    });
}

/// What `overlap` counts of the bubble of a pipeline is in its simulated schedule: the bound of all
/// schedules is one.
#[test]
fn compute_with_its_bubble_is_no_longer_than_the_simulated_pipeline() {
    let mut with_bubble = 0;
    for (name, source) in files("tests/programs/pipelines", ".shard") {
        let planned = plan(&name, &source, Strategy::Textbook);
        let (program, report) = (&planned.plan.program, &planned.report);
        let [staged] = &report.schedule.pipelines[..] else { continue };
        let steps = planned.plan.steps.iter().zip(&report.steps);
        let in_it = steps.filter(|(step, cost)| {
            let staged = program.pipeline(step.repeat).is_some();
            staged && !cost.is_move(step) && pipeline_stages::by_microbatch(program, step)
        });
        let waits_s: f64 = in_it.clone().map(|(_, cost)| cost.least_waits * cost.seconds).sum();
        let runs_s: f64 = in_it.map(|(_, cost)| cost.times * cost.seconds).sum();
        assert!(waits_s <= staged.makespan_s * (1.0 + 1e-9), "{name}: {waits_s} {staged:?}");
        with_bubble += usize::from(waits_s > runs_s * (1.0 + 1e-9));
    }
    assert!(with_bubble >= 10, "{with_bubble}");
}
