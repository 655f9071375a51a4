//! `sweep` as its users meet it: tables, CSV, JSON, plots, and the page.

use crate::command::MATMUL;
use crate::common::{blocks, root, shell, text};
use crate::run;

#[test]
fn a_sweep_is_a_row_a_point() {
    let arguments = [
        "sweep",
        "tests/programs/fsdp_tp.shard",
        "--mesh",
        "X*Y=16",
        "--dim",
        "B=1e4..1e5/3",
        "--hardware",
        "tpu-v5p,tpu-v5e",
    ];
    let table = run(&arguments, "");
    let printed = text(&table.stdout);
    assert_eq!(printed.lines().filter(|line| line.contains("X=")).count(), 30, "{printed}");
    assert_eq!(
        printed.lines().filter(|line| line.starts_with('*') && line.contains("X=")).count(),
        6,
        "{printed}"
    );
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    assert!(table.stderr.is_empty(), "no bar without a terminal");
    let csv = text(&run(&[&arguments[..], &["--format", "csv"]].concat(), "").stdout);
    assert_eq!(csv.lines().count(), 31);
    assert!(
        csv.lines().all(|line| line.replace("\"X=1, Y=16\"", "m").split(',').count() >= 22),
        "{csv}"
    );
    let json = text(&run(&[&arguments[..], &["--format", "json"]].concat(), "").stdout);
    assert!(json.contains("\"schema\": \"shardwise.sweep/1\"") && json.contains("\"links_s\""));
}

#[test]
fn a_table_in_markdown_has_the_rows_and_costs_of_the_table() {
    let arguments = ["sweep", "tests/programs/fsdp_tp.shard", "--mesh", "X=4|1048576,Y=4"];
    let of = |more: &[&str]| text(&run(&[&arguments[..], more].concat(), "").stdout);
    let printed = of(&["--format", "md"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "|  | mesh | compute | links | serial | textbook | memory | bound by |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"
        ]
    );
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    for line in &lines[..4] {
        assert_eq!(cells(line).len(), cells(lines[0]).len(), "{line}");
    }
    let table = of(&[]);
    let best = table.lines().find(|line| line.starts_with('*')).expect("one is best");
    let in_markdown = lines.iter().find(|line| line.starts_with("| \\* |")).expect("the same");
    assert!(
        cells(in_markdown)[3..8].iter().all(|cell| best.contains(cell)),
        "{best} {in_markdown}"
    );
    let refused = lines.iter().find(|line| line.contains("1048576")).expect("a row");
    assert!(refused.contains("|  |  |  |  |  | ") && refused.len() > 60, "{refused}");
    assert!(printed.contains("\n\\* least time") && of(&["--format", "markdown"]) == printed);
    let textbook = of(&["--format", "md", "--strategy", "textbook"]);
    assert!(textbook.starts_with("|  | mesh | compute | links | serial | memory |"), "{textbook}");
}

#[test]
fn a_plot_is_written_where_asked_and_without_sizes_has_a_bar_a_shape() {
    let path = std::env::temp_dir().join("shardwise-sweep.svg");
    let name = path.to_string_lossy().into_owned();
    let arguments = ["sweep", "-", "--mesh", "X=4|8", "--dim", "I=1e3..1e5", "--format", "svg"];
    assert_eq!(run(&[&arguments[..], &["-o", &name]].concat(), MATMUL).status.code(), Some(0));
    let written = std::fs::read_to_string(&path).expect("the plot is there");
    assert_eq!(written, text(&run(&arguments, MATMUL).stdout), "equal bytes, run for run");
    assert!(written.starts_with("<svg") && written.contains("communication-bound"), "{written}");
    let bars = run(&["sweep", "-", "--mesh", "X=4|8", "--format", "svg"], MATMUL);
    let drawn = text(&bars.stdout);
    assert_eq!(bars.status.code(), Some(0), "{}", text(&bars.stderr));
    assert!(drawn.contains("X=4") && drawn.contains("X=8"), "{drawn}");
    assert_eq!(
        drawn,
        text(&run(&["sweep", "-", "--mesh", "X=4|8", "--format", "svg"], MATMUL).stdout)
    );
}

