//! Tests that need tools besides Rust: plans as targets of make and ninja, the pre-commit hooks,
//! the scripts of the GitHub Action, the pages that show them, SARIF validated against its schema,
//! the site of the book, reports in a browser, the extension for VS Code and other editors, the
//! Python package, and every other package that installs the command.
//!
//! `cargo test` leaves this suite out, so that it passes on a machine that has only Rust. `.ci/run`
//! installs the tools and runs it: `cargo test -p shardwise-cli --test tools`. Where a tool is
//! missing, tests fail and print how to install it; none is skipped.

#[path = "../common/mod.rs"]
mod common;

mod book;
mod build_tools;
mod calibrate;
mod cases;
mod chakra;
mod ci;
mod editors;
mod imported;
mod importing;
mod install;
mod interpreter;
mod jax;
mod measuring;
mod report;
mod run_sdy;
mod sarif;
mod sdy;
mod torch;
mod virtual_devices;
mod wheel;

/// The tools, and how each is installed.
const TOOLS: [(&str, &str); 16] = [
    ("bash", "apt-get install bash"),
    ("cargo-deb", "cargo install cargo-deb --locked --debug --version 3.8.0"),
    ("chromium", "apt-get install chromium"),
    ("curl", "apt-get install curl"),
    ("dpkg-deb", "apt-get install dpkg-dev"),
    ("git", "apt-get install git"),
    ("make", "apt-get install make"),
    ("maturin", "pip install maturin"),
    ("mdbook", "cargo install mdbook --locked --version 0.5.4"),
    ("mypy", "pip install mypy"),
    ("node", "apt-get install nodejs npm"),
    ("ninja", "pip install ninja"),
    ("nvim", "apt-get install neovim"),
    ("pre-commit", "pip install pre-commit"),
    ("python3", "apt-get install python3"),
    ("check-jsonschema", "pip install check-jsonschema"),
];

/// Fails unless the tools are installed.
fn require(tools: &[&str]) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |tool: &str| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    let missing: Vec<String> = TOOLS
        .iter()
        .filter(|(tool, _)| tools.contains(tool) && !is_installed(tool))
        .map(|(tool, install)| format!("`{tool}` is not installed; run `{install}`"))
        .collect();
    assert!(
        missing.is_empty(),
        "this test runs {}:\n{}\n(`.ci/run` installs all tools of this suite)",
        tools.join(" and "),
        missing.join("\n")
    );
}
