//! `plan -e 'In[B_X, D] *D Win[D, F] -> Out[B_X, F]'`: an expression as a complete program.
//!
//! The program is written out as text, so that everything after it (errors included) sees an
//! ordinary source: the options become declarations, every bracketed operand an `input`, the target
//! the output. Statements are separated by `;`. Where some of them declare, they are a program as
//! they stand.

use std::fmt::Write as _;

use shardwise_grammar::ast::{Definition, Expr, ExprKind, Statement};
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

/// The program of `expression`.
///
/// ```
/// use shardwise::oneliner::{Setting, program};
/// let setting = Setting {
///     hardware: Some("tpu-v5e".into()),
///     mesh: Some("X=4".into()),
///     dims: Some("B=64,D=128,F=256".into()),
/// };
/// let source = program("In[B, D_X] *D W[D_X, F] -> Out[B, F_X]", &setting);
/// let planned = shardwise::plan("expression", &source, &shardwise::Options::default())?;
/// assert!(planned.to_string().contains("Out[B, F_X] = ReduceScatter_{X,F}(Out[B, F] {U_X})"));
/// # Ok::<(), shardwise::Findings>(())
/// ```
pub fn program(expression: &str, setting: &Setting) -> String {
    let mut out = String::new();
    let declarations =
        [("hardware", &setting.hardware), ("mesh", &setting.mesh), ("dim", &setting.dims)];
    for (keyword, text) in declarations {
        if let Some(text) = text {
            let _ = writeln!(out, "{keyword} {text}");
        }
    }
    let lines: String = expression.split(';').map(|line| line.trim().to_owned() + "\n").collect();
    let (file, errors) = shardwise_grammar::parse(&lines);
    let definitions = file.statements.iter().map(|statement| match &statement.node {
        Statement::Define(definition) => Some(definition.clone()),
        _ => None,
    });
    let definitions: Option<Vec<Definition>> = definitions.collect();
    let Some(mut definitions) = definitions.filter(|_| errors.is_empty()) else {
        // Lines of a program, complete as they are, or with errors that are reported in them.
        return out + &lines;
    };
    let mut known: Vec<String> = Vec::new();
    for definition in &mut definitions {
        declare(&mut definition.value, &mut known, &mut out);
        known.push(definition.target.name.node.clone());
    }
    if let Some(last) = definitions.last_mut() {
        last.output = last.target.layout.is_some();
    }
    for definition in definitions {
        let keyword = if definition.output { "output " } else { "" };
        let _ = writeln!(
            out,
            "{keyword}{} = {}",
            print::tensor_decl(&definition.target),
            print::expr(&definition.value)
        );
    }
    out
}

/// Declares every bracketed operand that is not known yet, and removes its brackets: they are the
/// declared sharding of the value, not that of this use.
fn declare(expr: &mut Expr, known: &mut Vec<String>, out: &mut String) {
    match &mut expr.node {
        ExprKind::Tensor { name, layout } => {
            if let Some(layout) = layout.take_if(|_| !known.contains(&name.node)) {
                let _ = writeln!(out, "input {}{}", name.node, print::layout(&layout));
                known.push(name.node.clone());
            }
        }
        ExprKind::Number(_) => {}
        ExprKind::Product { left, right, .. } | ExprKind::Binary { left, right, .. } => {
            declare(left, known, out);
            declare(right, known, out);
        }
        ExprKind::Negate(inner) => declare(inner, known, out),
        ExprKind::Call(call) => {
            call.arguments.iter_mut().for_each(|argument| declare(argument, known, out));
        }
    }
}
