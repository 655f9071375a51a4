//! Hardware files on the command line: what is printed can be given back.

mod common;

use common::{run, text};

const PROGRAM: &str = "hardware mine\nmesh X=16, Y=8\ndim B=64, D=64\ninput A[B_X, D_Y]\nB2 = gelu(A)\noutput B2[B_X, D]\n";

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
    let body = |output: &std::process::Output| text(&output.stdout).replace("hardware mine\n", "hardware h100\n");
    let without_seal = |body: String| body.rsplit_once('[').map(|(before, _)| before.to_owned()).unwrap_or_default();
    assert_eq!(without_seal(body(&plan)), without_seal(body(&preset)));
    let table = run(&["hardware", "mine", "--hardware-file", &file], "");
    assert!(text(&table.stdout).contains("\nmine "), "{}", text(&table.stdout));
    assert_eq!(run(&["hardware", "his"], "").status.code(), Some(2));
    std::fs::write(folder.join("hw.toml"), "[mine]\nbf16 = 0\n").expect("a file");
    let wrong = run(&["plan", "-", "--hardware-file", &file], PROGRAM);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("SW407"), "{}", text(&wrong.stderr));
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
