//! Walks the statements, and notes each name.

use std::collections::BTreeSet;

use shardwise_grammar::ast::{
    Assertion, Backward, Call, Definition, Expr, ExprKind, File, Layout, Pipeline, Repeat, Role,
    SizeExpr, SizeFactor, StateOver, Statement, TensorDecl,
};
use shardwise_grammar::span::Name;
use shardwise_ir::Span;
use shardwise_ir::program::CollectiveKind;

use super::{Kind, Names, Occurrence};
use crate::editor::reference;

/// The names of a file.
pub(super) fn names(file: &File) -> Names {
    let mut collector = Collector { declared: Declared::of(file), ..Collector::default() };
    for statement in &file.statements {
        collector.statement(&statement.node);
    }
    let mut occurrences = collector.found;
    occurrences.sort_by_key(|it| (it.span, it.kind));
    Names { occurrences, roles: collector.roles }
}

/// The names that a file declares or defines anywhere.
#[derive(Default)]
struct Declared {
    axes: BTreeSet<String>,
    dims: BTreeSet<String>,
    values: BTreeSet<String>,
    has_gradients: bool,
}

impl Declared {
    fn of(file: &File) -> Self {
        let mut declared = Self::default();
        for statement in &file.statements {
            match &statement.node {
                Statement::Mesh(axes) => {
                    declared.axes.extend(axes.iter().map(|axis| axis.name.node.clone()));
                }
                Statement::Dim(dims) => {
                    declared.dims.extend(dims.iter().map(|dim| dim.name.node.clone()));
                }
                Statement::Declare(role, tensors) if *role != Role::Output => {
                    declared.values.extend(tensors.iter().map(|tensor| tensor.name.node.clone()));
                }
                Statement::Define(definition) | Statement::Enter(definition) => {
                    let names = definition.targets().map(|target| target.name.node.clone());
                    declared.values.extend(names);
                }
                Statement::Backward(_) => declared.has_gradients = true,
                _ => {}
            }
        }
        declared
    }
}

/// What is found so far.
#[derive(Default)]
struct Collector {
    declared: Declared,
    defined: BTreeSet<(Kind, String)>,
    roles: Vec<(String, Role)>,
    found: Vec<Occurrence>,
}

impl Collector {
    fn note(&mut self, kind: Kind, name: &str, (span, word): (Span, Span), defines: bool) {
        // What is missing is empty in the tree.
        if !name.is_empty() {
            let is_definition = defines && self.defined.insert((kind, name.to_owned()));
            let name = name.to_owned();
            self.found.push(Occurrence { span, word, kind, name, is_definition });
        }
    }

    fn used(&mut self, kind: Kind, name: &Name) {
        self.note(kind, &name.node, (name.span, name.span), false);
    }

