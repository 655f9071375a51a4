//! Programs and plans as canonical text, which parses back to what was printed.
//!
//! Parts are printed by a [`Printer`], so that others can align or colour them; [`std::fmt::Display`] of [`Program`] and [`Plan`] puts them
//! together: declarations, statements one a line, outputs, asserts.

use std::fmt;

use crate::ids::{DimId, OpId, ValueId};
use crate::mesh::{Axis, Mesh};
use crate::plan::{Collective, Materialization, Plan, Step, StepKind};
use crate::program::{CollectiveKind, Dim, MapForm, Mode, Op, OpKind, Operand, Program};
use crate::sharding::{AxisRef, Pin, Sharding, Unreduced};
use crate::{Role, Span};

/// Prints pieces that refer to the tables of one program.
#[derive(Clone, Copy, Debug)]
pub struct Printer<'a> {
    program: &'a Program,
}

impl<'a> Printer<'a> {
    /// A printer of pieces of `program`.
    pub fn new(program: &'a Program) -> Self {
        Self { program }
    }

    /// What stands behind a `_`: `X`, `XY`, `{data,model}`.
    pub fn subscript(self, axes: &[AxisRef]) -> String {
        let text = self.pending(axes);
        if text.contains(',') { format!("{{{text}}}") } else { text }
    }

    /// Axes as one word where their names have one letter each and no axis is called like the word; else with commas.
    fn pending(self, axes: &[AxisRef]) -> String {
        axis_word(&self.program.mesh, axes)
    }

