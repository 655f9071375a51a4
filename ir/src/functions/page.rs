//! Prints the tables as Markdown: what each function computes, which partial results pass through
//! it, and its gradient.

use super::formula::Written;
use super::{AlongFn, AlongGradient, Composite, Function, Gradient, ReduceFn, Row};
use crate::sharding::Reduction;

/// The tables of functions, reductions and composites as Markdown.
pub fn page() -> String {
    let functions = Function::ALL.iter().map(|function| row(function.row()));
    let reductions = ReduceFn::ALL.iter().map(|reduction| {
        let row = reduction.row();
        let partial = match row.partial {
            Reduction::Sum => "sums",
            Reduction::Max => "maxima",
            Reduction::Min => "minima",
        };
        let gradient = written(&row.gradient, &["x"]);
        format!("| `{}_D(x)` | {partial} | {gradient} |\n", row.name)
    });
    let composites = Composite::ALL.iter().map(|composite| {
        let row = composite.row();
        let (definition, gradient) =
            (written(&row.definition, &["x"]), written(&row.gradient, &["x"]));
        format!("| `{}_D(x)` | {definition} | {gradient} |\n", row.name)
    });
    let alongs = AlongFn::ALL.iter().map(|&function| along(function));
    format!(
        "| function | value | partial sums pass | partial maxima pass | gradient |\n| --- | --- | \
            --- | --- | --- |\n{}\n\
            | along a dimension | value | partial sums pass | gradient |\n\
            | --- | --- | --- | --- |\n{}\n\
            | reduction | its partial results | gradient |\n| --- | --- | \
            --- \
            |\n{}\n| composite | value | gradient |\n| --- | --- | --- |\n{}",
        functions.collect::<String>(),
        alongs.collect::<String>(),
        reductions.collect::<String>(),
        composites.collect::<String>()
    )
}

fn along(function: AlongFn) -> String {
    let row = function.row();
    let dims = |of: AlongFn| if of.row().picks { "{D->K}" } else { "D" };
    let gradient = match row.gradient {
        AlongGradient::Transposed(back) => format!("`{}_{}(g)`", back.name(), dims(back)),
        AlongGradient::PutAt(at) => format!("`put_D(g, {}_{}(x), x)`", at.name(), dims(at)),
        AlongGradient::Zero => "0".to_owned(),
    };
    let passes = if row.is_linear { "yes" } else { "no" };
    let summary = row.summary.trim_end_matches('.');
    format!("| `{}_{}(x)` | {summary} | {passes} | {gradient} |\n", row.name, dims(function))
}

fn row(row: &Row) -> String {
    let names: Vec<&str> = row.operands.iter().map(|operand| operand.name).collect();
    let numbers = (0..row.numbers).map(|_| "0.9");
    let call = names.iter().copied().chain(numbers).collect::<Vec<_>>().join(", ");
    let linear: Vec<&str> =
        row.linearity.operands(names.len()).into_iter().map(|place| names[place]).collect();
    let ordered: Vec<&str> = row
        .operands
        .iter()
        .filter(|operand| operand.direction.is_some())
        .map(|operand| operand.name)
        .collect();
    format!(
        "| `{}({call})` | {} | {} | {} | {} |\n",
        row.name,
        row.summary.trim_end_matches('.'),
        among(&linear, &names, "together in"),
        among(&ordered, &names, "in each of"),
        gradients(row, &names)
    )
}

/// Which operands something passes in.
fn among(some: &[&str], all: &[&str], several: &str) -> String {
    match some {
        [] => "no".to_owned(),
        [_] if all.len() == 1 => "yes".to_owned(),
        [one] => format!("in `{one}`"),
        _ => format!("{several} `{}`", some.join("`, `")),
    }
}

/// The gradients of those operands that have one.
fn gradients(row: &Row, names: &[&str]) -> String {
    let cells = row.operands.iter().filter_map(|operand| {
        let formula = match &operand.gradient {
            Gradient::Through(formula) => written(formula, names),
            Gradient::Zero | Gradient::Stopped => "0".to_owned(),
            Gradient::Undefined => return None,
        };
        Some(if names.len() == 1 { formula } else { format!("`{}`: {formula}", operand.name) })
    });
    let cells: Vec<String> = cells.collect();
    if cells.is_empty() { "none".to_owned() } else { cells.join("; ") }
}

fn written(formula: &super::Formula, operands: &[&str]) -> String {
    format!("`{}`", Written { formula, operands })
}
