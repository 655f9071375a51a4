//! The validity of plans.

use crate::common::{codes, explicit, faults, plan};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::{AxisRef, Reduction, Sharding, Unreduced};
use shardwise_ir::verify;

/// A sharding of two dimensions over the axes X (0) and Y (1) of [`crate::common::MACHINE`].
fn sharding(first: &[usize], second: &[usize], pending: &[usize]) -> Sharding {
    let axes = |list: &[usize]| {
        list.iter().map(|&axis| AxisRef::whole(AxisId::new(axis))).collect::<Vec<_>>()
    };
    Sharding {
        dims: [axes(first).into(), axes(second).into()].into_iter().collect(),
        unreduced: Unreduced::new(Reduction::Sum, axes(pending)),
    }
}

fn mesh(size: usize) -> Mesh {
    crate::common::program(&format!("hardware tpu-v5p\nmesh X=4, Y={size}\n")).mesh
}

#[test]
fn one_step_is_recognised_as_what_it_is() {
    let (none, x, y, xy): (&[usize], &[usize], &[usize], &[usize]) = (&[], &[0], &[1], &[0, 1]);
    for (from, to, kind) in [
        (sharding(none, none, none), sharding(x, none, none), CollectiveKind::Slice),
        (sharding(xy, none, none), sharding(x, none, none), CollectiveKind::AllGather),
        (sharding(x, y, none), sharding(none, none, none), CollectiveKind::AllGather),
        (sharding(none, none, xy), sharding(none, none, y), CollectiveKind::AllReduce),
        (sharding(none, none, xy), sharding(y, x, none), CollectiveKind::ReduceScatter),
        (sharding(none, none, xy), sharding(&[1, 0], none, none), CollectiveKind::ReduceScatter),
        (sharding(xy, none, none), sharding(none, xy, none), CollectiveKind::AllToAll),
        (sharding(xy, none, none), sharding(none, &[1, 0], none), CollectiveKind::AllToAll),
        (sharding(xy, none, none), sharding(&[1, 0], none, none), CollectiveKind::Permute),
        (sharding(x, y, none), sharding(y, x, none), CollectiveKind::Permute),
        (sharding(y, none, none), sharding(y, none, x), CollectiveKind::Unreduce),
    ] {
        let found = verify::classify(&mesh(4), &from, &to).map(|moved| moved.kind);
        assert_eq!(found, Some(kind), "{from:?} to {to:?}");
    }
}

#[test]
fn what_takes_several_steps_is_no_collective() {
    let (none, x, y, xy): (&[usize], &[usize], &[usize], &[usize]) = (&[], &[0], &[1], &[0, 1]);
    for (from, to) in [
        (sharding(xy, none, none), sharding(y, none, none)),
        (sharding(none, none, none), sharding(y, none, x)),
        (sharding(x, none, none), sharding(x, none, x)),
        (sharding(none, none, none), sharding(x, y, none)),
        (sharding(x, none, y), sharding(none, none, none)),
        (sharding(x, none, none), sharding(y, none, none)),
        (sharding(x, none, none), sharding(x, none, none)),
    ] {
        assert_eq!(verify::classify(&mesh(2), &from, &to), None, "{from:?} to {to:?}");
    }
}

#[test]
fn a_plan_is_accepted_as_it_is() {
    let plan = plan(&explicit(
        "input A[I, J_X], B[J_X, K]\nC[I, K] {U_X} = A[I, J_X] *J B[J_X, K]\nC[I, K_X] = \
            ReduceScatter_{X,K}(C[I, K] {U_X})\n\
         D[I, K_X] = gelu(C[I, K_X])\noutput D[I, K_X]",
    ));
    assert_eq!(plan.steps.len(), 3);
    assert!(
        matches!(&plan.steps[1].kind, StepKind::Collective(moved, Some(_)) if moved.into == [1])
    );
    assert_eq!(verify::plan(&plan), Ok(()));
}

