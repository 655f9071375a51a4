//! `import hf`: the page, pipes, files, and errors.

use crate::common::{empty_folder, root, run_page, text};
use crate::{run, run_in};

#[test]
fn the_page_is_right() {
    assert_eq!(run_page("compiler/docs/import.md", &root()), 3);
}

#[test]
fn a_configuration_is_planned_in_one_line() {
    let config = "tests/configs/qwen2.5-0.5b.json";
    for step in ["train", "prefill", "decode"] {
        let imported = run(&["import", "hf", config, "--for", step], "");
        assert!(imported.status.success(), "{}", text(&imported.stderr));
        let planned = run(&["plan", "-"], &text(&imported.stdout));
        assert!(planned.status.success(), "{}", text(&planned.stderr));
    }
}

#[test]
fn a_configuration_may_begin_with_a_byte_order_mark() {
    let config = std::fs::read_to_string(root().join("tests/configs/llama-3.2-1b.json"));
    let config = config.expect("the fixture is there");
    let imported = run(&["import", "hf", "-"], &format!("\u{feff}{config}"));
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    assert_eq!(imported.stdout, run(&["import", "hf", "-"], &config).stdout);
}

#[test]
fn a_chip_that_is_not_known_is_asked_for_by_its_likely_name() {
    let config = "tests/configs/llama-3.2-1b.json";
    let refused = run(&["import", "hf", config, "--hardware", "h10"], "");
    let printed = text(&refused.stderr);
    assert!(printed.contains("--hardware: there is no hardware `h10`; did you mean `h100`?"));
    let far = text(&run(&["import", "hf", config, "--hardware", "abacus"], "").stderr);
    assert!(far.contains("`abacus`; `shardwise hardware` lists those known"), "{far}");
}

#[test]
fn sizes_and_the_machine_are_those_that_are_given() {
    let config = std::fs::read_to_string(root().join("tests/configs/llama-3.2-1b.json"));
    let folder = empty_folder("import-sizes");
    let arguments = [
        "import",
        "hf",
        "-",
        "-o",
        "out.shard",
        "--for",
        "decode",
        "--batch",
        "24",
        "--sequence",
        "100",
        "--mesh",
        "data=4 dcn,model=2",
        "--hardware",
        "tpu-v5e",
    ];
    let output = run_in(&folder, &arguments, &config.expect("the fixture is there"));
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    let program = std::fs::read_to_string(folder.join("out.shard")).expect("it is written");
    let lines = ["hardware tpu-v5e", "mesh data=4 dcn, model=2", "dim B=24 ", "dim S=100 "];
    for line in lines {
        assert!(program.contains(line), "{line}: {program}");
    }
}

#[test]
fn mistakes_say_what_is_wrong() {
    let refused = |arguments: &[&str], input: &str| {
        let output = run(&[&["import", "hf"], arguments].concat(), input);
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        (output.status.code(), text(&output.stderr))
    };
    let (code, error) = refused(&["missing.json"], "");
    assert_eq!(code, Some(2));
    assert!(error.contains("cannot read `missing.json`: no such file"), "{error}");
    let (_, error) = refused(&["tests/configs"], "");
    assert!(error.contains("is a directory; give the path of a `config.json` in it"), "{error}");
    for (input, expected) in [
        ("hidden", "not JSON: "),
        ("{}", "there is no field `model_type`"),
        (r#"{"model_type": "bert"}"#, "`model_type` is `bert`, which is none of deepseek_v2, "),
        (r#"{"model_type": "llama"}"#, "there is no field `hidden_size`"),
        (r#"{"model_type": "llama", "hidden_size": "64"}"#, "`hidden_size` is \"64\", not a whole"),
    ] {
        let (code, error) = refused(&["-"], input);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.starts_with("error: SW904: `-`: ") && error.contains(expected), "{error}");
    }
    let config = "tests/configs/llama-3.2-1b.json";
    let (code, error) = refused(&[config, "--batch", "0"], "");
    assert!(code == Some(2) && error.contains("--batch"), "{error}");
    let (code, error) = refused(&[config, "--mesh", "X"], "");
    assert!(code == Some(1) && error.contains("--mesh: "), "{error}");
}

#[test]
fn sizes_that_no_model_has_are_errors() {
    let config = std::fs::read_to_string(root().join("tests/configs/mixtral-8x7b.json"));
    let config: serde_json::Value = serde_json::from_str(&config.expect("it is there")).unwrap();
    let refused = |fields: &[(&str, u64)], arguments: &[&str]| {
        let mut changed = config.clone();
        for &(field, size) in fields {
            changed[field] = size.into();
        }
        let output = run(&[&["import", "hf", "-"], arguments].concat(), &changed.to_string());
        assert_eq!(output.status.code(), Some(1), "{fields:?} {}", text(&output.stderr));
        text(&output.stderr)
    };
    for field in ["hidden_size", "intermediate_size", "vocab_size", "num_local_experts"] {
        let error = refused(&[(field, 1 << 40)], &[]);
        let expected =
            format!("`{field}` is 1099511627776, more than a model's can be (4294967296)");
        assert!(error.contains(&expected), "{error}");
    }
    let large = [("hidden_size", 1 << 32), ("intermediate_size", 1 << 32)];
    let error = refused(&large, &[]);
    assert!(error.contains("check its sizes, or give a mesh with --mesh"), "{error}");
    let error = refused(&large, &["--mesh", "X=4294967296,Y=4294967296,Z=4"]);
    assert!(error.contains("more devices than can be counted"), "{error}");
}
