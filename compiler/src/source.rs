//! Source text: lines and columns, the reading of files, and programs on one line.

pub mod files;
pub mod oneliner;
pub(crate) mod place;

/// What some programs write before the text of a file.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';
