//! Blocks that run once per microbatch: their opening line, the values that enter (`part`) and
//! leave (`join`; `total` and `last` as for layers).
//!
//! Nothing is carried from microbatch to microbatch: their results are concatenated or summed, in
//! any order. So their number affects memory and not the result.

use crate::codes::{names, repeat as codes};
use shardwise_grammar::ast::{self, Call, ExprKind};
use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use super::define::{Operation, Target};
use crate::Diag;
use crate::ids::ValueId;
use crate::program::{BatchSplit, BlockKind, Blocks, OpKind, Repeat};
use crate::rearrange::Rearrange;

impl Resolver<'_> {
    /// Opens a block of microbatches.
    pub(super) fn open_microbatches(&mut self, of: &ast::Microbatches, span: Span) {
        let around = self
            .blocks
            .last()
            .map(|block| block.span)
            .or(self.microbatches.map(|outer| self.repeats[outer].span));
        if let Some(outer) = around {
            let diag =
                Diag::error(codes::NESTED, "microbatches inside a block", span, "opened here")
                    .and(outer, "in this one");
            self.error(diag.help("open `microbatches` outside; a `repeat` may stand inside"));
            return self.not_opened();
        }
        self.take_ends();
        let cut = self.cut(of);
        let (count, cut) = cut.map_or((1, None), |(count, cut)| (count, Some(cut)));
        let name = of.whole.node.clone();
        let id = self.repeats.push(Repeat {
            name,
            count,
            reversed: None,
            checkpoint: None,
            offload: None,
            kept_gathered: Vec::new(),
            within: None,
            kind: BlockKind::Layers,
            microbatches_of: cut,
            scan: None,
            pipeline: None,
            span,
        });
        self.microbatches = Some(id);
    }

    /// The number of microbatches, and the dimension that they split.
    fn cut(&mut self, of: &ast::Microbatches) -> Option<(u64, BatchSplit)> {
        let (whole, part) = (self.dim(&of.whole), self.dim(&of.part));
        let count = self.size(&of.count);
        let (whole, part, count) = (whole?, part?, count?);
        let (batch, rows) = (&self.dims[whole], &self.dims[part]);
        let fault = if rows.size.checked_mul(count) != Some(batch.size) {
            Some(format!(
                "`{}` = {}, but {count} microbatches of `{}` = {} are another number",
                batch.name, batch.size, rows.name, rows.size
            ))
        } else if batch.pad || rows.pad {
            Some(format!(
                "`{}` is padded, and cannot be cut into microbatches",
                if batch.pad { &batch.name } else { &rows.name }
            ))
        } else {
            None
        };
        let Some(message) = fault else {
            return Some((count, BatchSplit { batch: whole, microbatch: part }));
        };
        let size = batch.size / count.max(1);
        let diag = Diag::error(names::BAD_SIZE, message, of.count.span, "so many")
            .and(batch.span, "of this");
        self.error(diag.help(format!(
            "declare `{}={size}`, with a number of microbatches that divides `{}`",
            of.part.node, of.whole.node
        )));
        None
    }

    /// Closes the microbatches, after exporting the values that blocks in them carried.
    pub(super) fn close_microbatches(&mut self) {
        self.take_ends();
        let Some(id) = self.microbatches.take() else { return };
        self.is_empty(id);
    }

    /// Whether there is one of a value for each microbatch.
    pub(super) fn is_of_microbatches(&self, value: ValueId) -> bool {
        !self.values[value].is_declared()
            && self.repeats.microbatches(self.values[value].repeat).is_some()
    }

    /// Reports a value of microbatches that is named outside them.
    pub(super) fn of_a_microbatch(&mut self, value: ValueId, name: &Name) {
        let message = format!("each microbatch has its own `{}`", name.node);
        let diag = Diag::error(codes::OF_A_MICROBATCH, message, name.span, "of which microbatch?");
        let diag = diag.and(self.values[value].span, "given for each microbatch");
        self.error(diag.help(format!(
            "write `join({0})` after the block for the rows of all, `total({0})` for the sum of \
                all, `last({0})` for that of the last",
            name.node
        )));
    }

    /// `part(x)`: the rows of the current microbatch.
    pub(super) fn part(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let cut = self.microbatches.and_then(|id| self.repeats[id].microbatches_of);
        let (Some(BatchSplit { batch, microbatch }), [argument], None) =
            (cut, &call.arguments[..], &call.subscript)
        else {
            return self
                .bad_call("`part` takes one value with the batch, inside `microbatches`", span);
        };
        let operand = self.operand(argument, target)?;
        if self.is_of_microbatches(operand.value)
            || !self.values[operand.value].dims.contains(&batch)
        {
            return self.bad_call(
                &format!(
                    "`part` takes a value with `{}` from before the microbatches",
                    self.dims[batch].name
                ),
                span,
            );
        }
        Some(self.plain(
            OpKind::Rearrange(Rearrange::Part { from: batch, to: microbatch, first: 0 }),
            vec![operand],
        ))
    }

    /// `join(y)`: the rows of all microbatches.
    pub(super) fn join(&mut self, call: &Call, span: Span) -> Option<Operation> {
        let ([argument], None) = (&call.arguments[..], &call.subscript) else {
            return self.bad_call("`join` takes one value of a microbatch", span);
        };
        let ExprKind::Tensor { name, layout } = &argument.node else {
            return self.bad_call("`join` takes a value by its name", span);
        };
        let value = self.anywhere(name)?;
        let left = self.repeats.exited_block(self.inside(), self.values[value].repeat);
        let Some(BatchSplit { batch, microbatch }) =
            left.and_then(|block| self.repeats[block].microbatches_of)
        else {
            return self.bad_call(
                &format!("`join({})` is for values of microbatches, after them", name.node),
                span,
            );
        };
        if !self.values[value].dims.contains(&microbatch) {
            return self.bad_call(
                &format!(
                    "`{}` has no `{}` to join; `total` adds up",
                    name.node, self.dims[microbatch].name
                ),
                span,
            );
        }
        let operand = self.placed(value, name, layout.as_ref(), argument.span)?;
        Some(self.plain(
            OpKind::Rearrange(Rearrange::Join { from: microbatch, to: batch }),
            vec![operand],
        ))
    }
}
