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

/// The programs in which slices in a collective pay.
fn programs_with_slices() -> Vec<(String, String)> {
    let mut found = files("tests/programs/operations", ".shard");
    found.retain(|(name, _)| name.starts_with("slices-"));
    assert_eq!(found.len(), 2, "there are programs");
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

fn is_exchange(statement: &str) -> bool {
    statement.contains("AllToAll") || statement.contains("ReduceScatter_{XY")
}

#[test]
fn every_fault_in_an_exchange_is_detected() {
    for (name, source) in programs().into_iter().chain(programs_with_slices()) {
        let checked = shardwise::check(&name, &source, &Options::default());
        let program = checked.program.unwrap_or_else(|| panic!("{}", checked.findings));
        let mut detected = 0;
        let mutants = mutants(&planned(&source).plan).into_iter();
        for mutant in mutants.filter(|mutant| is_exchange(&mutant.what)) {
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
    for (name, _) in programs().into_iter().chain(programs_with_slices()) {
        assert!(page.contains(&format!("tests/programs/operations/{name}.shard")), "{name}");
    }
}

/// A reshard that one collective with slices in it does, and its bytes on a device as a part of the
/// operand's block.
const SLICES: [(&str, &str, &str, &str, f64); 5] = [
    ("X=2, Y=2", "[I_X, J, K]", "AllToAll_{XY,J}", "[I, J_XY, K]", 0.5),
    ("X=2, Y=2, Z=2", "[I_X, J, K]", "AllToAll_{XYZ,J}", "[I, J_XYZ, K]", 0.25),
    ("X=2, Y=2, Z=2", "[I_XY, J, K]", "AllToAll_{YZX,J}", "[I, J_YZX, K]", 0.5),
    ("X=2, Y=2", "[I, J, K] {U_X}", "ReduceScatter_{XY,J}", "[I, J_XY, K]", 0.5),
    ("X=2, Y=2, Z=2", "[I_Z, J, K] {U_X}", "ReduceScatter_{XY,I}", "[I_ZXY, J, K]", 0.5),
];

/// A program of one reshard, with the collective written out or not.
fn sliced(mesh: &str, from: &str, statement: &str, to: &str) -> String {
    format!(
        "hardware gb200-nvl72\nmesh {mesh}\ndim I=1024, J=1024, K=1024\n\
         input A{from}\n{statement}output A{to}\n"
    )
}

#[test]
fn collectives_with_slices_send_only_what_is_left_after_them() {
    for (mesh, from, written, to, part) in SLICES {
        let line = format!("A{to} = {written}(A{from})");
        let plan = planned(&sliced(mesh, from, &format!("{line}\n"), to));
        assert!(plan.to_string().contains(&line), "{plan}");
        let report = &plan.report.steps[0];

        let block = 1.0 / f64::from(1 << from.matches(['X', 'Y', 'Z']).count());
        let pending = if from.contains('U') { 2.0 } else { 1.0 };
        let whole = 2.0 * f64::powi(1024.0, 3) * block * pending;
        assert!(close(report.bytes, part * whole), "{from} to {to}: {}", report.bytes);
        let moved = 1 + usize::from(from.contains("_XY"));
        assert_eq!(report.axes.len(), moved, "{from} to {to}");
    }
}

#[test]
fn slices_in_collectives_are_planned_and_read_again() {
    for (mesh, from, written, to, _) in SLICES {
        let source = sliced(mesh, from, "", to);
        let plan = planned(&source);
        let line = format!("A{to} = {written}(A{from})");
        let is_sliced = plan.to_string().contains(&line);
        // Through a switch, an exchange over one more axis sends more of the same bytes.
        let written_out = planned(&sliced(mesh, from, &format!("{line}\n"), to));
        let (found, one) = (plan.report.serial_s, written_out.report.serial_s);
        assert!(found <= one * 1.0001, "{plan}");
        assert!(is_sliced, "{plan}");
        let text = plan.to_string();
        let explicit = Options { explicit: true, ..Options::default() };
        let again = shardwise::plan("exchange", &text, &explicit).expect("a plan is a program");
        let steps = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.starts_with("A["));
            lines.map(|line| line.split("  #").next().unwrap_or(line).trim().to_owned()).collect()
        };
        assert_eq!(steps(&again.to_string()), steps(&text));
        let checked = shardwise::check("exchange", &source, &Options::default());
        let program = checked.program.unwrap_or_else(|| panic!("{}", checked.findings));
        for plan in [&plan.plan, &written_out.plan] {
            let setup = Setup { seed: 1, samples: false, ..Setup::default() };
            let verdict = execute(&program, plan, &setup).expect("it can be executed");
            assert!(verdict.mismatch.is_none(), "{from} to {to}");
        }
    }
}

#[test]
fn slices_in_collectives_take_axes_that_nothing_uses() {
    for (from, written, to) in [
        // Nothing moves: these are Slices.
        ("[I, J, K]", "AllToAll", "[I, J_XY, K]"),
        ("[I, J, K] {U_X}", "ReduceScatter", "[I, J_Y, K]"),
        // Y is in use.
        ("[I_X, J_Y, K]", "AllToAll", "[I, J_Y, K_XY]"),
        ("[I_Y, J, K] {U_X}", "ReduceScatter", "[I_Y, J_XY, K]"),
        // The dimension that X leaves gets no axis.
        ("[I_X, J, K]", "AllToAll", "[I_Y, J_X, K]"),
    ] {
        let source = format!("{HEAD}\ninput A{from}\nB{to} = {written}(A)\noutput B{to}\n");
        let found = shardwise::check("exchange", &source, &Options::default()).findings;
        assert!(found.has_errors(), "{source}");
    }
}

/// The last blocks of padded dimensions are shorter or empty.
#[test]
fn slices_in_collectives_of_padded_dimensions_are_right() {
    let source = "hardware gb200-nvl72\nmesh X=2, Y=2\ndim I=5 pad, J=5 pad\n\
                  input A[I_X, J], S[I, J] {U_X}\nB[I, J_XY] = AllToAll_{XY,J}(A)\n\
                  T[I_YX, J] = ReduceScatter_{YX,I}(S)\noutput B[I, J_XY], T[I_YX, J]\n";
    let checked = shardwise::check("exchange", source, &Options::default());
    let program = checked.program.unwrap_or_else(|| panic!("{}", checked.findings));
    let setup = Setup { seed: 1, samples: false, ..Setup::default() };
    let verdict = execute(&program, &planned(source).plan, &setup).expect("it can be executed");
    assert!(verdict.mismatch.is_none(), "{verdict:?}");
}
