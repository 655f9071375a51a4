//! Local operations as expressions of `jax.numpy`.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{Argument, Operation, PlanJson, StepJson, TensorJson};
use super::communication::axes;
use super::names::identifier;
use super::{Result, unsupported};

/// Writes expressions, and notes the helper functions that they call.
pub(super) struct Expressions<'p> {
    pub(super) plan: &'p PlanJson,
    /// Whether all devices are one.
    pub(super) whole: bool,
    pub(super) helpers: IndexSet<&'static str>,
    /// Values whose offset depends on sizes: it is a field of these.
    pub(super) offsets: &'p IndexSet<String>,
    /// Inside the stages of a pipeline, the name of the sizes of a microbatch, and the dimensions
    /// that are shorter there.
    pub(super) rows: Option<(String, IndexSet<String>)>,
}

/// The place of a dimension.
pub(super) fn number_of(of: &TensorJson, dim: &str) -> usize {
    of.dims.iter().position(|other| other.dim == dim).unwrap_or(0)
}

/// The names of dimensions in order.
pub(super) fn names(of: &TensorJson) -> Vec<&str> {
    of.dims.iter().map(|dim| dim.dim.as_str()).collect()
}

/// An array with its dimensions in another order, and of length one where it lacks some.
pub(super) fn aligned(of: &str, dims: &[&str], order: &[&str]) -> String {
    let present: Vec<&str> = order.iter().copied().filter(|dim| dims.contains(dim)).collect();
    let places: Vec<String> = present
        .iter()
        .filter_map(|dim| dims.iter().position(|other| other == dim))
        .map(|place| place.to_string())
        .collect();
    let turned = if present == dims {
        of.to_owned()
    } else {
        format!("jnp.transpose({of}, {})", super::layout::tuple(&places))
    };
    if present.len() == order.len() || present.is_empty() {
        return turned;
    }
    let first = order.iter().position(|dim| dims.contains(dim)).unwrap_or(0);
    let index: Vec<&str> =
        order[first..].iter().map(|dim| if dims.contains(dim) { ":" } else { "None" }).collect();
    // Leading dimensions are broadcast as they are.
    if index.contains(&"None") { format!("{turned}[{}]", index.join(", ")) } else { turned }
}

