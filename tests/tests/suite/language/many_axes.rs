//! Meshes of any number of axes: values that have more shardings than can be tabulated are planned
//! in parts, with a bound that holds for all shardings.

use shardwise::options::Effort;
use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy, plan};

fn quick() -> Options {
    Options { effort: Effort::Quick, ..Options::default() }
}

/// Two products, their brackets on pairs of axes.
fn products(mesh: &str, [a, b, c]: [&str; 3]) -> String {
    format!(
        "hardware tpu-v5p\nmesh {mesh}\ndim B=4096, D=4096, F=16384\ninput x[B_{a}, D_{b}]\n\
         param W[D_{a}, F_{c}], V[F_{c}, D_{a}]\nh = x *D W\ny = gelu(h) *F V\n\
         output y[B_{a}, D_{b}]\n"
    )
}

#[test]
fn six_axes_are_planned_as_well_as_the_three_that_they_make_up() {
    let six = products("A=2, B=2, C=2, E=2, G=2, H=2", ["{A,B}", "{C,E}", "{G,H}"]);
    let three = products("X=4, Y=4, Z=4", ["X", "Y", "Z"]);
    let seconds = |source: &str| plan("axes", source, &quick()).expect("a plan").report.serial_s;
    assert!(seconds(&six) <= seconds(&three) * (1.0 + 1e-9));
}

#[test]
fn axes_that_divide_nothing_are_left_out() {
    let source = |mesh: &str| {
        format!(
            "hardware h100\nmesh {mesh}\ndim I=64, J=64, K=64\ninput a[I_A, J], b[J_A, K]\n\
             c = a *J b\noutput c[I_A, K]\n"
        )
    };
    let few = plan("few", &source("A=2, B=2"), &Options::default()).expect("a plan");
    let more = "A=2, B=2, C=3, D=3, E=3, F=3, G=3";
    let many = plan("many", &source(more), &Options::default()).expect("a plan");
    assert_eq!(many.json().optimality.status, "optimal");
    assert_eq!(few.report.steps.len(), many.report.steps.len());
}

/// The sizes that the planner once refused: 2 dimensions on 6 axes, 3 on 5, 4 on 6, 5 on 5, and 2
/// on 8.
const LARGE: [&str; 5] = [
    "mesh A=2, B=2, C=2, D=2, E=2, F=2\ndim I=64, J=64, K=64\ninput a[I_{A,B}, J_C], b[J_D, K_E]\n\
     c = a *J b\noutput c[I_{A,B}, K_F]\n",
    "mesh A=2, B=2, C=2, D=2, E=2\ndim I=8, J=8, K=8, L=8\ninput a[I_A, J_B, K_C], b[K_A, L_D]\n\
     c = a *K b\nd = exp(c)\noutput d[I_A, J_B, L_E]\n",
    "mesh A=2, B=2, C=2, D=2, E=2, F=2\ndim I=4, J=4, K=8, L=8\ninput a[I_A, J_B, K_{C,D}, L]\n\
     b = softmax_L(a)\nc = a + b\noutput c[I_B, J_A, K_E, L_F]\n",
    "mesh A=2, B=2, C=2, D=2, E=2\ndim I=4, J=4, K=4, L=4, M=4\n\
     input a[I_A, J_B, K_C, L_D, M_E], w[M_A, L_B]\nb = a *L,M w\nc = exp(a)\n\
     output b[I_A, J, K_B], c[I_E, J_D, K_C, L_B, M_A]\n",
    "mesh A=2, B=2, C=2, D=2, E=2, F=2, G=2, H=1\ndim I=128, J=128\ninput a[I_{A,B,C}, J_D]\n\
     b = a * a\noutput b[I_E, J_{F,G}]\n",
];

#[test]
fn large_spaces_have_plans_that_compute_the_program() {
    for source in LARGE.map(|source| format!("hardware tpu-v5p\n{source}")) {
        let planned = plan("large", &source, &quick()).expect("a plan");
        let bound_s = planned.json().optimality.lower_bound_s;
        assert!(bound_s <= planned.report.serial_s, "{planned}");
        let verdict = verify("large", &source, &quick(), &Setup::default()).expect("it runs");
        assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{planned}");
    }
}

/// Programs whose shardings by the rules are in no group of axes.
const MIXED: [&str; 2] = [
    "mesh A=2, B=2, C=2, D=2, E=2, F=2\ndim I=64, J=64, K=64\ninput x[I_A, J_B]\n\
     param w[J_C, K_D], v[K_E, J_F]\nh = relu(x *J w)\ny = h *K v\noutput y[I_?, J_?]\n",
    "mesh A=2, B=2, C=2, D=2\ndim P=2, Q=2, R=2, S=2, T=2, U=4, V=4\n\
     input x[P_A, Q_B, R_C, S_D, T, U], z[P, Q, R, S, T, V]\ny = x *P,Q z\n\
     u = softmax_U(y)\noutput u[R_A, S_B, T_?, U_?, V_?]\n",
];

#[test]
fn the_rules_have_a_plan_in_large_spaces_too() {
    for source in MIXED.map(|source| format!("hardware tpu-v5p\n{source}")) {
        let options = Options { strategy: Strategy::Textbook, ..quick() };
        let by_rules = plan("rules", &source, &options).expect("a plan");
        let verdict = verify("rules", &source, &options, &Setup::default()).expect("it runs");
        assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{by_rules}");
        let found = plan("search", &source, &quick()).expect("a plan");
        assert!(found.report.serial_s <= by_rules.report.serial_s, "{found}");
    }
}
