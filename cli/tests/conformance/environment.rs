//! Python with the pinned JAX, in a virtual environment below `target`.
//!
//! The packages of the machine would be faster to start with, but what XLA makes of a program
//! changes from version to version, and so would the page that compares it with plans. The
//! environment is made by the test that needs it first, and again when the pin changes; it stays
//! otherwise.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::cases::JAX;
use crate::common::{empty_folder, root, text};

/// The interpreter of the environment.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PYTHON.get_or_init(|| made("python3", &folder())) {
        Ok(python) => python,
        Err(why) => panic!("{why}"),
    }
}

fn folder() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    target.expect("cargo makes a folder below `target`").join("jax-environment")
}

/// Makes the environment in a folder with a Python of the machine, unless it is there.
fn made(machine: &str, folder: &Path) -> Result<PathBuf, String> {
    // Tests may run in processes of their own: one makes it, the others wait.
    let lock = File::create(folder.with_extension("lock")).map_err(|why| why.to_string())?;
    lock.lock().map_err(|why| why.to_string())?;
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    // Written last: what was interrupted is made again.
    let installed = folder.join("installed.txt");
    let is_made = std::fs::read_to_string(&installed).is_ok_and(|of| of == JAX);
    if is_made && python.exists() {
        return Ok(python);
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|why| why.to_string())?;
    }
    println!("making a virtual environment with {JAX} in {}", folder.display());
    let starts = run(Command::new(machine).arg("--version"));
    starts.map_err(|why| format!("this suite needs Python 3.11 or newer as `{machine}`: {why}"))?;
    run(Command::new(machine).args(["-m", "venv", "--clear"]).arg(folder)).map_err(|why| {
        format!("`{machine} -m venv` fails; on Debian run `apt-get install python3-venv`: {why}")
    })?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(&python).args(pip).arg(root().join("cli/python/requirements.txt")))
        .map_err(|why| format!("pip cannot install {JAX}, for which it needs PyPI: {why}"))?;
    std::fs::write(&installed, JAX).map_err(|why| why.to_string())?;
    Ok(python)
}

/// Runs a command, which must succeed.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|why| why.to_string())?;
    let why = || text(&output.stdout) + &text(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(why().trim().to_owned()) }
}

#[test]
fn the_environment_is_made_once_and_what_lacks_is_named() {
    let first = std::fs::metadata(python()).and_then(|of| of.modified()).ok();
    assert_eq!(made("python3", &folder()), Ok(python().to_owned()));
    assert_eq!(std::fs::metadata(python()).and_then(|of| of.modified()).ok(), first);
    let version = "import jax; print('jax==' + jax.__version__)";
    let output = Command::new(python()).args(["-c", version]).output().expect("python starts");
    assert_eq!(text(&output.stdout).trim(), JAX);
    let missing = made("no-python", &empty_folder("conformance-environment"));
    assert!(missing.is_err_and(|why| why.contains("needs Python 3.11 or newer as `no-python`")));
}
