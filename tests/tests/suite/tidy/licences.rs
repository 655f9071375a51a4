//! The licences of all dependencies are among those that the project accepts.
//!
//! `cargo deny` checks the same, and takes minutes to install; advisories need data that only a
//! network has (`compiler/docs/reliability.md`). What cargo says of dependencies also tells whether
//! the lock files outside the workspace are those that `--locked` accepts.

use std::process::Command;

use shardwise_tests::{read, root};

/// Lock files of packages that share crates with the workspace without being in it.
const OTHER_LOCKS: [&str; 2] = ["fuzz/Cargo.lock", "tests/speed/Cargo.lock"];

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

/// What `cargo metadata` says of the workspace's packages and everything they depend on.
fn packages() -> Vec<serde_json::Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    let output = cargo.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    metadata["packages"].as_array().expect("there are packages").clone()
}

#[test]
fn every_dependency_has_an_accepted_licence_and_comes_from_the_registry() {
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    for package in packages {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or_default());
        assert!(is_accepted(licence), "{name} has the licence {licence:?}");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|from| from.starts_with("registry+")), "{name} is {source:?}");
    }
}

#[test]
fn lock_files_outside_the_workspace_know_every_dependency_of_its_crates() {
    let ours: Vec<_> =
        packages().into_iter().filter(|package| package["source"].is_null()).collect();
    for path in OTHER_LOCKS {
        let lock = read(path);
        let locked = |name: &str| {
            lock.split("\n\n").find(|block| block.contains(&format!("name = {name}\n")))
        };
        let mut compared = 0;
        for package in &ours {
            let Some(block) = locked(&package["name"].to_string()) else { continue };
            let dependencies = package["dependencies"].as_array().expect("they are listed");
            for dependency in dependencies.iter().filter(|of| of["kind"].is_null()) {
                let (name, of) = (dependency["name"].as_str(), &package["name"]);
                let name = name.expect("it has a name");
                // `"name"`, or `"name version"` where the lock file has several versions.
                let knows = block
                    .lines()
                    .any(|line| line.trim_matches([' ', ',', '"']).split(' ').next() == Some(name));
                assert!(knows, "{path} lacks {name} of {of}: cargo update --workspace there");
                compared += 1;
            }
        }
        assert!(compared > 20, "{path}: {compared} dependencies");
    }
}
