//! Dependency files, as `gcc -MMD -MP` writes them: make includes them, ninja reads them
//! (`depfile`, `deps = gcc`).

/// `target: inputs…`, and an empty rule for each input, so that a program that was deleted or
/// renamed does not stop the build.
///
/// ```
/// let depfile = shardwise::build::depfile("out/a.plan", &["my models/a.shard"]);
/// assert_eq!(depfile, "out/a.plan: my\\ models/a.shard\n\nmy\\ models/a.shard:\n");
/// ```
pub fn depfile(target: &str, inputs: &[&str]) -> String {
    let inputs: Vec<String> = inputs.iter().map(|input| escaped(input)).collect();
    let rules: Vec<String> = inputs.iter().map(|input| format!("\n{input}:\n")).collect();
    format!("{}: {}\n{}", escaped(target), inputs.join(" "), rules.concat())
}

/// Escapes a path so that both make and ninja read it. Neither reads a line break in a path:
/// control characters are written as in Rust (`\n`), so such a dependency names no file, and
/// always rebuilds.
fn escaped(path: &str) -> String {
    let path = path.replace(' ', "\\ ").replace('#', "\\#").replace('$', "$$");
    let chars = path.chars();
    chars
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}