    fn axis_name(self, axis: AxisRef) -> &'a str {
        &self.program.mesh.axes[axis.axis()].name
    }

    fn dim_name(self, dim: DimId) -> &'a str {
        &self.program.dims[dim].name
    }

    fn dim_names(self, dims: &[DimId]) -> String {
        dims.iter().map(|&dim| self.dim_name(dim)).collect::<Vec<_>>().join(",")
    }

    /// `[B_X, D] {U_Y}`: a sharding of a value that has `dims`.
    pub fn sharding(self, dims: &[DimId], sharding: &Sharding) -> String {
        let lists = sharding.dims.iter().map(|axes| Some(axes.as_slice()));
        self.brackets(dims, lists, &sharding.unreduced)
    }

    /// `[B_X, F_?]`: what an author wrote.
    pub fn pin(self, dims: &[DimId], pin: &Pin) -> String {
        self.brackets(dims, pin.dims.iter().map(|axes| axes.as_ref().map(smallvec::SmallVec::as_slice)), &pin.unreduced)
    }

    fn brackets<'s>(self, dims: &[DimId], lists: impl Iterator<Item = Option<&'s [AxisRef]>>, unreduced: &Unreduced) -> String {
        let dims: Vec<String> = dims
            .iter()
            .zip(lists)
            .map(|(&dim, axes)| match axes {
                None => format!("{}_?", self.dim_name(dim)),
                Some([]) => self.dim_name(dim).to_owned(),
                Some(axes) => format!("{}_{}", self.dim_name(dim), self.subscript(axes)),
            })
            .collect();
        let pending = if unreduced.is_empty() {
            String::new()
        } else {
            format!(" {{{}_{}}}", unreduced.kind().symbol(), self.pending(unreduced.axes()))
        };
        format!("[{}]{pending}", dims.join(", "))
    }

    /// `In[B_X, D]`.
    pub fn materialization(self, of: &Materialization) -> String {
        let value = &self.program.values[of.value];
        format!("{}{}", value.name, self.sharding(&value.dims, &of.sharding))
    }

    /// `Tmp[B, F_YZ] {U_X}`, with its dtype where that was written and this step is what computes the value.
    pub fn step_left(self, step: &Step) -> String {
        let value = &self.program.values[step.result.value];
        let dtype = self.dtype(step.result.value, matches!(step.kind, StepKind::Local(_)) || moves_on(step));
        format!("{}{dtype}{}", value.name, self.sharding(&value.dims, &step.result.sharding))
    }

    /// `In[B, D_X] *D Win[D_X, F_YZ]`, `AllGather_XY(In[B, D_XY])`.
    pub fn step_right(self, step: &Step) -> String {
        let operands: Vec<String> = step.operands.iter().map(|operand| self.materialization(operand)).collect();
        match &step.kind {
            StepKind::Local(op) => self.operation(&self.program.ops[*op].kind, &operands),
            StepKind::Collective(collective, _) => {
                let dims = &self.program.values[step.result.value].dims;
                format!("{}({})", self.collective(dims, collective), operands.join(", "))
            }
        }
    }

    /// The whole step: left side, `=`, right side.
    pub fn step(self, step: &Step) -> String {
        format!("{} = {}", self.step_left(step), self.step_right(step))
    }

    /// `ReduceScatter_{X,K}`: a collective on a value that has `dims`.
    pub fn collective(self, dims: &[DimId], collective: &Collective) -> String {
        let name = collective.kind.name();
        let receivers: Vec<&str> = collective.into.iter().filter_map(|&position| Some(self.dim_name(*dims.get(position)?))).collect();
        let subscript = match (&collective.kind, receivers.as_slice()) {
            (CollectiveKind::ReduceScatter | CollectiveKind::AllToAll, [first, rest @ ..]) if rest.iter().all(|other| other == first) => {
                format!("{{{},{first}}}", self.pending(&collective.axes))
            }
            (CollectiveKind::ReduceScatter | CollectiveKind::AllToAll, receivers) => {
                let pairs: Vec<String> =
                    collective.axes.iter().zip(receivers).map(|(&axis, dim)| format!("{},{dim}", self.axis_name(axis))).collect();
                format!("{{{}}}", pairs.join(","))
            }
            _ => self.subscript(&collective.axes),
        };
        format!("{name}_{subscript}")
    }

    /// The right side of a local operation on operands that are printed already.
    fn operation(self, kind: &OpKind, operands: &[String]) -> String {
        let operand = |i: usize| operands.get(i).map_or("", String::as_str);
        match kind {
            OpKind::Einsum { contracted } => format!("{} *{} {}", operand(0), self.dim_names(contracted), operand(1)),
            OpKind::Map(function) => map(&function.form, operands),
            OpKind::Reduce { function, dims } => {
                let over = self.dim_names(dims);
                let over = if dims.len() == 1 { over } else { format!("{{{over}}}") };
                format!("{}_{over}({})", function.name(), operands.join(", "))
            }
            OpKind::Collective(kind) => format!("{}({})", kind.name(), operands.join(", ")),
        }
    }

    fn dtype(self, value: ValueId, shown: bool) -> String {
        let value = &self.program.values[value];
        if shown && value.dtype_written { format!(": {}", value.dtype.name()) } else { String::new() }
    }

    /// A statement of the program as the author might have written it, pins where they were written.
    pub fn statement(self, id: OpId) -> String {
        let op = &self.program.ops[id];
        let value = &self.program.values[op.result];
        let dtype = self.dtype(op.result, value.producer == Some(id));
        let brackets = op.result_pin.as_ref().map_or(String::new(), |pin| self.pin(&value.dims, pin));
        format!("{}{dtype}{brackets} = {}", value.name, self.right(op))
    }

    fn right(self, op: &Op) -> String {
        let operands: Vec<String> = op.operands.iter().map(|operand| self.operand(operand)).collect();
        if let (OpKind::Collective(kind), [operand]) = (&op.kind, op.operands.as_slice())
            && let (Some(from), Some(to)) = (exact(operand.pin.as_ref()), exact(op.result_pin.as_ref()))
            && let Ok(collective) = crate::verify::collective(&self.program.mesh, kind, &from, &to)
        {
            let dims = &self.program.values[op.result].dims;
            return format!("{}({})", self.collective(dims, &collective), operands.join(", "));
        }
        self.operation(&op.kind, &operands)
    }

    fn operand(self, operand: &Operand) -> String {
        let value = &self.program.values[operand.value];
        let brackets = operand.pin.as_ref().map_or(String::new(), |pin| self.pin(&value.dims, pin));
        format!("{}{brackets}", value.name)
    }

    /// `plan`, hardware, mesh, dimensions, and what is declared, each with its line end; a blank line behind each group.
    pub fn header(self, mode: Mode) -> String {
        let mut out = String::new();
        if mode == Mode::Explicit {
            out.push_str("plan\n");
        }
        out.push_str(&format!("hardware {}\n", self.program.hardware.name));
        let axes: Vec<String> = self.program.mesh.axes.iter().map(axis).collect();
        let dims: Vec<String> = self.program.dims.iter().map(|dim| self.dim(dim)).collect();
        for (keyword, items) in [("mesh", axes), ("dim", dims)] {
            if !items.is_empty() {
                out.push_str(&format!("{keyword} {}\n", items.join(", ")));
            }
        }
        let declared: Vec<String> = self.program.values.indices().filter_map(|value| self.declaration(value)).collect();
        if !declared.is_empty() {
            out.push_str(&format!("\n{}\n", declared.join("\n")));
        }
        out.push('\n');
        out
    }

    fn declaration(self, id: ValueId) -> Option<String> {
        let value = &self.program.values[id];
        let keyword = match value.role? {
            Role::Input => "input",
            Role::Param => "param",
            Role::State => "state",
            Role::Output => return None,
        };
        let brackets = value.home.as_ref().map_or(String::new(), |pin| self.pin(&value.dims, pin));
        Some(format!("{keyword} {}{}{brackets}", value.name, self.dtype(id, true)))
    }

    /// Outputs and asserts, one a line, with a blank line before them.
    pub fn footer(self) -> String {
        let outputs = self.program.outputs.iter().map(|output| {
            let value = &self.program.values[output.value];
            format!("output {}{}\n", value.name, self.pin(&value.dims, &output.pin))
        });
        let asserts = self.program.asserts.iter().map(|assert| format!("assert {}\n", assert.text));
        let lines: String = outputs.chain(asserts).collect();
        if lines.is_empty() { lines } else { format!("\n{lines}") }
    }

    fn dim(self, dim: &Dim) -> String {
        let factors: Vec<&str> = dim.factors.iter().map(|&factor| self.dim_name(factor)).collect();
        let size = if factors.is_empty() { dim.size.to_string() } else { factors.join("*") };
        let pad = if dim.pad { " pad" } else { "" };
        format!("{}={size}{pad}", dim.name)
    }
}

