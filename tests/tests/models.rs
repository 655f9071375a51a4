//! Whole models, written as a person would sketch them: what they hold against what was published, and their plans on simulated devices.
//!
//! What serves (prefill, decode) is planned by the search, which proves its plans in a second; training steps by the textbook's rules, since the
//! search takes seconds to minutes for them. Each is a test of its own, so that all cores verify.

use shardwise::verify::{Setup, verify};
use shardwise::{AxisSize, DimSize, Options, Planned, Strategy};
use shardwise_tests::{files, read};

fn options(name: &str) -> Options {
    let strategy = if name.ends_with("code") || name.ends_with("prefill") { Strategy::Search } else { Strategy::Textbook };
    Options { strategy, ..Options::default() }
}

fn plan(name: &str) -> (String, Planned) {
    let source = read(&format!("tests/programs/models/{name}.shard"));
    let planned = shardwise::plan(name, &source, &options(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    (source, planned)
}

/// A model has as many parameters as were published, give or take 1%; its plan is that of the snapshot, fits into memory, and is right.
fn holds(name: &str, published: f64) {
    let (source, planned) = plan(name);
    let elements = planned.cost().parameters.elements;
    assert!((elements / published - 1.0).abs() < 0.01, "{name}: {elements} and {published}");
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "../programs/models"}, {
        insta::assert_snapshot!(name, planned.to_string());
    });
    let verdict = verify(name, &source, &options(name), &Setup::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
}

macro_rules! models {
    ($($test:ident, $name:literal, $published:literal;)*) => {
        $(#[test] fn $test() { holds($name, $published); })*
        const NAMES: &[&str] = &[$($name),*];
    };
}

models! {
    clip_l14_train, "clip-l14-train", 428e6;
    // One of its 58 layers with experts: 11.3e9 in experts, 44e6 shared, 187e6 in attention, 1.8e6 to route.
    deepseek_v3_layer, "deepseek-v3-layer", 11.5e9;
    deepseek_v3_train, "deepseek-v3-train", 671e9;
    llama2_13b_decode, "llama2-13b-decode", 13.0e9;
    llama3_405b_decode, "llama3-405b-decode", 405.9e9;
    llama3_405b_prefill, "llama3-405b-prefill", 405.9e9;
    llama3_405b_train, "llama3-405b-train", 405.9e9;
    llama3_70b_decode, "llama3-70b-decode", 70.6e9;
    llama3_70b_prefill, "llama3-70b-prefill", 70.6e9;
    llama3_70b_train, "llama3-70b-train", 70.6e9;
    llama3_8b_decode, "llama3-8b-decode", 8.03e9;
    llama3_8b_prefill, "llama3-8b-prefill", 8.03e9;
    llama3_8b_train, "llama3-8b-train", 8.03e9;
    mixtral_8x7b_decode, "mixtral-8x7b-decode", 46.7e9;
    mixtral_8x7b_train, "mixtral-8x7b-train", 46.7e9;
    vit_l16_train, "vit-l16-train", 304e6;
}

/// Parameters that a token meets: those left where there are as many experts as it is sent to.
fn active(name: &str, chosen: u64) -> f64 {
    let source = read(&format!("tests/programs/models/{name}.shard"));
    let axes = shardwise::check(name, &source, &Options::default()).program.unwrap_or_else(|| panic!("{name}")).mesh.axes;
    let mesh = axes.iter().map(|axis| AxisSize { name: axis.name.clone(), size: 1, over: None }).collect();
    let dims = vec![DimSize { name: "E".to_owned(), size: chosen }];
    let options = Options { mesh, dims, memory: Some(f64::INFINITY), strategy: Strategy::Textbook, ..Options::default() };
    shardwise::plan(name, &source, &options).unwrap_or_else(|e| panic!("{name}: {e}")).cost().parameters.elements
}

#[test]
fn a_token_meets_few_of_the_experts() {
    for (name, chosen, published) in [("deepseek-v3-train", 8, 37e9), ("mixtral-8x7b-train", 2, 12.9e9)] {
        let active = active(name, chosen);
        assert!((active / published - 1.0).abs() < 0.02, "{name}: {active} and {published}");
    }
}

#[test]
fn every_model_is_tested() {
    let found: Vec<String> = files("tests/programs/models", ".shard").into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, NAMES);
}
