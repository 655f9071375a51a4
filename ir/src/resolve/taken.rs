//! Names that are taken: words of the language, and names of other values.
//!
//! A value has one name in a file, also in blocks. A block that defines names of an earlier block
//! again, as the decoder does that is written like the encoder, is reported once with all of them;
//! they mean its own values from there on.

use indexmap::IndexMap;
use shardwise_grammar::span::{Name, Span};

use super::{Resolver, vocabulary};
use crate::Diag;
use crate::codes::names;
use crate::ids::{RepeatId, ValueId};
use crate::program::Blocks;

/// Names that are defined again after the block that defines them, by the block that does so: each
/// with its first definition.
pub(super) type DefinedAgain = IndexMap<Option<RepeatId>, Vec<(Name, Span)>>;

impl Resolver<'_> {
    /// Whether `name` is free; reports it if not.
    pub(super) fn is_free(&mut self, name: &Name) -> bool {
        if let Some(what) =
            vocabulary::reserved(&name.node).filter(|_| !self.poisoned.contains(&name.node))
        {
            let message = format!("`{}` is {what}, and cannot name a value", name.node);
            self.error(
                Diag::error(names::RESERVED, message, name.span, "this name")
                    .help("give it another name"),
            );
            self.poisoned.insert(name.node.clone());
        }
        if let Some(&first) = self.value_names.get(&name.node) {
            let (here, of) = (self.inside(), self.values[first].repeat);
            if self.repeats.in_scope(here, of) {
                self.defined_twice(name, first);
                return false;
            }
            let again = self.defined_again.entry(here).or_default();
            again.push((name.clone(), self.values[first].span));
            self.value_names.shift_remove(&name.node);
        }
        !self.poisoned.contains(&name.node)
    }

    fn defined_twice(&mut self, name: &Name, first: ValueId) {
        let message = format!("`{}` is defined twice", name.node);
        let diag = Diag::error(names::DUPLICATE, message, name.span, "defined again")
            .and(self.values[first].span, "first defined here");
        let is_from_outside =
            self.block_of_layers().is_some_and(|block| self.values[first].repeat != Some(block));
        self.error(diag.help(if is_from_outside {
            format!(
                "to hand `{0}` from layer to layer, write `carry {0}` as the first line of the \
                    block",
                name.node
            )
        } else {
            format!(
                "give it another name, such as `{0}2`; only a collective on `{0}` itself may \
                    define it again",
                name.node
            )
        }));
    }

    /// Reports the names that blocks have defined before.
    pub(super) fn report_defined_again(&mut self) {
        for again in std::mem::take(&mut self.defined_again).into_values() {
            let Some((name, first)) = again.first() else { continue };
            let free = again.iter().map(|(name, _)| {
                let numbered = (2_usize..).map(|number| format!("{}{number}", name.node));
                self.fresh(numbered, &name.node)
            });
            let free = quoted(free);
            let taken = quoted(again.iter().map(|(name, _)| name.node.clone()));
            let (are, such) = if again.len() == 1 { ("is", "a name") } else { ("are", "names") };
            let message = format!("{taken} {are} defined twice");
            let diag = Diag::error(names::DUPLICATE, message, name.span, "defined again")
                .and(*first, "first defined here, in a block");
            self.error(diag.help(format!(
                "a file has each name once, also in blocks: here, choose {such} such as {free}"
            )));
        }
    }
}

/// `` `a`, `b` and `c` ``.
fn quoted(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}
