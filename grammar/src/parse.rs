//! From the grammar's pairs to the tree: the only file that matches on its rules.

use pest::Parser;
use pest::iterators::{Pair, Pairs};
use pest_derive::Parser;

use crate::ast::{
    Assertion, AxisDecl, BinaryOp, Call, Definition, DimDecl, DimUse, Expr, ExprKind, File, Layout, Role, SizeExpr, SizeFactor, Statement,
    Subscript, TensorDecl, UnreducedUse,
};
use crate::diag::Diag;
use crate::errors;
use crate::scan;
use crate::span::{Name, Span, Spanned};

#[derive(Parser)]
#[grammar = "shard.pest"]
struct Grammar;

/// Reads a source: the statements that could be read, and every syntax error.
pub fn parse(source: &str) -> (File, Vec<Diag>) {
    let mut file = File::default();
    let mut diags = Vec::new();
    for span in scan::statements(source) {
        let text = &source[span.start..span.end];
        if let Some(diag) = scan::too_deep(text, span) {
            diags.push(diag);
            continue;
        }
        let Ok(pairs) = Grammar::parse(Rule::statement, text) else {
            diags.push(errors::unreadable(text, span));
            continue;
        };
        let marks = marks(pairs.clone(), span.start);
        if marks.is_empty() {
            let reader = Reader { offset: span.start };
            for pair in pairs.filter(|pair| pair.as_rule() != Rule::EOI) {
                reader.statement(pair, &mut file.statements);
            }
        } else {
            diags.extend(marks.iter().map(|(rule, at)| errors::describe(rule, *at, text, span)));
        }
    }
    (file, diags)
}

/// What the grammar found wrong: missing pieces, and trailing text where nothing was missing before it.
fn marks(pairs: Pairs<'_, Rule>, offset: usize) -> Vec<(String, Span)> {
    let mut found: Vec<(String, Span)> = pairs
        .flatten()
        .filter_map(|pair| {
            let name = format!("{:?}", pair.as_rule());
            let wrong = name.starts_with("missing_") || name.starts_with("bad_");
            wrong.then(|| (name, span_of(&pair, offset)))
        })
        .collect();
    if found.len() > 1 {
        found.retain(|(name, _)| name != "bad_rest");
    }
    found
}

fn span_of(pair: &Pair<'_, Rule>, offset: usize) -> Span {
    let span = pair.as_span();
    Span::new(offset + span.start(), offset + span.end())
}

/// Builds nodes from pairs that hold no marks: every piece that the grammar requires is there.
#[derive(Clone, Copy)]
struct Reader {
    offset: usize,
}

type Pieces<'p> = Pairs<'p, Rule>;

impl Reader {
    fn span(self, pair: &Pair<'_, Rule>) -> Span {
        span_of(pair, self.offset)
    }

    fn name(self, pair: &Pair<'_, Rule>) -> Name {
        Spanned::new(pair.as_str().to_owned(), self.span(pair))
    }

    fn first_name(self, pieces: &mut Pieces<'_>, rules: &[Rule]) -> Name {
        let pair = pieces.find(|pair| rules.contains(&pair.as_rule()));
        pair.map_or_else(|| Spanned::new(String::new(), Span::default()), |pair| self.name(&pair))
    }

    fn statement(self, pair: Pair<'_, Rule>, out: &mut Vec<Spanned<Statement>>) {
        let span = self.span(&pair);
        let rule = pair.as_rule();
        let mut inner = pair.clone().into_inner();
        let statement = match rule {
            Rule::plan => Statement::Plan,
            Rule::hardware => Statement::Hardware(self.first_name(&mut inner, &[Rule::hardware_name])),
            Rule::mesh => Statement::Mesh(inner.filter(|p| p.as_rule() == Rule::axis).map(|p| self.axis(p)).collect()),
            Rule::dim => Statement::Dim(inner.filter(|p| p.as_rule() == Rule::dim_decl).map(|p| self.dim(p)).collect()),
            Rule::declaration => self.declaration(inner),
            Rule::definition | Rule::arrow => Statement::Define(self.definition(inner)),
            Rule::assertion => Statement::Assert(self.assertion(inner)),
            Rule::not_yet => Statement::NotYet(self.first_name(&mut inner, &[Rule::not_yet_kw])),
            Rule::allow => {
                let codes = inner.clone().filter(|p| p.as_rule() == Rule::code).map(|p| self.name(&p)).collect();
                out.push(Spanned::new(Statement::Allow(codes), span));
                if let Some(next) = inner.find(|p| matches!(p.as_rule(), Rule::definition | Rule::arrow | Rule::declaration)) {
                    self.statement(next, out);
                }
                return;
            }
            _ => return,
        };
        out.push(Spanned::new(statement, span));
    }

