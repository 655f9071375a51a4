//! Canonical text of nodes of the tree.

use crate::ast::{
    Assertion, AxisDecl, Backward, BinaryOp, Call, Definition, DimDecl, DimUse, Expr, ExprKind,
    HardwareRef, Keeps, Layout, Microbatches, Optimizer, Pipeline, Repeat, Role, Scan, Setting,
    SizeExpr, SizeFactor, Stage, StateOver, Statement, Subscript, TensorDecl, UnreducedUse,
};
use crate::scan;
use crate::span::{Name, Spanned};

/// One statement; `source` is the text it was parsed from (for numbers and forms that are kept as
/// written).
pub fn statement(statement: &Statement, source: &str) -> String {
    match statement {
        Statement::Plan => "plan".to_owned(),
        Statement::Hardware(named) => hardware(named, source),
        Statement::Mesh(axes) => {
            format!("mesh {}", join(axes.iter().map(|axis| mesh_axis(axis, source))))
        }
        Statement::Dim(dims) => {
            format!("dim {}", join(dims.iter().map(|dim| dim_decl(dim, source))))
        }
        Statement::Declare(role, tensors) => {
            format!("{} {}", role_name(*role), join(tensors.iter().map(tensor_decl)))
        }
        Statement::Define(definition) => define(definition, source),
        Statement::Assert(assert) => format!("assert {}", assertion(assert)),
        Statement::Allow(codes) => {
            format!("allow {}", join(codes.iter().map(|code| code.node.clone())))
        }
        Statement::Backward(directive) => backward(directive, source),
        Statement::Phase(phase, kept) => format!("phase {}{}", phase.name(), keeps(*kept)),
        Statement::Pipeline(of) => pipeline(of, source),
        Statement::Stage(of) => stage(of),
        Statement::Repeat(of) => repeat(of, source),
        Statement::Scan(of) => scan(of),
        Statement::Microbatches(of) => microbatches(of, source),
        Statement::Optimizer(of) => optimizer(of),
        Statement::Close => "}".to_owned(),
        Statement::Checkpoint { how, names } => {
            let how = how.as_ref().map_or(String::new(), |how| format!("{} ", how.node));
            format!("checkpoint {how}{}", join(names.iter().map(|name| name.node.clone())))
                .trim_end()
                .to_owned()
        }
        Statement::Hold(tensors) => format!("hold {}", join(tensors.iter().map(tensor_decl))),
        Statement::Carry(tensors) => format!("carry {}", join(tensors.iter().map(tensor_decl))),
        Statement::Enter(definition) => format!("carry {}", define(definition, source)),
        Statement::Next(definition) => format!("next {}", define(definition, source)),
    }
}

fn hardware(named: &HardwareRef, source: &str) -> String {
    let file = named.file.as_ref().map(|file| {
        source
            .get(file.span.start..file.span.end)
            .map_or_else(|| format!("{:?}", file.node), str::to_owned)
    });
    let words: Vec<&str> = match (&named.name, &file) {
        (Some(name), Some(file)) => vec!["hardware", &name.node, "from", file],
        (Some(word), None) => vec!["hardware", &word.node],
        (None, file) => ["hardware"].into_iter().chain(file.as_deref()).collect(),
    };
    join([words.join(" ")].into_iter().chain(settings(&named.settings)))
}

/// The keyword of a role.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Param => "param",
        Role::FrozenParam => "frozen param",
        Role::State => "state",
        Role::Output => "output",
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn mesh_axis(axis: &AxisDecl, source: &str) -> String {
    let mut text = format!("{}={}", axis.name.node, size(&axis.size, source));
    for (word, factors) in [("over", &axis.over), ("as", &axis.parts)] {
        let Some(factors) = factors else { continue };
        let numbers: Vec<String> = factors.node.iter().map(u64::to_string).collect();
        let written = source.get(factors.span.start..factors.span.end);
        let written = written.map_or(numbers.join("x"), |written| written.replace('×', "x"));
        text.push_str(&format!(" {word} {written}"));
    }
    for option in &axis.options {
        text.push(' ');
        text.push_str(&option.node);
    }
    text
}

fn dim_decl(dim: &DimDecl, source: &str) -> String {
    let pad = if dim.pad.is_some() { " pad" } else { "" };
    let zigzag = dim.zigzag.as_ref().map(|pairs| format!(" zigzag {}", size(&pairs.node, source)));
    format!("{}={}{pad}{}", dim.name.node, size(&dim.size, source), zigzag.unwrap_or_default())
}

fn size(size: &SizeExpr, source: &str) -> String {
    let mut text = String::new();
    for (number, term) in size.terms.iter().enumerate() {
        let sign = if term.is_subtracted { " - " } else { " + " };
        text.push_str(if number > 0 { sign } else { "" });
        for (number, part) in term.parts.iter().enumerate() {
            let symbol = if part.divides { "/" } else { "*" };
            text.push_str(if number > 0 { symbol } else { "" });
            text.push_str(&size_factor(&part.factor, source));
        }
    }
    text
}

