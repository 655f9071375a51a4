//! Properties of every program, which the tests of layers, microbatches and pipelines check on
//! theirs.

use proptest::prop_assert;
use proptest::test_runner::TestCaseError;
use shardwise::verify::{Setup, Sizes, evaluate, verify};
use shardwise::{Options, Planned, Strategy};
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::print::same;
use shardwise_ir::unroll;

use crate::random::{Arrays, arrays};

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

/// Whether the gradients of `Loss` by some values, layers written out (`W@0`), are numerical
/// differences, every fifth element of each; `tolerance` is relative.
///
/// # Errors
/// The first element that differs, or that no gradient has one of the names.
///
/// # Panics
/// If the program cannot be computed.
pub fn gradients_are_right(
    source: &str,
    names: &[&str],
    tolerance: f64,
    seed: u64,
) -> Result<(), TestCaseError> {
    let derived = program("random", source);
    let flat = unroll::program(&derived, &|block| derived.repeats[block].count);
    let given = arrays(&flat, seed);
    let loss = |given: &Arrays| evaluate(&flat, given).expect("all is declared")["Loss"][0];
    let values = evaluate(&flat, &given).expect("all is declared");
    let mut compared = 0;
    for &name in names {
        let gradient = values.get(&format!("d{name}")).into_iter().flatten();
        for (place, &found) in gradient.enumerate().step_by(5) {
            let at = |shift: f64| {
                let mut moved = given.clone();
                moved.get_mut(name).expect("it is declared")[place] += shift;
                loss(&moved)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            prop_assert!(
                (found - expected).abs() <= tolerance * expected.abs().max(1.0),
                "d{name}[{place}]: {found} {expected}\n{source}\n{derived}"
            );
            compared += 1;
        }
    }
    prop_assert!(compared > 0, "no gradient is compared\n{source}\n{derived}");
    Ok(())
}
