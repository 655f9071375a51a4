//! `new`: writes a program to begin with.

use std::path::Path;

use shardwise::import::hf::Setting;
use shardwise::templates::{self, TEMPLATES};

use super::import;
use crate::args::new::NewArgs;
use crate::error::{Error, Result};
use crate::output::{Output, write_file};

pub(super) fn new(args: &NewArgs, output: &mut Output) -> Result {
    if let Some(path) = args.output.as_ref().filter(|path| Path::new(path).exists()) {
        let message = format!("`{path}` exists; give the name of a new file after -o");
        return Err(Error::usage(message));
    }
    let text = match (&args.template, &args.from_hf) {
        (Some(name), _) => templates::find(name).ok_or_else(|| unknown(name))?.text.to_owned(),
        (None, Some(config)) => import::program(config, &Setting::default(), output)?,
        (None, None) => templates::list(),
    };
    match &args.output {
        None => output.print(&text),
        Some(path) => write_file(path, &text),
    }
}

fn unknown(name: &str) -> Error {
    let tip = if name == "from-hf" || name == "hf" {
        "; for a model on Hugging Face, type `shardwise new --from-hf config.json`".to_owned()
    } else {
        let names: Vec<&str> = TEMPLATES.iter().map(|template| template.name).collect();
        format!("; there are {}", names.join(", "))
    };
    Error::usage(format!("there is no template `{name}`{tip}"))
}
