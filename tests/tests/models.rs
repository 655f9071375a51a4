//! Whole models, written as a person would sketch them: what they hold against what was published, and their plans on simulated devices.
//!
//! Their snapshots are the textbook's plans, which take milliseconds; what the search finds takes seconds for the largest, and is measured in
//! the benches. Each is a test of its own, so that all cores verify.

use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::{files, read};

fn textbook() -> Options {
    Options { strategy: Strategy::Textbook, ..Options::default() }
}

/// A model has as many parameters as were published, give or take 1%; its plan is that of the snapshot, fits into memory, and is right.
fn holds(name: &str, published: f64) {
    let source = read(&format!("tests/programs/models/{name}.shard"));
    let planned = shardwise::plan(name, &source, &textbook()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let elements = planned.cost().parameters.elements;
    assert!((elements / published - 1.0).abs() < 0.01, "{name}: {elements} and {published}");
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "../programs/models"}, {
        insta::assert_snapshot!(name, planned.to_string());
    });
    let verdict = verify(name, &source, &textbook(), &Setup::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
}

macro_rules! models {
    ($($test:ident, $name:literal, $published:literal;)*) => {
        $(#[test] fn $test() { holds($name, $published); })*
        const NAMES: &[&str] = &[$($name),*];
    };
}

models! {
    // One of its 58 layers with experts: 11.3e9 in experts, 44e6 shared, 187e6 in attention, 1.8e6 to route.
    deepseek_v3_layer, "deepseek-v3-layer", 11.5e9;
    llama3_405b_train, "llama3-405b-train", 405.9e9;
    llama3_70b_decode, "llama3-70b-decode", 70.6e9;
    llama3_8b_train, "llama3-8b-train", 8.03e9;
}

#[test]
fn every_model_is_tested() {
    let found: Vec<String> = files("tests/programs/models", ".shard").into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, NAMES);
}
