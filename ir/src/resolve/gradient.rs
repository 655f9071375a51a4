//! `backward`: what is differentiated, and the gradients that the program names before a pass
//! derives them.
//!
//! The value of a gradient is created when its name is first used, so a program that does not use
//! `dTmp` has no such value.

use crate::codes::{gradient, names, repeat};
use shardwise_grammar::ast;
use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use crate::Diag;
use crate::dtype::DType;
use crate::ids::{OpId, ValueId};
use crate::program::{Backward, Keeps, Mode, Phase, Value};

impl Resolver<'_> {
    pub(super) fn differentiate(&mut self, directive: &ast::Backward, span: Span) {
        for option in &directive.repeated {
            let name = option.node.split('=').next().unwrap_or_default();
            let message = format!("`{name}` is given twice");
            let diag = Diag::error(names::DUPLICATE, message, option.span, "given again");
            self.error(diag.help("keep one of them"));
        }
        if self.checked(directive, span).is_none() {
            self.without_gradients = self.backward.is_none();
        }
    }

    fn checked(&mut self, directive: &ast::Backward, span: Span) -> Option<()> {
        if self.mode == Mode::Explicit {
            self.error(in_an_explicit_program(span));
            return None;
        }
        if let Some(first) = &self.backward {
            let diag = Diag::error(gradient::TWICE, "gradients are asked for twice", span, "again")
                .and(first.span, "first here");
            self.error(
                diag.help("differentiate one value: the sum of what is to be differentiated"),
            );
            return None;
        }
        if let Some(block) = self.blocks.last().map(|block| block.span) {
            self.error(inside_a_block(block, span));
            return None;
        }
        if let Some((_, phase)) = self.phase {
            self.error(two_backward_parts(phase, span));
            return None;
        }
        let from = self.value(&directive.from)?;
        let given = match &directive.given {
            Some(name) => Some(self.given(name, from)?),
            None => None,
        };
        if let Some(cut) = self.repeats.iter().find(|repeat| repeat.microbatches_of.is_some()) {
            let diag = Diag::error(
                gradient::CUT_BEFORE,
                "gradients are asked for after microbatches",
                span,
                "here",
            )
            .and(cut.span, "cut here");
            self.error(diag.help(
                "write the step for the whole batch, and `backward from Loss, microbatches=8`",
            ));
            return None;
        }
        let microbatches = match &directive.microbatches {
            Some(count) => {
                let of = directive.of.as_ref().map(|name| self.dim(name));
                let count = self.size(count)?;
                Some((count, if let Some(dim) = of { Some(dim?) } else { None }))
            }
            None => None,
        };
        let gradients = self.gradient_dtype(directive.gradients.as_ref())?;
        self.keep(directive.keeps);
        self.backward = Some(Backward {
            from,
            given,
            at: OpId::new(self.ops.len()),
            named: Vec::new(),
            microbatches,
            gradients,
            span,
        });
        Some(())
    }

    /// The dtype of gradients of parameters, if the program writes one: it has fractions.
    #[expect(clippy::option_option, reason = "absent, present and wrong are three things")]
    fn gradient_dtype(&mut self, written: Option<&Name>) -> Option<Option<DType>> {
        let dtype = self.dtype(written)?;
        let Some((dtype, name)) = dtype.filter(|dtype| !dtype.is_float()).zip(written) else {
            return Some(dtype);
        };
        let message = format!("gradients have fractions, which {} has not", dtype.name());
        let diag = Diag::error(names::UNKNOWN_DTYPE, message, name.span, "this dtype");
        self.error(diag.help("write `gradients=f32` or `gradients=bf16`"));
        None
    }

    /// The gradient that the program starts from, with the shape of the value that it
    /// differentiates.
    fn given(&mut self, name: &Name, from: ValueId) -> Option<ValueId> {
        let given = self.value(name)?;
        if self.values[given].dims == self.values[from].dims {
            return Some(given);
        }
        let list = |value: ValueId| {
            self.values[value]
                .dims
                .iter()
                .map(|&dim| self.dims[dim].name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let (of, gradient) = (&self.values[from], &self.values[given]);
        let message = format!(
            "`{}` is [{}], but its gradient `{}` is [{}]",
            of.name,
            list(from),
            gradient.name,
            list(given)
        );
        let diag = Diag::error(names::DIMS_DIFFER, message, name.span, "other dimensions")
            .and(gradient.span, "defined here");
        let help = format!("declare `{}[{}]` with its subscripts", gradient.name, list(from));
        self.error(diag.help(help));
        None
    }

    /// What the step keeps, where it is written.
    fn keep(&mut self, keeps: Keeps) {
        self.gradients_until = keeps.until.or(self.gradients_until);
        self.gathered_weights = keeps.weights.or(self.gathered_weights);
    }

    /// `phase backward`: what follows belongs to that part, until another such line. Where
    /// gradients are derived, the part that follows `backward from` is the backward one.
    pub(super) fn begin_phase(&mut self, phase: Phase, keeps: Keeps, span: Span) {
        self.phase = Some((phase, span));
        self.keep(keeps);
        if let Some(derived) = &self.backward {
            self.error(two_backward_parts(span, derived.span));
        }
    }

    /// The part of the step whose operations are being resolved.
    pub(super) fn phase(&self) -> Phase {
        if self.backward.is_some() {
            return Phase::Backward;
        }
        self.phase.map_or_else(Phase::default, |(phase, _)| phase)
    }

    /// The gradient called `name`, if it is that of a value that was there when gradients were
    /// asked for.
    pub(super) fn gradient(&mut self, name: &Name) -> Option<ValueId> {
        let at = self.backward.as_ref()?.at;
        let of = *self.value_names.get(name.node.strip_prefix('d')?)?;
        let mut before = self.ops.iter().take(at.index());
        let there = self.values[of].is_declared() || before.any(|op| op.result == of);
        if !there
            || self.poisoned.contains(&name.node)
            || self.defined_at.contains_key(name.node.as_str())
        {
            return None;
        }
        let dims = self.values[of].dims.clone();
        let dtype = self.backward.as_ref()?.dtype_of(&self.values[of]);
        let (name, span) = (name.node.clone(), name.span);
        let value = Value { repeat: self.inside(), ..Value::result(name, dims, dtype, span) };
        let gradient = self.add_value(value, Vec::new());
        self.backward.as_mut()?.named.push((of, gradient));
        Some(gradient)
    }
}

fn in_an_explicit_program(span: Span) -> Diag {
    let message = "an explicit program derives no gradients";
    Diag::error(gradient::EXPLICIT, message, span, "would add statements")
        .help("write the gradient statements out, or leave `plan` out")
}

fn inside_a_block(block: Span, span: Span) -> Diag {
    let message = "gradients are asked for inside a block";
    Diag::error(repeat::NESTED, message, span, "not here")
        .and(block, "the block")
        .help("write `backward` after the `}` that closes the block")
}

/// A program with a `phase` line at `phase`, and gradients derived at `derived`.
fn two_backward_parts(phase: Span, derived: Span) -> Diag {
    let message = "what `backward from` derives is the backward part: no `phase` line begins one";
    let diag = Diag::error(gradient::TWICE, message, phase, "begins a part");
    diag.and(derived, "derived here").help("leave the `phase` line out")
}
