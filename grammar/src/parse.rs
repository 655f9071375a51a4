//! Converts pest's pairs to the syntax tree: the only file that matches on the grammar's rules.

mod backward;
mod described;
mod dim_words;
mod expression;
mod hardware;
mod lost;
mod optimizer;
mod size;
#[cfg(test)]
mod tests;

use lost::Unread;
use pest::Parser;
use pest::iterators::{Pair, Pairs};
use pest_derive::Parser;

use crate::ast::{
    Assertion, AxisDecl, Definition, DimDecl, DimUse, Expr, ExprKind, File, Layout, Microbatches,
    Pipeline, Repeat, Role, Scan, SizeExpr, Stage, Statement, Subscript, TensorDecl, UnreducedUse,
};
use crate::diag::Diag;
use crate::errors::{self, Faulty, Mark, Sizes};
use crate::habits::names_dims;
use crate::scan;
use crate::span::{Name, Span, Spanned};

#[derive(Parser)]
#[grammar = "shard.pest"]
struct Grammar;

/// Reads a source: the statements that could be read, and every syntax error.
pub fn parse(source: &str) -> (File, Vec<Diag>) {
    let mut file = File::default();
    let mut diags = Vec::new();
    if let Some(diag) = errors::json(source) {
        // Nothing else of it is an error.
        file.lost.hardware = true;
        return (file, vec![diag]);
    }
    let sizes = Sizes::of(source);
    let mut unread = Unread::default();
    let mut faulty = Vec::new();
    for span in scan::statements(source) {
        let text = scan::blanked(&source[span.start..span.end]);
        let found = match scan::refuse(&text, span) {
            Some(diag) => {
                Unread::refused(&mut file, &text);
                vec![diag]
            }
            None => read(Faulty { text: &text, span, sizes: &sizes }, (&mut file, &mut unread)),
        };
        if !found.is_empty() {
            faulty.push((text, span, found));
        }
    }
    unread.end(&mut file);
    dim_words::split(&mut file);
    diags.extend(described::described(faulty, &file, &sizes));
    diags.extend(described::unbalanced(&file, source));
    // White space of several bytes is several spaces in the grammar, and a mark may point at one of
    // them.
    for label in diags.iter_mut().flat_map(|diag| &mut diag.labels) {
        label.span = label.span.whole_characters(source);
    }
    (file, diags)
}

/// Reads a statement; returns its errors.
fn read(faulty: Faulty<'_>, (file, unread): (&mut File, &mut Unread)) -> Vec<Diag> {
    let Faulty { text, span, .. } = faulty;
    let Some(pairs) = pieces(text) else {
        return vec![faulty.describe(Mark::Statement, span)];
    };
    let reader = Reader { offset: span.start, broken: &[] };
    let marks = reader.marks(pairs.clone());
    if marks.is_empty() {
        let statements = pairs.clone().filter_map(|pair| reader.statement(pair));
        unread.keep(file, statements, pairs.clone());
    } else {
        unread.recover(file, faulty, pairs, &marks);
    }
    marks.into_iter().map(|(mark, at)| faulty.describe(mark, at)).collect()
}

/// The parsed statement.
fn pieces(text: &str) -> Option<Pieces<'_>> {
    Grammar::parse(Rule::statement, text).ok()
}

/// The error of a rule of the grammar.
fn mark(rule: Rule) -> Option<Mark> {
    Some(match rule {
        Rule::missing_name => Mark::Name,
        Rule::missing_size => Mark::Size,
        Rule::missing_axis => Mark::Axis,
        Rule::missing_dim => Mark::Dim,
        Rule::missing_operand => Mark::Operand,
        Rule::missing_rbracket => Mark::Bracket,
        Rule::missing_rbrace => Mark::Brace,
        Rule::missing_rparen => Mark::Paren,
        Rule::missing_lbrace => Mark::Block,
        Rule::missing_limit => Mark::Limit,
        Rule::missing_phase => Mark::Phase,
        Rule::missing_until => Mark::Until,
        Rule::missing_weights => Mark::Weights,
        Rule::missing_code => Mark::Code,
        Rule::missing_setting => Mark::Setting,
        Rule::missing_file => Mark::File,
        Rule::missing_quote => Mark::Quote,
        Rule::bad_dim => Mark::NumberAsDim,
        Rule::bad_unreduced => Mark::Unbracketed,
        Rule::bad_rest => Mark::Rest,
        Rule::bad_statement => Mark::Statement,
        _ => return None,
    })
}

