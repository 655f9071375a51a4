//! What the tests of the command share: how it is run, and how the commands of a page are.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The workspace's root, where every command runs.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The binary under test.
pub(crate) const SHARDWISE: &str = env!("CARGO_BIN_EXE_shardwise");

/// Runs the command on `input`.
pub(crate) fn run(arguments: &[&str], input: &str) -> Output {
    run_in(&root(), arguments, input)
}

/// Runs the command in a folder.
pub(crate) fn run_in(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(SHARDWISE)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // A command that does not read its input closes it early; that is its right.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait_with_output().expect("the command ends")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An empty folder for one test.
pub(crate) fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // It may not be there yet.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// `PATH` with the binary's folder first, so that scripts find `shardwise`.
pub(crate) fn path_with_binary() -> String {
    let folder = Path::new(SHARDWISE).parent().expect("a binary is in a folder");
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

/// Runs every `sh` block of a page in `folder`; the `text` (or other) block behind it must be what
/// it prints on both streams, `diagnostics` last. Returns how many were run.
pub(crate) fn run_page(page: &str, folder: &Path) -> usize {
    let page = std::fs::read_to_string(root().join(page)).expect("the page is there");
    let blocks = blocks(&page);
    let mut commands = 0;
    for (number, (_, script)) in
        blocks.iter().enumerate().filter(|(_, (language, _))| language == "sh")
    {
        // Build tools compare times, which file systems may keep coarsely.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let output = Command::new("bash")
            .args(["-c", script])
            .current_dir(folder)
            .env("PATH", path_with_binary())
            .output();
        let output = output.expect("bash starts");
        let printed = text(&output.stdout) + &text(&output.stderr);
        let shown = blocks
            .get(number + 1)
            .filter(|(language, _)| language != "sh")
            .map_or("", |(_, shown)| shown);
        assert_eq!(printed.trim_end(), shown.trim_end(), "{script}");
        commands += 1;
    }
    commands
}

/// The fenced blocks of a page: language and text.
pub(crate) fn blocks(page: &str) -> Vec<(String, String)> {
    let fences: Vec<&str> = page.split("\n```").collect();
    let inside = fences.iter().skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    inside.map(|(language, text)| (language.to_owned(), text.to_owned())).collect()
}
