//! Measurements as CSV: the project's own format, which its scripts print.
//!
//! Columns have names and any order, and those that a kind does not need may be left out, so that
//! one file has products, passes and collectives. A log may have lines before the head of the
//! table, and lines that begin with `#` anywhere.

use csv::{ReaderBuilder, StringRecord};
use shardwise_ir::dtype::DType;
use shardwise_ir::{Diag, Span, suggest};
use strum::VariantArray;

use super::measurement::{Attention, CollectiveName, Kernel, Measurement};
use super::text::{Text, over_devices, wrong};
use crate::source::BYTE_ORDER_MARK;

/// The kinds besides the collectives; the last two are attention as tables of kernels call it.
const KINDS: [&str; 5] = ["product", "pass", "attention", "prefill", "decode"];

/// Columns that are known besides sizes; others (`source`, a date) are the author's own.
const TIMES: [(&str, f64); 2] = [("measured_us", 1e-6), ("measured_s", 1.0)];

/// Where the table begins, if there is one: at a line of names, `kind` among them. Spreadsheets
/// write a byte order mark before it.
pub(super) fn head(text: &str) -> Option<usize> {
    let is_kind = |name: &str| name.trim().trim_matches('"') == "kind";
    let is_head = |line: &str| line.split(',').any(is_kind);
    let marked = text.trim_start_matches(BYTE_ORDER_MARK);
    let mut start = text.len() - marked.len();
    for line in marked.split_inclusive('\n') {
        if is_head(line) {
            return Some(start);
        }
        start += line.len();
    }
    None
}

/// The measurements of the table that begins at `start`; those that name another chip are left out
/// and counted.
pub(super) fn read(text: &Text<'_>, start: usize, chip: &str) -> Result<Rows, Vec<Diag>> {
    let table = &text.content[start..];
    let mut reader = ReaderBuilder::new()
        .comment(Some(b'#'))
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(table.as_bytes());
    let names = reader.headers().map_err(|error| vec![unreadable(text, start, &error)])?.clone();
    let columns = Columns { names, text, start };
    columns.check()?;
    let (mut rows, mut diags) = (Rows::default(), Vec::new());
    for record in reader.records() {
        match record {
            Err(error) => diags.push(unreadable(text, start, &error)),
            Ok(record) if columns.is_of_another_chip(&record, chip) => rows.of_other_chips += 1,
            Ok(record) => match columns.measurement(&record) {
                Ok(measurement) => rows.measurements.push(measurement),
                Err(diag) => diags.push(diag),
            },
        }
    }
    if diags.is_empty() { Ok(rows) } else { Err(diags) }
}

/// What a table has.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) measurements: Vec<Measurement>,
    /// How many rows are of another chip than the one that is calibrated.
    pub(super) of_other_chips: usize,
}

fn unreadable(text: &Text<'_>, start: usize, error: &csv::Error) -> Diag {
    let at = error.position().map_or(start, |position| start + position.byte() as usize);
    wrong(
        format!("this row cannot be read: {error}"),
        text.line(at),
        "write as many values as the head has names, separated by commas",
    )
}

/// The head of a table, and the text that it is in.
struct Columns<'t> {
    names: StringRecord,
    text: &'t Text<'t>,
    start: usize,
}

