//! Build scripts: the example crate built by the real cargo, and what the library writes and
//! reports without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use shardwise::Options;
use shardwise::build::{self, Built, Failed};
use shardwise::lint::Settings;
use shardwise_tests::root;

const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");
const MLP: &str = "hardware tpu-v5p\nmesh X=4\ndim B=64, D=64, F=64\ninput In[B_X, D]\n\
    param W[D, F]\nOut = In *D W\noutput Out[B_X, F]\n";

/// An empty folder for one test.
fn empty(name: &str) -> PathBuf {
    let folder = Path::new(SCRATCH).join(name);
    // It may not be there yet.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file is in a folder"))
        .expect("a folder can be made");
    fs::write(path, text).expect("a file can be written");
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        let copied = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() { copy(&path, &copied) } else { put(&copied, &text(&path)) }
    }
}

/// Stands in for the example's build script, which would have cargo compile the library and all
/// that it needs once more (`.ci/run` does): this binary, which has the library, compiles the
/// programs.
const STAND_IN: &str = r#"fn main() {
    let tests = std::env::var_os("SHARDWISE_TESTS").expect("the test says which binary it is");
    let run = ["commands::build_script::stands_in", "--exact", "--nocapture", "--test-threads=2"];
    let status = std::process::Command::new(tests).args(run).status().expect("it starts");
    std::process::exit(status.code().unwrap_or(1));
}
"#;

/// Does nothing unless [`STAND_IN`] calls it. (With two threads the harness prints nothing before
/// the lines that cargo reads.)
#[test]
fn stands_in() {
    if std::env::var_os("SHARDWISE_TESTS").is_some() {
        build::compile("programs").expect("all programs are right");
    }
}

/// The example, copied to where it may be changed, its build script replaced by [`STAND_IN`].
fn example() -> PathBuf {
    let folder = empty("planned-model");
    copy(&root().join("tests/build/cargo"), &folder);
    let manifest = text(&folder.join("Cargo.toml"));
    let dependency = "[build-dependencies]\nshardwise = { path = \"../../../compiler\" }\n";
    assert!(manifest.contains(dependency), "{manifest}");
    put(&folder.join("Cargo.toml"), &manifest.replace(dependency, ""));
    put(&folder.join("build.rs"), STAND_IN);
    folder
}

/// Runs cargo on the example.
fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let tests = std::env::current_exe().expect("this binary has a path");
    let mut command = Command::new(cargo);
    command.args(arguments).arg("--offline").current_dir(folder).env("SHARDWISE_TESTS", tests);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env_remove("RUSTFLAGS");
    command.env("CARGO_TERM_COLOR", "never").output().expect("cargo starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_crate_is_built_from_its_programs_and_again_only_when_they_change() {
    let folder = example();
    let first = cargo(&folder, &["run", "-q"]);
    assert!(first.status.success(), "{}", stderr(&first));
    let printed = String::from_utf8_lossy(&first.stdout).into_owned();
    assert!(
        printed.starts_with(
            "mlp: 64 devices, 3072 of 49152 rows each, 3.85 ms\n  all_gather over Y (50331648 \
                bytes)\n"
        ),
        "{printed}"
    );
    assert!(printed.ends_with("decode: 37.5 us on tpu-v5e, 2 weights split\n"), "{printed}");

    put(&folder.join("README.md"), "not a program\n");
    let again = stderr(&cargo(&folder, &["build", "-v"]));
    assert!(again.contains("Fresh planned-model"), "nothing has changed\n{again}");

    let program = folder.join("programs/mlp.shard");
    let original = text(&program);
    put(&program, &original.replace("B=49152", "B=24576"));
    let changed = cargo(&folder, &["run"]);
    assert!(stderr(&changed).contains("Compiling planned-model"), "{}", stderr(&changed));
    assert!(
        String::from_utf8_lossy(&changed.stdout)
            .starts_with("mlp: 64 devices, 1536 of 24576 rows each")
    );

    put(&program, &original.replace("param Win[D_X", "param Win[D_Z"));
    let wrong = cargo(&folder, &["build"]);
    assert!(!wrong.status.success());
    assert!(
        stderr(&wrong).contains("error: planned-model@0.1.0: programs/mlp.shard:7:13: SW204: "),
        "{}",
        stderr(&wrong)
    );

    put(&program, &original.replace("serial <= 4ms", "serial <= 1ms"));
    let broken = cargo(&folder, &["build"]);
    assert!(!broken.status.success());
    assert!(
        stderr(&broken)
            .contains("programs/mlp.shard:13:1: SW501: `assert serial <= 1ms` does not hold"),
        "{}",
        stderr(&broken)
    );

    put(&program, &original);
    fs::remove_file(folder.join("programs/serving/decode.shard")).expect("it is there");
    let missing = cargo(&folder, &["build"]);
    assert!(!missing.status.success(), "a program that is gone is noticed");
    assert!(
        stderr(&missing).contains("plans::serving") || stderr(&missing).contains("serving"),
        "{}",
        stderr(&missing)
    );
}

