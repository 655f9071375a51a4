//! Finds the `shardwise.toml` of each program: the nearest upwards from its folder. Each file is
//! read once.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use shardwise::lint::{Config, FILE_NAME, Levels, Settings};

use crate::args::check::LevelArgs;
use crate::error::{Error, Result};
use crate::input;
use crate::programs::Found;

/// A configuration and the folder that its paths are relative to; `None` if it cannot be read.
type Read = Option<(PathBuf, Config)>;

pub(crate) struct Configs {
    explicit: Option<PathBuf>,
    isolated: bool,
    /// The configurations read, by path.
    read: BTreeMap<PathBuf, Read>,
}

impl Configs {
    pub(crate) fn new(explicit: Option<&str>, isolated: bool) -> Self {
        Self { explicit: explicit.map(PathBuf::from), isolated, read: BTreeMap::new() }
    }

    /// The settings of a program; `None` if its configuration excludes it. A configuration that
    /// cannot be read is an error for the first program that it applies to.
    pub(crate) fn settings(&mut self, found: &Found) -> Result<Option<Settings>> {
        let file =
            std::path::absolute(if found.path == "-" { "standard-input" } else { &found.path })?;
        let Some(path) = self.path(&file) else { return Ok(Some(Settings::default())) };
        if !self.read.contains_key(&path) {
            self.read.insert(path.clone(), None);
            self.read.insert(path.clone(), Some(load(&path)?));
        }
        let Some(Some((folder, config))) = self.read.get(&path) else { return Ok(None) };
        let relative = file.strip_prefix(folder).unwrap_or(&file);
        let is_excluded = found.in_folder && config.excludes(relative);
        Ok((!is_excluded).then(|| config.settings(relative)))
    }

    /// The files that have been read, as they are shown.
    pub(crate) fn files(&self) -> io::Result<Vec<String>> {
        self.read.keys().map(|path| relative(path)).collect()
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

/// Levels of the command line override those of configurations.
pub(crate) fn set_levels(settings: &mut Settings, levels: &LevelArgs) {
    settings.layer(Levels {
        select: levels.select.clone(),
        ignore: levels.ignore.clone(),
        warn: levels.warn.clone(),
        deny: levels.deny.clone(),
    });
    if levels.deny_warnings {
        settings.deny_warnings();
    }
}

fn load(path: &Path) -> Result<(PathBuf, Config)> {
    let shown = relative(path)?;
    let bytes = input::bytes(&path.to_string_lossy())
        .map_err(|error| Error::unreadable(&shown, &error, ""))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::usage(format!("`{shown}` is not UTF-8 text")))?;
    let config = Config::parse(&shown, &text)?;
    let folder = std::path::absolute(path)?.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok((folder, config))
}

/// A path relative to the working directory.
fn relative(path: &Path) -> io::Result<String> {
    let here = std::env::current_dir()?;
    Ok(path.strip_prefix(&here).unwrap_or(path).to_string_lossy().into_owned())
}
