//! What is reported of blocks: values that are carried and not redefined, empty blocks.

use indexmap::IndexSet;

use super::Carried;
use crate::codes::repeat as codes;
use crate::ids::{RepeatId, ValueId};
use crate::program::{Blocks, MapForm, Value};
use crate::resolve::Resolver;
use crate::{Diag, Severity};

impl Resolver<'_> {
    /// Reports a value that the block carries and does not redefine, unless a statement that could
    /// not be understood does.
    pub(super) fn never_redefined(&mut self, name: &str, carried: &Carried) {
        if carried.is_faulty || self.poisoned.contains(name) {
            return;
        }
        let message = format!("the block carries `{name}`, and never redefines it");
        let diag = Diag::error(codes::CARRY, message, carried.span, "carried here");
        let step = self.iteration();
        self.error(diag.help(format!("write what the next {step} starts from: `{name} = …`")));
    }

    /// What differs between a value at the start of a layer and at its end, by the author's name.
    pub(in crate::resolve) fn carried_differently(&self, before: &Value, after: &Value) -> String {
        let form = |value: &Value| {
            let dims: Vec<&str> =
                value.dims.iter().map(|&dim| self.dims[dim].name.as_str()).collect();
            format!("{}[{}]", value.dtype.name(), dims.join(", "))
        };
        let (name, step) = (before.name.trim_end_matches(".in"), self.iteration());
        format!("`{name}` starts a {step} as {}, and ends it as {}", form(before), form(after))
    }

    /// Reports an empty block: it could not be printed.
    pub(in crate::resolve) fn is_empty(&mut self, id: RepeatId) {
        if self.poisoned.is_empty()
            && self.ops.iter().all(|op| !self.repeats.path(op.repeat).contains(&id))
            && !self.diags.iter().any(|diag| diag.severity == Severity::Error)
        {
            let diag = Diag::error(
                codes::NO_BLOCK,
                "the block does nothing",
                self.repeats[id].span,
                "no statement in it",
            );
            self.error(diag.help("leave it out"));
        }
    }

    /// Reports values that enter the block's layers and are not yielded.
    pub(super) fn unfinished(&mut self, yielded: &IndexSet<ValueId>) {
        let entries = self
            .ops
            .iter()
            .filter(|op| op.repeat == self.inside() && op.is(&MapForm::LoopCarried))
            .map(|op| op.result);
        for enters in entries.filter(|enters| !yielded.contains(enters)).collect::<Vec<_>>() {
            let (value, step) = (&self.values[enters], self.iteration());
            let diag = Diag::error(
                codes::CARRY,
                format!("no {step} yields `{}`", value.name),
                value.span,
                "carried here",
            );
            let help = format!("write what the next {step} starts from: `next {} = …`", value.name);
            self.error(diag.help(help));
        }
    }
}
