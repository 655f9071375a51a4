//! Random programs: planned both ways, run on simulated devices, compared with the unsharded
//! program. `RANDOM_TIMES=20` runs so many times as many.

use std::cell::Cell;

use proptest::prelude::{TestCaseError, prop_assert};
use proptest::strategy::Strategy as _;
use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::random::{for_all, numbers, times};
use shardwise_tests::random_program;

/// Whether a program was accepted and its plan run.
fn is_right(source: &str, strategy: Strategy) -> Result<bool, TestCaseError> {
    let options = Options { strategy, memory: Some(f64::INFINITY), ..Options::default() };
    match verify("random", source, &options, &Setup::default()) {
        Err(findings) => {
            // Pins may contradict each other, and products of large dimensions need more than is
            // run; what the compiler itself makes must never be refused.
            let codes: Vec<&str> = findings.reports.iter().map(|report| report.diag.code).collect();
            prop_assert!(
                codes.iter().all(|code| ["SW204", "SW211", "SW202", "SW506"].contains(code)),
                "{findings}\n{source}"
            );
            Ok(false)
        }
        Ok(verdict) => {
            prop_assert!(verdict.mismatch.is_none(), "{verdict}\n{source}");
            Ok(true)
        }
    }
}

fn run(cases: u32, axes: usize, operations: usize) {
    let cases = cases * times() as u32;
    let ran = Cell::new(0);
    let program = |numbers: Vec<u32>| random_program::program(&numbers, axes, operations);
    let both = |source: String| {
        for strategy in [Strategy::Search, Strategy::Textbook] {
            ran.set(ran.get() + u32::from(is_right(&source, strategy)?));
        }
        Ok(())
    };
    for_all(cases, &numbers(120).prop_map(program), both);
    assert!(
        ran.get() >= cases,
        "most programs must be accepted, and were not: {} of {}",
        ran.get(),
        2 * cases
    );
}

#[test]
fn one_axis() {
    for operations in [1, 2, 4, 8, 12] {
        run(120, 1, operations);
    }
}

#[test]
fn two_axes() {
    for operations in [1, 3, 6, 12] {
        run(70, 2, operations);
    }
}

#[test]
fn three_axes() {
    for operations in [1, 3, 5] {
        run(30, 3, operations);
    }
}
