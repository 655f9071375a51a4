//! `shadowed-name`: one name that a reader can take for two things.

use shardwise_grammar::ast::Statement;
use shardwise_grammar::span::Name;
use shardwise_ir::functions::Function;

use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW354",
    name: "shadowed-name",
    group: Group::Tidiness,
    level: Level::Warn,
    of_plans: false,
    what: "A name hides another: an axis has the name of two others together, or of a dimension, \
        or a value has the name of a function.",
    why: "`D_XY` is D sharded over X and then over Y, unless there is an axis `XY`: then it is \
        that one, and a reader who has not read the mesh misreads the program.",
    bad_example: "hardware tpu-v5p
mesh X=4, Y=4, XY=4
dim B=8192, D=8192
input In[B_X, D_Y], Bias[B, D_XY]
Out = gelu(In)
Other = gelu(Bias)
output Out[B_X, D_Y], Other[B, D_XY]
",
    good_example: "hardware tpu-v5p
mesh X=4, Y=4, Z=4
dim B=8192, D=8192
input In[B_X, D_Y], Bias[B, D_Z]
Out = gelu(In)
Other = gelu(Bias)
output Out[B_X, D_Y], Other[B, D_Z]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let (axes, dims) = (axes(context), dims(context));
    let mut findings = Vec::new();
    for axis in &axes {
        if let Some(parts) = parts(&axis.node, &axes) {
            let message = format!(
                "axis `{}` hides {parts}: `_{}` is the axis, not both",
                axis.node, axis.node
            );
            findings.push(found(message, axis, "give the axis a name of its own"));
        }
        if let Some(dim) = dims.iter().find(|dim| dim.node == axis.node) {
            let message = format!("`{}` is an axis and a dimension", axis.node);
            findings.push(
                found(message, axis, "call one of them otherwise").and(dim.span, "the dimension"),
            );
        }
    }
    for value in context.program.values.iter().filter(|value| Function::find(&value.name).is_some())
    {
        let message = format!("value `{}` has the name of a function", value.name);
        let finding = Finding::new(&LINT, message, value.span, "this name");
        findings
            .push(finding.help("give it another name; a function's is followed by a parenthesis"));
    }
    findings
}

fn found(message: String, name: &Name, help: &str) -> Finding {
    Finding::new(&LINT, message, name.span, "this name").help(help)
}

/// The axes of one letter that a longer name spells.
fn parts(name: &str, axes: &[&Name]) -> Option<String> {
    let letters: Vec<String> = name.chars().map(String::from).collect();
    let all = letters.len() > 1
        && letters.iter().all(|letter| axes.iter().any(|axis| axis.node == *letter));
    all.then(|| {
        letters.iter().map(|letter| format!("`{letter}`")).collect::<Vec<_>>().join(" and ")
    })
}

fn axes<'a>(context: &LintContext<'a>) -> Vec<&'a Name> {
    let meshes = context
        .file
        .statements
        .iter()
        .filter_map(|s| if let Statement::Mesh(axes) = &s.node { Some(axes) } else { None });
    meshes.flatten().map(|axis| &axis.name).collect()
}

fn dims<'a>(context: &LintContext<'a>) -> Vec<&'a Name> {
    let dims = context
        .file
        .statements
        .iter()
        .filter_map(|s| if let Statement::Dim(dims) = &s.node { Some(dims) } else { None });
    dims.flatten().map(|dim| &dim.name).collect()
}
