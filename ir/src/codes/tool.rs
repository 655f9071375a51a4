//! Configuration of the tool (`SW902` …; `SW900` and `SW901` are lints).

use super::Code;

/// `bad-configuration`
pub const BAD_CONFIGURATION: &str = "SW902";

pub(super) const CODES: &[Code] = &[Code {
    code: BAD_CONFIGURATION,
    name: "bad-configuration",
    page: r#"A `shardwise.toml` cannot be read: it is not TOML, has an unknown key, or names something that is not a lint.

Triggered by:

    ignored = ["SW301"]

Write instead:

    ignore = ["SW301"]"#,
}];
