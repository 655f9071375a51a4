//! `q, k, v = split_{N->A,B,C}(x)`: a slice for each value on the left, one after another.

use shardwise_grammar::ast::{Call, Definition, Expr, ExprKind};
use shardwise_grammar::span::{Name, Spanned};

use super::Resolver;
use super::define::Target;
use crate::Diag;
use crate::codes::names;

const FORM: &str =
    "`split` is written `a, b = split_{N->A,B}(x)`: a dimension, and that of each part";

/// Whether a definition is a split: it has several values on its left, or calls `split`.
pub(super) fn is_split(definition: &Definition) -> bool {
    let calls = |call: &Call| call.function.node == "split";
    !definition.others.is_empty()
        || matches!(&definition.value.node, ExprKind::Call(call) if calls(call))
}

impl Resolver<'_> {
    /// The slices that a split stands for.
    pub(super) fn parts_of_split(&mut self, definition: &Definition) -> Option<Vec<Definition>> {
        let parts = self.slices(definition);
        if parts.is_none() {
            definition.targets().for_each(|target| self.poison(&target.name.node));
        }
        parts
    }

    fn slices(&mut self, definition: &Definition) -> Option<Vec<Definition>> {
        let span = definition.value.span;
        let ExprKind::Call(call) = &definition.value.node else {
            return self.bad_call(FORM, span);
        };
        let words = call.subscript.as_ref().map(|words| words.node.clone()).unwrap_or_default();
        let ([whole, parts @ ..], [argument]) = (&words[..], &call.arguments[..]) else {
            return self.bad_call(FORM, span);
        };
        if call.function.node != "split" || parts.len() != definition.targets().count() {
            return self.bad_call(FORM, span);
        }
        self.may_be_several(span, "write a `slice` for each part")?;
        let starts = self.starts(whole, parts)?;
        let argument = self.named(argument, &definition.target.name)?;
        let slice = |(name, start): (&Name, &u64)| Call {
            function: Name::new("slice".to_owned(), call.function.span),
            subscript: Some(Spanned::new(vec![whole.clone(), name.clone()], span)),
            before_arrow: 1,
            arguments: vec![
                argument.clone(),
                Spanned::new(ExprKind::Number(start.to_string()), span),
            ],
            ..call.clone()
        };
        let values = parts.iter().zip(&starts).map(slice);
        let definitions = definition.targets().zip(values).map(|(target, value)| Definition {
            target: target.clone(),
            others: Vec::new(),
            value: Spanned::new(ExprKind::Call(value), span),
            ..definition.clone()
        });
        Some(definitions.collect())
    }

    /// Where each part begins; together they are as long as the whole.
    fn starts(&mut self, whole: &Name, parts: &[Name]) -> Option<Vec<u64>> {
        let (mut starts, mut end) = (Vec::new(), 0_u64);
        for part in parts {
            let dim = self.dim(part)?;
            starts.push(end);
            end = end.saturating_add(self.dims[dim].size);
        }
        let dim = self.dim(whole)?;
        let size = self.dims[dim].size;
        if end == size {
            return Some(starts);
        }
        let message = format!("the parts are {end} long together, and `{}` = {size}", whole.node);
        let diag = Diag::error(names::BAD_SIZE, message, whole.span, "split here");
        self.error(diag.help("give the parts other sizes, or `slice` those that you need"));
        None
    }

    /// The split value by its name, after giving one to an expression.
    fn named(&mut self, argument: &Expr, base: &Name) -> Option<Expr> {
        if matches!(argument.node, ExprKind::Tensor { .. }) {
            return Some(argument.clone());
        }
        let target = Target { name: base.clone(), dtype: None, written: None, wished: None };
        let operand = self.operand(argument, Some(&target))?;
        let name = Name::new(self.values[operand.value].name.clone(), argument.span);
        Some(Spanned::new(ExprKind::Tensor { name, layout: None }, argument.span))
    }
}
