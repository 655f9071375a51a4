//! The XML of `JUnit`, as test dashboards read it: a suite a file, a failed case a finding, a
//! passed case for a file without any.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{name_of, severity_name};
use crate::lint::definition::Finding;
use crate::lint::engine::Linted;
use crate::source::place::Lines;

/// The XML text.
pub fn junit(linted: &[Linted]) -> String {
    let mut report = Report::new("shardwise");
    report.add_test_suites(linted.iter().map(suite));
    report.to_string().unwrap_or_default()
}

fn suite(file: &Linted) -> TestSuite {
    let mut suite = TestSuite::new(file.name.as_str());
    let lines = Lines::new(&file.source);
    suite.add_test_cases(file.findings.iter().map(|finding| case(&lines, file, finding)));
    if file.findings.is_empty() {
        suite.add_test_case(TestCase::new("check", TestCaseStatus::success()));
    }
    suite
}

fn case(lines: &Lines<'_>, file: &Linted, finding: &Finding) -> TestCase {
    let place = lines.place(finding.span().start);
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    let help = finding.diag.help.as_ref().map_or(String::new(), |help| format!("\nhelp: {help}"));
    status
        .set_type(severity_name(finding.diag.severity))
        .set_message(finding.diag.message.as_str());
    status.set_description(format!(
        "{}:{}:{}: {}{help}",
        file.name, place.line, place.column, finding.diag.message
    ));
    let mut case = TestCase::new(
        format!("{} {} at line {}", finding.diag.code, name_of(finding.diag.code), place.line),
        status,
    );
    case.set_classname(file.name.as_str());
    case
}
