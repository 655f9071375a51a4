//! All tests across crates, in one binary: one folder per kind of question, one module per subject.
//! `compiler/docs/testing.md` lists them.

mod book;
mod commands;
mod language;
mod lints;
mod models;
mod oracles;
mod properties;
mod tidy;
