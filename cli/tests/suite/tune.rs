//! `tune` as its users meet it: the page, formats, the winner's file, and errors.

use crate::common::{blocks, root, shell, text};
use crate::{run, run_in};

#[test]
fn the_page_shows_what_the_command_prints() {
    let page =
        std::fs::read_to_string(root().join("compiler/docs/tune.md")).expect("the page is there");
    let blocks = blocks(&page);
    let commands = || blocks.iter().enumerate().filter(|(_, (language, _))| language == "sh");
    assert!(commands().count() >= 2);
    for (number, (_, command)) in commands() {
        let shown = &blocks[number + 1].1;
        assert_eq!(shell(&root(), command.trim()).trim_end(), shown.trim_end(), "{command}");
    }
}

const MLP: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D]\n\
    param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";

#[test]
fn formats_have_a_line_a_strategy() {
    let in_format = |format: &str| {
        let output = run(&["tune", "-", "--chips", "16", "--format", format], MLP);
        assert!(output.stderr.is_empty(), "no bar without a terminal: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let csv = in_format("csv");
    let strategies = csv.lines().count() - 1;
    assert!(strategies > 1 && csv.starts_with("rank,mesh,DP,"), "{csv}");
    let markdown = in_format("md");
    let is_row = |line: &&str| line.starts_with("| ");
    assert_eq!(markdown.lines().filter(is_row).count(), strategies + 2, "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&in_format("json")).expect("JSON");
    assert_eq!(json["schema"], "shardwise.tune/1");
    assert_eq!(json["strategies"].as_array().map(Vec::len), Some(strategies));
    assert!(in_format("text").lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn the_winner_is_written_as_a_program() {
    let path = std::env::temp_dir().join("shardwise-tune-winner.shard");
    let name = path.to_string_lossy().into_owned();
    let output = run(&["tune", "-", "--chips", "16", "-o", &name], MLP);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let planned = run(&["plan", &name], "");
    assert_eq!(planned.status.code(), Some(0), "{}", text(&planned.stderr));
    assert_eq!(run(&["fmt", "--check", &name], "").status.code(), Some(0));
}

#[test]
fn the_winner_names_its_hardware_file_from_its_own_folder() {
    let folder = crate::common::empty_folder("tune-moved");
    std::fs::create_dir_all(folder.join("found/here")).expect("a folder can be made");
    std::fs::write(folder.join("mine.toml"), "[mine]\nbase = \"h100\"\n").expect("a file");
    let program = MLP.replace("hardware h100", "hardware \"mine.toml\"");
    for output in ["winner.shard", "found/here/winner.shard"] {
        let tuned = run_in(&folder, &["tune", "-", "--chips", "2", "-o", output], &program);
        assert_eq!(tuned.status.code(), Some(0), "{}", text(&tuned.stderr));
        let planned = run_in(&folder, &["plan", output], "");
        assert_eq!(planned.status.code(), Some(0), "{output}: {}", text(&planned.stderr));
    }
}

#[test]
fn errors_end_with_their_status() {
    let code = |arguments: &[&str]| {
        let output = run(&[&["tune", "-"], arguments].concat(), MLP);
        (output.status.code(), text(&output.stderr))
    };
    let (status, nowhere) = code(&["--chips", "8", "--memory", "100kB"]);
    assert_eq!(status, Some(1), "{nowhere}");
    assert!(nowhere.contains("SW505") && nowhere.contains("no strategy on 8 chips fits"));
    let (status, empty) = code(&["--chips", "8", "--stages", "2"]);
    assert_eq!(status, Some(2), "{empty}");
    assert!(empty.contains("leave --stages out"), "{empty}");
    assert_eq!(code(&["--chips", "0"]).0, Some(2));
    assert_eq!(code(&["--chips", "8", "--axes", "9"]).0, Some(2));
}

/// Options that would have no effect, and what the error says.
const WITHOUT_EFFECT: [(&str, &[&str]); 7] = [
    (
        "--chunks 2 --schedules zb-h1",
        &["--schedules is zb-h1", "leave --chunks out", "--schedules 'zb-h1|1f1b'"],
    ),
    ("--chunks 1|4 --schedules zb-h1", &["--chunks 4 is for the schedules gpipe and 1f1b"]),
    ("--chunks 2 --stages 1", &["--stages 1 has none", "leave --chunks out"]),
    ("--fewer-first --stages 1", &["--stages 1 has none", "leave --fewer-first out"]),
    ("--schedules zb-h1 --stages 1", &["--stages 1 has none", "leave --schedules out"]),
    (
        "--fewer-first --schedules gpipe",
        &["--schedules is gpipe", "write --schedules 'gpipe|1f1b'"],
    ),
    ("--fewer-first --chunks 2", &["--chunks is 2", "write --chunks '1|2'"]),
];

#[test]
fn options_of_pipelines_that_have_no_effect_are_errors() {
    let program = "tests/programs/tune/mlp.shard";
    for (options, expected) in WITHOUT_EFFECT {
        let mut arguments = vec!["tune", program, "--chips", "8"];
        arguments.extend(options.split(' '));
        let refused = run(&arguments, "");
        let printed = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{options}: {printed}");
        assert!(expected.iter().all(|part| printed.contains(part)), "{options}: {printed}");
    }
    let arguments = ["--chips", "2", "--chunks", "2", "--schedules", "zb-v|zb-h1", "--best", "1"];
    let accepted = run(&[&["tune", "-"], &arguments[..]].concat(), LAYERS);
    assert_eq!(accepted.status.code(), Some(0), "`zb-v` has two: {}", text(&accepted.stderr));
}

const LAYERS: &str = "hardware h100\ndim B=64, D=64, F=64\ninput x[B, D], dy[B, D]\n\
    repeat L=2 {\n  carry x\n  param w[D, F], v[F, D]\n  x = x + (x *D w) *F v\n}\n\
    backward from x given dy\n";

#[test]
fn options_of_pipelines_for_a_program_without_layers_are_errors() {
    for options in ["--schedules gpipe", "--chunks 2", "--fewer-first", "--stages 1|2"] {
        let given: Vec<&str> = options.split(' ').collect();
        let refused = run(&[&["tune", "-", "--chips", "4"], &given[..]].concat(), MLP);
        let expected = format!("{} is for pipelines, and the program has no layers", given[0]);
        assert_eq!(refused.status.code(), Some(2), "{options}");
        assert!(text(&refused.stderr).contains(&expected), "{}", text(&refused.stderr));
    }
}

#[test]
fn options_of_gradients_that_a_program_leaves_no_room_for_are_errors() {
    let layers = "hardware h100\ndim B=64, D=64, F=64\ninput x[B, D], dy[B, D]\n\
        repeat L=2 {\n  carry x\n  param w[D, F], v[F, D]\n  x = x + (x *D w) *F v\n  checkpoint\n\
        }\nbackward from x given dy, microbatches=2 of B\n";
    let cases = [
        (MLP, "--microbatches 2", "for gradients and for pipelines, and there are neither"),
        (MLP, "--recompute none|layers", "the program has no gradients; leave --recompute out"),
        (layers, "--microbatches 4", "the program has its own; leave --microbatches out"),
        (layers, "--recompute layers", "the program has `checkpoint`; leave --recompute out"),
    ];
    for (program, options, expected) in cases {
        let arguments = ["tune", "-", "--chips", "2", "--stages", "1"];
        let arguments: Vec<&str> = arguments.into_iter().chain(options.split(' ')).collect();
        let refused = run(&arguments, program);
        let printed = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{options}: {printed}");
        assert!(printed.contains(expected), "{options}: {printed}");
        let free = run(&[&arguments, &["--free"][..]].concat(), program);
        let is_released = program == layers;
        assert_eq!(free.status.code() == Some(0), is_released, "{}", text(&free.stderr));
    }
    for options in ["--microbatches 1", "--recompute none"] {
        let arguments = ["tune", "-", "--chips", "2"];
        let arguments: Vec<&str> = arguments.into_iter().chain(options.split(' ')).collect();
        let accepted = run(&arguments, MLP);
        assert_eq!(accepted.status.code(), Some(0), "{}", text(&accepted.stderr));
    }
}

#[test]
fn a_batch_that_is_not_divisible_may_be_another() {
    let program = "tests/programs/tune/mlp.shard";
    for free in [&[][..], &["--free"]] {
        let arguments = ["tune", program, "--chips", "4", "--batch", "7", "--microbatches", "2"];
        let refused = run(&[&arguments, free].concat(), "");
        let printed = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{printed}");
        assert!(printed.contains("2 microbatches do not divide `B` = 7"), "{printed}");
        assert!(printed.contains("help: ask for another --batch, a multiple of"), "{printed}");
    }
    let pinned = ["tune", program, "--chips", "4", "--dim", "B=7", "--microbatches", "2"];
    assert!(!text(&run(&pinned, "").stderr).contains("--batch"));
}

#[test]
fn what_does_not_fit_without_gradients_asks_for_no_microbatches() {
    let forward = "hardware h100\ndim B=64, D=4096\ninput x[B, D]\nparam w[D, D']\n\
        output y[B, D'] = x *D w\n";
    let output = run(&["tune", "-", "--chips", "2", "--memory", "1MB"], forward);
    let errors = text(&output.stderr);
    assert!(errors.contains("allow more --axes or a smaller --batch"), "{errors}");
    assert!(!errors.contains("--microbatches"), "{errors}");
}

#[test]
fn several_numbers_of_chips_are_a_curve() {
    let output = run(&["tune", "-", "--chips", "8..32", "--best", "1"], MLP);
    let curve = text(&output.stdout);
    let rows: Vec<&str> =
        curve.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
    assert_eq!(rows, ["8", "16", "32"], "{curve}");
    assert!(curve.contains("100.0%") && curve.contains("efficiency"), "{curve}");
    let html = run(&["tune", "-", "--chips", "8..16", "--format", "html"], MLP);
    assert_eq!(html.status.code(), Some(2), "{}", text(&html.stderr));
    assert!(text(&html.stderr).contains("text, md, csv, json"));
    assert_eq!(run(&["tune", "-", "--chips", "16..8"], MLP).status.code(), Some(2));
    for option in [&["--what-if"][..], &["--against", "tests/programs/fsdp_tp.shard"]] {
        let refused = run(&[&["tune", "-", "--chips", "8..16"], option].concat(), MLP);
        let error = text(&refused.stderr);
        assert!(error.contains(&format!("{} needs one number of --chips", option[0])), "{error}");
    }
}

#[test]
fn a_curve_has_prices_where_a_chip_hour_has_one() {
    let priced = |format: &str| {
        let output = run(
            &["tune", "-", "--chips", "8..16", "--best", "1", "--price", "2", "--format", format],
            MLP,
        );
        text(&output.stdout)
    };
    let table = priced("text");
    let head: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert!(head.ends_with(&["MFU", "per", "Mtok", "efficiency", "proven"]), "{table}");
    assert!(table.ends_with("per Mtok: the price of a million tokens\n"), "{table}");
    let records = priced("csv");
    let rows: Vec<&str> = records.lines().collect();
    assert!(rows[0].ends_with(",efficiency,price_of_million"), "{records}");
    assert!(rows[1..].iter().all(|row| !row.ends_with(',')), "{records}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_prints_the_best_so_far() {
    use std::process::{Command, Stdio};
    let command = Command::new(env!("CARGO_BIN_EXE_shardwise"))
        .args(["tune", "tests/programs/tune/mlp.shard", "--chips", "4096"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_secs(5));
    let pid = command.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().expect("kill is there");
    let output = command.wait_with_output().expect("it ends");
    let printed = text(&output.stdout) + &text(&output.stderr);
    // Nothing where it had ended before; an exit status in any case, and not the signal.
    assert!(output.status.code().is_some(), "{printed}");
    let is_answer = printed.contains("when it was stopped") || printed.contains("the search ended");
    assert!(is_answer || !sent.success() || printed.contains("nothing in this space"), "{printed}");
}

#[test]
fn chips_without_measurements_are_reported_and_tokens_have_a_price() {
    let arguments = ["tune", "-", "--chips", "4", "--hardware", "mi355x"];
    let output = run(&[&arguments[..], &["--rates", "measured", "--price", "2"]].concat(), MLP);
    let (printed, warned) = (text(&output.stdout), text(&output.stderr));
    assert!(warned.contains("SW411") && warned.contains("`mi355x`"), "{warned}");
    assert!(
        printed.contains("per Mtok") && printed.contains("the price of a million"),
        "{printed}"
    );
    let plain = run(&arguments, MLP);
    assert!(plain.stderr.is_empty() && !text(&plain.stdout).contains("Mtok"));
}

#[test]
fn numbers_that_are_none_are_asked_for_in_words() {
    let program = "tests/programs/tune/mlp.shard";
    for (option, given, wanted) in [
        ("--best", "x", "give a whole number from 1 to 65536"),
        ("--best", "0", "give a whole number from 1 to 65536"),
        ("--best", "1,2", "give a whole number from 1 to 65536\n"),
        ("--stages", "-1", "give a whole number from 1 to 65536"),
        ("--microbatches", "1,2", "from 1 to 65536, several with a `|` between them: 1|2|4"),
    ] {
        let refused = run(&["tune", program, "--chips", "8", option, given], "");
        let printed = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{printed}");
        assert!(printed.contains(wanted) && !printed.contains("digit"), "{option}: {printed}");
    }
    let seed = text(&run(&["verify", program, "--seed", "-1"], "").stderr);
    assert!(seed.contains("give a whole number from 0 to "), "{seed}");
}
