//! Hardware files on the command line: what is printed can be given back.

use std::path::Path;

use crate::common::text;
use crate::{run, run_in};

const PROGRAM: &str = "hardware mine\nmesh X=16, Y=8\ndim B=64, D=64\ninput A[B_X, D_Y]\nB2 = \
    gelu(A)\noutput B2[B_X, D]\n";

#[test]
fn a_preset_is_printed_and_read_again_under_another_name() {
    let printed = run(&["hardware", "--format", "toml", "h100"], "");
    assert_eq!(printed.status.code(), Some(0));
    let folder = std::env::temp_dir().join(format!("shardwise-hardware-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("hw.toml");
    std::fs::write(&file, text(&printed.stdout).replace("[h100]", "[mine]")).expect("a file");
    let file = file.to_string_lossy().into_owned();
    assert_eq!(run(&["plan", "-"], PROGRAM).status.code(), Some(1), "not known without the file");
    for command in ["plan", "cost", "verify", "check"] {
        let output = run(&[command, "-", "--hardware-file", &file], PROGRAM);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output.stderr));
    }
    let plan = run(&["plan", "-", "--hardware-file", &file], PROGRAM);
    let preset = run(&["plan", "-"], &PROGRAM.replace("mine", "h100"));
    let body = |output: &std::process::Output| {
        text(&output.stdout).replace("hardware mine\n", "hardware h100\n")
    };
    let without_seal = |body: String| {
        body.rsplit_once('[').map(|(before, _)| before.to_owned()).unwrap_or_default()
    };
    assert_eq!(without_seal(body(&plan)), without_seal(body(&preset)));
    let table = run(&["hardware", "mine", "--hardware-file", &file], "");
    assert!(text(&table.stdout).contains("\nmine "), "{}", text(&table.stdout));
    assert_eq!(run(&["hardware", "his"], "").status.code(), Some(2));
    let missing = text(&run(&["plan", "-", "--hardware-file", "none.toml"], PROGRAM).stderr);
    assert!(missing.contains("give the path of a hardware file"), "{missing}");
    std::fs::write(folder.join("hw.toml"), "[mine]\nbf16 = 0\n").expect("a file");
    let wrong = run(&["plan", "-", "--hardware-file", &file], PROGRAM);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("SW407"), "{}", text(&wrong.stderr));
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

/// Shares, prices and bytes as people write them; what has an exponent in data sheets keeps it.
#[test]
fn short_numbers_are_plain_decimals() {
    let printed = text(&run(&["hardware", "--format", "toml", "h100"], "").stdout);
    for line in ["contention = 0.6 ", "allocator = 0.05 ", "bf16 = 9.89e14 ", "link_hop = 1e-6 "] {
        assert!(printed.contains(&format!("\n{line}")), "{line}: {printed}");
    }
}

#[test]
fn a_misspelt_chip_gets_a_suggestion() {
    for (arguments, near) in [
        (&["hardware", "h10"][..], "`h100`"),
        (&["hardware", "tpu-5p"], "`tpu-v5p`"),
        (&["calibrate", "-", "--hardware", "b20"], "`b200`"),
    ] {
        let printed = text(&run(arguments, "").stderr);
        assert!(printed.contains(&format!("did you mean {near}? there are ")), "{printed}");
    }
}

const NODES: &str = "[mine]\nbase = \"h100\"\nnetwork_bandwidth = 45e9\n";

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    std::fs::write(path, text).expect("a file can be written");
}

/// A folder with a program that names its hardware's file, and the file.
fn workshop(name: &str) -> std::path::PathBuf {
    let folder = crate::common::empty_folder(name);
    put(
        &folder.join("models/p.shard"),
        &PROGRAM.replace("hardware mine", "hardware \"hw/nodes.toml\""),
    );
    put(&folder.join("models/hw/nodes.toml"), NODES);
    folder
}

