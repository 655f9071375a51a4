//! `import jax` and `import torch`: run the importers, which are written in Python and are part of
//! the binary, with the user's Python.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::json;
use shardwise::Options;
use shardwise::codes::tool::NOT_IMPORTED;

use super::write;
use crate::args::import::{FunctionArgs, JaxArgs, TorchArgs};
use crate::error::{Error, Result, reason};
use crate::output::{Output, refuse_to_replace};

macro_rules! source {
    ($path:literal) => {
        include_str!(concat!("../../../python/importers/", $path, ".py"))
    };
}

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, source!($path))),*]
    };
}

/// Loads the modules that it is given, and has them answer.
const BOOTSTRAP: &str = source!("bootstrap");

/// The modules of the importers, by path.
const SOURCES: &[(&str, &str)] = sources![
    "__init__",
    "command",
    "failure",
    "from_jax/__init__",
    "from_jax/attention",
    "from_jax/builder",
    "from_jax/command",
    "from_jax/convert",
    "from_jax/convolutions",
    "from_jax/dims",
    "from_jax/elementwise",
    "from_jax/flatten",
    "from_jax/fold",
    "from_jax/graph",
    "from_jax/importer",
    "from_jax/keys",
    "from_jax/lookups",
    "from_jax/loops",
    "from_jax/masks",
    "from_jax/opaque",
    "from_jax/products",
    "from_jax/rearrange",
    "from_jax/spell",
    "from_jax/target",
    "from_torch/__init__",
    "from_torch/command",
    "from_torch/export",
    "from_torch/functions/__init__",
    "from_torch/functions/creation",
    "from_torch/functions/elementwise",
    "from_torch/functions/indexing",
    "from_torch/functions/neural",
    "from_torch/functions/products",
    "from_torch/functions/reductions",
    "from_torch/functions/shapes",
    "from_torch/importer",
    "from_torch/layers",
    "from_torch/run",
    "from_torch/target",
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

/// The models that an importer reads.
#[derive(Clone, Copy)]
enum Source {
    Jax,
    Torch,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Jax => "jax",
            Self::Torch => "torch",
        }
    }
}

pub(super) fn from_jax(args: &JaxArgs, output: &mut Output) -> Result {
    import(Source::Jax, &args.function, args.params.as_deref(), output)
}

pub(super) fn from_torch(args: &TorchArgs, output: &mut Output) -> Result {
    import(Source::Torch, &args.function, None, output)
}

fn import(
    source: Source,
    args: &FunctionArgs,
    parameters: Option<&[String]>,
    output: &mut Output,
) -> Result {
    refuse_to_replace(file_of(&args.target), args.output.as_deref())?;
    match ask(source, args, parameters)? {
        Answer::Imported { program, warnings } => {
            // A mesh, a chip and names are the user's, and nobody has read them yet.
            let checked = shardwise::check("imported", &program, &Options::default());
            if checked.findings.has_errors() {
                return Err(checked.findings.into());
            }
            write(&program, &warnings, args.output.as_deref(), output)
        }
        Answer::Failed { error, help, place } => {
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            Err(Error::input(format!("{NOT_IMPORTED}: {place}{error}\n  help: {help}")))
        }
    }
}

/// The file of a target: `models.py` of `models.py:forward`, and of `models:forward`.
fn file_of(target: &str) -> Option<String> {
    let (module, _) = target.rsplit_once(':')?;
    let is_path = Path::new(module).extension().is_some_and(|extension| extension == "py");
    Some(if is_path { module.to_owned() } else { format!("{}.py", module.replace('.', "/")) })
}

/// Runs Python; its errors that are not answers are on standard error already.
fn ask(source: Source, args: &FunctionArgs, parameters: Option<&[String]>) -> Result<Answer> {
    let request = json!({
        "sources": SOURCES.iter().copied().collect::<BTreeMap<_, _>>(),
        "request": {
            "source": source.name(),
            "target": args.target,
            "args": args.args,
            "names": args.names,
            "parameters": parameters,
            "mesh": args.mesh,
            "hardware": args.hardware,
            "strict": args.strict,
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
            "{NOT_IMPORTED}: `{python}` ended without an answer ({})\n  help: run it alone, \
             and see why the function ends Python",
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules in a folder of the importers, by path.
    fn modules(folder: &Path, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("the folder is there");
        let each = entries.flat_map(|entry| {
            let entry = entry.expect("an entry is read");
            let name = entry.file_name().to_string_lossy().into_owned();
            match (name.strip_suffix(".py"), entry.path().is_dir()) {
                (Some(module), _) => vec![format!("{path}{module}")],
                (None, true) => modules(&entry.path(), &format!("{path}{name}/")),
                (None, false) => Vec::new(),
            }
        });
        each.collect()
    }

    #[test]
    fn every_module_of_the_importers_is_in_the_binary() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/importers");
        let mut there = modules(&folder, "");
        there.retain(|path| path != "bootstrap");
        there.sort();
        let embedded: Vec<&str> = SOURCES.iter().map(|(path, _)| *path).collect();
        assert_eq!(there, embedded);
    }
}
