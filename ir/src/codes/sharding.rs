//! Shardings and collectives (`SW2xx`).

use super::Code;

/// `axis-twice`
pub const AXIS_TWICE: &str = "SW201";
/// `not-divisible`
pub const NOT_DIVISIBLE: &str = "SW202";
/// `mixed-reductions`
pub const MIXED_KINDS: &str = "SW203";
/// `unknown-axis`
pub const UNKNOWN_AXIS: &str = "SW204";
/// `split-differently`
pub const SPLIT_DIFFERENTLY: &str = "SW205";
/// `axis-conflict`
pub const AXIS_CONFLICT: &str = "SW206";
/// `partial-through-nonlinear`
pub const PARTIAL_THROUGH: &str = "SW207";
/// `wrong-result`
pub const WRONG_RESULT: &str = "SW208";
/// `bad-collective`
pub const BAD_COLLECTIVE: &str = "SW209";
/// `no-layout`
pub const NO_LAYOUT: &str = "SW210";
/// `no-such-materialization`
pub const NO_MATERIALIZATION: &str = "SW211";
/// `must-be-whole`
pub const MUST_BE_WHOLE: &str = "SW212";
/// `blocks-break`
pub const BLOCKS_BREAK: &str = "SW213";

pub(super) const CODES: &[Code] = &[
    Code {
        code: AXIS_TWICE,
        name: "axis-twice",
        page: "Each mesh axis may appear once in a sharding, the unreduced set included: an axis \
            that splits two dimensions would leave every device with a diagonal block, and the \
            other blocks would be lost.

Triggered by:

    input A[I_X, J_X]

Write instead:

    input A[I_X, J]",
    },
    Code {
        code: NOT_DIVISIBLE,
        name: "not-divisible",
        page: "The axes do not divide the dimension into equal blocks.

Triggered by:

    mesh Y=8
    dim N=12
    input A[N_Y]

Write instead `pad` on the dimension, or split it over an axis that divides it:

    dim N=12 pad",
    },
    Code {
        code: MIXED_KINDS,
        name: "mixed-reductions",
        page:
            "A value is a partial sum, a partial maximum or a partial minimum: with two kinds at \
            once the result would depend on the order of the reductions.

Triggered by:

    input A[I] {U_X} {max_Y}

Write instead:

    input A[I] {U_XY}",
    },
    Code {
        code: UNKNOWN_AXIS,
        name: "unknown-axis",
        page: "The subscript is not an axis of the mesh.

Triggered by:

    mesh X=4
    input A[I_Y]

Write instead:

    mesh X=4
    input A[I_X]",
    },
    Code {
        code: SPLIT_DIFFERENTLY,
        name: "split-differently",
        page: "One index is split differently in two operands, so the local blocks do not match \
            (cases 2 and 4). In an explicit program, gather or slice one of them first.

Triggered by:

    plan
    …
    C[I, K] = A[I, J_X] *J B[J, K]

Write instead:

    A[I, J] = AllGather_X(A[I, J_X])
    C[I, K] = A[I, J] *J B[J, K]",
    },
    Code {
        code: AXIS_CONFLICT,
        name: "axis-conflict",
        page: "One axis splits two different indices of an operation (case 4): the result would \
            use it twice, and only its diagonal blocks would be known. Gather one operand first.

Triggered by:

    C[I_X, K_X] = A[I_X, J] *J B[J, K_X]",
    },
    Code {
        code: PARTIAL_THROUGH,
        name: "partial-through-nonlinear",
        page: "A partial sum passes through linear operations only: gelu(p + q) is not gelu(p) + \
            gelu(q). Reduce it first.

Triggered by:

    a[B] {U_Y} = gelu(h[B] {U_Y})

Write instead:

    h[B] = AllReduce_Y(h[B] {U_Y})
    a[B] = gelu(h[B])",
    },
    Code {
        code: WRONG_RESULT,
        name: "wrong-result",
        page: "In an explicit program the left side is exactly the sharding that the operation \
            produces; no collective is inserted.

Triggered by:

    plan
    …
    C[I] = A[I_X] + B[I_X]

Write instead:

    C[I_X] = A[I_X] + B[I_X]
    C[I] = AllGather_X(C[I_X])",
    },
    Code {
        code: BAD_COLLECTIVE,
        name: "bad-collective",
        page: "The collective does not produce the left side from its operand. A gather removes \
            trailing axes only, a scatter and an AllToAll append axes at the end, those that they \
            reduce or move and axes that nothing used: the order of subscripts determines which \
            device has which block.

Triggered by:

    A[I_Y, J] = AllGather_X(A[I_XY, J])    # X is the major axis

Write instead:

    A[I_X, J] = AllGather_Y(A[I_XY, J])",
    },
    Code {
        code: NO_LAYOUT,
        name: "no-layout",
        page: "No layout of the operation has the shardings that brackets at its operands and its \
            left side ask for.

Triggered by:

    A[I] {max_X} = gelu(B)              # gelu produces no partial maxima

Write instead:

    A[I] = gelu(B)",
    },
    Code {
        code: NO_MATERIALIZATION,
        name: "no-such-materialization",
        page: "An explicit program uses a value in a sharding that no earlier statement produces; \
            no collective is inserted.

Triggered by:

    plan
    …
    input A[I, J_X]
    B[I, J] = gelu(A[I, J])

Write instead:

    A[I, J] = AllGather_X(A[I, J_X])
    B[I, J] = gelu(A[I, J])",
    },
    Code {
        code: MUST_BE_WHOLE,
        name: "must-be-whole",
        page: "The operation needs all elements along a dimension at once, and the operand's \
            brackets shard it. A `softmax` (and `logsumexp`, `layernorm`, `rmsnorm`) is one local \
            operation where its dimension is unsharded; where it is sharded, the compiler expands \
            it so that only maxima and sums are communicated, and a plan shows these statements. \
            `slice`, `pad` and `concat` split and join at constant places, which are not the \
            boundaries of blocks.

Triggered by:

    P = softmax_S(L[B, S_X])

Write instead, and let the compiler choose:

    P = softmax_S(L)",
    },
    Code {
        code: BLOCKS_BREAK,
        name: "blocks-break",
        page: "A reshape is local only where the block of every device stays one block. Splitting \
            `N = K*M` sends `N_Y` to `K_Y` where |Y| divides K; merging `K_Y` and `M_Z` produces \
            `N_YZ` only where |Y| = K: with two of `K` per device, its data would be two separate \
            ranges of `N`.

Triggered by (with K=8, Y=4):

    Af = reshape(A[B, K_Y, M_Z])

Write instead, and let the compiler insert a reshard:

    Af[B_?, N_?] = reshape(A)",
    },
];
