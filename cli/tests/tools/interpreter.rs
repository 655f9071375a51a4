//! Plans run from their JSON alone, by an interpreter that reads nothing else; the JSON of every
//! plan is valid by its schema.

use std::path::PathBuf;
use std::process::Command;

use shardwise::Strategy;

use crate::cases::{Case, assert_equal, cases};
use crate::common::{empty_folder, root, text};
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
