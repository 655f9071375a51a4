//! Source text: lines and columns in it, how files are read, and the one-line form.

pub mod files;
pub mod oneliner;
pub(crate) mod place;
