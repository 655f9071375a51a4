//! The output after each pass for one program, and the cost of the search's choice when it is
//! planned.

use shardwise::{Options, Pass};
use shardwise_tests::snapshot::snapshot;
use shardwise_tests::{files, read};

fn after(pass: Pass, name: &str, source: &str) -> String {
    shardwise::print_after(name, source, &Options::default(), pass)
        .unwrap_or_else(|findings| panic!("{name} after {}: {findings}", pass.name()))
}

#[test]
fn every_pass_shows_what_it_did() {
    let source = read("tests/programs/passes/classifier.shard");
    let printed = Pass::ALL
        .iter()
        .filter(|&&pass| pass != Pass::Report)
        .map(|&pass| format!("## after {}\n\n{}", pass.name(), after(pass, "classifier", &source)));
    snapshot("passes", "classifier", &printed.collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_last_pass_shows_the_plan() {
    for (name, source) in files("tests/programs/book", ".shard") {
        let planned = shardwise::plan(&name, &source, &Options::default())
            .unwrap_or_else(|findings| panic!("{name}: {findings}"));
        assert_eq!(after(Pass::Report, &name, &source), planned.to_string());
        let statements = planned.plan.to_string();
        assert_eq!(after(Pass::Collectives, &name, &source), statements);
    }
}

#[test]
fn what_the_search_chose_is_a_program_with_the_same_price() {
    for (name, source) in files("tests/programs/book", ".shard") {
        let priced = |source: &str| {
            shardwise::plan(&name, source, &Options::default())
                .unwrap_or_else(|findings| panic!("{name}: {findings}\n{source}"))
                .report
                .serial_s
        };
        let chosen = after(Pass::Search, &name, &source);
        if chosen.contains("softmax_") || chosen.contains("logsumexp_") {
            // Authors may not write one that is split, and these may be.
            continue;
        }
        let (free_s, chosen_s) = (priced(&source), priced(&chosen));
        assert!((free_s - chosen_s).abs() <= 1e-9 * free_s, "{name}: {free_s} and {chosen_s}");
    }
}
