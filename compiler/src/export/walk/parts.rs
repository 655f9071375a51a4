//! What the iterations of a loop read part by part: rows of microbatches, chunks of scans.

use indexmap::IndexMap;

use super::super::json::{NodeJson, Operation};
use super::body::Walk;
use super::collectives::place_of;
use super::flow::Key;
use super::loops::Frame;
use super::target::{Rows, Target};
use super::{Result, unsupported};

impl<T: Target> Walk<'_, T> {
    /// The arrays that iterations get rows or chunks of.
    pub(super) fn read_in_parts(
        &mut self,
        number: usize,
        body: &[NodeJson],
        frame: &mut Frame<T::Array>,
        inside: &mut IndexMap<Key, T::Array>,
    ) -> Result<()> {
        for step in self.own_steps(body) {
            let (rows, from, to) = match &step.operation {
                Some(Operation::Part { from, to }) => (Rows::Microbatch, from, Some(to)),
                Some(Operation::Chunk { from, to: Some(to) }) => (Rows::Chunk, from, Some(to)),
                Some(Operation::Chunk { from, to: None }) => (Rows::Element, from, None),
                _ => continue,
            };
            let of = &step.operands[0];
            let all = self.variable(of)?;
            let block = self.flow.loops[number].block;
            let parts = self.target.rows(step, &all, (place_of(of, from), rows), block);
            let names = of.dims.iter().map(|dim| dim.dim.as_str());
            let part = |dim| if dim == *from { to.map(String::as_str) } else { Some(dim) };
            let order = step.result.dims.iter().map(|dim| dim.dim.as_str());
            if !names.filter_map(part).eq(order) {
                return unsupported(&step.value, "a part of a loop with its dimensions reordered");
            }
            let own = self.target.named_part(&parts, &step.value, 1);
            frame.read.push((parts, own.clone()));
            inside.insert(self.flow.key(&step.result), own);
        }
        Ok(())
    }
}
