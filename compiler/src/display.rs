//! Formats quantities and tables for people, and the type of the tables of output formats.

pub(crate) mod chart;
mod format;
pub(crate) mod labels;
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

/// `an AllReduce`, `a ReduceScatter`.
pub(crate) fn with_article(word: &str) -> String {
    let article = if word.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// Rows of one length as CSV.
pub(crate) fn csv(rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.for_each(|row| writer.write_record(row).expect("all rows are of one length"));
    let bytes = writer.into_inner().expect("memory can be written to");
    String::from_utf8(bytes).expect("cells are text")
}
