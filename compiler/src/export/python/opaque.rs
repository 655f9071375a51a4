//! Functions that the language does not have: the module calls them, and their author writes them.

use indexmap::IndexMap;

use super::super::json::{Operation, PlanJson, StepJson, TensorJson};
use super::super::walk::{Result, unsupported};
use super::expression::names;
use super::layout;
use super::names::identifier;

/// The name of a function in the module.
pub(super) fn function_name(function: &str) -> String {
    identifier(&format!("opaque_{function}"))
}

/// The functions that a plan calls, each to be written where it raises an error.
pub(super) fn functions(plan: &PlanJson) -> Result {
    let mut written: IndexMap<String, &str> = IndexMap::new();
    let mut text = String::new();
    for step in &plan.steps {
        let Some(Operation::Opaque { function, from, to }) = &step.operation else { continue };
        let name = function_name(function);
        match written.insert(name.clone(), function) {
            None => text += &stub(step, &name, function, [from, to]),
            Some(other) if other != function => {
                return unsupported(
                    &step.value,
                    format!("`{function}` beside `{other}`, which have one name in Python,"),
                );
            }
            Some(_) => {}
        }
    }
    Ok(text)
}

fn stub(step: &StepJson, name: &str, function: &str, whole: [&[String]; 2]) -> String {
    let shape = |of: &TensorJson| format!("[{}]", names(of).join(", "));
    let operands: Vec<String> = step.operands.iter().map(shape).collect();
    let letters: Vec<String> = ('a'..='z').take(operands.len()).map(String::from).collect();
    let [from, to] = whole.map(|dims| dims.join(", "));
    let blocks = match (from.is_empty(), from == to) {
        (true, _) => "of blocks, element by element".to_owned(),
        (_, true) => format!("of blocks that are whole along {from}"),
        (..) => format!("of blocks that are whole along {from}, in place of which is [{to}]"),
    };
    format!(
        "\n\ndef {name}({}):\n{}{}",
        letters.join(", "),
        layout::line(
            4,
            &format!("\"\"\"{} -> {}: {blocks}.\"\"\"", operands.join(", "), shape(&step.result))
        ),
        layout::line(
            4,
            &format!("raise NotImplementedError(\"write here what `{function}` computes\")")
        )
    )
}
