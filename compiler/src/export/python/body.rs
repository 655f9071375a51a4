//! Functions: the steps of a plan as assignments.

use indexmap::IndexSet;

use super::super::json::{Operation, PlanJson, StagesJson, StepJson, TensorJson, ValueJson};
use super::super::walk::Result;
use super::super::walk::body::Walk;
use super::super::walk::collectives::place_of;
use super::super::walk::loops::Iterated;
use super::super::walk::stages::Staged;
use super::super::walk::target::{Count, Microbatches, Rows, Taken, Target};
use super::dialect::{Dialect, View, Written};
use super::expression::Expressions;
use super::layout::{self, tuple};
use super::loops::Entry;
use super::names::{Names, identifier};
use super::sizes::{SizeFields, count_name};

/// Writes one function.
pub(in crate::export) struct Writer<'p> {
    pub(super) plan: &'p PlanJson,
    pub(super) expressions: Expressions<'p>,
    pub(in crate::export) names: Names,
    pub(in crate::export) text: String,
    /// The indentation of the next line.
    pub(super) indent: usize,
}

/// The body of a function, which takes arrays by name in `given`, and returns its outputs by name.
pub(super) fn function<'p>(
    plan: &'p PlanJson,
    view: View,
    (fields, dialect): (&'p SizeFields, &'p dyn Dialect),
) -> Result<(String, Expressions<'p>)> {
    let writer = Writer {
        plan,
        expressions: Expressions::new(plan, view, fields, dialect),
        names: Names::reserving(dialect.helpers().iter().map(|(name, _)| *name)),
        text: String::new(),
        indent: 4,
    };
    let (mut writer, outputs) = Walk::new(plan, view == View::Unsharded, writer).run()?;
    let mut outputs: Vec<String> =
        outputs.iter().map(|(of, array)| writer.output(of, array)).collect();
    outputs.dedup();
    writer.line(4, &format!("return {{{}}}", outputs.join(", ")));
    Ok((writer.text, writer.expressions))
}

impl Writer<'_> {
    pub(in crate::export) fn line(&mut self, indent: usize, text: &str) {
        self.text += &layout::line(indent, text);
    }

    /// Whether an argument or output has a dimension for each pending axis.
    fn has_parts(&self, of: &TensorJson) -> bool {
        let is_pending = self.expressions.view == View::Blocks && !of.unreduced.is_empty();
        is_pending && self.expressions.dialect.has_pending_dims()
    }

    fn output(&self, of: &TensorJson, array: &str) -> String {
        let parts = if self.has_parts(of) {
            format!("[{}]", vec!["None"; of.unreduced.len()].join(", "))
        } else {
            String::new()
        };
        format!("{:?}: {array}{parts}", of.value)
    }

    fn commented(&mut self, text: &str, comment: &str) {
        let (indent, line) = (self.indent, format!("{text}  # {comment}"));
        if comment.is_empty() || self.expressions.view == View::Unsharded {
            self.line(indent, text);
        } else if line.chars().count() + indent <= layout::WIDTH {
            self.text += &format!("{}{line}\n", " ".repeat(indent));
        } else {
            self.text += &format!("{}# {comment}\n", " ".repeat(indent));
            self.line(indent, text);
        }
    }
}

