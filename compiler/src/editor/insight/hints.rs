//! Shardings and collectives beside the source.

use std::collections::BTreeMap;

use shardwise_grammar::ast::{Layout, Statement, Subscript, TensorDecl};
use shardwise_ir::Span;
use shardwise_ir::plan::StepKind;
use shardwise_ir::print::Printer;

use super::Hint;
use super::values::Values;
use crate::Planned;
use crate::display::units;
use crate::editor::Document;
use crate::explain::Explainer;
use crate::use_def::{UseDef, User};

/// More collectives at one statement are counted, and not listed.
const MOST_LISTED: usize = 3;

/// The sharding of each value whose brackets are not written, or open, after its name.
pub(super) fn shardings(document: &Document, planned: &Planned) -> Vec<Hint> {
    let values = Values::of(planned);
    let hint = |tensor: &TensorDecl| {
        if tensor.layout.as_ref().is_some_and(|layout| !is_open(layout)) {
            return None;
        }
        let value = values.at(tensor.name.span, &tensor.name.node)?;
        let sharding = values.shardings(value).into_iter().next()?;
        let dims = &planned.plan.program.values[value].dims;
        let label = Printer::new(&planned.plan.program).sharding(dims, &sharding);
        let label = if tensor.layout.is_some() { format!("= {label}") } else { label };
        let details = Vec::new();
        Some(Hint { offset: tensor.span.end, label, details, is_collective: false })
    };
    document.file.statements.iter().flat_map(|it| defined(&it.node)).filter_map(hint).collect()
}

fn is_open(layout: &Layout) -> bool {
    layout.dims.iter().any(|dim| matches!(dim.subscript, Subscript::Open | Subscript::First(_)))
}

/// The tensors that a statement declares or defines.
fn defined(statement: &Statement) -> Vec<&TensorDecl> {
    match statement {
        Statement::Declare(_, tensors) => tensors.iter().collect(),
        Statement::Define(of) | Statement::Enter(of) => of.targets().collect(),
        _ => Vec::new(),
    }
}

/// The collectives that are not written, each after the statement that needs it first.
pub(super) fn collectives(document: &Document, planned: &Planned) -> Vec<Hint> {
    let plan = &planned.plan;
    let use_def = UseDef::of(planned);
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, step) in plan.steps.iter().enumerate() {
        if !matches!(step.kind, StepKind::Collective(_, None)) {
            continue;
        }
        let span = use_def.users(number).into_iter().map(|user| match user {
            User::Statement(_, op) => plan.program.ops[op].span,
            User::DeclaredSharding(value) => use_def
                .operation(value)
                .map_or(plan.program.values[value].span, |op| plan.program.ops[op].span),
            User::Output(output) => plan.program.outputs[output].span,
        });
        if let Some(end) = span.min().and_then(|span| line_end(document, span)) {
            places.entry(end).or_default().push(number);
        }
    }
    let explainer = Explainer::new(planned, &document.text, None);
    places
        .into_iter()
        .map(|(offset, steps)| {
            let (label, details) = listed(planned, &explainer, &steps);
            Hint { offset, label, details, is_collective: true }
        })
        .collect()
}

/// The end of the statement that a span is in.
fn line_end(document: &Document, span: Span) -> Option<usize> {
    let statements = &document.file.statements;
    let holds = |it: Span| it.start <= span.start && span.start < it.end;
    statements.iter().find(|it| holds(it.span)).map(|it| it.span.end)
}

/// What the collectives at one statement are and take, and why each is there.
fn listed(planned: &Planned, explainer: &Explainer<'_>, steps: &[usize]) -> (String, Vec<String>) {
    let plan = &planned.plan;
    let seconds = |&step: &usize| planned.report.steps[step].total_s();
    let name = |&step: &usize| {
        let StepKind::Collective(collective, _) = &plan.steps[step].kind else {
            return String::new();
        };
        let value = &plan.program.values[plan.steps[step].result.value];
        let head = Printer::new(&plan.program).collective(&value.dims, collective);
        format!("{head}({})", value.name)
    };
    let times = |step: &usize| {
        let times = planned.report.steps[*step].times;
        let each = units::seconds(planned.report.steps[*step].seconds);
        if times > 1.0 { format!("{each} × {times:.0}") } else { each }
    };
    let label = if steps.len() > MOST_LISTED {
        let total = units::seconds(steps.iter().map(seconds).sum());
        format!("{} collectives {total}", steps.len())
    } else {
        let each = steps.iter().map(|step| format!("{} {}", name(step), times(step)));
        each.collect::<Vec<_>>().join(", ")
    };
    let details = steps.iter().map(|&step| explained(explainer, step)).collect();
    (label, details)
}

/// A collective with its bytes, its time and the reasons for it.
pub(super) fn explained(explainer: &Explainer<'_>, step: usize) -> String {
    let collective = explainer.collective(step);
    let (bytes, time) = (units::bytes(collective.bytes), units::seconds(collective.time_s));
    let needs = collective.needs.iter().map(|need| {
        let because = if need.because.is_empty() {
            String::new()
        } else {
            format!(": {}", need.because.join("; "))
        };
        format!("\n  - needed by {}{because}", need.who)
    });
    format!("`{}` · {bytes} · {time}{}", collective.text, needs.collect::<String>())
}
