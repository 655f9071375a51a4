//! The meaning of names inside a block that carries them, and after it.

use indexmap::IndexSet;
use shardwise_grammar::ast::{Call, ExprKind, TensorDecl};
use shardwise_grammar::span::{Name, Span};

use super::super::Resolver;
use super::super::define::{Operation, Target};
use super::{Block, End};
use crate::codes::repeat as codes;
use crate::ids::{RepeatId, ValueId};
use crate::program::{BlockKind, Blocks, MapForm, Mode, Operand, Program, Repeat};
use crate::renumber;
use crate::{Diag, Role};

/// Removes exports that were made for names which nothing reads.
pub(in crate::resolve) fn drop_unread(program: &mut Program, exported: &IndexSet<ValueId>) {
    let mut gone = Vec::new();
    for &value in exported.iter().rev() {
        let reads = |of: &ValueId| *of == value;
        let is_read = program.ops.iter().any(|op| op.operands.iter().any(|of| reads(&of.value)))
            || program.outputs.iter().any(|output| reads(&output.value))
            || program.backward.as_ref().is_some_and(|of| reads(&of.from));
        let place = program.ops.position(|op| op.result == value);
        let Some(place) = place.filter(|_| !is_read) else { continue };
        program.ops.remove(place);
        if let Some(backward) = program.backward.as_mut().filter(|of| of.at > place) {
            backward.at -= 1;
        }
        gone.push(value);
    }
    if !gone.is_empty() {
        renumber::without(program, &gone);
    }
}

impl Resolver<'_> {
    /// `carry x` declares; only where it stands in a block.
    pub(in crate::resolve) fn carries(&mut self, tensors: &[TensorDecl]) {
        if let Some(first) = tensors.first() {
            self.in_block(first.name.span, "carry");
        }
    }

    pub(in crate::resolve) fn in_block(&mut self, span: Span, keyword: &str) -> Option<&Block> {
        // A block that is wrong has been reported.
        if self.blocks.is_empty() && self.wrong_blocks.is_empty() {
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
        if let Some(value) = self.of_same_stage(&name.node) {
            return Some(value);
        }
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

    /// The value of this name that a `stage` or a pipeline around this place defines.
    fn of_same_stage(&self, name: &str) -> Option<ValueId> {
        let value = self.value_names.get(name).copied()?;
        let block = self.values[value].repeat?;
        let is_here = self.repeats.in_scope(self.inside(), Some(block));
        (is_here && self.repeats[block].kind != BlockKind::Layers).then_some(value)
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
        let block = self.values[last].repeat;
        if block.is_some_and(|block| self.repeats[block].kind != BlockKind::Layers) {
            self.exported_by_name.insert(end);
        }
        self.ends.last_mut()?.insert(name.to_owned(), End::Taken(end));
        Some(end)
    }

    /// What the names of a `stage` or of a pipeline mean after it: all that it defines.
    pub(super) fn names_after(&mut self, id: RepeatId) -> Vec<(String, ValueId)> {
        let Repeat { kind, reversed, .. } = self.repeats[id];
        if kind == BlockKind::Layers || reversed.is_some() || self.mode == Mode::Explicit {
            return Vec::new();
        }
        self.take_ends();
        let ends = self.ends.last().into_iter().flatten().filter_map(|(name, end)| match end {
            End::Taken(value) => Some((name.clone(), *value)),
            End::Pending(_) => None,
        });
        let ends: Vec<(String, ValueId)> = ends.collect();
        self.exported_by_name.extend(ends.iter().map(|(_, value)| *value));
        let is_own = |value: &ValueId| {
            let of = &self.values[*value];
            of.repeat == Some(id) && !of.is_declared()
        };
        let named = self
            .value_names
            .iter()
            .filter(|(name, value)| is_own(value) && self.defined_at.contains_key(name.as_str()));
        named.map(|(name, value)| (name.clone(), *value)).chain(ends).collect()
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
        let here = self.inside();
        let inside =
            self.value_names.get(&name.node).copied().filter(|&value| {
                self.repeats.exited_block(here, self.values[value].repeat).is_some()
            });
        let value = inside.or_else(|| self.anywhere(name))?;
        if self.repeats.exited_block(self.inside(), self.values[value].repeat).is_none() {
            let message = format!("`{function}({})` is for values of a block, after it", name.node);
            let help = format!(
                "name a value that the block defines; `{0}` is that of its last layer, if it is \
                 carried: write `{0}` alone",
                name.node
            );
            return self.bad_call_with(&message, span, &help);
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
            let is_param = self.values[value].role == Some(Role::Param);
            let is_of_stage = of.is_some_and(|block| self.repeats[block].kind == BlockKind::Stage);
            let (message, label) = if is_param && is_of_stage {
                (
                    format!("`{}` is a parameter of one stage", name.node),
                    "in another one".to_owned(),
                )
            } else {
                (format!("each {layer} has its own `{}`", name.node), format!("of which {layer}?"))
            };
            let diag = Diag::error(codes::OF_A_LAYER, message, name.span, label);
            let diag = diag.and(self.values[value].span, "given inside a block");
            let help = if is_param {
                "declare `{0}` before the block, or before the `pipeline` that it is in, to \
                    share it"
            } else if is_stacked {
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
