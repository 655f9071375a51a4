//! Plans a program over mesh shapes, sizes and hardware: one row per point, infeasible points with
//! their reason.
//!
//! [`Grid`] lists what is varied, [`sweep`] plans it on all cores, [`Swept`] has the rows and
//! writes them as a table, CSV, JSON or a plot. Points with the same program are planned once. The
//! *winner* among points of equal hardware and sizes is the one with the smallest `overlap` (the
//! busiest of compute and links, which no schedule beats), among equals the one with the smallest
//! `serial`, then the first.

mod grid;
mod html;
mod markdown;
mod plot;
mod points;
mod records;
mod run;
mod table;

use schemars::JsonSchema;
use serde::Serialize;
use shardwise_passes::report::Report;

use crate::display::Format;

pub use grid::{DimSizes, Grid, Mesh, Sizes};
pub use run::{Refused, sweep};

/// A program to sweep.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in diagnostics.
    pub path: String,
    /// Its name in rows.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Called while a sweep runs: points planned, and points to plan.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// All points, in the order hardware, sizes, program, mesh.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Swept {
    /// Always `shardwise.sweep/1`.
    pub schema: &'static str,
    /// How each point was planned: `search` or `textbook`.
    pub strategy: &'static str,
    /// Points, one a row.
    pub points: Vec<Point>,
    /// The number of programs planned: points with the same program are planned once.
    pub planned: usize,
}

/// One point of the grid and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The program's name.
    pub program: String,
    /// The hardware's.
    pub hardware: String,
    /// The mesh as programs write it: `X=16 over 4x4, Y=4`.
    pub mesh: String,
    /// The sizes that are swept, in order.
    pub sizes: Vec<Size>,
    /// Whether it is the best of its hardware and sizes.
    pub wins: bool,
    /// The costs of the plan, if there is one.
    pub plan: Option<Outcome>,
    /// Why there is none.
    pub infeasible: Option<String>,
}

/// A dimension and its size at a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// The dimension.
    pub dim: String,
    /// Its size.
    pub size: u64,
}

/// The costs of a point's plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Devices of the mesh.
    pub devices: u64,
    /// `optimal` or `bounded`.
    pub status: &'static str,
    /// The plan's times.
    pub cost: Price,
    /// Those of the textbook's plan.
    pub textbook: Price,
    /// `FLOPs`, `HBM`, `links X`, `latency`, `bubble`, or `nothing`.
    pub bound_by: String,
    /// Busy seconds of each axis.
    pub axes: Vec<AxisTime>,
    /// Bytes of parameters and state on a device.
    pub resident_bytes: u64,
    /// Peak bytes of a device.
    pub peak_bytes: u64,
    /// The price of a million tokens, where a chip-hour has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_of_million: Option<f64>,
}

/// Busy seconds of an axis' links.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AxisTime {
    /// The axis.
    pub axis: String,
    /// Devices along it.
    pub size: u64,
    /// Seconds.
    pub busy_s: f64,
}

/// Times of a plan, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// All steps one after the other.
    pub serial_s: f64,
    /// All local operations.
    pub compute_s: f64,
    /// All collectives.
    pub comm_s: f64,
    /// The busiest axis: communication that runs beside compute and beside that of other axes.
    pub links_s: f64,
    /// The busiest resource: the larger of `compute_s` and `links_s`.
    pub overlap_s: f64,
    /// The plan's own schedule.
    pub scheduled_s: f64,
}

/// The relative tolerance of sums in different orders.
const EQUAL: f64 = 1e-9;

impl Price {
    /// Whether it wins: by `overlap`, among equals by `serial`.
    fn better_than(&self, other: &Self) -> bool {
        let less = |a: f64, b: f64| a < b * (1.0 - EQUAL);
        less(self.overlap_s, other.overlap_s)
            || !less(other.overlap_s, self.overlap_s) && less(self.serial_s, other.serial_s)
    }
}

impl From<&Report> for Price {
    fn from(report: &Report) -> Self {
        Self {
            serial_s: report.serial_s,
            compute_s: report.compute_s,
            comm_s: report.comm_s,
            links_s: report.links_s(),
            overlap_s: report.overlap_s,
            scheduled_s: report.schedule.makespan_s,
        }
    }
}

/// The formats of sweeps.
pub const FORMATS: &[Format<Swept>] = &[
    Format { name: "text", about: "A table", write: |swept| Ok(swept.table()) },
    Format { name: "md", about: "A table in Markdown", write: |swept| Ok(swept.markdown()) },
    Format { name: "csv", about: "CSV, a line a point", write: |swept| Ok(swept.csv()) },
    Format { name: "json", about: "JSON, `shardwise.sweep/1`", write: |swept| Ok(swept.json()) },
    Format {
        name: "svg",
        about: "A plot of time over a size, or of the times of mesh shapes",
        write: Swept::svg,
    },
    Format { name: "html", about: "A page for the browser", write: html::html },
];

impl Swept {
    /// The rows as a table, at most 100 columns wide.
    pub fn table(&self) -> String {
        table::table(self)
    }

    /// The rows as a table in Markdown.
    pub fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    /// One line a row, with a head.
    pub fn csv(&self) -> String {
        records::csv(self)
    }

    /// The rows as JSON, `shardwise.sweep/1`.
    pub fn json(&self) -> String {
        records::json(self)
    }

    /// Compute against communication over the first dimension with several sizes, as SVG; a
    /// sentence where there is nothing to draw.
    ///
    /// # Errors
    ///
    /// A sentence: no point has a plan, or the picture would have more panels than can be read.
    pub fn svg(&self) -> Result<String, String> {
        plot::svg(self)
    }

    /// Whether a point could be planned.
    pub fn has_plan(&self) -> bool {
        self.points.iter().any(|point| point.plan.is_some())
    }

    /// The first dimension that takes several sizes.
    pub(crate) fn varied(&self) -> Option<&str> {
        let first = &self.points.first()?.sizes;
        let varies =
            |i: usize| self.points.iter().any(|point| point.sizes[i].size != first[i].size);
        (0..first.len()).find(|&i| varies(i)).map(|i| first[i].dim.as_str())
    }
}
