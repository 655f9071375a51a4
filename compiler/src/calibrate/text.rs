//! A file of measurements as text: which of the formats it has, and where its lines are.

use shardwise_ir::codes::mesh::BAD_MEASUREMENTS;
use shardwise_ir::{Diag, Span};

use super::csv_rows::{self, Rows};
use super::measurement::{CollectiveName, Kernel};
use super::nccl;
use crate::source::place::Lines;

/// A file of measurements.
pub(super) struct Text<'t> {
    pub(super) name: &'t str,
    pub(super) content: &'t str,
    lines: Lines<'t>,
}

/// An error in a file of measurements.
pub(super) fn wrong(message: String, span: Span, help: impl Into<String>) -> Diag {
    Diag::error(BAD_MEASUREMENTS, message, span, "here").help(help)
}

impl<'t> Text<'t> {
    pub(super) fn new(name: &'t str, content: &'t str) -> Self {
        Self { name, content, lines: Lines::new(content) }
    }

    /// The measurements of the file: of the output of nccl-tests, of a table of CSV, or of both one
    /// after the other. Those of another chip than `chip` are left out.
    pub(super) fn rows(&self, chip: &str) -> Result<Rows, Vec<Diag>> {
        let table = csv_rows::head(self.content);
        let output = nccl::measurements(self, table.unwrap_or(self.content.len()));
        if table.is_none() && output.is_none() {
            return Err(vec![wrong(
                "there are no measurements here".to_owned(),
                self.line(0),
                "give the output of nccl-tests, or CSV with a head such as \
                    `kind,dtype,m,n,k,bytes,devices,measured_us`",
            )]);
        }
        let mut rows =
            Rows { measurements: output.transpose()?.unwrap_or_default(), ..Rows::default() };
        if let Some(start) = table {
            let of_table = csv_rows::read(self, start, chip)?;
            rows.measurements.extend(of_table.measurements);
            rows.of_other_chips = of_table.of_other_chips;
        }
        if rows.measurements.is_empty() && rows.of_other_chips == 0 {
            return Err(vec![wrong(
                "the table has no rows".to_owned(),
                self.line(self.content.len()),
                "add a row for each measured kernel",
            )]);
        }
        Ok(rows)
    }

    /// The line at a byte, without its end.
    pub(super) fn line(&self, at: usize) -> Span {
        let at = at.min(self.content.len());
        let start = self.content[..at].rfind('\n').map_or(0, |end| end + 1);
        let length = self.content[start..].find(['\n', '\r']).unwrap_or(self.content.len() - start);
        Span::new(start, start + length)
    }

    /// `bench.csv:12`.
    pub(super) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.name, self.lines.place(at).line)
    }
}

/// A collective over so many devices in so many nodes.
pub(super) fn over_devices(
    kind: CollectiveName,
    bytes: u64,
    (devices, nodes): (u64, u64),
    span: Span,
) -> Result<Kernel, Diag> {
    if devices < 2 {
        let message = format!("a collective over {devices} device sends nothing");
        return Err(wrong(message, span, "measure it over 2 devices or more"));
    }
    if devices % nodes != 0 {
        let message = format!("{devices} devices are not as many in each of {nodes} nodes");
        return Err(wrong(message, span, "`devices` counts those of all nodes together"));
    }
    Ok(Kernel::Collective { kind, bytes, devices, nodes })
}
