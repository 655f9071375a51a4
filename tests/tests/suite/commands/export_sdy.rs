//! `export sdy`: every program is written as `StableHLO` or refused with a code; each value of the
//! text is defined once and before it is read, and its collectives are those of the plan.
//!
//! The suite `tools` has MLIR parse the text, and runs it.

use std::collections::BTreeSet;

use shardwise::export::EXPORTS;
use shardwise::json::{Operation, PlanJson};
use shardwise::{Options, Planned, Strategy, codes, plan};
use shardwise_tests::snapshot::snapshot;
use shardwise_tests::{files, read};

fn planned(name: &str, program: &str, strategy: Strategy) -> Option<Planned> {
    let options = Options { strategy, memory: Some(f64::INFINITY), ..Options::default() };
    plan(name, program, &options).ok()
}

fn exported(planned: &Planned) -> Result<String, String> {
    let sdy = EXPORTS.iter().find(|format| format.name == "sdy").expect("it is in the table");
    (sdy.write)(planned)
}

/// The names of values in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split('%')
        .skip(1)
        .map(move |rest| rest.split_once(|c: char| !is_letter(c)).map_or(rest, |(name, _)| name))
}

/// The first mistake of a module: a value that is defined twice, or read before it is defined.
fn mistake(module: &str) -> Option<String> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for line in module.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        // A loop names its results and, in brackets, what it passes on.
        let (results, rest) = line.split_once(" = ").unwrap_or(("", line));
        let is_loop = rest.starts_with("stablehlo.while(");
        let is_defined = line.starts_with('%') && line.contains(" = ");
        let is_border =
            line.starts_with("(%") || line.starts_with("^bb0(") || line.starts_with("%arg");
        let (defined, read): (Vec<&str>, Vec<&str>) = if is_border && !is_defined {
            (names(line).collect(), Vec::new())
        } else if is_loop {
            let pairs = rest.split(" = ").flat_map(names).collect::<Vec<_>>();
            let inside = pairs.iter().step_by(2);
            let first = pairs.iter().skip(1).step_by(2);
            (names(results).chain(inside.copied()).collect(), first.copied().collect())
        } else if is_defined {
            (names(results).collect(), names(rest).collect())
        } else {
            (Vec::new(), names(line).collect())
        };
        if let Some(name) = read.into_iter().find(|name| !known.contains(name)) {
            return Some(format!("%{name} is not known: {line}"));
        }
        if let Some(name) = defined.into_iter().find(|name| !known.insert(name)) {
            return Some(format!("%{name} is known: {line}"));
        }
    }
    None
}

/// The collectives of a plan that communicate, each as it is named in `StableHLO`.
fn collectives(plan: &PlanJson) -> Vec<&'static str> {
    let name = |operation: &Operation| match operation {
        Operation::AllGather { .. } => Some("all_gather"),
        Operation::AllReduce { .. } => Some("all_reduce"),
        Operation::ReduceScatter { .. } => Some("reduce_scatter"),
        Operation::AllToAll { .. } => Some("all_to_all"),
        Operation::Permute { .. } => Some("collective_permute"),
        _ => None,
    };
    plan.steps.iter().filter_map(|step| name(step.operation.as_ref()?)).collect()
}

/// Those of a module; several after each other of one kind are one.
fn found(module: &str) -> Vec<&str> {
    const NAMES: [&str; 5] =
        ["all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute"];
    let operation = |line: &'_ str| {
        let (_, rest) = line.split_once("\"stablehlo.")?;
        NAMES.iter().find(|name| rest.starts_with(**name)).copied()
    };
    module.lines().filter_map(operation).collect()
}

#[test]
fn every_program_is_written_or_refused_with_a_code() {
    let folders = [
        "attention",
        "book",
        "layers",
        "microbatches",
        "models",
        "nested",
        "operations",
        "optimizer",
        "pipelines",
        "scans",
        "sparse",
        "training",
        "twenty",
    ];
    let mut written = 0;
    for folder in folders {
        for (name, program) in files(&format!("tests/programs/{folder}"), ".shard") {
            let Some(planned) = planned(&name, &program, Strategy::Textbook) else { continue };
            match exported(&planned) {
                Ok(module) => {
                    assert_eq!(mistake(&module), None, "{name}");
                    written += 1;
                }
                Err(why) => assert!(why.starts_with(codes::tool::NOT_EXPORTED), "{name}: {why}"),
            }
        }
    }
    assert!(written > 150, "{written}");
}

#[test]
fn collectives_are_those_of_the_plan_in_its_order() {
    for (name, program) in files("tests/programs/book", ".shard") {
        let Some(planned) = planned(&name, &program, Strategy::Search) else { continue };
        let Ok(module) = exported(&planned) else { continue };
        let mut wanted = collectives(&planned.json());
        let mut found = found(&module);
        // A collective of several dimensions is one operation for each.
        wanted.dedup();
        found.dedup();
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn what_would_be_wrong_is_found() {
    let program = read("tests/programs/mlp-2d.shard");
    let planned = planned("mlp-2d", &program, Strategy::Search).expect("it has a plan");
    let module = exported(&planned).expect("it is written");
    assert_eq!(mistake(&module), None);
    let line = module.lines().find(|line| line.contains("dot_general")).expect("it multiplies");
    assert!(mistake(&module.replace(line, "")).is_some());
    assert!(mistake(&module.replace(line, &format!("{line}\n{line}"))).is_some());
}

#[test]
fn modules_look_like_this() {
    for name in ["mlp-2d", "layers/train", "pipelines/gpipe"] {
        let program = read(&format!("tests/programs/{name}.shard"));
        let planned = planned(name, &program, Strategy::Search).expect("it has a plan");
        // At small sizes, with few devices in its groups.
        let module = exported(&planned.small(8)).expect("it is written");
        snapshot("formats", &format!("{}-sdy", name.replace('/', "-")), &module);
    }
}
