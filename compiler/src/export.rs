//! A plan in the formats that others read: text, JSON, DOT, Chrome trace.

pub(crate) mod dot;
pub mod json;
pub(crate) mod text;
pub(crate) mod trace;

use crate::Planned;
use json::PlanJson;

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
