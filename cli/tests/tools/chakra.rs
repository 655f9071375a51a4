//! Traces of Chakra, read by Protocol Buffers' own library and run by a simulation without clocks.

use std::process::Command;

use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

const PROGRAMS: [&str; 5] =
    ["fsdp_tp", "layers/train", "microbatches/adam", "operations/roll-back", "pipelines/chunks"];

#[test]
fn a_simulation_of_the_ranks_comes_to_its_end() {
    require(&["python3"]);
    let scratch = empty_folder("chakra");
    let mut script = Command::new("python3");
    script.arg(root().join("cli/python/read_traces.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    for program in PROGRAMS {
        let folder = scratch.join(program.replace('/', "-"));
        let exported = Command::new(SHARDWISE)
            .args(["export", "chakra", "-o"])
            .arg(&folder)
            .arg(root().join("tests/programs").join(program).with_extension("shard"))
            .output()
            .expect("shardwise starts");
        assert!(exported.status.success(), "{program}: {}", text(&exported.stderr));
        script.arg(folder);
    }
    let ran = script.output().expect("python starts");
    let log = text(&ran.stdout);
    assert!(ran.status.success(), "run `pip install protobuf`: {}", text(&ran.stderr));
    assert_eq!(log.matches("equal ").count(), PROGRAMS.len(), "{log}");
}

#[test]
fn traces_need_a_folder() {
    let output = Command::new(SHARDWISE)
        .args(["export", "chakra"])
        .arg(root().join("tests/programs/mlp-2d.shard"))
        .output()
        .expect("shardwise starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("-o"), "{}", text(&output.stderr));
}
