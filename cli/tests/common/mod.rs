//! Shared by both suites: runs the command, and the commands of a page.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root, where every command runs.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The binary under test.
pub(crate) const SHARDWISE: &str = env!("CARGO_BIN_EXE_shardwise");

/// Bytes of a stream as text.
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

/// A folder with the programs of the build examples, and the example of a tool.
pub(crate) fn workshop(name: &str, tool: &str) -> PathBuf {
    let folder = empty_folder(name);
    std::fs::create_dir(folder.join("programs")).expect("a folder can be made");
    let examples = root().join("tests/build");
    let copies = [
        ("cargo/programs/mlp.shard", "programs/mlp.shard"),
        ("cargo/programs/serving/decode.shard", "programs/decode.shard"),
        (tool, ""),
    ];
    for (from, to) in copies {
        let to = if to.is_empty() {
            Path::new(from).file_name().expect("a file").to_os_string()
        } else {
            to.into()
        };
        std::fs::copy(examples.join(from), folder.join(to)).expect("the example is there");
    }
    folder
}

/// `PATH` with the binary's folder first, so that scripts find `shardwise`.
pub(crate) fn path_with_binary() -> String {
    let folder = Path::new(SHARDWISE).parent().expect("a binary is in a folder");
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

/// Runs every `sh` block of a page in `folder`, with a POSIX shell; the `text` (or other) block
/// after it must be what it prints on both streams, `diagnostics` last. Returns how many were run.
pub(crate) fn run_page(page: &str, folder: &Path) -> usize {
    let page = std::fs::read_to_string(root().join(page)).expect("the page is there");
    let blocks = blocks(&page);
    let is_script = |block: &(String, String)| block.0 == "sh";
    for (number, (_, script)) in blocks.iter().enumerate().filter(|(_, block)| is_script(block)) {
        // Build tools compare times, which file systems may keep coarsely.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let shown = blocks.get(number + 1).filter(|block| !is_script(block));
        assert_eq!(
            shell(folder, script).trim_end(),
            shown.map_or("", |(_, shown)| shown.trim_end()),
            "{script}"
        );
    }
    blocks.iter().filter(|block| is_script(block)).count()
}

/// What a script prints on both streams; `shardwise` is the binary under test.
pub(crate) fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .env("PATH", path_with_binary())
        .output()
        .expect("a POSIX shell starts");
    text(&output.stdout) + &text(&output.stderr)
}

/// The fenced blocks of a page: language and text.
pub(crate) fn blocks(page: &str) -> Vec<(String, String)> {
    let fences: Vec<&str> = page.split("\n```").collect();
    let inside = fences.iter().skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    inside.map(|(language, text)| (language.to_owned(), text.to_owned())).collect()
}
