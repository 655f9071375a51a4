//! Plans exported to `PyTorch`: their modules are read, and their collectives compared with those
//! of the plan. The suite `torch` runs them.

use std::path::PathBuf;
use std::process::Command;

use shardwise::codes;

use crate::cases::torch_modules;
use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

fn python() -> Command {
    require(&["python3"]);
    let mut command = Command::new("python3");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Compares the statements of `device_step` that communicate with the steps of the plan.
const COLLECTIVES: &str = r#"
import ast, json, sys

NAMES = {
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "exchange": "all_to_all",
    "relabel": "permute",
}

def called(node):
    calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    names = {getattr(one, "id", None) or getattr(one, "attr", None) for one in calls}
    return [NAMES[name] for name in NAMES if name in names]

for path in sys.argv[1:]:
    tree = ast.parse(open(path.removesuffix(".json") + ".py").read())
    step = next(node for node in tree.body if getattr(node, "name", "") == "device_step")
    lines = [node for node in ast.walk(step) if isinstance(node, ast.Assign)]
    lines.sort(key=lambda node: node.lineno)
    found = [kind for line in lines for kind in called(line)]
    plan = json.load(open(path))["plan"]
    kinds = [step["operation"]["kind"] for step in plan["steps"] if "operation" in step]
    assert found == [kind for kind in kinds if kind in NAMES.values()], (path, found)
print("equal", len(sys.argv) - 1)
"#;

#[test]
fn collectives_of_modules_are_those_of_the_plan_in_its_order() {
    let paths: Vec<PathBuf> = ["book", "layers", "optimizer"]
        .iter()
        .flat_map(|folder| {
            torch_modules(folder, &empty_folder(&format!("torch-collectives-{folder}")))
        })
        .collect();
    assert!(paths.len() > 90, "{}", paths.len());
    let ran = python().args(["-c", COLLECTIVES]).args(&paths).output().expect("python starts");
    assert!(text(&ran.stdout).starts_with("equal "), "{}", text(&ran.stderr));
}

#[test]
fn what_cannot_be_exported_yet_is_an_error_with_a_code() {
    let output = Command::new(SHARDWISE)
        .args(["export", "torch"])
        .arg(root().join("tests/programs/renamed-padded.shard"))
        .output()
        .expect("shardwise starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let error = text(&output.stderr);
    assert!(error.contains(codes::tool::NOT_EXPORTED) && error.contains("PyTorch"), "{error}");
}

#[test]
fn formats_of_jax_are_no_formats_of_torch() {
    let output = Command::new(SHARDWISE)
        .args(["export", "torch", "--format", "specs"])
        .arg(root().join("tests/programs/mlp-2d.shard"))
        .output()
        .expect("shardwise starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`torch` has module"), "{}", text(&output.stderr));
}
