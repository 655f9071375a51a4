//! Plans beside what XLA's partitioner makes of the same programs: the table of
//! `compiler/docs/xla.md`.
//!
//! Each program is planned for the small mesh that both run on, so that the plan is the best for
//! what it is compared on. With `SHARDWISE_UPDATE_PAGES=1` the table of the page is written; else
//! all of its columns but the measured one must be those of the page.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use shardwise::{AxisSize, Options, Planned, Strategy};

use crate::cases::{Case, JAX, paths};
use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::modules::{script, style};

/// The folders of complete steps, and small programs that show one thing.
const FOLDERS: [&str; 13] = [
    "book",
    "layers",
    "microbatches",
    "scans",
    "operations",
    "optimizer",
    "sparse",
    "attention",
    "twenty",
    "models",
    "pipelines",
    "nested",
    "training",
];

/// The folder of plans that others are compared with.
const SLOWER: &str = "book/alternatives";

/// Writes the case of a program that is planned for its small mesh, with its module.
fn write(program: &Path, scratch: &Path) -> Option<PathBuf> {
    let case = Case::of(program, Strategy::Search)?;
    let axes = case.small.mesh.iter();
    let mesh = axes.map(|axis| AxisSize::new(&axis.axis, axis.size));
    let options =
        Options { mesh: mesh.collect(), memory: Some(f64::INFINITY), ..Options::default() };
    // A size that the small mesh cannot have is that of the program's own mesh.
    let planned = planned(program, &options);
    let of_small = planned.and_then(|planned| Case::of_plan(case.name.clone(), planned));
    let case = of_small.unwrap_or(case);
    let module = (style("shard_map").write)(&case.planned).ok()?;
    let path = case.write(scratch);
    std::fs::write(path.with_extension("py"), module).expect("a file can be written");
    Some(path)
}

/// The plan of a program with other options.
fn planned(program: &Path, options: &Options) -> Option<Planned> {
    let text = std::fs::read_to_string(program).ok()?;
    shardwise::plan(program.to_str()?, &text, options).ok()
}

/// The rows of a page by their first column, without the last one, which is measured.
fn rows(page: &str) -> BTreeMap<&str, &str> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let columns = rows.filter_map(|line| line.trim_end_matches(['|', ' ']).rsplit_once('|'));
    columns.filter_map(|(row, _)| Some((row.split('`').nth(1)?, row))).collect()
}

/// Whether a line is a row of the table of programs, or of that of folders.
fn is_row(line: &str, of_folders: bool) -> bool {
    let name = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
    name.is_some_and(|name| name.ends_with('/') == of_folders)
}

/// The page with the rows of another table; those of programs, or those of folders.
fn with_rows(page: &str, table: &str, of_folders: bool) -> String {
    let is_row = |line: &&str| is_row(line, of_folders);
    let before = page.lines().take_while(|line| !is_row(line));
    let after = page.lines().skip_while(|line| !is_row(line)).skip_while(is_row);
    let lines: Vec<&str> = before.chain(table.lines().filter(is_row)).chain(after).collect();
    lines.join("\n") + "\n"
}

#[test]
fn the_page_compares_plans_with_xlas_partitioner() {
    let scratch = empty_folder("conformance-partitioner");
    let programs = FOLDERS.iter().flat_map(|folder| paths(folder));
    // Plans that are written out to be slower than the best.
    let programs = programs.filter(|path| !path.parent().is_some_and(|of| of.ends_with(SLOWER)));
    let paths: Vec<PathBuf> = programs.filter_map(|path| write(&path, &scratch)).collect();
    let table = scratch.join("table.md");
    let output = script("compare_partitioner.py")
        .env("SHARDWISE", SHARDWISE)
        .arg(&table)
        .args(&paths)
        .output()
        .expect("python starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = std::fs::read_to_string(table).expect("it is written");
    let failed: Vec<&str> = table.lines().filter(|line| line.starts_with('#')).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let path = root().join("compiler/docs/xla.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    if std::env::var_os("SHARDWISE_UPDATE_PAGES").is_some() {
        let page = [true, false].iter().fold(page, |page, &of| with_rows(&page, &table, of));
        std::fs::write(&path, page).expect("the page can be written");
    } else {
        assert_eq!(rows(&table), rows(&page));
        let version = JAX.rsplit('=').next().unwrap_or_default();
        assert!(page.contains(&format!("JAX {version}")), "the page is of another version");
    }
}
