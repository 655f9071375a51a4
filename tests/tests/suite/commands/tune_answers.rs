//! `tune`: which of equal strategies is first, what is printed of plans that no row shows, and what
//! a search reports while it runs, or when it is stopped.

use std::sync::Mutex;
use std::time::Duration;

use shardwise::options::{Cancellation, Objective};
use shardwise::tune::{FORMATS, Progress, Request, Tuned, curve, tune};
use shardwise::{Options, plan};
use shardwise_tests::read;

/// A gradient without layers.
const PRODUCT: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, F]\n\
    param w[D, F]\ny = x *D w\nbackward from y given dy\noptimizer adam\n";

/// Products forward, which take as long on one axis of a switch as on two.
const FORWARD: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";

fn tuned(source: &str, request: &Request) -> Tuned {
    let options = Options::default();
    tune("program", source, request, &options, &|_| ()).unwrap_or_else(|no| panic!("{no:?}"))
}

fn text(tuned: &Tuned) -> String {
    (FORMATS[0].write)(tuned).expect("a table")
}

#[test]
fn of_equal_strategies_that_on_fewer_axes_is_first() {
    for source in [PRODUCT, FORWARD] {
        for best in [1, 10] {
            let found = tuned(source, &Request { best, ..Request::of_chips(4) });
            let meshes: Vec<&str> = found.strategies.iter().map(|of| of.mesh.as_str()).collect();
            assert!(meshes.iter().all(|mesh| *mesh == "X=4 nvlink"), "{meshes:?}");
        }
    }
}

#[test]
fn a_shorter_step_that_no_row_shows_is_named() {
    let model = read("tests/programs/tune/mlp.shard");
    let of = |best: usize| Request {
        microbatches: vec![1],
        stages: vec![1],
        best,
        ..Request::of_chips(16)
    };
    let (one, all) = (tuned(&model, &of(1)), tuned(&model, &of(10)));
    let first_s = one.strategies[0].step_s;
    let shorter = one.shorter_unprinted.as_ref().expect("another has a shorter step");
    assert!(shorter.step_s * 1.01 < first_s && one.shorter_step.is_none());
    let line = "a plan that is not printed has a shorter step: ";
    let (one, all_text) = (text(&one), text(&all));
    assert!(one.contains(line) && one.contains(&shorter.mesh), "{one}");
    assert!(all.shorter_unprinted.is_none() && !all_text.contains(line), "{all_text}");
    assert!(all.shorter_step.is_some() && all_text.contains("number 3 has a shorter step"));
}

#[test]
fn time_against_memory_says_of_which_plans_it_is() {
    let model = read("tests/programs/tune/mlp.shard");
    let few = Request { microbatches: vec![1], stages: vec![1], ..Request::of_chips(16) };
    let all = text(&tuned(&model, &few));
    assert!(all.contains("time against memory, of all plans: "), "{all}");
    let some = tuned(&model, &Request { microbatches: vec![1, 2, 4], ..few });
    assert!(some.space.cut > 0, "{:?}", some.space);
    let line = format!("time against memory, of the {} plans that were made: ", some.space.planned);
    let some = text(&some);
    assert!(some.contains(&line), "{some}");
}

/// One candidate may take minutes, so that a search reports before the first is done.
#[test]
fn a_curve_reports_each_number_of_chips_when_it_begins() {
    let begun: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let report = |progress: Progress| {
        let mut begun = begun.lock().expect("no report panics");
        if begun.last() != Some(&progress.chips) {
            assert_eq!((progress.done, progress.best_s), (0, None));
            begun.push(progress.chips);
        }
    };
    let options = Options { objective: Objective::Scheduled, ..Options::default() };
    let request = Request { best: 1, ..Request::of_chips(2) };
    let found = curve("program", FORWARD, (&request, &[2, 4, 8]), &options, &report);
    assert!(found.is_ok());
    assert_eq!(*begun.lock().expect("no report panics"), [2, 4, 8]);
}

/// Before it has a plan that fits, a search that is stopped has none to return.
#[test]
fn a_search_for_schedules_within_memory_may_be_stopped_at_any_time() {
    let layers = "hardware h100\nmesh X=4, Y=4\ndim B=4096, D=1024, F=4096\n\
        input x[B, D], dy[B, D]\nrepeat L=8 {\n  carry x\n  param win[D, F], wout[F, D]\n  \
        x = x + gelu(x *D win) *F wout\n}\nbackward from x given dy\noptimizer adam\n";
    for milliseconds in [2, 5, 10, 20, 50, 100, 200] {
        let cancellation = Cancellation::new();
        let options = Options {
            objective: Objective::Scheduled,
            memory: Some(80e6),
            cancellation: cancellation.clone(),
            ..Options::default()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(milliseconds));
                cancellation.cancel();
            });
            // A plan, or nothing: nobody waits for it.
            let _ = plan("layers", layers, &options);
        });
    }
}

/// A schedule takes long with all effort, so that the first plan is one of little effort.
#[test]
fn a_small_space_of_schedules_has_a_plan_before_all_effort_is_spent() {
    // So many that nothing is cut.
    let request = Request { best: 100, ..Request::of_chips(4) };
    let options = Options { objective: Objective::Scheduled, ..Options::default() };
    let every = Request { exhaustive: true, ..request.clone() };
    let of = |request: &Request| {
        tune("program", PRODUCT, request, &options, &|_| ()).unwrap_or_else(|no| panic!("{no:?}"))
    };
    let (found, every) = (of(&request), of(&every));
    assert!(found.space.candidates <= 16 && found.space.cut == 0, "{:?}", found.space);
    assert_eq!(found.space.runs, every.space.runs + 1, "one plan of little effort");
    assert_eq!(found.strategies[0].step_s.to_bits(), every.strategies[0].step_s.to_bits());
    let planned = plan("winner", &found.winner, &options).expect("it has a plan");
    assert_eq!(planned.to_string(), found.plan);
    // The candidate with the plan of little effort is planned again, and counted once.
    let space = &found.space;
    let all = space.cut + space.planned + space.over_memory + space.illegal + space.left;
    assert_eq!(all, space.candidates, "{space:?}");
}
