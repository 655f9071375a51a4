//! Training: forward programs and `backward`, against the founding texts' plans, gathers that are made again included.

use shardwise::verify::{Sizes, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::{files, read, statements};

fn textbook() -> Options {
    Options { strategy: Strategy::Textbook, ..Options::default() }
}

/// Programs whose plans the sources give.
fn of_the_book() -> Vec<(String, String)> {
    files("tests/programs/training", ".shard").into_iter().filter(|(name, _)| name.starts_with("p5-") || name.starts_with("b-")).collect()
}

#[test]
fn the_textbook_plans_are_the_books_statement_for_statement() {
    for (name, source) in of_the_book() {
        let expected = read(&format!("tests/programs/training/{name}.plan"));
        let planned = shardwise::plan(&name, &source, &textbook()).unwrap_or_else(|e| panic!("{name}: {e}")).to_string();
        assert_eq!(statements(&planned), statements(&expected), "{name}");
    }
}

#[test]
fn the_search_is_never_dearer() {
    for (name, source) in files("tests/programs/training", ".shard") {
        let found = shardwise::plan(&name, &source, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found.report.serial_s <= found.textbook.serial_s * (1.0 + 1e-12), "{name}: {found}");
    }
}

#[test]
fn every_plan_is_right_and_planned_again_the_same() {
    for (name, source) in files("tests/programs/training", ".shard") {
        for strategy in [Strategy::Search, Strategy::Textbook] {
            let options = Options { strategy, ..Options::default() };
            let verdict = verify(&name, &source, &options, Sizes::Scaled, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
            let once = shardwise::plan(&name, &source, &options).unwrap_or_else(|e| panic!("{name}: {e}")).to_string();
            let twice = shardwise::plan(&name, &once, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}\n{once}"));
            assert_eq!(once, twice.to_string(), "{name}");
        }
    }
}

#[test]
fn the_derived_program_is_a_program() {
    for (name, source) in files("tests/programs/training", ".shard") {
        let derived = shardwise::check(&name, &source, &Options::default()).program.unwrap_or_else(|| panic!("{name}"));
        let printed = derived.to_string();
        let again = shardwise::check(&name, &printed, &Options::default());
        let read = again.program.unwrap_or_else(|| panic!("{name}: {}\n{printed}", again.findings));
        assert!(shardwise_ir::print::same(&derived, &read), "{name}: {printed}");
    }
}
