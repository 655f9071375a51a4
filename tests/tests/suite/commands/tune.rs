//! `tune`: the winner is that of exhaustive enumeration, the same on any number of cores, and a
//! program that `plan` plans the same way; what is pinned stays; errors say what to change.

use shardwise::options::{AxisParts, Cancellation, Grouping, Objective};
use shardwise::tune::{
    FORMATS, Progress, Recompute, Refused, Request, Tuned, curve, doubled, tune,
};
use shardwise::{Options, plan};
use shardwise_ir::stages::Schedule;
use shardwise_tests::read;

/// Layers in training, small enough to plan every candidate.
const LAYERS: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, D]\n\
    repeat L=4 {\n  carry x\n  param win[D, F], wout[F, D]\n  x = x + gelu(x *D win) *F wout\n}\n\
    backward from x given dy\n";

/// Layers of two kinds.
const TWO_KINDS: &str = "hardware h100\ndim B=512, D=1024, F=4096, G=2048\n\
    input x[B, D], dy[B, D]\n\
    repeat Wide=1 {\n  carry x\n  param win.wide[D, F], wout.wide[F, D]\n  \
    x = x + gelu(x *D win.wide) *F wout.wide\n}\n\
    repeat Narrow=3 {\n  carry x\n  param win[D, G], wout[G, D]\n  \
    x = x + gelu(x *D win) *G wout\n}\n\
    backward from x given dy\n";

/// A gradient without layers.
const PRODUCT: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, F]\n\
    param w[D, F]\ny = x *D w\nbackward from y given dy\noptimizer adam\n";

/// The same as a forward pass.
const FORWARD: &str = "hardware tpu-v5e\ndim B=512, D=1024, F=4096\ninput x[B, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";

fn tuned(source: &str, request: &Request, options: &Options) -> Tuned {
    tune("program", source, request, options, &|_| ()).unwrap_or_else(|no| panic!("{no:?}"))
}

fn limited(bytes: f64) -> Options {
    Options { memory: Some(bytes), ..Options::default() }
}

/// Times of equal plans are equal to the last bit.
fn bits(seconds: f64) -> u64 {
    seconds.to_bits()
}

fn small(chips: u64) -> Request {
    Request { microbatches: vec![1, 2, 4], stages: vec![1, 2], ..Request::of_chips(chips) }
}

#[test]
fn the_winner_is_that_of_exhaustive_enumeration() {
    let three = Request { axes: Some(3), ..small(16) };
    let cases = [
        (LAYERS, small(8), limited(40e6)),
        (TWO_KINDS, small(8), limited(30e6)),
        (PRODUCT, small(16), Options::default()),
        (PRODUCT, small(16), limited(12e6)),
        (PRODUCT, Request { best: 1, ..small(16) }, limited(7e6)),
        (PRODUCT, Request { best: 1, ..small(64) }, limited(4e6)),
        (FORWARD, Request { best: 1, ..three }, Options::default()),
        (FORWARD, small(16), limited(2.7e6)),
    ];
    for (source, request, options) in cases {
        let every = Request { exhaustive: true, ..request.clone() };
        let (found, every) = (tuned(source, &request, &options), tuned(source, &every, &options));
        let times =
            |tuned: &Tuned| tuned.strategies.iter().map(|of| of.objective_s).collect::<Vec<f64>>();
        let (own, other) = (times(&found), times(&every));
        assert_eq!(own.len(), other.len());
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-8 * b;
        assert!(own.iter().zip(&other).all(near), "{own:?} {other:?}");
        assert_eq!(every.space.cut, 0);
        assert_eq!(found.strategies[0], every.strategies[0]);
        assert!(found.lower_bound_s <= every.strategies[0].objective_s);
        let Tuned { space, .. } = &found;
        let all = space.cut + space.planned + space.over_memory + space.illegal + space.left;
        assert_eq!(all, space.candidates, "{space:?}");
    }
}

