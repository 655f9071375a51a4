//! Every plan computes what the unsharded program computes: the compiler's own, the book's, and
//! those written by hand.

use shardwise::verify::{Setup, Sizes, against, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::snapshot::snapshot;
use shardwise_tests::{files, read, statements};

fn is_right(name: &str, source: &str) {
    for strategy in [Strategy::Search, Strategy::Textbook] {
        let options = Options { strategy, ..Options::default() };
        let verdict = verify(name, source, &options, &Setup::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
    }
}

#[test]
fn plans_of_the_programs_of_the_book_are_right() {
    for folder in ["tests/programs/book", "tests/programs/book/alternatives"] {
        for (name, source) in files(folder, ".shard") {
            is_right(&name, &source);
        }
    }
}

#[test]
fn plans_of_the_larger_programs_are_right() {
    let programs = [
        "tests/programs/collective-matmul.shard",
        "tests/programs/fsdp_tp.shard",
        "tests/programs/mlp-2d.shard",
        "tests/programs/mlp-3d.shard",
        "tests/programs/renamed-padded.shard",
    ];
    for path in programs {
        is_right(path, &read(path));
    }
}

/// The declarations of a program around the statements of a plan.
fn with_statements(program: &str, plan: &str) -> String {
    let declares = |line: &&str| {
        ["hardware", "mesh", "dim", "input", "param", "state"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let outputs = program.lines().filter(|line| line.starts_with("output"));
    let lines = ["plan"].into_iter().chain(program.lines().filter(declares));
    let statements = statements(plan);
    lines.chain(statements.iter().map(String::as_str)).chain(outputs).collect::<Vec<_>>().join("\n")
}

#[test]
fn plans_as_the_book_prints_them_are_right() {
    for (name, source) in files("tests/programs/book", ".shard") {
        let plan = with_statements(&source, &read(&format!("tests/programs/book/{name}.plan")));
        let verdict =
            against((&name, &plan), (&name, &source), &Options::default(), &Setup::default());
        let verdict = verdict.unwrap_or_else(|e| panic!("{name}: {e}\n{plan}"));
        assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
    }
}

#[test]
fn searched_plans_that_are_kept_as_snapshots_are_right() {
    let searched = ["tests/programs/book", "tests/programs"]
        .into_iter()
        .flat_map(|folder| files(folder, ".snap").into_iter().map(move |kept| (folder, kept)));
    for (folder, (name, snapshot)) in searched {
        let plan = snapshot
            .rsplit(
                "---
",
            )
            .next()
            .unwrap_or_default();
        let source = read(&format!("{folder}/{name}.shard"));
        let verdict =
            against((&name, plan), (&name, &source), &Options::default(), &Setup::default());
        let verdict = verdict.unwrap_or_else(|e| panic!("{name}: {e}\n{plan}"));
        assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
    }
}

#[test]
fn plans_written_by_hand_are_refused_or_found_wrong() {
    let sketch = read("tests/programs/explicit/mlp.sketch");
    for (name, source) in files("tests/programs/explicit", ".shard") {
        let file = format!("{name}.shard");
        let checked = shardwise::check(&file, &source, &Options::default());
        let (by, message) = if checked.findings.has_errors() {
            ("check", shardwise_tests::drawn(&checked.findings))
        } else {
            let verdict = against(
                (&file, &source),
                ("mlp.sketch", &sketch),
                &Options::default(),
                &Setup::default(),
            );
            let verdict = verdict.unwrap_or_else(|e| panic!("{name}: {e}"));
            (if verdict.mismatch.is_some() { "verify" } else { "nobody" }, format!("{verdict}\n"))
        };
        assert!(
            source.contains(&format!("# noticed by: {by}\n")),
            "{name} is noticed by {by}: {message}"
        );
        snapshot("explicit", &name, &message);
    }
}

#[test]
fn a_plan_of_another_program_is_not_run() {
    let (plan, sketch) =
        (read("tests/programs/explicit/right.shard"), read("tests/programs/explicit/mlp.sketch"));
    let other = plan.replace("D=1024", "D=2048").replace("In", "Input");
    let findings =
        against(("plan", &other), ("sketch", &sketch), &Options::default(), &Setup::default())
            .expect_err("sizes and names differ");
    let codes: Vec<&str> = findings.reports.iter().map(|report| report.diag.code).collect();
    assert_eq!(codes, ["SW504", "SW504"], "{findings}");
}

/// A plan computes every value and loses what the program keeps of it.
#[test]
fn a_plan_leaves_what_its_program_leaves() {
    let sketch = "hardware tpu-v5p\nmesh X=4\ndim B=64, D=16, F=32\n\
        input x[B_X, D], t[B_X, F]\nparam W[D, F_X]\n\
        Loss: f32[] = mean_{B,F}(square(x *D W - t))\nbackward from Loss\noptimizer sgd\n\
        output Loss[]\n";
    let plan = shardwise::plan("p", sketch, &Options::default()).expect("it plans").to_string();
    let lines =
        |keeps: fn(&&str) -> bool| plan.lines().filter(keeps).collect::<Vec<_>>().join("\n");
    let unchanged = plan.replace("= W.new", "= W");
    for (plan, missing) in [
        (plan.clone(), None),
        (lines(|line| !line.starts_with("next")), Some("the program has `next W = W.new`")),
        (unchanged, Some("the program has `next W = W.new`")),
        (lines(|line| *line != "output Loss[]"), Some("`Loss` leaves the program")),
    ] {
        let run =
            against(("plan", &plan), ("sketch", sketch), &Options::default(), &Setup::default());
        match (run, missing) {
            (Ok(verdict), None) => assert!(verdict.mismatch.is_none(), "{verdict}"),
            (Err(findings), Some(missing)) => {
                assert_eq!(findings.reports.len(), 1, "{findings}");
                assert_eq!(findings.reports[0].diag.code, "SW504");
                assert!(findings.reports[0].diag.message.contains(missing), "{findings}");
            }
            (run, missing) => panic!("{missing:?}: {run:?}\n{plan}"),
        }
    }
}

#[test]
fn a_plan_is_run_against_a_program_on_the_same_axes_and_parts() {
    let program = |mesh: &str, axis: &str| {
        format!(
            "hardware tpu-v5e\nmesh {mesh}\ndim B=64, K=8\ninput A[B_{axis}, K]\noutput A[B, K]"
        )
    };
    let planned = |mesh: &str, axis: &str| {
        let source = program(mesh, axis);
        shardwise::plan("p", &source, &Options::default()).expect("it plans").to_string()
    };
    let run = |plan: &str, sketch: &str| {
        let found =
            against(("plan", plan), ("sketch", sketch), &Options::default(), &Setup::default());
        found.map(|verdict| assert!(verdict.mismatch.is_none(), "{verdict}"))
    };
    let in_parts = planned("X=16 as 8x2", "X.0");
    run(&in_parts, &program("X=16 as 8x2", "X.0")).expect("the same mesh");
    run(&in_parts, &program("X=16", "X.0")).expect("a program that leaves the parts open");
    run(&planned("X=16", "X"), &program("X=8", "X")).expect("another size");
    for (plan, mesh, axis) in [
        (&in_parts, "X=16 as 2x8", "X.0"),
        (&planned("X=16", "X"), "X=16 as 8x2", "X.0"),
        (&planned("X=16", "X"), "Y=16", "Y"),
    ] {
        let findings = run(plan, &program(mesh, axis)).expect_err(mesh);
        assert_eq!(findings.reports[0].diag.code, "SW504", "{findings}");
        assert!(findings.to_string().contains(mesh), "{findings}");
    }
}

#[test]
fn the_same_numbers_at_full_size_and_from_another_seed() {
    let source = read("tests/programs/book/p3-c1e.shard").replace("8192", "64");
    for (sizes, seed) in [(Sizes::Full, 1), (Sizes::Full, 77), (Sizes::Scaled, 77)] {
        let verdict = verify(
            "small",
            &source,
            &Options::default(),
            &Setup { sizes, seed, ..Setup::default() },
        )
        .expect("it can be planned");
        assert!(verdict.mismatch.is_none() && verdict.tolerance == 0.0, "{verdict}");
        assert_eq!(verdict.scaled, sizes == Sizes::Scaled, "{verdict}");
    }
}

#[test]
fn progress_is_reported_after_every_statement() {
    let reported = std::cell::RefCell::new(Vec::new());
    let progress = |done: usize, all: usize| reported.borrow_mut().push((done, all));
    let verdict = verify(
        "mlp",
        &read("tests/programs/mlp-2d.shard"),
        &Options::default(),
        &Setup { progress: &progress, ..Setup::default() },
    );
    let statements = verdict.expect("it can be planned").statements;
    assert_eq!(
        *reported.borrow(),
        (1..=statements).map(|done| (done, statements)).collect::<Vec<_>>()
    );
}

#[test]
fn a_roll_may_turn_its_dimensions_around() {
    let source = "hardware tpu-v5p\nmesh X=2\ndim K=48, L=48, U=8\ninput A[U, K_X, L]\n\
        B[K_X, L, U] = roll_K(A)\noutput B[K, L, U]\n";
    is_right("roll", source);
}

/// A batch of microbatches is split otherwise than they are: its size at which the plan is run has
/// to satisfy both.
#[test]
fn microbatches_are_run_at_sizes_that_all_splits_divide() {
    let source = |mesh: &str, dims: &str, table: &str, function: &str| {
        format!(
            "hardware h100\nmesh {mesh}\ndim {dims}\ninput in1[D, G]\nparam w5[{table}]\n\
                input ids6: int32[D_X]\ninput gv4[D, G]\nv3 = {function}(in1)\n\
                v4 = take_B(w5, ids6)\nbackward from v4 given gv4, microbatches=4\n\
                output v3[D_Y, G]\n"
        )
    };
    is_right("split-more", &source("X=4, Y=8", "D=48, B=8, G=16", "B, G", "gelu"));
    is_right("split-table", &source("X=2, Y=8", "D=48, B=64, G=4096", "B, G_X", "exp"));
}

/// Ten sizes that tell ten dimensions apart are far more elements than ten times two.
#[test]
fn many_small_dimensions_are_run_as_they_are() {
    let dims = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"];
    let sizes = dims.map(|dim| format!("{dim}=2")).join(", ");
    let rest = dims[2..].join(", ");
    let source = format!(
        "hardware tpu-v5p\nmesh X=2, Y=2\ndim {sizes}\ninput t[A_X, B_Y, {rest}]\n\
            s = softmax_A(t)\noutput s[A, B_X, {rest}]\n"
    );
    is_right("many", &source);
}

/// Fourteen dimensions of four elements are too many for any size: samples notice what is wrong.
#[test]
fn what_is_too_large_to_be_run_whole_is_run_in_samples() {
    let source = |function: &str| {
        let rest = "E, F, G, H, I, J, K, L, M, N";
        let sizes = format!("A, B, C, D, {rest}").replace(',', "=4,") + "=4";
        format!(
            "hardware h100\nmesh X=2, Y=2\ndim {sizes}\ninput a[A_X, B, C, D, {rest}]\n\
                s = {function}(gelu(a))\noutput s[A, B_X, C, D_Y, {rest}]\n"
        )
    };
    let (options, setup) = (Options::default(), Setup::default());
    let right = source("softmax_B");
    let verdict = verify("samples", &right, &options, &setup).expect("samples are small enough");
    assert!(verdict.mismatch.is_none() && verdict.samples >= 8, "{verdict}");
    assert!(verdict.to_string().contains("too large to be run whole"), "{verdict}");
    let plan = shardwise::plan("samples", &right, &options).expect("it is planned").to_string();
    let other = source("softmax_C");
    let verdict =
        against(("plan", &plan), ("sketch", &other), &options, &setup).expect("it is run");
    assert!(verdict.mismatch.is_some(), "{verdict}");
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim I=8192, J=8192, K=8192\n\
        input A[I, J_X], B[J_X, K]\nC = A *J B\noutput C[I, K_X]\n";
    let full = Setup { sizes: Sizes::Full, ..Setup::default() };
    let refused = verify("large", source, &Options::default(), &full)
        .expect_err("half a terabyte of products");
    assert_eq!(
        refused.reports.iter().map(|report| report.diag.code).collect::<Vec<_>>(),
        ["SW506"]
    );
    let smaller = source.replace("8192", "64");
    assert!(
        verify("small", &smaller, &Options::default(), &full)
            .expect("small enough")
            .mismatch
            .is_none()
    );
}

#[test]
fn one_statement_and_one_device_are_no_plural() {
    let source = "hardware h100\nmesh X=1\ndim I=4\ninput a[I]\noutput b[I] = gelu(a)\n";
    let verdict = verify("one", source, &Options::default(), &Setup::default());
    let verdict = verdict.expect("the program is right").to_string();
    assert!(verdict.contains(" 1 statement on 1 device ("), "{verdict}");
}

#[test]
fn what_would_take_minutes_is_refused() {
    let chain = |count: usize| {
        let statements = (0..count).map(|i| format!("v{} = gelu(v{i})\n", i + 1));
        statements.collect::<String>() + &format!("output v{count}[I]\n")
    };
    let layers = "repeat L=1000000000 {\ncarry v0\nv0 = gelu(v0)\n}\noutput v0[I]\n".to_owned();
    let cases = [
        ("elements at once", 1_000_003, chain(30), Sizes::Scaled),
        ("operations in all", 60_013, chain(60), Sizes::Scaled),
        ("statements", 2, layers, Sizes::Full),
    ];
    for (limit, devices, statements, sizes) in cases {
        let header = format!("hardware h100\nmesh X={devices}\ndim I=4\ninput v0[I]\n");
        let setup = Setup { sizes, ..Setup::default() };
        let source = header + &statements;
        let refused = verify("large", &source, &Options::default(), &setup).expect_err(limit);
        assert!(refused.to_string().contains(limit), "{refused}");
    }
}

/// Data meet the numbers that they are compared with, and exceed those that limit them.
#[test]
fn plans_that_compare_with_another_number_are_wrong() {
    let declared = "hardware h100
mesh X=2
dim B=8
input t: int32[B_X], x: f32[B_X]
";
    let program = format!(
        "{declared}small[B_X] = minimum(x, 6.0)
output y[B_X] = select(t == 3, small, 0.0)
"
    );
    let plan = |number: u8, limit: f64| {
        format!(
            "plan
{declared}same[B_X] = equal(t[B_X], {number})
small[B_X] = minimum(x[B_X], {limit})
y[B_X] = select(same[B_X], small[B_X], 0.0)
output y[B_X]
"
        )
    };
    for sizes in [Sizes::Scaled, Sizes::Full] {
        let setup = Setup { sizes, ..Setup::default() };
        let is_right = |number: u8, limit: f64| {
            let verdict = against(
                ("a plan", &plan(number, limit)),
                ("a program", &program),
                &Options::default(),
                &setup,
            );
            verdict.unwrap_or_else(|e| panic!("{number}: {e}")).mismatch.is_none()
        };
        assert!(is_right(3, 6.0));
        assert!(!is_right(4, 6.0) && !is_right(5, 6.0));
        // Of two elements none may be above five.
        assert!(sizes == Sizes::Scaled || !is_right(3, 5.0));
    }
}

/// Small sizes keep apart what a plan cuts and shifts at another place than the program.
#[test]
fn plans_that_cut_and_shift_elsewhere_are_wrong() {
    let declared = "hardware h100
mesh X=2
dim B=8, T=64, D=4, P=8
input x[B_X, T, D]
";
    let program = format!(
        "{declared}r[B_X, T, D] = roll_T(x, 5)
s[B_X, P, D] = slice_{{T->P}}(x, 3)
output r[B_X, T, D], s[B_X, P, D]
"
    );
    let plan = |by: u64, start: u64| {
        format!(
            "plan
{declared}r[B_X, T, D] = roll_T(x[B_X, T, D], {by})
s[B_X, P, D] = slice_{{T->P}}(x[B_X, T, D], {start})
output r[B_X, T, D], s[B_X, P, D]
"
        )
    };
    let is_right = |by: u64, start: u64| {
        let (plan, options, setup) = (plan(by, start), Options::default(), Setup::default());
        let verdict = against(("a plan", &plan), ("a program", &program), &options, &setup);
        verdict.unwrap_or_else(|e| panic!("{by} {start}: {e}")).mismatch.is_none()
    };
    assert!(is_right(5, 3));
    assert!(!is_right(7, 3) && !is_right(63, 3) && !is_right(5, 4) && !is_right(5, 55));
}
