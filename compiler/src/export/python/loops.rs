//! Loops, whose iteration has been written.

use super::super::json::BlockJson;
use super::super::walk;
use super::super::walk::loops::Frame;
use super::super::walk::target::Count;
use super::body::Writer;
use super::names::Names;
use super::sizes::{block_field, count_name};

/// The beginning of a loop.
pub(in crate::export) struct Entry {
    /// The names in use outside.
    pub(super) outside: Names,
    /// The name of one iteration.
    pub(super) name: String,
    /// The name of the sizes of a microbatch.
    pub(super) sizes: String,
    /// The text before.
    pub(super) before: String,
}

/// A loop whose iteration is written.
pub(in crate::export) struct Iterated<'l> {
    /// The name of one iteration.
    pub(in crate::export) name: &'l str,
    pub(in crate::export) body: &'l str,
    pub(in crate::export) frame: &'l Frame<String>,
    pub(in crate::export) count: &'l str,
    pub(in crate::export) reverse: bool,
    pub(in crate::export) indent: usize,
}

impl Writer<'_> {
    pub(super) fn loop_entry(&mut self, block: usize, is_staged: bool) -> Entry {
        let of = &self.plan.blocks[block];
        let word = match of {
            BlockJson { microbatches: true, .. } => "microbatch",
            BlockJson { scan: true, .. } => "step",
            _ if is_staged => "weights",
            _ => "layer",
        };
        let is_function = self.expressions.dialect.has_loop_functions();
        let backward = if of.reverses.is_some() && is_function { "_backward" } else { "" };
        let mut outside = self.names.clone();
        let name = self.names.fresh(&format!("{word}{backward}"));
        if is_function {
            outside = self.names.clone();
        }
        Entry { outside, name, sizes: String::new(), before: String::new() }
    }

    /// Ends an iteration; returns its text.
    pub(super) fn end_body(&mut self, entry: Entry) -> String {
        self.names.leave(entry.outside);
        self.indent -= 4;
        std::mem::replace(&mut self.text, entry.before)
    }

    pub(super) fn iterated(&mut self, entry: Entry, of: &walk::loops::Iterated<'_, String>) {
        let name = entry.name.clone();
        let body = &*self.end_body(entry);
        let (dialect, indent) = (self.expressions.dialect, self.indent);
        let (name, count, frame) = (&*name, &*self.count(of.count), of.frame);
        let reverse = of.reverse;
        dialect.iterated(self, &Iterated { name, body, frame, count, reverse, indent });
    }

    /// A length that depends on a block.
    pub(super) fn count(&mut self, count: Count) -> String {
        match count {
            Count::Trips(block) => format!("n.{}", count_name(self.plan, block)),
            Count::Slots(block) => self.slots(block),
            Count::Microbatches(block) => {
                format!("n.{}", block_field(self.plan, block, "microbatches"))
            }
        }
    }
}

/// The variables after a loop; `_` where nothing reads one.
pub(in crate::export) fn after(frame: &Frame<String>) -> Vec<String> {
    let name = |after: &Option<String>| after.clone().unwrap_or_else(|| "_".to_owned());
    frame.carried.iter().map(|it| name(&it.after)).collect()
}