    fn axis(self, pair: Pair<'_, Rule>) -> AxisDecl {
        let mut axis = AxisDecl {
            name: Spanned::new(String::new(), self.span(&pair)),
            size: SizeExpr { factors: Vec::new(), span: self.span(&pair) },
            options: Vec::new(),
            over: None,
        };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::axis_name => axis.name = self.name(&piece),
                Rule::size => axis.size = self.size(piece),
                Rule::option => axis.options.push(self.name(&piece)),
                Rule::over => axis.over = self.over(piece),
                _ => {}
            }
        }
        axis
    }

    fn over(self, pair: Pair<'_, Rule>) -> Option<Spanned<Vec<u64>>> {
        let factors = pair.into_inner().find(|p| p.as_rule() == Rule::factors)?;
        let numbers = factors.as_str().split('x').map(|n| n.parse().unwrap_or(0)).collect();
        Some(Spanned::new(numbers, self.span(&factors)))
    }

    fn dim(self, pair: Pair<'_, Rule>) -> DimDecl {
        let span = self.span(&pair);
        let mut dim = DimDecl { name: Spanned::new(String::new(), span), size: SizeExpr { factors: Vec::new(), span }, pad: None };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::dim_name => dim.name = self.name(&piece),
                Rule::size => dim.size = self.size(piece),
                Rule::kw_pad => dim.pad = Some(self.span(&piece)),
                _ => {}
            }
        }
        dim
    }

    fn size(self, pair: Pair<'_, Rule>) -> SizeExpr {
        let span = self.span(&pair);
        let factors = pair.into_inner().map(|piece| {
            let factor = match piece.as_rule() {
                Rule::size_number => SizeFactor::Number(number_with_unit(piece.as_str())),
                _ => SizeFactor::Dim(piece.as_str().to_owned()),
            };
            Spanned::new(factor, self.span(&piece))
        });
        SizeExpr { factors: factors.collect(), span }
    }

    fn declaration(self, inner: Pieces<'_>) -> Statement {
        let mut role = Role::Input;
        let mut tensors = Vec::new();
        for piece in inner {
            match piece.as_rule() {
                Rule::role => role = role_of(piece.as_str()),
                Rule::tensor_decl => tensors.push(self.tensor_decl(piece)),
                _ => {}
            }
        }
        Statement::Declare(role, tensors)
    }

    fn tensor_decl(self, pair: Pair<'_, Rule>) -> TensorDecl {
        let span = self.span(&pair);
        let mut decl = TensorDecl { name: Spanned::new(String::new(), span), dtype: None, layout: None, span };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::name => decl.name = self.name(&piece),
                Rule::dtype => decl.dtype = Some(self.name(&piece)),
                Rule::layout => decl.layout = Some(self.layout(piece)),
                _ => {}
            }
        }
        decl
    }

    fn layout(self, pair: Pair<'_, Rule>) -> Layout {
        let mut layout = Layout { dims: Vec::new(), unreduced: Vec::new(), span: self.span(&pair) };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::dim_use => layout.dims.push(self.dim_use(piece)),
                Rule::unreduced => layout.unreduced.push(self.unreduced(piece)),
                _ => {}
            }
        }
        layout
    }

    fn dim_use(self, pair: Pair<'_, Rule>) -> DimUse {
        let span = self.span(&pair);
        let mut inner = pair.into_inner();
        let name = self.first_name(&mut inner, &[Rule::dim_name]);
        let subscript = inner.next().map_or(Subscript::Whole, |piece| self.subscript(piece));
        DimUse { name, subscript, span }
    }

    fn subscript(self, pair: Pair<'_, Rule>) -> Subscript {
        if pair.clone().into_inner().any(|p| p.as_rule() == Rule::open) {
            return Subscript::Open;
        }
        Subscript::Axes(self.words(pair))
    }

    fn words(self, pair: Pair<'_, Rule>) -> Vec<Name> {
        let words = pair.into_inner().flatten().filter(|p| matches!(p.as_rule(), Rule::word | Rule::dim_name));
        words.map(|p| self.name(&p)).collect()
    }

    fn unreduced(self, pair: Pair<'_, Rule>) -> UnreducedUse {
        let span = self.span(&pair);
        let mut kind = Spanned::new("U".to_owned(), span);
        let mut axes = Vec::new();
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::reduction => {
                    kind = self.name(&piece);
                    kind.node = kind.node.trim_end_matches(['_', '.']).to_owned();
                }
                Rule::pending => axes = self.words(piece),
                _ => {}
            }
        }
        UnreducedUse { kind, axes, span }
    }

    fn definition(self, inner: Pieces<'_>) -> Definition {
        let mut output = false;
        let mut target = None;
        let mut value = None;
        for piece in inner {
            match piece.as_rule() {
                Rule::kw_output => output = true,
                Rule::tensor_decl => target = Some(self.tensor_decl(piece)),
                Rule::expr => value = Some(self.expr(piece)),
                _ => {}
            }
        }
        let empty = || Spanned::new(ExprKind::Number(String::new()), Span::default());
        let nameless =
            || TensorDecl { name: Spanned::new(String::new(), Span::default()), dtype: None, layout: None, span: Span::default() };
        Definition { output, target: target.unwrap_or_else(nameless), value: value.unwrap_or_else(empty) }
    }

    fn expr(self, pair: Pair<'_, Rule>) -> Expr {
        self.fold(pair, |this, operator, left, right| {
            let op = if operator.as_str() == "+" { BinaryOp::Add } else { BinaryOp::Sub };
            let span = left.span.to(right.span);
            let _ = this;
            Spanned::new(ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) }, span)
        })
    }

    fn term(self, pair: Pair<'_, Rule>) -> Expr {
        self.fold(pair, |this, operator, left, right| {
            let span = left.span.to(right.span);
            let (left, right) = (Box::new(left), Box::new(right));
            if operator.as_rule() == Rule::slash {
                return Spanned::new(ExprKind::Binary { op: BinaryOp::Div, left, right }, span);
            }
            let suffix = operator.clone().into_inner().find(|p| p.as_rule() == Rule::suffix);
            let contracted = suffix.map(|p| Spanned::new(this.words(p.clone()), this.span(&p)));
            Spanned::new(ExprKind::Product { left, right, contracted }, span)
        })
    }

    fn fold(self, pair: Pair<'_, Rule>, join: impl Fn(Self, Pair<'_, Rule>, Expr, Expr) -> Expr) -> Expr {
        let span = self.span(&pair);
        let mut so_far: Option<Expr> = None;
        let mut operator = None;
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::term | Rule::factor_expr => {
                    let operand = if piece.as_rule() == Rule::term { self.term(piece) } else { self.factor(piece) };
                    so_far = Some(match (so_far, operator.take()) {
                        (Some(left), Some(operator)) => join(self, operator, left, operand),
                        _ => operand,
                    });
                }
                _ => operator = Some(piece),
            }
        }
        so_far.unwrap_or(Spanned::new(ExprKind::Number(String::new()), span))
    }

    fn factor(self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let mut signs = 0;
        let mut value = Spanned::new(ExprKind::Number(String::new()), span);
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
                return inner.map_or(Spanned::new(ExprKind::Number(String::new()), span), |p| self.expr(p));
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
        let mut call =
            Call { function: Spanned::new(String::new(), self.span(&pair)), generic: None, subscript: None, arguments: Vec::new() };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::call_head | Rule::bare_head => self.call_head(piece, &mut call),
                Rule::expr => call.arguments.push(self.expr(piece)),
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
                Rule::subscript => call.subscript = Some(Spanned::new(self.words(piece.clone()), self.span(&piece))),
                _ => {}
            }
        }
    }

    fn assertion(self, mut inner: Pieces<'_>) -> Assertion {
        let form = inner.find(|p| !matches!(p.as_rule(), Rule::kw_assert));
        let nameless = Spanned::new(String::new(), Span::default());
        let Some(form) = form else {
            return Assertion::StaysSharded(nameless);
        };
        let rule = form.as_rule();
        let names: Vec<Name> = form
            .into_inner()
            .flatten()
            .filter(|p| matches!(p.as_rule(), Rule::name | Rule::amount_number | Rule::amount_unit))
            .map(|p| self.name(&p))
            .collect();
        let get = |i: usize| names.get(i).cloned().unwrap_or_else(|| nameless.clone());
        match rule {
            Rule::assert_no => Assertion::No { collective: get(0), over: names.get(1).cloned() },
            Rule::assert_stays => Assertion::StaysSharded(get(0)),
            _ => Assertion::AtMost { quantity: get(0), number: get(1), unit: get(2) },
        }
    }
}

fn role_of(text: &str) -> Role {
    match text {
        "param" => Role::Param,
        "state" => Role::State,
        "output" => Role::Output,
        _ => Role::Input,
    }
}

/// `48k`, `1.5Mi`, `1e6`: `None` unless it is a whole number below 2^64.
fn number_with_unit(text: &str) -> Option<u64> {
    let digits_end = text.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    let plain: String = number.chars().filter(|&c| c != '_').collect();
    if let Ok(whole) = plain.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let product = plain.parse::<f64>().ok()? * factor as f64;
    let whole = product.fract() == 0.0 && product < 9.0e15;
    whole.then_some(product as u64)
}
