//! Gradients (`SW6xx`).

use super::Code;

/// `explicit-backward`
pub const EXPLICIT: &str = "SW601";
/// `backward-twice`
pub const TWICE: &str = "SW602";
/// `nothing-to-differentiate`
pub const NOTHING: &str = "SW603";
/// `no-derivative`
pub const NO_DERIVATIVE: &str = "SW604";
/// `gradient-name-taken`
pub const NAME_TAKEN: &str = "SW605";

pub(super) const CODES: &[Code] = &[
    Code {
        code: EXPLICIT,
        name: "explicit-backward",
        page: r"An explicit program says `backward`, but nothing is derived in a program that leaves nothing to choose.

Triggered by:

    plan
    backward from Out given dOut

Write instead the gradient statements with their brackets, or leave `plan` out and let the compiler derive them.",
    },
    Code {
        code: TWICE,
        name: "backward-twice",
        page: r"A program says `backward` twice. Gradients are named after their values, so there is one for each.

Triggered by:

    backward from Out given dOut
    backward from Out given dOut

Write instead one `backward`, from the sum of what is to be differentiated.",
    },
    Code {
        code: NOTHING,
        name: "nothing-to-differentiate",
        page: r"No path leads from the parameters, or from a value whose gradient the program names, to what `backward` starts from.

Triggered by:

    input A[B, D], dA[B, D]
    backward from A given dA

Write instead `backward` from a value that depends on a `param`, or name a gradient that there is.",
    },
    Code {
        code: NO_DERIVATIVE,
        name: "no-derivative",
        page: r"A gradient would have to pass through a function that has no derivative.

Triggered by:

    Q = cast<int8>(W)
    Out = A *D Q
    backward from Out given dOut

Write instead `stop_gradient` around what is a constant to the gradient:

    Q = cast<int8>(stop_gradient(W))",
    },
    Code {
        code: NAME_TAKEN,
        name: "gradient-name-taken",
        page: r"The gradient of a value is called `d` and its name, but something else has that name.

Triggered by:

    Tmp = In *D Win
    dTmp = In *D Wgate

Write instead another name for what is not a gradient.",
    },
];
