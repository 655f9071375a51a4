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
/// `batch-unclear`
pub const BATCH: &str = "SW606";
/// `microbatches-do-not-divide`
pub const INDIVISIBLE: &str = "SW607";
/// `batch-mixed`
pub const MIXED: &str = "SW608";
/// `backward-behind-microbatches`
pub const CUT_BEFORE: &str = "SW609";

pub(super) const CODES: &[Code] = &[
    Code {
        code: EXPLICIT,
        name: "explicit-backward",
        page:
            "An explicit program has a `backward` statement, but no statements are derived in an \
            explicit program.

Triggered by:

    plan
    backward from Out given dOut

Write instead the gradient statements with their brackets, or leave `plan` out and let the \
            compiler derive them.",
    },
    Code {
        code: TWICE,
        name: "backward-twice",
        page:
            "A program has two `backward` statements. Gradients are named after their values, so \
            there is one for each.

Triggered by:

    backward from Out given dOut
    backward from Out given dOut

Write instead one `backward`, from the sum of what is to be differentiated. A `phase` line \
            beside it is the same error: the statements that are derived are the backward part.",
    },
    Code {
        code: NOTHING,
        name: "nothing-to-differentiate",
        page: "No path leads from the parameters, or from a value whose gradient the program \
            names, to what `backward` starts from.

Triggered by:

    input A[B, D], dA[B, D]
    backward from A given dA

Write instead `backward` from a value that depends on a `param`, or name a gradient that exists.",
    },
    Code {
        code: NO_DERIVATIVE,
        name: "no-derivative",
        page: "A gradient would have to pass through a function that has no derivative.

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
        page: "The gradient of a value is called `d` and its name, but something else has that \
            name.

Triggered by:

    Tmp = In *D Win
    dTmp = In *D Wgate

Write instead another name for what is not a gradient.",
    },
    Code {
        code: BATCH,
        name: "batch-unclear",
        page: "A step is split into microbatches, but its batch dimension is ambiguous: it is the \
            dimension that all inputs share and no `param` has. Or the named dimension cannot be \
            split: a `param` has it, it is padded, or it is a product of others.

Triggered by:

    input In[B, S, D]
    backward from Loss, microbatches=8

Write instead which dimension is split:

    backward from Loss, microbatches=8 of B",
    },
    Code {
        code: INDIVISIBLE,
        name: "microbatches-do-not-divide",
        page: "The number of microbatches does not divide the batch, or the rows of a microbatch \
            cannot be sharded as brackets declare.

Triggered by:

    mesh X=8
    dim B=64
    input In[B_X, D]
    backward from Loss, microbatches=16

Write instead a number that leaves each microbatch a multiple of the number of its shards: \
            `microbatches=8`.",
    },
    Code {
        code: MIXED,
        name: "batch-mixed",
        page:
            "A statement that gradients pass through needs all rows of the batch at once, so the \
            batch cannot be split into microbatches. Rows may be summed, and linear functions of \
            such a sum may follow.

Triggered by:

    Normed = In - mean_B(In)
    Loss = sum_{B,D}(Normed *D W)
    backward from Loss, microbatches=8

Write instead an operation that works row by row (`layernorm_D` has no such mean), or omit \
            `microbatches`.",
    },
    Code {
        code: CUT_BEFORE,
        name: "backward-behind-microbatches",
        page: "`backward` is in a program that is already split into microbatches, or asks for \
            microbatches where a pipeline has its own. Gradients are derived for the whole batch, \
            which is split afterwards.

Triggered by:

    microbatches B=B'*8 {
      y = part(x) *D W
    }
    Out = join(y)
    backward from Out given dOut

Write instead the step for the whole batch:

    Out = x *D W
    backward from Out given dOut, microbatches=8

and for a pipeline all microbatches as those of the pipeline: `pipeline Z, microbatches=64, \
            schedule=1f1b {`.",
    },
];
