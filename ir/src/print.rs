//! Programs and plans as canonical text, which parses back to what was printed.
//!
//! Parts are printed by a [`Printer`], so that others can align or colour them;
//! [`std::fmt::Display`] of [`Program`] and of plans puts them together: declarations, statements
//! one a line, outputs, asserts.

mod blocks;
mod operation;
mod plan;
mod same;

use std::fmt;

use crate::Role;
use crate::ids::{AxisId, DimId, OpId, RepeatId, ValueId};
use crate::mesh::{Axis, Mesh};
use crate::plan::{Collective, Materialization, Step, StepKind};
use crate::program::{
    Backward, CollectiveKind, Dim, MapForm, Mode, Op, OpKind, Operand, Output, Phase, Program,
};
use crate::rearrange::Rearrange;
use crate::sharding::{AxisRef, DimPin, Pin, Sharding};

use blocks::Place;
use plan::{moves_on, settings};
pub use plan::{output, outputs, plan_body, plan_footer, plan_header};
pub use same::same;

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

    /// The text after a `_`: `X`, `XY`, `{data,model}`.
    pub fn subscript(self, axes: &[AxisRef]) -> String {
        axis_word(&self.program.mesh, axes)
    }

    /// Axes as one word where their names have one letter each and no axis is called like the word;
    /// else with commas.
    fn pending(self, axes: &[AxisRef]) -> String {
        axis_list(&self.program.mesh, axes)
    }

    fn dim_name(self, dim: DimId) -> &'a str {
        &self.program.dims[dim].name
    }

    fn dim_names(self, dims: &[DimId]) -> String {
        dims.iter().map(|&dim| self.dim_name(dim)).collect::<Vec<_>>().join(",")
    }

    /// `[B_X, D] {U_Y}`: a sharding of a value that has `dims`.
    pub fn sharding(self, dims: &[DimId], sharding: &Sharding) -> String {
        self.pin(dims, &sharding.clone().into())
    }

    /// `[B_X, F_?]`: what an author wrote.
    pub fn pin(self, dims: &[DimId], pin: &Pin) -> String {
        let dim = |(&dim, pin): (&DimId, &DimPin)| {
            let name = self.dim_name(dim);
            match pin {
                DimPin::Exactly(axes) if axes.is_empty() => name.to_owned(),
                DimPin::Exactly(axes) => format!("{name}_{}", self.subscript(axes)),
                DimPin::First(axes) if axes.is_empty() => format!("{name}_?"),
                DimPin::First(axes) => {
                    format!("{name}_{{{},?}}", axis_list(&self.program.mesh, axes))
                }
            }
        };
        let dims: Vec<String> = dims.iter().zip(&pin.dims).map(dim).collect();
        let unreduced = &pin.unreduced;
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

    /// `Tmp[B, F_YZ] {U_X}`, with its dtype where that was written and this step is what computes
    /// the value.
    pub fn step_left(self, step: &Step) -> String {
        let value = &self.program.values[step.result.value];
        let dtype = self
            .dtype(step.result.value, matches!(step.kind, StepKind::Local(_)) || moves_on(step));
        format!("{}{dtype}{}", value.name, self.sharding(&value.dims, &step.result.sharding))
    }

    /// `In[B, D_X] *D Win[D_X, F_YZ]`, `AllGather_XY(In[B, D_XY])`.
    pub fn step_right(self, step: &Step) -> String {
        let operands: Vec<String> =
            step.operands.iter().map(|operand| self.materialization(operand)).collect();
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
        let keyword = if let StepKind::Local(op) = step.kind {
            keyword(&self.program.ops[op].kind)
        } else {
            ""
        };
        format!("{keyword}{} = {}", self.step_left(step), self.step_right(step))
    }

    /// `ReduceScatter_{X,K}`: a collective on a value that has `dims`.
    pub fn collective(self, dims: &[DimId], collective: &Collective) -> String {
        let names: Vec<&str> = dims.iter().map(|&dim| self.dim_name(dim)).collect();
        collective_head(&self.program.mesh, &names, collective)
    }

    /// `q = a *D wq`: an operation and its result without brackets.
    pub fn short_statement(self, id: OpId) -> String {
        let op = &self.program.ops[id];
        let name = |value: ValueId| self.program.values[value].name.clone();
        let operands: Vec<String> = op.operands.iter().map(|of| name(of.value)).collect();
        format!("{} = {}", name(op.result), self.operation(&op.kind, &operands))
    }

    /// `einsum D`, `gelu(Tmp)`: an operation in a few words, without brackets.
    pub fn operation_name(self, id: OpId) -> String {
        let op = &self.program.ops[id];
        if let OpKind::Einsum { contracted } = &op.kind {
            return format!("einsum {}", self.dim_names(contracted)).trim_end().to_owned();
        }
        let name = |operand: &Operand| self.program.values[operand.value].name.clone();
        self.operation(&op.kind, &op.operands.iter().map(name).collect::<Vec<_>>())
    }

    /// `backward from Out given dOut`, until it is replaced by statements.
    fn backward(self, directive: &Backward) -> String {
        let name = |value: ValueId| &self.program.values[value].name;
        let given =
            directive.given.map_or(String::new(), |given| format!(" given {}", name(given)));
        let cut = directive.microbatches.map_or(String::new(), |(count, of)| {
            format!(
                ", microbatches={count}{}",
                of.map_or(String::new(), |dim| format!(" of {}", self.dim_name(dim)))
            )
        });
        let dtype = directive
            .gradients
            .map_or(String::new(), |dtype| format!(", gradients={}", dtype.name()));
        let keeps = self.keeps();
        format!("backward from {}{given}{cut}{dtype}{keeps}\n", name(directive.from))
    }

    /// `phase backward`.
    fn phase(self, phase: Phase) -> String {
        let keeps = if phase == Phase::Backward { self.keeps() } else { String::new() };
        format!("phase {}{keeps}", phase.name())
    }

    /// `, until=step, weights=kept`, where it is written.
    fn keeps(self) -> String {
        let Program { gradients_until, gathered_weights, .. } = self.program;
        let until =
            gradients_until.map_or(String::new(), |until| format!(", until={}", until.name()));
        let weights =
            gathered_weights.map_or(String::new(), |of| format!(", weights={}", of.name()));
        until + &weights
    }

    fn dtype(self, value: ValueId, shown: bool) -> String {
        let value = &self.program.values[value];
        if shown && value.dtype_written {
            format!(": {}", value.dtype.name())
        } else {
            String::new()
        }
    }

    /// A statement of the program as the author might have written it, pins where they were
    /// written.
    pub fn statement(self, id: OpId) -> String {
        let op = &self.program.ops[id];
        let value = &self.program.values[op.result];
        let dtype = self.dtype(op.result, !op.is_reshard());
        let brackets =
            op.result_pin.as_ref().map_or(String::new(), |pin| self.pin(&value.dims, pin));
        format!("{}{}{dtype}{brackets} = {}", keyword(&op.kind), value.name, self.right(op))
    }

    fn right(self, op: &Op) -> String {
        let operands: Vec<String> =
            op.operands.iter().map(|operand| self.operand(operand)).collect();
        if let (OpKind::Collective(kind), [operand]) = (&op.kind, op.operands.as_slice())
            && let (Some(from), Some(to)) =
                (exact(operand.pin.as_ref()), exact(op.result_pin.as_ref()))
            && let Ok(collective) =
                crate::collective::collective(&self.program.mesh, kind, &from, &to)
        {
            let dims = &self.program.values[op.result].dims;
            return format!("{}({})", self.collective(dims, &collective), operands.join(", "));
        }
        match &op.kind {
            // Without brackets on its left, its subscript names the new dimensions.
            OpKind::Rearrange(Rearrange::Rename(pairs))
                if op.result_pin.is_none() && !pairs.is_empty() =>
            {
                let (from, to): (Vec<DimId>, Vec<DimId>) = pairs.iter().copied().unzip();
                let (from, to) = (self.dim_names(&from), self.dim_names(&to));
                format!("rename_{{{from}->{to}}}({})", operands.join(", "))
            }
            kind => self.operation(kind, &operands),
        }
    }

    fn operand(self, operand: &Operand) -> String {
        let value = &self.program.values[operand.value];
        let brackets = operand.pin.as_ref().map_or(String::new(), |pin| self.pin(&value.dims, pin));
        format!("{}{brackets}", value.name)
    }

    /// `plan`, hardware, mesh, dimensions and declarations, each with its line end; a blank
    /// line after each group.
    pub fn header(self, mode: Mode) -> String {
        let mut lines: Vec<String> = Vec::new();
        if mode == Mode::Explicit {
            lines.push("plan".to_owned());
        }
        lines.push(format!(
            "hardware {}{}",
            self.program.hardware.reference(),
            settings(self.program)
        ));
        let axes = mesh(&self.program.mesh);
        let dims: Vec<String> = self.program.dims.iter().map(|dim| self.dim(dim)).collect();
        for (keyword, items) in [("mesh", axes), ("dim", dims)] {
            if !items.is_empty() {
                lines.push(format!("{keyword} {}", items.join(", ")));
            }
        }
        let declared: Vec<String> = self.declarations(None);
        if !declared.is_empty() {
            lines.push(String::new());
            lines.extend(declared);
        }
        lines.join("\n") + "\n\n"
    }

    /// The declarations in a block, or outside all.
    fn declarations(self, within: Option<RepeatId>) -> Vec<String> {
        let there =
            self.program.values.iter_enumerated().filter(|(_, value)| value.repeat == within);
        there.filter_map(|(value, _)| self.declaration(value)).collect()
    }

    fn declaration(self, id: ValueId) -> Option<String> {
        let value = &self.program.values[id];
        let keyword = match value.role? {
            Role::Input => "input",
            Role::Param if value.is_frozen => "frozen param",
            Role::Param | Role::FrozenParam => "param",
            Role::State => "state",
            Role::Output => return None,
        };
        let brackets = value
            .declared_sharding
            .as_ref()
            .map_or(String::new(), |pin| self.pin(&value.dims, pin));
        Some(format!("{keyword} {}{}{brackets}", value.name, self.dtype(id, true)))
    }

    /// Outputs and asserts, one a line, with a blank line before them.
    pub fn footer(self) -> String {
        self.footer_with(|output| output.pin.clone())
    }

    fn footer_with(self, pin: impl Fn(&Output) -> Pin) -> String {
        let outputs = self.program.outputs.iter().filter_map(|output| match output.yields_to {
            None => {
                let value = &self.program.values[output.value];
                Some(format!("output {}{}\n", value.name, self.pin(&value.dims, &pin(output))))
            }
            Some(then) if self.program.values[output.value].repeat.is_none() => {
                Some(self.next(output, then, Some(&pin(output))) + "\n")
            }
            Some(_) => None,
        });
        let asserts = self.program.asserts.iter().map(|assert| format!("assert {}\n", assert.text));
        let lines: String = outputs.chain(asserts).collect();
        if lines.is_empty() { lines } else { format!("\n{lines}") }
    }

    fn dim(self, dim: &Dim) -> String {
        let factors: Vec<&str> = dim.factors.iter().map(|&factor| self.dim_name(factor)).collect();
        let size = if factors.is_empty() { dim.size.to_string() } else { factors.join("*") };
        let pad = if dim.pad { " pad" } else { "" };
        let order = dim.zigzag.map(|order| format!(" zigzag {}", order.pairs)).unwrap_or_default();
        format!("{}={size}{pad}{order}", dim.name)
    }
}