#[test]
fn local_operations_follow_the_four_cases() {
    let declared = "input A[I, J_X], B[J, K], L[I_X, J], R[J, K_X], P[I] {U_X}, Q[I] {U_Y}, M[I] \
        {max_X}, V[I_X]\n";
    for (statement, code) in [
        ("C[I, K] = A[I, J_X] *J B[J, K]", "SW205"),
        ("C[I_X, K] = L[I_X, J] *J R[J, K_X]", "SW206"),
        ("C[I] {U_X} = gelu(P[I] {U_X})", "SW207"),
        ("C[I] {U_X} = P[I] {U_X} + Q[I] {U_Y}", "SW207"),
        ("C[I] {max_X} = -M[I] {max_X}", "SW208"),
        ("C[I] {max_X} = gelu(M[I] {max_X})", "SW207"),
        ("C[I] {max_X} = M[I] {max_X} + M[I] {max_X}", "SW207"),
        ("C[I] {max_X} = M[I] {max_X} + P[I] {U_X}", "SW207"),
        ("C[I] {U_X} = 1.0 / P[I] {U_X}", "SW207"),
        ("C[I] {U_X} = P[I] {U_X} * P[I] {U_X}", "SW207"),
        ("C[I_X] = P[I] {U_X} * V[I_X]", "SW205"),
        ("C[I] = V[I_X] + V[I_X]", "SW208"),
        ("C[I] = gelu(V[I])", "SW211"),
        ("C[] = sum_I(V[I_X])", "SW208"),
    ] {
        assert_eq!(codes(&explicit(&format!("{declared}{statement}"))), [code], "{statement}");
    }
}

#[test]
fn partial_results_pass_through_linear_operations() {
    plan(&explicit(
        "input P[I] {U_X}, Q[I] {U_X}, R[I], V[I_X], S[I] {U_Y}\nA[I] {U_X} = P[I] {U_X} + Q[I] \
            {U_X}\nB[I] {U_X} = 2.0 * A[I] {U_X}\n\
         C[I] {U_X} = B[I] {U_X} / R[I]\nD[] {U_X} = sum_I(C[I] {U_X})\nE[] {max_X} = \
         max_I(V[I_X])\nE[] = AllReduce_X(E[] {max_X})\n\
         F[I] {U_XY} = P[I] {U_X} * S[I] {U_Y}\noutput D[] {U_X}, E[]",
    ));
}

#[test]
fn partial_maxima_pass_through_what_keeps_or_turns_the_order() {
    plan(&explicit(
        "input M[I] {max_X}, R[I], V[I_X, J]\nA[I] {max_X} = exp(M[I] {max_X})\nB[I] {min_X} = \
            R[I] - A[I] {max_X}\n\
         C[I] {min_X} = 2.0 * B[I] {min_X}\nD[] {min_X} = min_I(C[I] {min_X})\nE[] {max_X} = -D[] \
         {min_X}\n\
         F[J] {max_X} = max_I(V[I_X, J])\noutput E[] {max_X}, F[J] {max_X}",
    ));
}

#[test]
fn help_says_which_statement_to_write() {
    let help = |lines: &str| faults(&explicit(lines))[0].help.clone().unwrap_or_default();
    let product = "input A[I, J_X], B[J, K]\nC[I, K] = A[I, J_X] *J B[J, K]";
    assert!(help(product).contains("`A[I, J] = AllGather_X(A[I, J_X])`"));
    assert!(help("input V[I_X]\nC[I] = gelu(V[I])").contains("`V[I] = AllGather_X(V[I_X])`"));
    assert!(
        help("input P[I] {U_X}\nC[I] = gelu(P[I] {U_X})")
            .contains("`P[I] = AllReduce_X(P[I] {U_X})`")
    );
    assert!(help("input V[I_X]\noutput V[I]").contains("`V[I] = AllGather_X(V[I_X])`"));
}

#[test]
fn a_forged_plan_is_refused() {
    let source = "input A[I_X, J]\nA[I, J] = AllGather_X(A[I_X, J])\nB[I, J] = gelu(A[I, J])\n\
        output B[I, J]";
    let good = plan(&explicit(source));
    let broken = |break_it: fn(&mut shardwise_ir::plan::Plan)| {
        let mut plan = good.clone();
        break_it(&mut plan);
        verify::plan(&plan).expect_err("it is broken")[0].code
    };
    assert_eq!(broken(|plan| drop(plan.steps.remove(0))), "SW211");
    assert_eq!(broken(|plan| drop(plan.steps.pop())), "SW211");
    assert_eq!(broken(|plan| plan.steps.swap(0, 1)), "SW211");
    assert_eq!(broken(|plan| plan.steps[1].operands.clear()), "SW208");
    assert_eq!(broken(|plan| plan.steps[1].result.sharding = sharding(&[0], &[0], &[])), "SW201");
    assert_eq!(
        broken(|plan| {
            if let StepKind::Collective(moved, _) = &mut plan.steps[0].kind {
                moved.axes.clear();
            }
        }),
        "SW209"
    );
}
