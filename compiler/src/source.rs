//! Source text: lines and columns, the reading of files, and programs on one line.

pub mod files;
pub mod oneliner;
pub(crate) mod place;
