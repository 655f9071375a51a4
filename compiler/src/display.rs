//! Formats quantities and tables for people, and the type of the tables of output formats.

pub(crate) mod chart;
mod format;
pub(crate) mod table;
pub mod units;

pub use format::Format;

/// `one`, `one and two`, `one, two and three`.
pub(crate) fn and_list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
