//! Helpers that the tests share: finding and reading fixtures.

pub mod brute_force;
pub mod facts;
pub mod measured;
pub mod model;
pub mod mutants;
pub mod planning;
pub mod properties;
pub mod published;
pub mod random;
pub mod random_model;
pub mod random_program;
pub mod reliability;
pub mod reshards;
pub mod small_sizes;
pub mod snapshot;

use std::path::{Path, PathBuf};

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The text of a file below the root.
///
/// # Panics
/// If it cannot be read: a test without its fixture must fail.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a folder below the root that end in `ending`: stem and text, sorted.
///
/// # Panics
/// If there are none.
pub fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let entries =
        std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut found: Vec<(String, String)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let stem = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
            Some((stem, std::fs::read_to_string(&path).ok()?))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no fixtures in {folder}");
    found
}

/// The files below a folder below the root whose names end in `ending`, build products apart:
/// paths from the root, sorted.
pub fn paths_below(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "target" && name != ".git" {
                folders.push(path);
            } else if path.is_file() && name.ends_with(ending) {
                let path = path.strip_prefix(root()).unwrap_or(&path);
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// Whether two results of as many digits are equal up to rounding.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1e-12)
}

/// The statements of a plan's text: neither declarations nor comments nor outputs.
pub fn statements(plan: &str) -> Vec<String> {
    let code = plan.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    code.filter(|line| {
        line.contains(" = ") && !line.starts_with("dim ") && !line.starts_with("mesh ")
    })
    .map(|line| line.split(" in k").next().unwrap_or(line).to_owned())
    .collect()
}

/// How findings look in a terminal without colours, 100 columns wide.
///
/// # Panics
/// Never: a string can be written to.
pub fn drawn(findings: &shardwise::Findings) -> String {
    let handler =
        miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
            .with_width(100)
            .with_links(false);
    let mut text = String::new();
    for report in &findings.reports {
        handler.render_report(&mut text, report).expect("a string can be written to");
    }
    text
}
