//! The canonical layout: every notation has one, it parses to the same tree, and formatting is
//! idempotent.

use super::{format, subscripts};
use crate::parse::parse;

/// The tree as text, without spans and with subscripts joined: which formatting must preserve.
pub(crate) fn bare(source: &str) -> String {
    let (mut file, _) = parse(source);
    subscripts::join(&mut file);
    let text = format!("{:?}", file.statements);
    let mut pieces = text.split("Span { start: ");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |bare, piece| bare + piece.split_once('}').map_or("", |(_, rest)| rest))
}

#[test]
fn every_notation_has_one_canonical_form() {
    let cases = [
        ("C = A *_J B", "C = A *J B"),
        ("C = A *_{J, L} B", "C = A *J,L B"),
        ("C = A *J,L B", "C = A *J,L B"),
        ("C = A *_{my_dim} B", "C = A *my_dim B"),
        ("C = A ·_D B", "C = A *D B"),
        ("C = A \\cdot_D B", "C = A *D B"),
        ("C = A ·_LOCAL B", "C = A * B"),
        ("C = A \\cdot_\\text{LOCAL} B", "C = A * B"),
        ("C = A⋅B", "C = A * B"),
        ("C=A*B", "C = A * B"),
        ("C=A*J B", "C = A *J B"),
        ("C = A *_J -B", "C = A *_J -B"),
        ("(mesh[I] + A) -> C", "(mesh[I] + A) -> C"),
        ("(A + mesh) -> C", "A + mesh -> C"),
        ("C = A *_{LOCAL} (-B)", "C = A *_{LOCAL} -B"),
        ("C = A *_{LOCAL} B", "C = A *LOCAL B"),
        ("C = A *J -B", "C = A * J - B"),
        (
            "In[B_X,D]*D Win[D_X,F] *F Wout[F,D_X] → Out[B_X,D]",
            "In[B_X, D] *D Win[D_X, F] *F Wout[F, D_X] -> Out[B_X, D]",
        ),
        ("C = a - (b - c) * -(-d) / (e*f)", "C = a - (b - c) * --d / (e * f)"),
        ("C = ((a + b)) + c*2.0", "C = a + b + c * 2.0"),
        ("C[I] { U_X } = A[I]{U.X}", "C[I] {U_X} = A[I] {U_X}"),
        ("C[I] \\{\\ U_X \\} = A[I] {UX}", "C[I] {U_X} = A[I] {U_X}"),
        (
            "C[I] {max_X} {U_{Y,Z}} = A[I] {min_X} {sum_X,Y}",
            "C[I] {max_X} {U_Y,Z} = A[I] {min_X} {sum_X,Y}",
        ),
        ("A[I_{XY}, J_{data,model}, K_?] = B", "A[I_XY, J_{data,model}, K_?] = B"),
        ("A[I, J_X] = AllToAll_{X->J}(A[I_X, J])", "A[I, J_X] = AllToAll_{X,J}(A[I_X, J])"),
        ("AllToAll_{X,J} A[I_X, J] -> A[I, J_X]", "AllToAll_{X,J}(A[I_X, J]) -> A[I, J_X]"),
        (
            "ReduceScatter_{Y,J} : A[I_X,J] {U_Y} -> A[I_X,J_Y]",
            "ReduceScatter_{Y,J}(A[I_X, J] {U_Y}) -> A[I_X, J_Y]",
        ),
        (
            "B = AllGather_{XY}( AllGather (Win[D_X,F]) )",
            "B = AllGather_XY(AllGather(Win[D_X, F]))",
        ),
        ("B = cast<f32>(my_fn (x))", "B = cast<f32>(my_fn(x))"),
        ("dOut' = Softmax_S(A')", "dOut' = Softmax_S(A')"),
        ("input  In:bf16[B_X,D] ,W_in[D]", "input In: bf16[B_X, D], W_in[D]"),
        ("mesh X = 16 ring over 4×4,Y=4", "mesh X=16 over 4x4 ring, Y=4"),
        ("dim F = 4 * D pad , T=1_000  zigzag  2*P", "dim F=4*D pad, T=1_000 zigzag 2*P"),
        ("assert comm ≤ 2 ms", "assert comm <= 2ms"),
        ("assert  no AllGather  over dcn", "assert no AllGather over dcn"),
        (
            "backward  from Out  given dOut ,microbatches = 8",
            "backward from Out given dOut, microbatches=8",
        ),
        ("allow  SW301 output C=A", "allow SW301 output C = A"),
        ("checkpoint", "checkpoint"),
        ("checkpoint  h ,q", "checkpoint h, q"),
    ];
    for (source, expected) in cases {
        assert_eq!(format(source), Ok(format!("{expected}\n")), "{source}");
        assert_eq!(bare(source), bare(expected), "{source}");
    }
}

