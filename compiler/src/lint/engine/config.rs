//! `shardwise.toml`: levels and numbers for a folder and what is below it.
//!
//! Only the nearest file upwards applies; it is not merged with files above it, so that a file's
//! settings can be read in one place. Every mistake is reported at its place in the text: silently
//! ignoring a key or a word could disable a lint that an author relies on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use shardwise_ir::codes::tool::BAD_CONFIGURATION;
use shardwise_ir::{Diag, Span};
use toml::Spanned;

use super::settings::{Levels, Selector, Settings};
use crate::diagnostics::Findings;
use crate::lint::definition::Lint;
use crate::lint::rules::find;

/// The name of the file.
pub const FILE_NAME: &str = "shardwise.toml";

/// The content of a `shardwise.toml`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    levels: Levels,
    overrides: Vec<(GlobSet, Levels)>,
    exclude: GlobSet,
    numbers: Vec<(&'static Lint, &'static str, f64)>,
}

type Words = Vec<Spanned<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    select: Option<Words>,
    #[serde(default)]
    ignore: Words,
    #[serde(default)]
    warn: Words,
    #[serde(default)]
    deny: Words,
    #[serde(default)]
    exclude: Words,
    #[serde(default)]
    options: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, f64>>,
    #[serde(default)]
    overrides: Vec<RawOverride>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOverride {
    paths: Words,
    select: Option<Words>,
    #[serde(default)]
    ignore: Words,
    #[serde(default)]
    warn: Words,
    #[serde(default)]
    deny: Words,
}

impl Config {
    /// Reads the text of a configuration, which errors call `name`.
    ///
    /// # Errors
    ///
    /// All mistakes, with their places: text that is no TOML, unknown keys, and codes that are no
    /// lints.
    ///
    /// ```
    /// use shardwise::lint::Config;
    /// let text = "deny = [\"communication\"]\n[options.SW321]\nshare = 0.1\n";
    /// let config = Config::parse("shardwise.toml", text).unwrap();
    /// let refused = Config::parse("shardwise.toml", "ignore = [\"SW39\"]").unwrap_err();
    /// assert!(refused.to_string().contains("is no lint"));
    /// # let _ = config;
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Self, Findings> {
        let refuse = |diags: Vec<Diag>| Findings::new(diags, name, text);
        let raw: Raw = toml::from_str(text).map_err(|error| refuse(vec![unreadable(&error)]))?;
        let mut reader = Reader::default();
        let config = reader.config(raw);
        if reader.diags.is_empty() { Ok(config) } else { Err(refuse(reader.diags)) }
    }

    /// Whether files at `path`, relative to the configuration's folder, are skipped when a folder
    /// is checked.
    pub fn excludes(&self, path: &Path) -> bool {
        path.ancestors().any(|part| self.exclude.is_match(part))
    }

    /// The settings for the file at `path`, relative to the configuration's folder.
    pub fn settings(&self, path: &Path) -> Settings {
        let mut settings = Settings::default();
        settings.layer(self.levels.clone());
        for (_, levels) in self
            .overrides
            .iter()
            .filter(|(paths, _)| path.ancestors().any(|part| paths.is_match(part)))
        {
            settings.layer(levels.clone());
        }
        for (lint, name, value) in &self.numbers {
            settings.put(lint, name, *value);
        }
        settings
    }
}

/// Errors of TOML itself, or of the keys.
fn unreadable(error: &toml::de::Error) -> Diag {
    let span = error.span().map_or(Span::default(), to_span);
    let message = error.message().lines().next().unwrap_or("not understood");
    let diag = |message: String| Diag::error(BAD_CONFIGURATION, message, span, "here");
    let of_type = message.strip_prefix("invalid type: ").and_then(|rest| rest.rsplit_once(", "));
    if let Some((given, expected)) = of_type {
        let (what, example) = expected_type(expected.trim_start_matches("expected "));
        let text = given.strip_prefix("string ").filter(|_| what == "a list");
        let example = text.map_or_else(|| example.to_owned(), |text| format!("[{text}]"));
        return diag(format!("this is not {what}")).help(format!("write {what}: `{example}`"));
    }
    diag(message.to_owned()).help(
        "the keys are select, ignore, warn, deny, exclude, [options.CODE] and [[overrides]] \
        with paths",
    )
}

