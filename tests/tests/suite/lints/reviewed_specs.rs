//! The example of `compiler/docs/testing.md`: plans and findings of a folder of programs as
//! snapshots.

use shardwise::lint::{Config, formats, lint};
use shardwise::{Findings, Options};
use shardwise_tests::read;

fn review(name: &str, source: &str, settings: &str) -> Result<String, Findings> {
    let settings = Config::parse("shardwise.toml", settings)?.settings(name.as_ref());
    let options = Options::default();
    let plan = shardwise::plan(name, source, &options)?;
    let findings = formats::concise(&[lint(name, source, &options, &settings)]);
    Ok(format!("{plan}\n{findings}"))
}

#[test]
fn specs() {
    let settings = include_str!("../../../programs/specs/shardwise.toml");
    insta::glob!("../../../programs/specs", "*.shard", |path| {
        let source = std::fs::read_to_string(path).expect("a spec can be read");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let reviewed = review(&name, &source, settings);
        insta::assert_snapshot!(reviewed.unwrap_or_else(|findings| findings.to_string()));
    });
}

#[test]
fn the_page_shows_this() {
    let page = read("compiler/docs/testing.md");
    let shown = page.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```"));
    let here = include_str!("reviewed_specs.rs").replace("../../../programs/specs", "../specs");
    for function in shown.expect("a block of code").0.split("\n\n").skip(1) {
        assert!(here.contains(function.trim_end()), "{function}");
    }
}
