//! Lints: unnecessary cost in valid programs, with its price and the edit that removes it.
//!
//! A lint is a row of a table ([`Lint`]), not an object with methods: its page (what, why, a
//! bad example, the good example) is data that `explain`, the reference and the tests read
//! alike, and its check is one function over a program and its plans. The costs are differences
//! between plans: where a lint proposes an edit, the edited program is planned too, so no number
//! here is a rule of thumb.
//!
//! Lints live in this crate and not among the passes, since an edit is text at a place of the
//! syntax tree and a finding is a sentence with units, and passes see neither.

mod analysis;
mod definition;
mod engine;
pub mod formats;
mod rules;

pub use crate::source::place::{Lines, Place};
pub use definition::{Edit, Finding, Fix, Group, Level, Lint, Parameter, Price, Safety};
pub use engine::config::{Config, FILE_NAME};
pub use engine::fix::{apply, fixed};
pub use engine::page::reference;
pub use engine::settings::{Levels, Selector, Settings};
pub use engine::{Linted, lint};
pub use rules::{all, find};
