//! Which `shardwise.toml` holds for a program: the nearest upwards from its folder, each read once.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use shardwise::lint::{Config, FILE_NAME, Settings};

use super::files::Found;
use crate::output::{Ending, Output};

/// A configuration and the folder that its paths count from; nothing if it cannot be read.
type Read = Option<(PathBuf, Config)>;

pub(crate) struct Configs {
    explicit: Option<PathBuf>,
    isolated: bool,
    /// What was read, by path.
    read: BTreeMap<PathBuf, Read>,
}

impl Configs {
    pub(crate) fn new(explicit: Option<&str>, isolated: bool) -> Self {
        Self { explicit: explicit.map(PathBuf::from), isolated, read: BTreeMap::new() }
    }

    /// What holds for a program; nothing, after a complaint, if its configuration cannot be read,
    /// or leaves it out.
    pub(crate) fn settings(
        &mut self,
        found: &Found,
        output: &mut Output,
    ) -> io::Result<Option<Settings>> {
        let file =
            std::path::absolute(if found.name == "-" { "standard-input" } else { &found.name })?;
        let Some(path) = self.path(&file) else { return Ok(Some(Settings::default())) };
        if !self.read.contains_key(&path) {
            let config = load(&path, output)?;
            self.read.insert(path.clone(), config);
        }
        let Some(Some((folder, config))) = self.read.get(&path) else { return Ok(None) };
        let relative = file.strip_prefix(folder).unwrap_or(&file);
        let left_out = found.in_folder && config.excludes(relative);
        Ok((!left_out).then(|| config.settings(relative)))
    }

    fn path(&self, file: &Path) -> Option<PathBuf> {
        if self.isolated {
            return None;
        }
        let nearest = || {
            file.ancestors()
                .skip(1)
                .map(|folder| folder.join(FILE_NAME))
                .find(|path| path.is_file())
        };
        self.explicit.clone().or_else(nearest)
    }
}

/// Reads a configuration; complains if it is wrong.
fn load(path: &Path, output: &mut Output) -> io::Result<Read> {
    let shown = relative(path)?;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            return output
                .complain(&format!("cannot read `{shown}`: {error}"), Ending::WrongUsage)
                .map(|()| None);
        }
    };
    match Config::parse(&shown, &text) {
        Ok(config) => Ok(Some((
            std::path::absolute(path)?.parent().map(Path::to_path_buf).unwrap_or_default(),
            config,
        ))),
        Err(findings) => {
            output.worst(Ending::WrongUsage);
            output.findings(&findings).map(|()| None)
        }
    }
}

/// A path as a reader in the working directory writes it.
fn relative(path: &Path) -> io::Result<String> {
    let here = std::env::current_dir()?;
    Ok(path.strip_prefix(&here).unwrap_or(path).to_string_lossy().into_owned())
}
