//! Programs that people write first, each in the obvious way and short: they are planned, their
//! plans run on simulated devices and are planned a second time, and `check` finds no error in
//! them. Each is a test of its own, so that all cores verify.

use shardwise::Options;
use shardwise::lint::{Settings, lint};
use shardwise::verify::{Setup, verify};
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read};

/// Lines of a program, without comments and empty ones.
const MOST_LINES: usize = 40;

fn is_planned_as_written(name: &str) {
    let source = read(&format!("tests/programs/twenty/{name}.shard"));
    let lines = source.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(lines.count() <= MOST_LINES, "{name} is long");
    let options = Options::default();
    let linted = lint(name, &source, &options, &Settings::default());
    assert!(!linted.has_errors(), "{name}: {}", linted.reports());
    let verdict = verify(name, &source, &options, &Setup::default())
        .unwrap_or_else(|findings| panic!("{name}: {findings}"));
    assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{name}: {verdict}");
    let plan = |source: &str| {
        shardwise::plan(name, source, &options).unwrap_or_else(|e| panic!("{name}: {e}\n{source}"))
    };
    let planned = plan(&source);
    assert_eq!(plan(&planned.to_string()).to_string(), planned.to_string(), "{name}");
    plan_snapshot("twenty", name, &planned);
}

/// A test for each program, and the list of their names.
macro_rules! programs {
    ($($test:ident: $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];

        $(#[test]
        fn $test() {
            is_planned_as_written($name);
        })*
    };
}

programs! {
    context_parallel: "context-parallel",
    diffusion_transformer: "dit",
    recommendations_with_26_tables: "dlrm",
    gemma_2: "gemma2",
    gpt_oss_with_experts: "gpt-oss-moe",
    graph_sage: "graphsage",
    a_decode_step_in_int8: "int8-decode",
    linear_attention: "linear-attention",
    llama_3_70b: "llama3-70b-gqa",
    local_and_global_layers: "local-global",
    lora: "lora",
    mamba_2: "mamba-2",
    two_slices: "multislice",
    muon: "muon",
    palm: "palm",
    a_pipeline_with_its_loss: "pipeline-loss",
    a_block_of_resnet: "resnet-block",
    speculative_verification: "speculative",
    two_towers: "two-towers",
    z_loss: "z-loss",
}

#[test]
fn all_of_them_are_tested() {
    let names: Vec<String> =
        files("tests/programs/twenty", ".shard").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, NAMES);
}