/// Whether a collective gives its result another name.
fn moves_on(step: &Step) -> bool {
    step.operands.iter().any(|operand| operand.value != step.result.value)
}

fn exact(pin: Option<&Pin>) -> Option<Sharding> {
    pin.and_then(Pin::exact)
}

fn map(form: &MapForm, operands: &[String]) -> String {
    let operand = |i: usize| operands.get(i).map_or("", String::as_str);
    match form {
        MapForm::Call { name, extra } => {
            let arguments: Vec<&str> = operands.iter().chain(extra).map(String::as_str).collect();
            format!("{name}({})", arguments.join(", "))
        }
        MapForm::Infix(operator) => format!("{} {operator} {}", operand(0), operand(1)),
        MapForm::ScaleBy(scalar) => format!("{scalar} * {}", operand(0)),
        MapForm::InfixScalar(operator, scalar) => format!("{} {operator} {scalar}", operand(0)),
        MapForm::ScalarInfix(scalar, operator) => format!("{scalar} {operator} {}", operand(0)),
        MapForm::Negate => format!("-{}", operand(0)),
    }
}

/// `X=16 over 4x4 ring`.
fn axis(axis: &Axis) -> String {
    let mut text = format!("{}={}", axis.name, axis.size);
    if let Some(over) = &axis.over {
        let factors: Vec<String> = over.iter().map(u64::to_string).collect();
        text.push_str(&format!(" over {}", factors.join("x")));
    }
    if let Some(kind) = axis.written_kind {
        text.push_str(&format!(" {}", kind.name()));
    }
    text
}

/// `In[B, D] = AllGather_XY(In[B, D_XY])`.
pub fn step(program: &Program, step: &Step) -> String {
    Printer::new(program).step(step)
}

/// What stands above a plan's statements.
pub fn plan_header(plan: &Plan) -> String {
    Printer::new(&plan.program).header(Mode::Explicit)
}

/// What stands below a plan's statements: outputs in the sharding that the plan gives them, and asserts.
pub fn plan_footer(plan: &Plan) -> String {
    let mut given = plan.program.clone();
    for output in &mut given.outputs {
        if let Some(sharding) = given_output(plan, output.value, &output.pin) {
            output.pin = sharding.into();
        }
    }
    Printer::new(&given).footer()
}

/// The latest materialisation of a value that its output accepts.
fn given_output(plan: &Plan, value: ValueId, pin: &Pin) -> Option<Sharding> {
    let given = plan.steps.iter().rev().find(|step| step.result.value == value && pin.accepts(&step.result.sharding));
    let declared = || plan.program.values[value].home.as_ref().and_then(Pin::exact).filter(|home| pin.accepts(home));
    given.map(|step| step.result.sharding.clone()).or_else(declared)
}

/// `In[B_X, D]`.
pub fn materialization(program: &Program, material: &Materialization) -> String {
    Printer::new(program).materialization(material)
}

/// `A[I, J] = AllGather_X(A[I_X, J])`.
pub fn collective(program: &Program, collective: &Collective, from: &Materialization, to: &Materialization) -> String {
    let printer = Printer::new(program);
    let call = printer.collective(&program.values[from.value].dims, collective);
    format!("{} = {call}({})", printer.materialization(to), printer.materialization(from))
}

/// `X`, `XY`, `data,model`: axes as a subscript names them, without braces.
pub fn axis_word(mesh: &Mesh, axes: &[AxisRef]) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| mesh.axes[axis.axis()].name.as_str()).collect();
    let word = names.concat();
    let joins = names.iter().all(|name| name.chars().count() == 1) && (names.len() < 2 || mesh.find(&word).is_none());
    if joins || names.len() == 1 { word } else { names.join(",") }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printer = Printer::new(self);
        f.write_str(&printer.header(self.mode))?;
        for op in self.ops.indices() {
            writeln!(f, "{}", printer.statement(op))?;
        }
        f.write_str(&printer.footer())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plan_header(self))?;
        for line in &self.steps {
            writeln!(f, "{}", step(&self.program, line))?;
        }
        f.write_str(&plan_footer(self))
    }
}

/// Whether two programs say the same, wherever in their sources they say it.
pub fn same(a: &Program, b: &Program) -> bool {
    without_spans(a) == without_spans(b)
}

fn without_spans(program: &Program) -> Program {
    let mut bare = program.clone();
    let nowhere = Span::default();
    bare.dims.iter_mut().for_each(|dim| dim.span = nowhere);
    bare.values.iter_mut().for_each(|value| value.span = nowhere);
    for op in &mut bare.ops {
        op.span = nowhere;
        op.operands.iter_mut().for_each(|operand| operand.span = nowhere);
    }
    bare.outputs.iter_mut().for_each(|output| output.span = nowhere);
    bare.asserts.iter_mut().for_each(|assert| assert.span = nowhere);
    bare
}
