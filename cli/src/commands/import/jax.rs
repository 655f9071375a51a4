//! `import jax`: runs the importer, which is written in Python and is part of the binary, with the
//! user's Python.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::json;
use shardwise::codes::tool::NOT_IMPORTED;

use super::write;
use crate::args::import::JaxArgs;
use crate::error::{Error, Result, reason};
use crate::output::Output;

macro_rules! source {
    ($module:literal) => {
        include_str!(concat!("../../../python/from_jax/", $module, ".py"))
    };
}

/// Loads the modules that it is given, and has them answer.
const BOOTSTRAP: &str = source!("bootstrap");

/// The modules of the importer.
const SOURCES: &[(&str, &str)] = &[
    ("__init__", source!("__init__")),
    ("builder", source!("builder")),
    ("command", source!("command")),
    ("convert", source!("convert")),
    ("dims", source!("dims")),
    ("elementwise", source!("elementwise")),
    ("failure", source!("failure")),
    ("flatten", source!("flatten")),
    ("fold", source!("fold")),
    ("graph", source!("graph")),
    ("importer", source!("importer")),
    ("lookups", source!("lookups")),
    ("loops", source!("loops")),
    ("products", source!("products")),
    ("rearrange", source!("rearrange")),
    ("spell", source!("spell")),
    ("target", source!("target")),
];

/// The environment variable that names another Python.
const PYTHON: &str = "SHARDWISE_PYTHON";
/// As many devices as a mesh in the user's function may have.
const DEVICES: &str = "--xla_force_host_platform_device_count=64";

/// What the importer answers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Imported {
        program: String,
        warnings: Vec<String>,
    },
    Failed {
        error: String,
        help: String,
        /// The line of the user's code, `models.py:12`.
        place: Option<String>,
    },
}

pub(super) fn from_jax(args: &JaxArgs, output: &mut Output) -> Result {
    match ask(args)? {
        Answer::Imported { program, warnings } => {
            write(&program, &warnings, args.output.as_deref(), output)
        }
        Answer::Failed { error, help, place } => {
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            Err(Error::input(format!("{NOT_IMPORTED}: {place}{error}\n  help: {help}")))
        }
    }
}

/// Runs Python; its errors that are not answers are on standard error already.
fn ask(args: &JaxArgs) -> Result<Answer> {
    let request = json!({
        "sources": SOURCES.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
        "request": {
            "target": args.target,
            "args": args.args,
            "names": args.names,
            "parameters": args.params,
            "mesh": args.mesh,
            "hardware": args.hardware,
        },
    });
    let python = std::env::var(PYTHON).unwrap_or_else(|_| default_python().to_owned());
    let mut child = command(&python).spawn().map_err(|error| {
        let why = match error.kind() {
            ErrorKind::NotFound => "it is not installed".to_owned(),
            _ => reason(&error),
        };
        Error::usage(format!(
            "cannot run `{python}`, which imports functions: {why}; install Python 3.10 or later, \
             or name one by {PYTHON}"
        ))
    })?;
    if let Some(mut input) = child.stdin.take() {
        // If Python ends early, its answer is missing, which is reported below.
        let _ = input.write_all(request.to_string().as_bytes());
    }
    let done = child.wait_with_output()?;
    serde_json::from_slice(&done.stdout).map_err(|_| {
        Error::input(format!(
            "{NOT_IMPORTED}: `{python}` ended without an answer ({})",
            done.status
        ))
    })
}

fn default_python() -> &'static str {
    if cfg!(windows) { "python" } else { "python3" }
}

fn command(python: &str) -> Command {
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.args(["-c", BOOTSTRAP]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if std::env::var_os("JAX_PLATFORMS").is_none() {
        command.env("JAX_PLATFORMS", "cpu");
    }
    if std::env::var_os("XLA_FLAGS").is_none() {
        command.env("XLA_FLAGS", DEVICES);
    }
    command
}
