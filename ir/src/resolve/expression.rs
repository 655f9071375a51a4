//! Expressions: the operation, and its operands.

use crate::codes::names;
use shardwise_grammar::ast::{BinaryOp, Call, Comparison, Expr, ExprKind, Layout};
use shardwise_grammar::span::{Name, Span, Spanned};

use strum::VariantArray;

use super::Resolver;
use super::define::{Operation, Target, collective_kind};
use super::{attention, opaque, repeat, structure, wording};
use crate::Diag;
use crate::functions::{AlongFn, Arithmetic, Composite, Function, HostTransfer};
use crate::ids::{DimId, ValueId};
use crate::program::{MapFn, MapForm, Mode, OpKind, Operand, ReduceFn};
use crate::shape::{infer_shape, merge};

impl Resolver<'_> {
    pub(super) fn operation(&mut self, expr: &Expr, target: Option<&Target>) -> Option<Operation> {
        if let Some(number) = scalar(expr) {
            return self.constant(number, expr.span, target);
        }
        match &expr.node {
            ExprKind::Product { left, right, contracted } => {
                self.product(left, right, contracted.as_ref(), target)
            }
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, target),
            ExprKind::Negate(inner) => {
                let operand = self.operand(inner, target)?;
                Some(self.map(MapForm::Negate, vec![operand]))
            }
            ExprKind::Call(call) => self.call(call, expr.span, target),
            ExprKind::Tensor { .. } => {
                let operand = self.operand(expr, target)?;
                Some(self.map(MapForm::call(Function::Copy), vec![operand]))
            }
            ExprKind::Number(number) => self.constant(number.clone(), expr.span, target),
        }
    }

    /// `Z[B, D] = 0.0`: a number everywhere, in an array whose dimensions the left side has.
    fn constant(
        &mut self,
        number: String,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        if let Some(dims) = target.and_then(Target::dims) {
            return Some(self.map(MapForm::Constant { number, dims }, Vec::new()));
        }
        let message = "a number alone is not a value";
        let diag = Diag::error(names::BAD_CALL, message, span, "no dimensions");
        self.error(diag.help(format!(
            "multiply or add it to a value, or write the dimensions of a constant: `Z[B, D] = \
                {number}`"
        )));
        None
    }

    /// Whether a call may stand for several operations; reports it in a plan.
    pub(super) fn may_be_several(&mut self, span: Span, help: &str) -> Option<()> {
        if self.mode == Mode::Ordinary {
            return Some(());
        }
        let message = "an explicit program has one operation a statement";
        let diag = Diag::error(names::ONE_OPERATION, message, span, "several operations");
        self.error(diag.help(help));
        None
    }

    /// An operand: a value, or the value of an expression of its own.
    pub(super) fn operand(&mut self, expr: &Expr, target: Option<&Target>) -> Option<Operand> {
        if let ExprKind::Tensor { name, layout } = &expr.node {
            return self.named_operand(name, layout.as_ref(), expr.span);
        }
        if self.mode == Mode::Explicit {
            let diag = Diag::error(
                names::ONE_OPERATION,
                "an explicit program has one operation a statement",
                expr.span,
                "a second operation",
            );
            self.error(diag.help("give this part a statement and a name of its own"));
            return None;
        }
        if let ExprKind::Call(call) = &expr.node
            && collective_kind(call).is_some()
        {
            let diag = Diag::error(
                names::BAD_CALL,
                format!("`{}` stands inside an expression", call.function.node),
                expr.span,
                "a collective",
            );
            self.error(diag.help(
                "give it a statement of its own: its left side defines the \
                result",
            ));
            return None;
        }
        let base = target.map_or("t", |target| target.name.node.as_str());
        let link = Target {
            name: Name::new(base.to_owned(), expr.span),
            dtype: None,
            written: None,
            wished: None,
        };
        let operation = self.operation(expr, Some(&link))?;
        self.link_value(operation, Some(&link), expr.span)
    }

    pub(super) fn named_operand(
        &mut self,
        name: &Name,
        layout: Option<&Layout>,
        span: Span,
    ) -> Option<Operand> {
        let Some(value) = self.value(name) else {
            layout.map(|layout| self.layout(layout));
            return None;
        };
        self.placed(value, name, layout, span)
    }

    /// A use of a value with the brackets written there.
    pub(super) fn placed(
        &mut self,
        value: ValueId,
        name: &Name,
        layout: Option<&Layout>,
        span: Span,
    ) -> Option<Operand> {
        let pin = match layout {
            None => None,
            Some(layout) => {
                let (dims, pin) = self.layout(layout)?;
                if !self.same_dims(value, &dims, layout.span) {
                    return None;
                }
                Some(pin)
            }
        };
        if self.mode == Mode::Explicit && pin.as_ref().is_none_or(|pin| pin.exact().is_none()) {
            self.needs_brackets(name);
            return None;
        }
        Some(Operand { value, pin, span })
    }

    fn dims_of(&self, operand: &Operand) -> Vec<DimId> {
        self.values[operand.value].dims.clone()
    }

    pub(super) fn map(&self, form: MapForm, operands: Vec<Operand>) -> Operation {
        self.plain(OpKind::Map(MapFn::new(form)), operands)
    }

    /// An operation whose result has the dimensions that its operands give.
    pub(super) fn plain(&self, kind: OpKind, operands: Vec<Operand>) -> Operation {
        let dims: Vec<&[DimId]> =
            operands.iter().map(|operand| self.values[operand.value].dims.as_slice()).collect();
        let dims = infer_shape(&kind, &dims);
        Operation { kind, operands, dims }
    }

    fn product(
        &mut self,
        left: &Expr,
        right: &Expr,
        contracted: Option<&Spanned<Vec<Name>>>,
        target: Option<&Target>,
    ) -> Option<Operation> {
        match (scalar(left), scalar(right)) {
            (Some(number), None) | (None, Some(number)) => {
                let operand =
                    self.operand(if scalar(left).is_some() { right } else { left }, target)?;
                Some(self.map(MapForm::ScaleBy(number), vec![operand]))
            }
            _ => self.einsum(left, right, contracted, target),
        }
    }

    fn einsum(
        &mut self,
        left: &Expr,
        right: &Expr,
        contracted: Option<&Spanned<Vec<Name>>>,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let left_operand = self.operand(left, target);
        let right_operand = self.operand(right, target);
        let operands = vec![left_operand?, right_operand?];
        let all = merge(&self.dims_of(&operands[0]), &self.dims_of(&operands[1]));
        let kept = target.and_then(|target| target.written.as_ref()).map(|(dims, ..)| dims);
        let summed: Vec<DimId> = if let Some(suffix) = contracted {
            self.distinct_dims(&suffix.node)?
        } else {
            kept.map_or_else(Vec::new, |kept| {
                all.iter().copied().filter(|dim| !kept.contains(dim)).collect()
            })
        };
        for &dim in &summed {
            let missing =
                operands.iter().find(|operand| !self.values[operand.value].dims.contains(&dim));
            if let Some(operand) = missing {
                let (name, value) =
                    (self.dims[dim].name.clone(), self.values[operand.value].name.clone());
                let span = contracted.map_or(operand.span, |suffix| suffix.span);
                let diag = Diag::error(
                    names::CONTRACTION,
                    format!("`{name}` is summed, but `{value}` does not have it"),
                    span,
                    "summed here",
                );
                self.error(
                    diag.and(operand.span, format!("no `{name}` here"))
                        .help(format!("contract what both have, or use `sum_{name}(…)` for one")),
                );
                return None;
            }
            if kept.is_some_and(|kept| kept.contains(&dim)) {
                let name = self.dims[dim].name.clone();
                let span = contracted.map_or(left.span, |suffix| suffix.span);
                let diag = Diag::error(
                    names::CONTRACTION,
                    format!("`{name}` is summed, but stands on the left side"),
                    span,
                    "summed here",
                );
                self.error(
                    diag.help(format!("leave `{name}` out on the left, or out of the suffix")),
                );
                return None;
            }
        }
        Some(self.plain(OpKind::Einsum { contracted: summed }, operands))
    }

    /// The dimensions of a subscript or suffix, each once.
    pub(super) fn distinct_dims(&mut self, written: &[Name]) -> Option<Vec<DimId>> {
        let mut dims = Vec::new();
        for name in written {
            let dim = self.dim(name)?;
            if dims.contains(&dim) {
                let diag = Diag::error(
                    names::CONTRACTION,
                    format!("`{}` is named twice", name.node),
                    name.span,
                    "again",
                );
                self.error(diag.help("name each dimension once"));
                return None;
            }
            dims.push(dim);
        }
        Some(dims)
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let symbol = match op {
            BinaryOp::Add => Arithmetic::Add,
            BinaryOp::Sub => Arithmetic::Sub,
            BinaryOp::Div => Arithmetic::Div,
            BinaryOp::Compare(how) => return self.compare(how, left, right, target),
        };
        match (scalar(left), scalar(right)) {
            (Some(number), None) => {
                let operand = self.operand(right, target)?;
                Some(self.map(MapForm::ScalarInfix(number, symbol), vec![operand]))
            }
            (None, Some(number)) => {
                let operand = self.operand(left, target)?;
                Some(self.map(MapForm::InfixScalar(symbol, number), vec![operand]))
            }
            _ => {
                let left = self.operand(left, target);
                let right = self.operand(right, target);
                Some(self.map(MapForm::Infix(symbol), vec![left?, right?]))
            }
        }
    }

    /// A comparison is the function of its name, which takes a number last.
    fn compare(
        &mut self,
        how: Comparison,
        left: &Expr,
        right: &Expr,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let (how, left, right) =
            if scalar(left).is_some() { (how.flipped(), right, left) } else { (how, left, right) };
        let operand = self.operand(left, target);
        let numbers: Vec<String> = scalar(right).into_iter().collect();
        let other = if numbers.is_empty() { Some(self.operand(right, target)?) } else { None };
        let operands = [Some(operand?), other].into_iter().flatten().collect();
        Some(self.map(MapForm::Call { function: comparison(how), numbers }, operands))
    }

    fn call(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        if let Some(call) = structure::canonical(call) {
            return self.structural(&call.function.node, &call, span, target);
        }
        let name = call.function.node.as_str();
        self.may_have_options(call)?;
        if name == attention::NAME {
            return self.attention(call, span, target);
        }
        let lower = name.to_lowercase();
        let reduces = ReduceFn::ALL.iter().find(|known| known.name() == lower);
        if let Some(&function) = reduces.filter(|_| !self.goes_on(call)) {
            return self.reduce(call, function, span, target);
        }
        if let Some(&function) = Composite::ALL.iter().find(|known| known.name() == name) {
            return self.composite(function, call, span, target);
        }
        if let Some(&function) = AlongFn::ALL.iter().find(|known| known.name() == name) {
            return self.function_along(call, function, span, target);
        }
        if structure::NAMES.contains(&name) {
            return self.structural(name, call, span, target);
        }
        if name == opaque::NAME {
            return self.opaque(call, span, target);
        }
        if name == "broadcast" {
            return self.broadcast(call, span, target);
        }
        if let Some(form) = repeat::export_form(name) {
            return self.export_value(call, form, span);
        }
        if name == "cast" {
            return self.cast(call, span, target);
        }
        if let Some(&transfer) = HostTransfer::VARIANTS.iter().find(|known| known.name() == name) {
            return self.host_transfer(transfer, call, span, target);
        }
        let Some(function) = elementwise(call, lower) else {
            return self.unknown_function(call, span);
        };
        if self.is_misused(call, function, span) {
            return None;
        }
        let numbers = call.arguments.iter().filter_map(scalar).collect();
        let values = call.arguments.iter().filter(|argument| scalar(argument).is_none());
        let operands: Vec<Option<Operand>> =
            values.map(|argument| self.operand(argument, target)).collect();
        let operands: Option<Vec<Operand>> = operands.into_iter().collect();
        Some(self.map(MapForm::Call { function, numbers }, operands?))
    }

    /// Reports a call with too many or too few operands, or with a number where a value belongs.
    fn is_misused(&mut self, call: &Call, function: Function, span: Span) -> bool {
        let (name, arity, numbers) = (function.name(), function.arity(), function.row().numbers);
        let is_number: Vec<bool> =
            call.arguments.iter().map(|argument| scalar(argument).is_some()).collect();
        let given = is_number.iter().filter(|is_number| **is_number).count();
        if is_number.len() == arity && given == arity {
            let message = format!("`{name}` is a function of values, and these are numbers");
            let diag = Diag::error(names::BAD_CALL, message, span, "a number");
            self.error(diag.help("write the number that it comes to, as in `x / 22.6`"));
            return true;
        }
        if is_number.len() != arity {
            let s = if arity == 1 { "" } else { "s" };
            let message = format!("`{name}` takes {arity} operand{s}");
            let diag = Diag::error(names::BAD_CALL, message, span, "this call");
            self.error(diag.help(format!("write `{}`", wording::call_of(function))));
            return true;
        }
        let commutes = matches!(function, Function::Maximum | Function::Minimum);
        let message = if numbers > 0 && given != numbers {
            let (values, s) = (arity - numbers, if numbers == 1 { "" } else { "s" });
            format!("`{name}` takes {values} values, then {numbers} number{s}")
        } else if function == Function::Select && is_number[0] {
            "`select` is written `select(mask, a, b)`: what is true comes first".to_owned()
        } else if !commutes && !is_number.is_sorted() {
            format!("`{name}` takes its number last")
        } else {
            return false;
        };
        self.bad_call::<()>(&message, span);
        true
    }

    fn cast(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        let dtype = self.dtype(call.generic.as_ref())?;
        let ([argument], Some(dtype)) = (&call.arguments[..], dtype) else {
            return self.bad_call("`cast` is written `cast<f32>(x)`", span);
        };
        let operand = self.operand(argument, target)?;
        let function = MapFn::cast(self.values[operand.value].dtype, dtype);
        Some(self.plain(OpKind::Map(function), vec![operand]))
    }

    fn host_transfer(
        &mut self,
        transfer: HostTransfer,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let ([argument], None) = (&call.arguments[..], &call.subscript) else {
            return self.bad_call(&format!("`{0}` is written `{0}(x)`", transfer.name()), span);
        };
        let operand = self.operand(argument, target)?;
        Some(self.map(MapForm::Host(transfer), vec![operand]))
    }

    fn broadcast(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        let (Some(subscript), [argument]) = (&call.subscript, &call.arguments[..]) else {
            return self.bad_call(
                "`broadcast` is written `broadcast_D(x)`, with the dimensions that it adds",
                span,
            );
        };
        let operand = self.operand(argument, target)?;
        let dims = self.distinct_dims(&subscript.node)?;
        let has = self.dims_of(&operand);
        if let Some(&dim) = dims.iter().find(|dim| has.contains(dim)) {
            let message = format!(
                "`{}` has the dimension `{}` already",
                self.values[operand.value].name, self.dims[dim].name
            );
            let diag = Diag::error(names::CONTRACTION, message, subscript.span, "added here")
                .and(operand.span, "to this");
            self.error(diag.help("broadcast over dimensions that it lacks"));
            return None;
        }
        Some(self.map(MapForm::Broadcast(dims), vec![operand]))
    }

    fn reduce(
        &mut self,
        call: &Call,
        function: ReduceFn,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let name = function.name();
        let (Some(subscript), [argument]) = (&call.subscript, &call.arguments[..]) else {
            return self.needs_dims(name, call, span);
        };
        let operand = self.operand(argument, target)?;
        let dims = self.distinct_dims(&subscript.node)?;
        let has = self.dims_of(&operand);
        if let Some(&dim) = dims.iter().find(|dim| !has.contains(dim)) {
            let message = format!(
                "`{}` has no dimension `{}`",
                self.values[operand.value].name, self.dims[dim].name
            );
            let diag = Diag::error(names::CONTRACTION, message, subscript.span, "reduced here")
                .and(operand.span, "of this");
            self.error(diag.help("reduce over a dimension that it has"));
            return None;
        }
        Some(self.plain(OpKind::Reduce { function, dims }, vec![operand]))
    }
}

/// The element-wise function that a call names. In `stop_gradient`, what looks like a subscript
/// belongs to the name.
fn elementwise(call: &Call, lower: String) -> Option<Function> {
    let name = match call.subscript.as_ref().map(|words| &words.node[..]) {
        None => lower,
        Some([word]) => format!("{lower}_{}", word.node),
        Some(_) => return None,
    };
    Function::find(&name)
}

/// The function that a comparison is.
fn comparison(how: Comparison) -> Function {
    match how {
        Comparison::Less => Function::Less,
        Comparison::LessEqual => Function::LessEqual,
        Comparison::Greater => Function::Greater,
        Comparison::GreaterEqual => Function::GreaterEqual,
        Comparison::Equal => Function::Equal,
        Comparison::NotEqual => Function::NotEqual,
    }
}

/// A number, with its sign.
pub(super) fn scalar(expr: &Expr) -> Option<String> {
    match &expr.node {
        ExprKind::Number(number) => Some(number.clone()),
        ExprKind::Negate(inner) => scalar(inner).map(|number| format!("-{number}")),
        _ => None,
    }
}
