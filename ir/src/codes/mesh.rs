//! Mesh and hardware (`SW4xx`).

use super::Code;

/// `unknown-hardware`
pub const UNKNOWN_HARDWARE: &str = "SW401";
/// `no-hardware`
pub const NO_HARDWARE: &str = "SW402";
/// `bad-axis`
pub const BAD_AXIS: &str = "SW403";
/// `no-such-link`
pub const NO_LINK: &str = "SW404";
/// `too-many-axes`
pub const TOO_MANY: &str = "SW405";

/// `bad-hardware-file`
pub const BAD_HARDWARE: &str = "SW407";

/// `hardware-file-unread`
pub const UNREAD_HARDWARE: &str = "SW408";
/// `hardware-unclear`
pub const UNCLEAR_HARDWARE: &str = "SW409";

/// `bad-hardware-setting`
pub const BAD_SETTING: &str = "SW410";
/// `nothing-measured`
pub const NO_MEASUREMENTS: &str = "SW411";
/// `bad-measurements`
pub const BAD_MEASUREMENTS: &str = "SW412";
/// `outgrown-pod`
pub const OUTGROWN_POD: &str = "SW413";
/// `in-host-memory`
pub const ON_HOST: &str = "SW414";

pub(super) const CODES: &[Code] = &[
    Code {
        code: UNKNOWN_HARDWARE,
        name: "unknown-hardware",
        page:
            "The hardware is none of the presets (`shardwise hardware` lists them), or is not in \
            the named file.

Triggered by:

    hardware tpu-v5

Write instead:

    hardware tpu-v5p",
    },
    Code {
        code: NO_HARDWARE,
        name: "no-hardware",
        page: "Costs depend on the chip, and the program names none.

Triggered by a program without a line such as

    hardware tpu-v5p

Write one, or pass `--hardware tpu-v5p`.",
    },
    Code {
        code: BAD_AXIS,
        name: "bad-axis",
        page:
            "An axis has a name, a size of at least 1, and the options `ring`, `line`, `switch`, \
            `dcn`, `over 4x4` and `as 8x2` (whose products are the size). Parts are at least 2 \
            long, and do not end inside of a physical axis that they do not divide.

Triggered by:

    mesh X=16 over 4x5

Write instead:

    mesh X=16 over 4x4",
    },
    Code {
        code: NO_LINK,
        name: "no-such-link",
        page: "The hardware has no figure for links of that kind, and none is guessed.

Triggered by:

    hardware my-chip from \"cluster.toml\"
    mesh X=4 dcn

where the file has no `network_bandwidth`. Write instead hardware that has them, or another kind \
of axis; or give the figure in the file:

    [my-chip]
    network_bandwidth = 50e9",
    },
    Code {
        code: TOO_MANY,
        name: "too-many-axes",
        page: "A mesh has at most 16 axes and fewer than 2^63 devices.

Triggered by:

    mesh X=4000000000, Y=4000000000

Write instead:

    mesh X=4, Y=4",
    },
    Code {
        code: BAD_HARDWARE,
        name: "bad-hardware-file",
        page: r#"A hardware file cannot be parsed, or has a key that hardware does not have. Each table is one chip, named as programs name it.

Triggered by:

    [my-chip]
    bf16 = "fast"

Write instead numbers in bytes, seconds and FLOP/s; `shardwise hardware --format toml h100` prints a preset to start from:

    [my-chip]
    base = "h100"
    link_bandwidth = 370e9"#,
    },
    Code {
        code: UNREAD_HARDWARE,
        name: "hardware-file-unread",
        page: r#"The hardware file that a program names is not there, or cannot be read: a folder, no permission, more than a mebibyte. Paths are relative to the
folder of the program (for a program on standard input, to the working directory).

Triggered by:

    hardware "no-such-file.toml"

Write instead the path of an existing file; `shardwise hardware --format toml h100` prints one to start from:

    hardware "hardware/cluster.toml""#,
    },
    Code {
        code: UNCLEAR_HARDWARE,
        name: "hardware-unclear",
        page: r#"The hardware file that a program names describes several chips, and the program does not name one; or a preset or another file has a chip of the same name
with other numbers.

Triggered by a file of several chips and

    hardware "cluster.toml"

Write instead the name of one:

    hardware my-chip from "cluster.toml"

Where a name is in use, give the chip another name (`[my-h100]`), perhaps with `base = "h100"`."#,
    },
    Code {
        code: BAD_SETTING,
        name: "bad-hardware-setting",
        page:
            "A `hardware` statement has three settings: `rates`, which are `peak` (those of data \
            sheets, the default) or `measured`; `fusion`, which is `attention` (the default), \
            `elementwise` or `none`; and `products`, the dtype of products with weights, which is \
            `written` (the default), or one that the chip has units for: `bf16`, `fp8` or `fp4`.

Triggered by:

    hardware h100, rates=real

Write instead:

    hardware h100, rates=measured",
    },
    Code {
        code: NO_MEASUREMENTS,
        name: "nothing-measured",
        page: "Measured rates are asked for, and nothing was measured on the chip; typical shares \
            of its peaks are taken.

Triggered by:

    hardware tpu-v3, rates=measured

Give what was measured on the chip in a hardware file; or use peak rates.",
    },
    Code {
        code: BAD_MEASUREMENTS,
        name: "bad-measurements",
        page: "A file of measurements that `calibrate` reads is neither the output of nccl-tests \
            nor CSV with a row for each measured kernel, or a row lacks what its kind needs.

Triggered by:

    kind,m,n,k,measured_us
    product,4096,4096,,152

Write instead every size of the kernel, and its time:

    kind,m,n,k,measured_us
    product,4096,4096,4096,152",
    },
    Code {
        code: OUTGROWN_POD,
        name: "outgrown-pod",
        page:
            "More devices are on the links of one pod, or of the switch of one node, than it has \
            chips.

Triggered by:

    hardware tpu-v5e
    mesh X=32, Y=16

Write instead pods as an axis of their own (`ib` between nodes of GPUs), or fewer devices:

    hardware tpu-v5e
    mesh P=2 dcn, X=16, Y=16",
    },
    Code {
        code: ON_HOST,
        name: "in-host-memory",
        page: "A value that `offload` sent to the memory of the host is read by a device, or \
            `reload` brings back a value that was never sent.

Triggered by:

    kept = offload(h)
    y = gelu(kept)

Write instead the value that comes back:

    kept = offload(h)
    back = reload(kept)
    y = gelu(back)",
    },
];
