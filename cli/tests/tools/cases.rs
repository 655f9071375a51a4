//! Plans with numbers: every program of the tests at sizes that a small machine can run, with data
//! for what it declares and what the unsharded program makes of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use shardwise::export::{EXPORTS, Format};
use shardwise::json::{Argument, NodeJson, Operation, PlanJson};
use shardwise::{Options, Planned, Strategy, codes, verify};

use crate::common::{root, text};

/// The version of JAX that plans are run with, as `pip` reads it: the only place that names it.
pub(crate) const JAX: &str = include_str!("../../python/requirements.txt").trim_ascii();

/// The largest mesh that is simulated.
pub(crate) const DEVICES: u64 = 16;

/// A plan, the same at small sizes, data for its declared values, and the values of its outputs.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) planned: Planned,
    pub(crate) small: PlanJson,
    pub(crate) given: BTreeMap<String, Vec<f64>>,
    pub(crate) expected: BTreeMap<String, Vec<f64>>,
}

impl Case {
    /// The case of a program, if it has a plan and can be computed at small sizes.
    pub(crate) fn of(path: &Path, strategy: shardwise::Strategy) -> Option<Self> {
        let name = name(path)?;
        Self::of_text((name, path.to_str()?), &std::fs::read_to_string(path).ok()?, strategy)
    }

    /// The case of a program's text.
    pub(crate) fn of_text(
        (name, path): (String, &str),
        text: &str,
        strategy: shardwise::Strategy,
    ) -> Option<Self> {
        let options = Options { strategy, memory: Some(f64::INFINITY), ..Options::default() };
        Self::of_plan(name, shardwise::plan(path, text, &options).ok()?)
    }

    /// The case of a plan.
    pub(crate) fn of_plan(name: String, planned: Planned) -> Option<Self> {
        let small = planned.small(DEVICES);
        Self::at_sizes_of(name, planned, &small)
    }

    /// The case of a plan that is run at the sizes of another.
    pub(crate) fn at_sizes_of(name: String, planned: Planned, small: &Planned) -> Option<Self> {
        let program = &small.plan.program;
        let elements = program.values.iter().map(|value| {
            let sizes = value.dims.iter().map(|&dim| program.dims[dim].size);
            sizes.fold(1_u64, u64::saturating_mul)
        });
        let devices = program.mesh.axes.iter().map(|axis| axis.size).product::<u64>();
        if elements.max().unwrap_or(0) > 200_000 || devices > DEVICES {
            return None;
        }
        let json = small.json();
        // What a function of the user computes is written by hand, not by a framework.
        let mut operations = json.steps.iter().filter_map(|step| step.operation.as_ref());
        if operations.any(|of| matches!(of, Operation::Opaque { .. })) {
            return None;
        }
        let given = data(&json);
        let expected = verify::evaluate(program, &given)?;
        Some(Self { name, planned, small: json, given, expected })
    }

    /// Writes the case as the scripts read it into a folder; returns its path.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join(&self.name).with_extension("json");
        let case = json!({ "plan": self.small, "given": self.given, "expected": self.expected });
        std::fs::write(&path, case.to_string()).expect("a file can be written");
        path
    }

    /// Writes the case and its module in a format into a folder; returns the path of the case. What
    /// cannot be written must say so with a code, and is printed.
    #[expect(clippy::print_stdout, reason = "the log of a test shows what is left out")]
    pub(crate) fn write_module(&self, format: &Format<Planned>, folder: &Path) -> Option<PathBuf> {
        let module = match (format.write)(&self.planned) {
            Ok(module) => module,
            Err(why) => {
                assert!(why.contains(codes::tool::NOT_EXPORTED), "{}: {why}", self.name);
                println!("refused {}: {why}", self.name);
                return None;
            }
        };
        let path = self.write(folder);
        std::fs::write(path.with_extension("py"), module).expect("a file can be written");
        Some(path)
    }
}

/// The name of a program's case, which its files have with another ending.
pub(crate) fn name(path: &Path) -> Option<String> {
    let name = path.strip_prefix(root().join("tests/programs")).ok()?.with_extension("");
    Some(name.to_string_lossy().replace(['/', '.'], "-"))
}