/// The lines before a statement.
fn keyword(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Map(function) if function.form == MapForm::LoopCarried => "carry ",
        _ => "",
    }
}

/// Axes as one word where their names have one letter each and no axis is called like the word;
/// else with commas.
fn axis_list(mesh: &Mesh, axes: &[AxisRef]) -> String {
    let axes: Vec<AxisId> = axes.iter().map(|axis| axis.axis()).collect();
    let names = mesh.names(&axes);
    let word = names.concat();
    let letters = names.iter().all(|name| name.chars().count() == 1);
    if names.len() == 1 || letters && mesh.named(&word).is_none() { word } else { names.join(",") }
}

/// The text after a `_`: `X`, `XY`, `{data,model}`.
pub fn axis_word(mesh: &Mesh, axes: &[AxisRef]) -> String {
    let list = axis_list(mesh, axes);
    if list.contains(',') { format!("{{{list}}}") } else { list }
}

/// `ReduceScatter_{X,K}`, `AllToAll_{XY->J,Z->K}`: a collective on a value whose dimensions have
/// these names.
pub(crate) fn collective_head(mesh: &Mesh, dims: &[&str], collective: &Collective) -> String {
    let name = collective.kind.name();
    let receivers: Vec<&str> =
        collective.into.iter().filter_map(|&position| dims.get(position).copied()).collect();
    let named = matches!(collective.kind, CollectiveKind::ReduceScatter | CollectiveKind::AllToAll);
    if !named || receivers.is_empty() {
        return format!("{name}_{}", axis_word(mesh, &collective.axes));
    }
    let mut moves: Vec<(&str, Vec<AxisRef>)> = Vec::new();
    for (&axis, receiver) in collective.axes.iter().zip(receivers) {
        match moves.last_mut() {
            Some((last, axes)) if *last == receiver => axes.push(axis),
            _ => moves.push((receiver, vec![axis])),
        }
    }
    let arrow = if moves.len() == 1 { "," } else { "->" };
    let words = moves.iter().map(|(to, axes)| format!("{}{arrow}{to}", axis_list(mesh, axes)));
    format!("{name}_{{{}}}", words.collect::<Vec<_>>().join(","))
}

