//! `new`: writes a program to begin with.

use std::path::Path;

use shardwise::templates::{self, TEMPLATES};

use crate::args::new::NewArgs;
use crate::error::{Error, Result};
use crate::output::{Output, write_file};

pub(super) fn new(args: &NewArgs, output: &mut Output) -> Result {
    let Some(name) = &args.template else { return output.print(&templates::list()) };
    let template = templates::find(name).ok_or_else(|| unknown(name))?;
    match &args.output {
        None => output.print(template.text),
        Some(path) if Path::new(path).exists() => {
            Err(Error::usage(format!("`{path}` exists; give the name of a new file after -o")))
        }
        Some(path) => write_file(path, template.text),
    }
}

fn unknown(name: &str) -> Error {
    let tip = if name == "from-hf" || name == "hf" {
        "; for a model on Hugging Face, type `shardwise import hf config.json`".to_owned()
    } else {
        let names: Vec<&str> = TEMPLATES.iter().map(|template| template.name).collect();
        format!("; there are {}", names.join(", "))
    };
    Error::usage(format!("there is no template `{name}`{tip}"))
}
