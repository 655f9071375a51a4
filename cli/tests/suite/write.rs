//! How the command writes files: completely or not at all, through links, and in place for devices
//! and pipes.

use std::path::{Path, PathBuf};

use crate::common::{empty_folder, text};
use crate::run_in;

const PROGRAM: &str = "hardware tpu-v5p\nmesh X=4\ndim  I=8, J=8\ninput A[I_X]\noutput A[I_X]\n";

/// A folder with a program that can be formatted and fixed.
fn folder(name: &str) -> PathBuf {
    let folder = empty_folder(name);
    std::fs::write(folder.join("p.shard"), PROGRAM).expect("a file can be written");
    folder
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file is there")
}

/// Every command that writes, with the file that it writes.
const WRITERS: [(&[&str], &str); 8] = [
    (&["plan", "p.shard", "-o", "p.plan"], "p.plan"),
    (&["plan", "p.shard", "-o", "other.plan", "--depfile", "p.d"], "p.d"),
    (&["fmt", "p.shard"], "p.shard"),
    (&["check", "p.shard", "--fix"], "p.shard"),
    (&["check", "p.shard", "--format", "json", "-o", "p.json"], "p.json"),
    (&["cost", "p.shard", "--format", "html", "-o", "cost.html"], "cost.html"),
    (&["export", "jax", "p.shard", "-o", "p.py"], "p.py"),
    (&["sweep", "p.shard", "--mesh", "X=2|4", "-o", "p.txt"], "p.txt"),
];

#[test]
fn nothing_but_the_file_is_left_behind() {
    for (number, (arguments, written)) in WRITERS.iter().enumerate() {
        let folder = folder(&format!("write-alone-{number}"));
        let output = run_in(&folder, arguments, "");
        assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(!read(&folder.join(written)).is_empty(), "{arguments:?}");
        let entries = std::fs::read_dir(&folder).expect("the folder is there");
        let hidden = entries.filter(|entry| {
            let name = entry.as_ref().map(|entry| entry.file_name());
            name.is_ok_and(|name| name.to_string_lossy().starts_with('.'))
        });
        assert_eq!(hidden.count(), 0, "{arguments:?}");
    }
}

#[test]
fn a_dash_is_standard_output_and_no_file() {
    let folder = folder("write-dash");
    let plan = text(&run_in(&folder, &["plan", "p.shard"], "").stdout);
    assert!(plan.starts_with("plan\n"), "{plan}");
    for more in [&[][..], &["--if-changed"], &["--depfile", "p.d"]] {
        let output = run_in(&folder, &[&["plan", "p.shard", "-o", "-"], more].concat(), "");
        assert_eq!(text(&output.stdout), plan, "{more:?}");
    }
    let sweep = ["sweep", "p.shard", "--mesh", "X=2|4", "-o", "-"];
    assert!(!run_in(&folder, &sweep, "").stdout.is_empty());
    assert!(!folder.join("-").exists());
}

