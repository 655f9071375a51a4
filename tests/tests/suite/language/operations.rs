//! The page about operations: every program on it is planned, and its plans run.

use shardwise::lint::Settings;
use shardwise::verify::{Setup, Sizes, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::properties::checked_plans;
use shardwise_tests::snapshot::plan_snapshot;
use shardwise_tests::{files, read};

#[test]
fn programs_of_operations_are_right_and_their_plans_kept() {
    for (name, source) in files("tests/programs/operations", ".shard") {
        let [planned, _] = checked_plans(&name, &source, Sizes::Scaled);
        plan_snapshot("operations", &name, &planned);
    }
}

/// The textbook's rules reduce what a statement reads whose own result nobody declares pending, and
/// nothing makes a pending maximum of a complete value.
#[test]
fn maxima_that_stay_pending_are_planned_without_the_textbook() {
    let source = "hardware tpu-v5p\nmesh X=2, Y=4\ndim B=64, D=128\ninput A[B_X, D] {max_Y}\n\
                  Shares = sigmoid(A)\nPowers = exp(Shares)\noutput Powers[B_X, D] {max_Y}\n";
    let options = Options::default();
    let planned = shardwise::plan("pending", source, &options).expect("the search finds a plan");
    assert_eq!((planned.status_name(), planned.report.comm_s.to_bits()), ("optimal", 0));
    assert!(planned.to_string().contains("the textbook's rules find no plan"), "{planned}");
    let checked = shardwise::lint::lint("pending", source, &options, &Settings::default());
    assert!(
        checked.findings.iter().all(|finding| finding.diag.code == "SW307"),
        "{:?}",
        checked.findings
    );
    let verdict = verify("pending", source, &options, &Setup::default()).expect("it is run");
    assert!(verdict.mismatch.is_none() && verdict.rules_fail, "{verdict}");
    let rules = Options { strategy: Strategy::Textbook, ..Options::default() };
    let refused = shardwise::plan("pending", source, &rules).expect_err("the rules find none");
    assert_eq!(refused.reports[0].diag.code, "SW210");
}

#[test]
fn the_programs_on_the_page_are_right() {
    let page = read("compiler/docs/operations.md");
    let blocks: Vec<&str> =
        page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 6, "the page has programs");
    for source in blocks {
        for strategy in [Strategy::Textbook, Strategy::Search] {
            let options = Options { strategy, ..Options::default() };
            let verdict = verify("operations.md", source, &options, &Setup::default())
                .unwrap_or_else(|e| panic!("{e}\n{source}"));
            assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{verdict}\n{source}");
            let planned = shardwise::plan("operations.md", source, &options)
                .unwrap_or_else(|e| panic!("{e}\n{source}"));
            let again = shardwise::plan("operations.md", &planned.to_string(), &options)
                .unwrap_or_else(|e| panic!("{e}\n{planned}"));
            assert_eq!(again.to_string(), planned.to_string());
            assert_eq!(
                shardwise::format("operations.md", &planned.plan.to_string()).ok(),
                Some(planned.plan.to_string())
            );
        }
    }
}

#[test]
fn a_normalisation_over_a_split_dimension_sends_maxima_and_sums_only() {
    for (function, reductions) in
        [("softmax", 2), ("logsumexp", 2), ("layernorm", 2), ("rmsnorm", 1)]
    {
        let result = if function == "logsumexp" { "B" } else { "B, S_X" };
        let source = format!(
            "hardware tpu-v5p\nmesh X=4\ndim B=4096, S=65536\ninput A[B, S_X]\n\
                P = {function}_S(A)\noutput P[{result}]\n"
        );
        let planned = shardwise::plan(function, &source, &Options::default())
            .unwrap_or_else(|e| panic!("{e}"));
        let json = planned.json();
        let moved: Vec<u64> = json
            .steps
            .iter()
            .filter(|step| step.kind == "all_reduce")
            .map(|step| step.local_bytes)
            .collect();
        assert_eq!(moved, vec![4096 * 2; reductions], "{planned}");
        assert!(json.steps.iter().all(|step| step.kind != "all_gather"), "{planned}");
    }
}

