//! Properties that every plan has.

use shardwise::{Objective, Options, Planned};
use shardwise_tests::planning::searched;
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read, statements};

/// Larger programs than those of the book.
const LARGER: [&str; 3] = ["fsdp_tp", "mlp-2d", "mlp-3d"];

/// The programs of the book, and the larger ones.
fn everything() -> Vec<(String, String)> {
    let larger =
        LARGER.map(|name| (name.to_owned(), read(&format!("tests/programs/{name}.shard"))));
    files("tests/programs/book", ".shard").into_iter().chain(larger).collect()
}

#[test]
fn the_whole_is_the_sum_of_its_steps() {
    for (name, source) in everything() {
        let json = shardwise::plan(&name, &source, &Options::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"))
            .json();
        let sum: f64 = json.steps.iter().map(|step| step.time_s).sum();
        assert!((sum - json.cost.serial_s).abs() <= 1e-12 * sum, "{name}");
        assert!(
            (json.cost.comm_s + json.cost.compute_s - json.cost.serial_s).abs() <= 1e-12 * sum,
            "{name}"
        );
        assert!(json.cost.overlap_s <= json.cost.scheduled_s * (1.0 + 1e-12), "{name}");
        assert!(json.cost.scheduled_s <= json.cost.serial_s * (1.0 + 1e-12), "{name}");
    }
}

#[test]
fn a_plan_passes_check_and_formats_to_itself() {
    let folders = ["microbatches", "optimizer", "pipelines", "training"];
    let more = folders.iter().flat_map(|name| files(&format!("tests/programs/{name}"), ".shard"));
    for (name, source) in everything().into_iter().chain(more) {
        let plan = shardwise::plan(&name, &source, &Options::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"))
            .to_string();
        let checked =
            shardwise::check(&name, &plan, &Options { explicit: true, ..Options::default() });
        assert!(checked.findings.is_empty(), "{name}: {}\n{plan}", checked.findings);
        assert_eq!(shardwise::format(&name, &plan).expect(&name), plan, "{name}");
    }
}

#[test]
fn printing_and_reading_a_program_changes_nothing() {
    for (name, source) in everything() {
        let program = shardwise::check(&name, &source, &Options::default())
            .program
            .unwrap_or_else(|| panic!("{name}"));
        let printed = program.to_string();
        let again = shardwise::check(&name, &printed, &Options::default())
            .program
            .unwrap_or_else(|| panic!("{name}: {printed}"));
        assert!(shardwise_ir::print::same(&program, &again), "{name}: {printed}");
    }
}

#[test]
fn declarations_between_statements_change_nothing() {
    let header = "hardware tpu-v5p\nmesh X=2\ndim I=8\n";
    let read = |body: &str| {
        shardwise::check("x", &format!("{header}{body}"), &Options::default()).program.expect(body)
    };
    let between = read(
        "input A[I]\nB = tanh(A)\ninput C[I_X]\nD = B + C\noutput D[I]\nassert C stays sharded",
    );
    let before = read(
        "input A[I]\ninput C[I_X]\nB = tanh(A)\nD = B + C\noutput D[I]\nassert C stays sharded",
    );
    assert!(shardwise_ir::print::same(&between, &before), "{between}\n{before}");
}

#[test]
fn formatting_is_idempotent_and_keeps_the_meaning() {
    for (name, source) in everything() {
        let once = shardwise::format(&name, &source).expect(&name);
        assert_eq!(shardwise::format(&name, &once).expect(&name), once, "{name}");
        let before = shardwise::check(&name, &source, &Options::default()).program.expect(&name);
        let after = shardwise::check(&name, &once, &Options::default()).program.expect(&name);
        assert!(shardwise_ir::print::same(&before, &after), "{name}: {once}");
    }
}

#[test]
fn each_objective_is_best_at_its_own() {
    for (name, source) in everything() {
        let by = |objective| {
            shardwise::plan(&name, &source, &Options { objective, ..Options::default() })
                .unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        let (serial, comm, overlap) =
            (by(Objective::Serial), by(Objective::Comm), by(Objective::Overlap));
        for other in [&serial, &comm] {
            assert!(
                overlap.report.overlap_s <= other.report.overlap_s * (1.0 + 1e-9),
                "{name}: {overlap}\n{other}"
            );
            assert!(
                overlap.lower_bound_s() <= other.report.overlap_s * (1.0 + 1e-9),
                "{name}: {overlap}\n{other}"
            );
        }
        let scheduled = by(Objective::Scheduled);
        let makespan_s = |planned: &Planned| planned.report.schedule.makespan_s;
        for other in [&serial, &comm, &overlap] {
            assert!(makespan_s(&scheduled) <= makespan_s(other) * (1.0 + 1e-9), "{name}: {other}");
            assert!(
                scheduled.lower_bound_s() <= makespan_s(other) * (1.0 + 1e-9),
                "{name}: {scheduled}\n{other}"
            );
        }
        assert!(serial.report.serial_s <= comm.report.serial_s * (1.0 + 1e-12), "{name}");
        assert!(comm.report.comm_s <= serial.report.comm_s * (1.0 + 1e-12) + 1e-15, "{name}");
    }
}

#[test]
fn the_searched_plans_are_these() {
    for (name, source) in everything() {
        let planned = shardwise::plan(&name, &source, &Options::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let folder = if LARGER.contains(&name.as_str()) { "" } else { "book" };
        plan_snapshot(folder, &name, &planned);
    }
}

/// The statements of a plan with every word of `words` replaced.
fn renamed(text: &str, words: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out += words.iter().find(|(from, _)| *from == word).map_or(word, |(_, to)| to);
        let gap = after.find(|c: char| c.is_alphanumeric()).unwrap_or(after.len());
        out += &after[..gap];
        rest = &after[gap..];
    }
    out
}

#[test]
fn renaming_changes_nothing_but_names() {
    let names = [
        ("In", "zeta"),
        ("Win", "b"),
        ("Wout", "a"),
        ("Tmp", "Q"),
        ("Out", "out2"),
        ("dOut", "m"),
        ("dWin", "n"),
        ("dWout", "o"),
        ("dTmp", "p"),
        ("dIn", "q"),
        ("B", "Tok"),
        ("D", "Zz"),
        ("F", "Aa"),
    ];
    for program in [
        "tests/programs/mlp-2d.shard",
        "tests/programs/mlp-3d.shard",
        "tests/programs/fsdp_tp.shard",
        "tests/programs/book/p5-fsdp.shard",
    ] {
        let source = read(program);
        let plan = |source: &str| {
            shardwise::plan("x", source, &Options::default())
                .unwrap_or_else(|e| panic!("{program}: {e}"))
                .plan
                .to_string()
        };
        assert_eq!(renamed(&plan(&source), &names), plan(&renamed(&source, &names)), "{program}");
    }
}

#[test]
fn reordering_independent_statements_changes_nothing_but_their_order() {
    for program in ["tests/programs/mlp-2d.shard", "tests/programs/mlp-3d.shard"] {
        let source = read(program);
        let (first, second) = ("dWout = Tmp *B dOut\n", "dTmp = dOut *D Wout\n");
        let swapped = source.replace(&format!("{first}{second}"), &format!("{second}{first}"));
        assert_ne!(source, swapped);
        let plan = |source: &str| {
            let planned = shardwise::plan("x", source, &Options::default())
                .unwrap_or_else(|e| panic!("{program}: {e}"));
            let mut lines = shardwise_tests::statements(&planned.to_string());
            lines.sort();
            lines
        };
        assert_eq!(plan(&source), plan(&swapped), "{program}");
    }
}

/// `T` is gathered to where its author wants it, and what it was before that is read on: nothing is
/// cut out of it on the way there.
#[test]
fn materializations_on_the_path_to_the_declared_sharding_are_reused() {
    let source = "hardware tpu-v5p\nmesh X=4, Y=3\ndim J=4800, K=96\nparam A[J_X, K] {max_Y}\n\
        T[J, K] = abs(A)\nS = T + A\noutput S[J_XY, K]\n";
    let planned = searched(source).to_string();
    let of_t: Vec<String> =
        statements(&planned).into_iter().filter(|statement| statement.starts_with("T[")).collect();
    assert_eq!(
        of_t,
        ["T[J_XY, K] = abs(A[J_XY, K])", "T[J, K] = AllGather_XY(T[J_XY, K])"],
        "{planned}"
    );
}
