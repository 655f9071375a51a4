//! `checkpoint h, q`, `checkpoint keep products`, `checkpoint only attention`: what a block keeps
//! for its gradients; `checkpoint offload h`: what of it waits in the host's memory. A name is that
//! of a value, or after `keep`, `only` and `offload` of a kind of values; a value of the same name
//! comes first.

use shardwise_grammar::span::{Name, Span};
use strum::VariantArray;

use super::Resolver;
use crate::Diag;
use crate::blocks::{Checkpoint, NamedValues, ValueGroup};
use crate::codes::repeat as codes;
use crate::ids::RepeatId;

impl Resolver<'_> {
    pub(super) fn checkpoint(&mut self, how: Option<&Name>, names: &[Name], span: Span) {
        let Some(id) = self.in_block(span, "checkpoint").map(|block| block.id) else { return };
        let named = self.named_values(how.is_some(), names, span);
        match how.map(|how| how.node.as_str()) {
            Some("offload") => match &mut self.repeats[id].offload {
                Some(before) => before.extend(named),
                none => *none = Some(named),
            },
            how => self.limit_kept(id, Checkpoint { recomputes_named: how == Some("only"), named }),
        }
    }

    fn named_values(&mut self, may_be_kinds: bool, names: &[Name], span: Span) -> NamedValues {
        let mut named = NamedValues { values: Vec::new(), groups: Vec::new(), span };
        for name in names {
            match group(name).filter(|_| may_be_kinds && self.meaning(name).is_none()) {
                Some(group) => named.groups.push(group),
                None => named.values.extend(self.value(name)),
            }
        }
        named
    }

    fn limit_kept(&mut self, block: RepeatId, checkpoint: Checkpoint) {
        match &mut self.repeats[block].checkpoint {
            Some(before) if before.recomputes_named == checkpoint.recomputes_named => {
                before.named.extend(checkpoint.named);
            }
            Some(before) => {
                let (span, message) = (
                    checkpoint.named.span,
                    "one `checkpoint` says what is kept, another what is not",
                );
                let diag = Diag::error(codes::CHECKPOINT, message, span, "the other way round")
                    .and(before.named.span, "before");
                self.error(diag.help("name either what is kept or what is computed again"));
            }
            none => *none = Some(checkpoint),
        }
    }
}

fn group(name: &Name) -> Option<ValueGroup> {
    ValueGroup::VARIANTS.iter().copied().find(|group| group.name() == name.node)
}
