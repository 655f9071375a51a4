//! Resolves and plans all points in parallel, each distinct program once.

use std::sync::atomic::{AtomicUsize, Ordering};

use indexmap::IndexSet;
use rayon::prelude::*;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::print;
use shardwise_ir::program::Program;

use super::points::{Combination, combinations};
use super::{AxisTime, Grid, Outcome, Point, Price, Progress, Source, Swept};
use crate::Planned;
use crate::codes;
use crate::diagnostics::Findings;
use crate::driver::{check, plan};
use crate::hardware;
use crate::options::{Options, Strategy};

/// Why a sweep could not begin.
#[derive(Debug)]
pub enum Refused {
    /// A program has errors.
    Program(Findings),
    /// The options are wrong: a sentence with what to write instead.
    Options(String),
}

/// A point before it is planned: the program as text, or why there is none.
struct Resolved {
    mesh: String,
    hardware: String,
    /// Which of the distinct programs.
    program: Result<usize, String>,
}

/// Plans every point of `grid`. `options` hold for all of them.
///
/// # Errors
///
/// [`Refused`]: the errors of the first program that has some, or a sentence about options that fit
/// no program. A point that cannot be planned is no error, but a row with the reason.
///
/// ```
/// use shardwise::sweep::{Grid, Source, sweep};
/// let text = "hardware tpu-v5p\nmesh X=4\ndim I=64, J=64, K=64\ninput A[I_X, J], B[J, K]\n\
///     C = A *J B\noutput C[I_X, K]\n".to_owned();
/// let source = Source { path: "example".into(), name: "example".into(), text };
/// let grid = Grid::parse(&["X=4|8".into()], &["I=64..4096/3".into()], &[])?;
/// let options = shardwise::Options::default();
/// let swept = sweep(&[source], &grid, &options, &|_, _| ()).map_err(|_| "refused")?;
/// assert_eq!(swept.points.len(), 6);
/// # Ok::<(), String>(())
/// ```
pub fn sweep(
    sources: &[Source],
    grid: &Grid,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Swept, Refused> {
    let programs = sources
        .iter()
        .map(|source| base(source, grid, options))
        .collect::<Result<Vec<Program>, Refused>>()?;
    let combinations = combinations(sources, &programs, grid, options).map_err(Refused::Options)?;
    let texts: Vec<Texts> = read_all((sources, &programs), &combinations, progress);
    if let Some(findings) =
        combinations.iter().zip(&texts).find_map(|(_, texts)| texts.blamed.clone())
    {
        return Err(Refused::Program(findings));
    }
    let mut distinct: IndexSet<&str> = IndexSet::new();
    let mut representative = Vec::new();
    let mut resolved = Vec::with_capacity(texts.len());
    for (combination, texts) in combinations.iter().zip(&texts) {
        let program = match &texts.program {
            Err(reason) => Err(reason.clone()),
            Ok(text) => {
                let (number, new) = distinct.insert_full(text);
                if new {
                    representative.push(combination);
                }
                Ok(number)
            }
        };
        resolved.push(Resolved {
            mesh: texts.mesh.clone(),
            hardware: texts.hardware.clone(),
            program,
        });
    }
    let planning = |done: usize, all: usize| progress(texts.len() + done, texts.len() + all);
    let outcomes = plan_all(sources, &representative, &planning);
    let points = combinations
        .iter()
        .zip(resolved)
        .map(|(combination, resolved)| point(sources, combination, resolved, &outcomes));
    let mut points: Vec<Point> = points.collect();
    mark_winners(&mut points);
    let strategy = if options.strategy == Strategy::Search { "search" } else { "textbook" };
    Ok(Swept { schema: "shardwise.sweep/1", strategy, points, planned: representative.len() })
}

/// The program with its own sizes, on the first hardware: its errors are errors of every point.
fn base(source: &Source, grid: &Grid, options: &Options) -> Result<Program, Refused> {
    let hardware = grid.hardware.first().or(options.hardware.as_ref()).cloned();
    let checked = check(&source.path, &source.text, &Options { hardware, ..options.clone() });
    let program = checked.program.map(Analyzed::into_program);
    program.ok_or(Refused::Program(checked.findings))
}

/// The result of resolving a point.
struct Texts {
    mesh: String,
    hardware: String,
    program: Result<String, String>,
    /// Findings about names that the program does not have: errors of every point.
    blamed: Option<Findings>,
}

/// Resolves all points; of the progress it is one half, since each may have a plan of its own.
fn read_all(
    sources: (&[Source], &[Program]),
    combinations: &[Combination],
    progress: Progress<'_>,
) -> Vec<Texts> {
    let done = AtomicUsize::new(0);
    let read = |combination: &Combination| {
        let texts = texts(sources, combination);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, 2 * combinations.len());
        texts
    };
    combinations.par_iter().map(read).collect()
}

