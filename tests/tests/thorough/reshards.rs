//! The page about reshards and their lower bounds, from all pairs on all meshes.
//!
//! `INSTA_UPDATE=always` writes it, as it does for snapshots. The suite compares the smallest mesh
//! with the page in every run.

use shardwise_tests::reshards::{Pairs, page};
use shardwise_tests::{read, root};

#[test]
fn the_page_has_the_bytes_of_all_pairs() {
    let found: Vec<_> = Pairs::all().into_iter().map(Pairs::find).collect();
    let (path, text) = ("compiler/docs/reshards.md", page(&found));
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(root().join(path), &text).expect("the file can be written");
    }
    assert!(
        read(path) == text,
        "{path} is out of date; run INSTA_UPDATE=always cargo test --release -p shardwise-tests \
         --test thorough reshards\n{text}"
    );
}
