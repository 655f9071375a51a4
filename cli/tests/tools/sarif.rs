//! Validates the output of `check --format sarif` against the published schema.

use std::path::Path;
use std::process::Command;

use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

/// Two of the three have findings: a lint and an error.
const PROGRAMS: [(&str, &str); 3] = [
    (
        "pinned layer.shard",
        "hardware tpu-v5p\nmesh X=4, Y=4\ndim B=8192, D=8192, F=32768\n\
         input In[B_X, D]\nparam Win[D, F_Y], Wout[F_Y, D]\n\
         Tmp[B_X, F] = In *D Win\nOut = Tmp *F Wout\noutput Out[B_X, D_Y]\n",
    ),
    ("wrong.shard", "hardware tpu-v5p\nmesh X=4\ndim I=8\ninput A[I_Q]\noutput A[I]\n"),
    ("clean.shard", "hardware tpu-v5p\nmesh X=4\ndim I=8\ninput A[I_X]\noutput A[I_X]\n"),
];

/// What the validator prints, and whether the log is valid. The published schema has one pattern
/// that only a lenient engine of regular expressions reads.
fn validate(log: &Path) -> (String, bool) {
    let output = Command::new("check-jsonschema")
        .args(["--regex-variant", "nonunicode", "--schemafile"])
        .arg(root().join("tests/schemas/sarif-2.1.0.json"))
        .arg(log)
        .output()
        .expect("the validator starts");
    (text(&output.stdout) + &text(&output.stderr), output.status.success())
}

#[test]
fn sarif_is_valid_by_the_standards_schema() {
    require(&["check-jsonschema"]);
    let folder = empty_folder("sarif");
    for (name, program) in PROGRAMS {
        std::fs::write(folder.join(name), program).expect("a file can be written");
    }
    let output = Command::new(SHARDWISE)
        .args(["check", "--format", "sarif"])
        .args(PROGRAMS.map(|(name, _)| name))
        .current_dir(&folder)
        .output()
        .expect("shardwise starts");
    let written = text(&output.stdout);
    let log = folder.join("log.sarif");
    std::fs::write(&log, &written).expect("a file can be written");
    let (printed, is_valid) = validate(&log);
    assert!(is_valid, "{printed}");

    let broken = written.replacen("\"level\": \"error\"", "\"level\": \"fatal\"", 1);
    assert_ne!(broken, written, "an error is among the findings");
    std::fs::write(&log, broken).expect("a file can be written");
    let (printed, is_valid) = validate(&log);
    assert!(!is_valid, "the schema tells right from wrong: {printed}");
}
