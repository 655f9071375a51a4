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
        page: r"The plan breaks an `assert` of the program.

Triggered by:

    assert comm <= 1us

Write instead a limit that can be held, or another sharding:

    assert comm <= 2ms",
    },
    Code {
        code: BAD_ASSERT,
        name: "bad-assert",
        page: r"An `assert` limits `comm`, `serial`, `compute`, `overlap`, `scheduled` (a time) or `memory` (bytes), forbids a collective, or keeps a value sharded.

Triggered by:

    assert comm <= 2GB

Write instead:

    assert comm <= 2ms",
    },
    Code {
        code: MEMORY,
        name: "over-memory",
        page: r"A device would hold more than it has room for at some step of the plan.

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
        page: r"A plan that is run against a program (`verify PLAN --against PROGRAM`) starts from other values or sizes than the program.

Triggered by a plan that declares what the program has not, or has in another size:

    dim D=4096

Write instead the program's own declarations:

    dim D=8192",
    },
    Code {
        code: NO_ROOM,
        name: "no-room",
        page: r"No plan fits into a device's memory: what is resident, and what is live beside it at the worst step, is more than the chip (or `--memory`) has.

Triggered by a gather of a whole matrix that is larger than what is free:

    param W[D_X, F]
    output C[B, F]

Write instead a sharding under which less is whole at a time, or use more devices. The message says what the smallest plan found needs and
what it holds at its peak.",
    },
    Code {
        code: TOO_LARGE_TO_RUN,
        name: "too-large-to-run",
        page: r"`verify` would need gigabytes or minutes to run the program on simulated devices. It runs at most 2^27 elements held on all devices
together, 2^25 multiply-adds in one product of one device, and 2^31 elements computed in all, each after sizes were scaled down.

Triggered by `verify --full`, or by sizes that cannot be scaled down (a reshape that some smaller size would not divide):

    dim D=8192, F=32768                 # verify --full

Write instead smaller sizes, on the command line:

    dim D=8192, F=32768                 # verify --dim D=64,F=128",
    },
];