impl Target for Writer<'_> {
    type Array = String;
    type Entry = Entry;

    fn declared(&mut self, value: &ValueJson, given: &TensorJson) -> String {
        let name = self.names.fresh(&value.value);
        let parts = if self.has_parts(given) {
            format!("[{}]", vec!["0"; given.unreduced.len()].join(", "))
        } else {
            String::new()
        };
        let comment = described(given);
        self.commented(&format!("{name} = given[{:?}]{parts}", value.value), &comment);
        name
    }

    fn of_layers(&self, value: &str) -> String {
        format!("given[{value:?}]")
    }

    fn local(&mut self, step: &StepJson, of: &[String]) -> Result {
        let text = self.expressions.local(step, of)?;
        Ok(self.annotated(Some(step), of, (&step.result, 0), text))
    }

    fn collective(&mut self, step: &StepJson, operation: &Operation, of: &String) -> Result {
        if self.expressions.view != View::Blocks {
            let operand = std::slice::from_ref(of);
            return Ok(self.annotated(Some(step), operand, (&step.result, 0), of.clone()));
        }
        let expressions = &mut self.expressions;
        let dialect = expressions.dialect;
        let of = expressions.padded_before(step, of);
        let moved = dialect.collective(expressions, step, operation, &of)?;
        Ok(expressions.cut_after(step, &moved))
    }

    fn joined(&mut self, step: &StepJson, of: &String, from: &str, to: &str) -> String {
        self.expressions.helper("joined");
        let operand = &step.operands[0];
        let call = format!("joined({of}, {})", place_of(operand, from));
        let text = self.renamed(step, &call, (from, to));
        self.annotated(Some(step), std::slice::from_ref(of), (&step.result, 0), text)
    }

    fn stacked(&mut self, step: &StepJson, of: &String, from: Option<&str>, to: &str) -> String {
        let text = self.side_by_side(step, of, (from, to));
        self.annotated(Some(step), std::slice::from_ref(of), (&step.result, 0), text)
    }

    fn assigned(
        &mut self,
        step: &StepJson,
        made: String,
        old: Option<String>,
        is_first: bool,
    ) -> String {
        let is_left = matches!(step.operation, Some(Operation::Last | Operation::Total));
        let variables = [made.clone()];
        let made = if is_left {
            self.annotated(Some(step), &variables, (&step.result, 0), made)
        } else {
            made
        };
        let name = old.unwrap_or_else(|| {
            let suffix = match step.operation {
                _ if is_first => "",
                Some(Operation::AllGather { .. }) => "_gathered",
                Some(Operation::ReduceScatter { .. }) => "_scattered",
                Some(Operation::AllReduce { .. }) => "_reduced",
                Some(Operation::AllToAll { .. } | Operation::Permute { .. }) => "_moved",
                Some(Operation::Slice { .. }) => "_part",
                _ => "",
            };
            self.names.fresh(&(step.value.clone() + suffix))
        });
        self.commented(&format!("{name} = {made}"), &described(&step.result));
        name
    }

    fn zeros(&mut self, first: &[Count], of: &TensorJson) -> Result {
        let mut shape: Vec<String> = first.iter().map(|&count| self.count(count)).collect();
        shape.extend(self.expressions.shape(of));
        let dtype = self.expressions.dtype_of(&of.value).to_owned();
        let dtype = self.expressions.dtype(&dtype)?;
        let text = format!("{}.zeros({}, dtype={dtype})", self.expressions.np(), tuple(&shape));
        Ok(self.annotated(None, &[], (of, first.len()), text))
    }

    fn plus(&mut self, a: &String, b: &String) -> String {
        format!("{a} + {b}")
    }

    fn named_like(&mut self, _: &String, name: &str) -> String {
        self.names.fresh(name)
    }

    fn named_part(&mut self, _: &String, name: &str, _: usize) -> String {
        self.names.fresh(name)
    }

    fn named_all(&mut self, _: &String, name: &str, _: &[Count]) -> String {
        self.names.fresh_through_loops(name)
    }

    fn rows(&mut self, step: &StepJson, of: &String, at: (usize, Rows), block: usize) -> String {
        let text = self.parts(of, at, block);
        self.annotated(Some(step), std::slice::from_ref(of), (&step.result, 1), text)
    }

    fn microbatches(&mut self, of: &String, rows: &Microbatches<'_>) -> String {
        self.parts_of(of, rows)
    }

    fn taken(&mut self, all: &String, taken: Taken, block: usize) -> String {
        self.names.reserve(all);
        match taken {
            Taken::All => all.clone(),
            Taken::Last { reverse } => format!("{all}{}", if reverse { "[0]" } else { "[-1]" }),
            Taken::SumOfLayers => self.sum_of_layers(block, all),
            Taken::Joined(place) => self.joined_rows(all, place),
            Taken::SumJoined(place) => {
                let sum = self.sum_of_layers(block, all);
                self.joined_rows(&sum, place)
            }
        }
    }

    fn held(&mut self, made: String, name: &str) -> String {
        let name = self.names.fresh(name);
        self.line(self.indent, &format!("{name} = {made}"));
        name
    }

    fn enter_loop(&mut self, block: usize, is_staged: bool) -> Entry {
        self.loop_entry(block, is_staged)
    }

    fn enter_stages(&mut self, block: usize, rows: &IndexSet<String>) -> Entry {
        self.stages_entry(block, rows)
    }

    fn begin_body(&mut self, entry: &mut Entry) {
        entry.before = std::mem::take(&mut self.text);
        self.indent += 4;
    }

    fn write_loop(&mut self, entry: Entry, of: &Iterated<'_, String>) -> Result<()> {
        self.iterated(entry, of);
        Ok(())
    }

    fn write_stages(
        &mut self,
        entry: Entry,
        stages: &StagesJson,
        of: &Staged<'_, String>,
    ) -> Result<()> {
        self.staged(entry, stages, of);
        Ok(())
    }
}

