//! The parser that is committed is the one that the grammar generates.
//!
//! `REGENERATE=1 cargo test --test generated` writes it.

use std::path::Path;

use tree_sitter_generate::{OptLevel, generate_parser_in_directory};

/// The version of the interface between parsers and editors that editors of 2024 know, too.
const INTERFACE: usize = 14;

/// What is generated, in `src`.
const GENERATED: [&str; 6] = [
    "grammar.json",
    "node-types.json",
    "parser.c",
    "tree_sitter/alloc.h",
    "tree_sitter/array.h",
    "tree_sitter/parser.h",
];

#[test]
fn the_parser_is_the_one_of_the_grammar() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let is_written = std::env::var_os("REGENERATE").is_some();
    let out = if is_written { root.join("src") } else { folder.path().to_owned() };
    let mut notes = Vec::new();
    generate_parser_in_directory(
        root,
        Some(out.clone()),
        None::<&Path>,
        INTERFACE,
        None,
        Some("node"),
        true,
        OptLevel::default(),
        &mut notes,
    )
    .expect("the grammar is right, and `node` is installed");
    for file in GENERATED {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(file)).expect(file);
        let same = read(&out) == read(&root.join("src"));
        assert!(same, "src/{file} is not up to date: `REGENERATE=1 cargo test --test generated`");
    }
}
