//! Plans as a Rust module: types once, a module of constants for each program, folders as modules.
//!
//! The module has no dependencies: a crate that includes it does not need shardwise at run time.
//! Everything is a constant, so that sizes can be array lengths and budgets can be checked by the
//! compiler (`const _: () = assert!(plans::mlp::PEAK_BYTES < …);`).

use std::fmt::Write as _;

use shardwise_ir::ids::DimId;
use shardwise_ir::plan::Materialization;
use shardwise_ir::print;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::{Pin, Sharding};

use super::Compiled;
use crate::export::json::StepJson;
use crate::{Planned, Role};

/// Types that every program's module uses.
const TYPES: &str = r"// Written by shardwise. Changes are lost: change the programs.

/// A mesh axis.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name.
    pub name: &'static str,
    /// Devices along it.
    pub size: u64,
}

/// A dimension of a tensor and the axes that split it.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Its name.
    pub name: &'static str,
    /// Its global size.
    pub size: u64,
    /// The axes that split it, major to minor.
    pub axes: &'static [&'static str],
}

/// The role of a tensor.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An input of each step.
    Input,
    /// Resident on the devices.
    Param,
    /// Resident and updated.
    State,
    /// An output of the program.
    Output,
}

/// An input, parameter, state or output of a program, with its sharding.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: &'static str,
    /// Its role.
    pub role: Role,
    /// Its element type, as programs write it.
    pub dtype: &'static str,
    /// Its dimensions in order.
    pub dims: &'static [Dim],
    /// Axes over which it is still to be reduced.
    pub unreduced: &'static [&'static str],
}

/// A line of a plan.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// `einsum`, `map`, `reduce`, …; `all_gather`, `all_reduce`, `reduce_scatter`, `all_to_all`,
    /// `permute`, `slice`, `unreduce`.
    pub kind: &'static str,
    /// The value that it produces.
    pub value: &'static str,
    /// The axes that a collective names.
    pub axes: &'static [&'static str],
    /// A collective's local bytes, else the bytes touched.
    pub bytes: u64,
    /// FLOPs of a device.
    pub flops: f64,
    /// Seconds.
    pub time_s: f64,
    /// Whether it is critical: a longer step makes the schedule longer.
    pub critical: bool,
    /// The line as the plan prints it.
    pub text: &'static str,
}
";

/// The complete module.
pub(super) fn module(programs: &[Compiled]) -> String {
    let mut out = TYPES.to_owned();
    let mut all: Vec<&Compiled> = programs.iter().collect();
    // Folders of one name, in several inputs, are one module.
    all.sort_by(|one, other| one.module.cmp(&other.module));
    modules(&all, 0, &mut out);
    out
}

/// The modules at `depth` of programs that share their outer modules.
fn modules(programs: &[&Compiled], depth: usize, out: &mut String) {
    let mut rest = programs;
    while let Some(first) = rest.first() {
        let name = &first.module[depth];
        let together = rest.iter().take_while(|program| program.module[depth] == *name).count();
        let (these, others) = rest.split_at(together);
        if first.module.len() == depth + 1 {
            program(first, depth, out);
        } else {
            let _ = write!(
                out,
                "\n/// Programs of the folder `{name}`.\n#[allow(non_snake_case)]\n\
                pub mod {name} {{"
            );
            modules(these, depth + 1, out);
            out.push_str("}\n");
        }
        rest = others;
    }
}

fn program(program: &Compiled, depth: usize, out: &mut String) {
    let planned = &program.planned;
    let name = &program.module[depth];
    let outer = "super::".repeat(depth + 1);
    let _ = writeln!(
        out,
        "\n/// The plan of `{name}`.\n#[allow(dead_code, non_snake_case, clippy::all, \
            clippy::pedantic)]\npub mod {name} {{"
    );
    let _ = writeln!(out, "    use {outer}{{Axis, Dim, Role, Step, Tensor}};\n");
    for (documentation, constant) in constants(planned, &program.module.join("/")) {
        let _ = writeln!(out, "    /// {documentation}\n    pub const {constant};");
    }
    let ir = &planned.plan.program;
    sizes(
        "axes",
        "Devices along each axis.",
        ir.mesh.axes.iter().map(|axis| (axis.name.as_str(), axis.size)),
        out,
    );
    sizes(
        "dims",
        "The size of each dimension.",
        ir.dims.iter().map(|dim| (dim.name.as_str(), dim.size)),
        out,
    );
    out.push_str("}\n");
}

