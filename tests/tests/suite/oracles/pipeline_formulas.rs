//! Simulated pipelines against closed formulas.

use proptest::prelude::{prop_assert, prop_assert_eq};
use shardwise_ir::pipeline::Schedule;
use shardwise_passes::pipeline_schedule::{PipelineShape, Placed, StageTimes, order, simulate};
use shardwise_tests::close;
use shardwise_tests::random::for_all;

/// Random shapes of each test.
const CASES: u32 = 256;
const SCHEDULES: [Schedule; 2] = Schedule::ALL;

fn shape(stages: u64, microbatches: u64, schedule: Schedule) -> PipelineShape {
    PipelineShape { stages, microbatches, chunks: 1, schedule, trains: true }
}

fn times(forward_s: f64, backward_s: f64) -> StageTimes {
    StageTimes { forward_s, backward_s, ..StageTimes::default() }
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
            let expected_s = slots * (times.forward_s + times.backward_s);
            prop_assert!(close(makespan_s, expected_s), "{shape:?} {makespan_s} {expected_s}");
            let idle = idle(&shape, &times);
            prop_assert!((idle - (stages - 1) as f64 / slots).abs() < 1e-9);
            prop_assert!((shape.bubble() - idle).abs() < 1e-9);
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
            let expected_s = slots * (times.forward_s + times.backward_s);
            prop_assert!(close(makespan_s, expected_s), "{shape:?} {makespan_s}");
            prop_assert!((shape.bubble() - idle(&shape, &times)).abs() < 1e-9);
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
                let source = producer(&placed, work);
                prop_assert!(source.is_none_or(|it| it.end_s + hop_s <= work.start_s + 1e-9));
            }
        }
        Ok(())
    });
}

/// The same microbatch in the same chunk on the stage that this work waits for: the one before, or
/// going backward the one after.
fn producer<'p>(placed: &'p [Placed], work: &Placed) -> Option<&'p Placed> {
    let stage = if work.work.backward { Some(work.stage + 1) } else { work.stage.checked_sub(1) };
    placed.iter().find(|it| it.work == work.work && Some(it.stage) == stage)
}

/// What is held, counted through the order of work.
fn counted(shape: &PipelineShape, stage: u64) -> f64 {
    let mut held = 0_u64;
    let mut most = 0;
    for work in order(shape, stage) {
        held = if work.backward { held - 1 } else { held + 1 };
        most = most.max(held);
    }
    most as f64 / shape.chunks as f64
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
