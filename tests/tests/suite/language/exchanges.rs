//! Axes of several dimensions that are moved in one exchange, an AllToAll.

use shardwise::verify::{Setup, execute};
use shardwise::{Options, Strategy};
use shardwise_tests::mutants::mutants;
use shardwise_tests::planning::{refused, seconds};
use shardwise_tests::{close, files, read};

const HEAD: &str = "hardware tpu-v5p\nmesh X=4, Y=4\ndim I=4096, J=4096, K=4096";

/// The programs in which such an exchange pays.
fn programs() -> Vec<(String, String)> {
    let mut found = files("tests/programs/operations", ".shard");
    found.retain(|(name, _)| name.starts_with("exchange-"));
    assert!(found.len() >= 3, "there are programs");
    found
}

/// The cheapest plan, whatever the memory.
fn planned(source: &str) -> shardwise::Planned {
    let options = Options { memory: Some(f64::INFINITY), ..Options::default() };
    shardwise::plan("exchange", source, &options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

#[test]
fn programs_are_planned_with_one_exchange_over_both_axes() {
    for (name, source) in programs() {
        let plan = planned(&source);
        let over_both =
            |step: &shardwise::json::StepJson| step.kind == "all_to_all" && step.axes.len() == 2;
        assert!(plan.json().steps.iter().any(over_both), "{name}: {plan}");
        assert_eq!(plan.status_name(), "optimal", "{name}");
    }
}

#[test]
fn an_exchange_over_two_axes_of_a_torus_takes_as_long_as_a_move_over_one() {
    let one = seconds(HEAD, "[I_X, J, K_Y]", "[I, J_X, K_Y]");
    for (from, to) in [
        ("[I_X, J_Y, K]", "[I, J, K_XY]"),
        ("[I_X, J_Y, K]", "[I, J, K_YX]"),
        ("[I_XY, J, K]", "[I, J_X, K_Y]"),
        ("[I_XY, J, K]", "[I, J_YX, K]"),
    ] {
        assert!(close(seconds(HEAD, from, to), one), "{from} to {to}");
    }
}

#[test]
fn a_dimension_that_gives_and_receives_axes_takes_two_steps() {
    for (from, to) in [("[I_X, J_Y, K]", "[I, J_X, K_Y]"), ("[I_X, J, K]", "[I_Y, J_X, K]")] {
        refused(&format!("{HEAD}\ninput A{from}\nB{to} = AllToAll(A)\noutput B{to}\n"), "SW209");
    }
}

#[test]
fn moves_are_written_with_arrows_and_read_again() {
    for (from, written, to) in [
        ("[I_X, J_Y, K]", "AllToAll_{XY,K}", "[I, J, K_XY]"),
        ("[I_XY, J, K]", "AllToAll_{X->J,Y->K}", "[I, J_X, K_Y]"),
        ("[I_XY, J, K]", "AllToAll_{Y->J,X->K}", "[I, J_Y, K_X]"),
    ] {
        let line = format!("A{to} = {written}(A{from})");
        let source = format!("{HEAD}\ninput A{from}\n{line}\noutput A{to}\n");
        let plan = planned(&source).plan.to_string();
        assert!(plan.contains(&line), "{plan}");
        let formatted = shardwise::format("exchange", &source).expect("it is a program");
        assert!(formatted.contains(&line), "{formatted}");
        let rules = Options { strategy: Strategy::Textbook, ..Options::default() };
        let again = shardwise::plan("exchange", &plan, &rules).expect("a plan is a program");
        assert!(again.to_string().contains(&line), "{again}");
    }
}

/// Where an axis and a dimension have one name, the arrow distinguishes them.
#[test]
fn words_after_arrows_are_dimensions() {
    let source = "hardware tpu-v5p\nmesh X=4, Y=4\ndim I=64, X=64, L=64\ninput A[I_YX, X, L]\n\
                  B = AllToAll_{Y->X,X->L}(A)\noutput B[I, X_Y, L_X]\n";
    let plan = planned(source).plan.to_string();
    assert!(plan.contains("B[I, X_Y, L_X] = AllToAll_{Y->X,X->L}(A[I_YX, X, L])"), "{plan}");
}

#[test]
fn every_fault_in_an_exchange_is_detected() {
    for (name, source) in programs() {
        let checked = shardwise::check(&name, &source, &Options::default());
        let program = checked.program.unwrap_or_else(|| panic!("{}", checked.findings));
        let mut detected = 0;
        let mutants = mutants(&planned(&source).plan).into_iter();
        for mutant in mutants.filter(|mutant| mutant.what.contains("AllToAll")) {
            let explicit = Options { explicit: true, ..Options::default() };
            let text = mutant.plan.to_string();
            let refused = shardwise::check(&name, &text, &explicit).findings.has_errors();
            let setup = Setup { seed: 1, samples: false, ..Setup::default() };
            let wrong = || {
                let verdict = execute(&program, &mutant.plan, &setup);
                verdict.is_ok_and(|verdict| verdict.mismatch.is_some())
            };
            assert!(refused || mutant.other_value || wrong(), "{name}: {}", mutant.what);
            detected += 1;
        }
        assert!(detected > 20, "{name}: {detected}");
    }
}

#[test]
fn the_page_names_the_programs() {
    let page = read("compiler/docs/reshards.md");
    for (name, _) in programs() {
        assert!(page.contains(&format!("tests/programs/operations/{name}.shard")), "{name}");
    }
}
