//! Plans as JSON and as text between versions: the schema, older documents, and that a document
//! says what is needed to run a plan.

use shardwise::json::{self, NodeJson, Operation, PlanJson};
use shardwise::schemas::SCHEMAS;
use shardwise::{Options, Rates};
use shardwise_tests::{files, read, statements};

fn planned(source: &str) -> PlanJson {
    shardwise::plan("plan", source, &Options::default())
        .unwrap_or_else(|error| panic!("{error}"))
        .json()
}

#[test]
fn schemas_are_the_ones_that_are_published() {
    let versions = [("plan", 2), ("tune", 1), ("tune-curve", 1), ("tune-serving", 1)];
    assert_eq!(SCHEMAS.len(), versions.len());
    for (schema, (name, version)) in SCHEMAS.iter().zip(versions) {
        let (path, text) = (format!("tests/schemas/{name}-{version}.json"), (schema.write)(&()));
        assert!(schema.name == name && schema.about.contains(&format!("{name}/{version}`")));
        assert_eq!(
            text.as_deref().map(str::trim_end),
            Ok(read(&path).trim_end()),
            "run `shardwise schema {name} > {path}`"
        );
    }
    assert_eq!((SCHEMAS[0].write)(&()), Ok(json::schema()));
}

#[test]
fn plans_of_version_1_are_read() {
    let old: PlanJson =
        serde_json::from_str(&read("tests/schemas/plan-1.json")).expect("it is a plan");
    let new = planned(&read("tests/programs/layers/forward.shard"));
    assert_eq!(
        (old.schema.as_str(), new.schema.as_str()),
        ("shardwise.plan/1", "shardwise.plan/2")
    );
    let texts = |plan: &PlanJson| -> Vec<String> {
        plan.steps.iter().map(|step| step.text.clone()).collect()
    };
    assert_eq!(texts(&old), texts(&new));
    assert!(old.steps.iter().all(|step| step.operation.is_none()) && old.body.is_empty());
}

/// Prices may have changed since, and commas before dimensions that receive axes are arrows;
/// statements may not have.
#[test]
fn printed_plans_of_earlier_versions_are_plans() {
    for (name, text) in files("tests/programs/old", ".shard") {
        let again = shardwise::plan(&name, &text, &Options::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let commas = |text: &str| statements(&text.replace("->", ","));
        assert_eq!(commas(&again.to_string()), commas(&text), "{name}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let plan = planned(&read("tests/programs/microbatches/layers.shard"));
    let again: PlanJson = serde_json::from_str(&plan.to_text()).expect("it is a plan");
    assert_eq!(again.body, plan.body);
    assert_eq!(again.steps[0].operation, plan.steps[0].operation);
}

#[test]
fn what_was_regrouped_is_noted() {
    let plan = planned(&read("tests/programs/operations/regroup-linear-attention.shard"));
    assert_eq!(plan.notes, ["regrouped, equal but for rounding: Out = Q *D (K *S V)"]);
    let text = planned(&read("tests/programs/layers/forward.shard")).to_text();
    assert!(!text.contains("\"notes\""), "absent where there are none");
}

#[test]
fn rolls_and_carries_are_no_permutes() {
    let plan = planned(&read("tests/programs/operations/roll-back.shard"));
    let rolls: Vec<(&str, Option<u64>)> = plan
        .steps
        .iter()
        .filter_map(|step| match step.operation {
            Some(Operation::Roll { distance, .. }) => Some((step.kind.as_str(), Some(distance))),
            _ => None,
        })
        .collect();
    assert_eq!(rolls, [("roll", Some(1)), ("roll", Some(65535))]);
    let layers = planned(&read("tests/programs/layers/train.shard"));
    let kinds: Vec<&str> = layers.steps.iter().map(|step| step.kind.as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| ["carry", "last"].contains(kind)).count(), 4);
    assert!(!kinds.contains(&"permute"));
}

#[test]
fn blocks_are_a_tree_and_say_what_they_pass_on() {
    let plan = planned(&read("tests/programs/layers/train.shard"));
    let blocks: Vec<usize> = plan
        .body
        .iter()
        .filter_map(|node| match node {
            NodeJson::Block { block, .. } => Some(*block),
            NodeJson::Step(_) => None,
        })
        .collect();
    assert_eq!(blocks, [0, 1]);
    assert_eq!((plan.blocks[0].count, plan.blocks[1].reverses), (40, Some(0)));
    assert_eq!(plan.blocks[0].yields[0].to, "x.in");
    assert_eq!(plan.blocks[0].yields[0].tensor.value, "x.1");
}

#[test]
fn rates_and_the_expected_time_are_written() {
    let source = "hardware h100\nmesh X=8\ndim N=1048576\ninput A[N_X]\noutput A[N]\n";
    let at = |rates: Rates| {
        let options = Options { rates: Some(rates), ..Options::default() };
        let planned = shardwise::plan("rates", source, &options).unwrap_or_else(|e| panic!("{e}"));
        (planned.json(), planned.cost())
    };
    let (peak, cost) = at(Rates::Peak);
    let (measured, _) = at(Rates::Measured);
    assert_eq!(
        (peak.rates.as_str(), measured.rates.as_str(), cost.rates),
        ("peak", "measured", "peak")
    );
    let (at_peak, expected) =
        (peak.expected.expect("measured"), measured.expected.expect("measured"));
    assert!((expected.step_s - measured.cost.scheduled_s).abs() < 1e-12);
    assert!((at_peak.at_peak_s - peak.cost.scheduled_s).abs() < 1e-12);
    assert!(expected.mean_error > 0.0 && cost.expected == Some(at_peak));
    let bare = source.replace("h100", "mi355x");
    let bare =
        shardwise::plan("bare", &bare, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    assert!(bare.json().expected.is_none());
}