fn exact(pin: Option<&Pin>) -> Option<Sharding> {
    pin.and_then(Pin::exact)
}

/// The axes of a mesh as a program declares them: `X=4`, `Y=16 over 4x4`.
pub fn mesh(mesh: &Mesh) -> Vec<String> {
    mesh.declared().map(|(of, parts)| axis(of, &parts)).collect()
}

/// `X=16 over 4x4 as 8x2 ring`, where it is used in such parts.
pub fn axis(axis: &Axis, parts: &[u64]) -> String {
    let mut words = vec![format!("{}={}", axis.name, axis.size)];
    for (word, factors) in [("over", axis.over.as_deref().unwrap_or_default()), ("as", parts)] {
        if !factors.is_empty() {
            let factors: Vec<String> = factors.iter().map(u64::to_string).collect();
            words.push(format!("{word} {}", factors.join("x")));
        }
    }
    words.extend(axis.written_kind.map(|kind| kind.name().to_owned()));
    words.join(" ")
}

/// `In[B, D] = AllGather_XY(In[B, D_XY])`.
pub fn step(program: &Program, step: &Step) -> String {
    Printer::new(program).step(step)
}

/// `In[B, D_X] {U_Y}`.
pub fn materialization(program: &Program, of: &Materialization) -> String {
    Printer::new(program).materialization(of)
}

