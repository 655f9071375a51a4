//! Names with `_`, computed sizes, and where lists and statements end.

use super::{errors, read};
use crate::ast::{Statement, Subscript};

/// Pieces of other languages, which messages answer.
pub(super) const FOREIGN: [&str; 16] = [
    "axis=",
    "keepdims=True",
    "dim=(0,1)",
    "log_softmax",
    "mean_D",
    ".norm",
    "}(",
    ").",
    "^",
    "**",
    "@",
    "−",
    "reshape(x,(",
    "TPU v5p",
    "[64,",
    "B(X)",
];

#[test]
fn the_longest_declared_dimension_wins() {
    let parts = |source: &str| {
        let statements = read(source);
        let Some(Statement::Declare(_, tensors)) = statements.last() else { panic!("{source}") };
        let dims = &tensors[0].layout.as_ref().expect("brackets are written").dims;
        let part = |dim: &crate::ast::DimUse| match &dim.subscript {
            Subscript::Whole => dim.name.node.clone(),
            Subscript::Open => format!("{} ?", dim.name.node),
            Subscript::Axes(words) | Subscript::First(words) => {
                format!("{} {}", dim.name.node, words[0].node)
            }
        };
        dims.iter().map(part).collect::<Vec<_>>().join(", ")
    };
    let head = "mesh X=2, Y=2, data_par=2\ndim B=4, d=2, d_ff=8, d_model=16\ninput A";
    for (brackets, read) in [
        ("[d_ff_Y, d_model]", "d_ff Y, d_model"),
        ("[d_X, d_model_XY]", "d X, d_model XY"),
        ("[d_data_par, d_ff_data_par]", "d data_par, d_ff data_par"),
        ("[d_ff_?, d_model_{X,Y}, d_{X}]", "d_ff ?, d_model X, d X"),
        ("[d_model', d_model'_X]", "d_model', d_model' X"),
        ("[d_fff, n_heads, n_heads_Y, N_Z]", "d fff, n_heads, n_heads Y, N Z"),
    ] {
        assert_eq!(parts(&format!("{head}{brackets}\n")), read);
    }
}

#[test]
fn sizes_are_sums_of_products_and_quotients() {
    let statements = read("dim H=D/N, S = P + T, F=8*D/3 pad, Q = 2*(P + T) - 1\n");
    let Statement::Dim(dims) = &statements[0] else { panic!("dims") };
    let names: Vec<Vec<&str>> = dims.iter().map(|dim| dim.size.dims()).collect();
    assert_eq!(names, [vec!["D", "N"], vec!["P", "T"], vec!["D"], vec!["P", "T"]]);
    assert!(dims.iter().all(|dim| dim.size.product().is_none()) && dims[2].pad.is_some());
}

#[test]
fn lists_may_end_with_a_comma_and_lines_with_an_operator() {
    let count = |source: &str| read(source).len();
    assert_eq!(count("mesh X=4,\n  Y=2,\ndim B=8,\n  D=4,\ninput A[B, D,],\nC = f(A,)\n"), 4);
    assert_eq!(count("A[I_{X,Y,}] = B\ncarry x, y,\n"), 2);
    assert_eq!(count("C = A *D\n  B\nE = A +\n  B -\n  C\nF =\n  A\nA\n  * B\n  -> C\n"), 4);
    assert_eq!(count("C = A *{N,H} B\nA *N,H\n  B\n  -> C[I]\nx = A *B\ny = C\n"), 4);
    assert_eq!(count("repeat L=4 {\n  x = f(x) *D\n    y\n}\nC = A\n"), 4);
}

#[test]
fn equal_sizes_have_one_name_in_a_file() {
    let helps = errors("dim M=8\ninput x[64, 256]\nparam W[256, 1024], V[1024, 1024]\n");
    let names = helps.iter().filter_map(|help| help.split("declare `dim ").nth(1));
    let names: Vec<&str> = names.filter_map(|help| help.split('`').next()).collect();
    assert_eq!(names, ["N=64", "K=256", "K=256", "L=1024", "L=1024", "J=1024"]);
}

#[test]
fn options_of_modules_and_of_owned_functions_go() {
    for (call, written) in [
        ("nn.Softmax(dim=-1)(x)", "softmax_D(x)"),
        ("x .mean(dim=0, keepdim=True)", "mean_B(x)"),
        ("2.0 * F.log_softmax(x, dim=-1)", "(x - logsumexp_D(x))"),
        ("sum_{B,D}(x, keepdims=True)", "sum_{B,D}(x)"),
        ("jnp.take(x, ids, axis=0)", "take_B(x, ids)"),
    ] {
        let helps = errors(&format!("dim B=4, D=8\ninput x[B, D]\ny = {call}\n"));
        assert!(helps.len() == 1 && helps[0].contains(&format!("`{written}`")), "{helps:?}");
    }
}