#[test]
fn the_shortest_step_is_that_of_exhaustive_enumeration() {
    let limited = |bytes| Options { objective: Objective::Scheduled, ..limited(bytes) };
    let of = |chips: u64, stages: &[u64], microbatches: &[u64]| Request {
        best: 1,
        stages: stages.to_vec(),
        microbatches: microbatches.to_vec(),
        recompute: vec![Recompute::Nothing],
        ..Request::of_chips(chips)
    };
    let staged = Request { chunks: vec![1, 2], ..of(4, &[1, 2], &[2, 4]) };
    let schedules = Request { schedules: Schedule::ALL.to_vec(), ..of(2, &[2], &[4]) };
    let layers = LAYERS.replace("L=4", "L=9");
    let layers = layers.replace("B=512, D=1024, F=4096", "B=65536, D=64, F=256");
    let uneven = Request { fewer_first: true, axes: Some(1), ..of(4, &[4], &[8]) };
    let cases = [
        (LAYERS, staged.clone(), limited(200e6)),
        (TWO_KINDS, staged, limited(200e6)),
        (LAYERS, schedules, limited(1e9)),
        (layers.as_str(), uneven, limited(80e9)),
        (PRODUCT, Request { best: 2, ..of(16, &[1], &[1, 2, 4]) }, limited(12e6)),
        (FORWARD, Request { best: 2, ..of(16, &[1], &[1]) }, limited(2.7e6)),
    ];
    for (source, request, options) in cases {
        let every = Request { exhaustive: true, ..request.clone() };
        let (found, every) = (tuned(source, &request, &options), tuned(source, &every, &options));
        let (own, other) = (&found.strategies[0], &every.strategies[0]);
        assert!((own.step_s - other.step_s).abs() <= 1e-8 * other.step_s, "{own:?} {other:?}");
        assert_eq!(bits(own.step_s), bits(own.objective_s));
        assert!(found.lower_bound_s <= other.step_s && found.shorter_step.is_none());
        let Tuned { space, .. } = &found;
        let all = space.cut + space.planned + space.over_memory + space.illegal + space.left;
        assert_eq!(all, space.candidates, "{space:?}");
        assert!(space.planned <= every.space.planned, "{space:?}");
    }
}

#[test]
fn a_shorter_step_below_the_first_is_named() {
    let model = "tests/programs/tune/mlp.shard";
    let request = Request { microbatches: vec![1], stages: vec![1], ..Request::of_chips(16) };
    let found = tuned(&read(model), &request, &Options::default());
    let number = found.shorter_step.expect("another has a shorter step");
    let step_s = |number: usize| found.strategies[number - 1].step_s;
    assert!(number > 1 && found.strategies.iter().all(|of| of.step_s >= step_s(number)));
    assert!(step_s(number) * 1.01 < step_s(1));
    let text = (FORMATS[0].write)(&found).expect("a table");
    let line = format!("number {number} has a shorter step");
    assert!(text.contains(&line) && text.contains("--objective scheduled"), "{text}");
}

#[test]
fn bounds_cut_most_of_the_space() {
    let request = Request { best: 1, ..small(64) };
    let space = tuned(PRODUCT, &request, &Options::default()).space;
    assert!(space.cut > space.planned, "{space:?}");
}

#[test]
fn the_result_does_not_depend_on_the_number_of_cores() {
    let by = |threads: usize, objective: Objective| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("there are threads");
        pool.install(|| {
            let options = Options { objective, ..limited(7e6) };
            let tuned = tuned(PRODUCT, &small(64), &options);
            (format!("{:?} {:?}", tuned.strategies, tuned.space), tuned.winner)
        })
    };
    for objective in [Objective::Serial, Objective::Scheduled] {
        assert_eq!(by(1, objective), by(3, objective));
    }
}

#[test]
fn layers_of_two_kinds_are_stages_of_one_pipeline() {
    let request = Request { stages: vec![2], best: 1, ..small(8) };
    let found = tuned(TWO_KINDS, &request, &Options::default());
    let pipelines = found.winner.matches("pipeline P, microbatches=").count();
    let kinds = found.winner.matches("repeat ").count();
    assert_eq!((pipelines, kinds), (1, 2), "{}", found.winner);
    let apart = TWO_KINDS.replace("repeat Narrow", "z = 2 * x\nrepeat Narrow");
    let why = refused(&apart, &request, &Options::default());
    assert!(why.contains("nothing between its `repeat`s of layers"), "{why}");
}

