//! The numbers of the book's chapters, from `tests/facts`: by id, with their tolerances.

use std::sync::LazyLock;

use serde_json::Value;

use crate::files;

static RECORDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let read = |text: String| -> Vec<Value> { serde_json::from_str(&text).expect("a list") };
    files("tests/facts", ".json").into_iter().flat_map(|(_, text)| read(text)).collect()
});

/// The record called `id`.
///
/// # Panics
/// If there is none.
pub fn record(id: &str) -> &'static Value {
    RECORDS.iter().find(|record| record["id"] == id).unwrap_or_else(|| panic!("no fact {id}"))
}

/// The numbers that a record lists, those of nested lists too.
pub fn numbers(id: &str) -> Vec<f64> {
    fn flat(value: &Value) -> Vec<f64> {
        value.as_array().map_or_else(
            || value.as_f64().into_iter().collect(),
            |list| list.iter().flat_map(flat).collect(),
        )
    }
    flat(&record(id)["value"])
}

/// Whether `given` is the value of the record, within its tolerance.
///
/// # Panics
/// If it is not.
pub fn holds(id: &str, given: &[f64]) {
    let wanted = numbers(id);
    let tolerance = record(id)["tolerance"].as_f64().unwrap_or(0.0).max(1e-9);
    let near = |(given, wanted): (&f64, &f64)| {
        (given - wanted).abs() <= tolerance * wanted.abs().max(1e-300)
    };
    assert!(
        given.len() == wanted.len() && given.iter().zip(&wanted).all(near),
        "{id}: {given:?} against {wanted:?}"
    );
}

/// The same of a record with one number.
///
/// # Panics
/// If it is not.
pub fn value_holds(id: &str, given: f64) {
    holds(id, &[given]);
}

/// A test of one fact, named by its id, which its body receives.
#[macro_export]
macro_rules! fact {
    ($name:ident, $id:literal, $check:expr) => {
        #[test]
        fn $name() {
            let check: fn(&str) = $check;
            check($id);
        }
    };
}
