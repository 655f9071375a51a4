//! Calls as other frameworks write them, translated into the line to write where the values that
//! they name are known: `In.sum(-1)`, `In.to(torch.bfloat16)`, `torch.matmul(In, W)`.

use shardwise_grammar::ast::{Call, Expr, ExprKind};
use shardwise_grammar::print;

use super::expression::scalar;
use super::{Resolver, habits};
use crate::dtype::DType;
use crate::functions::{AlongFn, Composite, Function, ReduceFn};
use crate::ids::ValueId;

impl Resolver<'_> {
    /// What to write for a call of a function that is not known; `None` if it is not recognised.
    pub(super) fn translated(&self, call: &Call) -> Option<String> {
        let name = call.function.node.as_str();
        let (owner, function) = name.rsplit_once('.').unwrap_or(("", name));
        let function = function.to_lowercase();
        if let Some(&value) = self.value_names.get(owner) {
            return self.method(owner, value, &function, call);
        }
        if let ("pow" | "power", [base, exponent]) = (&*function, &call.arguments[..]) {
            return Some(power(&print::expr(base), exponent));
        }
        let is_product = habits::PRODUCTS.contains(&function.as_str());
        let operands: Vec<_> =
            call.arguments.iter().filter_map(|argument| self.value_named(argument)).collect();
        match &operands[..] {
            [left, right] if is_product => self.product_of(*left, *right),
            [(operand, value), ..] if goes_along(&function) => {
                let place = call.arguments.get(1).and_then(scalar);
                Some(self.along_place(&function, operand, *value, place))
            }
            _ => None,
        }
    }

    /// `In.sum(-1)`, `In.matmul(W)`: a function of the value before the dot.
    fn method(&self, owner: &str, value: ValueId, function: &str, call: &Call) -> Option<String> {
        let first = call.arguments.first();
        if habits::PRODUCTS.contains(&function) {
            return self.product_of((owner, value), self.value_named(first?)?);
        }
        if goes_along(function) {
            return Some(self.along_place(function, owner, value, first.and_then(scalar)));
        }
        if let ("pow" | "power", Some(exponent)) = (function, first) {
            return Some(power(owner, exponent));
        }
        if Function::find(function).is_some() {
            let operands =
                call.arguments.iter().map(|operand| format!(", {}", print::expr(operand)));
            return Some(format!("write `{function}({owner}{})`", operands.collect::<String>()));
        }
        match function {
            "to" | "astype" | "type" => {
                let asked = first.and_then(written).unwrap_or_default();
                let name = asked.rsplit('.').next().unwrap_or_default();
                let known = || DType::from_name(name).map(DType::name);
                let dtype = habits::dtype(name).or_else(known).unwrap_or("f32");
                Some(format!("write `cast<{dtype}>({owner})`"))
            }
            "reshape" | "view" | "flatten" => Some(format!(
                "write `Out[B, N, H] = reshape({owner})`: the left side names the dimensions"
            )),
            "transpose" | "permute" | "swapaxes" | "t" => {
                Some(format!("write `{owner}`: dimensions go by name, not by place"))
            }
            "contiguous" | "clone" | "copy" | "squeeze" | "unsqueeze" => {
                Some(format!("write `{owner}`: only its dimensions and their names count"))
            }
            _ => habits::dtype(function).map(|dtype| format!("write `cast<{dtype}>({owner})`")),
        }
    }

    /// `sum_D(In)`, along the dimension at the place that is given, or the last.
    pub(super) fn along_place(
        &self,
        function: &str,
        operand: &str,
        value: ValueId,
        place: Option<String>,
    ) -> String {
        let dims = &self.values[value].dims;
        let place = place.and_then(|place| place.parse::<isize>().ok()).unwrap_or(-1);
        let from_start = if place < 0 { dims.len().checked_add_signed(place) } else { None };
        let index = from_start.or_else(|| usize::try_from(place).ok());
        let dim = index.and_then(|index| dims.get(index)).or(dims.last());
        let dim = dim.map_or("D", |&dim| self.dims[dim].name.as_str());
        let others = if dims.len() > 1 { ", or another of its dimensions" } else { "" };
        format!("write `{function}_{dim}({operand})`{others}")
    }

    /// `In *D W`, over the dimensions that both have.
    fn product_of(&self, left: (&str, ValueId), right: (&str, ValueId)) -> Option<String> {
        let of_right = &self.values[right.1].dims;
        let shared = self.values[left.1].dims.iter().filter(|dim| of_right.contains(dim));
        let shared: Vec<&str> = shared.map(|&dim| self.dims[dim].name.as_str()).collect();
        let suffix = match &shared[..] {
            [] => return None,
            [dim] => (*dim).to_owned(),
            several => format!("{{{}}}", several.join(",")),
        };
        Some(format!("write the product: `{} *{suffix} {}`", left.0, right.0))
    }

    /// The value that an argument names.
    pub(super) fn value_named<'e>(&self, argument: &'e Expr) -> Option<(&'e str, ValueId)> {
        let name = written(argument)?;
        self.value_names.get(name).map(|&value| (name, value))
    }
}

/// What to write for a power.
fn power(base: &str, exponent: &Expr) -> String {
    match scalar(exponent).and_then(|number| number.parse::<f64>().ok()) {
        Some(2.0) => format!("write `square({base})`"),
        Some(0.5) => format!("write `sqrt({base})`"),
        Some(number) => format!("write `pow({base}, {number:?})`"),
        None => format!("write `pow({base}, {})`", print::expr(exponent)),
    }
}

/// Whether a function is written with the dimensions that it goes along.
fn goes_along(function: &str) -> bool {
    ReduceFn::ALL.iter().any(|known| known.name() == function)
        || Composite::ALL.iter().any(|known| known.name() == function)
        || AlongFn::ALL.iter().any(|known| known.name() == function)
        || function == "argmax"
}

/// The name that an argument is.
fn written(argument: &Expr) -> Option<&str> {
    match &argument.node {
        ExprKind::Tensor { name, .. } => Some(&name.node),
        _ => None,
    }
}
