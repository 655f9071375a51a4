//! Budgets (`SW5xx`).

use super::Code;

/// `broken-budget`
pub const BROKEN: &str = "SW501";
/// `bad-assert`
pub const BAD_ASSERT: &str = "SW502";
/// `over-memory`
pub const MEMORY: &str = "SW503";
/// `unlike-the-program`
pub const UNLIKE: &str = "SW504";
/// `no-room`
pub const NO_ROOM: &str = "SW505";
/// `too-large-to-run`
pub const TOO_LARGE_TO_RUN: &str = "SW506";

pub(super) const CODES: &[Code] = &[
    Code {
        code: BROKEN,
        name: "broken-budget",
        page: "The plan breaks an `assert` of the program.

Triggered by:

    assert comm <= 1us

Write instead a limit that the plan meets, or another sharding:

    assert comm <= 2ms",
    },
    Code {
        code: BAD_ASSERT,
        name: "bad-assert",
        page: "An `assert` limits `comm`, `serial`, `compute`, `overlap`, `scheduled` (a time) or \
            `memory` (bytes), forbids a collective, or keeps a value sharded.

Triggered by:

    assert comm <= 2GB

Write instead:

    assert comm <= 2ms",
    },
    Code {
        code: MEMORY,
        name: "over-memory",
        page: "At some step of the plan, a device needs more memory than it has.

Triggered by:

    hardware tpu-v5e                    # 16 GB
    dim D=131072, F=131072
    param W[D, F]                       # 34 GB on every device

Write instead a sharding that splits it, or plan with `--memory` for another capacity:

    param W[D_X, F]",
    },
    Code {
        code: UNLIKE,
        name: "unlike-the-program",
        page: "A plan that is run against a program (`verify PLAN --against PROGRAM`) starts from \
            other values or sizes than the program, lacks one of its outputs or `next` lines, or \
            is for a mesh of other axes.

Triggered by a plan that declares what the program does not have, or has in another size:

    dim D=4096

Write instead the program's own declarations:

    dim D=8192",
    },
    Code {
        code: NO_ROOM,
        name: "no-room",
        page: "No plan fits into the memory of a device: resident values plus the values that are \
            live at the peak exceed the memory of the chip (or `--memory`).

Triggered by a gather of a matrix that is larger than the free memory:

    param W[D_X, F]
    output C[B, F]

Write instead a sharding with smaller live values, or use more devices. The message reports how \
            much memory the smallest plan found needs, and what is live at its peak.",
    },
    Code {
        code: TOO_LARGE_TO_RUN,
        name: "too-large-to-run",
        page: "`verify` would need gigabytes or minutes to run the program on simulated devices. \
            It runs at most 2^17 statements (layers written out), 2^26 elements on all devices \
            together, 20 million multiply-adds in one product of one device, and 8 billion \
            operations in all (a lookup or a piece of a collective counts as hundreds), after sizes \
            were scaled down and, where that is not enough, in samples.

Triggered by `verify --full`, or by sizes that cannot be scaled down (a reshape that some smaller \
            size would not divide):

    dim D=8192, F=32768                 # verify --full

Write instead smaller sizes, on the command line:

    dim D=8192, F=32768                 # verify --dim D=64,F=128",
    },
];