/// Runs a script on cases, which must all be equal; `needs` is what to install.
pub(crate) fn assert_equal(script: &mut Command, cases: &[PathBuf], needs: &str) {
    let output = script.args(cases).output().expect("python starts");
    let log = text(&output.stdout);
    let wrong: Vec<&str> = log.lines().filter(|line| !line.starts_with("equal ")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(output.status.success(), "python fails; it needs {needs}: {}", text(&output.stderr));
    assert_eq!(log.lines().count(), cases.len());
}

/// The cases of every program below a folder of `tests/programs`.
pub(crate) fn cases(folder: &str, strategy: shardwise::Strategy) -> Vec<Case> {
    paths(folder).iter().filter_map(|path| Case::of(path, strategy)).collect()
}

/// Every program below a folder of `tests/programs`.
pub(crate) fn paths(folder: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    programs(&root().join("tests/programs").join(folder), &mut paths);
    paths.sort();
    paths
}

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    for path in entries.map(|entry| entry.expect("it can be read").path()) {
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "shard") {
            found.push(path);
        }
    }
}

/// Writes the modules for `PyTorch` of the programs in a folder, and their cases; the paths of
/// those. What cannot be exported yet must say so with a code.
pub(crate) fn torch_modules(folder: &str, scratch: &Path) -> Vec<PathBuf> {
    let torch = EXPORTS.iter().find(|format| format.name == "torch").expect("it is in the table");
    let write = |case: &Case| case.write_module(torch, scratch);
    cases(folder, Strategy::Search).iter().filter_map(write).collect()
}

/// Data for every declared value: indices where the program reads indices; above zero where it
/// divides or takes roots; else of both signs.
fn data(plan: &PlanJson) -> BTreeMap<String, Vec<f64>> {
    let positive = plan.steps.iter().any(|step| step.operation.as_ref().is_some_and(is_positive));
    let size =
        |dim: &String| plan.dims.iter().find(|other| other.dim == *dim).map_or(1, |d| d.size);
    let rows = plan.steps.iter().filter_map(|step| match step.operation.as_ref()? {
        Operation::Take { dim } | Operation::Put { dim } | Operation::Update { dim } => {
            Some(size(dim))
        }
        _ => None,
    });
    let rows = rows.min().unwrap_or(2);
    let mut given = BTreeMap::new();
    for value in plan.values.iter().filter(|value| value.role.is_some()) {
        let elements: u64 = value.dims.iter().map(size).product();
        let is_whole = value.dtype.starts_with("int");
        for (seed, name) in (0..).zip(copies(plan, value.block, &value.value)) {
            let one =
                |n: u64| element(n + 31 * seed + letters(&value.value), is_whole, rows, positive);
            given.insert(name, (0..elements).map(one).collect());
        }
    }
    given
}

/// The names of a value's copies: those of all layers of all loops around it in one sequence.
fn copies(plan: &PlanJson, block: Option<usize>, value: &str) -> Vec<String> {
    let mut loops = block.and_then(|block| path(&plan.body, block)).unwrap_or_default();
    loops.retain(|block| !plan.blocks[*block].microbatches);
    if loops.is_empty() {
        return vec![value.to_owned()];
    }
    let count = loops.iter().map(|block| plan.blocks[*block].count).product::<u64>();
    (0..count).map(|number| format!("{value}@{number}")).collect()
}

/// The blocks around a block, and itself.
fn path(body: &[NodeJson], wanted: usize) -> Option<Vec<usize>> {
    body.iter().find_map(|node| match node {
        NodeJson::Block { block, .. } if *block == wanted => Some(vec![wanted]),
        NodeJson::Block { block, body } => {
            path(body, wanted).map(|inner| [vec![*block], inner].concat())
        }
        NodeJson::Step(_) => None,
    })
}

fn letters(name: &str) -> u64 {
    name.bytes().fold(7, |sum, byte| sum * 13 % 1009 + u64::from(byte))
}

fn element(number: u64, is_whole: bool, rows: u64, positive: bool) -> f64 {
    let mixed =
        number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
            >> 33;
    if is_whole {
        return (mixed % rows) as f64;
    }
    let part = (mixed % 64) as f64 / 64.0;
    if positive { 0.25 + part / 2.0 } else { part - 0.5 }
}

/// Whether an operation is defined above zero only.
fn is_positive(of: &Operation) -> bool {
    let Operation::Map { function, arguments } = of else { return false };
    match function.as_str() {
        "log" | "sqrt" | "rsqrt" | "pow" | "adam_step" => true,
        "div" => matches!(arguments.last(), Some(Argument::Operand(_))),
        _ => false,
    }
}
