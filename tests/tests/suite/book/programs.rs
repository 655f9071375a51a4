//! Every algorithm of the founding texts as a program: the textbook plan is theirs, and never
//! cheaper than the searched one.

use shardwise::{Options, Strategy};
use shardwise_tests::{files, read, statements};

fn textbook() -> Options {
    Options { strategy: Strategy::Textbook, ..Options::default() }
}

#[test]
fn the_textbook_strategy_gives_the_plans_of_the_book() {
    let mut wrong = Vec::new();
    for (name, source) in files("tests/programs/book", ".shard") {
        let expected = read(&format!("tests/programs/book/{name}.plan"));
        let planned = match shardwise::plan(&name, &source, &textbook()) {
            Ok(planned) => planned.to_string(),
            Err(findings) => format!("refused: {findings}"),
        };
        let (mut given, mut wanted) = (statements(&planned), statements(&expected));
        given.sort();
        wanted.sort();
        if given != wanted {
            wrong.push(format!("{name}\n  wanted\n{expected}\n  given\n{planned}"));
        }
    }
    assert!(wrong.is_empty(), "{} plans differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_search_is_never_costlier_and_always_proven() {
    for (name, source) in files("tests/programs/book", ".shard") {
        let found = shardwise::plan(&name, &source, &Options::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            found.report.serial_s <= found.textbook.serial_s * (1.0 + 1e-12),
            "{name}: {found}"
        );
        assert_eq!(found.status_name(), "optimal", "{name}");
    }
}

#[test]
fn the_alternatives_are_valid_and_not_cheaper_than_the_search() {
    for (name, source) in files("tests/programs/book/alternatives", ".shard") {
        let plan = shardwise::plan(&name, &source, &Options::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let base = name.split('.').next().unwrap_or(&name);
        let original = read(&format!("tests/programs/book/{base}.shard"));
        let found = shardwise::plan(base, &original, &Options::default())
            .unwrap_or_else(|e| panic!("{base}: {e}"));
        assert!(
            found.report.serial_s <= plan.report.serial_s * (1.0 + 1e-12),
            "{name} beats the search:\n{plan}\n{found}"
        );
    }
}

#[test]
fn a_plan_planned_again_is_the_same_text() {
    for (name, source) in files("tests/programs/book", ".shard") {
        for options in [textbook(), Options::default()] {
            let once = shardwise::plan(&name, &source, &options)
                .unwrap_or_else(|e| panic!("{name}: {e}"))
                .to_string();
            let twice = shardwise::plan(&name, &once, &Options::default())
                .unwrap_or_else(|e| panic!("{name}: {e}\n{once}"));
            assert_eq!(once, twice.to_string(), "{name}");
        }
    }
}
