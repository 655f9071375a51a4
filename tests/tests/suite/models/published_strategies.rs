//! The page of published configurations beside what `tune` finds, in the cases that are quickly
//! tuned; the target `published` has all of them.

use shardwise_tests::measured::time_cases;
use shardwise_tests::published::{found, row};
use shardwise_tests::read;

const QUICK: [&str; 2] = ["pope-62b-prefill-1", "pope-62b-decode-32"];

#[test]
fn what_is_found_beside_published_configurations_is_what_the_page_says() {
    let page = read("compiler/docs/tune-published.md");
    for case in time_cases().iter().filter(|case| QUICK.contains(&case.id.as_str())) {
        let row = row(&found(case));
        assert!(page.contains(&row), "compiler/docs/tune-published.md should say\n{row}");
    }
}
