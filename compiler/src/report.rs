//! A plan as a page for the browser: one file that needs no network, readable on a phone, in light
//! and dark, and in print.
//!
//! Each panel is a file: a function from a [`Planned`] to data, and a template beside it that
//! writes the data. Templates are compiled and escape what they are given, so that no text of a
//! program becomes markup; markup built by `format!` would be right only as long as nobody forgets
//! to escape. Pictures are drawn here, as SVG, and not in the browser: the page is complete without
//! its script, which only answers to the pointer, and equal plans are equal bytes. A framework for
//! charts would add a megabyte of script to every report.

mod arrays;
mod comparison;
mod findings;
mod graph;
mod layered;
mod memory;
mod roofline;
mod summary;
mod texts;
mod timeline;
mod values;

use askama::Template;

use crate::Planned;

const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");

/// The panels in order: the id of each on the page, and its name.
const PANELS: [(&str, &str); 9] = [
    ("summary", "Summary"),
    ("plan", "Plan"),
    ("timeline", "Timeline"),
    ("memory", "Memory"),
    ("arrays", "Arrays"),
    ("graph", "Dataflow"),
    ("roofline", "Roofline"),
    ("textbook", "Textbook"),
    ("findings", "Findings"),
];

/// The page around the panels.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    version: &'static str,
    style: &'static str,
    script: &'static str,
    panels: &'static [(&'static str, &'static str)],
    content: Vec<String>,
    data: String,
}

/// The report of a plan, or what keeps it from being written.
pub(crate) fn html(planned: &Planned) -> Result<String, String> {
    let content = [
        summary::summary(planned).render(),
        texts::texts(planned).render(),
        timeline::timeline(planned).render(),
        memory::memory(planned).render(),
        arrays::arrays(planned).render(),
        graph::graph(planned).render(),
        roofline::roofline(planned).render(),
        comparison::comparison(planned).render(),
        findings::findings(planned).render(),
    ];
    let page = Page {
        title: &planned.name,
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        script: SCRIPT,
        panels: &PANELS,
        content: content.into_iter().collect::<Result<_, _>>().map_err(unwritten)?,
        data: values::values(planned).script(),
    };
    page.render().map_err(unwritten)
}

fn unwritten(error: askama::Error) -> String {
    format!("the report cannot be written: {error}")
}
