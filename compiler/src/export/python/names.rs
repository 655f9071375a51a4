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
    "axes",
    "dist",
    "funcol",
    "functional",
    "jax",
    "jnp",
    "lax",
    "torch",
    "np",
    "P",
    "n",
    "given",
    "math",
    "all_gather",
    "carried",
    "given_part",
    "last",
    "kept",
    "reduce_scatter",
    "sums",
];

/// The identifier closest to a name: `x.in` becomes `x_in`.
pub(in crate::export) fn identifier(name: &str) -> String {
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
#[derive(Clone, Debug)]
pub(in crate::export) struct Names {
    now: IndexSet<String>,
    /// Those that were in use in a loop, too.
    ever: IndexSet<String>,
}

impl Names {
    /// No identifiers but some that the module defines.
    pub(super) fn reserving<'n>(defined: impl Iterator<Item = &'n str>) -> Self {
        let now: IndexSet<String> = defined.map(str::to_owned).collect();
        Self { ever: now.clone(), now }
    }

    /// Leaves a loop: what was not in use before it is free again.
    pub(super) fn leave(&mut self, outside: Self) {
        self.now = outside.now;
    }

    /// Marks an identifier as in use.
    pub(super) fn reserve(&mut self, name: &str) {
        self.now.insert(name.to_owned());
        self.ever.insert(name.to_owned());
    }

    /// An identifier that is not in use, and was not in any loop: its value lives through one.
    pub(in crate::export) fn fresh_through_loops(&mut self, name: &str) -> String {
        let now = std::mem::take(&mut self.now);
        self.now.extend(now.iter().chain(&self.ever).cloned());
        let free = self.fresh(name);
        self.now = now;
        self.now.insert(free.clone());
        free
    }

    /// An identifier that is not in use: the one closest to the name, or numbered.
    pub(in crate::export) fn fresh(&mut self, name: &str) -> String {
        let word = identifier(name);
        let numbered = (2..).map(|number| format!("{word}_{number}"));
        let free = std::iter::once(word.clone()).chain(numbered).find(|it| !self.now.contains(it));
        let free = free.unwrap_or(word);
        self.now.insert(free.clone());
        self.ever.insert(free.clone());
        free
    }
}