#[test]
fn large_numbers_do_not_overflow() {
    let source = "hardware tpu-v5p\nmesh X=2\ndim I=4\ninput A[I_X]\nP = softmax_I(A)\n\
        L = logsumexp_I(A)\noutput P[I], L[]\n";
    let program = shardwise::check("large", source, &Options::default()).program.expect(source);
    let given = [("A".to_owned(), vec![1e300, 1e300, -1e300, 0.0])].into_iter().collect();
    let values = shardwise::verify::evaluate(&program, &given).expect("all is declared");
    assert_eq!((values["P"].as_slice(), values["L"][0]), ([0.5, 0.5, 0.0, 0.0].as_slice(), 1e300));
}

#[test]
fn the_page_lists_every_function_as_its_row_says() {
    let page = read("compiler/docs/operations.md");
    let (listed, rows) = (page.lines().collect::<Vec<_>>(), shardwise_ir::functions::page());
    for row in rows.lines() {
        assert!(listed.contains(&row), "compiler/docs/operations.md lacks the line:\n{row}");
    }
    let count = |lines: &[&str]| lines.iter().filter(|line| line.starts_with("| ")).count();
    assert_eq!(count(&listed), count(&rows.lines().collect::<Vec<_>>()), "no other rows");
}

#[test]
fn an_exponential_linear_unit_is_trained_from_its_own_result() {
    let source = read("tests/programs/training/elu.shard");
    for strategy in [Strategy::Textbook, Strategy::Search] {
        let options = Options { strategy, ..Options::default() };
        let verdict = verify("elu", &source, &options, &Setup::default())
            .unwrap_or_else(|findings| panic!("{findings}"));
        assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{verdict}");
        let planned = shardwise::plan("elu", &source, &options)
            .unwrap_or_else(|findings| panic!("{findings}"))
            .to_string();
        let count = |text: &str| planned.matches(text).count();
        assert_eq!((count("expm1("), count(" + 1.0")), (1, 1), "{planned}");
    }
}

/// The arrow says what becomes what: as many names must stand on both sides.
#[test]
fn a_rename_has_as_many_new_names_as_old() {
    let codes = |subscript: &str| {
        let source = format!(
            "hardware tpu-v5p\nmesh X=2\ndim A=8, B=16, C=A, D=B\ninput x[A_X, B]\n\
                y = rename_{{{subscript}}}(x)\noutput y[C, D]\n"
        );
        let checked = shardwise::check("rename", &source, &shardwise::Options::default());
        checked.findings.reports.iter().map(|report| report.diag.code).collect::<Vec<_>>()
    };
    assert_eq!(codes("A,B->C,D"), Vec::<&str>::new());
    for wrong in ["A,B,C->D", "A->C,B,D", "A,C", "A->C,D"] {
        assert_eq!(codes(wrong), ["SW107"], "{wrong}");
    }
}

/// Equal parts of a statement are one value, and equal products between statements are.
#[test]
fn equal_parts_are_computed_once() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=64, D=128\ninput y[B_X, D], t[B_X, D]\n\
                  param W[D]\nloss = sum_{B,D}((y - t) * (y - t))\nnear = y * (y *D W)\n\
                  far = t * (y *D W)\n\
                  backward from loss\noutput loss[], near[B_X, D], far[B_X, D], dy[B_X, D]\n";
    let options = Options::default();
    let planned = shardwise::plan("equal", source, &options).expect("it has a plan");
    for part in ["] - t[", "] *D W["] {
        assert_eq!(planned.to_string().matches(part).count(), 1, "{planned}");
    }
    let verdict = verify("equal", source, &options, &Setup::default()).expect("it is run");
    assert!(verdict.mismatch.is_none(), "{verdict}");
}
