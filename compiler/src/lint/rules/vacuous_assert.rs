//! `vacuous-assert`: no plan could break an assert.

use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::{Assert, Budget, Over};

use crate::display::units;
use crate::lint::definition::{Finding, Fix, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW355",
    name: "vacuous-assert",
    group: Group::Tidiness,
    level: Level::Warn,
    of_plans: false,
    what: "An `assert` cannot fail, whatever the plan.",
    why: "It looks like a check and checks nothing: usually the limit has a wrong unit, or the \
        axis is not of the kind that was meant.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
assert no AllGather over dcn
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
assert no AllGather over X
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for assert in &context.program.asserts {
        if let Some(why) = why(context, assert) {
            let finding = Finding::new(
                &LINT,
                format!("`assert {}` cannot fail: {why}", assert.text),
                assert.span,
                "guards nothing",
            );
            let fix = Fix::without("remove it", context.source, &[assert.span]);
            findings.push(finding.help("remove it, or limit what can happen").fix(fix));
        }
    }
    findings
}

/// Why no plan breaks it.
fn why(context: &LintContext<'_>, assert: &Assert) -> Option<String> {
    let mesh = &context.program.mesh;
    let one_device = || mesh.devices() == 1;
    match &assert.budget {
        Budget::No(kind, _) if kind.is_free() => None,
        Budget::No(..) if one_device() => Some("there is one device".to_owned()),
        Budget::No(_, Some(Over::Axes(axes)))
            if axes.iter().all(|&axis| mesh.axes[axis].size == 1) =>
        {
            Some(format!("there is one device along `{}`", mesh.names(axes).join(",")))
        }
        Budget::No(_, Some(Over::Kind(kind))) if !has_kind(context, *kind) => {
            Some(format!("no axis of the mesh is {}", kind.name()))
        }
        Budget::TimeAtMost(quantity, _) if quantity == "comm" && one_device() => {
            Some("there is one device".to_owned())
        }
        Budget::MemoryAtMost(limit) => {
            let capacity = context.capacity().filter(|capacity| limit >= capacity)?;
            Some(format!("a device has {}, and no plan takes more", units::bytes(capacity)))
        }
        _ => None,
    }
}

fn has_kind(context: &LintContext<'_>, kind: AxisKind) -> bool {
    context.program.mesh.axes.iter().any(|axis| axis.runs_over(kind))
}