fn run(
    folder: &Path,
    configure: impl Fn(build::Builder) -> build::Builder,
) -> Result<Built, Failed> {
    configure(build::configure().out_dir(folder.join("out"))).run(&[folder.join("programs")])
}

/// The names and times of all files below a folder.
fn times(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            found.extend(times(&path));
        } else {
            let changed =
                fs::metadata(&path).and_then(|file| file.modified()).expect("a file has a time");
            found.push((path, changed));
        }
    }
    found.sort();
    found
}

#[test]
fn what_does_not_change_is_not_written_and_nothing_is_left_over() {
    let folder = empty("written-once");
    put(&folder.join("programs/mlp.shard"), MLP);
    put(&folder.join("programs/deep/8x8.shard"), MLP);
    let built = run(&folder, |builder| builder).expect("the programs are right");
    let modules: Vec<String> =
        built.programs.iter().map(|program| program.module.join("::")).collect();
    assert_eq!(modules, ["deep::_8x8", "mlp"]);
    let before = times(&folder.join("out"));
    let names: Vec<String> = before
        .iter()
        .map(|(path, _)| {
            path.strip_prefix(&folder).expect("below it").to_string_lossy().into_owned()
        })
        .collect();
    assert_eq!(
        names,
        [
            "out/deep/_8x8.json",
            "out/deep/_8x8.plan",
            "out/mlp.json",
            "out/mlp.plan",
            "out/shardwise.rs"
        ]
    );
    std::thread::sleep(std::time::Duration::from_millis(20));
    run(&folder, |builder| builder).expect("the programs are right");
    assert_eq!(times(&folder.join("out")), before);
    put(&folder.join("programs/mlp.shard"), &MLP.replace("B=64", "B=128"));
    run(&folder, |builder| builder).expect("the programs are right");
    let after = times(&folder.join("out"));
    assert_eq!(after[..2], before[..2], "the other program's plan");
    assert!(after[3].1 > before[3].1 && after[4].1 > before[4].1);
    assert_eq!(
        text(&folder.join("out/mlp.plan")),
        shardwise::plan("mlp", &text(&folder.join("programs/mlp.shard")), &Options::default())
            .expect("right")
            .to_string()
    );
}

#[test]
fn every_program_that_is_wrong_is_reported_in_lines_that_cargo_reads() {
    let folder = empty("two-wrong");
    put(&folder.join("programs/a.shard"), &MLP.replace("W[D, F]", "W[D, G]"));
    put(&folder.join("programs/b.shard"), MLP);
    put(
        &folder.join("programs/c.shard"),
        &(MLP.to_owned() + "assert comm <= 1ns\nassert compute <= 0ns\n"),
    );
    let failed = run(&folder, |builder| builder).expect_err("two are wrong");
    assert_eq!(failed.findings.len(), 2);
    assert_eq!(failed.to_string(), "2 programs cannot be compiled");
    let errors: Vec<&String> =
        failed.cargo_lines.iter().filter(|line| line.starts_with("cargo::error=")).collect();
    assert!(errors[0].contains("/programs/a.shard:5:12: SW102: "), "{errors:?}");
    assert!(
        errors.last().is_some_and(|line| line.contains("/programs/c.shard:9:1: SW501: ")),
        "{errors:?}"
    );
    assert!(
        failed.cargo_lines.iter().all(|line| line.starts_with("cargo::") && !line.contains('\n')),
        "{:?}",
        failed.cargo_lines
    );
    assert_eq!(
        failed
            .cargo_lines
            .iter()
            .filter(|line| line.starts_with("cargo::rerun-if-changed="))
            .count(),
        4,
        "the folder and its programs"
    );
    assert!(!folder.join("out").exists(), "nothing is written where something is wrong");
}

