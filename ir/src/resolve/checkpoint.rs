//! `checkpoint h, q`, `checkpoint keep products`, `checkpoint only attention`: what a block keeps
//! for its gradients; `checkpoint offload h`: what of it waits in the host's memory. A name is that
//! of a value, or after `keep`, `only` and `offload` of a kind of values; a value of the same name
//! comes first.

use shardwise_grammar::ast::Role;
use shardwise_grammar::span::{Name, Span};
use strum::VariantArray;

use super::{MOST_SEARCHES, Resolver};
use crate::Diag;
use crate::blocks::{Checkpoint, NamedValues, ValueGroup};
use crate::codes::repeat as codes;
use crate::ids::{RepeatId, ValueId};
use crate::suggest;

impl Resolver<'_> {
    pub(super) fn checkpoint(&mut self, how: Option<&Name>, names: &[Name], span: Span) {
        let Some(id) = self.in_block(span, "checkpoint").map(|block| block.id) else { return };
        let named = self.named_values(how, names, span);
        match how.map(|how| how.node.as_str()) {
            Some("offload") => match &mut self.repeats[id].offload {
                Some(before) => before.extend(named),
                none => *none = Some(named),
            },
            how => self.limit_kept(id, Checkpoint { recomputes_named: how == Some("only"), named }),
        }
    }

    fn named_values(&mut self, how: Option<&Name>, names: &[Name], span: Span) -> NamedValues {
        let mut named = NamedValues { values: Vec::new(), groups: Vec::new(), span };
        for name in names {
            match group(&name.node).filter(|_| how.is_some() && self.meaning(name).is_none()) {
                Some(group) => named.groups.push(group),
                None if self.is_unknown(name) => self.names_nothing(how, name),
                None => {
                    let is_offloaded = how.is_some_and(|how| how.node == "offload");
                    let value = self.value(name);
                    named.values.extend(
                        value.filter(|&of| !is_offloaded || self.may_be_offloaded(of, name)),
                    );
                }
            }
        }
        named
    }

    /// Whether a value can leave the device until its gradients: one that is declared is there in
    /// any case, and a copy on the host would be read in its place.
    fn may_be_offloaded(&mut self, value: ValueId, name: &Name) -> bool {
        let of = &self.values[value];
        let Some(role) = of.role else { return true };
        let what = match role {
            Role::Input | Role::Output => "an input",
            Role::Param | Role::FrozenParam => "a parameter",
            Role::State => "state",
        };
        let message = format!("`{}` is {what}, and stays on the device", name.node);
        let diag = Diag::error(codes::CHECKPOINT, message, name.span, "nothing to send")
            .and(of.span, "declared here");
        self.error(diag.help(
            "leave it out: its gradients read it where it is; offload values that the layer \
                computes or carries",
        ));
        false
    }

    /// Whether a name is that of no value, here or further down, and was not reported yet.
    fn is_unknown(&mut self, name: &Name) -> bool {
        let is_defined = self.defined_at.contains_key(name.node.as_str());
        self.meaning(name).is_none() && !is_defined && !self.poisoned.contains(&name.node)
    }

    /// The kind that was probably meant, if no value is as near.
    fn near_kind(&mut self, name: &Name) -> Option<ValueGroup> {
        self.searches += 1;
        let kinds = ValueGroup::VARIANTS.iter().map(|kind| kind.name());
        let values = self.value_names.keys().map(String::as_str);
        let values = values.take(if self.searches <= MOST_SEARCHES { usize::MAX } else { 0 });
        group(suggest::nearest(&name.node, kinds.chain(values))?)
    }

    /// Reports a name that is neither that of a value nor of a kind.
    fn names_nothing(&mut self, how: Option<&Name>, name: &Name) {
        let kinds = ValueGroup::VARIANTS.iter().map(|kind| kind.name());
        let near = self.near_kind(name);
        let kinds: Vec<String> = kinds.map(|kind| format!("`{kind}`")).collect();
        let kinds = kinds.join(", ");
        let word = &name.node;
        let diag = match (how, near) {
            (None, _) if ["keep", "only", "offload"].contains(&word.as_str()) => {
                let message = format!("`checkpoint {word}` names nothing");
                Diag::error(codes::CHECKPOINT, message, name.span, "nothing follows").help(format!(
                    "name values of the block or kinds of them: `checkpoint {word} attention`; \
                    kinds are {kinds}"
                ))
            }
            (None, _) if group(word).is_some() => {
                let message = format!("`{word}` is a kind of values, not a value");
                Diag::error(codes::CHECKPOINT, message, name.span, "a kind").help(format!(
                    "write `checkpoint keep {word}`, or `checkpoint only {word}` to compute these \
                    again"
                ))
            }
            (Some(_), Some(near)) => {
                let message = format!("`{word}` is neither a value nor a kind of values");
                Diag::error(codes::CHECKPOINT, message, name.span, "unknown")
                    .help(format!("did you mean `{}`?", near.name()))
            }
            _ => self.unknown_value_or(
                name,
                format!(
                    "name values of the block, or after `keep`, `only` and `offload` kinds of \
                    them: {kinds}"
                ),
            ),
        };
        self.error(diag);
        self.poisoned.insert(name.node.clone());
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

fn group(name: &str) -> Option<ValueGroup> {
    ValueGroup::VARIANTS.iter().copied().find(|group| group.name() == name)
}
