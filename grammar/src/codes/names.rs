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
/// `not-yet`
pub const NOT_YET: &str = "SW190";

pub(super) const CODES: &[Code] = &[
    Code {
        code: UNKNOWN_VALUE,
        name: "unknown-value",
        page: "A statement uses a value that no declaration or earlier statement gives.

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
        page: "The name is taken. A value may be defined again only by a collective on itself, which adds another sharding of it.

Triggered by:

    C = A *J B
    C = gelu(A)",
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
        page: "The suffix of a product and its left side disagree: what is summed is in both operands and not on the left; what is in an operand is summed or on the left.

Triggered by:

    C[I] = A[I, J] *K B[K]

Write instead:

    C[I, J] = A[I, J] *K B[K]",
    },
    Code {
        code: UNKNOWN_FUNCTION,
        name: "unknown-function",
        page: "The function is not known, so neither is whether it is linear.

Triggered by:

    B = gelou(A)

Write instead:

    B = gelu(A)",
    },
    Code {
        code: BAD_CALL,
        name: "bad-call",
        page: "A function or collective was given arguments it does not take.

Triggered by:

    B = gelu(A, A)",
    },
    Code {
        code: BAD_SIZE,
        name: "bad-size",
        page: "A size is a whole number from 1 to 2^63, or a product of such.

Triggered by:

    dim B=0",
    },
    Code {
        code: UNKNOWN_DTYPE,
        name: "unknown-dtype",
        page: "The dtypes are f32, bf16, f16, fp8, int8, int4, int32 and bool; the default is bf16.",
    },
    Code {
        code: NEEDS_BRACKETS,
        name: "needs-brackets",
        page: "A declaration says how the value is laid out: it has brackets. So does every operand and left side of an explicit program.

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
    C[I] = gelu(A[I] + B[I])",
    },
    Code { code: NOT_YET, name: "not-yet", page: "The form belongs to the language, but this version does not compile it yet." },
];
