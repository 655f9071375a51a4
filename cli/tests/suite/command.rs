//! The command as its users meet it: exit codes, standard input, pipes, no terminal.

use std::process::{Command, Stdio};

use crate::common::{SHARDWISE, root, text};
use crate::run;

pub(crate) const MATMUL: &str = "hardware tpu-v5p\nmesh X=4\ndim I=64, J=64, K=64\n\
    input A[I, J_X], B[J_X, K]\nC = A *J B\noutput C[I, K]\n";

#[test]
fn a_plan_goes_to_stdout_and_ends_with_0() {
    let output = run(&["plan", "tests/programs/fsdp_tp.shard"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).contains("Out[B_X, D_Y] = ReduceScatter_{Y,D}(Out[B_X, D] {U_Y})")
    );
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
    for arguments in [
        &["plan"][..],
        &["plam"],
        &["plan", "no/such/file.shard"],
        &["explain", "SW999"],
        &["plan", "--format", "jsn", "-"],
    ] {
        assert_eq!(run(arguments, "").status.code(), Some(2), "{arguments:?}");
    }
}

/// Values below or at zero, with what their option says of them.
const NOT_ABOVE_ZERO: [(&[&str], &str); 10] = [
    (&["plan", "-", "--memory", "0"], "give bytes above zero, such as 300MB"),
    (&["plan", "-", "--memory", "0GB"], "give bytes above zero, such as 300MB"),
    (&["plan", "-", "--memory", "-5GB"], "give bytes above zero, such as 300MB"),
    (&["plan", "-", "--timeout", "-1"], "give seconds, such as 10 or 0.5"),
    (&["plan", "-", "--timeout", "-1s"], "give seconds, such as 10 or 0.5"),
    (&["plan", "-", "--price", "-1"], "a price is a number above zero"),
    (&["cost", "-", "--batches", "-8"], "give a whole number from 1, such as 4096, 48k"),
    (&["tune", "-", "--chips", "-4"], "give a number of chips from 1"),
    (&["tune", "-", "--chips", "4", "--within", "-5%"], "give a percentage, such as 5%"),
    (&["diff", "-", "-", "--budget", "-1us"], "give a time with its unit"),
];

#[test]
fn a_value_that_must_be_above_zero_says_what_to_write() {
    for (arguments, expected) in NOT_ABOVE_ZERO {
        let output = run(arguments, MATMUL);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error.contains(expected) && !error.contains("tip:"), "{arguments:?} {error}");
    }
}

#[test]
fn a_finding_in_a_long_line_says_where_it_is() {
    let program = MATMUL.replace("C = A *J B", &format!("C = A *J Bb # {}", "x".repeat(2000)));
    assert_ne!(program, MATMUL);
    let error = text(&run(&["plan", "-"], &program).stderr);
    assert!(error.contains("`Bb` is not defined (at -:5:10)"), "{error}");
}

/// The rows of the page: what it says of each code is run here.
#[test]
fn the_page_of_promises_lists_the_exit_codes() {
    let page = std::fs::read_to_string(root().join("compiler/docs/promises.md")).expect("a page");
    let unformatted = MATMUL.replace("dim ", "dim   ");
    let cases: [(&[&str], &str, i32); 8] = [
        (&["plan", "-"], MATMUL, 0),
        (&["plan", "-"], "mesh", 1),
        (&["plan", "-"], &(MATMUL.to_owned() + "\nassert comm <= 1ns\n"), 1),
        (&["check", "-"], "dim I=8\n", 1),
        (&["fmt", "--check", "-"], &unformatted, 1),
        (&["sweep", "-", "--memory", "1KB"], MATMUL, 1),
        (&["plan", "no-such-file.shard"], "", 2),
        (&["plan", "--no-such-option", "-"], MATMUL, 2),
    ];
    for (arguments, input, code) in cases {
        assert_eq!(run(arguments, input).status.code(), Some(code), "{arguments:?} {input}");
        assert!(page.contains(&format!("\n| {code} | ")), "{code}");
    }
    assert_eq!(page.matches("\n| ").count(), (2 + 8) + (2 + 3), "eight promises, three codes");
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
    for field in [
        "\"schema\": \"shardwise.plan/2\"",
        "\"optimality\"",
        "\"lower_bound_s\"",
        "\"scheduled_s\"",
        "\"critical\"",
        "\"local_bytes\"",
    ] {
        assert!(output.contains(field), "{field}");
    }
}

