//! Plans run from their JSON alone, by an interpreter that reads nothing else; the JSON of every
//! plan is valid by its schema.

use std::process::Command;

use shardwise::Strategy;

use crate::cases::cases;
use crate::common::{empty_folder, root, text};
use crate::require;

/// Runs the searched plans of the programs in a folder; how many there are.
fn run(folder: &str, strategy: Strategy) -> usize {
    require(&["python3", "check-jsonschema"]);
    let scratch = empty_folder(&format!("interpreter-{}-{strategy:?}", folder.replace('/', "-")));
    let cases = cases(folder, strategy);
    let mut command = Command::new("python3");
    let mut validator = Command::new("check-jsonschema");
    validator.arg("--schemafile").arg(root().join("tests/schemas/plan-2.json"));
    command.arg(root().join("cli/python/run_plan.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    for case in &cases {
        let path = scratch.join(&case.name).with_extension("json");
        std::fs::write(&path, case.json().to_string()).expect("a file can be written");
        command.arg(&path);
        let plan = path.with_extension("plan.json");
        std::fs::write(&plan, case.planned.json().to_text()).expect("a file can be written");
        validator.arg(plan);
    }
    let checked = validator.output().expect("the validator starts");
    assert!(checked.status.success(), "{}", text(&checked.stdout));
    let output = command.output().expect("python starts");
    let log = text(&output.stdout);
    let wrong: Vec<&str> = log.lines().filter(|line| !line.starts_with("equal ")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(output.status.success(), "run `pip install numpy`: {}", text(&output.stderr));
    assert_eq!(log.lines().count(), cases.len());
    cases.len()
}

#[test]
fn an_interpreter_of_the_json_alone_computes_what_programs_mean() {
    assert!(run("", Strategy::Textbook) >= 180);
}

#[test]
fn it_runs_plans_that_were_searched_for() {
    let folders = ["book", "layers", "microbatches", "operations", "optimizer", "pipelines"];
    assert!(folders.map(|folder| run(folder, Strategy::Search)).iter().sum::<usize>() > 100);
}
