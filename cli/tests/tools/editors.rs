//! The VS Code extension is packaged with the libraries that it needs, and its preview shows the
//! report. Clients understand the server: one made of VS Code's libraries, pytest-lsp, and Neovim.

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
    for needed in
        ["extension.js", "preview.js", "vscode-languageclient/node.js", "shardwise.tmLanguage.json"]
    {
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
fn the_preview_of_the_extension_shows_the_report() {
    require(&["node"]);
    let folder = empty_folder("preview");
    let program = folder.join("model.shard");
    std::fs::copy(root().join("tests/programs/fsdp_tp.shard"), &program).expect("it can be copied");
    let script = root().join("cli/tests/tools/editors/preview.cjs");
    let preview = root().join("cli/editors/vscode/preview.js");
    let [script, preview, program] =
        [script, preview, program].map(|path| path.to_string_lossy().into_owned());
    run(&folder, "node", &[&script, &preview, SHARDWISE, &program]);
}

/// Each answer that the page lists, asked for by pytest-lsp.
#[test]
fn pytest_lsp_understands_every_answer() {
    let python = root().join("target/pytest-lsp/bin/python");
    assert!(
        python.is_file(),
        "pytest-lsp is not installed; run `python3 -m venv target/pytest-lsp && \
            target/pytest-lsp/bin/pip install pytest-lsp==1.0.1`"
    );
    let test = root().join("cli/tests/tools/editors/test_server.py");
    let output = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"])
        .arg(test)
        .env("SHARDWISE", SHARDWISE)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(empty_folder("pytest-lsp"))
        .output()
        .expect("python starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// The setup of the page for Neovim before 0.11, which Debian has.
#[test]
fn neovim_understands_the_server() {
    require(&["nvim"]);
    let folder = empty_folder("neovim");
    let page = std::fs::read_to_string(root().join("compiler/docs/editors.md")).expect("the page");
    let mut setups = page.split("```lua\n").skip(1).filter_map(|rest| rest.split("```").next());
    let setup = setups.find(|setup| setup.contains("start_client")).expect("a setup");
    std::fs::write(folder.join("init.lua"), setup).expect("it can be written");
    let program = "hardware tpu-v5p\nmesh X=4\ndim B=65536, D=4096, F=4*D\ninput In[B_X, D]\n\
        param Win[D_X, F]\nH = gelu(In *D Win)\noutput H[B_X, F]\n";
    std::fs::write(folder.join("model.shard"), program).expect("it can be written");
    let command = Path::new(SHARDWISE).parent().expect("a folder").to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(command).chain(std::env::split_paths(&path));
    let output = Command::new("nvim")
        .args(["--headless", "--clean", "-n", "-u", "init.lua", "model.shard", "-S"])
        .arg(root().join("cli/tests/tools/editors/neovim.lua"))
        .env("PATH", std::env::join_paths(folders).expect("they were joined before"))
        .current_dir(&folder)
        .output()
        .expect("Neovim starts");
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(printed.lines().any(|line| line == "ended well"), "{printed}");
}

#[test]
fn the_script_of_the_page_measures_the_server() {
    require(&["node"]);
    let script = root().join("cli/tests/tools/editors/latency.cjs");
    let output = run(&root(), "node", &[&script.to_string_lossy(), SHARDWISE]);
    let printed = text(&output.stdout);
    assert!(printed.contains("1001 lines, an edit to its diagnostics: median "), "{printed}");
}
