//! Everything that is tested across crates, in one binary: a folder a kind of question, a module a
//! subject. `compiler/docs/testing.md` says what is where.

mod book;
mod commands;
mod language;
mod lints;
mod models;
mod oracles;
mod properties;
mod tidy;
