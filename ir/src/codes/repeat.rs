//! Blocks (`SW7xx`).

use super::Code;

/// `repeat-in-repeat`
pub const NESTED: &str = "SW701";
/// `value-of-a-layer`
pub const OF_A_LAYER: &str = "SW702";
/// `carry-without-end`
pub const CARRY: &str = "SW703";
/// `no-such-repeat`
pub const NO_BLOCK: &str = "SW704";
/// `value-of-a-microbatch`
pub const OF_A_MICROBATCH: &str = "SW705";

pub(super) const CODES: &[Code] = &[
    Code {
        code: NESTED,
        name: "repeat-in-repeat",
        page: r"A `repeat` stands inside another one, or `microbatches` inside any block. (A `repeat` may stand inside `microbatches`.)

Triggered by:

    repeat L=4 {
      repeat M=2 {

Write instead one `repeat` over the product of both, or write the inner body out.",
    },
    Code {
        code: OF_A_LAYER,
        name: "value-of-a-layer",
        page: r"A value of a `repeat` is used where there are no layers. Each layer gives one of its own, so a name alone does not say which is meant.

Triggered by:

    repeat L=4 {
      carry x
      h = gelu(x)
      x = x + h
    }
    y = 2.0 * h

Write instead `last(h)` for that of the last layer, `total(h)` for the sum of all, or carry it. What is carried keeps its name behind the block.",
    },
    Code {
        code: CARRY,
        name: "carry-without-end",
        page: r"What a `repeat` carries from layer to layer is not given anew by its body, or not with the same dimensions and dtype, or twice.

Triggered by:

    repeat L=4 {
      carry x
      h = gelu(x)
    }

Write instead what the next layer starts from: `x = x + h`, or leave `carry` out.",
    },
    Code {
        code: NO_BLOCK,
        name: "no-such-repeat",
        page: r"`carry` or `next` stands outside a `repeat`, or `repeat L reversed` goes back through layers that no earlier `repeat L=…` has.

Triggered by:

    carry x

Write instead the block: `repeat L=4 {`, then `carry x`.",
    },
    Code {
        code: OF_A_MICROBATCH,
        name: "value-of-a-microbatch",
        page: r"A value that is given for each microbatch is used where there are no microbatches, so a name alone does not say which is meant.

Triggered by:

    microbatches B=B'*8 {
      h = gelu(part(x))
    }
    y = 2.0 * h

Write instead `join(h)` for the rows of all microbatches, `total(h)` for the sum of all, or `last(h)` for that of the last.",
    },
];
