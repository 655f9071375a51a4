//! Invalid programs are rejected, with the code and the words in their first line.

use shardwise::Options;
use shardwise::files::Files;
use shardwise_tests::snapshot::snapshot;
use shardwise_tests::{files, root};

#[test]
fn refused_programs_are_refused_for_the_stated_reason() {
    for (name, source) in files("tests/programs/errors", ".shard") {
        let findings = shardwise::plan(&name, &source, &Options::default())
            .map(|planned| planned.to_string())
            .expect_err(&name);
        let wanted = source
            .lines()
            .find_map(|line| line.strip_prefix("# code: "))
            .unwrap_or_else(|| panic!("{name}: no `# code:` line"));
        let codes: Vec<&str> = findings.reports.iter().map(|report| report.diag.code).collect();
        assert_eq!(codes.join(" "), wanted.trim(), "{name}: {findings}");
    }
}

/// How a program's findings look in a terminal without colours, 100 columns wide.
fn drawn(name: &str, source: &str) -> String {
    let files =
        Files::read_by(|path| std::fs::read(root().join("tests/programs/codes").join(path)));
    let findings = match shardwise::plan(name, source, &Options { files, ..Options::default() }) {
        Ok(planned) => planned.warnings,
        Err(findings) => findings,
    };
    shardwise_tests::drawn(&findings)
}

#[test]
fn every_code_has_a_fixture_that_shows_it() {
    for (name, source) in files("tests/programs/codes", ".shard") {
        let text = drawn(&format!("{name}.shard"), &source);
        let code = name.split('-').next().unwrap_or_default().to_uppercase();
        assert!(text.contains(&code), "{name} does not show {code}:\n{text}");
        snapshot("codes", &name, &text);
    }
}

/// A hundred mistakes of newcomers: each is reported once, with what to write.
#[test]
fn a_mistake_is_one_message_that_says_what_to_write() {
    let mistakes = files("tests/programs/mistakes", ".shard");
    assert!(mistakes.len() >= 100, "{} mistakes", mistakes.len());
    let mut wrong = Vec::new();
    for (name, source) in mistakes {
        let findings = shardwise::plan(&name, &source, &Options::default())
            .map(|planned| planned.to_string())
            .expect_err(&name);
        let text = shardwise_tests::drawn(&findings);
        snapshot("mistakes", &name, &text);
        let numbers = source.lines().filter(|line| line.contains("[64, 1024]")).count();
        let has_help = findings.reports.iter().all(|report| report.diag.help.is_some());
        if findings.reports.len() != 1 + numbers || !has_help {
            wrong.push(text);
        }
    }
    assert!(wrong.is_empty(), "several messages, or no help:\n{}", wrong.join("\n"));
}

#[test]
fn every_code_has_a_page_and_a_fixture() {
    let shown: Vec<String> =
        files("tests/programs/codes", ".shard").into_iter().map(|(name, _)| name).collect();
    let elsewhere = ["SW005", "SW503", "SW504", "SW506", "SW902", "SW903", "SW904", "SW412"];
    for code in shardwise::codes::all() {
        assert!(!code.page.is_empty(), "{} has no page", code.code);
        let fixture = format!("{}-{}", code.code.to_lowercase(), code.name);
        assert!(shown.contains(&fixture) || elsewhere.contains(&code.code), "no fixture {fixture}");
    }
}

#[test]
fn more_than_the_memory_there_is_is_a_warning_where_the_author_wrote_the_plan() {
    let source = shardwise_tests::read("tests/programs/explicit/right.shard");
    let planned =
        shardwise::plan("right", &source, &Options { memory: Some(1e6), ..Options::default() })
            .expect("a warning is no error");
    assert_eq!(planned.warnings.reports[0].diag.code, "SW503");
}

/// Three digits of a limit and of what it limits may be the same.
#[test]
fn a_limit_is_written_with_the_digits_that_the_plan_breaks_it_by() {
    let program = "hardware tpu-v5p\nmesh X=4\ndim B=1004, D=1004, F=1000\ninput In[B_X, D]\n\
        param W[D, F]\nOut = In *D W\noutput Out[B, F]\n";
    let planned = shardwise::plan("limits", program, &Options::default()).expect("it has a plan");
    let ns = (planned.report.serial_s * 1e9).floor();
    let bytes = planned.report.memory.peak_bytes - 1.0;
    for (limit, written) in [
        (format!("serial <= {ns}ns"), shardwise::units::seconds(ns * 1e-9)),
        (format!("memory <= {bytes}B"), shardwise::units::bytes(bytes)),
    ] {
        let text = format!("{program}assert {limit}\n");
        let findings = shardwise::plan("limits", &text, &Options::default());
        let findings = findings.expect_err("it is over the limit").to_string();
        assert!(findings.contains("does not hold"), "{findings}");
        assert!(findings.matches(&written).count() <= 1, "{findings}");
    }
}