#[test]
fn lints_warn_or_fail_as_they_are_set() {
    let folder = empty("linted");
    put(&folder.join("programs/a.shard"), &MLP.replace("dim ", "dim Unused=3, "));
    let quiet = run(&folder, |builder| builder).expect("nothing is asked of lints");
    assert!(!quiet.cargo_lines.iter().any(|line| line.contains("SW35")), "{:?}", quiet.cargo_lines);
    let warned = run(&folder, |builder| builder.lints(Settings::default()))
        .expect("warnings do not fail a build");
    let unused = |lines: &[String], kind: &str| {
        lines.iter().any(|line| line.starts_with(kind) && line.contains("`Unused` is not used"))
    };
    assert!(unused(&warned.cargo_lines, "cargo::warning="), "{:?}", warned.cargo_lines);
    let mut settings = Settings::default();
    settings.deny_warnings();
    let failed = run(&folder, |builder| builder.lints(settings.clone()))
        .expect_err("what is denied fails it");
    assert!(unused(&failed.cargo_lines, "cargo::error="), "{:?}", failed.cargo_lines);
}

#[test]
fn what_is_generated_compiles_without_a_warning() {
    let folder = empty("generated");
    copy(&root().join("tests/programs/book"), &folder.join("programs"));
    copy(&root().join("tests/programs/training"), &folder.join("programs/Step/8 more"));
    let odd = "hardware h100\nmesh data=2, type=4\ndim B'=64, W.in=128, self=8\n\
        input A[B'_{data}, W.in_{type}, self]\noutput A[B', W.in, self]\n";
    put(&folder.join("programs/Axis.shard"), odd);
    let built = run(&folder, |builder| builder).expect("the programs are right");
    assert!(built.programs.len() > 60, "{}", built.programs.len());
    // What is not used is the includer's business; everything else is not.
    put(
        &folder.join("lib.rs"),
        "#![deny(warnings)]\npub mod plans {\n    include!(\"out/shardwise.rs\");\n}\n\
            pub const N: u64 = plans::Axis_::dims::self_;\n",
    );
    let arguments = [
        "--edition",
        "2024",
        "--crate-type",
        "lib",
        "--emit",
        "metadata",
        "--out-dir",
        ".",
        "lib.rs",
    ];
    let compiled =
        Command::new("rustc").args(arguments).current_dir(&folder).output().expect("rustc starts");
    assert!(compiled.status.success(), "{}", stderr(&compiled));
}

#[test]
fn folders_of_one_name_in_several_inputs_are_one_module() {
    let folder = empty("folders-of-one-name");
    for path in ["one/a/x", "one/b/y", "two/a/z"] {
        put(&folder.join(path).with_extension("shard"), MLP);
    }
    let inputs = ["one", "two"].map(|input| folder.join(input));
    build::configure().out_dir(folder.join("out")).run(&inputs).expect("the programs are right");
    let module = text(&folder.join("out/shardwise.rs"));
    assert_eq!(module.matches("pub mod a {").count(), 1, "{module}");
}

#[test]
fn warnings_are_reported_and_can_be_denied() {
    let folder = empty("warned");
    let plan = shardwise::plan("mlp", MLP, &Options::default()).expect("it is right").to_string();
    put(&folder.join("programs/mlp.shard"), &plan);
    let options = Options { memory: Some(1.0), ..Options::default() };
    let built =
        run(&folder, |builder| builder.options(options.clone())).expect("a warning is no error");
    assert!(
        built
            .cargo_lines
            .iter()
            .any(|line| line.starts_with("cargo::warning=") && line.contains("SW503")),
        "{:?}",
        built.cargo_lines
    );
    let failed = run(&folder, |builder| builder.options(options.clone()).deny_warnings(true))
        .expect_err("it is denied");
    assert!(
        failed
            .cargo_lines
            .iter()
            .any(|line| line.starts_with("cargo::error=") && line.contains("SW503")),
        "{:?}",
        failed.cargo_lines
    );
}

