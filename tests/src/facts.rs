//! The numbers of the book's chapters, from `tests/facts`: by id, with their tolerances.

use serde_json::Value;

use crate::read;

/// The record called `id` in a file of facts.
///
/// # Panics
/// If there is none.
pub fn fact(file: &str, id: &str) -> Value {
    let facts: Value = serde_json::from_str(&read(file)).expect("the facts are JSON");
    let found =
        facts.as_array().and_then(|facts| facts.iter().find(|fact| fact["id"] == id)).cloned();
    found.unwrap_or_else(|| panic!("no fact {id}"))
}

/// The numbers that a fact lists, those of nested lists too.
pub fn numbers(file: &str, id: &str) -> Vec<f64> {
    fn flat(value: &Value) -> Vec<f64> {
        value.as_array().map_or_else(
            || value.as_f64().into_iter().collect(),
            |list| list.iter().flat_map(flat).collect(),
        )
    }
    flat(&fact(file, id)["value"])
}

/// Whether `given` is what the fact says, within its tolerance.
///
/// # Panics
/// If it is not.
pub fn holds(file: &str, id: &str, given: &[f64]) {
    let wanted = numbers(file, id);
    let tolerance = fact(file, id)["tolerance"].as_f64().unwrap_or(0.0).max(1e-9);
    let near = |(given, wanted): (&f64, &f64)| {
        (given - wanted).abs() <= tolerance * wanted.abs().max(1e-300)
    };
    assert!(
        given.len() == wanted.len() && given.iter().zip(&wanted).all(near),
        "{id}: {given:?} against {wanted:?}"
    );
}

/// A test of one fact, named by its id: what it does is given the id.
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
