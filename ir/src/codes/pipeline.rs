//! Pipelines (`SW71x`).

use super::Code;

/// `pipeline-without-layers`
pub const FORM: &str = "SW711";
/// `uneven-stages`
pub const UNEVEN: &str = "SW712";
/// `no-such-batch`
pub const BATCH: &str = "SW713";
/// `split-over-stages`
pub const STAGES_AXIS: &str = "SW714";
/// `mixed-microbatches`
pub const MIXED: &str = "SW715";
/// `held-in-vain`
pub const HELD: &str = "SW716";

pub(super) const CODES: &[Code] = &[
    Code {
        code: FORM,
        name: "pipeline-without-layers",
        page: r"A `pipeline` does not hold exactly one `repeat` and nothing else, stands inside another block, or has an option that does not exist.

Triggered by:

    pipeline Z, microbatches=8 {
      y = gelu(x)
    }

Write instead the layers that its stages have: `repeat L=40 { carry x … }`, and other statements before or behind the pipeline.
Options are `microbatches=8` (or `microbatches=8 of B`), `schedule=gpipe` or `schedule=1f1b`, and `chunks=2`.",
    },
    Code {
        code: UNEVEN,
        name: "uneven-stages",
        page: r"The stages of a `pipeline` do not divide its layers (with `chunks=v`: the stages times `v` do not), or with chunks the microbatches.

Triggered by:

    mesh Z=4
    pipeline Z, microbatches=8 {
      repeat L=6 {

Write instead a number of layers that every stage has as many of: `repeat L=8 {`.",
    },
    Code {
        code: BATCH,
        name: "no-such-batch",
        page: r"It is not clear which dimension the microbatches of a `pipeline` are parts of, or they do not divide it. It is the one that all carried
values have and no `param`; where that is none or several, the program says which.

Triggered by:

    dim B=1024, S=2048, D=512
    input x[B, S, D]
    pipeline Z, microbatches=8 {
      repeat L=4 { carry x … }

Write instead `microbatches=8 of B`.",
    },
    Code {
        code: STAGES_AXIS,
        name: "split-over-stages",
        page: r"Brackets inside a `pipeline` split something over the axis of its stages. The devices along that axis have different layers, so that no
value of a layer can be spread over them.

Triggered by:

    pipeline Z, microbatches=8 {
      repeat L=4 {
        param W[D_Z, F]

Write instead another axis, or none: layers are spread over `Z` already.",
    },
    Code {
        code: MIXED,
        name: "mixed-microbatches",
        page: r"A statement needs rows of the batch that come in other microbatches: a softmax along it, or a sum over it that flows back into rows.
Inside a `pipeline` every row is computed by itself, and sums over rows only leave it. With `schedule=1f1b` the same holds for what stands
between the pipeline and its gradient, since the first microbatch goes back before the last has come.

Triggered by:

    pipeline Z, microbatches=8 {
      repeat L=4 {
        carry x
        x = x - mean_B(x)

Write instead what needs the whole batch before or behind the pipeline; and `schedule=gpipe` where the gradient needs it.",
    },
    Code {
        code: HELD,
        name: "held-in-vain",
        page: r"`hold` names what a collective makes of a layer's parameter or state, in the block in which it stands and with all its brackets, so that it is
made once a step and held for all microbatches. Something else is named, or nothing gives it.

Triggered by:

    repeat L=40 {
      param Win[D_X, F]
      hold Win[D, F]
      h = gelu(x *D Win)

Write instead the collective, too: `Win[D, F] = AllGather_X(Win[D_X, F])`; or leave `hold` out: the search decides what is worth its room.",
    },
];