/// An option that is written twice is an error of the resolver: formatting must not add to it.
#[test]
fn repeated_options_keep_their_form() {
    let once = "pipeline Z, microbatches=8, microbatches=4 {\n}\n";
    assert_eq!(format("pipeline Z, microbatches=8,microbatches=4  {\n}\n"), Ok(once.to_owned()));
    assert_eq!(format(once), Ok(once.to_owned()));
}

#[test]
fn subscripts_of_functions_and_moves_of_collectives_keep_their_arrows() {
    let cases = [
        ("B = slice_{ S→P }(A, 1)", "B = slice_{S->P}(A, 1)"),
        ("C = rename_{T,N->S,M}(A)", "C = rename_{T,N->S,M}(A)"),
        ("C = concat_{P,Q->S}(A, B)", "C = concat_{P,Q->S}(A, B)"),
        (
            "A[I, J_X, K_{Y}] = AllToAll_{X -> J, YZ → K}(A[I_XYZ, J, K])",
            "A[I, J_X, K_Y] = AllToAll_{X->J,YZ->K}(A[I_XYZ, J, K])",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(format(source), Ok(format!("{expected}\n")), "{source}");
    }
}

#[test]
fn long_names_sizes_and_lines_have_one_canonical_form() {
    let cases = [
        ("C = A *{J,L} B", "C = A *J,L B"),
        ("C = A *\n  B", "C = A * B"),
        ("C = A *my_dim\n  B\n  + D", "C = A *my_dim B + D"),
        ("C[I, J,] = f(A, B,)", "C[I, J] = f(A, B)"),
        ("dim H = D / N,S=P+T ,F=2*( P + T )-1,", "dim H=D/N, S=P + T, F=2*(P + T) - 1"),
    ];
    for (source, expected) in cases {
        assert_eq!(format(source), Ok(format!("{expected}\n")), "{source}");
        assert_eq!(bare(source), bare(expected), "{source}");
    }
}

#[test]
fn subscripts_of_single_letters_are_joined_where_the_mesh_knows_them() {
    let once = format("mesh X=2, Y=2\nA[I_{X,Y}] {U_Y,X} = B[I_{X,Z}]\n").expect("it is a program");
    assert_eq!(once, "mesh X=2, Y=2\nA[I_XY] {U_YX} = B[I_{X,Z}]\n");
    let kept = "mesh X=2, Y=2, XY=4\nA[I_{X,Y}] = ReduceScatter_{X,J}(B)\n";
    assert_eq!(format(kept), Ok(kept.to_owned()));
}

#[test]
fn comments_and_single_blank_lines_are_kept() {
    let source = "\u{FEFF}\r\n#top\r\n\r\n\r\nmesh X=4 #why\r\n  # own line\r\nC[I,  # rows\r\n J] \
        = A\r\n\r\n#end";
    let expected = "# top\n\nmesh X=4  # why\n# own line\n# rows\nC[I, J] = A\n\n# end\n";
    assert_eq!(format(source), Ok(expected.to_owned()));
    assert_eq!(format(" \n\n"), Ok(String::new()));
    assert_eq!(format("# only"), Ok("# only\n".to_owned()));
    let columns = "A = B      # of a column\nAlonger = B  # of it\nrepeat L=2 {\n}\n\n# end\n";
    assert_eq!(format(columns), Ok(columns.to_owned()));
}

#[test]
fn blocks_are_indented() {
    let source = "repeat  L = 40{ # layers\n#one\ncarry x,y\n\n\nx=f(x)   # kept\n\n}\nrepeat L  \
        reversed {\ncarry z.in=z\nnext z.in=w }";
    let expected = "repeat L=40 {  # layers\n  # one\n  carry x, y\n\n  x = f(x)   # kept\n}\n\
        repeat L reversed {\n  carry z.in = z\n  next z.in = w\n}\n";
    assert_eq!(format(source), Ok(expected.to_owned()));
    assert_eq!(format(expected), Ok(expected.to_owned()));
    let staged = "pipeline Z,microbatches=4*M  of B, schedule = 1f1b{\nrepeat L=4 {\ncarry x\n\
        x=f(x)\n}\n}\ny=x";
    let expected = "pipeline Z, microbatches=4*M of B, schedule=1f1b {\n  repeat L=4 {\n    carry \
        x\n    x = f(x)\n  }\n}\ny = x\n";
    assert_eq!(format(staged), Ok(expected.to_owned()));
    let cut = "microbatches  B = B' *8{ # parts\nrepeat L=4 {\ncarry x\nx=f(x)\n}\n\n\ny=part( In \
        )\n}\nmicrobatches T=t*2*M {z=y}";
    let expected = "microbatches B=B'*8 {  # parts\n  repeat L=4 {\n    carry x\n    x = f(x)\n  \
        }\n\n  y = part(In)\n}\nmicrobatches T=t*2*M {\n  z = y\n}\n";
    assert_eq!(format(cut), Ok(expected.to_owned()));
    assert_eq!(format(expected), Ok(expected.to_owned()));
}

#[test]
fn what_cannot_be_read_is_not_touched() {
    assert_eq!(format("mesh X=4\ninput A[\n").map_err(|diags| diags.len()), Err(1));
}

/// Programs and plans of several kinds.
const PROGRAMS: [&str; 9] = [
    "hardware tpu-v5p\nmesh X=4, Y=4\ndim I=8192, J=8192, K=8192\ninput A[I, J], B[J, K_Y]\nC = A \
        *J B\noutput C[I_X, K_Y]\n",
    "plan\nA[I_X, J] = Slice_X(A[I, J])\nC[I, K] {U_X} = A[I, J_X] *J B[J_X, K]\nC[I, K] = \
        AllReduce_X(C[I, K] {U_X})   # critical\n",
    "mesh data=8, model=4 line\ninput In: bf16[B_data, D]\nparam W_in: f32[D, F_{data,model}]\n\
        Tmp[B, F_?] = In *D W_in\noutput Out[B] = sum_F(gelu(Tmp))\n",
    "In[B_X, D] *D Win[D_X, F] *F Wout[F, D_X] -> Out[B_X, D]\n",
    "dim N=K*G, K=8, G=4*H pad\nS[B, N] = reshape(Q[B, K, G])\nP[B, N] = softmax_N(S / 8.0 - \
        1e-3)\nassert memory <= 16GB\n",
    "# loss\nM[B] {max_Y} = max_V(L[B, V_Y])\nM[B] = AllReduce_Y(M[B] {max_Y})\nE[B, V_Y] = \
        exp(L[B, V_Y] - M[B])\n",
    "state Kc: int8[B_X, S, H]\nA[I, J_X] = AllToAll_{X,J}(A[I_X, J])\nKc[B_X, T, H] = \
        rename(Kc[B_X, S, H])\n\nallow SW301\nassert Win stays sharded\n",
    "pipeline Z, microbatches=M {\n  repeat L=4 {\n    x = f(x)\n  }\n}\nbackward from Out given \
        dOut\ndW[D, F] {U_X} = In[B_X, D] *B dTmp[B_X, F]\n",
    "dim B=4096, B'=512  # parts\nmicrobatches B=B'*8 {\n  Rows = part(In)\n  Sum[F] {U_X} = \
        sum_B'(Rows *D W)\n}\nTotal = total(Sum)\n",
];

#[test]
fn programs_read_the_same_after_formatting() {
    for source in PROGRAMS {
        let once = format(source).expect("it is a program");
        assert_eq!(format(&once).as_ref(), Ok(&once));
        assert_eq!(bare(&once), bare(source));
    }
}