impl Columns<'_> {
    fn check(&self) -> Result<(), Vec<Diag>> {
        let names: Vec<&str> = self.names.iter().filter(|name| !name.is_empty()).collect();
        let again = (1..names.len()).find(|&at| names[..at].contains(&names[at]));
        if let Some(at) = again {
            return Err(vec![wrong(
                format!("two columns are called `{}`", names[at]),
                self.text.line(self.start),
                "keep one of them",
            )]);
        }
        if TIMES.iter().any(|(name, _)| self.names.iter().any(|other| other == *name)) {
            return Ok(());
        }
        Err(vec![wrong(
            "the table has no column of times".to_owned(),
            self.text.line(self.start),
            "name the column of times `measured_us`, or `measured_s`",
        )])
    }

    /// The text of a column, if the row has any there.
    fn get<'r>(&self, row: &'r StringRecord, name: &str) -> Option<&'r str> {
        let place = self.names.iter().position(|other| other == name)?;
        row.get(place).filter(|text| !text.is_empty())
    }

    /// The line of a row, which the reader begins with the remarks above it.
    fn span(&self, row: &StringRecord) -> Span {
        let mut at = self.start + row.position().map_or(0, |at| at.byte() as usize);
        for line in self.text.content[at..].split_inclusive('\n') {
            if !line.starts_with('#') && !line.trim().is_empty() {
                break;
            }
            at += line.len();
        }
        self.text.line(at)
    }

    fn is_of_another_chip(&self, row: &StringRecord, chip: &str) -> bool {
        self.get(row, "chip").is_some_and(|name| name != chip)
    }

    fn measurement(&self, row: &StringRecord) -> Result<Measurement, Diag> {
        let seconds = self.seconds(row)?;
        let spread = self.get(row, "spread").map(|text| self.number(row, "spread", text));
        Ok(Measurement {
            kernel: self.kernel(row)?,
            seconds,
            spread: spread.transpose()?,
            place: self.text.place(self.span(row).start),
            span: self.span(row),
        })
    }

    fn seconds(&self, row: &StringRecord) -> Result<f64, Diag> {
        let given =
            TIMES.iter().filter_map(|(name, unit)| Some((*name, self.get(row, name)?, unit)));
        let given: Vec<_> = given.collect();
        if given.len() > 1 {
            let message = "this row has two times".to_owned();
            return Err(wrong(message, self.span(row), "give `measured_us` or `measured_s`"));
        }
        let Some(&(name, text, unit)) = given.first() else {
            return Err(wrong(
                "this row has no time".to_owned(),
                self.span(row),
                "give its microseconds in the column `measured_us`",
            ));
        };
        let seconds = self.number(row, name, text)? * unit;
        if seconds > 0.0 {
            return Ok(seconds);
        }
        Err(wrong(format!("`{text}` is no time"), self.span(row), "a kernel takes more than 0"))
    }

    fn number(&self, row: &StringRecord, name: &str, text: &str) -> Result<f64, Diag> {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.filter(|number| *number >= 0.0).ok_or_else(|| {
            let what = if number.is_some() { "is below zero" } else { "is no number" };
            let message = format!("`{text}` in column `{name}` {what}");
            wrong(message, self.span(row), "write digits, such as `12.5` or `1.25e1`")
        })
    }

    fn kernel(&self, row: &StringRecord) -> Result<Kernel, Diag> {
        let kind = self.get(row, "kind").unwrap_or_default();
        let size = |name| self.size(row, name);
        let dtype = || self.dtype(row);
        Ok(match kind {
            "product" => {
                let [m, n, k] = [size("m")?, size("n")?, size("k")?];
                Kernel::Product { dtype: dtype()?, m, n, k }
            }
            "pass" => Kernel::Pass { bytes: size("bytes")? },
            "attention" | "prefill" | "decode" => Kernel::Attention(self.attention(row)?),
            _ => self.collective(row, kind)?,
        })
    }

    fn attention(&self, row: &StringRecord) -> Result<Attention, Diag> {
        let size = |name| self.size(row, name);
        let (heads, queries, keys) = (size("heads")?, size("queries")?, size("keys")?);
        let kv_heads = self.get(row, "kv_heads").map_or(Ok(heads), |_| size("kv_heads"))?;
        if heads % kv_heads != 0 {
            let message = format!("{heads} heads are not a multiple of {kv_heads} kv_heads");
            return Err(wrong(message, self.span(row), "as many heads share each key and value"));
        }
        if queries != 1 && queries != keys {
            return Err(wrong(
                format!("{queries} queries to {keys} keys are not fitted"),
                self.span(row),
                "measure prefill, with as many queries as keys, or decode, with one query",
            ));
        }
        let (batch, head_dim) = (size("batch")?, size("head_dim")?);
        Ok(Attention { dtype: self.dtype(row)?, batch, queries, keys, heads, kv_heads, head_dim })
    }

    fn collective(&self, row: &StringRecord, kind: &str) -> Result<Kernel, Diag> {
        let names = || CollectiveName::VARIANTS.iter().map(<&str>::from);
        let Some(&name) = CollectiveName::VARIANTS.iter().find(|name| <&str>::from(*name) == kind)
        else {
            let near = suggest::nearest(kind, names().chain(KINDS));
            let help = near.map_or_else(
                || {
                    format!(
                        "there are product, pass, attention, {}",
                        names().collect::<Vec<_>>().join(", ")
                    )
                },
                |near| format!("did you mean `{near}`?"),
            );
            return Err(wrong(format!("`{kind}` is no kind of kernel"), self.span(row), help));
        };
        let (bytes, devices) = (self.size(row, "bytes")?, self.size(row, "devices")?);
        let nodes = self.get(row, "nodes").map_or(Ok(1), |_| self.size(row, "nodes"))?;
        over_devices(name, bytes, (devices, nodes), self.span(row))
    }

    fn dtype(&self, row: &StringRecord) -> Result<DType, Diag> {
        let text = self.get(row, "dtype").unwrap_or("bf16");
        DType::from_name(text).ok_or_else(|| {
            let names = DType::ALL.map(DType::name);
            let help = suggest::nearest(text, names).map_or_else(
                || format!("there are {}", names.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            wrong(format!("`{text}` is no dtype"), self.span(row), help)
        })
    }

    fn size(&self, row: &StringRecord, name: &str) -> Result<u64, Diag> {
        let text = self.get(row, name).unwrap_or_default();
        let size = text.parse::<u64>().ok().filter(|size| (1..=1 << 45).contains(size));
        size.ok_or_else(|| {
            let message = if text.is_empty() {
                format!("this row has no `{name}`")
            } else {
                format!("`{text}` in column `{name}` is no size")
            };
            wrong(message, self.span(row), "sizes are whole numbers from 1 on")
        })
    }
}
