//! Snapshots beside their inputs: `tests/programs/FOLDER/NAME.snap` is the output for `NAME.shard`
//! there.
//!
//! Review a change with `cargo insta review`, or accept it with `INSTA_UPDATE=always cargo test`
//! and read the difference.

use shardwise::Planned;

use crate::root;

/// Compares `text` with `tests/programs/FOLDER/NAME.snap`.
///
/// # Panics
/// If it is not.
pub fn snapshot(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::new();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path(root().join("tests/programs").join(folder));
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The same for a plan, without the fingerprint of its `# found: … [fingerprint]`, which changes
/// with every statement.
///
/// # Panics
/// If it is not.
pub fn plan_snapshot(folder: &str, name: &str, planned: &Planned) {
    snapshot(folder, name, &without_fingerprint(&planned.to_string()));
}

fn without_fingerprint(plan: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" [") {
        Some((found, _)) if line.starts_with("# found: ") => format!("{found}\n"),
        _ => format!("{line}\n"),
    };
    plan.lines().map(line).collect()
}
