//! `tune`: schedules, chunks, recomputation and batches are part of the space; a step may have a
//! longest time; strategies written by hand are placed among those found.

use std::time::Duration;

use shardwise::tune::{FORMATS, Recompute, Refused, Request, Tuned, curve, tune};
use shardwise::{Options, Schedule, plan};
use shardwise_ir::hardware::Hardware;
use shardwise_tests::read;

/// Layers with products that a checkpoint may keep.
const LAYERS: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, D]\n\
    repeat L=8 {\n  carry x\n  param win[D, F], wout[F, D]\n  h = gelu(x *D win)\n\
    x = x + h *F wout\n}\nbackward from x given dy\n";

const FORWARD: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";

fn tuned(source: &str, request: &Request, options: &Options) -> Tuned {
    tune("program", source, request, options, &|_| ()).unwrap_or_else(|no| panic!("{no:?}"))
}

fn limited(bytes: f64) -> Options {
    Options { memory: Some(bytes), ..Options::default() }
}

/// A space with everything in it, small enough to plan every candidate.
fn wide() -> Request {
    Request {
        axes: Some(2),
        stages: vec![1, 2, 4],
        microbatches: vec![2, 4],
        schedules: vec![Schedule::OneForwardOneBackward, Schedule::ZeroBubbleV],
        chunks: vec![1, 2],
        recompute: vec![Recompute::Nothing, Recompute::Mlp, Recompute::AllButProducts],
        batches: vec![256, 512],
        best: 1,
        ..Request::of_chips(4)
    }
}

#[test]
fn the_winner_of_a_wide_space_is_that_of_exhaustive_enumeration() {
    for options in [Options::default(), limited(90e6), limited(75e6)] {
        let every = Request { exhaustive: true, ..wide() };
        let (found, every) = (tuned(LAYERS, &wide(), &options), tuned(LAYERS, &every, &options));
        let (own, other) = (&found.strategies[0], &every.strategies[0]);
        let rank = |of: &shardwise::tune::Strategy| {
            of.objective_s / of.batch.expect("batches are compared") as f64
        };
        assert!((rank(own) - rank(other)).abs() <= 1e-8 * rank(other), "{own:?} {other:?}");
        let planned = plan("winner", &found.winner, &options);
        let planned = planned.unwrap_or_else(|no| panic!("{no}\n{}", found.winner));
        assert_eq!(planned.report.serial_s.to_bits(), own.objective_s.to_bits());
        assert_eq!(found.batch, own.batch);
        assert!(found.lower_bound_s <= own.objective_s);
        let text = (FORMATS[0].write)(&found).expect("a table");
        assert!(text.contains("an element of the batch"), "{text}");
    }
}

#[test]
fn every_schedule_and_recomputation_is_written_into_its_program() {
    for schedule in Schedule::ALL {
        for recompute in Recompute::CHOICES.into_iter().filter(|of| *of != Recompute::Attention) {
            let request = Request {
                stages: vec![2],
                schedules: vec![schedule],
                chunks: vec![2],
                recompute: vec![recompute],
                batches: Vec::new(),
                ..wide()
            };
            let found = tuned(LAYERS, &request, &Options::default());
            let name = format!("schedule={}", schedule.name());
            assert!(found.winner.contains(&name), "{}", found.winner);
            let chunks = schedule.fixed_chunks().is_none();
            assert_eq!(found.winner.contains("chunks=2"), chunks, "{}", found.winner);
            let is_again = recompute != Recompute::Nothing;
            assert_eq!(found.winner.contains("checkpoint"), is_again, "{}", found.winner);
            let pipeline = found.strategies[0].pipeline.expect("it is one");
            assert_eq!(pipeline.schedule, schedule);
        }
    }
}

