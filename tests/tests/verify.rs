//! Every plan computes what the unsharded program computes.

use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::{files, read};

fn is_right(name: &str, source: &str) {
    for strategy in [Strategy::Search, Strategy::Textbook] {
        let options = Options { strategy, ..Options::default() };
        let verdict = verify(name, source, &options, &Setup::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
    }
}

#[test]
fn the_plans_of_the_book_are_right() {
    for folder in ["tests/programs/book", "tests/programs/book/alternatives"] {
        for (name, source) in files(folder, ".shard") {
            is_right(&name, &source);
        }
    }
}

#[test]
fn the_larger_plans_are_right() {
    for path in ["tests/programs/fsdp_tp.shard", "tests/programs/mlp-2d.shard", "tests/programs/mlp-3d.shard"] {
        is_right(path, &read(path));
    }
}
