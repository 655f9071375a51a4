//! Names, dimensions and forms (`SW1xx`).

use super::Code;

/// `unknown-value`
pub const UNKNOWN_VALUE: &str = "SW101";
/// `unknown-dimension`
pub const UNKNOWN_DIM: &str = "SW102";
/// `duplicate-name`
pub const DUPLICATE: &str = "SW103";
/// `dimensions-differ`
pub const DIMS_DIFFER: &str = "SW104";
/// `contraction`
pub const CONTRACTION: &str = "SW105";
/// `unknown-function`
pub const UNKNOWN_FUNCTION: &str = "SW106";
/// `bad-call`
pub const BAD_CALL: &str = "SW107";
/// `bad-size`
pub const BAD_SIZE: &str = "SW108";
/// `unknown-dtype`
pub const UNKNOWN_DTYPE: &str = "SW109";
/// `needs-brackets`
pub const NEEDS_BRACKETS: &str = "SW110";
/// `one-operation`
pub const ONE_OPERATION: &str = "SW111";
/// `too-many-dimensions`
pub const TOO_MANY_DIMS: &str = "SW112";
/// `dtypes-differ`
pub const DTYPES_DIFFER: &str = "SW113";
/// `reserved-name`
pub const RESERVED: &str = "SW114";
/// `kernel-outside-a-plan`
pub const KERNEL: &str = "SW115";
/// `not-one-kernel`
pub const NOT_ONE_KERNEL: &str = "SW116";
/// `not-in-order`
pub const ORDER: &str = "SW117";
/// `heads-as-positions`
pub const HEADS_AS_POSITIONS: &str = "SW118";