#[test]
fn no_step_takes_longer_than_it_may() {
    let free = tuned(FORWARD, &Request { batches: vec![64, 512], ..wide() }, &Options::default());
    let best = &free.strategies[0];
    assert_eq!(best.batch, Some(512), "a large batch takes less for an element");
    let limit = best.objective_s * 0.99;
    let request = Request { batches: vec![64, 512], latency_s: Some(limit), ..wide() };
    let found = tuned(FORWARD, &request, &Options::default());
    assert!(found.strategies.iter().all(|of| of.objective_s <= limit));
    assert_eq!(found.strategies[0].batch, Some(64));
    assert!(found.space.over_latency > 0);
    let nothing = Request { latency_s: Some(1e-9), ..request };
    let Err(refused @ Refused::TooSlow(..)) =
        tune("program", FORWARD, &nothing, &Options::default(), &|_| ())
    else {
        panic!("nothing is so fast")
    };
    let text = refused.to_string();
    assert!(text.contains("at most 1 ns") && text.contains("raise --latency"), "{text}");
}

/// A plan within 1.9 GB takes longer to find than a small part of a short limit.
#[test]
fn what_had_too_little_time_is_not_over_memory() {
    let program = "hardware h100\ndim B=8192, D=4096, F=16384\ninput x[B, D], dy[B, D]\n\
        repeat L=8 {\n  carry x\n  param win[D, F], wout[F, D]\n\
        x = x + gelu(x *D win) *F wout\n}\nbackward from x given dy\noptimizer adam\n";
    for milliseconds in [20, 300, 2000] {
        let request = Request {
            stages: vec![1],
            microbatches: vec![1],
            recompute: vec![Recompute::Nothing],
            timeout: Some(Duration::from_millis(milliseconds)),
            best: 1,
            ..Request::of_chips(8)
        };
        match tune("program", program, &request, &limited(1.9e9), &|_| ()) {
            Ok(found) => assert!(found.strategies[0].peak_bytes <= 1.9e9),
            Err(Refused::Options(text)) => assert!(text.contains("more time"), "{text}"),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_strategy_by_hand_is_placed_among_those_found() {
    let request = Request { batches: Vec::new(), best: 3, ..wide() };
    let found = tuned(FORWARD, &request, &Options::default());
    let manual = "hardware h100\nmesh X=4\ndim B=512, D=1024, F=4096\ninput x[B, D_X]\n\
        param win[D_X, F], wout[F_X, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";
    let other = manual.replace("F=4096", "F=8192");
    let against = [("best", &found.winner as &str), ("hand", manual), ("other", &other)];
    let against = against.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let compared = tuned(FORWARD, &Request { against, ..request.clone() }, &Options::default());
    let [best, hand, other] = &compared.against[..] else { panic!("three are compared") };
    assert!(best.excess(&compared).abs() < 1e-9 && best.better(&compared) == 0);
    assert!(hand.excess(&compared) > 0.0);
    let planned = plan("hand", manual, &Options::default()).expect("it is a program");
    assert_eq!(planned.report.serial_s.to_bits(), hand.strategy.objective_s.to_bits());
    let text = (FORMATS[0].write)(&compared).expect("a table");
    assert!(text.contains("takes") && text.contains("as long as the first"), "{text}");
    assert!(text.contains("more than the first"), "{text}");
    assert!(text.contains("they are not the same"), "{text}");
    assert!(other.strategy.model_flops > hand.strategy.model_flops);
    let sizes = Request {
        batches: vec![512],
        against: vec![("manual".to_owned(), manual.to_owned())],
        ..request.clone()
    };
    let refused = tune("program", FORWARD, &sizes, &Options::default(), &|_| ());
    assert!(matches!(refused, Err(Refused::Options(text)) if text.contains("leave --batch out")));
    let eight = vec![("eight".to_owned(), manual.replace("X=4", "X=8"))];
    let wrong = Request { against: eight, ..request };
    let refused = tune("program", FORWARD, &wrong, &Options::default(), &|_| ());
    assert!(matches!(refused, Err(Refused::Options(text)) if text.contains("8 devices")));
}

#[test]
fn a_strategy_written_by_hand_is_in_the_space_or_its_choice_outside_is_named() {
    let space = Request {
        microbatches: vec![2, 4],
        stages: vec![2],
        recompute: vec![Recompute::Nothing],
        ..Request::of_chips(4)
    };
    let written = |mesh: &str, microbatches: u64, layer: &str| {
        let pipeline =
            format!("pipeline P, microbatches={microbatches} of B, schedule=1f1b {{\nrepeat");
        let text = LAYERS.replace("repeat", &pipeline).replace("dim B", &format!("{mesh}\ndim B"));
        text.replace("}\nbackward", &format!("{layer}}}\n}}\nbackward"))
    };
    let outside = |by_hand: String| {
        let against = vec![("written".to_owned(), by_hand)];
        let found = tuned(LAYERS, &Request { against, ..space.clone() }, &Options::default());
        let line = (FORMATS[0].write)(&found).expect("a table");
        let what = found.against[0].outside.clone();
        assert_eq!(line.contains("no candidate has"), what.is_some(), "{line}");
        what.unwrap_or_default()
    };
    assert_eq!(outside(written("mesh P=2, X=2", 4, "")), "");
    assert_eq!(outside(written("mesh X=2 nvlink, P=2 nvlink", 2, "")), "");
    assert_eq!(outside(written("mesh P=2, X=2", 8, "")), "8 microbatches");
    assert_eq!(outside(written("mesh P=2, X=2", 4, "checkpoint\n")), "its `checkpoint`");
    assert_eq!(outside(written("mesh P=4", 4, "")), "its mesh");
}

#[test]
fn what_more_of_something_buys_is_what_the_better_machine_takes() {
    let request = Request { what_if: true, best: 1, ..Request::of_chips(16) };
    let found = tuned(LAYERS, &request, &limited(40e6));
    let seconds = |source: &str, options: &Options| {
        let request = Request { best: 1, ..Request::of_chips(16) };
        tuned(source, &request, options).strategies[0].objective_s
    };
    let h100 = || Hardware::preset("h100").expect("a preset");
    let faster = |chip: Hardware| Options {
        hardware: Some("faster".to_owned()),
        known: vec![Hardware { name: "faster".to_owned(), ..chip }],
        ..limited(40e6)
    };
    let links = Hardware { link_bandwidth: Some(900e9), ..h100() };
    let network = Hardware { dcn_bandwidth: Some(100e9), ..h100() };
    let expected = [
        ("1 GB more memory", seconds(LAYERS, &limited(1.04e9))),
        ("twice the bandwidth of links", seconds(LAYERS, &faster(links))),
        ("twice the bandwidth of the network", seconds(LAYERS, &faster(network))),
    ];
    for (answer, (what, seconds)) in found.what_if.iter().zip(expected) {
        assert_eq!(answer.what, what);
        assert!((answer.best.objective_s / seconds - 1.0).abs() < 1e-9, "{what}: {seconds}");
    }
    assert_eq!(found.what_if.len(), 3);
    let text = (FORMATS[0].write)(&found).expect("a table");
    assert!(text.contains("with 1 GB more memory: ") && text.contains("% less ("), "{text}");
}

#[test]
fn pictures_are_drawn_of_strategies_and_curves() {
    let draw = |formats: &str| formats.starts_with("<svg") && formats.contains("time (log)");
    let request = Request { batches: Vec::new(), ..wide() };
    let found = tuned(LAYERS, &request, &limited(90e6));
    let svg = FORMATS.iter().find(|format| format.name == "svg").expect("a format");
    assert!(draw(&(svg.write)(&found).expect("a picture")));
    let curve = curve("program", FORWARD, (&request, &[2, 4]), &Options::default(), &|_| ());
    let Ok(curve) = curve else { panic!("both fit") };
    let formats = shardwise::tune::CURVE_FORMATS;
    let svg = formats.iter().find(|format| format.name == "svg").expect("a format");
    assert!(draw(&(svg.write)(&curve).expect("a picture")));
}

#[test]
fn a_pipeline_is_released_with_all_else() {
    let pinned = LAYERS.replace("repeat", "pipeline Z, microbatches=4 of B {\nrepeat");
    let pinned = pinned.replace("}\nbackward", "checkpoint\n}\n}\nbackward");
    let pinned = pinned.replace("dim B", "mesh Z=2, X=2\ndim B").replace("x[B, D]", "x[B_X, D]");
    let request = Request { batches: Vec::new(), free: true, ..wide() };
    let released = tuned(&pinned, &request, &Options::default());
    let free = tuned(LAYERS, &request, &Options::default());
    assert_eq!(released.strategies, free.strategies);
    assert_eq!(released.space, free.space);
}

/// Groups of tokens that share the slots of experts, as `import hf` writes them.
const GROUPS: &str = "hardware h100\ndim Groups=4, Tokens=32, B=Groups*Tokens, D=512, F=2048\n\
    input x[B, D]\nparam w[D, F], v[F, D]\nm[Groups, Tokens, D] = reshape(gelu(x *D w) *F v)\n\
    output y[B, D] = reshape(2.0 * m)\n";

#[test]
fn a_batch_that_is_a_product_grows_by_its_first_factor() {
    let of = |batches: &[u64]| Request { batches: batches.to_vec(), ..Request::of_chips(4) };
    let found = tuned(GROUPS, &of(&[100, 256]), &Options::default());
    assert_eq!(found.strategies[0].batch, Some(256));
    assert!(found.winner.contains("Groups=8, Tokens=32, B=Groups*Tokens"), "{}", found.winner);
    let why = "a batch of 100 is left out: `B` is a product whose factor `Groups` grows, in steps";
    assert!(found.left_out.iter().any(|line| line.starts_with(why)), "{:?}", found.left_out);
    let given = shardwise::setting::dims("Groups=16").expect("a size");
    let options = Options { dims: given, ..Options::default() };
    let other = tuned(GROUPS, &of(&[256]), &options);
    assert_eq!(other.strategies, found.strategies);
    let refused = tune("program", GROUPS, &of(&[48]), &Options::default(), &|_| ());
    assert!(matches!(refused, Err(Refused::Options(text)) if text.contains("multiples of 32")));
}

#[test]
fn a_program_without_a_batch_has_none_to_vary() {
    let source = "hardware h100\ndim D=64, F=64\nparam w[D, F], v[F, D]\noutput y[D] = w *F v\n";
    let source = source.replace("y[D] = w *F v", "z[D] = sum_F(w)");
    let refused = tune("program", &source, &wide(), &Options::default(), &|_| ());
    assert!(matches!(refused, Err(Refused::Options(text)) if text.contains("--batch")));
}

#[test]
fn a_pipeline_that_one_device_cannot_run_is_tuned_on_several() {
    let program = read("tests/programs/pipelines/dualpipe.shard");
    let listed = program.replace("schedule=dualpipe", "layers=[3, 4, 4, 5]");
    for source in [&program, &listed] {
        let request = Request { recompute: vec![Recompute::Nothing], ..Request::of_chips(4) };
        let every = Request { exhaustive: true, ..request.clone() };
        let found = tuned(source, &request, &Options::default());
        let winner = &tuned(source, &every, &Options::default()).strategies[0];
        assert_eq!(found.strategies[0], *winner);
        assert!(found.space.illegal > 0 && winner.degree("PP") > 1, "{winner:?}");
    }
}

#[test]
fn errors_are_at_places_of_the_text_that_was_given() {
    let at = |source: &str| match tune("p", source, &wide(), &Options::default(), &|_| ()) {
        Err(Refused::Program(findings)) => {
            let report = &findings.reports[0];
            let labels = &report.diag.labels;
            let place = labels.last().expect("a label").span;
            (report.diag.code, source[place.start..place.end].to_owned())
        }
        other => panic!("{other:?}"),
    };
    // Neither has a mesh: that of a candidate is a line more.
    assert_eq!(at(&FORWARD.replace("wout\n", "wrong\n")), ("SW101", "wrong".to_owned()));
    assert_eq!(at(&FORWARD.replace("win[D, F]", "win[D_Q, F]")), ("SW204", "Q".to_owned()));
    let (code, place) = at(&FORWARD.replace("hardware h100", "# none"));
    assert_eq!((code, place.as_str()), ("SW402", ""));
}
