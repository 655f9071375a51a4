//! Reports in Chromium, in light and dark: every panel is drawn, pointing and clicking work,
//! nothing is asked of the network, texts have contrast, a phone needs no horizontal scrolling.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

/// Where `.ci/run` installs what drives the browser.
fn modules() -> PathBuf {
    let folder = root().join("target/browser");
    assert!(
        folder.join("node_modules/playwright-core").is_dir(),
        "playwright-core is not installed; run `npm install --no-package-lock --prefix \
            target/browser playwright-core@1.56.1`"
    );
    folder.join("node_modules")
}

/// Runs the command, which must succeed; what it prints.
fn shardwise(arguments: &[&str]) -> String {
    let output = Command::new(SHARDWISE)
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The faults of reports, a line each.
fn faults(folder: &Path, reports: &[PathBuf]) -> String {
    let output = Command::new("node")
        .arg(root().join("cli/tests/tools/report.cjs"))
        .arg(folder.join("profiles"))
        .args(reports)
        .env("NODE_PATH", modules())
        .output()
        .expect("node starts");
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn reports_work_in_a_browser() {
    require(&["chromium", "node"]);
    let folder = empty_folder("report");
    let programs = [
        "compiler/src/templates/pipeline.shard",
        "compiler/src/templates/transformer-train.shard",
        "tests/programs/models/llama3-405b-train.shard",
    ];
    let reports = programs.map(|program| {
        let name = Path::new(program).file_stem().expect("a file").to_string_lossy();
        let report = folder.join(format!("{name}.html"));
        let path = report.to_string_lossy();
        shardwise(&["plan", program, "--format", "html", "-o", &path]);
        report
    });
    let largest = std::fs::metadata(&reports[2]).expect("it is written").len();
    assert!(largest < 2_000_000, "{largest} bytes");
    assert_eq!(faults(&folder, &reports), "");
}

#[test]
fn faults_are_found() {
    require(&["chromium", "node"]);
    let folder = empty_folder("report-fault");
    let page = shardwise(&["plan", "compiler/src/templates/pipeline.shard", "--format", "html"]);
    let write = |name: &str, changes: &[(&str, &str)]| {
        let mut page = page.clone();
        for (from, to) in changes {
            assert!(page.contains(from), "{from}");
            page = page.replacen(from, to, 1);
        }
        let report = folder.join(format!("{name}.html"));
        std::fs::write(&report, page).expect("it can be written");
        report
    };
    let looks = [
        ("main {", "main { width: 40rem;"),
        ("--muted: #57606a;", "--muted: #a0a8b0;"),
        ("</main>", "</main><img src=\"https://example.org/a.png\">"),
    ];
    let reports = [
        write("looks", &looks),
        write("answers", &[("const data = ", "nothing(); const data = ")]),
    ];
    let found = faults(&folder, &reports);
    for fault in [
        "looks.html, dark: is 640 pixels wide on a phone",
        "looks.html, light: contrast: ",
        "looks.html, light: console: ",
        "answers.html, light: error: nothing is not defined",
        "answers.html, light: pointing at a value shows nothing",
    ] {
        assert!(found.contains(fault), "{fault}: {found}");
    }
}