impl Expressions<'_> {
    pub(super) fn helper(&mut self, name: &'static str) {
        self.helpers.insert(name);
    }

    pub(super) fn is_whole(&self, axes: &[String]) -> bool {
        self.whole || axes.is_empty()
    }

    /// The length of a device's block along a dimension.
    pub(super) fn length(&mut self, of: &TensorJson, dim: &str) -> String {
        let sizes = self.rows.as_ref().filter(|(_, rows)| rows.contains(dim));
        let sizes = sizes.map_or("n", |(sizes, _)| sizes);
        let size = format!("{sizes}.{}", identifier(dim));
        let split = &of.dims[number_of(of, dim)].axes;
        if self.is_whole(split) {
            return size;
        }
        self.helper("local");
        format!("local({size}, {})", axes(split))
    }

    pub(super) fn shape(&mut self, of: &TensorJson) -> Vec<String> {
        of.dims.iter().map(|dim| self.length(of, &dim.dim)).collect()
    }

    /// Where a device's block begins along a dimension, if not at zero.
    fn start(&mut self, of: &TensorJson, dim: &str) -> Option<String> {
        let split = of.dims[number_of(of, dim)].axes.clone();
        if self.is_whole(&split) {
            return None;
        }
        let length = self.length(of, dim);
        Some(format!("lax.axis_index({}) * {length}", axes(&split)))
    }

    /// The positions in their sequence of the elements along a dimension of a block.
    fn indices(&mut self, of: &TensorJson, dim: &str) -> String {
        let length = self.length(of, dim);
        let start = self.start(of, dim).map_or(String::new(), |start| format!(" + {start}"));
        let indices = format!("jnp.arange({length}){start}");
        let order = self.plan.dims.iter().find(|other| other.dim == dim);
        let order = order.and_then(|dim| dim.zigzag);
        let Some(pairs) = order else { return indices };
        self.helper("zigzag");
        format!("zigzag({indices}, n.{}, {pairs})", identifier(dim))
    }

    /// An offset or distance of a step.
    pub(super) fn offset(&self, step: &StepJson, number: u64) -> String {
        let is_field = self.offsets.contains(&step.value);
        if is_field { format!("n.{}", offset_name(&step.value)) } else { number.to_string() }
    }

    /// The type of a value as an argument.
    pub(super) fn dtype(&mut self, name: &str) -> String {
        self.helper("dtype");
        format!("dtype({})", jax_dtype(name))
    }

    pub(super) fn dtype_of(&self, value: &str) -> &str {
        let value = self.plan.values.iter().find(|other| other.value == value);
        value.map_or("bf16", |value| value.dtype.as_str())
    }

    /// A local step.
    pub(super) fn local(&mut self, step: &StepJson, of: &[String]) -> Result {
        let Some(operation) = &step.operation else { return unsupported(&step.value, "it") };
        let order = names(&step.result);
        let first = |operand: &str| aligned(operand, &names(&step.operands[0]), &order);
        match operation {
            Operation::Einsum { contracted } => Ok(self.einsum(step, contracted, of)),
            Operation::Map { function, arguments } => self.map(step, function, arguments, of),
            Operation::Cast { dtype } => {
                let dtype = self.dtype(dtype);
                Ok(format!("{}.astype({dtype})", first(&of[0])))
            }
            Operation::Broadcast { .. } => {
                let shape = self.shape(&step.result);
                let shape = super::layout::tuple(&shape);
                Ok(format!("jnp.broadcast_to({}, {shape})", first(&of[0])))
            }
            Operation::Constant { number } => {
                let shape = self.shape(&step.result);
                let dtype = self.dtype_of(&step.value).to_owned();
                let dtype = self.dtype(&dtype);
                let number = literal(number);
                Ok(format!("jnp.full({}, {number}, {dtype})", super::layout::tuple(&shape)))
            }
            Operation::Iota { dim } => Ok(self.indices(&step.result, dim)),
            Operation::Position { dim } => {
                let indices = format!("({})", self.indices(&step.result, dim));
                let shape = super::layout::tuple(&self.shape(&step.result));
                let indices = aligned(&indices, &[dim], &order);
                Ok(format!("jnp.broadcast_to({indices}, {shape})"))
            }
            Operation::Mask { query, key, fill } => {
                let indices = |it: &mut Self, dim: &str| {
                    aligned(&format!("({})", it.indices(&step.result, dim)), &[dim], &order)
                };
                let (query, key) = (indices(self, query), indices(self, key));
                let fill = if fill == "-inf" { "-jnp.inf" } else { "0" };
                Ok(format!("jnp.where({key} <= {query}, {}, {fill})", first(&of[0])))
            }
            Operation::Reduce { function, dims } => Ok(reduced(step, function, dims, &of[0])),
            Operation::Composite { function, dims, epsilon } => {
                Ok(self.composite(step, function, dims, *epsilon, &of[0]))
            }
            Operation::Take { dim } => Ok(self.take(step, dim, of)),
            Operation::Put { dim } => Ok(self.put(step, dim, of)),
            Operation::Update { dim } => self.update(step, dim, of),
            _ => self.rearranged(step, operation, of),
        }
    }

    fn einsum(&mut self, step: &StepJson, contracted: &[String], of: &[String]) -> String {
        let (left, right) = (&step.operands[0], &step.operands[1]);
        if contracted.is_empty() {
            let order = names(&step.result);
            return format!(
                "{} * {}",
                aligned(&of[0], &names(left), &order),
                aligned(&of[1], &names(right), &order)
            );
        }
        let all: Vec<&str> = [left, right, &step.result].iter().flat_map(|of| names(of)).collect();
        let letters = letters(&all);
        let word = |of: &TensorJson| names(of).iter().map(|dim| letters[dim]).collect::<String>();
        let (a, b, out) = (word(left), word(right), word(&step.result));
        let wanted = self.dtype_of(&step.value).to_owned();
        let natural = [left, right].iter().any(|of| self.dtype_of(&of.value) == wanted);
        let wider = if natural {
            String::new()
        } else {
            format!(", preferred_element_type={}", self.dtype(&wanted))
        };
        format!("jnp.einsum(\"{a},{b}->{out}\", {}, {}{wider})", of[0], of[1])
    }

    fn map(
        &mut self,
        step: &StepJson,
        function: &str,
        arguments: &[Argument],
        of: &[String],
    ) -> Result {
        let order = names(&step.result);
        let argument = |argument: &Argument| match argument {
            Argument::Number(number) => literal(number),
            Argument::Operand(place) => {
                aligned(&of[*place], &names(&step.operands[*place]), &order)
            }
        };
        let a: Vec<String> = arguments.iter().map(argument).collect();
        let spread = arguments.iter().any(|argument| {
            matches!(argument, Argument::Operand(place)
                if step.operands[*place].dims.len() == step.result.dims.len())
        });
        let text = self.call(step, function, &a)?;
        if spread || step.result.dims.is_empty() {
            return Ok(text);
        }
        let shape = super::layout::tuple(&self.shape(&step.result));
        Ok(format!("jnp.broadcast_to({text}, {shape})"))
    }

    /// A function of the language on arguments.
    fn call(&mut self, step: &StepJson, function: &str, a: &[String]) -> Result {
        let infix = |symbol: &str| format!("{} {symbol} {}", a[0], a[1]);
        Ok(match function {
            "add" => infix("+"),
            "sub" => infix("-"),
            "mul" => infix("*"),
            "div" => infix("/"),
            "equal" => infix("=="),
            "not_equal" => infix("!="),
            "greater" => infix(">"),
            "greater_equal" => infix(">="),
            "less" => infix("<"),
            "less_equal" => infix("<="),
            "neg" => format!("-{}", a[0]),
            "copy" | "identity" => a[0].clone(),
            "stop_gradient" => format!("lax.stop_gradient({})", a[0]),
            "ones" => format!("jnp.ones_like({})", a[0]),
            "pow" => format!("jnp.power({}, {})", a[0], a[1]),
            "rsqrt" => format!("lax.rsqrt({})", a[0]),
            "erf" => format!("jax.scipy.special.erf({})", a[0]),
            "relu" => format!("jax.nn.relu({})", a[0]),
            "gelu" => format!("jax.nn.gelu({}, approximate=True)", a[0]),
            "sigmoid" => format!("jax.nn.sigmoid({})", a[0]),
            "silu" | "swish" => format!("jax.nn.silu({})", a[0]),
            "softplus" => format!("jax.nn.softplus({})", a[0]),
            "drelu" => format!("jnp.where({} > 0, {}, 0)", a[0], a[1]),
            "dabs" => format!("{} * jnp.sign({})", a[1], a[0]),
            "dtanh" => format!("{} * (1 - jnp.tanh({}) ** 2)", a[1], a[0]),
            "derf" => self.derivative("jax.scipy.special.erf", a),
            "dgelu" => self.derivative("jax.nn.gelu", a),
            "dsigmoid" => self.derivative("jax.nn.sigmoid", a),
            "dsilu" => self.derivative("jax.nn.silu", a),
            "select" => format!("jnp.where({} != 0, {}, {})", a[0], a[1], a[2]),
            "ema" => format!("{} * {} + (1 - {}) * {}", a[2], a[0], a[2], a[1]),
            "ema_square" => format!("{} * {} + (1 - {}) * {} ** 2", a[2], a[0], a[2], a[1]),
            "momentum" => format!("{} * {} + {}", a[2], a[0], a[1]),
            "sgd_step" => format!("{} - {} * {}", a[0], a[2], a[1]),
            "row_step" => {
                format!("{} - {} * {} / (jnp.sqrt({}) + {})", a[0], a[3], a[1], a[2], a[4])
            }
            "adam_step" => {
                self.helper("adam_step");
                format!("adam_step({})", a.join(", "))
            }
            "abs" | "cos" | "exp" | "expm1" | "log" | "maximum" | "minimum" | "round" | "sin"
            | "sqrt" | "square" | "tanh" => format!("jnp.{function}({})", a.join(", ")),
            other => return unsupported(&step.value, format!("the function `{other}`")),
        })
    }

    /// The gradient of a function at the first argument, times the second.
    fn derivative(&mut self, function: &str, a: &[String]) -> String {
        self.helper("pull_back");
        format!("pull_back({function}, {}, {})", a[0], a[1])
    }

    fn composite(
        &mut self,
        step: &StepJson,
        function: &str,
        dims: &[String],
        epsilon: Option<f64>,
        of: &str,
    ) -> String {
        let from = &step.operands[0];
        let along = places(from, dims);
        let call = match function {
            "softmax" => format!("jax.nn.softmax({of}, axis={along})"),
            "logsumexp" => format!("jax.nn.logsumexp({of}, axis={along})"),
            norm => {
                let norm = if norm == "layernorm" { "layer_norm" } else { "rms_norm" };
                self.helper(norm);
                self.helper("rms_norm");
                format!("{norm}({of}, {along}, {:e})", epsilon.unwrap_or(0.0))
            }
        };
        let kept = names(from)
            .into_iter()
            .filter(|dim| function != "logsumexp" || !dims.iter().any(|gone| gone == dim));
        aligned(&call, &kept.collect::<Vec<_>>(), &names(&step.result))
    }

    /// One where an index is that of a row of a block.
    fn one_hot(&mut self, ids: &str, of: &TensorJson, dim: &str) -> String {
        let rows = self.length(of, dim);
        let ids = self.start(of, dim).map_or(ids.to_owned(), |start| format!("{ids} - {start}"));
        self.helper("one_hot");
        format!("one_hot({ids}, {rows})")
    }

    fn take(&mut self, step: &StepJson, dim: &str, of: &[String]) -> String {
        let (table, ids) = (&step.operands[0], &step.operands[1]);
        if names(ids).iter().any(|other| names(table).contains(other)) {
            let hot = self.one_hot(&of[1], table, dim);
            return chosen_einsum(step, dim, (&of[0], &hot));
        }
        self.helper("take_rows");
        let start = self.start(table, dim).map_or(of[1].clone(), |s| format!("{} - {s}", of[1]));
        let call = format!("take_rows({}, {start}, {})", of[0], number_of(table, dim));
        let given = names(table)
            .into_iter()
            .flat_map(|other| if other == dim { names(ids) } else { vec![other] });
        aligned(&call, &given.collect::<Vec<_>>(), &names(&step.result))
    }

    fn put(&mut self, step: &StepJson, dim: &str, of: &[String]) -> String {
        let hot = self.one_hot(&of[1], &step.result, dim);
        chosen_einsum(step, dim, (&of[0], &hot))
    }

    /// Rows replaced: of several for one place of the array, the last one stays.
    fn update(&mut self, step: &StepJson, dim: &str, of: &[String]) -> Result {
        let (array, ids, rows) = (&step.operands[0], &step.operands[1], &step.operands[2]);
        let known = names(array);
        let others = |of| names(of).into_iter().filter(|other| !known.contains(other));
        let several: Vec<&str> = others(ids).collect();
        if several.len() > 1 || others(rows).any(|other| !several.contains(&other)) {
            return unsupported(&step.value, "an update of rows along several dimensions");
        }
        let hot = self.one_hot(&of[1], array, dim);
        let place: Vec<&str> = names(ids).into_iter().chain([dim]).collect();
        let result = names(&step.result);
        let array = aligned(&of[0], &known, &result);
        let order: Vec<&str> = several.iter().copied().chain(result).collect();
        let hot = aligned(&hot, &place, &order);
        let rows = aligned(&of[2], &names(rows), &order);
        if several.is_empty() {
            return Ok(format!("jnp.where({hot} != 0, {rows}, {array})"));
        }
        self.helper("update_rows");
        Ok(format!("update_rows({array}, {hot}, {rows})"))
    }
}

