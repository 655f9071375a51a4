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
/// `across-stages`
pub const CROSSING: &str = "SW717";

pub(super) const CODES: &[Code] = &[
    Code {
        code: FORM,
        name: "pipeline-without-layers",
        page: "A `pipeline` contains statements outside of its blocks, or no `repeat`; it is inside \
            another block, or has an unknown option; or a `stage` is in no pipeline.

Triggered by:

    pipeline Z, microbatches=8 {
      y = gelu(x)
    }

Write instead the layers of its stages: `repeat L=40 { carry x … }`; statements before the first \
            or after the last layer, on their stages, in a `stage head { … }`; and other statements \
            before or after the pipeline. Options are `microbatches=8` (or `microbatches=8 of B`), \
            `schedule=1f1b` or another schedule, `chunks=2`, and `layers=[7, 8, 8, 7]`.",
    },
    Code {
        code: UNEVEN,
        name: "uneven-stages",
        page:
            "A `pipeline` has fewer layers than stages (with `chunks=v`: than stages times `v`), \
            `layers=[…]` lists other layers than it has, or its schedule cannot run so many \
            microbatches on so many stages.

Triggered by:

    mesh Z=4
    pipeline Z, microbatches=8, layers=[1, 2, 2] {
      repeat L=6 {

Write instead as many numbers as there are stages, which add up to the layers: \
            `layers=[1, 2, 2, 1]`; or none, to spread the layers as evenly as possible.",
    },
    Code {
        code: BATCH,
        name: "no-such-batch",
        page:
            "The batch dimension of a `pipeline` is ambiguous, or the microbatches do not divide \
            it. It is the dimension that all carried values have and no `param`; where there is \
            none or more than one, the program must name it.

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
        page:
            "Brackets inside a `pipeline` shard a value over the axis of its stages. The devices \
            along that axis have different layers, so no value of a layer can be sharded over \
            them.

Triggered by:

    pipeline Z, microbatches=8 {
      repeat L=4 {
        param W[D_Z, F]

Write instead another axis, or none: the layers are already sharded over `Z`.",
    },
    Code {
        code: MIXED,
        name: "mixed-microbatches",
        page:
            "A statement needs rows of the batch that are in other microbatches: a softmax along \
            it, or a sum over it that rows depend on. Inside a `pipeline` every row is computed \
            independently, and sums over rows are only outputs. With `schedule=1f1b` the same \
            holds for statements between the pipeline and its gradient, since the first microbatch \
            goes backward before the last one has come forward.

Triggered by:

    pipeline Z, microbatches=8 {
      repeat L=4 {
        carry x
        x = x - mean_B(x)

Write instead statements that need the whole batch before or after the pipeline; use \
            `schedule=gpipe` where the gradient needs it.",
    },
    Code {
        code: HELD,
        name: "held-in-vain",
        page: "`hold` names the result of a collective on a layer's parameter or state, in the \
            same block and with all its brackets; the collective then runs once per step and its \
            result is retained for all microbatches. Here another value is named, or nothing \
            defines it.

Triggered by:

    repeat L=40 {
      param Win[D_X, F]
      hold Win[D, F]
      h = gelu(x *D Win)

Write instead the collective, too: `Win[D, F] = AllGather_X(Win[D_X, F])`; or omit `hold`: the \
            search decides what is worth its memory.",
    },
    Code {
        code: CROSSING,
        name: "across-stages",
        page: "In a pipeline of several blocks a statement reads what another stage computes. \
            Stages send what their layers carry, and nothing else.

Triggered by:

    pipeline Z, microbatches=8 {
      stage embedding {
        param Table[V, D]
        e = Words *V Table
      }
      repeat L=4 {
        carry x
        x = gelu(x) + e

Write instead `e = Words *V Table` before the pipeline, where all stages have it; or carry it, so \
            that each stage sends it to the next.",
    },
];
