//! Every spec's plan and findings, as they were when somebody last looked.

use shardwise_snapshot_example::review;

#[test]
fn specs() {
    insta::glob!("../specs", "*.shard", |path| {
        let source = std::fs::read_to_string(path).expect("a spec can be read");
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        insta::assert_snapshot!(
            review(&name, &source).unwrap_or_else(|findings| findings.to_string())
        );
    });
}
