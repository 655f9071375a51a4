//! `axis-not-as-named`: an axis is called after a strategy that the plan does not use it for.

use shardwise_grammar::ast::Statement;
use shardwise_grammar::span::Name;
use shardwise_ir::sharding::AxisRef;

use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};
use crate::planned::parallelism::{Role, roles};

pub(crate) const LINT: Lint = Lint {
    code: "SW342",
    name: "axis-not-as-named",
    group: Group::Mesh,
    level: Level::Warn,
    of_plans: false,
    what: "An axis is called `tp` or `ep`, or by another usual name of tensor or expert \
        parallelism, and acts as something else in the plan.",
    why: "Who reads the mesh takes the name for what the axis does. Mostly the subscript stands at \
        another dimension than was meant: at the summed dimension of a weight that is gathered \
        before use (FSDP), or at the batch (DP).",
    bad_example: "hardware tpu-v5p
mesh dp=4, tp=4
dim B=65536, D=8192, F=32768
input In[B_{dp,tp}, D]
param Win[D_tp, F], Wout[F, D_tp]
h = gelu(In *D Win)
Out = h *F Wout
output Out[B_{dp,tp}, D]
",
    good_example: "hardware tpu-v5p
mesh dp=4, tp=4
dim B=65536, D=8192, F=32768
input In[B_dp, D_tp]
param Win[D, F_tp], Wout[F_tp, D]
h = gelu(In *D Win)
Out = h *F Wout
output Out[B_dp, D_tp]
",
    parameters: &[],
    check,
};

/// Usual names of axes, the strategy that each stands for, and brackets in which it acts so.
const NAMES: [(&[&str], Role, &str); 2] = [
    (&["tp", "tensor", "model", "mp"], Role::Tensor, "Win[D, F_AXIS]"),
    (&["ep", "expert", "experts"], Role::Expert, "Win[E_AXIS, D, F]"),
];

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let best = context.best();
    let found = roles(&best.plan, &best.report);
    let mesh = &context.program.mesh;
    let acting = found.iter().filter_map(|acts| {
        let axis = mesh.find(&acts.axis).map(AxisRef::whole)?;
        let word = acts.axis.to_lowercase();
        let (_, role, brackets) = NAMES.iter().find(|(names, ..)| names.contains(&&word[..]))?;
        let acts_so = acts.roles.iter().any(|acts| acts.role == *role);
        if acts_so || !context.names(axis) {
            return None;
        }
        let message = format!("{acts}, and not as {}", role.name());
        let written = written(context, &acts.axis)?;
        let finding = Finding::new(&LINT, message, written.span, "this name");
        Some(finding.help(format!(
            "split weights over it where products read them, as in `{}`, or give the axis another \
            name",
            brackets.replace("AXIS", &acts.axis)
        )))
    });
    acting.collect()
}

/// The name of an axis where the mesh declares it.
fn written<'a>(context: &LintContext<'a>, axis: &str) -> Option<&'a Name> {
    let statements = context.file.statements.iter();
    let mut axes = statements.flat_map(|statement| match &statement.node {
        Statement::Mesh(axes) => &axes[..],
        _ => &[],
    });
    axes.find(|of| of.name.node == axis).map(|of| &of.name)
}