#[test]
fn the_winner_is_a_program_that_plan_plans_the_same_way() {
    for (source, options) in
        [(PRODUCT, limited(12e6)), (LAYERS, limited(40e6)), (FORWARD, Options::default())]
    {
        // Without pipelines several shapes of a mesh take the same time.
        let request = Request { stages: vec![1], ..small(8) };
        let tuned = tuned(source, &request, &options);
        let as_written =
            Options { parts: AxisParts::AsWritten, grouping: Grouping::AsWritten, ..options };
        let planned = plan("winner", &tuned.winner, &as_written)
            .unwrap_or_else(|no| panic!("{no}\n{}", tuned.winner));
        assert_eq!(bits(planned.report.serial_s), bits(tuned.strategies[0].objective_s));
        assert_eq!(planned.to_string(), tuned.plan);
        let mesh = format!("mesh {}\n", tuned.strategies[0].mesh);
        assert!(tuned.winner.contains(&mesh), "{mesh}{}", tuned.winner);
        assert_eq!(shardwise::format("winner", &tuned.winner).ok(), Some(tuned.winner));
    }
}

#[test]
fn options_are_written_into_the_winner() {
    let options = Options {
        hardware: Some("a100".to_owned()),
        dims: shardwise::setting::dims("B=1024,L=2").expect("sizes"),
        rates: Some(shardwise::Rates::Measured),
        ..Options::default()
    };
    let request = Request { stages: vec![2], ..small(4) };
    let tuned = tuned(LAYERS, &request, &options);
    let planned = plan("winner", &tuned.winner, &Options::default());
    let planned = planned.unwrap_or_else(|no| panic!("{no}\n{}", tuned.winner));
    assert_eq!(bits(planned.report.serial_s), bits(tuned.strategies[0].objective_s));
    assert_eq!(tuned.hardware, "a100");
}

#[test]
fn what_names_an_axis_stays_unless_it_is_released() {
    let source = "hardware h100\nmesh X=2, T=4 # as it was\ndim B=512, D=1024, F=4096\n\
        input x[B_X, D]\nparam win[D, F_T], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";
    let pinned = tuned(source, &Request::of_chips(8), &Options::default());
    assert!(pinned.winner.contains("input x[B_X, D]"), "{}", pinned.winner);
    assert!(pinned.winner.contains("win[D, F_T], wout[F_?, D_?]"), "{}", pinned.winner);
    assert!(pinned.winner.contains("# as it was"), "{}", pinned.winner);
    assert!(pinned.strategies.iter().all(|of| of.mesh.contains("X=") && of.mesh.contains("T=")));
    let request = Request { free: true, ..Request::of_chips(8) };
    let free = tuned(source, &request, &Options::default());
    assert!(free.winner.contains("input x[B_?, D_?]"), "{}", free.winner);
    assert!(free.strategies[0].objective_s <= pinned.strategies[0].objective_s);
}

fn refused(source: &str, request: &Request, options: &Options) -> String {
    match tune("program", source, request, options, &|_| ()) {
        Err(Refused::Options(text) | Refused::TooSlow(text, _)) => text,
        Err(Refused::Program(findings)) => {
            let helps = findings.reports.iter().filter_map(|report| report.diag.help.clone());
            format!("{findings} {}", helps.collect::<Vec<_>>().join(" "))
        }
        Ok(tuned) => panic!("{:?}", tuned.strategies[0]),
    }
}

#[test]
fn errors_say_what_to_change() {
    let of = Request::of_chips(16);
    let nowhere = refused(LAYERS, &of, &limited(1e6));
    assert!(nowhere.contains("no strategy on 16 chips fits"), "{nowhere}");
    assert!(nowhere.contains("and has 1 MB") && nowhere.contains("--chips"), "{nowhere}");
    let stages = Request { stages: vec![3], ..of.clone() };
    let apart = refused(LAYERS, &stages, &Options::default());
    assert!(apart.ends_with("slowest network; write --stages '1|2'"), "{apart}");
    let narrow = Request { stages: vec![2], axes: Some(1), ..of.clone() };
    assert!(refused(LAYERS, &narrow, &Options::default()).ends_with("write more --axes"));
    let few = Request { stages: vec![2], microbatches: vec![1], ..of.clone() };
    let few = refused(LAYERS, &few, &Options::default());
    assert_eq!(
        few,
        "2 stages with 1f1b cannot run with --microbatches 1; write --microbatches 2, or a \
        multiple of it"
    );
    assert!(refused(FORWARD, &stages, &Options::default()).contains("leave --stages out"));
    let alone = vec![("alone".to_owned(), LAYERS.to_owned())];
    let against = refused(LAYERS, &Request { against: alone, ..of.clone() }, &Options::default());
    assert!(against.contains("`alone` has a mesh of 1 device, and --chips is 16"), "{against}");
    let indivisible = Request { microbatches: vec![3], ..of.clone() };
    let illegal = refused(LAYERS, &indivisible, &Options::default());
    assert!(illegal.contains("is legal") && illegal.contains("--free"), "{illegal}");
    let plan = plan("p", &FORWARD.replace("dim", "mesh X=8\ndim"), &Options::default());
    let plan = plan.expect("it can be planned").to_string();
    assert!(refused(&plan, &of, &Options::default()).contains("is a plan"));
    let v5p = FORWARD.replace("v5e", "v5p");
    assert!(refused(&v5p, &Request::of_chips(8191), &Options::default()).contains("--chips"));
    let no_chip = FORWARD.replace("hardware tpu-v5e\n", "");
    assert!(refused(&no_chip, &of, &Options::default()).contains("hardware"));
    let named = "hardware h100\nmesh X=2, Y=2, Z=2\ndim B=8\ninput x[B_XYZ]\noutput x[B_XYZ]\n";
    assert!(refused(named, &of, &Options::default()).contains("write --axes 3"));
}

