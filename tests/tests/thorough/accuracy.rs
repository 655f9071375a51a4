//! The page about accuracy and the table of error bars, held against predictions of every case.
//!
//! `INSTA_UPDATE=always` writes both files, as it does for snapshots. The suite holds quick cases
//! against the page in every run.

use rayon::prelude::*;
use shardwise::accuracy::Group;
use shardwise_tests::measured::{
    Case, lines, memory_cases, page, peak_bytes, predict, table, time_cases,
};
use shardwise_tests::{read, root};

/// Whether a file has its text; it is written if snapshots are to be.
fn is_current(path: &str, text: &str) -> bool {
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(root().join(path), text).expect("the file can be written");
    }
    read(path) == text
}

#[test]
fn the_page_and_the_table_are_those_of_the_predictions() {
    let times: Vec<_> = time_cases().par_iter().map(predict).collect();
    let memory = memory_cases().into_par_iter().map(|case| {
        let peak = peak_bytes(&case);
        (case, peak)
    });
    let lines = lines(&times, memory.collect());
    let written = [
        ("compiler/docs/accuracy.md", page(&lines, &times)),
        ("compiler/src/accuracy.csv", table(&lines)),
    ];
    for (path, text) in written {
        assert!(
            is_current(path, &text),
            "{path} is out of date; run INSTA_UPDATE=always cargo test --release -p \
             shardwise-tests --test thorough accuracy\n{text}"
        );
    }
}

/// Steps of training that have no plan within the memory of their devices, though they ran: they
/// sent values to the host or kept fewer, as their notes say, and their programs do not.
const REFUSED: [&str; 3] = ["mx-70b-32", "mx-70b-128", "mx-405b-ironwood-256"];

#[test]
fn other_steps_of_training_fit_into_memory() {
    let cases: Vec<Case> =
        time_cases().into_iter().filter(|case| case.group == Group::Training).collect();
    assert!(cases.len() > 30, "{}", cases.len());
    let refused = cases.par_iter().filter(|case| peak_bytes(case).is_err());
    let refused: Vec<&str> = refused.map(|case| case.id.as_str()).collect();
    assert_eq!(refused, REFUSED);
}