pub(super) const CODES: &[Code] = &[
    Code {
        code: UNKNOWN_VALUE,
        name: "unknown-value",
        page: "A statement uses a value that no declaration or earlier statement defines.

Triggered by:

    C = Aa *J B        # only A is declared

Write instead:

    C = A *J B",
    },
    Code {
        code: UNKNOWN_DIM,
        name: "unknown-dimension",
        page: "A dimension without a size. Every dimension is declared by `dim`.

Triggered by:

    input A[I, Q]      # no dim Q

Write instead:

    dim I=8, Q=16
    input A[I, Q]",
    },
    Code {
        code: DUPLICATE,
        name: "duplicate-name",
        page: "The name is already in use. A value may be redefined only by a collective on \
            itself, which adds another sharding of it.

Triggered by:

    C = A *J B
    C = gelu(A)

Write instead:

    C = A *J B
    D = gelu(A)",
    },
    Code {
        code: DIMS_DIFFER,
        name: "dimensions-differ",
        page: "The brackets do not name the dimensions that the value has, in its order.

Triggered by:

    input A[I, J]
    B = gelu(A[J, I])

Write instead:

    B = gelu(A[I, J])",
    },
    Code {
        code: CONTRACTION,
        name: "contraction",
        page: "The suffix of a product and its left side disagree: what is summed is in both \
            operands and not on the left; what is in an operand is summed or on the left.

Triggered by:

    C[I] = A[I, J] *K B[K]

Write instead:

    C[I, J] = A[I, J] *K B[K]",
    },
    Code {
        code: UNKNOWN_FUNCTION,
        name: "unknown-function",
        page: "The function is unknown, so its linearity is unknown too.

Triggered by:

    B = gelou(A)

Write instead:

    B = gelu(A)",
    },
    Code {
        code: BAD_CALL,
        name: "bad-call",
        page: "A function or collective has arguments that it does not accept.

Triggered by:

    B = gelu(A, A)

Write instead:

    B = gelu(A)",
    },
    Code {
        code: BAD_SIZE,
        name: "bad-size",
        page: "A size is a whole number from 1 to 2^63, or computed from such: `4*D`, `D/N`, \
            `P + T`, `2*(P + T)`. A quotient must come out whole.

Triggered by:

    dim B=0

Write instead:

    dim B=4096",
    },
    Code {
        code: UNKNOWN_DTYPE,
        name: "unknown-dtype",
        page:
            "The dtypes are f32, bf16, f16, fp8, fp4, int8, int4, int32 and bool; the default is \
            bf16.

Triggered by:

    input A: float[I, J]

Write instead:

    input A: f32[I, J]",
    },
    Code {
        code: NEEDS_BRACKETS,
        name: "needs-brackets",
        page: "A declaration gives the sharding of its value in brackets. So does every operand \
            and left side of an explicit program.

Triggered by:

    input A

Write instead:

    input A[I, J]",
    },
    Code {
        code: ONE_OPERATION,
        name: "one-operation",
        page: "A statement of an explicit program is one local operation or one collective.

Triggered by:

    plan
    …
    C[I] = gelu(A[I] + B[I])

Write instead:

    S[I] = A[I] + B[I]
    C[I] = gelu(S[I])",
    },
    Code {
        code: TOO_MANY_DIMS,
        name: "too-many-dimensions",
        page: "A value has at most 64 dimensions.

Triggered by brackets with more than 64 names. Write instead one dimension for several, as a \
            product:

    dim K=8, G=4, N=K*G",
    },
    Code {
        code: DTYPES_DIFFER,
        name: "dtypes-differ",
        page: "A collective communicates a value, and an output returns it: neither converts its \
            dtype. A loop-carried value keeps its dtype, too: integers that become floating-point \
            numbers need a cast.

Triggered by:

    A: f32[I] = AllGather_X(A[I_X])     # A is bf16

Write instead:

    H = cast<f32>(A[I_X])
    H[I] = AllGather_X(H[I_X])",
    },
    Code {
        code: RESERVED,
        name: "reserved-name",
        page:
            "A value has the name of a collective or of a keyword that begins another statement: \
            its plan could not be parsed.

Triggered by:

    input Slice[I_X]
    gelu(A) -> output

Write instead any other name:

    input Part[I_X]
    gelu(A) -> Out

Reserved are AllGather, AllReduce, ReduceScatter, AllToAll, Permute, Slice and \
            Unreduce; plan, hardware, mesh, dim, output, assert and allow; and inf.",
    },
    Code {
        code: KERNEL,
        name: "kernel-outside-a-plan",
        page: "A statement names its kernel, which only statements of a plan do: elsewhere the \
            compiler decides what is fused.

Triggered by, in a program without `plan`:

    B[I_X] = gelu(A[I_X]) in k1

Write instead:

    B = gelu(A)",
    },
    Code {
        code: NOT_ONE_KERNEL,
        name: "not-one-kernel",
        page: "Statements of a plan name the same kernel, but cannot run as one: a kernel has one \
            product, norm or lookup and the element-wise statements around it, or the reductions \
            of one block, or is attention. A collective is part of none.

Triggered by:

    C[I, K] = A[I, J] *J B[J, K] in k1
    E[I, L] = C[I, K] *K D[K, L] in k1

Write instead:

    C[I, K] = A[I, J] *J B[J, K]
    E[I, L] = C[I, K] *K D[K, L]",
    },
    Code {
        code: ORDER,
        name: "not-in-order",
        page:
            "An operation goes along a dimension that is declared `zigzag`, or cuts it (`slice`, \
            `concat`, `reshape`, `roll`, `cumsum`, `scan`, a lookup along it), and needs the order \
            of the sequence; or `rename` gives a dimension of one order the name of one with \
            another. Positions, causal masks, sums, maxima and products are right in any order.

Triggered by:

    dim T=4096 zigzag 4, S=4096
    Ks = rename_{T->S}(K)

Write instead:

    dim T=4096 zigzag 4, S=T",
    },
    Code {
        code: HEADS_AS_POSITIONS,
        name: "heads-as-positions",
        page:
            "The scores of `attention` are those of each query with each key along the dimensions \
            that queries or keys lack. Where both have the positions of the sequence by one name, \
            and grouped heads by two, each position attends to its own heads and to no other \
            position: keys and values need a dimension of their own for positions, and queries \
            the heads of keys with the queries of each as another dimension. Where keys have \
            positions of their own, heads of two names are all compared with each other. If that \
            is meant, write the products and a `softmax` out, which has no warning.

Triggered by:

    dim B=8, T=4096, N=32, K=8, H=128
    input q[B, T, N, H], k[B, T, K, H], v[B, T, K, H]
    o = attention_H(q, k, v, causal)

Write instead:

    dim B=8, T=4096, S=T, K=8, G=4, H=128
    input q[B, T, K, G, H], k[B, S, K, H], v[B, S, K, H]
    o = attention_H(q, k, v, causal)",
    },
];
