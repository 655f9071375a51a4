//! `hold Win[D, F]`: an unknown name is reported at the statement; a value that no collective
//! produces is reported when the block closes.

use crate::codes::pipeline as codes;
use shardwise_grammar::ast::{Role, TensorDecl};
use shardwise_grammar::span::Span;

use super::Resolver;
use crate::Diag;
use crate::ids::RepeatId;
use crate::plan::Materialization;
use crate::program::{Op, OpKind};
use crate::sharding::Pin;

impl Resolver<'_> {
    /// Records the values that the block keeps for its microbatches.
    pub(super) fn hold(&mut self, tensors: &[TensorDecl], span: Span) {
        let Some(id) = self.in_block(span, "hold").map(|block| block.id) else { return };
        for tensor in tensors {
            let Some(value) = self.value(&tensor.name) else { continue };
            let Some(named) = self.placed(value, &tensor.name, tensor.layout.as_ref(), tensor.span)
            else {
                continue;
            };
            let (of, layers) = (&self.values[value], |block: RepeatId| {
                self.repeats[block].reversed.unwrap_or(block)
            });
            let stays = matches!(of.role, Some(Role::Param | Role::State))
                && of.repeat.is_some_and(|block| layers(block) == layers(id));
            let Some(sharding) = named.pin.as_ref().and_then(Pin::exact).filter(|_| stays) else {
                let name = &tensor.name.node;
                let message = if stays {
                    format!("`hold {name}` has no sharding")
                } else {
                    format!("`{name}` is no parameter or state of these layers")
                };
                let diag = Diag::error(codes::HELD, message, tensor.span, "nothing to hold");
                self.error(diag.help(
                    "name what a collective makes of a layer's parameter, with \
                    all its brackets: `hold Win[D, F]`",
                ));
                continue;
            };
            self.repeats[id].kept_gathered.push(Materialization { value, sharding });
            if let Some(block) = self.blocks.last_mut() {
                block.holds.push(tensor.span);
            }
        }
    }

    /// Closes the block: checks that one of its collectives produces each kept value.
    pub(super) fn held_in_vain(&mut self, id: RepeatId, spans: Vec<Span>) {
        for (held, span) in self.repeats[id].kept_gathered.clone().into_iter().zip(spans) {
            let gives = |op: &Op| {
                let pinned = || op.result_pin.as_ref().and_then(Pin::exact);
                op.repeat == Some(id)
                    && matches!(op.kind, OpKind::Collective(_))
                    && op.result == held.value
                    && pinned() == Some(held.sharding.clone())
            };
            if !self.ops.iter().any(gives) {
                let name = &self.values[held.value].name;
                let diag = Diag::error(
                    codes::HELD,
                    format!("no collective of this block gives `{name}` so"),
                    span,
                    "held in vain",
                );
                self.error(diag.help(
                    "write the collective in the block, too, or leave `hold` out: the \
                        search decides what is worth its memory",
                ));
            }
        }
    }
}
