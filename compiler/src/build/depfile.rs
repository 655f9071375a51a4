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

/// Escapes a path so that both make and ninja read it.
fn escaped(path: &str) -> String {
    path.replace(' ', "\\ ").replace('#', "\\#").replace('$', "$$")
}
