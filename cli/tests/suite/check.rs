//! `check` as its users meet it: folders, configurations, formats, fixes, exit statuses.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{SHARDWISE, text};

/// A folder of its own for a test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("shardwise-check-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))
            .expect("a folder can be made");
        std::fs::write(path, text).expect("a file can be written");
        self
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).expect("the file is there")
    }

    fn check(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        ended(
            Command::new(SHARDWISE)
                .arg("check")
                .args(arguments)
                .current_dir(&self.0)
                .output()
                .expect("it starts"),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ended(output: Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const CLEAN: &str = "hardware tpu-v5p\nmesh X=4\ndim I=8\ninput A[I_X]\noutput A[I_X]\n";
/// A dimension that nothing has.
const UNUSED: &str = "hardware tpu-v5p\nmesh X=4\ndim I=8, J=8\ninput A[I_X]\noutput A[I_X]\n";

#[test]
fn a_folder_is_its_programs_in_order_less_what_git_ignores() {
    let folder = Folder::new("walk");
    folder
        .write("b.shard", UNUSED)
        .write("a/z.shard", UNUSED)
        .write("c.txt", "no program")
        .write("out/d.shard", UNUSED);
    folder.write(".gitignore", "out/\n");
    let (code, stdout, stderr) = folder.check(&["--format", "concise"]);
    let lines: Vec<&str> =
        stdout.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    assert_eq!((code, lines), (Some(1), vec!["a/z.shard", "b.shard"]));
    assert_eq!(stderr, "2 files checked: 2 warnings in 2 files; --fix fixes 2\n");
}

#[test]
fn the_output_is_the_same_on_one_core_and_on_many() {
    let folder = Folder::new("cores");
    for number in 0..64 {
        folder.write(&format!("{number:02}.shard"), if number % 3 == 0 { UNUSED } else { CLEAN });
    }
    let run = |threads: &str| {
        let mut command = Command::new(SHARDWISE);
        ended(
            command
                .args(["check", ".", "--format", "json"])
                .env("RAYON_NUM_THREADS", threads)
                .current_dir(&folder.0)
                .output()
                .expect("it starts"),
        )
    };
    assert_eq!(run("1"), run("7"));
}

#[test]
fn the_nearest_configuration_upwards_sets_levels_and_paths() {
    let folder = Folder::new("config");
    folder.write(
        "shardwise.toml",
        "deny = [\"SW352\"]\nexclude = [\"vendor\"]\n[[overrides]]\npaths = [\"old/**\"]\nignore = \
            [\"tidiness\"]\n",
    );
    folder.write("a.shard", UNUSED).write("old/b.shard", UNUSED).write("vendor/c.shard", UNUSED);
    folder.write("other/shardwise.toml", "ignore = [\"SW352\"]\n").write("other/d.shard", UNUSED);
    let (code, stdout, _) = folder.check(&["--format", "concise"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(1), "a.shard:3:10: error[SW352]: dimension `J` is not used\n")
    );
    assert_eq!(folder.check(&["--isolated", "other"]).0, Some(1));
    assert_eq!(folder.check(&["--ignore", "SW352"]).0, Some(0));
    assert_eq!(folder.check(&["--config", "other/shardwise.toml"]).0, Some(0));
    assert_eq!(folder.check(&["vendor/c.shard"]).0, Some(1), "what is named is checked");
}

#[test]
fn paths_of_a_configuration_may_be_written_as_folders_from_here() {
    for path in ["old", "./old", "old/", "./old/", "./old/b.shard"] {
        let folder = Folder::new("config-paths");
        folder.write("a.shard", CLEAN).write("old/b.shard", UNUSED);
        folder.write("shardwise.toml", &format!("exclude = [\"{path}\"]\n"));
        assert_eq!(folder.check(&[]).0, Some(0), "{path}");
    }
    let folder = Folder::new("override-paths");
    folder
        .write("old/b.shard", UNUSED)
        .write("shardwise.toml", "[[overrides]]\npaths = [\"./old/*\"]\nignore = [\"all\"]\n");
    assert_eq!(folder.check(&[]).0, Some(0));
}

#[test]
fn findings_count_where_their_reader_closes_the_pipe() {
    for arguments in [&["--format", "concise"][..], &["--diff"], &["--format", "graphical"]] {
        let mut child = Command::new(SHARDWISE)
            .args(["check", "-"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop((child.stdout.take(), child.stderr.take()));
        child.stdin.take().expect("piped").write_all(UNUSED.as_bytes()).expect("it reads");
        assert_eq!(child.wait().expect("it ends").code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn a_wrong_configuration_is_shown_at_its_place_and_ends_with_2() {
    let wrong = [
        ("ignored = [\"SW301\"]\n", "unknown field `ignored`"),
        ("ignore = [\"SW3011\"]\n", "did you mean `SW301`?"),
        ("[options.SW321]\nshares = 1\n", "SW321 has no `shares`; it has share"),
        ("ignore = \n", "SW902"),
        ("exclude = [\"a{\"]\n", "is no pattern for paths"),
        ("ignore = \"SW301\"\n", "this is not a list"),
        ("exclude = \"old.shard\"\n", "write a list: `[\"old.shard\"]`"),
        ("options = 1\n", "this is not a table"),
        ("[options.SW321]\nshare = \"1%\"\n", "this is not a number"),
        ("[options.SW331]\nshare = nan\n", "NaN is not a number from 0 on"),
        ("[options.SW331]\nshare = -1\n", "-1 is not a number from 0 on"),
    ];
    for (text, sentence) in wrong {
        let folder = Folder::new("wrong-config");
        let (code, _, stderr) =
            folder.write("shardwise.toml", text).write("a.shard", CLEAN).check(&["a.shard"]);
        assert_eq!(code, Some(2), "{text}");
        assert!(stderr.contains(sentence) && stderr.contains("shardwise.toml:"), "{stderr}");
    }
}

#[test]
fn a_share_of_zero_reports_copies_of_any_size_and_no_value_without_copies() {
    let folder = Folder::new("share-of-zero");
    folder.write("shardwise.toml", "select = [\"SW331\"]\n[options.SW331]\nshare = 0\n");
    folder.write("a.shard", CLEAN);
    let (code, stdout, stderr) = folder.check(&["--format", "concise", "a.shard"]);
    assert!(code.is_some_and(|code| code < 2), "{stdout}{stderr}");
}

#[test]
fn levels_of_the_command_line_win() {
    let folder = Folder::new("levels");
    folder.write("a.shard", UNUSED);
    let concise =
        |more: &[&str]| folder.check(&[&["--format", "concise", "a.shard"], more].concat());
    assert!(concise(&["--deny-warnings"]).1.contains("error[SW352]"));
    assert!(concise(&["--deny", "tidiness"]).1.contains("error[SW352]"));
    assert_eq!(concise(&["--select", "communication,SW9"]).0, Some(0));
    let (code, _, stderr) = concise(&["--select", "SW353x"]);
    assert!(code == Some(2) && stderr.contains("did you mean `SW353`?"), "{stderr}");
}

#[test]
fn what_cannot_be_read_ends_with_2_and_the_rest_is_still_reported() {
    let folder = Folder::new("unread");
    let (code, stdout, stderr) =
        folder.write("a.shard", UNUSED).check(&["none.shard", "a.shard", "--format", "concise"]);
    assert!(
        code == Some(2) && stdout.contains("SW352") && stderr.contains("cannot read `none.shard`"),
        "{stderr}"
    );
}

#[test]
fn fix_writes_what_diff_shows() {
    let folder = Folder::new("fix");
    let several = "# sizes\nhardware tpu-v5p\nmesh X=4\ndim I=8, J=8  # both\ndim K=4\ninput \
        A[I_X]\nallow SW301, SW353\nB = tanh(A)  # kept\noutput B[I_X]\n";
    folder.write("a.shard", several).write("b.shard", CLEAN);
    let (code, stdout, stderr) = folder.check(&["--diff"]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("-dim I=8, J=8  # both\n-dim K=4\n+dim I=8  # both\n"), "{stdout}");
    assert!(stderr.contains("edits in 1 file\n") && folder.read("a.shard") == several, "{stderr}");
    let (code, _, stderr) = folder.check(&["--fix"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        folder.read("a.shard"),
        "# sizes\nhardware tpu-v5p\nmesh X=4\ndim I=8  # both\ninput A[I_X]\nB = tanh(A)  # kept\n\
            output B[I_X]\n"
    );
    assert_eq!(folder.check(&["--fix"]).0, Some(0));
}

#[test]
fn standard_input_is_fixed_to_standard_output() {
    let mut child = Command::new(SHARDWISE)
        .args(["check", "--fix", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("piped").write_all(UNUSED.as_bytes()).expect("it reads");
    let (code, stdout, _) = ended(child.wait_with_output().expect("it ends"));
    assert_eq!((code, stdout), (Some(0), UNUSED.replace(", J=8", "")));
}

#[test]
fn the_most_expensive_finding_comes_first_with_sort_cost() {
    let folder = Folder::new("cost");
    let costs = "hardware tpu-v5p\nmesh X=4\ndim B=8192, D=8192\ninput In[B_X, D]\nOld = tanh(In)\n\
        Out = gelu(In)\noutput Out[B_X, D]\n";
    folder.write("a.shard", UNUSED).write("b.shard", costs);
    let (_, stdout, _) = folder.check(&["--format", "concise", "--sort", "cost"]);
    assert!(stdout.starts_with("b.shard:5:1: warning[SW353]"), "{stdout}");
    let both = costs.replace("dim B", "dim Q=1, B");
    let (_, _, stderr) = folder.write("b.shard", &both).check(&["--sort", "cost", "b.shard"]);
    assert!(
        stderr
            .find("SW353")
            .zip(stderr.find("SW352"))
            .is_some_and(|(expensive, cheap)| expensive < cheap),
        "{stderr}"
    );
}

#[test]
fn explain_knows_lints_by_code_and_by_name() {
    let explain = |word: &str| {
        ended(Command::new(SHARDWISE).args(["explain", word]).output().expect("it starts"))
    };
    let (code, stdout, _) = explain("sw301");
    assert_eq!(code, Some(0));
    assert!(
        stdout.starts_with("SW301 pinned-whole (communication, warn by default)\n")
            && stdout.contains("Triggered by:"),
        "{stdout}"
    );
    assert_eq!(explain("pinned-whole").1, stdout);
    assert!(explain("SW999").2.contains("SW301 SW302"), "{}", explain("SW999").2);
}

#[test]
fn every_format_can_go_to_a_file() {
    let folder = Folder::new("formats");
    folder.write("a.shard", UNUSED);
    for format in ["graphical", "concise", "json", "sarif", "github", "junit"] {
        let (code, stdout, _) = folder.check(&["--format", format, "--output", "out"]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{format}");
        assert!(
            folder.read("out").contains("dimension `J` is not used"),
            "{format}: {}",
            folder.read("out")
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_in_a_folder_whose_name_is_no_text_is_named_as_that() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("names");
    folder.write("good.shard", CLEAN);
    let odd = folder.0.join(std::ffi::OsStr::from_bytes(b"odd\xff.shard"));
    std::fs::write(odd, CLEAN).expect("a file can be written");
    let (code, _, error) = folder.check(&["."]);
    assert_eq!(code, Some(2));
    assert!(error.contains("is not UTF-8; rename it"), "{error}");
}

#[test]
fn a_file_that_is_no_text_is_a_finding_in_every_format() {
    let folder = Folder::new("no-text");
    std::fs::write(folder.0.join("a.shard"), b"mesh X=4\n\xff").expect("a file can be written");
    folder.write("b.shard", CLEAN);
    for format in ["json", "sarif", "junit", "github", "concise"] {
        let (status, out, errors) = folder.check(&["--format", format]);
        assert_eq!(status, Some(1), "{format}: {errors}");
        assert!(out.contains("SW005") && out.contains("a.shard"), "{format}: {out}");
        assert!(out.contains("is not UTF-8 text (byte 9)"), "{format}: {out}");
    }
    let (status, out, errors) = folder.check(&["--fix"]);
    assert_eq!((status, out.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("SW005: `a.shard` is not UTF-8 text (byte 9)"), "{errors}");
    let kept = std::fs::read(folder.0.join("a.shard")).expect("the file is there");
    assert_eq!(kept, b"mesh X=4\n\xff");
}