/// A product with an array that is one where an index is that of a row.
fn chosen_einsum(step: &StepJson, dim: &str, (of, hot): (&str, &str)) -> String {
    let (table, ids) = (&step.operands[0], &step.operands[1]);
    let place: Vec<&str> = names(ids).into_iter().chain([dim]).collect();
    let all: Vec<&str> =
        names(table).into_iter().chain(place.clone()).chain(names(&step.result)).collect();
    let letters = letters(&all);
    let word = |dims: &[&str]| dims.iter().map(|dim| letters[dim]).collect::<String>();
    format!(
        "jnp.einsum(\"{},{}->{}\", {of}, {hot})",
        word(&names(table)),
        word(&place),
        word(&names(&step.result))
    )
}

/// `jnp.bfloat16`: the name of a type in JAX.
pub(super) fn jax_dtype(name: &str) -> String {
    let known = match name {
        "bool" => "bool_",
        "f16" => "float16",
        "bf16" => "bfloat16",
        "f32" => "float32",
        "fp8" => "float8_e4m3fn",
        "fp4" => "float4_e2m1fn",
        other => other,
    };
    format!("jnp.{known}")
}

/// The field of an offset.
pub(super) fn offset_name(value: &str) -> String {
    identifier(&format!("{value}_offset"))
}

