//! `checkpoint h, q`, `checkpoint keep products`, `checkpoint only attention`: what a block keeps
//! for its gradients. A name is that of a value, or after `keep` and `only` of a kind of values; a
//! value of the same name comes first.

use shardwise_grammar::span::{Name, Span};
use strum::VariantArray;

use super::Resolver;
use crate::Diag;
use crate::blocks::{Checkpoint, ValueGroup};
use crate::codes::repeat as codes;

impl Resolver<'_> {
    pub(super) fn checkpoint(&mut self, how: Option<&Name>, names: &[Name], span: Span) {
        let Some(id) = self.in_block(span, "checkpoint").map(|block| block.id) else { return };
        let recomputes_named = how.is_some_and(|how| how.node == "only");
        let mut checkpoint =
            Checkpoint { recomputes_named, values: Vec::new(), groups: Vec::new(), span };
        for name in names {
            match group(name).filter(|_| how.is_some() && self.meaning(name).is_none()) {
                Some(group) => checkpoint.groups.push(group),
                None => checkpoint.values.extend(self.value(name)),
            }
        }
        match &mut self.repeats[id].checkpoint {
            Some(before) if before.recomputes_named == recomputes_named => {
                before.values.extend(checkpoint.values);
                before.groups.extend(checkpoint.groups);
            }
            Some(before) => {
                let message = "one `checkpoint` says what is kept, another what is not";
                let diag = Diag::error(codes::CHECKPOINT, message, span, "the other way round")
                    .and(before.span, "before");
                self.error(diag.help("name either what is kept or what is computed again"));
            }
            none => *none = Some(checkpoint),
        }
    }
}

fn group(name: &Name) -> Option<ValueGroup> {
    ValueGroup::VARIANTS.iter().copied().find(|group| group.name() == name.node)
}
