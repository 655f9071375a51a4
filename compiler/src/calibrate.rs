//! Fits the measured rates of a chip to measurements of its kernels and collectives.
//!
//! Three kinds of text are read: the output of nccl-tests, CSV of the project's own, and the logs
//! of `cli/python/measure_jax.py` and `measure_torch.py`, which print that CSV. Every measurement
//! becomes a program of one kernel, priced at the rates that are tried (`measurement`); what is
//! far off is left out, and figures that the measurements do not determine stay as the chip has
//! them (`fit`). The alternative, to fit the law of each kernel as a formula of its own, would be
//! faster, and wrong as soon as the cost model changes.

mod csv_rows;
mod fit;
mod fitter;
mod implausible;
mod least_squares;
mod measurement;
mod nccl;
mod summary;
mod text;

use rayon::prelude::*;
use shardwise_ir::codes::mesh::BAD_MEASUREMENTS;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::{Diag, Severity, Span};

pub use fit::{Figure, GroupFit, Residual};

use crate::diagnostics::Findings;
use crate::display::units::counted;
use crate::hardware::{self, numbers};
use fit::{GROUPS, Row};
use measurement::{Kernel, Measurement};
use text::Text;

/// More measurements than any machine needs, which would take minutes to fit.
const MOST_MEASUREMENTS: usize = 20_000;
/// Numbers of nodes that are tried for those that a message names.
const MOST_NODES: usize = 10_000;

/// What was fitted. Displays as the fit, its residuals, and what was left out.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The chip with the fitted figures, under its new name.
    pub hardware: Hardware,
    /// The name of the chip whose peaks and other figures it has.
    pub base: String,
    /// The fits, group by group.
    pub groups: Vec<GroupFit>,
    /// How many measurements named another chip.
    pub of_other_chips: usize,
}

/// Fits the rates of `base` to measurements, each a name with its text; the result is called
/// `name`.
///
/// # Errors
///
/// SW412: texts without measurements and rows that lack something, each with its line; collectives
/// over more devices in one node than a node of `base` has; more rows than are fitted; or none of
/// the chip `base`; rows of a group all of which are longer or shorter than any rates explain; and
/// figures that hardware files do not accept.
///
/// ```
/// use shardwise::{Hardware, calibrate::calibrate};
/// let rows: String = [1, 8, 64, 512]
///     .map(|megabytes| format!("pass,{},{}\n", megabytes << 20, 3.0 + 0.4 * f64::from(megabytes)))
///     .concat();
/// let text = format!("kind,bytes,measured_us\n{rows}");
/// let h100 = Hardware::preset("h100").unwrap();
/// let fitted = calibrate(&[("bench.csv", &text)], &h100, "mine").unwrap();
/// let share = fitted.hardware.measured.pass_memory.unwrap();
/// assert!((share - 1.048576e6 / 0.4e-6 / 3.35e12).abs() < 0.01, "{share}");
/// ```
pub fn calibrate(
    texts: &[(&str, &str)],
    base: &Hardware,
    name: &str,
) -> Result<Calibration, Findings> {
    let (mut rows, mut of_other_chips, mut faults) = (Vec::new(), 0, Vec::new());
    for (file, text) in texts {
        let read = Text::new(file, text);
        let refuse = |diags| Findings::new(diags, file, text);
        match read.rows(&base.name) {
            Err(diags) => faults.extend(refuse(diags).reports),
            Ok(found) => {
                of_other_chips += found.of_other_chips;
                let priced = priced(found.measurements, base);
                let fitted = priced.and_then(|priced| {
                    let diag = implausible::all_excluded(&priced, base);
                    diag.map_or(Ok(priced), |diag| Err(vec![diag]))
                });
                match fitted {
                    Ok(fitted) => rows.extend(fitted),
                    Err(diags) => faults.extend(refuse(diags).reports),
                }
            }
        }
    }
    if !faults.is_empty() {
        return Err(Findings { reports: faults });
    }
    if let Some(diag) = unusable(rows.len(), of_other_chips, base) {
        return Err(Findings::new(vec![diag], "", ""));
    }
    let mut hardware = Hardware { name: name.to_owned(), file: None, ..base.clone() };
    let groups: Vec<GroupFit> =
        GROUPS.iter().filter_map(|group| fit::fit(group, &rows, &mut hardware)).collect();
    if let Some(diag) = unfitted(&groups) {
        return Err(Findings::new(vec![diag], "", ""));
    }
    Ok(Calibration { hardware, base: base.name.clone(), groups, of_other_chips })
}

