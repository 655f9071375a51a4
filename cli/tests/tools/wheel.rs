//! The wheel that `pip install` gets: built by maturin, installed into a fresh virtual environment,
//! and used there.
//!
//! A user's wheel is built in `release`. Here it is built in `dev`, in a third of the time, in a
//! folder of its own: in `target/debug` is the command that the other tests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

/// Runs a command, which must succeed; what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The wheel, built once for all tests: its files of `share` are written beside the sources.
fn wheel() -> &'static Path {
    static WHEEL: LazyLock<PathBuf> = LazyLock::new(|| built(&empty_folder("wheel-dist")));
    &WHEEL
}

/// Builds the wheel into a folder.
fn built(folder: &Path) -> PathBuf {
    let share = root().join("cli/shardwise.data/data/share");
    run(Command::new(root().join("cli/release/share.sh")).arg(SHARDWISE).arg(share));
    run(Command::new("maturin")
        .args(["build", "--locked", "--quiet", "--profile", "dev", "--out"])
        .arg(folder)
        .args(["--manifest-path", "cli/Cargo.toml", "--target-dir", "target/wheel"])
        .current_dir(root()));
    let mut files = std::fs::read_dir(folder).expect("the folder is there");
    files.next().expect("a wheel was written").expect("it can be read").path()
}

/// Python in a fresh virtual environment with the wheel; `options` are those of `venv`.
fn installed(folder: &Path, options: &[&str]) -> Command {
    let environment = folder.join("environment");
    run(Command::new("python3").args(["-m", "venv"]).args(options).arg(&environment));
    let python = environment.join("bin/python");
    let pip = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"];
    run(Command::new(&python).args(pip).arg(wheel()));
    let mut command = Command::new(python);
    command.current_dir(folder).env_remove("PYTHONPATH");
    command
}

#[test]
fn a_wheel_has_the_command_and_a_typed_module() {
    require(&["python3", "maturin", "mypy"]);
    let folder = empty_folder("wheel");
    let mut python = installed(&folder, &[]);
    let program = root().join("tests/programs/fsdp_tp.shard");
    // Beside the sources it would find these, and not the package that is installed.
    let script = folder.join("check_wheel.py");
    std::fs::copy(root().join("cli/python/check_wheel.py"), &script).expect("it can be copied");
    let printed = run(python.arg(&script).arg(program));
    assert_eq!(printed, "the package works\n");
    for file in ["man/man1/shardwise-plan.1", "bash-completion/completions/shardwise"] {
        assert!(folder.join("environment/share").join(file).is_file(), "{file}");
    }
    let typed = run(Command::new("mypy")
        .args(["--strict", "--no-incremental", "--python-executable"])
        .arg(folder.join("environment/bin/python"))
        .arg(script)
        .arg(root().join("cli/python/shardwise"))
        .current_dir(&folder));
    assert!(typed.starts_with("Success"), "{typed}");
}

#[test]
fn the_notebook_shows_plans_as_tables() {
    require(&["python3", "maturin"]);
    let folder = empty_folder("notebook");
    // Jupyter is that of the machine, the package is the wheel's.
    let mut python = installed(&folder, &["--system-site-packages"]);
    let script = folder.join("run_notebook.py");
    std::fs::copy(root().join("cli/python/run_notebook.py"), &script).expect("it can be copied");
    let notebook = root().join("cli/python/plans.ipynb");
    let printed = run(python.arg(&script).arg(&notebook));
    assert_eq!(printed, "6 cells show what they showed\n");
    let notebook = std::fs::read_to_string(notebook).expect("it is there");
    assert!(notebook.contains("<table><caption>program on tpu-v5p, X=16, Y=4"));
}
