//! The hardware file that a program names: its path, its reader, and the errors.
//!
//! The library reads no files. The caller passes a function that reads them
//! ([`crate::source::files::Files::read_by`]): from a disk ([`crate::build::from_disk`]), an
//! archive, or the buffers of an editor; without that, a program that names a file is refused with
//! the reason. The alternative, to pass the texts of files with the program, would make every
//! caller find the named files first, for each program of a folder, since paths are relative to the
//! program.
//!
//! A mistake in such a file is reported twice: at the program's statement, since that is the source
//! that other tools show, and with its place in the file itself.
//!
//! A program may come from someone else, and name any file. Only names that end in `.toml` are
//! read, and nothing is quoted from a file without a table that has a key of a hardware file, so
//! that a log of errors does not show what a private file contains.

use std::io;
use std::path::{Path, PathBuf};

use shardwise_grammar::ast::{self, Statement};
use shardwise_grammar::diag::{Inside, Label};
use shardwise_grammar::span::Name;
use shardwise_ir::Diag;
use shardwise_ir::codes::mesh::{BAD_HARDWARE, UNCLEAR_HARDWARE, UNREAD_HARDWARE};
use shardwise_ir::hardware::Hardware;
use shardwise_ir::resolve::HardwareFile;

use super::{FORM, chips, clash, describes_hardware};
use crate::options::Options;
use crate::source::files::Unread;
use crate::source::place::{Lines, Place};

/// The paths of the hardware files that a program names, where `name` is the path of the program:
/// its dependencies.
///
/// ```
/// let source = "hardware my-chip from \"../chips.toml\"\n";
/// let files = shardwise::hardware::named_file::named("models/mlp.shard", source);
/// assert_eq!(files, [std::path::PathBuf::from("models/../chips.toml")]);
/// ```
pub fn named(name: &str, source: &str) -> Vec<PathBuf> {
    if !source.contains('"') {
        return Vec::new();
    }
    let (file, _) = shardwise_grammar::parse(source);
    paths(&file).map(|path| beside(name, &path.node)).collect()
}

/// The program with other paths of its hardware files: `path_of` gives that of a path as written.
///
/// ```
/// let source = "hardware my-chip from \"chips.toml\"  # ours\n";
/// let moved = shardwise::hardware::named_file::with_paths(source, |path| format!("../{path}"));
/// assert_eq!(moved, "hardware my-chip from \"../chips.toml\"  # ours\n");
/// ```
pub fn with_paths(source: &str, path_of: impl Fn(&str) -> String) -> String {
    let mut text = source.to_owned();
    let (file, _) = shardwise_grammar::parse(source);
    let named: Vec<&Name> = paths(&file).collect();
    for path in named.into_iter().rev() {
        let quoted = format!("\"{}\"", path_of(&path.node));
        text.replace_range(path.span.start..path.span.end, &quoted);
    }
    text
}

/// The chips of the hardware file that a program names, unless `options` name other hardware.
pub(crate) fn hardware_file(
    file: &ast::File,
    name: &str,
    options: &Options,
) -> (Option<HardwareFile>, Vec<Diag>) {
    let is_known = |wanted: &String| {
        options.known.iter().any(|chip| chip.name == *wanted) || Hardware::preset(wanted).is_some()
    };
    let Some(path) =
        paths(file).next().filter(|_| !options.hardware.as_ref().is_some_and(is_known))
    else {
        return (None, Vec::new());
    };
    let found = beside(name, &path.node);
    let shown = found.to_string_lossy().replace('\\', "/");
    let (chips, diags) = match text(&found, options) {
        Err(unread) => (None, vec![unread.into_diagnostic(&shown, path)]),
        Ok(text) => match chips(&text) {
            Err(inner) if !text.is_empty() && !describes_hardware(&text) => {
                (None, vec![another_file(&inner, &shown, &text, path)])
            }
            Err(inner) => (
                None,
                inner.into_iter().map(|diag| from_inside(diag, &shown, &text, path)).collect(),
            ),
            Ok(chips) => {
                let clash = clash(chips.iter().chain(&options.known));
                let clash = clash.map(|chip| known_otherwise(chip, path));
                (Some(chips.clone()).filter(|_| clash.is_none()), clash.into_iter().collect())
            }
        },
    };
    (Some(HardwareFile { path: path.node.clone(), chips }), diags)
}