#[test]
fn a_folder_is_not_replaced() {
    let folder = folder("write-folder");
    std::fs::create_dir(folder.join("out")).expect("a folder can be made");
    let output = run_in(&folder, &["plan", "p.shard", "-o", "out"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("cannot write `out`: is a directory"),
        "{}",
        text(&output.stderr)
    );
    assert!(folder.join("out").is_dir());
}

/// Commands whose output would replace what they read; `link` leads to the program.
const OVER_INPUTS: [&[&str]; 9] = [
    &["plan", "p.shard", "-o", "p.shard"],
    &["plan", "p.shard", "-o", "./p.shard", "--if-changed"],
    &["plan", "p.shard", "-o", "p.plan", "--depfile", "p.shard"],
    &["cost", "p.shard", "-o", "p.shard"],
    &["export", "jax", "p.shard", "-o", "p.shard"],
    &["check", "p.shard", "--format", "json", "-o", "p.shard"],
    &["sweep", "p.shard", "--mesh", "X=2|4", "-o", "p.shard"],
    &["tune", "p.shard", "--chips", "2", "-o", "p.shard"],
    &["plan", "link", "-o", "p.shard"],
];

#[test]
fn no_program_is_replaced_by_what_is_made_of_it() {
    let folder = folder("write-over");
    #[cfg(unix)]
    std::os::unix::fs::symlink("p.shard", folder.join("link")).expect("a link can be made");
    let commands = OVER_INPUTS.iter().filter(|arguments| cfg!(unix) || arguments[1] != "link");
    for arguments in commands {
        let output = run_in(&folder, arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains("would replace"), "{error}");
        assert_eq!(read(&folder.join("p.shard")), PROGRAM, "{arguments:?}");
    }
    for arguments in [["plan", "p.shard", "-o", "p.plan"], ["plan", "p.plan", "-o", "p.plan"]] {
        let output = run_in(&folder, &arguments, "");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

/// Two modules in one stream are none.
#[test]
fn an_export_of_several_programs_is_refused() {
    let folder = folder("write-several");
    std::fs::copy(folder.join("p.shard"), folder.join("r.shard")).expect("a file can be copied");
    for framework in ["jax", "torch", "sdy"] {
        for target in [&[][..], &["-o", "out.py"]] {
            let arguments = [&["export", framework, "p.shard", "r.shard"], target].concat();
            let output = run_in(&folder, &arguments, "");
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?} {error}");
            let expected = "run the command once for each, with -o FILE";
            assert!(error.contains(expected) && output.stdout.is_empty(), "{error}");
        }
    }
    assert!(!folder.join("out.py").exists());
}

/// Commands whose output would replace a file that they read beside programs; `q.shard` names
/// `chips.toml`.
const OVER_OTHERS: [&[&str]; 12] = [
    &["plan", "q.shard", "-o", "chips.toml"],
    &["plan", "q.shard", "-o", "q.plan", "--depfile", "chips.toml"],
    &["plan", "p.shard", "--hardware-file", "chips.toml", "-o", "chips.toml"],
    &["cost", "q.shard", "-o", "chips.toml"],
    &["export", "jax", "q.shard", "-o", "chips.toml"],
    &["sweep", "q.shard", "--mesh", "X=2|4", "-o", "chips.toml"],
    &["tune", "q.shard", "--chips", "2", "-o", "chips.toml"],
    &["check", "q.shard", "--format", "json", "-o", "chips.toml"],
    &["check", "p.shard", "--config", "lints.toml", "-o", "lints.toml"],
    &["check", "p.shard", "-o", "shardwise.toml"],
    &["import", "jax", "models.py:forward", "-o", "models.py"],
    &["import", "torch", "models:forward", "-o", "models.py"],
];

#[test]
fn no_other_file_that_is_read_is_replaced() {
    let folder = folder("write-over-others");
    let chips = text(&run_in(&folder, &["hardware", "tpu-v5p", "--format", "toml"], "").stdout);
    let files = [
        ("chips.toml", chips.replace("[tpu-v5p]", "[mine]")),
        ("q.shard", PROGRAM.replace("tpu-v5p", "mine from \"chips.toml\"")),
        ("lints.toml", String::new()),
        ("shardwise.toml", "ignore = [\"SW301\"]\n".to_owned()),
        ("models.py", "def forward(x):\n    return x\n".to_owned()),
    ];
    for (name, content) in &files {
        std::fs::write(folder.join(name), content).expect("a file can be written");
    }
    for arguments in OVER_OTHERS {
        let output = run_in(&folder, arguments, "");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {error}");
        assert!(error.contains("would replace"), "{arguments:?} {error}");
        for (name, content) in &files {
            assert_eq!(read(&folder.join(name)), *content, "{arguments:?}");
        }
    }
}

#[test]
fn a_plan_and_its_dependencies_are_two_files() {
    let folder = folder("write-both");
    let output = run_in(&folder, &["plan", "p.shard", "-o", "p.out", "--depfile", "./p.out"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("-o and --depfile are both `p.out`"));
    assert!(!folder.join("p.out").exists());
}

#[test]
fn writers_at_the_same_time_leave_one_whole_file() {
    let folder = folder("write-together");
    let sizes = ["I=8", "I=16", "I=32"];
    let alone = |size: &str| text(&run_in(&folder, &["plan", "p.shard", "--dim", size], "").stdout);
    let texts = sizes.map(alone);
    let writer = |size: &'static str| {
        let folder = folder.clone();
        std::thread::spawn(move || {
            for _ in 0..10 {
                run_in(&folder, &["plan", "p.shard", "--dim", size, "-o", "p.plan"], "");
            }
        })
    };
    for writer in sizes.map(writer) {
        writer.join().expect("the writer ends");
    }
    assert!(texts.contains(&read(&folder.join("p.plan"))));
    let names = std::fs::read_dir(&folder).expect("the folder is there").count();
    assert_eq!(names, 2, "the program and one plan");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
    use std::os::unix::fs::{chown, symlink};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use crate::common::SHARDWISE;

    use super::*;

    #[test]
    fn a_link_stays_and_its_file_is_updated() {
        for (number, (arguments, written)) in WRITERS.iter().enumerate() {
            let folder = folder(&format!("write-link-{number}"));
            std::fs::create_dir(folder.join("real")).expect("a folder can be made");
            let (link, file) = (folder.join(written), folder.join("real/file"));
            if link.exists() {
                std::fs::rename(&link, &file).expect("a file can be renamed");
            }
            symlink("real/file", &link).expect("a link can be made");
            let first = run_in(&folder, arguments, "");
            assert_ne!(first.status.code(), Some(2), "{}", text(&first.stderr));
            assert!(link.is_symlink() && read(&file) != PROGRAM, "{arguments:?}");
            let before = read(&file);
            std::fs::write(&file, PROGRAM).expect("a file can be written");
            run_in(&folder, arguments, "");
            assert!(link.is_symlink() && read(&file) == before, "{arguments:?}");
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("the file is there").permissions().mode()
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_new_one_has_that_of_new_files() {
        let folder = folder("write-mode");
        let (program, plan) = (folder.join("p.shard"), folder.join("p.plan"));
        let usual = mode(&program);
        run_in(&folder, &["plan", "p.shard", "-o", "p.plan"], "");
        assert_eq!(mode(&plan), usual);
        for (path, wanted) in [(&program, 0o100_755), (&plan, 0o100_640)] {
            let permissions = std::fs::Permissions::from_mode(wanted);
            std::fs::set_permissions(path, permissions).expect("a mode can be set");
        }
        run_in(&folder, &["fmt", "p.shard"], "");
        run_in(&folder, &["plan", "p.shard", "--dim", "I=16", "-o", "p.plan"], "");
        assert_ne!(read(&program), PROGRAM);
        assert_eq!((mode(&program), mode(&plan)), (0o100_755, 0o100_640));
    }

    #[test]
    fn a_pipe_is_written_to_and_not_replaced() {
        let folder = folder("write-pipe");
        let printed = text(&run_in(&folder, &["plan", "p.shard"], "").stdout);
        let stdout = run_in(&folder, &["plan", "p.shard", "-o", "/dev/stdout"], "");
        assert_eq!(text(&stdout.stdout), printed, "{}", text(&stdout.stderr));
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()), "a pipe can be made");
        for more in [&[][..], &["--if-changed"]] {
            let reader = std::thread::spawn({
                let pipe = pipe.clone();
                move || std::fs::read_to_string(pipe)
            });
            let arguments = [&["plan", "p.shard", "-o", "pipe"], more].concat();
            assert_eq!(run_in(&folder, &arguments, "").status.code(), Some(0));
            let is_pipe = std::fs::metadata(&pipe).is_ok_and(|pipe| pipe.file_type().is_fifo());
            assert!(is_pipe, "the pipe is still there");
            let got = reader.join().expect("the reader ends").expect("it reads");
            assert_eq!(got, printed);
        }
    }

    #[test]
    fn a_command_that_is_killed_leaves_the_old_text_or_the_new() {
        let arguments = [&["fmt", "p.shard"][..], &["check", "p.shard", "--fix"]];
        for (number, arguments) in arguments.into_iter().enumerate() {
            let folder = folder(&format!("write-killed-{number}"));
            let program = folder.join("p.shard");
            run_in(&folder, arguments, "");
            let whole = read(&program);
            assert_ne!(whole, PROGRAM);
            for delay in (0..40).map(|step| Duration::from_micros(step * 250)) {
                std::fs::write(&program, PROGRAM).expect("a file can be written");
                let mut command = Command::new(SHARDWISE);
                command.args(arguments).current_dir(&folder).stdout(Stdio::null());
                let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
                std::thread::sleep(delay);
                // It may have ended by itself.
                let _ = child.kill();
                child.wait().expect("it ends");
                let text = read(&program);
                assert!(text == PROGRAM || text == whole, "{text}");
            }
        }
    }

    #[test]
    fn a_file_that_does_not_fit_leaves_the_old_text() {
        for (arguments, written) in
            [("fmt p.shard", "p.shard"), ("plan p.shard -o p.plan", "p.plan")]
        {
            let folder = folder(&format!("write-full-{written}"));
            let before = format!("{PROGRAM}# {}\n", "a long comment ".repeat(200));
            let file = folder.join(written);
            std::fs::write(&file, &before).expect("a file can be written");
            // The limit of the size of files, in blocks of 512 bytes: none can be written.
            let script = format!("trap '' XFSZ; ulimit -f 0; exec {SHARDWISE} {arguments}");
            let output = Command::new("sh").args(["-c", &script]).current_dir(&folder).output();
            let output = output.expect("a shell is there");
            assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
            assert!(text(&output.stderr).contains(&format!("cannot write `{written}`: ")));
            assert_eq!(read(&file), before);
            let names = std::fs::read_dir(&folder).expect("the folder is there");
            let others = names.filter_map(|entry| Some(entry.ok()?.file_name()));
            assert!(others.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
        }
    }

    #[test]
    fn a_file_keeps_its_owner() {
        let folder = folder("write-owner");
        let program = folder.join("p.shard");
        // Only an administrator can give files away, and keep them with their owners.
        if chown(&program, Some(1234), Some(4321)).is_err() {
            return;
        }
        run_in(&folder, &["fmt", "p.shard"], "");
        let owner = std::fs::metadata(&program).expect("the file is there");
        assert_ne!(read(&program), PROGRAM);
        assert_eq!((owner.uid(), owner.gid()), (1234, 4321));
    }
}

/// Files of Windows stay such: `fmt --check` of a checkout there is not about its line ends.
#[test]
fn formatted_lines_end_as_the_first_one_does() {
    let folder = empty_folder("fmt-line-ends");
    let program = "hardware tpu-v5e\r\nmesh X=4\r\ndim B=8\r\ninput  x[B_X]\r\noutput x[B_X]\r\n";
    std::fs::write(folder.join("a.shard"), program).expect("it can be written");
    assert_eq!(run_in(&folder, &["fmt", "--check", "a.shard"], "").status.code(), Some(1));
    assert!(run_in(&folder, &["fmt", "a.shard"], "").status.success());
    let written = std::fs::read_to_string(folder.join("a.shard")).expect("it is there");
    assert_eq!(written, program.replace("input  x", "input x"));
    assert!(run_in(&folder, &["fmt", "--check", "a.shard"], "").status.success());
}
