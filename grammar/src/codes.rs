//! Every diagnostic code, in one place: a code is never reused, and each has a page that `explain CODE` prints.

pub mod budget;
pub mod mesh;
pub mod names;
pub mod sharding;
pub mod syntax;

/// A diagnostic code and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// `SW101`.
    pub code: &'static str,
    /// Kebab case, for people.
    pub name: &'static str,
    /// What is wrong, what triggers it, what to write instead.
    pub page: &'static str,
}

/// All codes in order.
pub fn all() -> impl Iterator<Item = &'static Code> {
    [syntax::CODES, names::CODES, sharding::CODES, mesh::CODES, budget::CODES].into_iter().flatten()
}

/// The code called `code`, in any case.
pub fn find(code: &str) -> Option<&'static Code> {
    all().find(|known| known.code.eq_ignore_ascii_case(code))
}