/// `In[B, D] = AllGather_XY(In[B, D_XY])`: the statement of a collective between two
/// materialisations.
pub fn collective(
    program: &Program,
    moved: &Collective,
    from: &Materialization,
    to: &Materialization,
) -> String {
    let printer = Printer::new(program);
    let dims = &program.values[to.value].dims;
    format!(
        "{} = {}({})",
        printer.materialization(to),
        printer.collective(dims, moved),
        printer.materialization(from)
    )
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printer = Printer::new(self);
        f.write_str(&printer.header(self.mode))?;
        let directive =
            |at: usize| self.backward.as_ref().filter(|backward| backward.at.index() == at);
        // Before gradients are derived, `backward from` begins their part.
        let is_derived = self.backward.is_none();
        let phase = |op: &Op| if is_derived { op.phase } else { Phase::default() };
        let place = |op: &Op| Place { block: op.repeat, phase: phase(op) };
        let places: Vec<Place> = self.ops.iter().map(place).collect();
        let written =
            |output: &Output| Some(&output.pin).filter(|pin| pin.exact().is_some()).cloned();
        for (line, at) in printer.blocks(&places, |at| printer.statement(OpId::new(at)), written) {
            f.write_str(
                &at.and_then(directive)
                    .map_or_else(String::new, |directive| printer.backward(directive)),
            )?;
            writeln!(f, "{line}")?;
        }
        f.write_str(
            &directive(self.ops.len())
                .map_or_else(String::new, |directive| printer.backward(directive)),
        )?;
        f.write_str(
            &self
                .optimizer
                .as_ref()
                .map_or_else(String::new, |optimizer| format!("{}\n", optimizer.text)),
        )?;
        f.write_str(&printer.footer())
    }
}