fn size_factor(factor: &Spanned<SizeFactor>, source: &str) -> String {
    match &factor.node {
        SizeFactor::Dim(name) => name.clone(),
        SizeFactor::Group(inner) => format!("({})", size(inner, source)),
        SizeFactor::Number(number) => {
            let written = source.get(factor.span.start..factor.span.end).map(str::to_owned);
            written.or(number.map(|n| n.to_string())).unwrap_or_default()
        }
    }
}

/// `In: bf16[B_X, D]`.
pub fn tensor_decl(tensor: &TensorDecl) -> String {
    let dtype = tensor.dtype.as_ref().map_or(String::new(), |dtype| format!(": {}", dtype.node));
    let brackets = tensor.layout.as_ref().map_or(String::new(), layout);
    format!("{}{dtype}{brackets}", tensor.name.node)
}

/// `[B_X, D] {U_Y}`.
pub fn layout(layout: &Layout) -> String {
    let mut text = format!("[{}]", join(layout.dims.iter().map(dim_use)));
    for unreduced in &layout.unreduced {
        text.push_str(&unreduced_use(unreduced));
    }
    text
}

fn unreduced_use(unreduced: &UnreducedUse) -> String {
    format!(" {{{}_{}}}", unreduced.kind.node, comma(&unreduced.axes))
}

/// `B_X`, `D_{data,model}`, `F_?`, `B_{X,?}`.
pub fn dim_use(dim: &DimUse) -> String {
    match &dim.subscript {
        Subscript::Whole => dim.name.node.clone(),
        Subscript::Open => format!("{}_?", dim.name.node),
        Subscript::First(axes) => format!("{}_{{{},?}}", dim.name.node, comma(axes)),
        Subscript::Axes(axes) => format!("{}_{}", dim.name.node, words(axes)),
    }
}

/// One word as it is, several in braces.
fn words(words: &[Name]) -> String {
    if let [one] = words { one.node.clone() } else { format!("{{{}}}", comma(words)) }
}

/// `XY->J,Z->K`: an arrow before each word whose place is that of a receiver.
fn moves(words: &[Name], receivers: &[usize]) -> String {
    let mut text = String::new();
    for (place, word) in words.iter().enumerate() {
        text += if place == 0 {
            ""
        } else if receivers.contains(&place) {
            "->"
        } else {
            ","
        };
        text += &word.node;
    }
    text
}

fn comma(words: &[Name]) -> String {
    words.iter().map(|word| word.node.as_str()).collect::<Vec<_>>().join(",")
}

fn define(definition: &Definition, source: &str) -> String {
    let keyword = if definition.output { "output " } else { "" };
    let others = definition.others.iter().map(tensor_decl);
    let target = join([tensor_decl(&definition.target)].into_iter().chain(others));
    let arrow = definition.value.span.start < definition.target.span.start && !source.is_empty();
    let value = expr(&definition.value);
    match arrow {
        true if scan::is_taken(&value) => format!("({value}) -> {target}"),
        true => format!("{value} -> {target}"),
        false => {
            let kernel = definition.kernel.as_ref();
            let kernel = kernel.map_or_else(String::new, |of| format!(" in k{}", of.node));
            format!("{keyword}{target} = {value}{kernel}")
        }
    }
}

/// An expression, with parentheses only where precedence requires them.
pub fn expr(expr: &Expr) -> String {
    binding(expr, 0)
}

/// `level`: 0 any expression, 1 an operand of a comparison or sum, 2 the left operand of a product,
/// 3 its right operand or that of a sign.
fn binding(expr: &Expr, level: u8) -> String {
    let (text, own) = match &expr.node {
        ExprKind::Tensor { name, layout: brackets } => {
            (format!("{}{}", name.node, brackets.as_ref().map_or(String::new(), layout)), 4)
        }
        ExprKind::Number(number) => (number.clone(), 4),
        ExprKind::Call(call) => (call_text(call), 4),
        ExprKind::Negate(inner) => (format!("-{}", binding(inner, 3)), 3),
        ExprKind::Product { left, right, contracted } => {
            let right = binding(right, 3);
            let star = contracted.as_ref().map_or("*".to_owned(), |dims| star(&dims.node, &right));
            (format!("{} {star} {right}", binding(left, 2)), 2)
        }
        ExprKind::Binary { op: BinaryOp::Div, left, right } => {
            (format!("{} / {}", binding(left, 2), binding(right, 3)), 2)
        }
        ExprKind::Binary { op: BinaryOp::Compare(how), left, right } => {
            (format!("{} {} {}", binding(left, 1), how.symbol(), binding(right, 1)), 0)
        }
        ExprKind::Binary { op, left, right } => {
            let sign = if *op == BinaryOp::Add { '+' } else { '-' };
            (format!("{} {sign} {}", binding(left, 1), binding(right, 2)), 1)
        }
    };
    if own < level { format!("({text})") } else { text }
}

/// `*J`; `*_J` or `*_{…}` where the short form would be ambiguous.
fn star(dims: &[Name], right: &str) -> String {
    if !dims.iter().all(|dim| dim.node.starts_with(char::is_alphabetic)) {
        return format!("*_{{{}}}", comma(dims));
    }
    match dims {
        [first, ..] if right.starts_with('-') && first.node == "LOCAL" => {
            format!("*_{{{}}}", comma(dims))
        }
        _ if right.starts_with('-') => format!("*_{}", comma(dims)),
        _ => format!("*{}", comma(dims)),
    }
}