fn places(of: &TensorJson, dims: &[String]) -> String {
    let places: Vec<String> = dims.iter().map(|dim| number_of(of, dim).to_string()).collect();
    if let [one] = places.as_slice() { one.clone() } else { super::layout::tuple(&places) }
}

fn reduced(step: &StepJson, function: &str, dims: &[String], of: &str) -> String {
    let from = &step.operands[0];
    let name = if function == "mean" { "sum" } else { function };
    let mut call = format!("jnp.{name}({of}, axis={})", places(from, dims));
    let kept: Vec<&str> =
        names(from).into_iter().filter(|dim| !dims.iter().any(|gone| gone == dim)).collect();
    call = aligned(&call, &kept, &names(&step.result));
    if function == "mean" {
        let sizes: Vec<String> = dims.iter().map(|dim| format!("n.{}", identifier(dim))).collect();
        let count = sizes.join(" * ");
        let count = if sizes.len() > 1 { format!("({count})") } else { count };
        call = format!("{call} / {count}");
    }
    call
}

/// A letter for each dimension: its own where that is free.
fn letters<'d>(dims: &[&'d str]) -> IndexMap<&'d str, char> {
    let mut found: IndexMap<&str, char> = IndexMap::new();
    for &dim in dims {
        if found.contains_key(dim) {
            continue;
        }
        let own = dim.chars().map(|c| c.to_ascii_lowercase()).filter(char::is_ascii_lowercase);
        let is_free = |letter: &char| !found.values().any(|other| other == letter);
        let letter = own.chain('a'..='z').chain('A'..='Z').find(is_free).unwrap_or('a');
        found.insert(dim, letter);
    }
    found
}

fn literal(number: &str) -> String {
    number.replace("inf", "jnp.inf")
}
