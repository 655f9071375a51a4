//! The VS Code extension is packaged with the libraries that it needs, and a client made of these
//! libraries understands the server.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

fn run(folder: &Path, command: &str, arguments: &[&str]) -> Output {
    let output = Command::new(command).args(arguments).current_dir(folder).output();
    let output = output.expect("the command starts");
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command} {arguments:?}:\n{printed}");
    output
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a file can be copied");
        }
    }
}

#[test]
fn the_extension_is_packaged_and_its_libraries_understand_the_server() {
    require(&["node"]);
    let folder = empty_folder("vscode");
    copy(&root().join("cli/editors/vscode"), &folder);
    run(&folder, "npm", &["install", "--no-package-lock", "--no-audit", "--no-fund"]);
    run(&folder, "npx", &["vsce", "package", "--out", "shardwise.vsix"]);
    let files = text(&run(&folder, "npx", &["vsce", "ls"]).stdout);
    for needed in ["extension.js", "vscode-languageclient/node.js", "shardwise.tmLanguage.json"] {
        assert!(files.contains(needed), "no {needed} in\n{files}");
    }
    let package = std::fs::metadata(folder.join("shardwise.vsix")).expect("a package");
    assert!(package.len() > 100_000, "{} bytes", package.len());
    let client = root().join("cli/tests/tools/editors/client.cjs");
    let program = root().join("tests/programs/fsdp_tp.shard");
    let [client, program] = [client, program].map(|path| path.to_string_lossy().into_owned());
    run(&folder, "node", &[&client, SHARDWISE, &program]);
}

#[test]
fn the_script_of_the_page_measures_the_server() {
    require(&["node"]);
    let script = root().join("cli/tests/tools/editors/latency.cjs");
    let output = run(&root(), "node", &[&script.to_string_lossy(), SHARDWISE]);
    let printed = text(&output.stdout);
    assert!(printed.contains("1001 lines, an edit to its diagnostics: median "), "{printed}");
}