/// The text of a hardware file; other files are not read.
fn text(path: &Path, options: &Options) -> Result<String, Unread> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")) {
        options.files.text(path)
    } else {
        Err(Unread::OtherName)
    }
}

/// The files that a program's `hardware` names.
fn paths(file: &ast::File) -> impl Iterator<Item = &Name> {
    file.statements.iter().filter_map(|statement| {
        if let Statement::Hardware(named) = &statement.node { named.file.as_ref() } else { None }
    })
}

/// A path relative to a program's folder; that of `-`, standard input, is the working directory.
fn beside(name: &str, path: &str) -> PathBuf {
    Path::new(name).parent().unwrap_or(Path::new("")).join(path)
}

impl Unread {
    fn into_diagnostic(self, shown: &str, path: &Name) -> Diag {
        let refuse = |code: &'static str, why: String, help: &str| {
            Diag::error(code, format!("`{shown}` cannot be read: {why}"), path.span, "named here")
                .help(help)
        };
        let from_where = "give the path of a TOML file, counted from the program's folder \
            (`shardwise hardware --format toml h100` prints one)";
        match self {
            Self::OtherName => refuse(
                UNREAD_HARDWARE,
                "the name of a hardware file ends in `.toml`".to_owned(),
                from_where,
            ),
            Self::Nobody => refuse(
                UNREAD_HARDWARE,
                "nothing reads files here".to_owned(),
                "set a reader in `Options::files`",
            ),
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                refuse(UNREAD_HARDWARE, "there is no such file".to_owned(), from_where)
            }
            Self::Io(error) => refuse(UNREAD_HARDWARE, without_number(&error), from_where),
            Self::TooLarge => {
                refuse(UNREAD_HARDWARE, "it is larger than 1 MiB".to_owned(), from_where)
            }
            Self::NotText(at) => refuse(
                BAD_HARDWARE,
                format!("it is not UTF-8 text (byte {at})"),
                "a hardware file is TOML, which is UTF-8; save it as such",
            ),
        }
    }
}

/// The system's message without its error number: `Is a directory (os error 21)`.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// A mistake in a hardware file, reported at the program's statement.
fn from_inside(inner: Diag, shown: &str, text: &str, path: &Name) -> Diag {
    let label =
        inner.labels.first().cloned().unwrap_or(Label { span: path.span, text: String::new() });
    let Place { line, column } = Lines::new(text).place(label.span.start);
    let message = format!("`{shown}:{line}:{column}`: {}", inner.message);
    let inside = Some(Box::new(Inside { name: shown.to_owned(), text: text.to_owned(), label }));
    Diag { help: inner.help, inside, ..Diag::error(inner.code, message, path.span, "in this file") }
}

/// A file that has nothing of a hardware file, as far as it can be read.
fn another_file(inner: &[Diag], shown: &str, text: &str, path: &Name) -> Diag {
    let start = inner.first().and_then(|diag| diag.labels.first()).map_or(0, |at| at.span.start);
    let Place { line, column } = Lines::new(text).place(start);
    let message = format!("`{shown}` is no hardware file (line {line}, column {column})");
    Diag::error(BAD_HARDWARE, message, path.span, "named here").help(FORM)
}

fn known_otherwise(chip: &Hardware, path: &Name) -> Diag {
    let message = format!(
        "`{}` is described by `{}`, and with other numbers by a file that was given beside the \
            program",
        chip.name, path.node
    );
    let help = format!(
        "give one of them another name, or select the other one with `--hardware {}`",
        chip.name
    );
    Diag::error(UNCLEAR_HARDWARE, message, path.span, "described here").help(help)
}
