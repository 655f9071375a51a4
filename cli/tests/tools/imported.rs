//! `import jax`: functions in JAX, imported, planned, exported to JAX again and run on four virtual
//! devices, compared with the functions themselves on the same numbers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{SHARDWISE, blocks, empty_folder, root, run_page, text};
use crate::importing;
use crate::require;

/// Whole models; each file has a function `forward`, and one that returns `example` arguments.
const MODELS: [&str; 17] = [
    "bert", "clip", "decode", "dlrm", "flax_gpt", "gemma2", "gpt2", "int8", "llama", "lora",
    "mamba", "mixer", "mixtral", "mlp", "t5", "unet", "vit",
];

/// Functions of `attention.py` that are one `attention`, and what the program says of each.
const ATTENTIONS: [(&str, &str); 9] = [
    ("recent", "= attention_H(q, k, v, causal, window=3, scale=0.35355338)\n"),
    ("in_two_steps", "= attention_H(q, k, v, causal, window=3, scale=0.25)\n"),
    ("capped", "= attention_H(q, k, v, cap=30.0, scale=0.5)\n"),
    ("doubly_scaled", "= attention_H(q, k, v, scale=0.35355335)\n"),
    ("in_bf16", "= attention_H(cast<bf16>(q), cast<bf16>(k), cast<bf16>(v), scale=1.0)\n"),
    ("grouped", "= attention_H(q.2, k, v, scale=1.0)\n"),
    ("default", "= attention_H(q, k, v, scale=0.35355338)\n"),
    ("causal", " = reshape(attention_H(t, k, v, causal, scale=0.35355338))\n"),
    ("local", "= attention_H(q, k, v, causal, window=3, scale=0.25)\n"),
];

/// Functions of `attention.py` that stay written out.
const NEARLY_ATTENTIONS: [&str; 8] = [
    "two_weights",
    "over_queries",
    "biased",
    "around",
    "negated",
    "two_sided",
    "with_weights",
    "of_values_and_keys",
];

/// What `opaque.py` is as a program.
const OPAQUE: [&str; 7] = [
    "# opaque.py:22: the primitive `cumprod` is not in the language; it is `opaque<cumprod>`, \
     whose\n#   FLOPs are not counted\n",
    "# opaque.py:18: the primitive `while` is not in the language; it is `opaque<while>`, all of \
     which\n#   each device computes: write a loop",
    "h = opaque<lgamma>(1.5 + square(opaque<cumprod>_T(x)))\n",
    "t = opaque<while>_{B,T,F}(h.2)\n",
    "= opaque<sort.1>_F(t, t.2) + ",
    " + opaque<twice>_{B,T,F}(opaque<sort.2>_F(t, t.2))\n",
    "= argmax_F(-t)\n",
];

fn folder() -> PathBuf {
    root().join("cli/tests/tools/imported")
}

/// Imports, verifies and exports a function; its case for `run_imported.py`.
fn written(scratch: &Path, file: &str, function: &str, arguments: &str) -> String {
    let file = folder().join(file).with_extension("py");
    importing::written("jax", scratch, &file, (function, arguments))
}

/// Compares what was written with the functions.
fn assert_equal(scratch: &Path, cases: &[String]) {
    importing::assert_equal("run_imported.py", scratch, cases, "jax==0.10.2 flax==0.12.8");
}

#[test]
fn imported_models_compute_what_their_functions_compute() {
    require(&["python3"]);
    let scratch = empty_folder("imported-models");
    let cases = MODELS.map(|model| written(&scratch, model, "forward", "*example()"));
    assert_equal(&scratch, &cases);
}

#[test]
fn imported_parts_compute_what_their_functions_compute() {
    require(&["python3"]);
    let scratch = empty_folder("imported-parts");
    let source = std::fs::read_to_string(folder().join("parts.py")).expect("the file is there");
    let (_, entries) = source.split_once("\nCASES = {\n").expect("it has cases");
    let names = entries.lines().filter_map(|line| line.trim().split('"').nth(1));
    let case = |name| written(&scratch, "parts", name, &format!("*CASES[\"{name}\"]"));
    let cases: Vec<String> =
        names.filter(|name| source.contains(&format!("\ndef {name}("))).map(case).collect();
    assert!(cases.len() >= 45, "{}", cases.len());
    assert_equal(&scratch, &cases);
}

#[test]
fn attention_is_one_operation_where_it_is_that_and_nothing_else() {
    require(&["python3"]);
    let scratch = empty_folder("imported-attention");
    let case = |name| written(&scratch, "attention", name, &format!("*CASES[\"{name}\"]"));
    let names = ATTENTIONS.iter().map(|(name, _)| *name).chain(NEARLY_ATTENTIONS);
    // Its own products round to bf16, which nothing computes in float64.
    let is_exact = |name: &&str| *name != "in_bf16";
    let cases: Vec<String> = names.filter(is_exact).map(case).collect();
    assert_equal(&scratch, &cases);
    case("in_bf16");
    let program = |name: &str| {
        let file = scratch.join(format!("attention_{name}.shard"));
        std::fs::read_to_string(file).expect("the program was written")
    };
    for (name, attention) in ATTENTIONS {
        let program = program(name);
        assert!(program.contains(attention), "{attention}{program}");
    }
    for name in NEARLY_ATTENTIONS {
        let program = program(name);
        assert!(!program.contains("attention_"), "{program}");
    }
}

