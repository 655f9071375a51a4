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
pub const TOO_LARGE: &str = "SW406";
/// `too-many-axes`
pub const TOO_MANY: &str = "SW405";

pub(super) const CODES: &[Code] = &[
    Code {
        code: UNKNOWN_HARDWARE,
        name: "unknown-hardware",
        page: "The hardware is none of the presets; `shardwise hardware` lists them.",
    },
    Code { code: NO_HARDWARE, name: "no-hardware", page: "Costs depend on the chip: write `hardware tpu-v5p`, or give `--hardware`." },
    Code {
        code: BAD_AXIS,
        name: "bad-axis",
        page: "An axis has a name, a size from 1 on, and the options `ring`, `line`, `switch`, `dcn` and `over 4x4` (whose product is the size).",
    },
    Code { code: NO_LINK, name: "no-such-link", page: "The hardware has no figure for links of that kind." },
    Code {
        code: TOO_LARGE,
        name: "too-many-shardings",
        page: "A value has more shardings on this mesh than the planner tabulates (their number grows with the factorial of the axes). Leave out axes of size 1, or join axes that always go together.",
    },
    Code { code: TOO_MANY, name: "too-many-axes", page: "A mesh has at most 16 axes and fewer than 2^63 devices." },
];