/// As axes and dimensions that no program has.
#[test]
fn chips_that_are_not_known_are_errors_and_not_rows() {
    for (chips, wrong) in [
        ("tpu-v5p,tpu-v9", "`tpu-v9`, given by `--hardware`, is not known hardware"),
        ("tpu-v5p,", "nothing stands there; write chips such as tpu-v5p,tpu-v5e"),
    ] {
        let output = run(&["sweep", "tests/programs/fsdp_tp.shard", "--hardware", chips], "");
        assert_eq!(output.status.code(), Some(2), "{chips}");
        assert!(text(&output.stderr).contains(wrong), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

/// In every format, and where the rows go to a file; one point with a plan is enough.
#[test]
fn a_sweep_without_a_plan_ends_with_1() {
    let file = std::env::temp_dir().join("shardwise-sweep-without-a-plan.csv");
    let name = file.to_string_lossy().into_owned();
    let none = ["sweep", "-", "--mesh", "X=4|8", "--memory", "1KB"];
    for format in [&[][..], &["--format", "csv"], &["--format", "json"], &["-o", &name]] {
        let output = run(&[&none[..], format].concat(), MATMUL);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{format:?} {error}");
        assert!(error.contains("no point of the grid can be planned; the first: "), "{error}");
        assert_eq!(output.stdout.is_empty(), format.contains(&"-o"), "{format:?}");
    }
    let drawn = run(&[&none[..], &["--format", "svg"]].concat(), MATMUL);
    assert_eq!(drawn.status.code(), Some(1), "{}", text(&drawn.stderr));
    let some = run(&["sweep", "-", "--mesh", "X=3|4"], MATMUL);
    assert_eq!(some.status.code(), Some(0), "{}", text(&some.stderr));
}

/// Its hardware is that of the others, and no column of its own.
#[test]
fn a_point_that_is_not_legal_has_the_hardware_of_its_program() {
    let odd = MATMUL.replace("I=64, J=64", "I=64, J=36");
    let arguments = ["sweep", "-", "--mesh", "X=4|8"];
    let table = text(&run(&arguments, &odd).stdout);
    assert!(table.contains("cannot be split 8 ways") && !table.contains("hardware"), "{table}");
    let json = text(&run(&[&arguments[..], &["--format", "json"]].concat(), &odd).stdout);
    assert_eq!(json.matches("\"hardware\": \"tpu-v5p\"").count(), 2, "{json}");
}

/// A figure of the page is compared with what the command prints without `-o`.
#[test]
fn the_page_shows_what_the_command_writes() {
    let page =
        std::fs::read_to_string(root().join("compiler/docs/sweep.md")).expect("the page is there");
    let blocks = blocks(&page);
    assert_eq!(blocks.iter().filter(|(language, _)| language == "sh").count(), 4);
    for (number, (_, command)) in
        blocks.iter().enumerate().filter(|(_, (language, _))| language == "sh")
    {
        let (command, file) = command
            .trim()
            .split_once(" -o ")
            .map_or((command.trim(), None), |(command, file)| (command, Some(file)));
        let shown = file.map_or_else(
            || blocks[number + 1].1.clone(),
            |file| std::fs::read_to_string(root().join(file)).expect("the figure is there"),
        );
        assert_eq!(shell(&root(), command).trim_end(), shown.trim_end(), "{command}");
    }
}

#[test]
fn chips_without_measurements_are_reported_once_and_tokens_have_a_price() {
    let layer = "hardware h100\nmesh X=4\ndim B=512, D=1024, F=4096\ninput x[B_X, D]\n\
        param w[D, F]\noutput y[B_X, F] = x *D w\n";
    let arguments = ["sweep", "-", "--hardware", "h100,mi355x", "--dim", "B=512|1024"];
    let measured = [&arguments[..], &["--rates", "measured", "--price", "2.5"]].concat();
    let output = run(&measured, layer);
    let (printed, warned) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(warned.matches("SW411").count(), 2, "a warning and its page: {warned}");
    assert!(warned.contains("`mi355x` has no measured rates"), "{warned}");
    assert!(
        printed.contains("per Mtok") && printed.contains("the price of a million"),
        "{printed}"
    );
    let json = text(&run(&[&measured[..], &["--format", "json"]].concat(), layer).stdout);
    assert_eq!(json.matches("price_of_million").count(), 4, "{json}");
    let plain = run(&arguments, layer);
    assert!(plain.stderr.is_empty() && !text(&plain.stdout).contains("Mtok"));
}