/// Builds nodes from pairs that hold no marks: every piece that the grammar requires is there.
#[derive(Clone, Copy)]
struct Reader<'b> {
    offset: usize,
    /// Items of a list that are omitted.
    broken: &'b [Span],
}

type Pieces<'p> = Pairs<'p, Rule>;
/// One piece of a statement.
type Piece<'p> = Pair<'p, Rule>;

impl Reader<'_> {
    /// The errors of a statement; text after it is reported only if there are no others.
    fn marks(self, pairs: Pieces<'_>) -> Vec<(Mark, Span)> {
        let marked = |pair: Pair<'_, Rule>| match pair.as_rule() {
            Rule::call_option if names_dims(pair.as_str()) => Some((Mark::Paren, self.span(&pair))),
            rule => Some((mark(rule)?, self.span(&pair))),
        };
        let mut found: Vec<(Mark, Span)> = pairs.flatten().filter_map(marked).collect();
        if found.len() > 1 {
            found.retain(|(mark, _)| *mark != Mark::Rest);
        }
        // At one place, only the first missing piece is reported.
        found.dedup_by_key(|(_, at)| at.start);
        found
    }

    /// The span of a piece, without trailing white space.
    fn span(self, pair: &Pair<'_, Rule>) -> Span {
        let start = self.offset + pair.as_span().start();
        let text = pair.as_str().trim_end_matches(' ');
        Span::new(start, start + text.len())
    }

    /// The items of a list without errors.
    fn each<T>(self, pieces: Pieces<'_>, rule: Rule, read: impl Fn(Pair<'_, Rule>) -> T) -> Vec<T> {
        pieces.filter(|piece| piece.as_rule() == rule && self.is_whole(piece)).map(read).collect()
    }

    fn is_whole(self, piece: &Pair<'_, Rule>) -> bool {
        let span = self.span(piece);
        !self.broken.iter().any(|at| (span.start..=span.end).contains(&at.start))
    }

    fn name(self, pair: &Pair<'_, Rule>) -> Name {
        Spanned::new(pair.as_str().to_owned(), self.span(pair))
    }

    fn first_name(self, pieces: &mut Pieces<'_>, rules: &[Rule]) -> Name {
        let pair = pieces.find(|pair| rules.contains(&pair.as_rule()));
        pair.map_or_else(|| Spanned::new(String::new(), Span::default()), |pair| self.name(&pair))
    }

    fn statement(self, pair: Pair<'_, Rule>) -> Option<Spanned<Statement>> {
        let span = self.span(&pair);
        let rule = pair.as_rule();
        let mut inner = pair.into_inner();
        let statement = match rule {
            Rule::plan => Statement::Plan,
            Rule::hardware => Statement::Hardware(self.hardware(inner)),
            Rule::mesh => Statement::Mesh(self.each(inner, Rule::axis, |p| self.axis(p))),
            Rule::dim => Statement::Dim(self.each(inner, Rule::dim_decl, |p| self.dim(p))),
            Rule::declaration => self.declaration(inner),
            Rule::definition | Rule::arrow => Statement::Define(self.definition(inner)),
            Rule::assertion => Statement::Assert(self.assertion(inner)),
            Rule::allow_code => Statement::Allow(self.each(inner, Rule::code, |p| self.name(&p))),
            Rule::backward => Statement::Backward(self.backward(inner)),
            Rule::phase => backward::phase(inner),
            Rule::pipeline => Statement::Pipeline(self.pipeline(inner)),
            Rule::stage => Statement::Stage(self.stage(inner)),
            Rule::optimizer => Statement::Optimizer(self.optimizer(inner)),
            Rule::repeat => Statement::Repeat(self.repeat(inner)),
            Rule::scan_loop => Statement::Scan(self.scan(inner)),
            Rule::microbatch_loop => Statement::Microbatches(self.microbatch_loop(inner)),
            Rule::close => Statement::Close,
            Rule::hold => {
                Statement::Hold(self.each(inner, Rule::tensor_decl, |p| self.tensor_decl(p)))
            }
            Rule::checkpoint => {
                let how = inner.clone().find(|p| p.as_rule() == Rule::checkpoint_how);
                let how = how.map(|p| self.name(&p));
                let names = self.each(inner, Rule::name, |p| self.name(&p));
                Statement::Checkpoint { how, names }
            }
            Rule::carry => self.carry(inner),
            Rule::next => inner
                .find(|p| p.as_rule() == Rule::definition)
                .map(|p| Statement::Next(self.definition(p.into_inner())))?,
            _ => return None,
        };
        Some(Spanned::new(statement, span))
    }

    fn repeat(self, mut pieces: Pieces<'_>) -> Repeat {
        let name = self.first_name(&mut pieces, &[Rule::repeat_of]);
        Repeat { name, count: pieces.find(|p| p.as_rule() == Rule::size).map(|p| self.size(p)) }
    }

    fn scan(self, mut pieces: Pieces<'_>) -> Scan {
        let dim = self.first_name(&mut pieces, &[Rule::loop_whole]);
        let is_reversed = pieces.clone().any(|p| p.as_rule() == Rule::kw_reversed);
        let chunk = pieces.find(|p| p.as_rule() == Rule::loop_part).map(|p| self.name(&p));
        Scan { dim, chunk, is_reversed }
    }

    fn microbatch_loop(self, mut pieces: Pieces<'_>) -> Microbatches {
        let whole = self.first_name(&mut pieces, &[Rule::loop_whole]);
        let part = self.first_name(&mut pieces, &[Rule::loop_part]);
        let nothing = || SizeExpr { terms: Vec::new(), span: whole.span };
        let count =
            pieces.find(|p| p.as_rule() == Rule::size).map_or_else(nothing, |p| self.size(p));
        Microbatches { whole, part, count }
    }

    fn pipeline(self, mut pieces: Pieces<'_>) -> Pipeline {
        let axis = self.first_name(&mut pieces, &[Rule::axis_name]);
        let mut pipeline = Pipeline {
            axis,
            microbatches: None,
            batch: None,
            options: Vec::new(),
            is_reversed: false,
        };
        for piece in pieces {
            match piece.as_rule() {
                Rule::microbatches if pipeline.microbatches.is_some() => {
                    // A size reaches up to what follows it.
                    let again = |p: Pair<'_, Rule>| {
                        let span = self.span(&p);
                        let written = p.as_str().trim_end().to_owned();
                        (Spanned::new("microbatches".to_owned(), span), Spanned::new(written, span))
                    };
                    pipeline
                        .options
                        .extend(piece.into_inner().find(|p| p.as_rule() == Rule::size).map(again));
                }
                Rule::microbatches => {
                    pipeline.microbatches = piece
                        .into_inner()
                        .find(|p| p.as_rule() == Rule::size)
                        .map(|p| self.size(p));
                }
                Rule::kw_reversed => pipeline.is_reversed = true,
                Rule::cut => {
                    pipeline.batch =
                        Some(self.first_name(&mut piece.into_inner(), &[Rule::dim_name]));
                }
                Rule::pipeline_option => {
                    let mut words = piece.into_inner();
                    let option = self.first_name(&mut words, &[Rule::name]);
                    let counts = words.clone().find(|p| p.as_rule() == Rule::layer_counts);
                    let given = match counts {
                        Some(list) => self.layer_counts(list),
                        None => self.first_name(&mut words, &[Rule::option_word]),
                    };
                    pipeline.options.push((option, given));
                }
                _ => {}
            }
        }
        pipeline
    }

    fn stage(self, mut pieces: Pieces<'_>) -> Stage {
        let name = self.first_name(&mut pieces, &[Rule::repeat_of]);
        Stage { name, is_reversed: pieces.any(|p| p.as_rule() == Rule::kw_reversed) }
    }

    /// `[7, 8, 8, 7]`, as one word.
    fn layer_counts(self, list: Pair<'_, Rule>) -> Name {
        let span = self.span(&list);
        let counts = self.each(list.into_inner(), Rule::word, |p| self.name(&p).node);
        Spanned::new(format!("[{}]", counts.join(", ")), span)
    }

    fn carry(self, pieces: Pieces<'_>) -> Statement {
        match pieces.clone().find(|p| p.as_rule() == Rule::definition) {
            Some(definition) => Statement::Enter(self.definition(definition.into_inner())),
            None => Statement::Carry(self.each(pieces, Rule::tensor_decl, |p| self.tensor_decl(p))),
        }
    }

    fn axis(self, pair: Pair<'_, Rule>) -> AxisDecl {
        let mut axis = AxisDecl {
            name: Spanned::new(String::new(), self.span(&pair)),
            size: SizeExpr { terms: Vec::new(), span: self.span(&pair) },
            options: Vec::new(),
            over: None,
            parts: None,
        };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::axis_name => axis.name = self.name(&piece),
                Rule::size => axis.size = self.size(piece),
                Rule::option => axis.options.push(self.name(&piece)),
                Rule::over => axis.over = self.factors(piece),
                Rule::parts => axis.parts = self.factors(piece),
                _ => {}
            }
        }
        axis
    }

    fn factors(self, pair: Pair<'_, Rule>) -> Option<Spanned<Vec<u64>>> {
        let factors = pair.into_inner().find(|p| p.as_rule() == Rule::factors)?;
        let numbers = factors.as_str().split(['x', '×']).map(|n| n.parse().unwrap_or(0)).collect();
        Some(Spanned::new(numbers, self.span(&factors)))
    }

    fn dim(self, pair: Pair<'_, Rule>) -> DimDecl {
        let span = self.span(&pair);
        let mut dim = DimDecl {
            name: Spanned::new(String::new(), span),
            size: SizeExpr { terms: Vec::new(), span },
            pad: None,
            zigzag: None,
        };
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::dim_name => dim.name = self.name(&piece),
                Rule::size => dim.size = self.size(piece),
                Rule::kw_pad => dim.pad = Some(self.span(&piece)),
                Rule::zigzag => {
                    let span = self.span(&piece);
                    let pairs = piece.into_inner().find(|piece| piece.as_rule() == Rule::size);
                    dim.zigzag = pairs.map(|pairs| Spanned::new(self.size(pairs), span));
                }
                _ => {}
            }
        }
        dim
    }

    fn declaration(self, inner: Pieces<'_>) -> Statement {
        let mut role = Role::Input;
        let mut tensors = Vec::new();
        for piece in inner {
            match piece.as_rule() {
                Rule::role => role = Role::of(piece.as_str()).unwrap_or(role),
                Rule::tensor_decl if self.is_whole(&piece) => tensors.push(self.tensor_decl(piece)),
                _ => {}
            }
        }
        Statement::Declare(role, tensors)
    }

    fn tensor_decl(self, pair: Pair<'_, Rule>) -> TensorDecl {
        let span = self.span(&pair);
        let mut decl = TensorDecl::nameless(span);
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
        let is_first = pair.clone().into_inner().any(|p| p.as_rule() == Rule::first);
        let words = self.words(pair);
        if is_first { Subscript::First(words) } else { Subscript::Axes(words) }
    }

    fn words(self, pair: Pair<'_, Rule>) -> Vec<Name> {
        let words = pair
            .into_inner()
            .flatten()
            .filter(|p| matches!(p.as_rule(), Rule::word | Rule::dim_name));
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
        let mut targets = Vec::new();
        let mut value = None;
        let mut kernel = None;
        for piece in inner {
            match piece.as_rule() {
                Rule::kw_output => output = true,
                Rule::kernel => {
                    let number = piece.as_str().trim_start_matches(|c: char| !c.is_ascii_digit());
                    kernel = number.parse().ok().map(|n| Spanned::new(n, self.span(&piece)));
                }
                Rule::tensor_decl => targets.push(self.tensor_decl(piece)),
                Rule::expr => value = Some(self.expr(piece)),
                _ => {}
            }
        }
        let mut targets = targets.into_iter();
        Definition {
            output,
            target: targets.next().unwrap_or_else(|| TensorDecl::nameless(Span::default())),
            others: targets.collect(),
            value: value.unwrap_or_else(|| nothing(Span::default())),
            kernel,
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

/// A placeholder where the grammar guarantees an expression.
fn nothing(span: Span) -> Expr {
    Spanned::new(ExprKind::Number(String::new()), span)
}
