//! The target of a question: a value, a line of the program, or everything.

use shardwise_ir::codes::names;
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::{Diag, Severity, Span, suggest};

use crate::Planned;
use crate::source::place::Lines;
use crate::use_def::{UseDef, User};

/// The target of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every collective of the plan.
    Everything,
    /// The collectives that reshard a value.
    Value(String),
    /// The collectives that reshard the value that a line of the program declares or defines, or
    /// the operands of its statement.
    Line(usize),
}

impl Target {
    /// A number is a line, anything else a value.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Value(text.to_owned()), Self::Line)
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Everything => "every collective".to_owned(),
            Self::Value(name) => format!("`{name}`"),
            Self::Line(line) => format!("line {line}"),
        }
    }
}

/// The collectives that a target names, as numbers of steps; an error where there is no such value
/// or line.
pub(super) fn steps(planned: &Planned, source: &str, target: &Target) -> Result<Vec<usize>, Diag> {
    let plan = &planned.plan;
    let program = &plan.program;
    let collectives = (0..plan.steps.len())
        .filter(|&step| matches!(plan.steps[step].kind, StepKind::Collective(..)));
    match target {
        Target::Everything => Ok(collectives.collect()),
        Target::Value(name) => {
            let value = program
                .values
                .position(|value| value.name == *name)
                .ok_or_else(|| unknown(plan, name))?;
            Ok(collectives.filter(|&step| plan.steps[step].result.value == value).collect())
        }
        Target::Line(line) => {
            let Some(bytes) = Lines::new(source).bytes(*line) else {
                let last = source.lines().count();
                return Err(sentence(
                    format!("there is no line {line}"),
                    format!("the program has the lines 1 to {last}"),
                ));
            };
            let use_def = UseDef::of(planned);
            Ok(collectives.filter(|&step| concerns(plan, use_def, step, bytes)).collect())
        }
    }
}

/// Whether a line produces the operand of a collective, or needs its result.
fn concerns(plan: &Plan, use_def: UseDef<'_>, step: usize, line: Span) -> bool {
    let program = &plan.program;
    let on_line = |span: Span| span.start < line.end && line.start < span.end;
    let id = plan.steps[step].result.value;
    let value = &program.values[id];
    let written = if let StepKind::Collective(_, Some(op)) = plan.steps[step].kind {
        Some(program.ops[op].span)
    } else {
        None
    };
    let given = written
        .unwrap_or_else(|| use_def.operation(id).map_or(value.span, |op| program.ops[op].span));
    on_line(given)
        || use_def.users(step).iter().any(|reader| match reader {
            User::DeclaredSharding(_) => false,
            User::Statement(_, op) => on_line(program.ops[*op].span),
            User::Output(output) => on_line(program.outputs[*output].span),
        })
}

/// Values that an error names.
const SHOWN: usize = 20;

fn unknown(plan: &Plan, name: &str) -> Diag {
    let names: Vec<&str> = plan.program.values.iter().map(|value| value.name.as_str()).collect();
    let help = suggest::nearest(name, names.iter().copied()).map_or_else(
        || {
            let more = match names.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
            format!("its values are {shown}{more}; a number is a line")
        },
        |near| format!("`{near}` is one"),
    );
    sentence(format!("the program has no value `{name}`"), help)
}

/// An error about the question, not about the program.
fn sentence(message: String, help: String) -> Diag {
    Diag {
        code: names::UNKNOWN_VALUE,
        severity: Severity::Error,
        message,
        labels: Vec::new(),
        help: Some(help),
        inside: None,
    }
}