/// Each constant with its documentation; `stem` is the path of the plan's files, relative to the
/// module's file.
fn constants(planned: &Planned, stem: &str) -> Vec<(&'static str, String)> {
    let program = &planned.plan.program;
    let report = &planned.report;
    let devices = program.mesh.axes.iter().fold(1_u64, |all, axis| all.saturating_mul(axis.size));
    let seconds = |constant: &str, value: f64| format!("{constant}: f64 = {value:?}");
    let bytes = |constant: &str, value: f64| format!("{constant}: u64 = {}", value.round() as u64);
    let mesh = program
        .mesh
        .axes
        .iter()
        .map(|axis| format!("Axis {{ name: {:?}, size: {} }}", axis.name, axis.size));
    vec![
        (
            "The plan, a program again.",
            format!("PLAN: &str = include_str!({:?})", format!("{stem}.plan")),
        ),
        (
            "The plan as JSON (`shardwise.plan/2`).",
            format!("JSON: &str = include_str!({:?})", format!("{stem}.json")),
        ),
        ("The chip.", format!("HARDWARE: &str = {:?}", program.hardware.name)),
        ("The devices.", format!("MESH: &[Axis] = &[{}]", mesh.collect::<Vec<_>>().join(", "))),
        ("How many devices.", format!("DEVICES: u64 = {devices}")),
        (
            "Whether nothing cheaper exists, by proof.",
            format!("OPTIMAL: bool = {}", planned.status_name() == "optimal"),
        ),
        ("The sum of all steps, seconds.", seconds("SERIAL_S", report.serial_s)),
        ("The sum of all collectives, seconds.", seconds("COMM_S", report.comm_s)),
        ("The sum of all local operations, seconds.", seconds("COMPUTE_S", report.compute_s)),
        (
            "The busiest resource: no schedule is shorter, seconds.",
            seconds("OVERLAP_S", report.overlap_s),
        ),
        ("The plan's own schedule, seconds.", seconds("SCHEDULED_S", report.schedule.makespan_s)),
        (
            "Params and state on a device, bytes.",
            bytes("RESIDENT_BYTES", report.memory.resident_bytes),
        ),
        ("The most that a device holds, bytes.", bytes("PEAK_BYTES", report.memory.peak_bytes)),
        (
            "What is declared and what leaves, each as it is sharded there.",
            format!("TENSORS: &[Tensor] = {}", list(tensors(planned))),
        ),
        (
            "The plan line by line.",
            format!("STEPS: &[Step] = {}", list(planned.json().steps.iter().map(step).collect())),
        ),
    ]
}

fn list(items: Vec<String>) -> String {
    let lines: Vec<String> = items.iter().map(|item| format!("        {item},\n")).collect();
    if items.is_empty() { "&[]".to_owned() } else { format!("&[\n{}    ]", lines.concat()) }
}

fn tensors(planned: &Planned) -> Vec<String> {
    let program = &planned.plan.program;
    let declared = program.values.iter_enumerated().filter_map(|(id, value)| {
        let sharding = value.declared_sharding.as_ref().and_then(Pin::exact)?;
        Some(tensor(program, value.role?, &Materialization { value: id, sharding }))
    });
    let leaving = print::outputs(&planned.plan)
        .into_iter()
        .map(|output| tensor(program, Role::Output, &output));
    declared.chain(leaving).collect()
}

fn tensor(program: &Program, role: Role, of: &Materialization) -> String {
    let value = &program.values[of.value];
    let dims = value.dims.iter().zip(&of.sharding.dims).map(|(&dim, axes)| {
        let axes: Vec<&str> =
            axes.iter().map(|axis| program.mesh.axes[axis.axis()].name.as_str()).collect();
        self::dim(program, dim, &axes)
    });
    format!(
        "Tensor {{ name: {:?}, role: Role::{role:?}, dtype: {:?}, dims: &[{}], unreduced: &{:?} }}",
        value.name,
        value.dtype.name(),
        dims.collect::<Vec<_>>().join(", "),
        pending(program, &of.sharding),
    )
}

fn dim(program: &Program, dim: DimId, axes: &[&str]) -> String {
    let dim = &program.dims[dim];
    format!("Dim {{ name: {:?}, size: {}, axes: &{axes:?} }}", dim.name, dim.size)
}

fn pending<'p>(program: &'p Program, sharding: &Sharding) -> Vec<&'p str> {
    sharding
        .unreduced
        .axes()
        .iter()
        .map(|axis| program.mesh.axes[axis.axis()].name.as_str())
        .collect()
}

fn step(step: &StepJson) -> String {
    let StepJson { kind, value, axes, local_bytes, flops, time_s, critical, text, .. } = step;
    format!(
        "Step {{ kind: {kind:?}, value: {value:?}, axes: &{axes:?}, bytes: {local_bytes}, flops: \
            {flops:?}, time_s: {time_s:?}, \
         critical: {critical}, text: {text:?} }}"
    )
}

/// A module of sizes by name. Names that are one identifier keep the first.
fn sizes<'n>(
    module: &str,
    documentation: &str,
    sizes: impl Iterator<Item = (&'n str, u64)>,
    out: &mut String,
) {
    let _ = writeln!(
        out,
        "\n    /// {documentation}\n    #[allow(non_upper_case_globals)]\n    pub mod {module} {{"
    );
    let mut taken: Vec<String> = Vec::new();
    for (name, size) in sizes {
        let mut identifier = identifier(name);
        while taken.contains(&identifier) {
            identifier.push('_');
        }
        let _ =
            writeln!(out, "        /// `{name}`.\n        pub const {identifier}: u64 = {size};");
        taken.push(identifier);
    }
    out.push_str("    }\n");
}

/// The name of a program's or folder's module, which must differ from those of the types.
pub(super) fn module_name(name: &str) -> String {
    let name = identifier(name);
    if ["Axis", "Dim", "Role", "Tensor", "Step"].contains(&name.as_str()) {
        name + "_"
    } else {
        name
    }
}

/// Words that no item can have as its name, including those that `r#` does not allow.
const RESERVED: [&str; 53] = [
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if",
    "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "_",
];

/// A name as a Rust identifier: other characters become `_`, and what would be a keyword or begin
/// with a digit gets a `_`.
fn identifier(name: &str) -> String {
    let word: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let word = if word.is_empty() { "_".to_owned() } else { word };
    if RESERVED.contains(&word.as_str()) {
        format!("{word}_")
    } else if word.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{word}")
    } else {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::{identifier, module_name};

    #[test]
    fn names_become_identifiers() {
        let all = ["mlp", "fsdp-tp", "8x8", "type", "B'", "", "W.in", "_", "ä"].map(identifier);
        assert_eq!(
            (module_name("Step"), module_name("step")),
            ("Step_".to_owned(), "step".to_owned())
        );
        assert_eq!(all, ["mlp", "fsdp_tp", "_8x8", "type_", "B_", "__", "W_in", "__", "__"]);
    }
}
