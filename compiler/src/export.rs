//! Plans in the formats of other tools, one file each, and the table of formats.

pub(crate) mod dot;
mod format;
pub mod json;
pub(crate) mod text;
pub(crate) mod trace;

use crate::Planned;
use json::PlanJson;

pub use format::Format;

/// The formats of plans.
pub const FORMATS: &[Format<Planned>] = &[
    Format {
        name: "text",
        about: "The plan as a program, with costs as comments",
        write: |planned| Ok(planned.to_string()),
    },
    Format {
        name: "json",
        about: "JSON, `shardwise.plan/2`",
        write: |planned| Ok(planned.json().to_text() + "\n"),
    },
    Format { name: "dot", about: "The dataflow, for Graphviz", write: |planned| Ok(planned.dot()) },
    Format {
        name: "trace",
        about: "The schedule as a Chrome trace, for Perfetto",
        write: |planned| Ok(planned.trace()),
    },
];

impl Planned {
    /// The stable JSON form.
    pub fn json(&self) -> PlanJson {
        json::plan(self)
    }

    /// The plan's dataflow as Graphviz DOT.
    pub fn dot(&self) -> String {
        dot::dot(self)
    }

    /// The schedule as a Chrome trace.
    pub fn trace(&self) -> String {
        trace::trace(self)
    }
}
