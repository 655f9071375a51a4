//! The meaning of names inside a block that carries them, and after it.

use shardwise_grammar::ast::{Call, ExprKind, TensorDecl};
use shardwise_grammar::span::{Name, Span};

use super::super::Resolver;
use super::super::define::{Operation, Target};
use super::{Block, End};
use crate::Diag;
use crate::codes::repeat as codes;
use crate::ids::{RepeatId, ValueId};
use crate::program::{Blocks, MapForm, Operand};

impl Resolver<'_> {
    /// `carry x` declares; only where it stands in a block.
    pub(in crate::resolve) fn carries(&mut self, tensors: &[TensorDecl]) {
        if let Some(first) = tensors.first() {
            self.in_block(first.name.span, "carry");
        }
    }

    pub(in crate::resolve) fn in_block(&mut self, span: Span, keyword: &str) -> Option<&Block> {
        if self.blocks.is_empty() {
            let diag = Diag::error(
                codes::NO_BLOCK,
                format!("`{keyword}` stands outside a `repeat`"),
                span,
                "of which layers?",
            );
            self.error(diag.help("write it inside the block: `repeat L=4 {`"));
        }
        self.blocks.last()
    }

    /// The value of a name here: of the innermost block that carries it, or the last one that did.
    pub(in crate::resolve) fn meaning(&mut self, name: &Name) -> Option<ValueId> {
        for depth in (0..self.ends.len()).rev() {
            match self.ends[depth].get(&name.node) {
                Some(End::Taken(value)) => return Some(*value),
                Some(&End::Pending(last)) => return self.take_end(&name.node, last, name.span),
                None => {}
            }
            let block = depth.checked_sub(1).map(|block| &self.blocks[block]);
            if let Some(carried) = block.and_then(|block| block.carried.get(&name.node)) {
                return Some(carried.latest);
            }
        }
        self.value_names.get(&name.node).copied()
    }

    /// Exports the values that earlier blocks carried, before another block is opened.
    pub(in crate::resolve) fn take_ends(&mut self) {
        let pending = self.ends.last().into_iter().flatten().filter_map(|(name, end)| {
            if let End::Pending(last) = end { Some((name.clone(), *last)) } else { None }
        });
        for (name, last) in pending.collect::<Vec<_>>() {
            let span = self.values[last].span;
            self.take_end(&name, last, span);
        }
    }

    /// `x.end = last(x.2)`.
    fn take_end(&mut self, name: &str, last: ValueId, span: Span) -> Option<ValueId> {
        let fresh = self.fresh([format!("{name}.end")].into_iter(), name);
        let end = self.export_last(fresh, last, span)?;
        self.ends.last_mut()?.insert(name.to_owned(), End::Taken(end));
        Some(end)
    }

    /// `x.3 = last(x.2)`.
    pub(super) fn export_last(
        &mut self,
        fresh: String,
        last: ValueId,
        span: Span,
    ) -> Option<ValueId> {
        let operation = self.map(MapForm::Last, vec![Operand { value: last, pin: None, span }]);
        let target =
            Target { name: Name::new(fresh, span), dtype: None, written: None, wished: None };
        self.finish_operation(operation, target, span)
    }

    /// `last(y)`, `total(y)`: the only uses of a layer's value outside.
    pub(in crate::resolve) fn export_value(
        &mut self,
        call: &Call,
        form: MapForm,
        span: Span,
    ) -> Option<Operation> {
        let function = &call.function.node;
        let ([argument], None) = (&call.arguments[..], &call.subscript) else {
            return self.bad_call(&format!("`{function}` takes one value of a block"), span);
        };
        let ExprKind::Tensor { name, layout } = &argument.node else {
            return self.bad_call(&format!("`{function}` takes a value by its name"), span);
        };
        let value = self.anywhere(name)?;
        if self.repeats.exited_block(self.inside(), self.values[value].repeat).is_none() {
            return self.bad_call(
                &format!("`{function}({})` is for values of a block, after it", name.node),
                span,
            );
        }
        let operand = self.placed(value, name, layout.as_ref(), argument.span)?;
        Some(self.map(form, vec![operand]))
    }

    /// The value called `name`, of whatever block.
    pub(in crate::resolve) fn anywhere(&mut self, name: &Name) -> Option<ValueId> {
        match self.meaning(name) {
            Some(value) => Some(value),
            None => self.value(name),
        }
    }

    /// `value`, if it can be named here.
    pub(in crate::resolve) fn seen(&mut self, value: ValueId, name: &Name) -> Option<ValueId> {
        if self.is_of_microbatches(value) && self.microbatches.is_none() {
            self.of_a_microbatch(value, name);
            return None;
        }
        let (here, of) = (self.inside(), self.values[value].repeat);
        let visible = self.repeats.is_declared_for(here, of);
        if !visible {
            let is_scan = |block: RepeatId| self.repeats[block].scan.is_some();
            let is_stacked = self.repeats.outwards(of).any(is_scan);
            let layer = if is_stacked { "step" } else { "layer" };
            let diag = Diag::error(
                codes::OF_A_LAYER,
                format!("each {layer} has a `{}` of its own", name.node),
                name.span,
                format!("of which {layer}?"),
            );
            let diag = diag.and(self.values[value].span, "given inside a block");
            let help = if is_stacked {
                "write `stack({0})` after the scan for those of all steps, `last({0})` for that of \
                    the last, `total({0})` for the sum of all, or carry it"
            } else {
                "write `last({0})` after the block for that of the last layer, `total({0})` for \
                    the sum of all, or carry it"
            };
            self.error(diag.help(help.replace("{0}", &name.node)));
        }
        visible.then_some(value)
    }
}
