//! Findings as other tools read them: what is written is valid, equal for equal findings, and
//! points at the right characters.

use shardwise::Options;
use shardwise::lint::formats::{Summary, concise, github, json, junit, sarif};
use shardwise::lint::{Linted, Settings, lint};
use shardwise_tests::snapshot::snapshot;

const PINNED: &str = "# Träge: 4 × 4
hardware tpu-v5p
mesh X=4, Y=4
dim B=8192, D=8192, F=32768
input In[B_X, D]
param Win[D, F_Y], Wout[F_Y, D]
Tmp[B_X, F] = In *D Win
Out = Tmp *F Wout
output Out[B_X, D_Y]
";
const WRONG: &str = "hardware tpu-v5p\nmesh X=4\ndim I=8\ninput A[I_Q]\noutput A[I]\n";
const CLEAN: &str = "hardware tpu-v5p\nmesh X=4\ndim I=8\ninput A[I_X]\noutput A[I_X]\n";

fn linted() -> Vec<Linted> {
    let sources = [
        ("models/pinned layer.shard", PINNED),
        ("models/wrong.shard", WRONG),
        ("clean.shard", CLEAN),
    ];
    sources
        .iter()
        .map(|(name, source)| lint(name, source, &Options::default(), &Settings::default()))
        .collect()
}

#[test]
fn every_format_looks_like_this() {
    let linted = linted();
    snapshot("formats", "concise", &concise(&linted));
    snapshot("formats", "github", &github(&linted));
    snapshot("formats", "junit", &junit(&linted));
    snapshot("formats", "json", &json(&linted));
    snapshot("formats", "sarif", &sarif(&linted));
    assert_eq!(
        Summary::of(&linted).to_string(),
        "3 files checked: 1 error, 1 warning in 2 files; --fix fixes 1"
    );
}

#[test]
fn sarif_points_at_the_fault_in_characters() {
    let log: serde_json::Value = serde_json::from_str(&sarif(&linted())).expect("SARIF is JSON");
    let result = &log["runs"][0]["results"][0];
    assert_eq!(
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
        "models/pinned%20layer.shard"
    );
    let region = &result["locations"][0]["physicalLocation"]["region"];
    assert_eq!(
        (
            region["startLine"].as_u64(),
            region["startColumn"].as_u64(),
            region["endColumn"].as_u64()
        ),
        (Some(7), Some(1), Some(4))
    );
}

#[test]
fn a_fingerprint_outlives_lines_above() {
    let fingerprints = |source: &str| {
        let log: serde_json::Value = serde_json::from_str(&sarif(&[lint(
            "a",
            source,
            &Options::default(),
            &Settings::default(),
        )]))
        .expect("JSON");
        log["runs"][0]["results"][0]["partialFingerprints"].clone()
    };
    assert_eq!(fingerprints(PINNED), fingerprints(&format!("# more\n\n{PINNED}")));
    assert_ne!(fingerprints(PINNED), fingerprints(&PINNED.replace("Tmp", "Hid")));
}

#[test]
fn annotations_escape_what_would_end_them() {
    let linted = lint("a,b:c.shard", WRONG, &Options::default(), &Settings::default());
    let line = github(&[linted]);
    assert!(line.starts_with("::error file=a%2Cb%3Ac.shard,line=4,"), "{line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
}
