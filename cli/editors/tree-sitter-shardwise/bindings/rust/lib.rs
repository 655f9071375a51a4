//! The grammar of shardwise programs and plans for [tree-sitter](https://tree-sitter.github.io):
//! for colors, folds and indents in editors.
//!
//! ```
//! let mut parser = tree_sitter::Parser::new();
//! parser.set_language(&tree_sitter_shardwise::LANGUAGE.into())?;
//! let tree = parser.parse("mesh X=4\n", None).expect("a language is set");
//! assert!(!tree.root_node().has_error());
//! # Ok::<(), tree_sitter::LanguageError>(())
//! ```

use tree_sitter_language::LanguageFn;

unsafe extern "C" {
    fn tree_sitter_shardwise() -> *const ();
}

/// The language: `parser.set_language(&LANGUAGE.into())`.
// SAFETY: the function is the one of the generated parser, which returns a static language.
pub const LANGUAGE: LanguageFn = unsafe { LanguageFn::from_raw(tree_sitter_shardwise) };

/// Which nodes have which color.
pub const HIGHLIGHTS_QUERY: &str = include_str!("../../queries/highlights.scm");
