//! The JSON Schemas (draft 2020-12) of the documents that programs may depend on.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use crate::display::Format;
use crate::json;
use crate::tune::{Curve, Served, Tuned};

/// The documents with a schema, by name.
pub const SCHEMAS: &[Format<()>] = &[
    Format {
        name: "plan",
        about: "`shardwise.plan/2`, of `plan --format json`",
        write: |()| Ok(json::schema()),
    },
    Format {
        name: "tune",
        about: "`shardwise.tune/1`, of `tune --format json`",
        write: |()| Ok(written::<Tuned>()),
    },
    Format {
        name: "tune-curve",
        about: "`shardwise.tune-curve/1`, of `tune --chips 8..64 --format json`",
        write: |()| Ok(written::<Curve>()),
    },
    Format {
        name: "tune-serving",
        about: "`shardwise.tune-serving/1`, of `tune --prefill FILE --format json`",
        write: |()| Ok(written::<Served>()),
    },
];

/// The schema of a document that is written, and never read: what is always written is required.
fn written<T: JsonSchema>() -> String {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    serde_json::to_string_pretty(&generator.into_root_schema_for::<T>()).unwrap_or_default()
}