/// Why there is no file of these fits: nothing is left to fit, or hardware files have other limits.
fn unfitted(groups: &[GroupFit]) -> Option<Diag> {
    if groups.iter().all(|group| group.fitted().next().is_none()) {
        let first = groups.iter().flat_map(|group| &group.residuals).next()?;
        let reason = first.left_out.as_deref().unwrap_or_default();
        let message = format!("every measurement is left out: {}, {reason}", first.place);
        return Some(unplaced(message, "measure again, with more runs".to_owned()));
    }
    let figures = || groups.iter().flat_map(|group| &group.figures);
    let wrong = figures().find_map(|figure| {
        let (_, _, scale, _) = numbers::MEASURED.iter().find(|(key, ..)| *key == figure.key)?;
        (!scale.has_unit(figure.value)).then(|| (figure, scale.implausible(figure.value)))
    });
    let (figure, reason) = wrong?;
    let message = format!("these measurements make `{} = {:e}`", figure.key, figure.value);
    Some(unplaced(message, format!("{reason}; is this the chip, and the unit of its times?")))
}

/// An error of all measurements together.
fn unplaced(message: String, help: String) -> Diag {
    let diag = Diag::error(BAD_MEASUREMENTS, message, Span::default(), "");
    Diag { labels: Vec::new(), ..diag }.help(help)
}

/// Why so many measurements are not fitted.
fn unusable(count: usize, of_other_chips: usize, base: &Hardware) -> Option<Diag> {
    if count > MOST_MEASUREMENTS {
        let message = format!("{count} measurements are more than {MOST_MEASUREMENTS}");
        let help = "give a part of them; every size once is enough".to_owned();
        return Some(unplaced(message, help));
    }
    if count == 0 {
        let message = format!("none of {of_other_chips} measurements is of `{}`", base.name);
        return Some(unplaced(message, "name their chip with `--hardware`".to_owned()));
    }
    None
}

/// Measurements with their prices; an error where the chip lacks what one needs.
fn priced(measurements: Vec<Measurement>, base: &Hardware) -> Result<Vec<Row>, Vec<Diag>> {
    let rows: Vec<Result<Row, Diag>> = measurements
        .into_par_iter()
        .map(|measurement| match outgrown_node(&measurement, base) {
            Some(diag) => Err(diag),
            None => match measurement.kernel.priced(base) {
                Ok(priced) => Ok(Row { measurement, priced }),
                Err(findings) => Err(unpriced(&measurement, &findings)),
            },
        })
        .collect();
    let (rows, faults): (Vec<_>, Vec<_>) = rows.into_iter().partition(Result::is_ok);
    let faults: Vec<Diag> = faults.into_iter().filter_map(Result::err).take(1).collect();
    if faults.is_empty() { Ok(rows.into_iter().flatten().collect()) } else { Err(faults) }
}

/// Why a collective over so many devices in each node is not one on this chip: its nodes have
/// fewer. Their mesh would be split over more nodes, and the network would be fitted to links of
/// one.
fn outgrown_node(measurement: &Measurement, base: &Hardware) -> Option<Diag> {
    let Kernel::Collective { devices, nodes: given, .. } = measurement.kernel else { return None };
    let inside = devices / given;
    let chips = base.nvlink_domain().filter(|&chips| inside > chips)?;
    let mut tried = (devices.div_ceil(chips)..devices).take(MOST_NODES);
    let nodes = tried.find(|&nodes| devices.is_multiple_of(nodes)).unwrap_or(devices);
    let (has, each) = (counted(chips, "chip"), if given == 1 { "one" } else { "each" });
    let name = &base.name;
    let message = format!("{inside} devices in {each} node, and a node of `{name}` has {has}");
    let diag = Diag::error(BAD_MEASUREMENTS, message, measurement.span, "measured here");
    Some(diag.help(format!(
        "if they are in more nodes, give `nodes={nodes}` in CSV, or the host of each rank in a \
            log; else name a chip with larger nodes with `--hardware`"
    )))
}

fn unpriced(measurement: &Measurement, findings: &Findings) -> Diag {
    let mut errors = findings.reports.iter().map(|report| &report.diag);
    let first = errors.find(|diag| diag.severity == Severity::Error);
    let reason = first.map_or_else(String::new, |diag| diag.message.clone());
    let message = format!("{} cannot be priced: {reason}", measurement.kernel);
    let help = first.and_then(|diag| diag.help.clone());
    Diag::error(BAD_MEASUREMENTS, message, measurement.span, "measured here")
        .help(help.unwrap_or_else(|| "give what the chip lacks in a hardware file".to_owned()))
}

impl Calibration {
    /// The chip as a hardware file, which [`hardware::parse`] reads back.
    pub fn hardware_file(&self) -> String {
        format!("{}\n{}", summary::remark(self), hardware::toml(&self.hardware))
    }
}