#[test]
fn a_timeout_ends_a_search_with_the_best_so_far() {
    let timeout = Some(std::time::Duration::from_secs(1));
    let request = Request { timeout, ..Request::of_chips(512) };
    let began = std::time::Instant::now();
    let models = [
        "tests/programs/tune/mlp.shard",
        "tests/programs/tune/llama3-70b.shard",
        "tests/programs/tune/llama3-405b.shard",
    ];
    let objectives = [Objective::Serial, Objective::Scheduled];
    let all = objectives.iter().flat_map(|objective| models.map(|model| (model, *objective)));
    for (model, objective) in all {
        let options = Options { objective, ..Options::default() };
        match tune(model, &read(model), &request, &options, &|_| ()) {
            // A fast machine may be done with the smallest model in time.
            Ok(tuned) => {
                let space = &tuned.space;
                let done = space.cut + space.planned + space.over_memory + space.illegal;
                assert_eq!(done + space.left, space.candidates, "{space:?}");
                assert!(space.left > 0 || model.ends_with("mlp.shard"), "{space:?}");
                assert!(tuned.lower_bound_s > 0.0);
            }
            Err(Refused::Options(text) | Refused::TooSlow(text, _)) => {
                assert!(text.contains("--timeout"), "{text}");
            }
            Err(Refused::Program(findings)) => panic!("{findings}"),
        }
    }
    assert!(began.elapsed().as_secs() < 120, "it took {:?}", began.elapsed());
}

#[test]
fn a_space_planned_with_little_effort_first_has_the_same_winner() {
    let request = Request { axes: Some(3), best: 2, stages: vec![1], ..Request::of_chips(64) };
    let every = Request { exhaustive: true, ..request.clone() };
    let options = limited(7e6);
    let (found, every) = (tuned(PRODUCT, &request, &options), tuned(PRODUCT, &every, &options));
    assert!(found.space.candidates > 64, "{:?}", found.space);
    let (own, other) = (found.strategies[0].objective_s, every.strategies[0].objective_s);
    assert!((own - other).abs() <= 1e-8 * other, "{own} {other}");
    assert!(found.lower_bound_s <= other);
    let nowhere = Request { best: 1, ..request };
    let text = refused(PRODUCT, &nowhere, &limited(1e5));
    assert!(text.contains("no strategy on 64 chips fits"), "{text}");
}

/// Little effort finds a plan of the best candidate that takes much longer than others, and that
/// what reads kept values again is within memory is not excluded by a bound of what keeps them.
#[test]
fn what_has_a_bad_plan_with_little_effort_is_planned_again() {
    let source = read("tests/measured/programs/llama-3d.shard");
    let options = Options {
        dims: shardwise::setting::dims("B=2048").expect("sizes"),
        rates: Some(shardwise::Rates::Measured),
        ..Options::default()
    };
    let all = Request {
        axes: Some(3),
        stages: vec![16],
        microbatches: vec![16, 32],
        chunks: vec![1, 8],
        free: true,
        best: 1,
        ..Request::of_chips(8192)
    };
    // So few that each is planned with all effort.
    let few = Request { microbatches: vec![32], chunks: vec![8], ..all.clone() };
    let (found, few) = (tuned(&source, &all, &options), tuned(&source, &few, &options));
    assert!(found.space.candidates > 64 && few.space.candidates < 64);
    let (own, other) = (found.strategies[0].objective_s, few.strategies[0].objective_s);
    assert!(own <= other * (1.0 + 1e-8), "{own} {other}");
    assert!(found.lower_bound_s <= other);
}

