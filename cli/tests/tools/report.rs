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
fn faults(reports: &[PathBuf]) -> String {
    let output = Command::new("node")
        .arg(root().join("cli/tests/tools/report.cjs"))
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
        let report = folder.join(format!("plan-{name}.html"));
        let path = report.to_string_lossy();
        shardwise(&["plan", program, "--format", "html", "-o", &path]);
        report
    });
    let largest = std::fs::metadata(&reports[2]).expect("it is written").len();
    assert!(largest < 2_000_000, "{largest} bytes");
    assert_eq!(faults(&reports), "");
}

/// The width and height that the head of a PNG says.
fn size(picture: &Path) -> Vec<u8> {
    let bytes = std::fs::read(picture).expect("a picture");
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{}", picture.display());
    bytes[16..24].to_vec()
}

/// The script that took the pictures of the page takes them of today's report, too; their pixels
/// depend on the fonts of the machine.
#[test]
fn the_pictures_of_the_page_can_be_taken_again() {
    require(&["chromium", "node"]);
    let folder = empty_folder("pictures");
    let report = folder.join("report.html");
    let path = report.to_string_lossy();
    let program = "compiler/src/templates/transformer-train.shard";
    shardwise(&["plan", program, "--format", "html", "-o", &path]);
    let taken = Command::new("node")
        .arg(root().join("cli/tests/tools/pictures.cjs"))
        .args([&report, &folder])
        .env("NODE_PATH", modules())
        .output()
        .expect("node starts");
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    for name in ["report-plan.png", "report-timeline.png"] {
        assert_eq!(size(&folder.join(name)), size(&root().join("compiler/docs").join(name)));
    }
}

#[test]
fn pages_of_other_commands_work_in_a_browser() {
    require(&["chromium", "node"]);
    let folder = empty_folder("pages");
    let train = "compiler/src/templates/transformer-train.shard";
    let text = std::fs::read_to_string(root().join(train)).expect("a template");
    let smaller = folder.join("smaller.shard");
    std::fs::write(&smaller, text.replace("X=16", "X=8")).expect("it can be written");
    let layer = "tests/programs/fsdp_tp.shard";
    let commands = [
        ("cost", vec![train]),
        ("diff", vec![train, smaller.to_str().expect("a path")]),
        ("sweep", vec![layer, "--mesh", "X*Y=16"]),
        ("tune", vec![layer, "--chips", "16", "--best", "5"]),
    ];
    let pages = commands.map(|(name, arguments)| {
        let page = folder.join(format!("{name}.html"));
        let html = shardwise(&[&[name][..], &arguments[..], &["--format", "html"]].concat());
        std::fs::write(&page, html).expect("it can be written");
        page
    });
    assert_eq!(faults(&pages), "");
}

#[test]
fn of_a_graph_that_is_too_large_the_beginning_is_drawn() {
    let mut text = "hardware tpu-v5p\nmesh X=4\ndim B=64, D=64\ninput x0[B_X, D]\n".to_owned();
    for layer in 0..1600 {
        text += &format!("x{}[B_X, D] = gelu(x{layer})\n", layer + 1);
    }
    text += "output x1600[B_X, D]\n";
    let program = empty_folder("report-large").join("large.shard");
    std::fs::write(&program, text).expect("it can be written");
    let path = program.to_string_lossy();
    let page = shardwise(&["plan", &path, "--strategy", "textbook", "--format", "html"]);
    let graph = page.split("<section id=\"graph\"").nth(1).expect("a graph");
    let graph = graph.split("</section>").next().expect("its end");
    assert!(graph.contains("1300 more statements are not drawn"), "{}", &graph[..400]);
    assert_eq!(graph.matches("<g class=").count(), 301, "statements, and what the first reads");
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
        let report = folder.join(format!("plan-{name}.html"));
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
    let found = faults(&reports);
    for fault in [
        "plan-looks.html, dark: is 640 pixels wide on a phone",
        "plan-looks.html, light: contrast: ",
        "plan-looks.html, light: console: ",
        "plan-answers.html, light: error: nothing is not defined",
        "plan-answers.html, light: pointing at a value shows nothing",
    ] {
        assert!(found.contains(fault), "{fault}: {found}");
    }
}
