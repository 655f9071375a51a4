//! Converts right sides to the tree: the one part of a statement that nests.

use super::{Pair, Reader, Rule, nothing, pieces};
use crate::ast::{BinaryOp, Call, Comparison, Expr, ExprKind, Statement};
use crate::span::{Name, Span, Spanned};

/// The expression that a text is; nothing if it has a mistake.
pub(super) fn expression(text: &str) -> Option<Expr> {
    let text = format!("x = {text}");
    let pairs = pieces(&text)?;
    let reader = Reader { offset: 0, broken: &[] };
    if !reader.marks(pairs.clone()).is_empty() {
        return None;
    }
    let statement = pairs.into_iter().find_map(|pair| reader.statement(pair))?;
    match statement.node {
        Statement::Define(definition) => Some(definition.value),
        _ => None,
    }
}

impl Reader<'_> {
    /// A sum or a product: operands and the operators between them, from left to right.
    pub(super) fn expr(self, pair: Pair<'_, Rule>) -> Expr {
        let mut so_far = nothing(self.span(&pair));
        let mut operator = None;
        let mut read: Option<Span> = None;
        for piece in pair.into_inner() {
            // With the parentheses of a factor, which are not in its own span.
            let here = self.span(&piece);
            let operand = match piece.as_rule() {
                Rule::term | Rule::compared => self.expr(piece),
                Rule::factor_expr => self.factor(piece),
                _ => {
                    operator = Some(piece);
                    continue;
                }
            };
            let span = read.map_or(here, |read| read.to(here));
            read = Some(span);
            so_far = match operator.take() {
                Some(operator) => self.join(operator, so_far, operand, span),
                None => operand,
            };
        }
        so_far
    }

    fn join(self, operator: Pair<'_, Rule>, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (Box::new(left), Box::new(right));
        let op = match operator.as_str() {
            "+" => Some(BinaryOp::Add),
            "-" => Some(BinaryOp::Sub),
            "/" => Some(BinaryOp::Div),
            other => Comparison::of(other).map(BinaryOp::Compare),
        };
        let kind = if let Some(op) = op {
            ExprKind::Binary { op, left, right }
        } else {
            let suffix = operator.into_inner().find(|p| p.as_rule() == Rule::suffix);
            let contracted = suffix.and_then(|p| self.contracted(p));
            ExprKind::Product { left, right, contracted }
        };
        Spanned::new(kind, span)
    }

    /// The dimensions of a suffix; none for the book's `_LOCAL`.
    fn contracted(self, suffix: Pair<'_, Rule>) -> Option<Spanned<Vec<Name>>> {
        let span = self.span(&suffix);
        let dims = self.words(suffix);
        (!dims.is_empty()).then(|| Spanned::new(dims, span))
    }

    fn factor(self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let mut signs = 0;
        let mut value = nothing(span);
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::minus => signs += 1,
                _ => value = self.primary(piece),
            }
        }
        for _ in 0..signs {
            value = Spanned::new(ExprKind::Negate(Box::new(value)), span);
        }
        value
    }

    fn primary(self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::number => ExprKind::Number(pair.as_str().to_owned()),
            Rule::tensor => self.tensor(pair),
            Rule::call | Rule::bare_call => ExprKind::Call(self.call(pair)),
            _ => {
                let inner = pair.into_inner().find(|p| p.as_rule() == Rule::expr);
                return inner.map_or_else(|| nothing(span), |p| self.expr(p));
            }
        };
        Spanned::new(kind, span)
    }

    fn tensor(self, pair: Pair<'_, Rule>) -> ExprKind {
        let mut inner = pair.into_inner();
        let name = self.first_name(&mut inner, &[Rule::name]);
        ExprKind::Tensor { name, layout: inner.next().map(|p| self.layout(p)) }
    }

    fn call(self, pair: Pair<'_, Rule>) -> Call {
        let mut call = Call {
            function: Spanned::new(String::new(), self.span(&pair)),
            generic: None,
            subscript: None,
            before_arrow: 0,
            receivers: Vec::new(),
            arguments: Vec::new(),
            options: Vec::new(),
        };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::call_head | Rule::bare_head => self.call_head(piece, &mut call),
                Rule::expr => call.arguments.push(self.expr(piece)),
                Rule::call_option => {
                    let mut words = piece.into_inner();
                    let option = self.first_name(&mut words, &[Rule::name]);
                    let number = self.first_name(&mut words, &[Rule::number, Rule::negative]);
                    call.options.push((option, number));
                }
                Rule::tensor => call.arguments.push(self.primary(piece)),
                _ => {}
            }
        }
        call
    }

    fn call_head(self, pair: Pair<'_, Rule>, call: &mut Call) {
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::function | Rule::collective => call.function = self.name(&piece),
                Rule::generic => call.generic = piece.into_inner().next().map(|p| self.name(&p)),
                Rule::call_subscript => {
                    let span = self.span(&piece);
                    call.before_arrow = before_arrow(&call.function.node, piece.as_str());
                    call.receivers = receivers(&call.function.node, piece.as_str());
                    call.subscript = Some(Spanned::new(self.words(piece), span));
                }
                _ => {}
            }
        }
    }
}

/// How many words stand before the arrow of a subscript. Collectives, whose names begin with a
/// capital, have a comma there, as in plans.
fn before_arrow(function: &str, subscript: &str) -> usize {
    let arrow = subscript.find("->").or_else(|| subscript.find('→'));
    let arrow = arrow.filter(|_| function.starts_with(char::is_lowercase));
    arrow.map_or(0, |at| subscript[..at].matches(',').count() + 1)
}

/// The places of the words after the arrows of a collective's subscript, if it has several; one
/// arrow is a comma.
fn receivers(function: &str, subscript: &str) -> Vec<usize> {
    let subscript = subscript.replace('→', "->");
    let arrows = subscript.match_indices("->");
    let place = |(at, _): (usize, &str)| {
        let before = &subscript[..at];
        before.matches(',').count() + before.matches("->").count() + 1
    };
    let places: Vec<usize> = arrows.map(place).collect();
    let is_kept = places.len() > 1 && function.starts_with(char::is_uppercase);
    if is_kept { places } else { Vec::new() }
}
