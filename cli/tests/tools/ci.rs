//! The pre-commit hooks, run by pre-commit, and the scripts of the GitHub Action, run as GitHub
//! runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{SHARDWISE, empty_folder, path_with_binary, root, run_page, text};
use crate::require;

const MLP: &str = "hardware tpu-v5p\nmesh X=4\ndim B=1024, D=4096, F=16384\n\ninput In[B, D_X]\n\
    param W[D_X, F]\n\nOut = In *D W\n\noutput Out[B, F]\n";

/// Runs a script in a repository as a user's shell would, without the user's own configuration.
fn shell(folder: &Path, script: &str, variables: &[(&str, &str)]) -> (String, bool) {
    require(&["bash", "git"]);
    let mut command = Command::new("bash");
    command
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
        .current_dir(folder)
        .env("PATH", path_with_binary());
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("PRE_COMMIT_HOME", folder.join(".git/pre-commit-home"));
    for (role, name) in [("AUTHOR", "Ada"), ("COMMITTER", "Ada")] {
        command
            .env(format!("GIT_{role}_NAME"), name)
            .env(format!("GIT_{role}_EMAIL"), "ada@example.org");
    }
    let output = command.envs(variables.iter().copied()).output().expect("bash starts");
    (text(&output.stdout) + &text(&output.stderr), output.status.success())
}

fn done(folder: &Path, script: &str) -> String {
    let (printed, ok) = shell(folder, script, &[]);
    assert!(ok, "{script}: {printed}");
    printed
}

/// A repository with a program in its only commit.
fn repository(name: &str) -> PathBuf {
    let folder = empty_folder(name);
    std::fs::write(folder.join("mlp.shard"), MLP).expect("a file can be written");
    done(&folder, "git init -q -b main && git add -A && git commit -q -m start");
    folder
}

/// Copies what pre-commit reads and runs.
fn copy_hooks(folder: &Path) {
    std::fs::create_dir_all(folder.join("cli/release")).expect("a folder can be made");
    for file in [".pre-commit-hooks.yaml", "cli/release/run.sh", "cli/release/install.sh"] {
        std::fs::copy(root().join(file), folder.join(file)).expect(file);
    }
}

#[test]
fn the_hooks_stop_a_commit_of_a_wrong_program_and_format_programs() {
    require(&["pre-commit"]);
    let hooks = empty_folder("hooks");
    copy_hooks(&hooks);
    done(
        &hooks,
        "pre-commit validate-manifest .pre-commit-hooks.yaml && git init -q -b main && git add -A \
            && git commit -q -m hooks",
    );
    let revision = done(&hooks, "git rev-parse HEAD");
    let folder = repository("hooked");
    let configuration = format!(
        "repos:\n- repo: {}\n  rev: {}\n  hooks:\n  - id: shardwise-fmt\n  - id: shardwise-check\n",
        hooks.display(),
        revision.trim()
    );
    std::fs::write(folder.join(".pre-commit-config.yaml"), configuration)
        .expect("a file can be written");
    done(&folder, "git add -A && pre-commit install && git commit -q -m hooks");

    std::fs::write(folder.join("mlp.shard"), MLP.replace("*D W", "*F W"))
        .expect("a file can be written");
    let (wrong, ok) = shell(&folder, "git commit -aqm wrong", &[]);
    assert!(!ok && wrong.contains("shardwise check") && wrong.contains("SW105"), "{wrong}");

    std::fs::write(folder.join("mlp.shard"), MLP.replace("B=1024", "B =  2048"))
        .expect("a file can be written");
    let (layout, ok) = shell(&folder, "git commit -aqm layout", &[]);
    assert!(!ok && layout.contains("files were modified by this hook"), "{layout}");
    assert_eq!(
        std::fs::read_to_string(folder.join("mlp.shard")).expect("it is there"),
        MLP.replace("B=1024", "B=2048")
    );
    done(&folder, "git commit -aqm 'as the hook left it'");
}

