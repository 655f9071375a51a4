//! Axes of one device split nothing: no sharding, collective or link of a plan names them, and
//! programs that do mean the same without.

use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy, check};
use shardwise_tests::properties::plan;

/// A trained product, sharded over `X`.
fn trained(mesh: &str) -> String {
    format!(
        "hardware tpu-v5p\nmesh {mesh}\ndim B=64, D=64, F=64\ninput x[B_X, D], dy[B_X, F_Y]\n\
         param W[D_X, F_Y]\ny[B_X, F_Y] = x *D W\nbackward from y given dy\n\
         optimizer adam over X\noutput dx[B_X, D]\n"
    )
}

#[test]
fn a_plan_has_no_trace_of_them() {
    let source = trained("X=1, Y=1");
    for strategy in [Strategy::Search, Strategy::Textbook] {
        let planned = plan("one", &source, strategy);
        let text = planned.to_string();
        let traces = ["All", "Reduce", "Slice", "_X", "_Y", "links", "free"];
        assert_eq!(traces.into_iter().find(|trace| text.contains(trace)), None, "{text}");
        assert_eq!(planned.report.comm_s.to_bits(), 0.0_f64.to_bits());
    }
    let beside = plan("beside", &trained("X=8, Y=1"), Strategy::Search);
    let without = trained("X=8").replace("_Y", "");
    let alone = plan("alone", &without, Strategy::Search);
    assert_eq!(beside.report.serial_s.to_bits(), alone.report.serial_s.to_bits());
}

#[test]
fn written_collectives_over_them_are_names() {
    let source = "plan\nhardware tpu-v5p\nmesh X=1, Y=4\ndim I=64, J=64\ninput A[I_X, J_Y]\n\
        A[I, J_Y] = AllGather_X(A[I_X, J_Y])\nB[I, J_Y] = AllGather_X(A[I_X, J_Y])\n\
        C[I, J] = AllGather_{X,Y}(B[I_X, J_Y])\nD[I_X, J] {U_X} = square(C[I, J])\n\
        E[I_X, J] = ReduceScatter_{X,I}(D[I, J] {U_X})\noutput E[I_X, J]\n";
    let source = source.replace("D[I_X, J] {U_X} = square", "D[I, J] {U_X} = square");
    let verdict = verify("named", &source, &Options::default(), &Setup::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{verdict}");
    let text = plan("named", &source, Strategy::Search).to_string();
    assert_eq!(text.matches("AllGather").count(), 2, "the step and its count: {text}");
    assert!(text.contains("B[I, J_Y] = rename(A[I, J_Y])"), "{text}");
}

#[test]
fn a_collective_over_others_that_changes_nothing_is_an_error_beside_them() {
    let header = "hardware tpu-v5p\nmesh X=1, Y=4\ndim I=64\n";
    let wrong = [
        "input A[I_Y]\nB[I_Y] = AllGather_Y(A[I_Y])\n",
        "input A[I_XY]\nB[I_XY] = AllGather_{X,Y}(A[I_XY])\n",
    ];
    for source in wrong {
        let checked = check("wrong", &format!("{header}{source}"), &Options::default());
        let codes: Vec<&str> =
            checked.findings.reports.iter().map(|report| report.diag.code).collect();
        assert_eq!(codes, ["SW209"], "{source}");
    }
}
