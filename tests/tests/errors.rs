//! What must be refused is refused, with the code and the words that its first line asks for.

use shardwise::Options;
use shardwise_tests::files;

#[test]
fn refused_programs_are_refused_for_the_stated_reason() {
    for (name, source) in files("tests/programs/errors", ".shard") {
        let findings = shardwise::plan(&name, &source, &Options::default()).map(|planned| planned.to_string()).expect_err(&name);
        let wanted = source.lines().find_map(|line| line.strip_prefix("# code: ")).unwrap_or_else(|| panic!("{name}: no `# code:` line"));
        let codes: Vec<&str> = findings.reports.iter().map(|report| report.diag.code).collect();
        assert_eq!(codes.join(" "), wanted.trim(), "{name}: {findings}");
    }
}