#[test]
fn what_cannot_be_is_an_error_and_no_panic() {
    let folder = empty("clash");
    put(&folder.join("programs/a-b.shard"), MLP);
    put(&folder.join("programs/a_b.shard"), MLP);
    assert!(
        run(&folder, |builder| builder)
            .expect_err("one module")
            .to_string()
            .contains("would both be the module `a_b`")
    );
    let folder = empty("no-programs");
    fs::create_dir(folder.join("programs")).expect("a folder can be made");
    assert!(
        run(&folder, |builder| builder)
            .expect_err("none")
            .to_string()
            .contains("no `*.shard` in it")
    );
    let missing = build::configure()
        .out_dir(&folder)
        .run(&[folder.join("nowhere.shard")])
        .expect_err("not there");
    assert!(missing.to_string().contains("cannot read"), "{missing}");
    put(&folder.join("programs/mlp.shard"), MLP);
    put(&folder.join("out"), "a file where the folder should be");
    assert!(
        run(&folder, |builder| builder)
            .expect_err("no folder")
            .to_string()
            .contains("cannot write")
    );
}

#[test]
fn hardware_files_are_read_and_watched() {
    let folder = empty("hardware");
    let named = MLP
        .lines()
        .map(|line| if line.starts_with("hardware") { "hardware \"hw.toml\"" } else { line })
        .collect::<Vec<_>>()
        .join("\n");
    let known = named.replace("\"hw.toml\"", "my-chip");
    put(&folder.join("programs/named.shard"), &named);
    let file = folder.join("programs/hw.toml");
    let watched = |lines: &[String], path: &Path| {
        lines.contains(&format!("cargo::rerun-if-changed={}", path.display()))
    };
    let missing = run(&folder, |builder| builder).expect_err("it is not there");
    assert!(watched(&missing.cargo_lines, &file), "{:?}", missing.cargo_lines);
    let reported = |failed: &Failed, words: &str| {
        failed
            .cargo_lines
            .iter()
            .any(|line| line.starts_with("cargo::error=") && line.contains(words))
    };
    assert!(reported(&missing, "named.shard:1:10: SW408"), "{:?}", missing.cargo_lines);
    put(&file, "[my-chip]\nbase = \"tpu-v5p\"\nmemory = 64\n");
    let wrong = run(&folder, |builder| builder).expect_err("64 bytes");
    assert!(
        reported(&wrong, "hw.toml:3:10`: this looks like another unit"),
        "{:?}",
        wrong.cargo_lines
    );
    put(&file, "[my-chip]\nbase = \"tpu-v5p\"\nmemory = 64e9\n");
    let built = run(&folder, |builder| builder).expect("all is right");
    assert!(
        watched(&built.cargo_lines, &file)
            && built.programs[0].planned.capacity_bytes == Some(64e9)
    );

    put(&folder.join("programs/known.shard"), &known);
    assert!(reported(&run(&folder, |builder| builder).expect_err("not known"), "SW401"));
    let built = run(&folder, |builder| builder.hardware_file(&file)).expect("all is right");
    assert!(watched(&built.cargo_lines, &file) && built.programs.len() == 2);
    put(&folder.join("other.toml"), "[my-chip]\nbase = \"tpu-v5e\"\n");
    let other = folder.join("other.toml");
    let clash = run(&folder, |builder| builder.hardware_file(&file).hardware_file(&other))
        .expect_err("which?");
    assert!(clash.to_string().contains("`my-chip` is described twice"), "{clash}");
    assert!(reported(
        &run(&folder, |builder| builder.hardware_file(&other)).expect_err("which?"),
        "SW409"
    ));
    put(&other, "[my-chip]\nbase = 3\n");
    let failed = run(&folder, |builder| builder.hardware_file(&other)).expect_err("no name");
    assert!(reported(&failed, "other.toml:2:8: SW407"), "{:?}", failed.cargo_lines);
    let failed = run(&folder, |builder| builder.hardware_file(folder.join("gone.toml")))
        .expect_err("not there");
    assert!(failed.to_string().contains("cannot read"), "{failed}");
}
