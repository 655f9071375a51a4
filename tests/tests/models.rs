//! Whole models, written as a person would sketch them: what they hold against what was published, and their plans on simulated devices.

use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::files;

/// Published parameter counts.
const PARAMETERS: [(&str, f64); 2] = [("llama2-13b-decode", 13.02e9), ("llama3-8b-train", 8.03e9)];

fn textbook() -> Options {
    Options { strategy: Strategy::Textbook, ..Options::default() }
}

#[test]
fn parameters_are_those_published() {
    for (name, source) in files("tests/programs/models", ".shard") {
        let (_, published) =
            PARAMETERS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}: how many are published?"));
        let planned = shardwise::plan(&name, &source, &textbook()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let elements = planned.cost().parameters.elements;
        assert!((elements / published - 1.0).abs() < 0.01, "{name}: {elements} and {published}");
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "../programs/models"}, {
            insta::assert_snapshot!(name, planned.to_string());
        });
    }
}

#[test]
fn their_plans_are_right() {
    for (name, source) in files("tests/programs/models", ".shard") {
        let verdict = verify(&name, &source, &textbook(), &Setup::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
    }
}
