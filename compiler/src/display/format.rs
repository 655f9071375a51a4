//! The type of the tables of output formats: a new format is one file with a function, and one row.
//! The command's `--format`, its help and its dispatch read the tables.

use std::fmt;

/// A row of a table of formats for a `T`; the first row of a table is the default.
pub struct Format<T: ?Sized> {
    /// As `--format` writes it.
    pub name: &'static str,
    /// Its purpose, in a few words.
    pub about: &'static str,
    /// Writes it; an error says why there is nothing to write.
    pub write: fn(&T) -> Result<String, String>,
}

/// Other names of formats, which `--format` reads as well.
const ALIASES: &[(&str, &str)] = &[("markdown", "md")];

impl<T: ?Sized> Format<T> {
    /// Other names of this format.
    pub fn aliases(&self) -> impl Iterator<Item = &'static str> {
        ALIASES.iter().filter(|(_, name)| *name == self.name).map(|(alias, _)| *alias)
    }

    /// Whether what is written of several can stand in one text, one after the other: a page or a
    /// document of another format is one file.
    pub fn is_prose(&self) -> bool {
        matches!(self.name, "text" | "md")
    }

    /// Whether `--format NAME` means this one.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases().any(|alias| alias == name)
    }
}

impl<T: ?Sized> fmt::Debug for Format<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
