//! The meaning of programs, and the errors of invalid ones.

use crate::common::{codes, explicit, faults, on_machine, program, read};
use shardwise_ir::hardware::Hardware;
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::{Linearity, OpKind, Phase, Program};
use shardwise_ir::resolve::{Overrides, resolve};

/// The dimensions of a value, joined.
fn dims(program: &Program, name: &str) -> String {
    let value =
        program.values.iter().find(|value| value.name == name).expect("the value is defined");
    value.dims.iter().map(|&dim| program.dims[dim].name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn axes_take_their_kind_from_the_slice() {
    let ring = program("hardware tpu-v5p\nmesh X=16 over 4x4, Y=4, Z=2 dcn\n");
    let kinds: Vec<AxisKind> = ring.mesh.axes.iter().map(shardwise_ir::mesh::Axis::kind).collect();
    assert_eq!(kinds, [AxisKind::Ring, AxisKind::Ring, AxisKind::Dcn]);
    assert_eq!(ring.mesh.axes[0].physical.len(), 2);
    let line = program("hardware tpu-v5p\nmesh X=4, Y=2\n");
    assert_eq!(line.mesh.axes[0].kind(), AxisKind::Line);
    assert_eq!(program("hardware tpu-v5p\nmesh X=16 over 2\n").mesh.axes[0].physical.len(), 2);
}

#[test]
fn a_machine_that_cannot_be_is_refused() {
    for (source, code) in [
        ("mesh X=4", "SW402"),
        ("hardware tpu-v5\nmesh X=4", "SW401"),
        ("hardware tpu-v5p\nmesh X=16 over 4x5", "SW403"),
        ("hardware tpu-v5p\nmesh X=4 rnig", "SW403"),
        ("hardware tpu-v5p\nmesh X=4000000000, Y=4000000000", "SW405"),
        ("hardware tpu-v5p\nmesh X=0", "SW108"),
        ("hardware tpu-v5p\ndim B=2G*M", "SW102"),
        ("hardware tpu-v5p\ndim B=9223372036854775809", "SW108"),
        ("hardware tpu-v5p\ndim B=4294967296*4294967296", "SW108"),
        ("hardware tpu-v5p\nmesh X=2, X=4", "SW103"),
    ] {
        assert_eq!(codes(source), [code], "{source}");
    }
}

#[test]
fn links_without_a_figure_are_refused() {
    let (file, _) = shardwise_grammar::parse("hardware bare\nmesh X=4 dcn\n");
    let known = vec![Hardware::unknown("bare")];
    let (_, diags) = resolve(&file, &Overrides { known, ..Overrides::default() });
    assert_eq!(diags.iter().map(|diag| diag.code).collect::<Vec<_>>(), ["SW404"]);
}

#[test]
fn an_option_replaces_the_hardware() {
    let (file, _) = shardwise_grammar::parse("mesh X=4\n");
    let overrides = Overrides { hardware: Some("h100".to_owned()), ..Overrides::default() };
    let (program, diags) = resolve(&file, &overrides);
    assert_eq!(diags, []);
    assert_eq!(program.expect("it resolves").hardware.name, "h100");
}

#[test]
fn products_of_dimensions_keep_their_factors() {
    let program = program("hardware tpu-v5p\ndim K=8, G=4, N=K*G, F=4*G\n");
    let sizes: Vec<(u64, usize)> =
        program.dims.iter().map(|dim| (dim.size, dim.factors.len())).collect();
    assert_eq!(sizes, [(8, 0), (4, 0), (32, 2), (16, 0)]);
}

#[test]
fn a_word_is_an_axis_before_it_is_letters() {
    let letters = program(&on_machine("input A[I_XY]"));
    let word = program("hardware tpu-v5p\nmesh X=2, Y=2, XY=2\ndim I=64\ninput A[I_XY]\n");
    let axes = |program: &Program| {
        program.values[0].declared_sharding.as_ref().map_or(0, |pin| pin.dims[0].named().len())
    };
    assert_eq!((axes(&letters), axes(&word)), (2, 1));
}

#[test]
fn results_order_their_dimensions_by_both_operands() {
    let program = program(
        "hardware tpu-v5p\ndim B=2, T=2, S=2, K=2, G=2, H=2, N=2, D=2\n\
         input Qg[B, T, K, G, H], Ks[B, S, K, H], WO[N, H, D], Af[B, N, H]\n\
         L = Qg *H Ks\nOut = WO *N,H Af\nBack = WO *N,H Af\noutput Back[D, B]\n",
    );
    assert_eq!(dims(&program, "L"), "B T S K G");
    assert_eq!(dims(&program, "Out"), "B D");
    assert_eq!(dims(&program, "Back"), "D B");
}

#[test]
fn links_of_a_chain_are_numbered_as_they_are_computed() {
    let program = program(&on_machine("input A[I, J], B[J, K], C[K, I]\nOut = gelu(A *J B) *K C"));
    let names: Vec<&str> =
        program.ops.iter().map(|op| program.values[op.result].name.as_str()).collect();
    assert_eq!(names, ["Out.1", "Out.2", "Out"]);
}

#[test]
fn functions_know_where_partial_sums_pass() {
    let source = "input A[I], B[I]\na = A + B\nb = A / B\nc = -A\nd = 2.0 * A\ne = A + 1.0\nf = \
        gelu(A)\ng = 1.0 / A\nh = A / 2.0\n\
                  i = cast<f32>(A)\nj = cast<int8>(A)\nk = dgelu(A, B)\nl = broadcast_J(A)\nm = \
                  ones(A)\n";
    let program = program(&on_machine(source));
    let linearity = |op: &shardwise_ir::program::Op| match &op.kind {
        OpKind::Map(function) => function.linearity,
        other => panic!("{other:?} is not element-wise"),
    };
    let (first, joint, none, last) =
        (Linearity::First, Linearity::Joint, Linearity::None, Linearity::Last);
    let expected =
        [joint, first, joint, joint, none, none, none, joint, joint, none, last, joint, none];
    assert_eq!(program.ops.iter().map(linearity).collect::<Vec<_>>(), expected);
}

#[test]
fn brackets_are_pins_and_declared_shardings() {
    let program =
        program(&on_machine("input A[I_X, J]\nC[I, J_?] = gelu(A[I, J])\noutput C[I_X, J]"));
    let value = &program.values[program.ops[0].result];
    assert_eq!(value.declared_sharding, program.ops[0].result_pin);
    assert!(value.declared_sharding.as_ref().is_some_and(|pin| pin.dims[1].is_open()));
    assert!(program.ops[0].operands[0].pin.is_some());
    assert_eq!(program.outputs.len(), 1);
}

#[test]
fn contraction_is_checked_against_operands_and_left_side() {
    let declared = "input A[I, J], B[J, K], V[J]\n";
    for (statement, code) in [
        ("C = A *I B", "SW105"),
        ("C[I, J] = A *J B", "SW105"),
        ("C[I] = A *J B", "SW104"),
        ("C[I, K, J] = A[I, J] *J V", "SW105"),
        ("C = A *J,J B", "SW105"),
        ("C = max_K(A)", "SW105"),
        ("C = sum(A)", "SW107"),
        ("C = gelu(A, B)", "SW107"),
        ("C = broadcast_J(A)", "SW105"),
        ("C = broadcast(A)", "SW107"),
        ("C = gelou(A)", "SW106"),
        ("C = A[J, I] *J B", "SW104"),
        ("C: f64 = A *J B", "SW109"),
        ("C = softmax_K(A)", "SW105"),
        ("C = route_J(A)", "SW107"),
        ("C = A[I_W, J] *J B", "SW204"),
        ("C = A[I_X, J_X] *J B", "SW201"),
    ] {
        assert_eq!(codes(&on_machine(&format!("{declared}{statement}"))), [code], "{statement}");
    }
    let outer = program(&on_machine(&format!("{declared}C = A * V\nD[I, K] = A * B")));
    assert_eq!((dims(&outer, "C"), dims(&outer, "D")), ("I J".to_owned(), "I K".to_owned()));
}

#[test]
fn one_mistake_gives_one_error() {
    let source = "input A[I, J_Q]\nB = gelu(A)\nC[I, J] = route_J(B)\nD = C + Nothing\nE = D + \
        Nothing\noutput E[I, J], D[I, J]";
    assert_eq!(codes(&on_machine(source)), ["SW204", "SW107", "SW101"]);
    assert_eq!(
        codes("hardware tpu-v5p\nmesh X=4 rnig\ndim I=8\ninput A[I_X]\nB = gelu(A)\n"),
        ["SW403"]
    );
    assert_eq!(codes(&on_machine("backward from Loss\noutput dW[I]")), ["SW101"]);
}

#[test]
fn a_wrong_name_is_answered_with_the_right_one() {
    let source = on_machine("input In[I, J]\nC = gelu(Im)");
    let diags = faults(&source);
    assert_eq!(diags[0].help.as_deref(), Some("did you mean `In`?"));
    assert_eq!(&source[diags[0].labels[0].span.start..diags[0].labels[0].span.end], "Im");
}

#[test]
fn order_and_uniqueness_of_definitions() {
    let early = faults(&on_machine("input A[I]\nB = A + C\nC = gelu(A)"));
    assert_eq!((early.len(), early[0].code, early[0].labels.len()), (1, "SW101", 2));
    let twice = faults(&on_machine("input A[I]\nB = gelu(A)\nB = relu(A)"));
    assert_eq!((twice.len(), twice[0].code, twice[0].labels.len()), (1, "SW103", 2));
    program(&on_machine("input A[I_X]\nA[I] = AllGather_X(A[I_X])\noutput A[I]"));
}

#[test]
fn collectives_are_read_in_every_spelling() {
    let declared = "input A[I_X, J], P[I, J] {U_XY}\n";
    for (spelling, canonical) in [
        ("G[I, J] = AllGather(A)", "G[I, J] = AllGather_X(A[I_X, J])"),
        ("G = AllGather_{X}(A[I_X, J])", "G[I, J] = AllGather_X(A[I_X, J])"),
        ("G = AllToAll_{X->J}(A)", "G[I, J_X] = AllToAll_{X,J}(A[I_X, J])"),
        ("G[I, J_X] = AllToAll(A)", "G[I, J_X] = AllToAll_{X,J}(A[I_X, J])"),
        ("G = ReduceScatter_{XY,J}(P)", "G[I, J_XY] = ReduceScatter_{XY,J}(P[I, J] {U_XY})"),
        (
            "G[I_Y, J_X] = ReduceScatter(P)",
            "G[I_Y, J_X] = ReduceScatter_{Y->I,X->J}(P[I, J] {U_XY})",
        ),
        (
            "G = ReduceScatter_{Y->I,X->J}(P)",
            "G[I_Y, J_X] = ReduceScatter_{Y->I,X->J}(P[I, J] {U_XY})",
        ),
        (
            "G = ReduceScatter_{Y,I,X,J}(P)",
            "G[I_Y, J_X] = ReduceScatter_{Y->I,X->J}(P[I, J] {U_XY})",
        ),
        ("G = AllReduce_X(P)", "G[I, J] {U_Y} = AllReduce_X(P[I, J] {U_XY})"),
        ("G[I_XY, J] = Slice_Y(A)", "G[I_XY, J] = Slice_Y(A[I_X, J])"),
    ] {
        let text = program(&on_machine(&format!("{declared}{spelling}"))).to_string();
        assert!(text.contains(&format!("\n{canonical}\n")), "{spelling}:\n{text}");
    }
}

#[test]
fn collectives_that_lead_elsewhere_are_refused() {
    let declared = "input A[I_XY, J], B[I_X, J], P[I, J] {U_X}\n";
    for (statement, code) in [
        ("A[I_Y, J] = AllGather_X(A[I_XY, J])", "SW209"),
        ("A[I, J] = AllGather_X(A[I_XY, J])", "SW209"),
        ("B[I, J] = AllGather_Y(B[I_X, J])", "SW209"),
        ("P[I, J_X] = ReduceScatter_{X,I}(P[I, J] {U_X})", "SW209"),
        ("P[I_X, J] = AllReduce_X(P[I, J] {U_X})", "SW209"),
        ("B[I_Y, J] = Permute(B[I_X, J])", "SW209"),
        ("B = AllGather(B)", "SW110"),
        ("B: f32[I, J] = AllGather_X(B[I_X, J])", "SW113"),
        ("C = gelu(AllGather_X(B))", "SW107"),
    ] {
        assert_eq!(codes(&on_machine(&format!("{declared}{statement}"))), [code], "{statement}");
    }
}

#[test]
fn brackets_obey_the_rules_of_shardings() {
    for (declaration, code) in [
        ("input A[I_X, J_X]", "SW201"),
        ("input A[I_X, J] {U_X}", "SW201"),
        ("input A[I] {U_X} {max_Y}", "SW203"),
        ("dim N=12\nmesh Z=8\ninput A[N_Z]", "SW202"),
        ("input A[I, I]", "SW104"),
        ("input A[I, Q]", "SW102"),
        ("input A", "SW110"),
    ] {
        assert_eq!(codes(&on_machine(declaration)), [code], "{declaration}");
    }
    program(&on_machine("dim N=12 pad\nmesh Z=8\ninput A[N_Z]"));
}

#[test]
fn budgets_have_units() {
    program(&on_machine(
        "input W[I_X]\nassert comm <= 2ms\nassert memory <= 16GiB\nassert no AllGather over X\n\
            assert W stays sharded",
    ));
    for (assert, code) in [
        ("assert comm <= 2GB", "SW502"),
        ("assert memory <= 2ms", "SW502"),
        ("assert speed <= 2ms", "SW502"),
        ("assert no AllGathr", "SW502"),
        ("assert no AllGather over Q", "SW204"),
        ("assert Q stays sharded", "SW101"),
    ] {
        assert_eq!(codes(&on_machine(assert)), [code], "{assert}");
    }
}

#[test]
fn explicit_programs_leave_nothing_open() {
    let declared = "input A[I_X, J], B[I_X, J]\n";
    for (statement, code) in [
        ("C[I_X, J] = gelu(A)", "SW110"),
        ("C = gelu(A[I_X, J])", "SW110"),
        ("C[I_X, J_?] = gelu(A[I_X, J])", "SW110"),
        ("C[I_X, J] = gelu(A[I_X, J] + B[I_X, J])", "SW111"),
        ("plan", "SW006"),
    ] {
        assert_eq!(codes(&explicit(&format!("{declared}{statement}"))), [code], "{statement}");
    }
}

#[test]
fn pins_that_no_layout_has_are_reported_at_once() {
    assert_eq!(codes(&on_machine("input A[I] {U_X}\nB = gelu(A[I] {U_X})")), ["SW207"]);
    assert_eq!(codes(&on_machine("input A[I, J_X], B[J, K]\nC = A[I, J_X] *J B[J, K]")), ["SW205"]);
    assert_eq!(
        codes(&on_machine("input A[I_X, J], B[J, K_X]\nC = A[I_X, J] *J B[J, K_X]")),
        ["SW206"]
    );
    program(&on_machine("input A[I, J_X], B[J, K]\nC[I, K] = A[I, J_X] *J B"));
}

#[test]
fn hostile_sources_end_in_few_errors() {
    let many: Vec<String> = (0..5000).map(|i| format!("V{i} = W{i} + A")).collect();
    assert!(read(&on_machine(&many.join("\n"))).1.len() <= 100);
    let sizes: Vec<String> = (0..200).map(|i| format!("d{i}=2")).collect();
    let names: Vec<String> = (0..200).map(|i| format!("d{i}")).collect();
    let source =
        format!("hardware tpu-v5p\ndim {}\ninput A[{}]\n", sizes.join(", "), names.join(", "));
    assert_eq!(codes(&source), ["SW112"]);
}

#[test]
fn gradients_come_to_be_when_they_are_named() {
    let source = "input A[I, J], dC[I, K]\nparam B[J, K], W[J, K]\nC = A *J B\nbackward from C \
        given dC\nN = W - dB\noutput N[J, K], dA[I, J]";
    let program = program(&on_machine(source));
    let backward = program.backward.as_ref().expect("it is asked for");
    let name = |value: shardwise_ir::ids::ValueId| program.values[value].name.as_str();
    let named: Vec<(&str, &str)> =
        backward.named.iter().map(|&(of, gradient)| (name(of), name(gradient))).collect();
    assert_eq!(named, [("B", "dB"), ("A", "dA")]);
    assert_eq!(
        (name(backward.from), backward.given.map(name), backward.at.index()),
        ("C", Some("dC"), 1)
    );
    assert_eq!(
        program.ops.iter().map(|op| op.phase).collect::<Vec<_>>(),
        [Phase::Forward, Phase::Backward]
    );
    assert!(program.to_string().contains("C = A *J B\nbackward from C given dC\nN = W - dB\n"));
    assert!(shardwise_ir::print::same(&program, &self::program(&program.to_string())));
}

#[test]
fn gradients_that_cannot_be_are_reported() {
    let declared = "input A[I, J], dC[I, K]\nparam B[J, K]\nC = A *J B\n";
    for (statements, code) in [
        ("backward from C given dC, microbatches=4 of Q", "SW102"),
        ("backward from C given Missing", "SW101"),
        ("backward from C given A", "SW104"),
        ("backward from C\nbackward from C", "SW602"),
        ("backward from C given dC\nphase backward", "SW602"),
        ("phase backward\nbackward from C given dC", "SW602"),
        ("phase forward\nD = gelu(C)\nbackward from C given dC", "SW602"),
        ("backward from C given dC\noutput dB[K, J]", "SW104"),
        ("backward from C given dC\nD = gelu(C)\noutput dD[I, K]", "SW101"),
        ("G = dB + B\nbackward from C given dC", "SW101"),
        ("backward from C given dC\nG = dB + B\ndB = gelu(B)", "SW101"),
    ] {
        assert_eq!(codes(&on_machine(&format!("{declared}{statements}"))), [code], "{statements}");
    }
}
