//! `--watch`: a program is planned or checked again when it changes, for as long as the command
//! runs.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const MLP: &str = "hardware tpu-v5p\nmesh X=4\ndim B=1024, D=4096, F=16384\ninput In[B, D_X]\n\
    param W[D_X, F]\nOut = In *D W\noutput Out[B, F]\n";
/// No machine is slower than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command that goes on, and the lines that it prints on both streams. It ends when this is
/// dropped.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watching {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(crate::common::SHARDWISE)
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().expect("it is piped")),
            Box::new(child.stderr.take().expect("it is piped")),
        ];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                BufReader::new(stream)
                    .lines()
                    .map_while(Result::ok)
                    .try_for_each(|line| sender.send(line))
            });
        }
        Self { child, lines }
    }

    /// Reads until a line has the text.
    fn until(&self, wanted: &str) -> Vec<String> {
        let (started, mut read) = (Instant::now(), Vec::new());
        while let Ok(line) = self.lines.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
            read.push(line);
            if read.last().is_some_and(|line| line.contains(wanted)) {
                return read;
            }
        }
        panic!("no `{wanted}` in {read:#?}");
    }
}

#[test]
fn a_plan_follows_its_program() {
    let folder = crate::common::empty_folder("watch-plan");
    let program = folder.join("mlp.shard");
    std::fs::write(&program, MLP).expect("a file can be written");
    let watching = Watching::start(&folder, &["plan", "mlp.shard", "--watch", "-o", "mlp.plan"]);
    watching.until("-- watching 1 program; press Ctrl-C to stop");
    let first = std::fs::read_to_string(folder.join("mlp.plan")).expect("it was written");
    std::fs::write(&program, MLP.replace("B=1024", "B=2048")).expect("a file can be written");
    watching.until("-- mlp.shard changed");
    watching.until("-- watching");
    let second = std::fs::read_to_string(folder.join("mlp.plan")).expect("it was written");
    assert!(first.contains("B=1024") && second.contains("B=2048"), "{first}{second}");

    std::fs::write(&program, MLP.replace("*D W", "*F W")).expect("a file can be written");
    watching.until("SW105");
    watching.until("-- watching");
    assert_eq!(
        std::fs::read_to_string(folder.join("mlp.plan")).expect("it is there"),
        second,
        "the last plan stays"
    );

    // As editors save: another file takes the place of the old one, which is gone for a moment.
    std::fs::remove_file(&program).expect("it is there");
    watching.until("cannot read `mlp.shard`");
    std::fs::write(folder.join("mlp.new"), MLP).expect("a file can be written");
    std::fs::rename(folder.join("mlp.new"), &program).expect("a file can be renamed");
    watching.until("-- mlp.shard changed");
    watching.until("-- watching");
    assert_eq!(std::fs::read_to_string(folder.join("mlp.plan")).expect("it is there"), first);
}

#[test]
fn a_check_follows_every_program_that_it_was_given() {
    let folder = crate::common::empty_folder("watch-check");
    for name in ["a.shard", "b.shard"] {
        std::fs::write(folder.join(name), MLP).expect("a file can be written");
    }
    let watching = Watching::start(&folder, &["check", "a.shard", "b.shard", "--watch"]);
    watching.until("-- watching 2 programs");
    std::fs::write(folder.join("b.shard"), MLP.replace("D_X", "D_Z"))
        .expect("a file can be written");
    let printed = watching.until("-- watching").join("\n");
    assert!(
        printed.contains("-- b.shard changed")
            && printed.contains("SW204")
            && !printed.contains("a.shard"),
        "{printed}"
    );
    // Written again with the same bytes: nothing has changed, and the next change is the next one
    // that is printed.
    std::fs::write(folder.join("b.shard"), MLP.replace("D_X", "D_Z"))
        .expect("a file can be written");
    std::fs::write(folder.join("a.shard"), MLP.replace("B=1024", "B=2048"))
        .expect("a file can be written");
    let printed = watching.until("-- watching").join("\n");
    assert!(printed.contains("-- a.shard changed"), "{printed}");
}

#[test]
fn programs_that_gitignore_names_are_not_watched() {
    let folder = crate::common::empty_folder("watch-ignored");
    std::fs::create_dir(folder.join("out")).expect("a folder can be made");
    std::fs::write(folder.join(".gitignore"), "out/\n").expect("a file can be written");
    for name in ["a.shard", "out/b.shard"] {
        std::fs::write(folder.join(name), MLP).expect("a file can be written");
    }
    let watching = Watching::start(&folder, &["check", "--watch"]);
    watching.until("-- watching 1 program");
    for name in ["out/b.shard", "a.shard"] {
        std::fs::write(folder.join(name), MLP.replace("D_X", "D_Z")).expect("it can be written");
        std::thread::sleep(Duration::from_secs(1));
    }
    let printed = watching.until("-- watching").join("\n");
    assert!(printed.contains("-- a.shard changed") && !printed.contains("b.shard"), "{printed}");
}

#[test]
fn hardware_that_a_program_names_is_watched_as_well() {
    let folder = crate::common::empty_folder("watch-hardware");
    let (program, hardware) = (folder.join("mlp.shard"), folder.join("hw.toml"));
    std::fs::write(&program, MLP.replace("hardware tpu-v5p", "hardware \"hw.toml\""))
        .expect("a file can be written");
    let watching = Watching::start(&folder, &["plan", "mlp.shard", "--watch", "-o", "mlp.plan"]);
    watching.until("SW408");
    watching.until("-- watching 1 program and 1 hardware file; press Ctrl-C to stop");
    for base in ["tpu-v5p", "tpu-v5e"] {
        std::fs::write(&hardware, format!("[chip]\nbase = \"{base}\"\n"))
            .expect("a file can be written");
        watching.until("-- hw.toml changed");
        watching.until("-- watching");
    }
    let plan = std::fs::read_to_string(folder.join("mlp.plan")).expect("it was written");
    assert!(plan.contains("of 16 GB"), "{plan}");
}

#[test]
fn what_cannot_be_watched_is_wrong_usage() {
    for arguments in [
        &["plan", "-", "--watch"][..],
        &["check", "-", "--watch"],
        &["plan", "--watch", "-e", "A[I] -> A[I]"],
    ] {
        assert_eq!(crate::run(arguments, MLP).status.code(), Some(2), "{arguments:?}");
    }
}
