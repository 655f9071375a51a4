//! `import torch`: models, imported, planned, exported to JAX and run on four virtual devices,
//! compared with the models themselves on the same numbers.
//!
//! `published.py` has models of the package `transformers`: `pip install torch==2.15.0
//! transformers==5.23.0 --requirement cli/python/requirements.txt`.

use std::path::PathBuf;
use std::process::Command;

use crate::cases::JAX;
use crate::common::{blocks, empty_folder, root, run_page, text};
use crate::importing;

fn folder() -> PathBuf {
    root().join("cli/tests/torch/imported")
}

/// The models of a file and the arguments of each, as its `CASES` have them.
fn cases(file: &str) -> Vec<(String, String)> {
    let script = format!("import {file}\nfor it in {file}.CASES.items(): print('\\t'.join(it))");
    let output = Command::new("python3")
        .args(["-c", &script])
        .current_dir(folder())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python starts");
    assert!(output.status.success(), "run `pip install torch`: {}", text(&output.stderr));
    let split = |line: &str| line.split_once('\t').map(|(a, b)| (a.to_owned(), b.to_owned()));
    text(&output.stdout).lines().filter_map(split).collect()
}

/// Compares what was imported from a file with its models; how many there are.
fn run(file: &str) -> usize {
    let scratch = empty_folder(&format!("imported-torch-{file}"));
    let path = folder().join(file).with_extension("py");
    let written = |(model, given): &(String, String)| {
        importing::written("torch", &scratch, &path, (model, given))
    };
    let cases: Vec<String> = cases(file).iter().map(written).collect();
    let needs = format!("torch==2.15.0 transformers==5.23.0 {JAX}");
    importing::assert_equal("run_imported_torch.py", &scratch, &cases, &needs);
    cases.len()
}

#[test]
fn models_that_are_written_out_compute_what_they_compute_in_pytorch() {
    assert!(run("written") > 7);
}

#[test]
fn published_models_compute_what_they_compute_in_pytorch() {
    assert!(run("published") > 15);
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = "compiler/docs/import-torch.md";
    let shown = blocks(&std::fs::read_to_string(root().join(page)).expect("the page is there"));
    assert!(shown.iter().any(|block| block.0 == "text"));
    assert!(run_page(page, &root()) > 1);
}

#[test]
fn the_line_of_the_page_runs() {
    importing::assert_runs(&importing::line_of("compiler/docs/import-torch.md"));
}

/// Models of `mistakes.py`, their arguments, and what the error says.
const MISTAKES: [(&str, &str, &[&str]); 9] = [
    ("sampled", "f32[8, 4]", &["mistakes.py:15: ", "`multinomial`", "pass the result"]),
    ("branching", "f32[8, 4]", &["`torch.export` cannot export", "mistakes.py:22: "]),
    ("smallest", "f32[8, 4]", &["mistakes.py:28: ", "`topk` of the smallest"]),
    (
        "bags",
        "int64[12], int64[4]",
        &["mistakes.py:59: `embedding_bag` with bags of several lengths", "a bag in each row"],
    ),
    ("function", "f32[8, 4]", &["is of type `int`", "no `torch.nn.Module`"]),
    ("sampled", "f32[8, 4], 1", &["do not fit `forward(x)`: too many"]),
    ("sampled", "f32[B:8, D]", &["`D` has no size; write `D:128`"]),
    ("missing", "", &["has no function `missing`", "it has "]),
    ("raising", "", &["`raising` cannot be made", "ValueError: too cold"]),
];

#[test]
fn mistakes_say_what_is_wrong_and_what_to_do() {
    for (model, arguments, expected) in MISTAKES {
        let target = format!("mistakes.py:{model}");
        let asked = ["torch", "--strict", &target, "--args", arguments];
        let error = importing::refusal(&folder(), &asked);
        for part in expected.iter().chain(&["SW904", "\n  help: "]) {
            assert!(error.contains(part), "{model}: {error}");
        }
    }
}
