//! What was typed in place of a command: a program, or the name that other tools have for it.

use std::path::Path;

/// Commands of other tools, and what does the same here.
const OF_OTHERS: &[(&str, &str)] = &[
    ("analyze", "explain"),
    ("autotune", "tune"),
    ("build", "plan"),
    ("chips", "hardware"),
    ("compare", "diff"),
    ("compile", "plan"),
    ("create", "new"),
    ("estimate", "cost"),
    ("fix", "check --fix"),
    ("format", "fmt"),
    ("init", "new"),
    ("lint", "check"),
    ("optimize", "plan"),
    ("price", "cost"),
    ("run", "verify"),
    ("search", "tune"),
    ("shard", "plan"),
    ("simulate", "verify"),
    ("template", "new"),
    ("templates", "new"),
    ("test", "verify"),
    ("validate", "check"),
];

/// What to type instead, where it is known.
pub(super) fn tip(word: &str) -> Option<String> {
    if Path::new(word).exists() {
        return Some(format!("to plan a program, type `shardwise plan {word}`"));
    }
    let (_, command) = OF_OTHERS.iter().find(|(other, _)| *other == word)?;
    Some(format!("that is `shardwise {command}`"))
}
