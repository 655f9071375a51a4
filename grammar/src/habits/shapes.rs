//! The dimensions of values, for messages about statements that could not be parsed.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{Call, Expr, ExprKind, File, Layout, Statement};

/// What a file declares, as far as it could be parsed.
pub(crate) struct Shapes {
    /// Reads an expression in a text.
    read: fn(&str) -> Option<Expr>,
    dims: BTreeSet<String>,
    axes: BTreeSet<String>,
    /// The dimensions of its values.
    values: BTreeMap<String, Vec<String>>,
}

impl Shapes {
    pub(crate) fn of(file: &File, read: fn(&str) -> Option<Expr>) -> Self {
        let (dims, axes, values) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let mut shapes = Self { read, dims, axes, values };
        for statement in &file.statements {
            let tensors = match &statement.node {
                Statement::Declare(_, tensors) => tensors.iter().collect(),
                Statement::Define(definition) => vec![&definition.target],
                Statement::Mesh(declared) => {
                    shapes.axes.extend(declared.iter().map(|axis| axis.name.node.clone()));
                    continue;
                }
                Statement::Dim(declared) => {
                    shapes.dims.extend(declared.iter().map(|dim| dim.name.node.clone()));
                    continue;
                }
                _ => continue,
            };
            for tensor in tensors {
                let written = tensor.layout.as_ref().map(dims_of);
                let computed = || match &statement.node {
                    Statement::Define(definition) => shapes.of_expr(&definition.value),
                    _ => None,
                };
                let Some(dims) = written.or_else(computed) else { continue };
                shapes.values.insert(tensor.name.node.clone(), dims);
            }
        }
        shapes
    }

    pub(super) fn get(&self, value: &str) -> Option<&[String]> {
        self.values.get(value).map(Vec::as_slice)
    }

    pub(super) fn is_dim(&self, name: &str) -> bool {
        self.dims.contains(name)
    }

    pub(super) fn is_axis(&self, name: &str) -> bool {
        self.axes.contains(name)
    }

    /// The dimensions that two values share, as a suffix: `D`, `N,H`.
    pub(super) fn shared(&self, left: &str, right: &str) -> Option<String> {
        let (left, right) = (self.get(left)?, self.get(right)?);
        let shared: Vec<&str> =
            left.iter().filter(|dim| right.contains(dim)).map(String::as_str).collect();
        (!shared.is_empty()).then(|| shared.join(","))
    }

    /// The dimensions of an expression in a text.
    pub(super) fn of_text(&self, text: &str) -> Option<Vec<String>> {
        self.of_expr(&(self.read)(text)?)
    }

    /// The dimensions of an expression, where they follow from those of its values.
    fn of_expr(&self, expr: &Expr) -> Option<Vec<String>> {
        match &expr.node {
            ExprKind::Tensor { layout: Some(layout), .. } => Some(dims_of(layout)),
            ExprKind::Tensor { name, layout: None } => self.get(&name.node).map(<[_]>::to_vec),
            ExprKind::Number(_) => Some(Vec::new()),
            ExprKind::Negate(inner) => self.of_expr(inner),
            ExprKind::Binary { left, right, .. } => self.of_all([&**left, &**right]),
            ExprKind::Product { left, right, contracted } => {
                let mut dims = self.of_all([&**left, &**right])?;
                let summed = contracted.iter().flat_map(|dims| &dims.node);
                summed.for_each(|summed| dims.retain(|dim| *dim != summed.node));
                Some(dims)
            }
            ExprKind::Call(call) => self.of_call(call),
        }
    }

    /// All dimensions that operands have.
    fn of_all<'e>(&self, operands: impl IntoIterator<Item = &'e Expr>) -> Option<Vec<String>> {
        let mut all = Vec::new();
        for operand in operands {
            let dims = self.of_expr(operand)?;
            all.extend(dims.into_iter().filter(|dim| !all.contains(dim)).collect::<Vec<_>>());
        }
        Some(all)
    }

    fn of_call(&self, call: &Call) -> Option<Vec<String>> {
        let function = call.function.node.as_str();
        let mut dims = self.of_all(&call.arguments)?;
        match &call.subscript {
            None => (!OTHER_DIMS.contains(&function)).then_some(dims),
            Some(_) if ALIKE.contains(&function) => Some(dims),
            Some(along) if REDUCTIONS.contains(&function) => {
                dims.retain(|dim| along.node.iter().all(|along| along.node != *dim));
                Some(dims)
            }
            Some(_) => None,
        }
    }
}

/// Functions that leave the dimensions that they go along.
const ALIKE: [&str; 5] = ["softmax", "layernorm", "rmsnorm", "cumsum", "revcumsum"];

/// Functions that lose the dimensions that they go along.
const REDUCTIONS: [&str; 6] = ["sum", "mean", "max", "min", "logsumexp", "argmax"];

/// Functions without a subscript whose results have other dimensions than their operands.
const OTHER_DIMS: [&str; 8] =
    ["attention", "concat", "last", "rename", "reshape", "route", "split", "total"];

fn dims_of(layout: &Layout) -> Vec<String> {
    layout.dims.iter().map(|dim| dim.name.node.clone()).collect()
}
