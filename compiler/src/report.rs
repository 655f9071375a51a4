//! A plan as a page for the browser, readable on a phone, in light and dark, and in print.
//!
//! Each panel is a file: a function from a [`Planned`] to data, and a template beside it that
//! writes the data. Templates are compiled and escape what they are given, so that no text of a
//! program becomes markup; markup built by `format!` would be right only as long as nobody forgets
//! to escape. Pictures are drawn here, as SVG, and not in the browser: the page is complete without
//! its script, which only answers to the pointer, and equal plans are equal bytes. A framework for
//! charts would add a megabyte of script to every report.

mod arrays;
mod comparison;
mod cost;
mod findings;
mod graph;
mod layered;
mod memory;
mod roofline;
mod summary;
mod texts;
mod timeline;
mod values;

use crate::Planned;
use crate::inference::Sizing;
use crate::page::{self, Section};

/// The report of a plan, or what keeps it from being written.
pub(crate) fn html(planned: &Planned) -> Result<String, String> {
    let sections = vec![
        Section::new("summary", "Summary", &summary::summary(planned)),
        Section::new("plan", "Plan", &texts::texts(planned)),
        Section::new("timeline", "Timeline", &timeline::timeline(planned)),
        Section::new("memory", "Memory", &memory::memory(planned)),
        Section::new("arrays", "Arrays", &arrays::arrays(planned)),
        Section::new("graph", "Dataflow", &graph::graph(planned)),
        Section::new("roofline", "Roofline", &roofline::roofline(planned)),
        Section::new("textbook", "Textbook", &comparison::comparison(planned)),
        Section::new("findings", "Findings", &findings::findings(planned)),
    ];
    page::page(&planned.name, sections, &values::values(planned).script())
}

impl Planned {
    /// What the plan costs as a page for the browser, or what keeps it from being written.
    ///
    /// # Errors
    ///
    /// A sentence on what keeps it from being written.
    pub fn cost_html(&self, sizing: &Sizing) -> Result<String, String> {
        cost::html(self, sizing)
    }
}
