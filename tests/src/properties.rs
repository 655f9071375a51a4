//! Properties of every program, which the tests of layers, microbatches and pipelines check on
//! theirs.

use shardwise::verify::{Setup, Sizes, verify};
use shardwise::{Options, Planned, Strategy};
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::print::same;

/// The checked program of a source.
///
/// # Panics
/// If it refuses it.
pub fn program(name: &str, source: &str) -> Analyzed {
    let checked = shardwise::check(name, source, &Options::default());
    checked.program.unwrap_or_else(|| panic!("{name}: {}\n{source}", checked.findings))
}

/// The plan of a source.
///
/// # Panics
/// If there is none.
pub fn plan(name: &str, source: &str, strategy: Strategy) -> Planned {
    let options = Options { strategy, ..Options::default() };
    shardwise::plan(name, source, &options).unwrap_or_else(|e| panic!("{name}: {e}\n{source}"))
}

/// Printed text parses back to the same program; both plans are correct when they are run, and
/// planning them returns them; no schedule is shorter than the busiest resource or longer than the
/// sum of all steps; parts add up; and the search is no costlier than the textbook. Returns both
/// plans, the searched one first.
///
/// # Panics
/// If any of it does not hold.
pub fn checked_plans(name: &str, source: &str, sizes: Sizes) -> [Planned; 2] {
    let read = program(name, source);
    let again = program(name, &read.to_string());
    assert!(same(&read, &again), "{name}: {read}\n{again}");
    let plans = [Strategy::Search, Strategy::Textbook].map(|strategy| {
        let options = Options { strategy, ..Options::default() };
        let verdict = verify(name, source, &options, &Setup { sizes, ..Setup::default() })
            .unwrap_or_else(|e| panic!("{name}: {e}\n{source}"));
        assert!(verdict.mismatch.is_none(), "{name}: {verdict}\n{source}");
        let planned = plan(name, source, strategy);
        assert_eq!(
            planned.to_string(),
            plan(name, &planned.to_string(), Strategy::Search).to_string(),
            "{name}"
        );
        let report = &planned.report;
        assert!(
            report.overlap_s <= report.schedule.makespan_s
                && report.schedule.makespan_s <= report.serial_s,
            "{name}: {planned}"
        );
        let parts_s = report.compute_s + report.comm_s + report.bubble_s;
        assert!(
            (parts_s - report.serial_s).abs() <= 1e-9 * report.serial_s.max(1e-300),
            "{name}: {planned}"
        );
        planned
    });
    let serial_s = [&plans[0], &plans[1]].map(|planned| planned.report.serial_s);
    assert!(serial_s[0] <= serial_s[1] * (1.0 + 1e-12), "{name}: {serial_s:?}");
    plans
}
