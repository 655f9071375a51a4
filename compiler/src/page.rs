//! The frame of pages for the browser: head, style, script, links to the sections; and tables,
//! which most results are. [`crate::report`] fills it with the panels of a plan, `diff`, `sweep`
//! and `tune` with tables.
//!
//! A page is one file that needs no network: a policy in its head forbids everything else, so that
//! a mistake shows in every browser.

use askama::Template;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// A section of a page.
pub(crate) struct Section {
    /// Its id on the page.
    pub(crate) id: &'static str,
    /// Its name among the links.
    pub(crate) name: &'static str,
    /// Its markup, written by a template.
    pub(crate) markup: Result<String, askama::Error>,
}

impl Section {
    /// What a template writes, as a section.
    pub(crate) fn new(id: &'static str, name: &'static str, template: &impl Template) -> Self {
        Self { id, name, markup: template.render() }
    }
}

/// The page around the sections.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    version: &'static str,
    style: &'static str,
    script: &'static str,
    links: Vec<(&'static str, &'static str)>,
    sections: Vec<String>,
    data: &'a str,
}

/// The data of a page on which nothing can be pointed at.
pub(crate) const NO_DATA: &str = r#"{"values":{},"steps":[]}"#;

/// A page of sections, with the data of what can be pointed at; or what keeps it from being
/// written.
pub(crate) fn page(title: &str, sections: Vec<Section>, data: &str) -> Result<String, String> {
    let links = sections.iter().map(|section| (section.id, section.name)).collect();
    let unwritten = |error: askama::Error| format!("the page cannot be written: {error}");
    let sections = sections.into_iter().map(|section| section.markup);
    let page = Page {
        title,
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        script: SCRIPT,
        links,
        sections: sections.collect::<Result<_, _>>().map_err(unwritten)?,
        data,
    };
    page.render().map_err(unwritten)
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    is_code: bool,
    /// Other words below the text.
    below: String,
    /// What the rows are sorted by, instead of the text.
    quantity: Option<f64>,
    /// A bar below the text, in per cent of the column.
    bar: Option<f64>,
}

impl Cell {
    /// Words.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A part of a program.
    pub(crate) fn code(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_code: true, ..Self::default() }
    }

    /// The same with other words below.
    pub(crate) fn with_below(self, below: impl Into<String>) -> Self {
        Self { below: below.into(), ..self }
    }

    /// A quantity.
    pub(crate) fn number(text: impl Into<String>, quantity: f64) -> Self {
        Self { text: text.into(), quantity: Some(quantity), ..Self::default() }
    }

    /// A quantity, with a bar as long as its share of the largest.
    pub(crate) fn bar(text: impl Into<String>, quantity: f64, largest: f64) -> Self {
        let share = if largest > 0.0 { quantity / largest } else { 0.0 };
        let bar = Some((1000.0 * share.clamp(0.0, 1.0)).round() / 10.0);
        Self { bar, ..Self::number(text, quantity) }
    }
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// Whether it stands out: the best of a sweep, a critical collective.
    pub(crate) is_marked: bool,
    /// The step of the plan that it is about.
    pub(crate) step: Option<usize>,
}

/// The head of a column, and whether it has numbers.
pub(crate) type Head = (String, bool);

/// Heads of columns; those of numbers end with `#`.
pub(crate) fn heads(names: &[&str]) -> Vec<Head> {
    let head = |name: &&str| match name.strip_suffix('#') {
        Some(name) => (name.to_owned(), true),
        None => ((*name).to_owned(), false),
    };
    names.iter().map(head).collect()
}

/// A table with its title, as a section.
#[derive(Template)]
#[template(path = "table.html")]
pub(crate) struct Table {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) notes: Vec<String>,
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::{Cell, NO_DATA, Row, Section, Table, heads, page};

    #[test]
    fn a_table_escapes_what_it_is_filled_with() {
        let table = Table {
            id: "points",
            title: "a < b".to_owned(),
            notes: vec!["<b>".to_owned()],
            heads: heads(&["mesh", "time#"]),
            rows: vec![Row {
                cells: vec![Cell::code("<i>"), Cell::bar("2 ms", 1.0, 3.0)],
                is_marked: true,
                ..Row::default()
            }],
        };
        let page = page("t", vec![Section::new("points", "Points", &table)], NO_DATA);
        let page = page.expect("it is written");
        assert!(page.contains("a &#60; b") && page.contains("<code>&#60;i&#62;</code>"), "{page}");
        assert!(page.contains("width:33.3%") && page.contains("<tr class=\"marked\">"), "{page}");
        assert!(page.contains("<a href=\"#points\">Points</a>"));
    }
}
