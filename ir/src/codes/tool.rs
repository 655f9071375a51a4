//! Configuration and outputs of the tool (`SW902` …; `SW900` and `SW901` are lints).

use super::Code;

/// `bad-configuration`
pub const BAD_CONFIGURATION: &str = "SW902";
/// `not-exported`
pub const NOT_EXPORTED: &str = "SW903";
/// `not-imported`
pub const NOT_IMPORTED: &str = "SW904";

pub(super) const CODES: &[Code] = &[
    Code {
        code: BAD_CONFIGURATION,
        name: "bad-configuration",
        page: r#"A `shardwise.toml` cannot be read: it is not TOML, has an unknown key, or names something that is not a lint.

Triggered by:

    ignored = ["SW301"]

Write instead:

    ignore = ["SW301"]"#,
    },
    Code {
        code: NOT_EXPORTED,
        name: "not-exported",
        page: "`export` cannot write a part of the plan in the framework's own operations yet: \
            pipelines of several blocks; padded dimensions that are reshaped, rolled or in a \
            pipeline; in PyTorch and StableHLO all padded dimensions, arguments of partial maxima; \
            in PyTorch `int4` and `fp4`, in StableHLO and Chakra windows of a dimension that is \
            split.

Triggered by:

    shardwise export torch tests/programs/renamed-padded.shard

Run the plan from its JSON instead, which says everything that is needed:

    shardwise plan tests/programs/renamed-padded.shard --format json",
    },
    Code {
        code: NOT_IMPORTED,
        name: "not-imported",
        page: "`import` cannot write a program. A function in JAX or a model in PyTorch has an operation \
            that is not in the language, its arguments do not fit it, it raises an exception, or its \
            package is not installed; the message names the line, and what to write instead. A \
            `config.json` is of an architecture that is not known, or lacks what the program needs.

Triggered by a function with

    x = jax.lax.while_loop(lambda x: x.max() < 1, step, x)

Write instead

    x = jax.lax.fori_loop(0, 8, lambda _, x: step(x), x)",
    },
];