#[test]
fn a_stopped_search_returns_the_best_so_far() {
    let cancellation = Cancellation::new();
    let options = Options { cancellation: cancellation.clone(), ..limited(7e6) };
    let stop = |progress: Progress| {
        if progress.best_s.is_some() {
            cancellation.cancel();
        }
    };
    let Ok(found) = tune("program", PRODUCT, &small(64), &options, &stop) else {
        panic!("it has a plan")
    };
    let space = &found.space;
    assert!(space.stopped && space.left > 0, "{space:?}");
    let all = space.cut + space.planned + space.over_memory + space.illegal + space.left;
    assert_eq!(all, space.candidates, "{space:?}");
    let best = tuned(PRODUCT, &small(64), &limited(7e6));
    assert!(found.lower_bound_s <= best.strategies[0].objective_s);
    let text = (FORMATS[0].write)(&found).expect("a table");
    assert!(text.contains("left when it was stopped"), "{text}");
}

#[test]
fn a_curve_has_the_best_of_each_number_of_chips() {
    assert_eq!(doubled(3, 24), [3, 6, 12, 24]);
    let request = Request { best: 1, ..Request::of_chips(1) };
    let options = limited(5e6);
    let chips = doubled(1, 16);
    let Ok(found) = curve("program", FORWARD, (&request, &chips), &options, &|_| ()) else {
        panic!("some of them fit")
    };
    assert_eq!(found.points.iter().map(|point| point.chips).collect::<Vec<_>>(), chips);
    let first = found.points.iter().find(|point| point.tuned.is_some()).expect("one fits");
    assert!(found.points[0].refused.is_some() && first.efficiency == Some(1.0));
    for point in &found.points {
        let Some(tuned) = &point.tuned else { continue };
        let alone = Request { chips: point.chips, ..request.clone() };
        let alone = self::tuned(FORWARD, &alone, &options);
        assert_eq!(alone.strategies, tuned.strategies);
    }
    let nowhere = curve("program", FORWARD, (&request, &[1, 2]), &limited(1e4), &|_| ());
    assert!(matches!(nowhere, Err(Refused::Program(_))));
}

/// All ways to place `layers` on so many stages, each with one at least.
fn all_lists(layers: u64, stages: u64) -> Vec<Vec<u64>> {
    if stages == 1 {
        return vec![vec![layers]];
    }
    let first = 1..=layers - (stages - 1);
    let with = |first: u64| {
        let rest = all_lists(layers - first, stages - 1).into_iter();
        rest.map(move |rest| [&[first], rest.as_slice()].concat())
    };
    first.flat_map(with).collect()
}

#[test]
fn fewer_layers_on_first_stages_are_the_best_of_all_lists() {
    // Most of the memory is activations.
    let source = LAYERS.replace("L=4", "L=9");
    let source = source.replace("B=512, D=1024, F=4096", "B=65536, D=64, F=256");
    let space = Request {
        axes: Some(1),
        stages: vec![4],
        microbatches: vec![8],
        recompute: vec![Recompute::Nothing],
        ..Request::of_chips(4)
    };
    let fewer_first = Request { fewer_first: true, ..space.clone() };
    let even = tuned(&source, &space, &Options::default());
    let written = |list: &Vec<u64>| {
        let list = list.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        even.winner.replace("schedule=1f1b", &format!("schedule=1f1b, layers=[{list}]"))
    };
    let lists = all_lists(9, 4);
    assert_eq!(lists.len(), 56);
    let mut found = std::collections::BTreeSet::new();
    for share in [1.0, 0.9, 0.74, 0.68, 0.64, 0.5] {
        let options = Options {
            parts: AxisParts::AsWritten,
            grouping: Grouping::AsWritten,
            ..limited(share * even.strategies[0].peak_bytes)
        };
        let seconds =
            |list| plan("list", &written(list), &options).ok().map(|of| of.report.serial_s);
        let best = lists.iter().filter_map(seconds).min_by(f64::total_cmp);
        let own = tune("program", &source, &fewer_first, &options, &|_| ()).ok();
        let own = own.map(|of| (of.strategies[0].objective_s, of.winner));
        assert_eq!(own.as_ref().map(|of| bits(of.0)), best.map(bits), "{share}");
        let line = own.iter().flat_map(|of| of.1.lines()).find(|line| line.contains("pipeline"));
        found.extend(line.map(str::to_owned));
    }
    assert!(found.len() > 2, "limits of memory ask for different lists: {found:?}");
}