/// What is expected somewhere, by its type in the words of `serde`, and an example.
fn expected_type(name: &str) -> (&'static str, &'static str) {
    match name {
        "a sequence" => ("a list", "[\"SW301\"]"),
        "a map" => ("a table", "[options.SW321]"),
        "f64" => ("a number", "0.1"),
        _ => ("a text", "\"SW301\""),
    }
}

fn to_span(range: Range<usize>) -> Span {
    Span::new(range.start, range.end)
}

/// Converts words to selectors; returns every mistake.
#[derive(Default)]
struct Reader {
    diags: Vec<Diag>,
}

impl Reader {
    fn config(&mut self, raw: Raw) -> Config {
        let levels = self.levels(raw.select, raw.ignore, raw.warn, raw.deny);
        let exclude = self.globs(&raw.exclude);
        let overrides = raw.overrides.into_iter().map(|part| {
            let paths = self.globs(&part.paths);
            (paths, self.levels(part.select, part.ignore, part.warn, part.deny))
        });
        let overrides = overrides.collect();
        let numbers =
            raw.options.iter().flat_map(|(code, numbers)| self.numbers(code, numbers)).collect();
        Config { levels, overrides, exclude, numbers }
    }

    fn wrong(&mut self, message: String, span: Range<usize>) {
        self.diags.push(Diag::error(BAD_CONFIGURATION, message, to_span(span), "here"));
    }

    fn levels(&mut self, select: Option<Words>, ignore: Words, warn: Words, deny: Words) -> Levels {
        Levels {
            select: select.map(|words| self.selectors(&words)),
            ignore: self.selectors(&ignore),
            warn: self.selectors(&warn),
            deny: self.selectors(&deny),
        }
    }

    fn selectors(&mut self, words: &[Spanned<String>]) -> Vec<Selector> {
        let mut selectors = Vec::new();
        for word in words {
            match word.get_ref().parse() {
                Ok(selector) => selectors.push(selector),
                Err(message) => self.wrong(message, word.span()),
            }
        }
        selectors
    }

    fn globs(&mut self, patterns: &[Spanned<String>]) -> GlobSet {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            // `./vendor/` is the folder `vendor`: paths that are matched have neither part.
            let path = pattern.get_ref();
            let path = path.strip_prefix("./").unwrap_or(path);
            let path = path.strip_suffix('/').unwrap_or(path);
            match Glob::new(path) {
                Ok(glob) => drop(set.add(glob)),
                Err(error) => self.wrong(
                    format!("`{}` is no pattern for paths: {}", pattern.get_ref(), error.kind()),
                    pattern.span(),
                ),
            }
        }
        set.build().unwrap_or_default()
    }

    fn numbers(
        &mut self,
        code: &Spanned<String>,
        numbers: &BTreeMap<Spanned<String>, f64>,
    ) -> Vec<(&'static Lint, &'static str, f64)> {
        let Some(lint) = find(code.get_ref()) else {
            self.wrong(format!("`{}` is no lint", code.get_ref()), code.span());
            return Vec::new();
        };
        let mut found = Vec::new();
        for (name, &value) in numbers {
            match lint.parameter(name.get_ref()) {
                Ok(parameter) if value >= 0.0 && value.is_finite() => {
                    found.push((lint, parameter.name, value));
                }
                Ok(_) => self.wrong(format!("{value} is not a number from 0 on"), name.span()),
                Err(message) => self.wrong(message, name.span()),
            }
        }
        found
    }
}
