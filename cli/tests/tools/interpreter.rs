//! Plans run from their JSON alone, by an interpreter that reads nothing else; the JSON of every
//! plan, and that of `tune`, is valid by its schema.

use std::path::PathBuf;
use std::process::Command;

use shardwise::Strategy;

use crate::cases::{Case, assert_equal, cases};
use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

/// Runs the searched plans of the programs in a folder; how many there are.
fn run(folder: &str, strategy: Strategy) -> usize {
    require(&["python3", "check-jsonschema"]);
    let scratch = empty_folder(&format!("interpreter-{}-{strategy:?}", folder.replace('/', "-")));
    let mut validator = Command::new("check-jsonschema");
    validator.arg("--schemafile").arg(root().join("tests/schemas/plan-2.json"));
    let mut write = |case: &Case| {
        let path = case.write(&scratch);
        let plan = path.with_extension("plan.json");
        std::fs::write(&plan, case.planned.json().to_text()).expect("a file can be written");
        validator.arg(plan);
        path
    };
    let paths: Vec<PathBuf> = cases(folder, strategy).iter().map(&mut write).collect();
    let checked = validator.output().expect("the validator starts");
    assert!(checked.status.success(), "{}", text(&checked.stdout));
    let mut script = Command::new("python3");
    script.arg(root().join("cli/python/run_plan.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    assert_equal(&mut script, &paths, "numpy");
    paths.len()
}

/// A program, the arguments of `tune` after it, and the document that it writes.
const TUNED: [(&str, &str, &str); 4] = [
    (
        "tests/programs/fsdp_tp.shard",
        "--free --chips 64 --best 2 --what-if --price 2 --against tests/programs/fsdp_tp.shard",
        "tune-1",
    ),
    (
        "tests/programs/tune/mlp.shard",
        "--chips 8 --stages 1|2 --microbatches 4 --batch 4096|8192 --best 4",
        "tune-1",
    ),
    ("tests/programs/sweep/mixed.shard", "--chips 16..64 --memory 300MB --best 1", "tune-curve-1"),
    (
        "tests/programs/models/llama3-8b-decode.shard",
        "--free --chips 8 --hardware h100 --tokens 500 --batch 8|32 --best 2 \
            --prefill tests/programs/models/llama3-8b-prefill.shard",
        "tune-serving-1",
    ),
];

#[test]
fn the_json_of_tune_is_valid_by_its_schema() {
    require(&["check-jsonschema"]);
    let scratch = empty_folder("json-of-tune");
    for (number, (program, arguments, schema)) in TUNED.into_iter().enumerate() {
        let output = Command::new(SHARDWISE)
            .args(["tune", program, "--format", "json"])
            .args(arguments.split_whitespace())
            .current_dir(root())
            .output()
            .expect("the command starts");
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        let document = scratch.join(format!("{number}.json"));
        std::fs::write(&document, &output.stdout).expect("a file can be written");
        let checked = Command::new("check-jsonschema")
            .arg("--schemafile")
            .args([root().join(format!("tests/schemas/{schema}.json")), document])
            .output()
            .expect("the validator starts");
        assert!(checked.status.success(), "{arguments}: {}", text(&checked.stdout));
    }
}

#[test]
fn an_interpreter_of_the_json_alone_computes_what_programs_mean() {
    assert!(run("", Strategy::Textbook) >= 180);
}

#[test]
fn it_runs_plans_that_were_searched_for() {
    let folders =
        ["book", "layers", "scans", "microbatches", "operations", "optimizer", "pipelines"];
    assert!(folders.map(|folder| run(folder, Strategy::Search)).iter().sum::<usize>() > 100);
}
