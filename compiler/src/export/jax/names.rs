//! Python identifiers for the names of a plan.

use indexmap::IndexSet;

/// Words that no identifier can be: Python's, and what the module itself defines.
const TAKEN: &[&str] = &[
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "jax",
    "jnp",
    "lax",
    "np",
    "P",
    "n",
    "given",
    "math",
    "carried",
    "given_part",
    "last",
    "kept",
    "sums",
];

/// The identifier closest to a name: `x.in` becomes `x_in`.
pub(super) fn identifier(name: &str) -> String {
    let letter = |c: char| match c {
        '\'' => "_prime".to_owned(),
        c if c.is_alphanumeric() || c == '_' => c.to_string(),
        _ => "_".to_owned(),
    };
    let word: String = name.chars().map(letter).collect();
    let starts_badly = word.starts_with(|c: char| c.is_ascii_digit());
    let is_taken = TAKEN.contains(&word.as_str());
    if starts_badly || word.is_empty() {
        format!("_{word}")
    } else if is_taken {
        word + "_"
    } else {
        word
    }
}

/// The identifiers in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(IndexSet<String>);

impl Names {
    /// An identifier that is not in use: the one closest to the name, or numbered.
    pub(super) fn fresh(&mut self, name: &str) -> String {
        let word = identifier(name);
        let numbered = (2..).map(|number| format!("{word}_{number}"));
        let free = std::iter::once(word.clone()).chain(numbered).find(|it| !self.0.contains(it));
        let free = free.unwrap_or(word);
        self.0.insert(free.clone());
        free
    }
}