#[test]
fn the_page_shows_what_is_printed_and_the_file_it_imports() {
    require(&["python3"]);
    let page = "compiler/docs/import-jax.md";
    let shown = blocks(&std::fs::read_to_string(root().join(page)).expect("the page is there"));
    let source = std::fs::read_to_string(folder().join("decoder.py")).expect("the file is there");
    let is_source = |block: &&(String, String)| block.0 == "python";
    assert_eq!(
        shown.iter().find(is_source).map(|block| block.1.trim_end()),
        Some(source.trim_end())
    );
    assert_eq!(run_page(page, &root()), 4);
}

/// For some of the models: all are imported and run above.
#[test]
fn the_line_of_the_page_runs_for_other_models() {
    require(&["bash", "python3"]);
    let line = importing::line_of("compiler/docs/import-jax.md");
    assert!(line.contains("/gpt2.py:"), "{line}");
    for model in MODELS.into_iter().step_by(4) {
        importing::assert_runs(&line.replace("/gpt2.py:", &format!("/{model}.py:")));
    }
}

#[test]
fn what_the_language_does_not_have_is_opaque_and_runs_with_functions_of_the_user() {
    require(&["python3"]);
    let scratch = empty_folder("imported-opaque");
    let cases = ["opaque", "drawn"].map(|file| written(&scratch, file, "forward", "*example()"));
    assert_equal(&scratch, &cases);
    let program = imported(&["drawn.py:forward", "--args", "*example()"]);
    assert!(program.contains("t.2: bool = opaque<bernoulli.0.5>_{Key->B,F}(keys)\n"), "{program}");
    assert!(program.contains(" = x.4 * captured.1\n"), "{program}");
    let program = imported(&["opaque.py:forward", "--args", "*example()"]);
    for part in OPAQUE {
        assert!(program.contains(part), "{part}{program}");
    }
    let program = imported(&["opaque.py:parity", "--args", "int32[8]"]);
    assert!(["opaque<div.3>(ids)", "opaque<rem.2>("].iter().all(|it| program.contains(it)));
}