impl Writer<'_> {
    /// An array in its planned sharding, where arrays are complete; `leading` dimensions come
    /// before those of the plan.
    fn annotated(
        &mut self,
        step: Option<&StepJson>,
        variables: &[String],
        (of, leading): (&TensorJson, usize),
        text: String,
    ) -> String {
        if self.expressions.view != View::Sharded {
            return text;
        }
        let dialect = self.expressions.dialect;
        dialect.annotated(&mut self.expressions, &Written { step, variables, of, leading }, text)
    }

    /// The values of all steps of a scan.
    fn side_by_side(
        &mut self,
        step: &StepJson,
        of: &String,
        (from, to): (Option<&str>, &str),
    ) -> String {
        let operand = &step.operands[0];
        let Some(from) = from else {
            let dims = operand.dims.iter().map(|dim| dim.dim.as_str());
            let dims: Vec<&str> = std::iter::once(to).chain(dims).collect();
            let order = super::expression::names(&step.result);
            return self.expressions.aligned(of, &dims, &order);
        };
        self.expressions.helper("stacked");
        let call = format!("stacked({of}, {})", place_of(operand, from));
        self.renamed(step, &call, (from, to))
    }

    /// The rows that the iterations of a loop read, along a first dimension.
    fn parts(&mut self, of: &str, (place, rows): (usize, Rows), block: usize) -> String {
        let helper = match rows {
            Rows::Microbatch => "microbatches",
            Rows::Chunk => "chunks",
            Rows::Element => {
                return format!("{}.moveaxis({of}, {place}, 0)", self.expressions.np());
            }
        };
        self.expressions.helper(helper);
        format!("{helper}({of}, n.{}, {place})", count_name(self.plan, block))
    }

    /// An array of a step's operand, one dimension of which has another name.
    fn renamed(&self, step: &StepJson, text: &str, (from, to): (&str, &str)) -> String {
        let name = |dim| if dim == from { to } else { dim };
        let dims = step.operands[0].dims.iter().map(|dim| name(dim.dim.as_str()));
        let order = super::expression::names(&step.result);
        self.expressions.aligned(text, &dims.collect::<Vec<_>>(), &order)
    }
}

/// `In[B_X, D] {U_Y}`, without the name: a sharding as plans write it.
fn described(of: &TensorJson) -> String {
    let dims = of.dims.iter().map(|dim| match dim.axes.as_slice() {
        [] => dim.dim.clone(),
        axes => format!("{}_{}", dim.dim, axes.concat()),
    });
    let dims = dims.collect::<Vec<_>>().join(", ");
    let pending = match of.reduction.as_deref() {
        None => String::new(),
        Some(how) => {
            let how = if how == "sum" { "U" } else { how };
            format!(" {{{how}_{}}}", of.unreduced.concat())
        }
    };
    format!("{}[{dims}]{pending}", identifier(&of.value))
}
