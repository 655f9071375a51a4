//! Local operations.

use shardwise_ir::dtype::DType;

use super::super::json::{Operation, StepJson, TensorJson};
use super::super::walk::{Result, unsupported};
use super::array::{Array, promoted};
use super::writer::{Writer, names};

/// The places of dimensions.
pub(super) fn places(of: &TensorJson, dims: &[String]) -> Vec<usize> {
    let place = |dim: &String| of.dims.iter().position(|other| other.dim == *dim);
    dims.iter().filter_map(place).collect()
}

/// A number as programs write it.
pub(super) fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

impl Writer<'_> {
    /// A local step, in the type in which it is computed.
    pub(super) fn computed(&mut self, step: &StepJson, of: &[Array]) -> Result<Array> {
        let Some(operation) = &step.operation else { return unsupported(&step.value, "it") };
        let planned = self.dtype(&step.value);
        match operation {
            Operation::Einsum { contracted } => Ok(self.product(step, contracted, of)),
            Operation::Map { function, arguments } => self.map(step, function, arguments, of),
            Operation::Cast { .. } => {
                let of = self.first(step, of);
                Ok(self.cast(&of, planned))
            }
            Operation::Broadcast { .. } => Ok(self.first(step, of)),
            Operation::Constant { number: text } => {
                let shape = self.shape(&step.result);
                Ok(self.builder.constant(number(text), &shape, planned))
            }
            Operation::Iota { dim } | Operation::Position { dim } => {
                Ok(self.positions(&step.result, dim))
            }
            Operation::Mask { query, key, fill } => {
                let of = self.first(step, of);
                let (query, key) =
                    (self.positions(&step.result, query), self.positions(&step.result, key));
                let is_seen = self.builder.compare("LE", &key, &query);
                let fill = self.builder.like(&of, number(fill));
                Ok(self.builder.select(&is_seen, &of, &fill))
            }
            Operation::Reduce { function, dims } => Ok(self.reduced(step, function, dims, &of[0])),
            Operation::Composite { function, dims, epsilon } => {
                Ok(self.composite(step, (function, dims), *epsilon, &of[0]))
            }
            Operation::Opaque { function, .. } => {
                let shape = self.shape(&step.result);
                Ok(self.builder.custom_call(function, of, &shape, planned))
            }
            Operation::Take { dim } => Ok(self.take(step, dim, of)),
            Operation::Put { dim } => Ok(self.put(step, dim, of)),
            Operation::Update { dim } => self.update(step, dim, of),
            _ => self.rearranged(step, operation, of),
        }
    }

    /// The first operand in the order and shape of the result.
    fn first(&mut self, step: &StepJson, of: &[Array]) -> Array {
        let shape = self.shape(&step.result);
        self.aligned(&of[0], &names(&step.operands[0]), (&names(&step.result), &shape))
    }

    /// A conversion: what is not zero is true; a fraction without its part below one is whole.
    fn cast(&mut self, of: &Array, dtype: DType) -> Array {
        if dtype == DType::Bool && of.dtype != DType::Bool {
            return self.is_true(of);
        }
        self.builder.convert(of, dtype)
    }

    /// Whether elements are not zero.
    pub(super) fn is_true(&mut self, of: &Array) -> Array {
        if of.dtype == DType::Bool {
            return of.clone();
        }
        let zero = self.builder.like(of, 0.0);
        self.builder.compare("NE", of, &zero)
    }

    fn reduced(&mut self, step: &StepJson, function: &str, dims: &[String], of: &Array) -> Array {
        let from = &step.operands[0];
        let dtype = promoted([of.dtype, self.dtype(&step.value)]);
        let of = self.builder.convert(of, dtype);
        let operation = match function {
            "max" => "maximum",
            "min" => "minimum",
            _ => "add",
        };
        let total = self.builder.reduce(&of, operation, &places(from, dims));
        let kept: Vec<&str> =
            names(from).into_iter().filter(|dim| !dims.iter().any(|gone| gone == dim)).collect();
        let total = self.reordered(&total, &kept, &names(&step.result));
        if function != "mean" {
            return total;
        }
        let count: u64 = dims.iter().map(|dim| self.size(dim)).product();
        self.builder.with("divide", &total, count as f64)
    }

    /// A softmax or a norm along complete dimensions.
    fn composite(
        &mut self,
        step: &StepJson,
        (function, dims): (&str, &[String]),
        epsilon: Option<f64>,
        of: &Array,
    ) -> Array {
        let from = &step.operands[0];
        let dtype = promoted([of.dtype, self.dtype(&step.value)]);
        let of = self.builder.convert(of, dtype);
        let along = places(from, dims);
        let count: u64 = along.iter().map(|&place| of.shape[place]).product();
        let made = match function {
            "softmax" => {
                let exponents = self.exponents(&of, &along).0;
                let total = self.over(&exponents, "add", &along);
                self.builder.binary("divide", &exponents, &total)
            }
            "logsumexp" => {
                let (exponents, largest) = self.exponents(&of, &along);
                let total = self.builder.reduce(&exponents, "add", &along);
                let log = self.builder.unary("log", &total);
                let sum = self.builder.binary("add", &log, &largest);
                let kept = names(from).into_iter().filter(|dim| !dims.iter().any(|it| it == dim));
                return self.reordered(&sum, &kept.collect::<Vec<_>>(), &names(&step.result));
            }
            norm => {
                let mut x = of;
                if norm == "layernorm" {
                    let total = self.over(&x, "add", &along);
                    let mean = self.builder.with("divide", &total, count as f64);
                    x = self.builder.binary("subtract", &x, &mean);
                }
                let square = self.builder.binary("multiply", &x, &x);
                let total = self.over(&square, "add", &along);
                let mean = self.builder.with("divide", &total, count as f64);
                let shifted = self.builder.with("add", &mean, epsilon.unwrap_or(0.0));
                let scale = self.builder.unary("rsqrt", &shifted);
                self.builder.binary("multiply", &x, &scale)
            }
        };
        self.reordered(&made, &names(from), &names(&step.result))
    }

    /// Exponentials of differences from the largest along dimensions, and the largest.
    fn exponents(&mut self, of: &Array, along: &[usize]) -> (Array, Array) {
        let largest = self.builder.reduce(of, "maximum", along);
        let spread = self.spread(&largest, of, along);
        let below = self.builder.binary("subtract", of, &spread);
        (self.builder.unary("exponential", &below), largest)
    }

    /// A reduction along dimensions, repeated along these.
    fn over(&mut self, of: &Array, operation: &str, along: &[usize]) -> Array {
        let total = self.builder.reduce(of, operation, along);
        self.spread(&total, of, along)
    }

    /// What was reduced along dimensions of an array, repeated along these.
    fn spread(&mut self, of: &Array, like: &Array, along: &[usize]) -> Array {
        let kept: Vec<usize> = (0..like.rank()).filter(|place| !along.contains(place)).collect();
        self.builder.broadcast(of, &like.shape, &kept)
    }
}
