//! `tune --dtypes`: the winner over several dtypes is that of exhaustive enumeration and a program
//! that `plan` reproduces; what a chip or a program cannot have is left out with a reason; tables,
//! records and flags of frameworks name the dtypes.

use shardwise::options::{AxisParts, Grouping, Objective};
use shardwise::tune::{Dtypes, FORMATS, Refused, Request, SERVING_FORMATS, Serve, Tuned};
use shardwise::tune::{serve, tune};
use shardwise::{Options, Products, plan};
use shardwise_ir::dtype::DType;

/// Layers in training.
const LAYERS: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, D]\n\
    repeat L=4 {\n  carry x\n  param win[D, F], wout[F, D]\n  x = x + gelu(x *D win) *F wout\n}\n\
    backward from x given dy\n";

/// Layers of a decode step with a table and a head, and a bias that is no product's.
const DECODE: &str = "hardware h100\ndim B=64, D=2048, F=8192, V=1024\ninput ids: int32[B]\n\
    param Embed[V, D], head[D, V]\nx[B, D] = take_V(Embed, ids)\nrepeat L=4 {\n  carry x\n\
    param win[D, F], wout[F, D], b[D]\n  x = x + gelu((x + b) *D win) *F wout\n}\n\
    output y[B, V] = x *D head\n";

fn narrow(names: &[&str]) -> Vec<Dtypes> {
    names.iter().map(|name| Dtypes::from_name(name).expect("a choice")).collect()
}

fn request(chips: u64, names: &[&str]) -> Request {
    let dtypes = narrow(names);
    Request { microbatches: vec![1, 2], stages: vec![1, 2], dtypes, ..Request::of_chips(chips) }
}

fn tuned(source: &str, request: &Request, options: &Options) -> Tuned {
    tune("program", source, request, options, &|_| ()).unwrap_or_else(|no| panic!("{no:?}"))
}