#[test]
fn a_file_is_found_beside_the_program_by_every_command() {
    let folder = workshop("hardware-beside");
    let done = |arguments: &[&str]| {
        let output = run_in(&folder, arguments, "");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let program = "models/p.shard";
    assert!(done(&["plan", program]).starts_with("plan\nhardware mine from \"hw/nodes.toml\"\n"));
    for command in ["check", "cost", "verify", "explain"] {
        done(&[command, program]);
    }
    done(&["check", "."]);
    done(&["diff", program, program]);
    done(&["sweep", program, "--mesh", "X=8|16", "--hardware", "mine,h100"]);
    assert!(done(&["plan", program, "--hardware", "b200"]).starts_with("plan\nhardware b200\n"));
    done(&["fmt", program]);
    assert!(
        std::fs::read_to_string(folder.join(program))
            .expect("it is there")
            .starts_with("hardware \"hw/nodes.toml\"\n")
    );
    let source = std::fs::read_to_string(folder.join(program)).expect("it is there");
    let lost = run_in(&folder, &["plan", "-"], &source);
    assert!(
        lost.status.code() == Some(1) && text(&lost.stderr).contains("SW408"),
        "standard input is in the working directory"
    );
    assert_eq!(run_in(&folder.join("models"), &["plan", "-"], &source).status.code(), Some(0));
}

#[test]
fn a_plan_that_is_written_elsewhere_still_finds_the_file() {
    let folder = workshop("hardware-elsewhere");
    put(&folder.join("out/sub/.keep"), "");
    let plan = ["plan", "models/p.shard", "-o", "out/sub/p.plan", "--depfile", "out/p.d"];
    assert_eq!(run_in(&folder, &plan, "").status.code(), Some(0));
    let written = std::fs::read_to_string(folder.join("out/sub/p.plan")).expect("it was written");
    assert!(
        written.starts_with("plan\nhardware mine from \"../../models/hw/nodes.toml\"\n"),
        "{written}"
    );
    assert_eq!(
        text(&run_in(&folder, &["plan", "out/sub/p.plan"], "").stdout),
        written,
        "a plan is its own plan"
    );
    assert_eq!(
        run_in(&folder, &["plan", "models/p.shard", "-o", "out/sub/p.plan", "--check"], "")
            .status
            .code(),
        Some(0)
    );
    let needs = std::fs::read_to_string(folder.join("out/p.d")).expect("it was written");
    assert!(needs.starts_with("out/sub/p.plan: models/p.shard models/hw/nodes.toml\n"), "{needs}");
    let more = [
        "plan",
        "models/p.shard",
        "-o",
        "p.plan",
        "--depfile",
        "p.d",
        "--hardware-file",
        "models/hw/nodes.toml",
    ];
    assert_eq!(run_in(&folder, &more, "").status.code(), Some(0));
    let needs = std::fs::read_to_string(folder.join("p.d")).expect("it was written");
    assert!(needs.starts_with("p.plan: models/p.shard models/hw/nodes.toml\n"), "{needs}");
    // Other numbers under the same name are a difference.
    put(
        &folder.join("other/p.shard"),
        &std::fs::read_to_string(folder.join("models/p.shard")).expect("it is there"),
    );
    put(&folder.join("other/hw/nodes.toml"), &NODES.replace("45e9", "25e9"));
    let diff = text(&run_in(&folder, &["diff", "models/p.shard", "other/p.shard"], "").stdout);
    assert!(diff.contains("network_bandwidth = 4.5e10 -> network_bandwidth = 2.5e10"), "{diff}");
}

#[test]
fn files_that_are_no_hardware_are_refused() {
    let folder = workshop("hardware-wrong");
    let wrong = |text: &[u8], expected: &str| {
        std::fs::write(folder.join("models/hw/nodes.toml"), text).expect("a file can be written");
        for arguments in [
            &["plan", "models/p.shard"][..],
            &["check", "models/p.shard"],
            &["plan", "models/p.shard", "-o", "p.plan"],
        ] {
            let output = run_in(&folder, arguments, "");
            let printed = crate::common::text(&output.stderr);
            assert!(
                output.status.code() == Some(1)
                    && printed.contains(expected)
                    && !printed.contains("panicked")
                    && !printed.contains("password"),
                "{arguments:?}: {printed}"
            );
        }
    };
    wrong(b"[mine]\nbase = \"h10\"\n", "nodes.toml:2:8");
    wrong(b"", "the file describes no chip");
    wrong(
        b"[users]\nroot = \"a password\"\n",
        "`models/hw/nodes.toml` is no hardware file (line 1",
    );
    wrong(b"\xff\xfe", "not UTF-8");
    wrong(&vec![b'a'; 2 << 20], "larger than 1 MiB");
    std::fs::remove_file(folder.join("models/hw/nodes.toml")).expect("it is there");
    std::fs::create_dir(folder.join("models/hw/nodes.toml")).expect("a folder can be made");
    let output = run_in(&folder, &["plan", "models/p.shard"], "");
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("SW408"),
        "{}",
        text(&output.stderr)
    );
    assert!(!folder.join("p.plan").exists());
    put(&folder.join("a.toml"), NODES);
    put(&folder.join("b.toml"), &NODES.replace("45e9", "25e9"));
    let twice = run_in(
        &folder,
        &["plan", "-", "--hardware-file", "a.toml", "--hardware-file", "b.toml"],
        PROGRAM,
    );
    assert!(
        twice.status.code() == Some(2) && text(&twice.stderr).contains("`mine` is described twice"),
        "{}",
        text(&twice.stderr)
    );
}