fn texts((sources, programs): (&[Source], &[Program]), combination: &Combination) -> Texts {
    let source = &sources[combination.program];
    let checked = check(&source.path, &source.text, &combination.options);
    let unknown = |code: &str| {
        [codes::sharding::UNKNOWN_AXIS, codes::names::UNKNOWN_DIM, codes::mesh::UNKNOWN_HARDWARE]
            .contains(&code)
    };
    let blamed = checked
        .findings
        .reports
        .iter()
        .any(|report| report.diag.labels.is_empty() && unknown(report.diag.code));
    let Some(program) = checked.program else {
        let mesh = combination
            .options
            .mesh
            .iter()
            .map(|axis| format!("{}={}", axis.name, axis.size))
            .collect::<Vec<_>>()
            .join(", ");
        let own = &programs[combination.program].hardware.name;
        let hardware = combination.options.hardware.clone().unwrap_or_else(|| own.clone());
        let reason = reason(&checked.findings);
        return Texts {
            mesh,
            hardware,
            program: Err(reason),
            blamed: blamed.then_some(checked.findings),
        };
    };
    let mesh = print::mesh(&program.mesh).join(", ");
    Texts {
        mesh,
        hardware: program.hardware.name.clone(),
        program: Ok(fingerprint(&program)),
        blamed: None,
    }
}

/// The key of a plan: the program and the content of its hardware file, since programs of two
/// folders can name different files alike.
fn fingerprint(program: &Program) -> String {
    let described = program
        .hardware
        .file
        .as_ref()
        .map_or_else(String::new, |_| hardware::toml(&program.hardware));
    format!("{program}{described}")
}

/// The first error, as a row prints it.
fn reason(findings: &Findings) -> String {
    let error =
        findings.reports.iter().find(|report| report.diag.severity == crate::Severity::Error);
    error.map_or_else(|| "no plan".to_owned(), |report| report.diag.message.clone())
}

fn plan_all(
    sources: &[Source],
    combinations: &[&Combination],
    progress: Progress<'_>,
) -> Vec<Result<Outcome, String>> {
    let done = AtomicUsize::new(0);
    progress(0, combinations.len());
    let plan_one = |combination: &&Combination| {
        let source = &sources[combination.program];
        let outcome = plan(&source.path, &source.text, &combination.options);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, combinations.len());
        outcome.map(|planned| self::outcome(&planned)).map_err(|findings| reason(&findings))
    };
    combinations.par_iter().map(plan_one).collect()
}

fn outcome(planned: &Planned) -> Outcome {
    let program = &planned.plan.program;
    let report = &planned.report;
    let axes = program.mesh.axes.iter().zip(&report.axis_s);
    Outcome {
        devices: program.mesh.devices(),
        status: planned.status_name(),
        cost: Price::from(report),
        textbook: Price::from(&planned.textbook),
        bound_by: planned.bound_by_briefly(),
        axes: axes
            .map(|(axis, &busy_s)| AxisTime { axis: axis.name.clone(), size: axis.size, busy_s })
            .collect(),
        resident_bytes: report.memory.resident_bytes.round() as u64,
        peak_bytes: report.memory.peak_bytes.round() as u64,
        price_of_million: planned.price_of_million(),
    }
}

fn point(
    sources: &[Source],
    combination: &Combination,
    resolved: Resolved,
    outcomes: &[Result<Outcome, String>],
) -> Point {
    let outcome = resolved.program.and_then(|number| outcomes[number].clone());
    let (plan, infeasible) = match outcome {
        Ok(plan) => (Some(plan), None),
        Err(reason) => (None, Some(reason)),
    };
    let program = sources[combination.program].name.clone();
    Point {
        program,
        hardware: resolved.hardware,
        mesh: resolved.mesh,
        sizes: combination.sizes.clone(),
        wins: false,
        plan,
        infeasible,
    }
}

/// Marks the best of each hardware and sizes.
fn mark_winners(points: &mut [Point]) {
    let mut best: indexmap::IndexMap<(String, Vec<u64>), usize> = indexmap::IndexMap::new();
    for (number, point) in points.iter().enumerate() {
        let Some(plan) = &point.plan else { continue };
        let key = (point.hardware.clone(), point.sizes.iter().map(|size| size.size).collect());
        let holder = best.entry(key).or_insert(number);
        if points[*holder].plan.as_ref().is_some_and(|held| plan.cost.better_than(&held.cost)) {
            *holder = number;
        }
    }
    for number in best.into_values() {
        points[number].wins = true;
    }
}
