//! What the iterations of a loop read part by part, and the parts that they leave side by side:
//! rows of microbatches, chunks of scans.

use indexmap::IndexMap;

use super::super::json::{NodeJson, Operation, StepJson};
use super::body::Writer;
use super::expression::number_of;
use super::flow::Key;
use super::loops::Frame;
use super::sizes::count_name;
use super::{Result, unsupported};

impl<'p> Writer<'p> {
    /// The arrays that iterations get rows or chunks of.
    pub(super) fn read_in_parts(
        &mut self,
        number: usize,
        body: &[NodeJson],
        frame: &mut Frame,
        inside: &mut IndexMap<Key, String>,
    ) -> Result<()> {
        for step in self.own_steps(body) {
            let (helper, from, to) = match &step.operation {
                Some(Operation::Part { from, to }) => ("microbatches", from, Some(to)),
                Some(Operation::Chunk { from, to: Some(to) }) => ("chunks", from, Some(to)),
                Some(Operation::Chunk { from, to: None }) => ("", from, None),
                _ => continue,
            };
            let of = &step.operands[0];
            let whole = self.variable(of)?;
            let count = count_name(self.plan, self.flow.loops[number].block);
            let rows = if helper.is_empty() {
                format!("{}.moveaxis({whole}, {}, 0)", self.expressions.np(), number_of(of, from))
            } else {
                self.expressions.helper(helper);
                format!("{helper}({whole}, n.{count}, {})", number_of(of, from))
            };
            let part = |dim: &'p str| {
                if dim == *from { to.map(String::as_str) } else { Some(dim) }
            };
            let dims: Vec<&str> = of.dims.iter().filter_map(|dim| part(&dim.dim)).collect();
            let order: Vec<&str> = step.result.dims.iter().map(|dim| dim.dim.as_str()).collect();
            if dims != order {
                return unsupported(&step.value, "a part of a loop with its dimensions reordered");
            }
            let name = self.names.fresh(&step.value);
            frame.read.push([rows, name.clone()]);
            inside.insert(self.flow.key(&step.result), name);
        }
        Ok(())
    }

    pub(super) fn joined(&mut self, step: &StepJson, from: &str, to: &str) -> Result {
        self.expressions.helper("joined");
        let operand = &step.operands[0];
        let variable = self.variable(operand)?;
        let call = format!("joined({variable}, {})", number_of(operand, from));
        let dims: Vec<&str> = operand
            .dims
            .iter()
            .map(|dim| if dim.dim == from { to } else { dim.dim.as_str() })
            .collect();
        let order: Vec<&str> = step.result.dims.iter().map(|dim| dim.dim.as_str()).collect();
        Ok(self.expressions.aligned(&call, &dims, &order))
    }

    /// The values of all steps, which a loop leaves along a first dimension.
    pub(super) fn stacked(&mut self, step: &StepJson, from: Option<&str>, to: &str) -> Result {
        let operand = &step.operands[0];
        let variable = self.variable(operand)?;
        let dims = operand.dims.iter().map(|dim| dim.dim.as_str());
        let order: Vec<&str> = step.result.dims.iter().map(|dim| dim.dim.as_str()).collect();
        let Some(from) = from else {
            let dims: Vec<&str> = std::iter::once(to).chain(dims).collect();
            return Ok(self.expressions.aligned(&variable, &dims, &order));
        };
        self.expressions.helper("stacked");
        let call = format!("stacked({variable}, {})", number_of(operand, from));
        let dims: Vec<&str> = dims.map(|dim| if dim == from { to } else { dim }).collect();
        Ok(self.expressions.aligned(&call, &dims, &order))
    }
}
