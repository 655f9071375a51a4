//! Complete models, written as a person would sketch them: their sizes against published ones, and
//! their plans on simulated devices.
//!
//! They are planned by the search, which proves most of its plans in seconds; those named in
//! [`SLOW`] by the textbook's rules. Each is a test of its own, so that all cores verify.

use shardwise::verify::{Setup, verify};
use shardwise::{AxisSize, DimSize, Options, Planned, Strategy};
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read};

/// Experts between layers that are kept, on three axes: a quarter of a minute, for a plan that is
/// hardly cheaper.
const SLOW: &[&str] = &["deepseek-v3-train"];

fn options(name: &str) -> Options {
    let strategy = if SLOW.contains(&name) { Strategy::Textbook } else { Strategy::Search };
    Options { strategy, ..Options::default() }
}

fn plan(name: &str) -> (String, Planned) {
    let source = read(&format!("tests/programs/models/{name}.shard"));
    let planned =
        shardwise::plan(name, &source, &options(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    (source, planned)
}

/// What stands between two texts in a plan's comments.
fn between<'p>(plan: &'p str, before: &str, after: &str) -> &'p str {
    let rest = plan.split_once(before).unwrap_or_else(|| panic!("no {before} in {plan}")).1;
    rest.split(after).next().unwrap_or(rest)
}

/// A model's line in the page's table.
fn row(name: &str, source: &str, planned: &Planned) -> String {
    let plan = planned.to_string();
    let machine =
        format!("{}, {}", between(source, "hardware ", "\n"), between(source, "\nmesh ", "\n"));
    let cost = planned.cost();
    let (billions, flops) = (cost.parameters.elements / 1e9, cost.flops);
    let serial = between(&plan, "# serial ", " =");
    let scheduled = between(&plan, "# scheduled ", ",");
    let bound = between(&plan, "bound by ", "\n");
    let memory = between(&plan, "# memory: peak ", " (");
    let found = between(&plan, "# found: ", "[").trim_end_matches("; ").trim();
    let found = found.split([';', '(']).next().unwrap_or(found).trim();
    format!(
        "| {name} | {machine} | {billions:.3} | {flops:.2e} | {serial} | {scheduled} | {bound} | \
            {memory} | {found} |"
    )
}

/// A model has as many parameters as were published, give or take 1%; its plan is that of the
/// snapshot, fits into memory, and is right.
fn is_right(name: &str, published: f64) {
    let (source, planned) = plan(name);
    let elements = planned.cost().parameters.elements;
    assert!((elements / published - 1.0).abs() < 0.01, "{name}: {elements} and {published}");
    plan_snapshot("models", name, &planned);
    let (page, row) = (read("compiler/docs/models.md"), row(name, &source, &planned));
    assert!(page.contains(&row), "the table in compiler/docs/models.md should say\n{row}");
    let verdict = verify(name, &source, &options(name), &Setup::default())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
}

macro_rules! models {
    ($($test:ident, $name:literal, $published:literal;)*) => {
        $(#[test] fn $test() { is_right($name, $published); })*
        const NAMES: &[&str] = &[$($name),*];
    };
}

models! {
    clip_l14_train, "clip-l14-train", 428e6;
    deepseek_v3_decode, "deepseek-v3-decode", 671e9;
    // One of its 58 layers with experts: 11.3e9 in experts, 44e6 shared, 187e6 in attention, 1.8e6
    // to route.
    deepseek_v3_layer, "deepseek-v3-layer", 11.5e9;
    deepseek_v3_prefill, "deepseek-v3-prefill", 671e9;
    deepseek_v3_train, "deepseek-v3-train", 671e9;
    llama2_13b_decode, "llama2-13b-decode", 13.0e9;
    llama2_13b_prefill, "llama2-13b-prefill", 13.0e9;
    llama2_13b_train, "llama2-13b-train", 13.0e9;
    llama3_405b_decode, "llama3-405b-decode", 405.9e9;
    llama3_405b_prefill, "llama3-405b-prefill", 405.9e9;
    llama3_405b_train, "llama3-405b-train", 405.9e9;
    llama3_70b_decode, "llama3-70b-decode", 70.6e9;
    llama3_70b_prefill, "llama3-70b-prefill", 70.6e9;
    llama3_70b_train, "llama3-70b-train", 70.6e9;
    llama3_8b_decode, "llama3-8b-decode", 8.03e9;
    llama3_8b_long_decode, "llama3-8b-long-decode", 8.03e9;
    llama3_8b_prefill, "llama3-8b-prefill", 8.03e9;
    llama3_8b_train, "llama3-8b-train", 8.03e9;
    mixtral_8x7b_decode, "mixtral-8x7b-decode", 46.7e9;
    mixtral_8x7b_prefill, "mixtral-8x7b-prefill", 46.7e9;
    mixtral_8x7b_train, "mixtral-8x7b-train", 46.7e9;
    vit_l16_train, "vit-l16-train", 304e6;
}

/// Parameters that a token meets: those left where there are as many experts as it is sent to.
fn active(name: &str, chosen: u64) -> f64 {
    let source = read(&format!("tests/programs/models/{name}.shard"));
    let axes = shardwise::check(name, &source, &Options::default())
        .program
        .unwrap_or_else(|| panic!("{name}"))
        .into_program()
        .mesh
        .axes;
    let mesh = axes.iter().map(|axis| AxisSize::new(&axis.name, 1)).collect();
    let dims = vec![DimSize { name: "E".to_owned(), size: chosen }];
    let options = Options {
        mesh,
        dims,
        memory: Some(f64::INFINITY),
        strategy: Strategy::Textbook,
        ..Options::default()
    };
    shardwise::plan(name, &source, &options)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .cost()
        .parameters
        .elements
}

#[test]
fn a_token_meets_few_of_the_experts() {
    for (name, chosen, published) in
        [("deepseek-v3-train", 8, 37e9), ("mixtral-8x7b-train", 2, 12.9e9)]
    {
        let active = active(name, chosen);
        assert!((active / published - 1.0).abs() < 0.02, "{name}: {active} and {published}");
    }
}

/// 3.8e25 FLOPs for 15.6e12 tokens, as published; what is computed again is left out, attention's
/// scores are not.
#[test]
fn training_takes_as_many_flops_as_published() {
    let source =
        read("tests/programs/models/llama3-405b-train.shard").replace("  checkpoint\n", "");
    let options =
        Options { strategy: Strategy::Textbook, memory: Some(f64::INFINITY), ..Options::default() };
    let planned =
        shardwise::plan("llama3-405b-train", &source, &options).unwrap_or_else(|e| panic!("{e}"));
    let flops = planned.cost().flops / (2048.0 * 8192.0) * 15.6e12;
    assert!((flops / 3.8e25 - 1.0).abs() < 0.05, "{flops}");
}

#[test]
fn every_model_is_tested() {
    let found: Vec<String> =
        files("tests/programs/models", ".shard").into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, NAMES);
}