fn call_text(call: &Call) -> String {
    let generic = call.generic.as_ref().map_or(String::new(), |name| format!("<{}>", name.node));
    let subscript = call.subscript.as_ref().map_or(String::new(), |subscript| {
        match subscript.node.split_at_checked(call.before_arrow) {
            Some((from @ [_, ..], to)) => {
                format!("_{{{}->{}}}", comma(from), comma(to))
            }
            _ if call.receivers.is_empty() => format!("_{}", words(&subscript.node)),
            _ => format!("_{{{}}}", moves(&subscript.node, &call.receivers)),
        }
    });
    let options = call.options.iter().map(|(option, to)| format!("{}={}", option.node, to.node));
    let arguments = join(call.arguments.iter().map(expr).chain(options));
    format!("{}{generic}{subscript}({arguments})", call.function.node)
}

/// `backward from Out given dOut, microbatches=8 of B`.
fn backward(directive: &Backward, source: &str) -> String {
    let given =
        directive.given.as_ref().map_or(String::new(), |name| format!(" given {}", name.node));
    let parts = directive
        .microbatches
        .as_ref()
        .map_or(String::new(), |parts| format!(", microbatches={}", size(parts, source)));
    let of = directive.of.as_ref().map_or(String::new(), |name| format!(" of {}", name.node));
    let dtype = directive
        .gradients
        .as_ref()
        .map_or(String::new(), |dtype| format!(", gradients={}", dtype.node));
    let kept = keeps(directive.keeps);
    let written = format!("backward from {}{given}{parts}{of}{dtype}{kept}", directive.from.node);
    join([written].into_iter().chain(directive.repeated.iter().map(|option| option.node.clone())))
}

/// `, until=step, weights=kept`.
fn keeps(Keeps { until, weights }: Keeps) -> String {
    let until = until.map_or(String::new(), |until| format!(", until={}", until.name()));
    let weights = weights.map_or(String::new(), |weights| format!(", weights={}", weights.name()));
    until + &weights
}

/// `optimizer adam over X, moments=f32`.
fn optimizer(of: &Optimizer) -> String {
    let over = match &of.over {
        None => String::new(),
        Some(StateOver::Open) => " over _?".to_owned(),
        Some(StateOver::Axes(axes)) => format!(" over {}", words(axes)),
    };
    join([format!("optimizer {}{over}", of.name.node)].into_iter().chain(settings(&of.settings)))
}

fn settings(of: &[Setting]) -> impl Iterator<Item = String> {
    of.iter().map(|setting| format!("{}={}", setting.name.node, setting.value.node))
}

/// `repeat L=40 {`.
fn repeat(of: &Repeat, source: &str) -> String {
    let count = of
        .count
        .as_ref()
        .map_or(" reversed".to_owned(), |count| format!("={}", size(count, source)));
    format!("repeat {}{count} {{", of.name.node)
}

/// `scan T in C {`.
fn scan(of: &Scan) -> String {
    let chunk = of.chunk.as_ref().map_or(String::new(), |chunk| format!(" in {}", chunk.node));
    let reversed = if of.is_reversed { " reversed" } else { "" };
    format!("scan {}{chunk}{reversed} {{", of.dim.node)
}

/// `microbatches B=B'*8 {`.
fn microbatches(of: &Microbatches, source: &str) -> String {
    format!("microbatches {}={}*{} {{", of.whole.node, of.part.node, size(&of.count, source))
}

/// `pipeline Z, microbatches=8 of B, schedule=1f1b {`.
fn pipeline(of: &Pipeline, source: &str) -> String {
    let parts = of
        .microbatches
        .as_ref()
        .map_or(String::new(), |parts| format!(", microbatches={}", size(parts, source)));
    let batch = of.batch.as_ref().map_or(String::new(), |batch| format!(" of {}", batch.node));
    let options = of.options.iter().map(|(option, word)| format!("{}={}", option.node, word.node));
    let head = format!("pipeline {}{parts}{batch}", of.axis.node);
    let reversed = if of.is_reversed { " reversed" } else { "" };
    format!("{}{reversed} {{", join([head].into_iter().chain(options)))
}

/// `stage head {`.
fn stage(of: &Stage) -> String {
    format!("stage {}{} {{", of.name.node, if of.is_reversed { " reversed" } else { "" })
}

/// `comm <= 2ms`.
pub fn assertion(assertion: &Assertion) -> String {
    match assertion {
        Assertion::AtMost { quantity, number, unit } => {
            format!("{} <= {}{}", quantity.node, number.node, unit.node)
        }
        Assertion::No { collective, over: None } => format!("no {}", collective.node),
        Assertion::No { collective, over: Some(over) } => {
            format!("no {} over {}", collective.node, over.node)
        }
        Assertion::StaysSharded(value) => format!("{} stays sharded", value.node),
    }
}