    fn all_used<'n>(&mut self, kind: Kind, names: impl IntoIterator<Item = &'n Name>) {
        for name in names {
            self.used(kind, name);
        }
    }

    fn defines(&mut self, kind: Kind, name: &Name) {
        self.note(kind, &name.node, (name.span, name.span), true);
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Plan | Statement::Phase(..) | Statement::Close => {}
            Statement::Hardware(of) => self.all_used(Kind::Hardware, &of.name),
            Statement::Mesh(axes) => {
                for axis in axes {
                    self.defines(Kind::Axis, &axis.name);
                    self.size(&axis.size);
                }
            }
            Statement::Dim(dims) => {
                for dim in dims {
                    self.defines(Kind::Dim, &dim.name);
                    self.size(&dim.size);
                }
            }
            Statement::Declare(role, tensors) => self.declarations(*role, tensors),
            Statement::Define(of) | Statement::Enter(of) => self.definition(of, true),
            Statement::Next(of) => self.definition(of, false),
            Statement::Assert(assertion) => self.assertion(assertion),
            Statement::Allow(codes) => self.all_used(Kind::Code, codes),
            Statement::Backward(of) => self.backward(of),
            Statement::Repeat(Repeat { name, count: Some(count) }) => {
                self.defines(Kind::Block, name);
                self.size(count);
            }
            Statement::Repeat(of) => self.used(Kind::Block, &of.name),
            Statement::Scan(of) => self.dims([&of.dim].into_iter().chain(&of.chunk)),
            Statement::Microbatches(of) => {
                self.dims([&of.whole, &of.part]);
                self.size(&of.count);
            }
            Statement::Pipeline(of) => self.pipeline(of),
            Statement::Stage(of) if of.is_reversed => self.used(Kind::Block, &of.name),
            Statement::Stage(of) => self.defines(Kind::Block, &of.name),
            Statement::Carry(tensors) | Statement::Hold(tensors) => {
                for tensor in tensors {
                    self.tensor(tensor, false);
                }
            }
            Statement::Checkpoint { names, .. } => self.checkpoint(names),
            Statement::Optimizer(of) => {
                if let Some(StateOver::Axes(words)) = &of.over {
                    self.axes(words);
                }
            }
        }
    }

    /// Values that are kept; other words are kinds of values.
    fn checkpoint(&mut self, names: &[Name]) {
        for name in names {
            if self.declared.values.contains(&name.node) {
                self.used(Kind::Value, name);
            }
        }
    }

    fn declarations(&mut self, role: Role, tensors: &[TensorDecl]) {
        let is_new = role != Role::Output;
        for tensor in tensors {
            self.tensor(tensor, is_new);
            if is_new {
                self.roles.push((tensor.name.node.clone(), role));
            }
        }
    }

    fn tensor(&mut self, tensor: &TensorDecl, defines: bool) {
        if defines {
            self.defines(Kind::Value, &tensor.name);
        } else {
            self.value(&tensor.name);
        }
        self.all_used(Kind::Dtype, &tensor.dtype);
        self.layout(tensor.layout.as_ref());
    }

    fn definition(&mut self, of: &Definition, defines: bool) {
        for target in of.targets() {
            self.tensor(target, defines);
        }
        self.expr(&of.value);
    }

    fn backward(&mut self, of: &Backward) {
        for value in [&of.from].into_iter().chain(&of.given) {
            self.value(value);
        }
        if let Some(count) = &of.microbatches {
            self.size(count);
        }
        self.dims(&of.of);
        self.all_used(Kind::Dtype, &of.gradients);
    }

    fn pipeline(&mut self, of: &Pipeline) {
        self.axes([&of.axis]);
        if let Some(count) = &of.microbatches {
            self.size(count);
        }
        self.dims(&of.batch);
    }

    fn assertion(&mut self, of: &Assertion) {
        match of {
            Assertion::AtMost { .. } => {}
            Assertion::No { collective, over } => {
                self.used(Kind::Collective, collective);
                self.axes(over);
            }
            Assertion::StaysSharded(value) => self.value(value),
        }
    }

    /// A use of a value, or of the gradient of one.
    fn value(&mut self, name: &Name) {
        let is_value = |name: &str| self.declared.values.contains(name);
        match name.node.strip_prefix('d').filter(|of| self.declared.has_gradients && is_value(of)) {
            Some(of) if !is_value(&name.node) => {
                let of = of.to_owned();
                let span = Span::new(name.span.start + 1, name.span.end);
                self.note(Kind::Value, &of, (span, name.span), false);
            }
            _ => self.used(Kind::Value, name),
        }
    }

    /// A use of a dimension, or of one with primes that has its size.
    fn dim(&mut self, name: &Name) {
        let base = name.node.trim_end_matches('\'');
        let base = if self.declared.dims.contains(&name.node) { &name.node } else { base };
        let span = Span::new(name.span.start, name.span.start + base.len());
        self.note(Kind::Dim, base, (span, name.span), false);
    }

    fn dims<'n>(&mut self, names: impl IntoIterator<Item = &'n Name>) {
        for name in names {
            self.dim(name);
        }
    }

    /// Words of axes: each one of the mesh, else letters that are. `over dcn` names a kind of axis.
    fn axes<'n>(&mut self, words: impl IntoIterator<Item = &'n Name>) {
        for word in words {
            if self.is_axis(&word.node) {
                self.used(Kind::Axis, word);
            } else if let Some(whole) = self.whole_axis(&word.node) {
                let span = Span::new(word.span.start, word.span.start + whole.len());
                self.note(Kind::Axis, whole, (span, span), false);
            } else if word.node.chars().all(|c| self.is_axis(c.encode_utf8(&mut [0; 4]))) {
                for (at, letter) in word.node.char_indices() {
                    let start = word.span.start + at;
                    let span = Span::new(start, start + letter.len_utf8());
                    self.note(Kind::Axis, &letter.to_string(), (span, word.span), false);
                }
            }
        }
    }

    /// The axis `X` of its part `X.1`.
    fn whole_axis<'w>(&self, word: &'w str) -> Option<&'w str> {
        let (whole, part) = word.rsplit_once('.')?;
        (part.parse::<usize>().is_ok() && self.is_axis(whole)).then_some(whole)
    }

    fn is_axis(&self, name: &str) -> bool {
        self.declared.axes.contains(name)
    }

    fn layout(&mut self, layout: Option<&Layout>) {
        let Some(layout) = layout else { return };
        for dim in &layout.dims {
            self.dim(&dim.name);
            self.axes(dim.subscript.axes());
        }
        self.axes(layout.unreduced.iter().flat_map(|it| &it.axes));
    }

    fn size(&mut self, size: &SizeExpr) {
        for part in size.terms.iter().flat_map(|term| &term.parts) {
            match &part.factor.node {
                SizeFactor::Number(_) => {}
                SizeFactor::Dim(name) => self.dim(&Name::new(name.clone(), part.factor.span)),
                SizeFactor::Group(inner) => self.size(inner),
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.node {
            ExprKind::Tensor { name, layout } => {
                self.value(name);
                self.layout(layout.as_ref());
            }
            ExprKind::Number(_) => {}
            ExprKind::Product { left, right, contracted } => {
                self.expr(left);
                self.dims(contracted.iter().flat_map(|dims| &dims.node));
                self.expr(right);
            }
            ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Negate(inner) => self.expr(inner),
            ExprKind::Call(call) => self.call(call),
        }
    }

    fn call(&mut self, call: &Call) {
        let is_collective = CollectiveKind::find(&call.function.node).is_some();
        let kind = if is_collective { Kind::Collective } else { Kind::Function };
        let (function, words) = parts(call);
        self.used(kind, &function);
        self.all_used(Kind::Dtype, &call.generic);
        for word in &words {
            // `ReduceScatter_{X,F}` names axes and dimensions; a function dimensions alone.
            let is_dim = self.declared.dims.contains(&word.node) && !self.is_axis(&word.node);
            if is_collective && !is_dim {
                self.axes([word]);
            } else {
                self.dim(word);
            }
        }
        for argument in &call.arguments {
            self.expr(argument);
        }
    }
}

/// The function of a call and the words of its subscript. In the tree, the second part of a name
/// such as `one_hot` is the beginning of the subscript.
fn parts(call: &Call) -> (Name, Vec<Name>) {
    let words = call.subscript.as_ref().map_or(&[][..], |words| &words.node);
    let split = || {
        let [word] = words else { return None };
        let text = format!("{}_{}", call.function.node, word.node);
        let function = reference::functions().find(|name| {
            let rest = text.strip_prefix(name);
            name.contains('_') && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })?;
        let dim = text[function.len()..].trim_start_matches('_');
        let Span { start, end } = call.function.span.to(word.span);
        let named = |name: &str, start, end| Name::new(name.to_owned(), Span::new(start, end));
        let function = named(function, start, start + function.len());
        Some((function, named(dim, end - dim.len(), end)))
    };
    match split() {
        // An empty name is not noted.
        Some((function, dim)) => (function, vec![dim]),
        None => (call.function.clone(), words.to_vec()),
    }
}
