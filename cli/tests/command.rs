//! The command as its users meet it: exit codes, standard input, pipes, no terminal.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shardwise"))
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // A command that does not read its input closes it early; that is its right.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait_with_output().expect("the command ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const MATMUL: &str = "hardware tpu-v5p\nmesh X=4\ndim I=64, J=64, K=64\ninput A[I, J_X], B[J_X, K]\nC = A *J B\noutput C[I, K]\n";

#[test]
fn a_plan_goes_to_stdout_and_ends_with_0() {
    let output = run(&["plan", "tests/programs/fsdp_tp.shard"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("Out[B_X, D_Y] = ReduceScatter_{Y,D}(Out[B_X, D] {U_Y})"));
    assert!(output.stderr.is_empty());
}

#[test]
fn a_dash_is_standard_input() {
    let output = run(&["plan", "-"], MATMUL);
    assert!(text(&output.stdout).contains("C[I, K] = AllReduce_X(C[I, K] {U_X})"));
}

#[test]
fn planning_a_plan_gives_the_same_bytes() {
    let once = text(&run(&["plan", "-"], MATMUL).stdout);
    assert_eq!(text(&run(&["plan", "-"], &once).stdout), once);
}

#[test]
fn a_plan_edited_by_hand_loses_its_claim() {
    let once = text(&run(&["plan", "-"], MATMUL).stdout);
    let edited = once.replace("I=64", "I=128");
    assert!(once.contains("# found: optimal"));
    assert!(!text(&run(&["plan", "-"], &edited).stdout).contains("# found"));
}

#[test]
fn wrong_input_ends_with_1_and_says_why_on_stderr() {
    let output = run(&["plan", "-"], "hardware tpu-v5p\ninput A[I_X, J\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(text(&output.stderr).contains("SW002"));
    assert!(!text(&output.stderr).contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [&["plan"][..], &["plam"], &["plan", "no/such/file.shard"], &["explain", "SW999"], &["plan", "--format", "jsn", "-"]] {
        assert_eq!(run(arguments, "").status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_an_error() {
    let path = std::env::temp_dir().join("shardwise-not-text.shard");
    std::fs::write(&path, [0xff, 0xfe, 0x00]).expect("a temporary file can be written");
    let output = run(&["check", &path.to_string_lossy()], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("SW005"));
}

#[test]
fn check_ends_with_0_on_a_clean_program_and_1_on_another() {
    assert_eq!(run(&["check", "-"], MATMUL).status.code(), Some(0));
    assert_eq!(run(&["check", "-"], &MATMUL.replace("*J", "*K")).status.code(), Some(1));
    let plan = text(&run(&["plan", "-"], MATMUL).stdout);
    assert_eq!(run(&["check", "--explicit", "-"], &plan).status.code(), Some(0));
}

#[test]
fn fmt_writes_the_file_only_where_asked() {
    let path = std::env::temp_dir().join("shardwise-fmt.shard");
    let name = path.to_string_lossy().into_owned();
    std::fs::write(&path, "dim   B = 8 # eight\n").expect("a temporary file can be written");
    assert_eq!(run(&["fmt", "--check", &name], "").status.code(), Some(1));
    assert_eq!(run(&["fmt", &name], "").status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&path).expect("the file is there"), "dim B=8  # eight\n");
    assert_eq!(run(&["fmt", "--check", &name], "").status.code(), Some(0));
}

#[test]
fn json_has_the_fields_of_the_contract() {
    let output = text(&run(&["plan", "--format", "json", "-"], MATMUL).stdout);
    for field in
        ["\"schema\": \"shardwise.plan/1\"", "\"optimality\"", "\"lower_bound_s\"", "\"scheduled_s\"", "\"critical\"", "\"local_bytes\""]
    {
        assert!(output.contains(field), "{field}");
    }
}

#[test]
fn dot_draws_every_step() {
    let output = text(&run(&["plan", "--format", "dot", "-"], MATMUL).stdout);
    assert!(output.starts_with("digraph \"program\" {"), "{output}");
    assert!(output.contains("AllReduce_X") && output.contains("einsum"));
}

#[test]
fn verify_says_right() {
    let output = text(&run(&["verify", "tests/programs/fsdp_tp.shard"], "").stdout);
    assert_eq!(output.lines().filter(|line| line.contains(": right: ")).count(), 2, "{output}");
}

#[test]
fn an_expression_is_a_program() {
    let arguments = [
        "plan",
        "-e",
        "In[B, D_X] *D W[D_X, F] -> Out[B, F_X]",
        "--mesh",
        "X=4",
        "--dim",
        "B=64,D=64",
        "--dim",
        "F=64",
        "--hardware",
        "tpu-v5e",
    ];
    let output = run(&arguments, "");
    assert!(text(&output.stdout).contains("ReduceScatter_{X,F}"), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let shell = format!("{} plan tests/programs/mlp-2d.shard | true; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_shardwise"));
    let output = Command::new("bash").args(["-c", &shell]).current_dir(root()).output().expect("bash starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn every_other_command_prints_something() {
    for arguments in [
        &["hardware"][..],
        &["schema"],
        &["completions", "bash"],
        &["explain", "sw201"],
        &["cost", "tests/programs/fsdp_tp.shard"],
        &["--help"],
        &["--version"],
    ] {
        let output = run(arguments, "");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn the_program_can_be_seen_between_passes() {
    let resolved = text(&run(&["plan", "--print-after", "resolve", "-"], MATMUL).stdout);
    assert!(resolved.contains("C = A *J B"));
    let textbook = text(&run(&["plan", "--print-after", "textbook", "-"], MATMUL).stdout);
    assert!(textbook.contains("C[I, K] {U_X} = A[I, J_X] *J B[J_X, K]"));
}

#[test]
fn gradients_can_be_looked_at_before_they_are_planned() {
    let output = run(&["plan", "--print-after", "gradient", "tests/programs/training/p5-base.shard"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("dWout = Tmp *B dOut\ndTmp = dOut *D Wout\ndWin = In *B dTmp\ndIn = dTmp *F Win\n"));
}
