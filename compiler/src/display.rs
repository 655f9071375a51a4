//! Formats quantities and tables for people.

pub(crate) mod chart;
pub(crate) mod table;
pub mod units;

/// `one`, `one and two`, `one, two and three`.
pub(crate) fn and_list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
