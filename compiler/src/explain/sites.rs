//! The places of a program's text where brackets stand, or could stand: what an edit changes.
//!
//! Edits change the text and not tables, so that an author can type them, and so that they also
//! work for programs with errors. Statements that write a collective have no such places: their
//! brackets define the collective.

use shardwise_grammar::ast::{Definition, Expr, ExprKind, Layout, Role, Statement, TensorDecl};
use shardwise_grammar::print::role_name;
use shardwise_ir::Span;
use shardwise_ir::program::CollectiveKind;

/// The meaning of brackets at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The sharding of a declared value.
    Declaration(Role),
    /// The sharding that a result is resharded to: the left side of its statement.
    LeftSide,
    /// The sharding in which a statement reads an operand.
    Use,
    /// The sharding of an output.
    Output,
}

/// One place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Site {
    pub(super) place: Place,
    /// The value.
    pub(super) value: String,
    /// The value's name with its brackets.
    pub(super) span: Span,
    /// The brackets; empty, after the name, where none are written.
    pub(super) brackets: Span,
    /// The statement.
    pub(super) statement: Span,
    /// The written brackets with every dimension left open.
    pub(super) open: Option<String>,
}

impl Site {
    fn new(
        place: Place,
        value: &str,
        span: Span,
        layout: Option<&Layout>,
        statement: Span,
    ) -> Self {
        let brackets = layout.map_or_else(|| Span::new(span.end, span.end), |layout| layout.span);
        let open = layout.map(opened);
        Self { place, value: value.to_owned(), span, brackets, statement, open }
    }

    /// The text of the place with other brackets: `param Win: bf16[D, F_X]`, `Tmp[B, F]`.
    pub(super) fn with(&self, source: &str, brackets: &str) -> String {
        let keyword = match self.place {
            Place::Declaration(role) => format!("{} ", role_name(role)),
            Place::Output => format!("{} ", role_name(Role::Output)),
            Place::LeftSide | Place::Use => String::new(),
        };
        let words: Vec<&str> =
            source[self.span.start..self.brackets.start].split_whitespace().collect();
        format!("{keyword}{}{brackets}", words.join(" "))
    }
}

/// `[B_?, D_?]`.
fn opened(layout: &Layout) -> String {
    let dims: Vec<String> = layout.dims.iter().map(|dim| format!("{}_?", dim.name.node)).collect();
    format!("[{}]", dims.join(", "))
}

/// Every place of a program, in its order; none for an explicit program, which has no choices.
pub(super) fn sites(source: &str) -> Vec<Site> {
    let (file, _) = shardwise_grammar::parse(source);
    let mut found = Vec::new();
    if file.statements.first().is_some_and(|first| first.node == Statement::Plan) {
        return found;
    }
    for statement in &file.statements {
        match &statement.node {
            Statement::Declare(role, tensors) => {
                let place =
                    if *role == Role::Output { Place::Output } else { Place::Declaration(*role) };
                found.extend(tensors.iter().map(|tensor| declared(place, tensor, statement.span)));
            }
            Statement::Define(definition) if !writes_collective(definition) => {
                found.push(declared(Place::LeftSide, &definition.target, statement.span));
                operands(&definition.value, statement.span, &mut found);
            }
            _ => {}
        }
    }
    found
}

fn declared(place: Place, tensor: &TensorDecl, statement: Span) -> Site {
    Site::new(place, &tensor.name.node, tensor.span, tensor.layout.as_ref(), statement)
}

fn writes_collective(definition: &Definition) -> bool {
    let ExprKind::Call(call) = &definition.value.node else { return false };
    CollectiveKind::find(&call.function.node).is_some()
}

fn operands(expr: &Expr, statement: Span, found: &mut Vec<Site>) {
    match &expr.node {
        ExprKind::Tensor { name, layout } => {
            found.push(Site::new(Place::Use, &name.node, expr.span, layout.as_ref(), statement));
        }
        ExprKind::Number(_) => {}
        ExprKind::Product { left, right, .. } | ExprKind::Binary { left, right, .. } => {
            operands(left, statement, found);
            operands(right, statement, found);
        }
        ExprKind::Negate(inner) => operands(inner, statement, found),
        ExprKind::Call(call) => {
            call.arguments.iter().for_each(|argument| operands(argument, statement, found));
        }
    }
}

/// The text with other brackets at some places.
pub(super) fn edited<'s>(
    source: &str,
    edits: impl IntoIterator<Item = (&'s Site, &'s str)>,
) -> String {
    let mut edits: Vec<(&Site, &str)> = edits.into_iter().collect();
    edits.sort_by_key(|(site, _)| site.brackets);
    let mut text = source.to_owned();
    for (site, brackets) in edits.into_iter().rev() {
        text.replace_range(site.brackets.start..site.brackets.end, brackets);
    }
    text
}

/// The text with every `assert` blanked out, all places kept.
pub(super) fn without_asserts(source: &str) -> String {
    let (file, _) = shardwise_grammar::parse(source);
    let mut text = source.to_owned();
    for statement in
        file.statements.iter().filter(|statement| matches!(statement.node, Statement::Assert(_)))
    {
        let (start, end) = (statement.span.start, statement.span.end);
        text.replace_range(start..end, &" ".repeat(end - start));
    }
    text
}
