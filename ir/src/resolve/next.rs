//! `next W = W.new` and `next x.in = x.2`: what takes the place of a value.
//!
//! In a block, `next` defines the value with which the next layer starts. A step is the outermost
//! block, and the values that it passes on are the resident ones; so one keyword serves both.

use crate::codes::repeat as codes;
use shardwise_grammar::ast::{Definition, ExprKind, Role, TensorDecl};
use shardwise_grammar::span::Span;

use super::Resolver;
use crate::Diag;
use crate::ids::ValueId;
use crate::program::{Blocks, MapForm, Output, Repeat};
use crate::sharding::Pin;

impl Resolver<'_> {
    /// `next x.in = y`.
    pub(super) fn next(&mut self, definition: &Definition, span: Span) {
        let name = &definition.target.name;
        let role = self.value_names.get(&name.node).and_then(|&value| self.values[value].role);
        let updates = matches!(role, Some(Role::Param | Role::State));
        if !updates && self.in_block(name.span, "next").is_none() {
            return;
        }
        let Some(enters) = self.value(name) else { return };
        self.note_yielded(enters);
        let left = self.left_side(enters, &definition.target);
        let ExprKind::Tensor { name: given, layout } = &definition.value.node else {
            let diag = Diag::error(
                codes::CARRY,
                "what is yielded has no name",
                definition.value.span,
                "not a value",
            );
            self.error(diag.help("give it one in a statement of its own"));
            return;
        };
        let right = self.named_operand(given, layout.as_ref(), definition.value.span);
        let Some((left, right)) = left.zip(right) else { return };
        let pins: Vec<Pin> = left.into_iter().chain(right.pin).collect();
        if updates {
            self.update(enters, right.value, &pins, span);
        } else {
            self.yield_value(enters, right.value, &pins, span);
        }
    }

    /// The brackets on the left side, if there are any: those of the value that is replaced.
    fn left_side(&mut self, of: ValueId, written: &TensorDecl) -> Option<Vec<Pin>> {
        let Some(layout) = &written.layout else { return Some(Vec::new()) };
        let (dims, pin) = self.layout(layout)?;
        let fits =
            self.same_dims(of, &dims, layout.span) && self.same_dtype(of, written.dtype.as_ref());
        fits.then(|| vec![pin])
    }

    /// `next W = W.new`, of a parameter or state.
    fn update(&mut self, of: ValueId, given: ValueId, pins: &[Pin], span: Span) {
        let (before, after) = (&self.values[of], &self.values[given]);
        if before.is_frozen {
            let message = format!("`{}` is frozen, and is updated", before.name);
            let diag = Diag::error(codes::CARRY, message, span, "another value in the next step")
                .and(before.span, "declared here");
            self.error(diag.help("leave `frozen` out of its declaration, or keep its value"));
            return;
        }
        let layers = |block: Option<_>| self.repeats.layers_at(block);
        let fault = if layers(before.repeat) != layers(after.repeat)
            || after.repeat != self.inside()
            || self.microbatches.is_some()
        {
            Some(format!("`{}` and `{}` are not of the same layers", before.name, after.name))
        } else if self.outputs.iter().any(|output| output.yields_to == Some(of)) {
            Some(format!("`{}` is updated twice", before.name))
        } else if before.dims != after.dims || before.dtype != after.dtype {
            Some(format!("`{}` and `{}` differ in dimensions or dtype", before.name, after.name))
        } else {
            self.replace(of, given, pins, span).err()
        };
        let Some(message) = fault else { return };
        let diag = Diag::error(codes::CARRY, message, span, "the next step would start from this")
            .and(self.values[of].span, "declared here");
        self.error(diag.help(
            "what takes the place of a value must be like it: the same dimensions in the same \
                order, the same dtype, the same sharding",
        ));
    }

    /// What one iteration of the innermost block is called.
    pub(super) fn iteration(&self) -> &'static str {
        let block = self.inside().map(|block| &self.repeats[block]);
        block.map_or("layer", |block| match block {
            Repeat { scan: Some(_), .. } => "step",
            Repeat { microbatches_of: Some(_), .. } => "microbatch",
            Repeat { .. } => "layer",
        })
    }

    /// Records the value with which the next layer starts.
    pub(super) fn yield_value(
        &mut self,
        enters: ValueId,
        given: ValueId,
        pins: &[Pin],
        span: Span,
    ) {
        self.note_yielded(enters);
        let (before, after) = (&self.values[enters], &self.values[given]);
        let is_entry =
            self.ops.iter().any(|op| op.result == enters && op.is(&MapForm::LoopCarried))
                && before.repeat == self.inside();
        let twice = self.outputs.iter().any(|output| output.yields_to == Some(enters));
        let fault = if !is_entry || after.repeat != self.inside() {
            Some(format!(
                "`{}` is not carried into this block, or `{}` not given by it",
                before.name, after.name
            ))
        } else if twice {
            Some(format!("`{}` is yielded twice", before.name))
        } else if before.dims != after.dims || before.dtype != after.dtype {
            Some(self.carried_differently(before, after))
        } else {
            self.replace(enters, given, pins, span).err()
        };
        let Some(message) = fault else { return };
        let step = self.iteration();
        let label = format!("the next {step} would start from this");
        self.error(Diag::error(codes::CARRY, message, span, label).help(format!(
            "a {step} must yield what it received: the same dimensions in the same order, the same \
                dtype, the same sharding"
        )));
    }

    /// Records that `given` takes the place of `before`, in a sharding that is as `before` is
    /// declared and as both sides of the statement say; the fault if there is none.
    fn replace(
        &mut self,
        before: ValueId,
        given: ValueId,
        written: &[Pin],
        span: Span,
    ) -> Result<(), String> {
        let (of, with) = (&self.values[before], &self.values[given]);
        let mut pins = of.declared_sharding.iter().chain(written).cloned();
        let first = pins.next().unwrap_or_else(|| Pin::open(of.dims.len()));
        let pin = pins.try_fold(first, |pin, other| pin.and(&other)).ok_or_else(|| {
            format!("`{}` takes the place of `{}` in another sharding", with.name, of.name)
        })?;
        if !written.is_empty() {
            self.declare_sharding(before, &pin);
        }
        self.outputs.push(Output { value: given, pin, yields_to: Some(before), span });
        Ok(())
    }

    /// Takes a sharding as if it stood where the value is declared.
    fn declare_sharding(&mut self, of: ValueId, pin: &Pin) {
        self.values[of].declared_sharding = Some(pin.clone());
        if let Some(entry) =
            self.ops.iter_mut().find(|op| op.result == of && op.is(&MapForm::LoopCarried))
        {
            entry.result_pin = Some(pin.clone());
        }
        let exact = pin.exact().filter(|exact| !self.known[of].contains(exact));
        self.known[of].extend(exact);
    }
}
