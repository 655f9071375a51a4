//! Training: forward programs and `backward`, against the founding texts' plans, gathers that are
//! made again included.

use shardwise::verify::{Setup, Sizes, verify};
use shardwise::{Options, Pass, Strategy};
use shardwise_tests::properties::checked_plans;
use shardwise_tests::{files, read, statements};

fn textbook() -> Options {
    Options { strategy: Strategy::Textbook, ..Options::default() }
}

#[test]
fn the_textbook_plans_are_the_books_statement_for_statement() {
    for (name, expected) in files("tests/programs/training", ".plan") {
        let source = read(&format!("tests/programs/training/{name}.shard"));
        let planned = shardwise::plan(&name, &source, &textbook())
            .unwrap_or_else(|e| panic!("{name}: {e}"))
            .to_string();
        assert_eq!(statements(&planned), statements(&expected), "{name}");
    }
}

#[test]
fn the_search_is_never_costlier() {
    for (name, source) in files("tests/programs/training", ".shard") {
        let found = shardwise::plan(&name, &source, &Options::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            found.report.serial_s <= found.textbook.serial_s * (1.0 + 1e-12),
            "{name}: {found}"
        );
    }
}

#[test]
fn every_plan_is_right_and_planned_again_the_same() {
    for (name, source) in files("tests/programs/training", ".shard") {
        for strategy in [Strategy::Search, Strategy::Textbook] {
            let options = Options { strategy, ..Options::default() };
            let verdict = verify(&name, &source, &options, &Setup::default())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
            let once = shardwise::plan(&name, &source, &options)
                .unwrap_or_else(|e| panic!("{name}: {e}"))
                .to_string();
            let twice = shardwise::plan(&name, &once, &Options::default())
                .unwrap_or_else(|e| panic!("{name}: {e}\n{once}"));
            assert_eq!(once, twice.to_string(), "{name}");
        }
    }
}

#[test]
fn the_derived_program_is_a_program() {
    for (name, source) in files("tests/programs/training", ".shard") {
        let derived = shardwise::check(&name, &source, &Options::default())
            .program
            .unwrap_or_else(|| panic!("{name}"));
        let printed = derived.to_string();
        let again = shardwise::check(&name, &printed, &Options::default());
        let read = again.program.unwrap_or_else(|| panic!("{name}: {}\n{printed}", again.findings));
        assert!(shardwise_ir::print::same(&derived, &read), "{name}: {printed}");
    }
}

/// The `text` blocks of a pass's doc comment.
fn blocks(path: &str) -> Vec<String> {
    let source = read(path);
    let docs: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    docs.join("\n")
        .split("```text\n")
        .skip(1)
        .filter_map(|block| block.split("```").next().map(str::to_owned))
        .collect()
}

#[test]
fn the_pass_does_what_its_comment_says() {
    let [before, after] = &blocks("passes/src/training/gradient.rs")[..] else {
        panic!("a program before and one after")
    };
    let head = "hardware tpu-v5p\nmesh X=1\ndim B=8, D=8, F=8\n";
    let derived = shardwise::print_after(
        "comment",
        &format!("{head}{before}"),
        &Options::default(),
        Pass::Gradient,
    )
    .expect("it is right");
    let body = |text: &str| {
        text.lines()
            .filter(|line| line.contains(" = ") || line.starts_with("output"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(body(&derived), body(after));
    let resolved = shardwise::print_after(
        "comment",
        &format!("{head}{before}"),
        &Options::default(),
        Pass::Resolve,
    )
    .expect("it is right");
    assert!(resolved.ends_with("backward from Out given dOut\n"), "{resolved}");
}

#[test]
fn gathering_again_saves_memory() {
    let peak = |path: &str| {
        shardwise::plan(path, &read(path), &textbook())
            .unwrap_or_else(|e| panic!("{path}: {e}"))
            .report
            .memory
            .peak_bytes
    };
    assert!(
        peak("tests/programs/training/p5-fsdp.shard") < peak("tests/programs/book/p5-fsdp.shard")
    );
}

#[test]
fn partial_gradients_are_added_before_they_are_reduced() {
    let path = "tests/programs/training/fan-out-partial.shard";
    let plan = shardwise::plan(path, &read(path), &Options::default())
        .unwrap_or_else(|e| panic!("{path}: {e}"))
        .to_string();
    assert!(plan.contains("dIn[B, D] {U_Y} = dIn.1[B, D] {U_Y} + dIn.2[B, D] {U_Y}"), "{plan}");
    let source = "hardware tpu-v5p\nmesh Y=8\ndim B=4096, F=4096\ninput x[B, F], dy[B, F] {U_Y}\n\
        param W[F]\ny = gelu(x * W)\nbackward from y given dy\n";
    let plan = shardwise::plan("partial", source, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"))
        .to_string();
    assert!(
        plan.contains("dgelu(y.1[B, F], dy[B, F] {U_Y})"),
        "a partial gradient passes through a derivative:\n{plan}"
    );
}

/// A layer of products in fp8 with wider accumulation, and what follows `backward`.
fn in_fp8(more: &str) -> String {
    format!(
        "hardware h100\nmesh X=1\ndim B=16384, D=4096, F=8192\ninput x[B, D], dh[B, F]\n\
         param w[D, F]\na: fp8[B, D] = x\nw8: fp8[D, F] = w\nh: f32[B, F] = a *D w8\n\
         backward from h given dh{more}\noutput dx[B, D]\n"
    )
}

#[test]
fn gradients_of_products_in_fp8_are_products_in_fp8_of_wider_results() {
    let planned = |source: &str| {
        shardwise::plan("fp8", source, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
    };
    let plan = planned(&in_fp8(""));
    let text = plan.to_string();
    for statement in [
        "dh.1: fp8[B, F] = copy(dh[B, F])",
        "dw: bf16[D, F] = a[B, D] *B dh.1[B, F]",
        "dx: bf16[B, D] = dh.1[B, F] *F w8[D, F]",
    ] {
        assert!(text.contains(statement), "{statement}\n{text}");
    }
    assert!(planned(&in_fp8(", gradients=f32")).to_string().contains("dw: f32[D, F] = a[B, D]"));
    let products: Vec<f64> =
        plan.json().steps.iter().filter(|step| step.flops > 1e12).map(|step| step.time_s).collect();
    assert!(products.len() == 3 && products.iter().all(|&s| s <= products[0] * 1.01), "{text}");
    let in_bf16 = in_fp8("").replace("fp8", "bf16").replace("f32", "bf16");
    let wide_s = planned(&in_bf16).report.serial_s;
    assert!(plan.report.serial_s < 0.75 * wide_s, "{} {wide_s}", plan.report.serial_s);
    // A gradient that several uses add up is no fp8 either, and the plan of it is a program.
    let twice = "hardware h100\nmesh X=2\ndim B=1024, D=512, F=512\ninput x[B_X, D], dy[B_X, F]\n\
        param w1[D, F], w2[D, F]\na: fp8[B, D] = x\nv1: fp8[D, F] = w1\nv2: fp8[D, F] = w2\n\
        u: bf16[B, F] = a *D v1\nv: bf16[B, F] = a *D v2\ny = u * v\n\
        backward from y given dy\noutput dx[B, D]\n";
    let plan = planned(twice).to_string();
    let is_gradient = |line: &&str| line.starts_with("dx") || line.starts_with("dw");
    assert!(plan.lines().filter(is_gradient).all(|line| !line.contains(": fp8")), "{plan}");
    assert_eq!(statements(&planned(&plan).to_string()), statements(&plan));
    checked_plans("fp8", twice, Sizes::Scaled);
}