/// The `run` script of a step of the action.
pub(crate) fn step(name: &str) -> String {
    let action = std::fs::read_to_string(root().join("action.yml")).expect("the action is there");
    let (_, after) = action
        .split_once(&format!("- name: {name}\n"))
        .unwrap_or_else(|| panic!("no step `{name}`"));
    let (_, script) = after.split_once("run: |\n").expect("a step has a script");
    let lines = script.lines().take_while(|line| line.is_empty() || line.starts_with("        "));
    lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_action_checks_programs() {
    let folder = repository("checked");
    let (installed, ok) = shell(&folder, &step("Install shardwise"), &[]);
    assert!(ok && installed.trim() == SHARDWISE, "what is there is not built again: {installed}");
    let variables = [("FILES", "*.shard"), ("CHECK_OPTIONS", "--color never")];
    assert_eq!(shell(&folder, &step("Check programs"), &variables), (String::new(), true));
    std::fs::write(folder.join("a name.shard"), MLP.replace("*D W", "*F W"))
        .expect("a file can be written");
    assert!(
        shell(&folder, &step("Check programs"), &variables).1,
        "what is not tracked is not checked"
    );
    done(&folder, "git add -A");
    let (wrong, ok) = shell(&folder, &step("Check programs"), &variables);
    assert!(!ok && wrong.contains("SW105") && wrong.contains("a name.shard"), "{wrong}");
    assert!(
        shell(&folder, &step("Check programs"), &[("FILES", "mlp.shard"), ("CHECK_OPTIONS", "")]).1
    );
}

#[test]
fn the_action_says_what_a_pull_request_does_to_plans() {
    let folder = repository("compared");
    let base = done(&folder, "git rev-parse HEAD");
    std::fs::write(folder.join("mlp.shard"), MLP.replace("In[B, D_X]", "In[B_X, D]"))
        .expect("a file can be written");
    done(&folder, "git commit -aqm change");
    let summary = folder.join(".git/summary.md");
    let summary_path = summary.to_string_lossy().into_owned();
    let compare = |limit: &str| {
        // The summary of a step is empty when it starts.
        let _ = std::fs::remove_file(&summary);
        let variables = [
            ("FILES", "*.shard"),
            ("MAX_REGRESSION", limit),
            ("BASE", base.trim()),
            ("GITHUB_STEP_SUMMARY", &summary_path),
        ];
        let (printed, ok) = shell(&folder, &step("Compare plans"), &variables);
        (printed, ok, std::fs::read_to_string(&summary).expect("a summary was written"))
    };
    let (printed, ok, comment) = compare("");
    assert!(
        ok && comment.starts_with("### `mlp.shard`: serial ") && comment.contains("| added"),
        "{printed}{comment}"
    );
    let (printed, ok, limited) = compare("2%");
    assert!(!ok && printed.contains("more than 2%"), "{printed}");
    assert_eq!(limited, comment);
    assert!(compare("1000000%").1);

    // Hardware that a program names: the base has its own, and a change of it alone is a change of
    // the plan.
    std::fs::write(
        folder.join("mlp.shard"),
        MLP.replace("hardware tpu-v5p", "hardware \"hw.toml\""),
    )
    .expect("a file can be written");
    std::fs::write(folder.join("hw.toml"), "[chip]\nbase = \"tpu-v5p\"\n")
        .expect("a file can be written");
    std::fs::write(folder.join("other.shard"), MLP).expect("a file can be written");
    let base = done(&folder, "git add -A && git commit -qm hardware && git rev-parse HEAD");
    std::fs::write(folder.join("hw.toml"), "[chip]\nbase = \"tpu-v5p\"\nlink_bandwidth = 45e9\n")
        .expect("a file can be written");
    done(&folder, "git commit -qam slower");
    let variables = [
        ("FILES", "*.shard"),
        ("MAX_REGRESSION", ""),
        ("BASE", base.trim()),
        ("GITHUB_STEP_SUMMARY", &summary_path),
    ];
    std::fs::remove_file(&summary).expect("it is there");
    let (printed, ok) = shell(&folder, &step("Compare plans"), &variables);
    let comment = std::fs::read_to_string(&summary).expect("a summary was written");
    assert!(
        ok && comment.contains("link_bandwidth = 9e10 -> link_bandwidth = 4.5e10")
            && !comment.contains("other"),
        "{printed}{comment}"
    );
}

#[test]
fn the_page_shows_what_the_commands_write() {
    let folder = repository("ci-page");
    copy_hooks(&folder);
    assert_eq!(run_page("compiler/docs/ci.md", &folder), 2);
}
