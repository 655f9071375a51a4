//! `plan -e 'In[B_X, D] *D Win[D, F] -> Out[B_X, F]'`: an expression that stands for a whole program.
//!
//! The program is written out as text, so that everything behind it (errors included) sees an ordinary source: the options become
//! declarations, every bracketed operand an `input`, the target the output.

use std::fmt::Write as _;

use shardwise_grammar::ast::{Expr, ExprKind, Statement};
use shardwise_grammar::print;

/// The options that complete an expression.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// `tpu-v5p`.
    pub hardware: Option<String>,
    /// `X=4,Y=2`.
    pub mesh: Option<String>,
    /// `B=1024,D=4096`.
    pub dims: Option<String>,
}

/// The program that `expression` stands for.
pub fn program(expression: &str, setting: &Setting) -> String {
    let mut out = String::new();
    let declarations = [("hardware", &setting.hardware), ("mesh", &setting.mesh), ("dim", &setting.dims)];
    for (keyword, text) in declarations {
        if let Some(text) = text {
            let _ = writeln!(out, "{keyword} {text}");
        }
    }
    let (file, _) = shardwise_grammar::parse(expression);
    let mut inputs: Vec<String> = Vec::new();
    for statement in &file.statements {
        if let Statement::Define(definition) = &statement.node {
            collect_inputs(&definition.value, &mut inputs);
        }
    }
    for input in inputs {
        let _ = writeln!(out, "input {input}");
    }
    for (i, line) in expression.split(';').enumerate() {
        let last = i + 1 == expression.split(';').count();
        let _ = writeln!(out, "{}{}", if last { "output " } else { "" }, line.trim());
    }
    out
}

fn collect_inputs(expr: &Expr, inputs: &mut Vec<String>) {
    match &expr.node {
        ExprKind::Tensor { name, layout: Some(layout) } => {
            let text = format!("{}{}", name.node, print::layout(layout));
            if !inputs.contains(&text) {
                inputs.push(text);
            }
        }
        ExprKind::Tensor { .. } | ExprKind::Number(_) => {}
        ExprKind::Product { left, right, .. } | ExprKind::Binary { left, right, .. } => {
            collect_inputs(left, inputs);
            collect_inputs(right, inputs);
        }
        ExprKind::Negate(inner) => collect_inputs(inner, inputs),
        ExprKind::Call(call) => call.arguments.iter().for_each(|argument| collect_inputs(argument, inputs)),
    }
}
