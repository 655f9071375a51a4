//! `unused-dimension`: no value has a declared dimension.

use std::collections::BTreeSet;

use shardwise_grammar::ast::{DimDecl, Statement};
use shardwise_ir::Span;

use crate::lint::analysis::tree;
use crate::lint::definition::{Edit, Finding, Fix, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW352",
    name: "unused-dimension",
    group: Group::Tidiness,
    level: Level::Warn,
    of_plans: false,
    what: "No value has a declared dimension.",
    why: "A reader of the program looks for the value that has it; usually it is left over, or \
        another name was meant.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, H=64
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let dims = context
        .program
        .values
        .iter()
        .flat_map(|value| &value.dims)
        .map(|&dim| context.program.dims[dim].name.as_str());
    let used: BTreeSet<&str> = dims.chain(tree::factors(context.file)).collect();
    let mut findings = Vec::new();
    for statement in &context.file.statements {
        let Statement::Dim(dims) = &statement.node else { continue };
        let spans: Vec<Span> = dims.iter().map(tree::dim_span).collect();
        let unused = |dim: &DimDecl| !used.contains(dim.name.node.as_str());
        let gone = dims.iter().filter(|dim| unused(dim)).count();
        for (number, dim) in dims.iter().enumerate().filter(|(_, dim)| unused(dim)) {
            let title = format!("remove `{}`", dim.name.node);
            let fix = if gone == dims.len() {
                Fix::without(title, context.source, &[statement.span])
            } else {
                Fix::safe(
                    title,
                    vec![Edit { span: tree::out_of_list(&spans, number), text: String::new() }],
                )
            };
            let finding = Finding::new(
                &LINT,
                format!("dimension `{}` is not used", dim.name.node),
                dim.name.span,
                "no value has it",
            );
            findings.push(finding.help("remove it").fix(fix));
        }
    }
    findings
}