#[test]
fn what_is_one_document_is_written_of_one_program() {
    let twice = ["tests/programs/fsdp_tp.shard", "tests/programs/mlp-2d.shard"];
    for (command, format) in
        [("plan", "json"), ("plan", "html"), ("plan", "trace"), ("cost", "json"), ("cost", "svg")]
    {
        let output = run(&[&[command, "--format", format][..], &twice].concat(), "");
        let expected = format!("error: --format {format} writes a file of one program: run the ");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).starts_with(&expected), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
    for arguments in [&["plan"][..], &["plan", "--format", "md"], &["cost"]] {
        let output = run(&[arguments, &twice].concat(), "");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn dot_draws_every_step() {
    let output = text(&run(&["plan", "--format", "dot", "-"], MATMUL).stdout);
    assert!(output.starts_with("digraph \"program\" {"), "{output}");
    assert!(output.contains("AllReduce_X") && output.contains("einsum"));
}

#[test]
fn trace_has_a_track_for_compute_and_one_for_each_axis() {
    let output = run(&["plan", "--format", "trace", "tests/programs/fsdp_tp.shard"], "");
    let trace: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a trace is JSON");
    let events = trace["traceEvents"].as_array().expect("it has events");
    let tracks: Vec<&str> = events
        .iter()
        .filter(|e| e["name"] == "thread_name")
        .filter_map(|e| e["args"]["name"].as_str())
        .collect();
    assert_eq!(tracks, ["compute", "axis X", "axis Y"]);
    let on = |track: u64| {
        events.iter().filter(|e| e["ph"] == "X" && e["tid"] == track).collect::<Vec<_>>()
    };
    assert_eq!((on(0).len(), on(1).len(), on(2).len()), (3, 2, 2));
}

/// Copies of a step may be shorter than it: each has a share of a sum over layers.
#[test]
fn nothing_overlaps_on_a_track_of_a_trace() {
    for program in ["fsdp_tp", "layers/shared", "microbatches/held-by-hand"] {
        let path = format!("tests/programs/{program}.shard");
        let output = run(&["plan", "--strategy=textbook", "--format=trace", &path], "");
        let trace: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("a trace is JSON");
        let events = trace["traceEvents"].as_array().expect("it has events");
        let time = |event: &serde_json::Value, key: &str| event[key].as_f64().expect("a time");
        for track in 0..4 {
            let on = events.iter().filter(|e| e["ph"] == "X" && e["tid"] == track);
            let mut times: Vec<(f64, f64)> =
                on.map(|e| (time(e, "ts"), time(e, "ts") + time(e, "dur"))).collect();
            times.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            for both in times.windows(2) {
                assert!(both[1].0 >= both[0].1 - 1e-6, "{program}, track {track}: {both:?}");
            }
        }
    }
}

#[test]
fn verify_says_right() {
    let output = text(&run(&["verify", "tests/programs/fsdp_tp.shard"], "").stdout);
    assert_eq!(output.lines().filter(|line| line.contains(": right: ")).count(), 2, "{output}");
}

#[test]
fn verify_names_the_first_wrong_statement() {
    let wrong = "tests/programs/explicit/forgotten-gelu.shard";
    let output = run(&["verify", wrong, "--against", "tests/programs/explicit/mlp.sketch"], "");
    assert_eq!(output.status.code(), Some(1));
    let output = text(&output.stdout);
    assert!(
        output.contains(": wrong: `Out[B_X, D] {U_Y} = Tmp[B_X, F_Y] *F Wout[F_Y, D]` gives "),
        "{output}"
    );
    assert!(
        output.contains("on device X=0, Y=0 at [0, 0], and the unsharded program "),
        "{output}"
    );
}

#[test]
fn an_explicit_program_is_verified_once() {
    let output = text(&run(&["verify", "tests/programs/explicit/right.shard"], "").stdout);
    assert!(output.lines().count() == 1 && output.contains("(explicit): right: "), "{output}");
}

#[test]
fn an_expression_is_a_program() {
    let program = "In[B, D_X] *D W[D_X, F] -> Out[B, F_X]";
    let of = |arguments: &[&str]| {
        let sizes = ["--mesh", "X=4", "--dim", "B=64,D=64", "--dim", "F=64"];
        let all = [arguments, &["-e", program], &sizes, &["--hardware", "tpu-v5e"]].concat();
        let output = run(&all, "");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for command in ["plan", "cost", "explain"] {
        assert!(of(&[command]).contains("ReduceScatter"), "{command}");
    }
    assert!(of(&["explain", "Out"]).contains("Out[B, F_X] = ReduceScatter_{X,F}"));
    assert!(of(&["verify"]).contains("every value on every device as unsharded"));
    assert_eq!(of(&["check"]), "");
    assert!(of(&["sweep"]).contains("1 program planned (search)"));
    let whole = "In[B, D_X] *D W[D_X, F] -> Out[B, F]";
    assert!(of(&["diff", "-e", whole]).contains("AllReduce_X"));
}

#[test]
fn an_expression_is_checked_swept_and_compared() {
    let sizes = ["--dim", "B=1024,D=4096,F=4096", "--hardware", "tpu-v5e"];
    let of = |arguments: &[&str]| run(&[arguments, &sizes].concat(), "");
    let gathered = "In[B_X, D] *D W[D_X, F_Y] -> Out[B_X, F_Y]";
    let wrong = of(&["check", "-e", "In[B, D] *F W[D, F] -> Out[B]", "--mesh", "X=4"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("SW105"), "{}", text(&wrong.stderr));
    let swept = text(&of(&["sweep", "-e", gathered, "--mesh", "X*Y=16"]).stdout);
    assert!(swept.contains("5 points") && swept.contains("X=4,Y=4"), "{swept}");
    let one = of(&["diff", "-e", gathered, "--mesh", "X=4,Y=4"]);
    assert_eq!(one.status.code(), Some(2));
    assert!(text(&one.stderr).contains("give two programs"), "{}", text(&one.stderr));
    let beside = of(&["diff", "tests/programs/fsdp_tp.shard", "-e", gathered, "--mesh", "X=4,Y=4"]);
    assert!(text(&beside.stdout).contains(&format!("fsdp_tp.shard -> {gathered}")));
}

#[test]
fn an_expression_that_declares_is_a_program_with_semicolons_for_line_breaks() {
    let program = "hardware tpu-v5e; mesh X=4; dim B=64, D=8; input A[B_X, D]; output A[B, D]";
    let printed = run(&["plan", "-e", program], "");
    assert!(text(&printed.stdout).contains("A[B, D] = AllGather_X(A[B_X, D])"));
    let wrong = run(&["check", "-e", &program.replace("A[B_X, D]", "A[B_Z, D]")], "");
    assert!(text(&wrong.stderr).contains("`Z` is not an axis of the mesh"));
}

#[test]
fn every_other_command_prints_something() {
    for arguments in [
        &["hardware"][..],
        &["schema"],
        &["completions", "bash"],
        &["man"],
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
fn sizes_can_be_given_for_programs_in_files() {
    let arguments = [
        "plan",
        "tests/programs/mlp-2d.shard",
        "--mesh",
        "X=4,Y=16",
        "--dim",
        "B=1024",
        "--dim",
        "F=8192",
    ];
    let output = text(&run(&arguments, "").stdout);
    assert!(output.contains("mesh X=4 over 2, Y=16\ndim B=1024, D=8192, F=8192"), "{output}");
    for command in ["check", "verify", "cost"] {
        let output = run(
            &[command, "tests/programs/fsdp_tp.shard", "--mesh", "X=2,Y=2", "--dim", "B=1024"],
            "",
        );
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output.stderr));
    }
}

#[test]
fn an_option_that_fits_no_program_ends_with_2_and_says_what_exists() {
    let wrong: [(&[&str], &str); 6] = [
        (&["plan", "-", "--mesh", "Y=8"], "its axes are X"),
        (&["plan", "-", "--dim", "L=8"], "its dimensions are I, J, K"),
        (&["plan", "-", "--mesh", "X"], "such as X=8"),
        (&["plan", "-", "--dim", "I=none"], "is not a size"),
        (&["sweep", "-", "--mesh", "X*Y=64"], "its axes are X"),
        (&["sweep", "-", "--dim", "I=9..3"], "smaller size first"),
    ];
    for (arguments, sentence) in wrong {
        let output = run(arguments, MATMUL);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(sentence), "{arguments:?}: {}", text(&output.stderr));
    }
    let folded = run(&["plan", "tests/programs/mlp-2d.shard", "--mesh", "X=7 over 2"], "");
    let message = text(&folded.stderr);
    assert!(message.contains("does not fold over `2`"), "{message}");
    assert!(message.contains("--mesh \"X=7 over 7\""), "{message}");
}

#[test]
fn a_program_after_a_pass_has_no_other_format() {
    let output = run(&["plan", "-", "--print-after", "search", "--format", "json"], MATMUL);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not as --format json"), "{}", text(&output.stderr));
    let as_text = run(&["plan", "-", "--print-after", "search", "--format", "text"], MATMUL);
    assert_eq!(as_text.status.code(), Some(0));
}

#[test]
fn the_page_of_costs_shows_what_the_command_prints() {
    assert_eq!(crate::common::run_page("compiler/docs/cost.md", &crate::common::root()), 1);
}

#[test]
fn cost_says_what_bounds_a_program_and_where_that_turns() {
    let arguments = ["cost", "tests/programs/sweep/fsdp.shard", "--strategy", "textbook"];
    let printed = text(&run(&arguments, "").stdout);
    assert!(
        printed.contains("compute-bound above B = 54400 (850 a device); now 65536 (1024 a device)"),
        "{printed}"
    );
    assert!(printed.contains("; bound by FLOPs; MFU "), "{printed}");
    assert!(printed.contains("tokens: 65.5 k a step, "), "{printed}");
    assert!(printed.contains("parameters: 537 M (1.07 GB), 16.8 MB a device"), "{printed}");
    let json = text(&run(&[&arguments[..], &["--format", "json"]].concat(), "").stdout);
    assert!(
        json.contains("\"schema\": \"shardwise.cost/1\"") && json.contains("\"per_device\": 850.0"),
        "{json}"
    );
    let picture = text(&run(&[&arguments[..], &["--format", "svg"]].concat(), "").stdout);
    assert!(picture.starts_with("<svg") && picture.contains("of the roof"), "{picture}");
    assert_eq!(run(&[&arguments[..], &["--format", "dot"]].concat(), "").status.code(), Some(2));
}

#[test]
fn gradients_can_be_looked_at_before_they_are_planned() {
    let output =
        run(&["plan", "--print-after", "gradient", "tests/programs/training/p5-base.shard"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains(
        "dWout = Tmp *B dOut\ndTmp = dOut *D Wout\ndWin = In *B dTmp\ndIn = dTmp *F Win\n"
    ));
}

#[test]
fn cost_sizes_decoding_by_batches() {
    let program = "tests/programs/models/llama2-13b-decode.shard";
    let output = run(&["cost", program, "--batches", "8,0.016k", "--strategy", "textbook"], "");
    let printed = text(&output.stdout);
    assert!(
        printed.contains("\ndecode: 8 tokens a step")
            && printed.lines().filter(|line| line.ends_with("  KV cache")).count() == 2,
        "{printed}"
    );
    let json = text(
        &run(
            &["cost", program, "--batches", "8", "--format", "json", "--strategy", "textbook"],
            "",
        )
        .stdout,
    );
    assert!(json.contains("\"inference\"") && json.contains("\"largest_batch\": 15"), "{json}");
    let refused = run(&["cost", "tests/programs/fsdp_tp.shard", "--batches", "8"], "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--phase decode"));
    assert_eq!(
        run(&["cost", "tests/programs/fsdp_tp.shard", "--phase", "decode"], "").status.code(),
        Some(0)
    );
    assert_eq!(run(&["cost", program, "--batches", "0"], "").status.code(), Some(2));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(SHARDWISE)
        .args(["plan", "tests/programs/mlp-2d.shard"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

/// Help as well as results: a script that keeps them must not believe that they are there.
#[cfg(target_os = "linux")]
#[test]
fn what_a_full_disk_does_not_take_ends_with_2() {
    for arguments in [&["--help"][..], &["plan", "-h"], &["--version"], &["docs"], &["schema"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let mut command = Command::new(SHARDWISE);
        let output = command.args(arguments).stdout(full).output().expect("it starts");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {error}");
        assert_eq!(error, "error: cannot write to standard output: no space left on device\n");
    }
}

#[test]
fn every_command_that_prices_takes_rates_and_a_price() {
    let path = "tests/programs/fsdp_tp.shard";
    for command in ["plan", "cost", "check", "sweep"] {
        let given = run(&[command, path, "--rates", "measured", "--price", "2.5"], "");
        assert!(given.status.success(), "{command}: {}", text(&given.stderr));
    }
    let sweep = |rates| text(&run(&["sweep", path, "--rates", rates], "").stdout);
    assert_ne!(sweep("peak"), sweep("measured"));
}

#[test]
fn every_page_of_the_reference_is_listed_and_printed() {
    let list = text(&run(&["docs"], "").stdout);
    let folder = crate::common::root().join("compiler/docs");
    for entry in std::fs::read_dir(folder).expect("the pages are there") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        if is_page && name != "SUMMARY" {
            assert!(list.contains(&format!("\n{name} ")) || list.starts_with(&name), "{name}");
            let page = std::fs::read_to_string(&path).expect("a page");
            assert_eq!(text(&run(&["docs", &name], "").stdout), page, "{name}");
        }
    }
    assert!(text(&run(&["docs", "sw101"], "").stdout).starts_with("SW101 "));
    let unknown = run(&["docs", "pipeline"], "");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("`pipelines` is one"), "{}", text(&unknown.stderr));
}
