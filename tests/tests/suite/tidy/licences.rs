//! The licences of all dependencies are among those that the project accepts.
//!
//! `cargo deny` checks the same, and takes minutes to install; advisories need data that only a
//! network has (`compiler/docs/reliability.md`).

use std::process::Command;

use shardwise_tests::root;

/// Licences that ask for no more than their text and the names of authors.
const ACCEPTED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an expression like `(MIT OR Apache-2.0) AND Unicode-3.0` can be fulfilled.
fn is_accepted(expression: &str) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    any(&mut &words[..])
}

fn any(words: &mut &[&str]) -> bool {
    let mut holds = all(words);
    while let Some(rest) = words.strip_prefix(&["OR"]) {
        *words = rest;
        holds |= all(words);
    }
    holds
}

fn all(words: &mut &[&str]) -> bool {
    let mut holds = one(words);
    while let Some(rest) = words.strip_prefix(&["AND"]) {
        *words = rest;
        holds &= one(words);
    }
    holds
}

fn one(words: &mut &[&str]) -> bool {
    if let Some(rest) = words.strip_prefix(&["("]) {
        *words = rest;
        let holds = any(words);
        *words = words.strip_prefix(&[")"]).unwrap_or(words);
        return holds;
    }
    let Some((&name, rest)) = words.split_first() else { return false };
    *words = rest;
    if let [with @ "WITH", exception, rest @ ..] = *words {
        *words = rest;
        return ACCEPTED.contains(&format!("{name} {with} {exception}").as_str());
    }
    ACCEPTED.contains(&name)
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    for accepted in ["MIT", "MIT/GPL-3.0", "(GPL-3.0 OR MIT) AND Unicode-3.0"] {
        assert!(is_accepted(accepted), "{accepted}");
    }
    for refused in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT) AND (GPL-3.0 OR AGPL-3.0)", ""] {
        assert!(!is_accepted(refused), "{refused}");
    }
}

#[test]
fn every_dependency_has_an_accepted_licence_and_comes_from_the_registry() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    let output = cargo.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    assert!(packages.len() > 100, "{} packages", packages.len());
    for package in packages {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or_default());
        assert!(is_accepted(licence), "{name} has the licence {licence:?}");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|from| from.starts_with("registry+")), "{name} is {source:?}");
    }
}