fn refused(source: &str, request: &Request) -> String {
    match tune("program", source, request, &Options::default(), &|_| ()) {
        Err(Refused::Options(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn format(tuned: &Tuned, name: &str) -> String {
    let format = FORMATS.iter().find(|format| format.name == name).expect("a format");
    (format.write)(tuned).expect("it can be written")
}

#[test]
fn the_winner_is_that_of_exhaustive_enumeration_and_plan_reproduces_it() {
    let limited = |bytes| Options { memory: Some(bytes), ..Options::default() };
    let scheduled = Options { objective: Objective::Scheduled, ..Options::default() };
    let training = request(8, &["written", "fp8"]);
    let first = Request { best: 1, ..request(4, &["written", "fp8"]) };
    let cases = [
        (LAYERS, training, limited(40e6)),
        (DECODE, request(8, &["bf16", "fp8", "int8", "int4"]), Options::default()),
        (DECODE, first, scheduled),
        (DECODE, request(4, &["written", "int8"]), limited(45e6)),
    ];
    for (source, request, options) in cases {
        let every = Request { exhaustive: true, ..request.clone() };
        let (found, every) = (tuned(source, &request, &options), tuned(source, &every, &options));
        let (own, other) = (&found.strategies[0], &every.strategies[0]);
        assert!((own.objective_s - other.objective_s).abs() <= 1e-8 * other.objective_s);
        assert_eq!(own.dtypes, other.dtypes);
        assert_ne!(own.dtypes, "written", "a narrow dtype takes less");
        assert!(found.lower_bound_s <= other.objective_s);
        let space = &found.space;
        let all = space.cut + space.planned + space.over_memory + space.illegal + space.left;
        assert_eq!(all, space.candidates, "{space:?}");
        let (parts, grouping) = (AxisParts::AsWritten, Grouping::AsWritten);
        let as_written = Options { parts, grouping, ..options };
        let planned = plan("winner", &found.winner, &as_written);
        let planned = planned.unwrap_or_else(|no| panic!("{no}\n{}", found.winner));
        let planned_s = match found.objective {
            "serial" => planned.report.serial_s,
            _ => planned.metrics().step_s,
        };
        assert_eq!(planned_s.to_bits(), own.objective_s.to_bits());
        assert_eq!(planned.to_string(), found.plan);
    }
}

#[test]
fn every_choice_is_the_best_of_its_own_search() {
    let names = ["written", "fp8"];
    let all = tuned(LAYERS, &Request { best: 100, ..request(8, &names) }, &Options::default());
    for name in names {
        let alone = tuned(LAYERS, &request(8, &[name]), &Options::default());
        let first = all.strategies.iter().find(|of| of.dtypes == name).expect("a row");
        assert_eq!(first.objective_s.to_bits(), alone.strategies[0].objective_s.to_bits());
    }
}

#[test]
fn training_converts_operands_and_serving_declares_weights() {
    let winner =
        |source: &str, name: &str| tuned(source, &request(8, &[name]), &Options::default()).winner;
    let training = winner(LAYERS, "fp8");
    assert!(training.starts_with("hardware h100, products=fp8\n"), "{training}");
    assert!(training.contains("param win[D_?, F_?], wout[F_?, D_?]"), "{training}");
    let both = winner(DECODE, "fp8");
    assert!(both.starts_with("hardware h100, products=fp8\n"), "{both}");
    assert!(both.contains("win: fp8[D_?, F_?], wout: fp8[F_?, D_?], b[D_?]"), "{both}");
    assert!(both.contains("param Embed[V_?, D_?], head[D_?, V_?]"), "{both}");
    let weights = winner(&both.replace("mesh", "# mesh"), "int8");
    assert!(weights.starts_with("hardware h100\n"), "{weights}");
    assert!(weights.contains("win: int8[D_?, F_?], wout: int8[F_?, D_?], b[D_?]"), "{weights}");
}

#[test]
fn options_and_settings_give_way_to_a_choice() {
    let layers = LAYERS.replace("B=512", "B=16384");
    let program = layers.replace("h100", "h100, products=fp8");
    let options = Options { products: Some(Products::Fp8), ..Options::default() };
    for (source, options) in [(&program, Options::default()), (&layers, options)] {
        let of = |name: &str| tuned(source, &request(8, &[name]), &options);
        let (written, wide, narrow) = (of("written"), of("bf16"), of("fp8"));
        let seconds = |tuned: &Tuned| tuned.strategies[0].objective_s;
        assert_eq!(seconds(&written).to_bits(), seconds(&narrow).to_bits());
        assert!(seconds(&wide) > 1.2 * seconds(&narrow));
        assert!(written.winner.contains("products=fp8"), "{}", written.winner);
        assert!(wide.winner.contains("products=bf16"), "{}", wide.winner);
    }
}

#[test]
fn what_a_chip_or_a_program_cannot_have_is_left_out() {
    let a100 = LAYERS.replace("h100", "a100");
    let found = tuned(&a100, &request(8, &["written", "fp8", "int8"]), &Options::default());
    let lines = [
        "fp8 is left out: a100 has no units that multiply it",
        "int8 is left out: gradients are fractions, which it has none of",
    ];
    assert_eq!(found.left_out, lines);
    let text = format(&found, "text");
    assert!(lines.iter().all(|line| text.contains(line)), "{text}");
    assert!(!text.contains("dtypes"), "one choice has no column: {text}");
    let none = refused(&a100, &request(8, &["fp8", "fp4"]));
    assert!(none.contains("--dtypes leaves nothing") && none.contains("a100 has no units"));
    let no_weights = "hardware h100\ndim B=8\ninput x[B]\noutput y[B] = x + x\n";
    assert!(refused(no_weights, &request(8, &["fp8"])).contains("multiplies no parameters"));
    let names = Dtypes::CHOICES.map(Dtypes::name);
    assert_eq!(names, ["written", "bf16", "fp8", "fp4", "int8", "int4"]);
    assert_eq!(Dtypes::from_name("int4"), Some(Dtypes::Weights(DType::Int4)));
}

#[test]
fn tables_and_records_name_the_dtypes() {
    let found = tuned(LAYERS, &request(8, &["written", "fp8"]), &Options::default());
    let text = format(&found, "text");
    let head = text.lines().next().unwrap_or_default();
    assert!(head.contains("again") && head.contains("  dtypes"), "{text}");
    assert!(format(&found, "md").lines().next().is_some_and(|line| line.contains("| dtypes |")));
    let csv = format(&found, "csv");
    assert!(csv.starts_with("rank,") && csv.contains(",recompute,dtypes,"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&format(&found, "json")).expect("JSON");
    assert_eq!(json["dtypes"], serde_json::json!(["written", "fp8"]));
    assert_eq!(json["strategies"][0]["dtypes"], "fp8");
    assert!(format(&found, "html").contains(" fp8"));
    let alone = format(&tuned(LAYERS, &request(8, &["fp8"]), &Options::default()), "text");
    assert!(alone.lines().nth(1).is_some_and(|line| line.contains(" fp8 ")), "{alone}");
}

#[test]
fn frameworks_have_flags_for_fp8_or_lack_it() {
    let found = tuned(LAYERS, &request(8, &["fp8"]), &Options::default());
    assert!(format(&found, "megatron").contains("--fp8-format hybrid\n"));
    assert!(format(&found, "maxtext").contains("quantization=fp8\n"));
    assert!(format(&found, "torchtitan").contains("--model.converters=quantize.linear.float8\n"));
    assert!(format(&found, "deepspeed").contains("products of layers in fp8"));
    let wide = tuned(LAYERS, &request(8, &["written"]), &Options::default());
    for name in ["megatron", "maxtext", "torchtitan", "deepspeed"] {
        assert!(!format(&wide, name).contains("8\": ") && !format(&wide, name).contains("fp8"));
    }
}

#[test]
fn a_strategy_written_by_hand_is_outside_where_its_dtypes_are() {
    let of = |name: &str| tuned(LAYERS, &request(8, &[name]), &Options::default()).winner;
    let (wide, narrow) = (of("written"), of("fp8"));
    let against = vec![("wide".to_owned(), wide), ("narrow".to_owned(), narrow)];
    let request = Request { against, ..request(8, &["fp8"]) };
    let found = tuned(LAYERS, &request, &Options::default());
    let outside: Vec<Option<&str>> = found.against.iter().map(|of| of.outside.as_deref()).collect();
    assert_eq!(outside, [Some("the dtypes of its products"), None]);
}

#[test]
fn deployments_compare_dtypes_of_both_phases() {
    let prefill = DECODE.replace("B=64", "B=4");
    let of = |names: &[&str]| {
        let serve_of = Serve {
            prefill: ("prefill".to_owned(), prefill.clone()),
            decode: ("decode".to_owned(), DECODE.to_owned()),
            tokens: 100,
            prompts: vec![4],
            sequences: vec![64],
            first_s: None,
            next_s: None,
        };
        let request = request(2, names);
        serve(&serve_of, &request, &Options::default(), &|_| ()).expect("it can be served")
    };
    let (wide, both) = (of(&["written"]), of(&["written", "fp8"]));
    assert_eq!(both.tuned, 2 * wide.tuned);
    assert!(both.deployments[0].requests_per_s > 1.2 * wide.deployments[0].requests_per_s);
    let text = (SERVING_FORMATS[0].write)(&both).expect("a table");
    assert!(text.contains(" fp8"), "{text}");
}