/// What `import jax` prints for a file of the folder.
fn imported(arguments: &[&str]) -> String {
    let output = Command::new(SHARDWISE)
        .args(["import", "jax"])
        .args(arguments)
        .current_dir(folder())
        .output()
        .expect("shardwise starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn shardings_of_the_function_are_those_of_the_program() {
    require(&["python3"]);
    let program = imported(&["sharded.py:forward", "--args", "*example()"]);
    for line in [
        "mesh data=4, model=2\n",
        "input x: bf16[B_{data,model}, T, D]\n",
        "param up: bf16[D, F_model], down: bf16[F_model, D]\n",
        "h: bf16[B_data, T, F_model] = gelu(x *D up)\n",
        "output out: bf16[B_?, T_?, D_?] = x + h *F down\n",
    ] {
        assert!(program.contains(line), "{line}{program}");
    }
}

#[test]
fn names_roles_and_the_machine_are_those_that_are_given() {
    require(&["python3"]);
    let given = ["mlp.py:forward", "--args", "init(), f32[Rows:8, 16]", "--names", "w_up=In,Out"];
    let options = ["--params", "x", "--mesh", "data=4 dcn", "--hardware", "tpu-v5e"];
    let program = imported(&[&given[..], &options].concat());
    for line in [
        "hardware tpu-v5e\nmesh data=4 dcn\ndim ",
        "Rows=8",
        "param x: f32[Rows_?, In_?]\n",
        "input w_up: f32[In_?, Out_?], w_down: f32[Out_?, In_?]\n",
    ] {
        assert!(program.contains(line), "{line}{program}");
    }
}

/// Graphs of `PyTorch` leave out arguments that are the default.
#[test]
fn operations_of_pytorch_have_its_defaults() {
    require(&["python3"]);
    let script = "from importers.from_torch.functions import TABLE\n\
        print([float(TABLE['hardtanh'](x)) for x in (-3.0, 0.5, 3.0)])";
    let output = Command::new("python3")
        .args(["-c", script])
        .current_dir(root().join("cli/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("JAX_PLATFORMS", "cpu")
        .output()
        .expect("python starts");
    assert_eq!(text(&output.stdout), "[-1.0, 0.5, 1.0]\n", "{}", text(&output.stderr));
}

#[test]
fn the_importer_is_typed() {
    require(&["mypy"]);
    let output = Command::new("mypy")
        .args(["--strict", "--no-incremental", "--config-file", "cli/pyproject.toml"])
        .arg("cli/python/importers")
        .current_dir(root())
        .output()
        .expect("mypy starts");
    assert!(text(&output.stdout).starts_with("Success"), "{}", text(&output.stdout));
}

/// Functions of `mistakes.py`, their arguments, and what the error says.
const MISTAKES: [(&str, &str, &[&str]); 22] = [
    ("sorted_rows", "f32[8, 4]", &["mistakes.py:12: a `sort` of several", "use `argsort`"]),
    ("truncated", "f32[8, 4]", &["mistakes.py:16: a conversion of floats", "`jnp.round"]),
    ("endless", "f32[8, 4]", &["mistakes.py:20: the primitive `while`", "`jax.lax.scan`"]),
    (
        "noisy",
        "f32[8], jax.random.key(0)",
        &["mistakes.py:24: the primitive `normal`", "draw outside"],
    ),
    (
        "convolved",
        "f32[1, 8, 8, 3], f32[3, 3, 3, 4]",
        &["a convolution with dilation", "use one without"],
    ),
    ("raising", "f32[8, 4]", &["mistakes.py:38: ", "ValueError: too cold"]),
    ("raising", "f32[8, 4], 1", &["do not fit `raising(x)`: too many"]),
    ("product", "f32[8, 4], f32[5, 8]", &["mistakes.py:42: ", "got (4,) and (5,)"]),
    ("product", "f32[B:8, D], f32[4, 8]", &["`D` has no size; write `D:128`"]),
    ("product", "f32[B:8, D:4], f32[B:4, 8]", &["`B` is 8 in one argument and 4 in another"]),
    ("product", "weights(), f32[4, 8]", &["name 'weights' is not defined"]),
    ("mapped", "f32[8]", &["the primitive `shard_map`", "import the function without it"]),
    ("product", "f99[8, 4], f32[4, 8]", &["`f99` is no element type", "there are bool, bf16"]),
    ("product", "f32[0, 4], f32[4, 8]", &["an axis has 0 elements"]),
    ("product", "np.ones((0, 4)), f32[4, 8]", &["has no elements: its shape is [0, 4]"]),
    ("branching", "f32[8]", &["mistakes.py:53: ", "TracerBoolConversionError", "`jnp.where`"]),
    ("of_numpy", "f32[8]", &["mistakes.py:57: ", "use functions of `jax.numpy`"]),
    ("masked", "f32[8], bool[8]", &["mistakes.py:61: `nan` is not a number", "write `jnp.inf`"]),
    ("leaving", "f32[8]", &["mistakes.py:65: ", "SystemExit: 3"]),
    ("without_result", "f32[8]", &["returns no array"]),
    ("emptied", "f32[8]", &["mistakes.py:73: a result of `slice` has no elements", "[0]"]),
    ("missing", "", &["has no function `missing`", "it has branching, convolved, emptied"]),
];

/// Where functions are looked for, and options, and what the error says.
const MISUSES: [(&[&str], &str); 10] = [
    (&["mlp.py"], "`mlp.py` names no function"),
    (&["none.py:f"], "cannot read `none.py`: no such file"),
    (&["nonesuch:f"], "there is no package `nonesuch`"),
    (&["../imported:f"], "`../imported` is no Python file or module"),
    (&["../../../python/shardwise/py.typed:f"], "is no Python file or module"),
    (&["mlp.py:forward"], "missing a required argument: 'params'"),
    (&["mlp.py:forward", "--args", "init(), f32[8, 16]", "--mesh", "eight"], "mesh eight"),
    (&["mlp.py:forward", "--args", "init(), f32[8, 16]", "--hardware", "h1"], "`h1`"),
    (&["mlp.py:forward", "--args", "init(), f32[8, 16]", "--names", "w_up=1,2"], "1=16"),
    (
        &["mlp.py:forward", "--args", "init(), f32[8, 16]", "--params", "parms"],
        "--params: there is no argument `parms`",
    ),
];

#[test]
fn mistakes_say_what_is_wrong_and_what_to_do() {
    require(&["python3"]);
    for (function, arguments, expected) in MISTAKES {
        let target = format!("mistakes.py:{function}");
        let asked = ["jax", "--strict", &target, "--args", arguments];
        let error = importing::refusal(&folder(), &asked);
        for part in expected.iter().chain(&["SW904", "\n  help: "]) {
            assert!(error.contains(part), "{function}: {error}");
        }
    }
}

#[test]
fn what_is_no_function_or_option_is_an_error_and_no_program() {
    require(&["python3"]);
    for (arguments, expected) in MISUSES {
        let error = importing::refusal(&folder(), &[&["jax"], arguments].concat());
        assert!(error.contains(expected) && error.contains("help: "), "{arguments:?}: {error}");
    }
}

#[test]
fn a_python_without_jax_is_an_error_that_says_what_to_install() {
    require(&["python3"]);
    let scratch = empty_folder("imported-without-jax");
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(scratch.join("environment"))
        .status()
        .expect("python starts");
    assert!(made.success());
    let output = Command::new(SHARDWISE)
        .args(["import", "jax", "mlp.py:forward", "--args", "*example()"])
        .current_dir(folder())
        .env("SHARDWISE_PYTHON", scratch.join("environment/bin/python"))
        .env_remove("PYTHONPATH")
        .output()
        .expect("shardwise starts");
    let error = text(&output.stderr);
    assert!(error.contains("has no package `jax`"), "{error}");
    assert!(error.contains("pip install shardwise[jax]"), "{error}");
}
