//! Budgets (`SW5xx`).

use super::Code;

/// `broken-budget`
pub const BROKEN: &str = "SW501";
/// `bad-assert`
pub const BAD_ASSERT: &str = "SW502";
/// `over-memory`
pub const MEMORY: &str = "SW503";

pub(super) const CODES: &[Code] = &[
    Code {
        code: BROKEN,
        name: "broken-budget",
        page: "The plan breaks an `assert` of the program.

Triggered by:

    assert comm <= 1us",
    },
    Code {
        code: BAD_ASSERT,
        name: "bad-assert",
        page: "An `assert` limits `comm`, `serial`, `compute`, `overlap`, `scheduled` (a time) or `memory` (bytes), forbids a collective, or keeps a value sharded.

Triggered by:

    assert comm <= 2GB

Write instead:

    assert comm <= 2ms",
    },
    Code { code: MEMORY, name: "over-memory", page: "A device would hold more than it has room for." },
];
