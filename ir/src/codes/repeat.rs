//! Blocks (`SW7xx`).

use super::Code;

/// `block-in-block`
pub const NESTED: &str = "SW701";
/// `value-of-a-layer`
pub const OF_A_LAYER: &str = "SW702";
/// `carry-without-end`
pub const CARRY: &str = "SW703";
/// `no-such-repeat`
pub const NO_BLOCK: &str = "SW704";
/// `value-of-a-microbatch`
pub const OF_A_MICROBATCH: &str = "SW705";
/// `checkpoint-of-nothing`
pub const CHECKPOINT: &str = "SW706";
/// `not-in-a-scan`
pub const SCAN: &str = "SW707";

pub(super) const CODES: &[Code] = &[
    Code {
        code: NESTED,
        name: "block-in-block",
        page: "`microbatches` or `backward` is inside another block, or blocks nest more than four \
            deep. (A `repeat` may be inside a `repeat`, and inside `microbatches`.)

Triggered by:

    repeat L=4 {
      microbatches B=B'*8 {

Write instead `microbatches` outside and the `repeat` inside; for deep nests, one `repeat` over the \
            product of two of them.",
    },
    Code {
        code: OF_A_LAYER,
        name: "value-of-a-layer",
        page: "A value of a `repeat` is used outside of it. Each layer has its own, so the name \
            alone is ambiguous.

Triggered by:

    repeat L=4 {
      carry x
      h = gelu(x)
      x = x + h
    }
    y = 2.0 * h

Write instead `last(h)` for that of the last layer, `total(h)` for the sum of all, or carry it. A \
            loop-carried value keeps its name after the block.",
    },
    Code {
        code: CARRY,
        name: "carry-without-end",
        page: "The body of a `repeat` does not redefine a loop-carried value, or defines it with \
            other dimensions, another dtype or another sharding, or twice.

Triggered by:

    repeat L=4 {
      carry x
      h = gelu(x)
    }

Write instead the value with which the next layer starts: `x = x + h`, or omit `carry`.",
    },
    Code {
        code: NO_BLOCK,
        name: "no-such-repeat",
        page: "`carry` or `next` is outside a `repeat`, or `repeat L reversed` has no earlier \
            `repeat L=…`.

Triggered by:

    carry x

Write instead the block: `repeat L=4 {`, then `carry x`.",
    },
    Code {
        code: OF_A_MICROBATCH,
        name: "value-of-a-microbatch",
        page: "A value of a microbatch is used outside of the microbatches. Each microbatch has \
            its own, so the name alone is ambiguous.

Triggered by:

    microbatches B=B'*8 {
      h = gelu(part(x))
    }
    y = 2.0 * h

Write instead `join(h)` for the rows of all microbatches, `total(h)` for the sum of all, or \
            `last(h)` for that of the last.",
    },
    Code {
        code: CHECKPOINT,
        name: "checkpoint-of-nothing",
        page:
            "A `checkpoint` names a kind of values that its block does not have, names values of \
            other blocks as those to compute again, sends what is declared to the host, or \
            contradicts another.

Triggered by:

    repeat L=4 {
      carry x
      param W[D, E]
      x = x + gelu(x *D W) *E W
      checkpoint only attention
    }

Write instead what the block has: `checkpoint only mlp`, `checkpoint keep products`, names of \
            its values, or `checkpoint` alone, which computes everything again.",
    },
    Code {
        code: SCAN,
        name: "not-in-a-scan",
        page: "A value is declared in a `scan`, whose steps share what is declared; a value that is \
            stacked lacks the dimension of a chunk, or has the whole one; or a value that a scan \
            reads has both.

Triggered by:

    scan T in C {
      param W[D, F]
      h = gelu(x *D W)
    }

Write instead the declaration before the block. For a value without the dimension, `total(h)` is \
            the sum of all steps, and `last(h)` that of the last.",
    },
];
