//! Text is the interface both ways: what is printed parses back to the same program.

use crate::common::{explicit, on_machine, plan, program};
use shardwise_ir::print;

fn assert_round_trip(source: &str) -> String {
    let first = program(source);
    let text = first.to_string();
    let second = program(&text);
    assert!(print::same(&first, &second), "{text}");
    assert_eq!(second.to_string(), text);
    text
}

#[test]
fn programs_print_canonically() {
    let source = "mesh   X=16 over 4x4 , Y=4\nhardware tpu-v5p\ndim B=1Ki, D=8, K=2, N=K*D, T=5 \
        pad\n\
                  output Out[B_X, D]\ninput In: bf16[B_X, D_Y], W: f32[D, N]\nassert comm <= 2ms\n\
                  Out = gelu(In *D W) *N W\noutput Sum[B_?] = sum_D(-2.0 * In)\n";
    let expected = "hardware tpu-v5p\nmesh X=16 over 4x4, Y=4\ndim B=1024, D=8, K=2, N=K*D, T=5 \
        pad\n\n\
                    input In: bf16[B_X, D_Y]\ninput W: f32[D, N]\n\n\
                    Out.1 = In *D W\nOut.2 = gelu(Out.1)\nOut = Out.2 *N W\nSum.1 = -2.0 * In\n\
                    Sum[B_?] = sum_D(Sum.1)\n\n\
                    output Out[B_X, D]\noutput Sum[B_?]\nassert comm <= 2ms\n";
    assert_eq!(assert_round_trip(source), expected);
}

#[test]
fn every_form_of_statement_parses_back() {
    assert_round_trip(&on_machine(
        "input A[I_X, J], B[J, K], V[I], S[]\nstate C[I, K] {U_XY}\nparam M[J] {max_Y}\n\
         a = A *J B\nb = A * V\nc = a + C\nd = a - C\ne = a / C\nf = -a\ng = a * 3\nh = a / 3.0\ni \
         = 1.5 - a\nj = a - 1.5\n\
         k = cast<f32>(a)\nl: f32 = maximum(a, 0.0)\nm = mean_{I,K}(a)\nn = A\no = \
         stop_gradient(S)\n\
         p[I_Y, K_?] = pow(a[I_Y, K], 2)\nq = ReduceScatter_{X,I,Y,K}(C)\nr[I_XY, J] = Slice_Y(A)\n\
         output p[I, K], A[I, J_X]",
    ));
}

#[test]
fn subscripts_join_letters_unless_an_axis_has_that_name() {
    let text = assert_round_trip(
        "hardware tpu-v5p\nmesh X=2, Y=2, XY=2, data=2, model=2\ndim I=64, J=64\ninput A[I_{X,Y}, \
            J_{XY}], B[I_{data,model}] {U_X,Y}, C[I_YX]\n",
    );
    for piece in ["A[I_{X,Y}, J_XY]", "B[I_{data,model}] {U_X,Y}", "C[I_YX]"] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
}

#[test]
fn plans_print_as_explicit_programs() {
    let source = explicit(
        "\ninput A[I, J_X]\ninput B[J_X, K]\n\nC: f32[I, K] {U_X} = A[I, J_X] *J B[J_X, K]\nC[I, \
            K_X] = ReduceScatter_{X,K}(C[I, K] {U_X})\n\n\
         output C[I, K_X]",
    );
    let plan = plan(&source);
    assert_eq!(plan.to_string(), source);
    let printer = print::Printer::new(&plan.program);
    assert_eq!(printer.step_left(&plan.steps[1]), "C[I, K_X]");
    assert_eq!(printer.step_right(&plan.steps[1]), "ReduceScatter_{X,K}(C[I, K] {U_X})");
    assert_eq!(printer.materialization(&plan.steps[0].result), "C[I, K] {U_X}");
}
