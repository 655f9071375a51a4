//! Local operations as expressions of arrays.

use indexmap::{IndexMap, IndexSet};

use super::super::json::{Argument, Operation, PlanJson, StepJson, TensorJson};
use super::super::walk::collectives::place_of;
use super::super::walk::{Result, unsupported};
use super::dialect::{Dialect, View};
use super::layout::tuple;
use super::names::identifier;
use super::opaque;
use super::padding::padded_name;
use super::sizes::SizeFields;

/// Writes expressions, and notes the helper functions that they call.
pub(in crate::export) struct Expressions<'p> {
    pub(in crate::export) dialect: &'p dyn Dialect,
    pub(in crate::export) plan: &'p PlanJson,
    pub(super) view: View,
    pub(in crate::export) helpers: IndexSet<&'static str>,
    /// The lists of axes that collectives run over together.
    pub(in crate::export) groups: IndexSet<Vec<String>>,
    /// Values whose offset depends on sizes: it is a field of these.
    offsets: &'p IndexSet<String>,
    /// Dimensions whose blocks are padded.
    pub(super) padded: &'p IndexSet<String>,
    /// Inside the stages of a pipeline, the name of the sizes of a microbatch, and the dimensions
    /// that are shorter there.
    pub(super) rows: Option<(String, IndexSet<String>)>,
}

/// The names of dimensions in order.
pub(in crate::export) fn names(of: &TensorJson) -> Vec<&str> {
    of.dims.iter().map(|dim| dim.dim.as_str()).collect()
}

impl<'p> Expressions<'p> {
    pub(super) fn new(
        plan: &'p PlanJson,
        view: View,
        fields: &'p SizeFields,
        dialect: &'p dyn Dialect,
    ) -> Self {
        let (helpers, groups) = (IndexSet::new(), IndexSet::new());
        let SizeFields { offsets, padded } = fields;
        Self { dialect, plan, view, helpers, groups, offsets, padded, rows: None }
    }
}

impl Expressions<'_> {
    /// An array with its dimensions in another order, and of length one where it lacks some.
    pub(super) fn aligned(&self, of: &str, dims: &[&str], order: &[&str]) -> String {
        let present: Vec<&str> = order.iter().copied().filter(|dim| dims.contains(dim)).collect();
        let places: Vec<String> = present
            .iter()
            .filter_map(|dim| dims.iter().position(|other| other == dim))
            .map(|place| place.to_string())
            .collect();
        let turned = if present == dims {
            of.to_owned()
        } else {
            self.dialect.transposed(of, &tuple(&places))
        };
        if present.len() == order.len() || present.is_empty() {
            return turned;
        }
        let first = order.iter().position(|dim| dims.contains(dim)).unwrap_or(0);
        let index: Vec<&str> = order[first..]
            .iter()
            .map(|dim| if dims.contains(dim) { ":" } else { "None" })
            .collect();
        // Leading dimensions are broadcast as they are.
        if index.contains(&"None") { format!("{turned}[{}]", index.join(", ")) } else { turned }
    }

    pub(in crate::export) fn helper(&mut self, name: &'static str) {
        self.helpers.insert(name);
    }

    pub(super) fn is_whole(&self, axes: &[String]) -> bool {
        self.view != View::Blocks || axes.is_empty()
    }

    /// The length of a device's block along a dimension.
    pub(super) fn length(&mut self, of: &TensorJson, dim: &str) -> String {
        let sizes = self.rows.as_ref().filter(|(_, rows)| rows.contains(dim));
        let sizes = sizes.map_or("n", |(sizes, _)| sizes);
        let size = format!("{sizes}.{}", identifier(dim));
        let split = &of.dims[place_of(of, dim)].axes;
        if self.is_whole(split) {
            return size;
        }
        let (dialect, split) = (self.dialect, split.clone());
        let size = if self.is_padded(of, dim) { format!("n.{}", padded_name(dim)) } else { size };
        dialect.local(self, &size, &split)
    }

    pub(super) fn shape(&mut self, of: &TensorJson) -> Vec<String> {
        of.dims.iter().map(|dim| self.length(of, &dim.dim)).collect()
    }

    /// Where a device's block begins along a dimension, if not at zero.
    pub(super) fn start(&mut self, of: &TensorJson, dim: &str) -> Option<String> {
        let split = of.dims[place_of(of, dim)].axes.clone();
        if self.is_whole(&split) {
            return None;
        }
        let length = self.length(of, dim);
        let length = if length.contains(" // ") { format!("({length})") } else { length };
        Some(format!("{} * {length}", self.dialect.axis_index(&split)))
    }

    /// The positions in their sequence of the elements along a dimension of a block.
    fn indices(&mut self, of: &TensorJson, dim: &str) -> String {
        let length = self.length(of, dim);
        let start = self.start(of, dim).map_or(String::new(), |start| format!(" + {start}"));
        let indices = format!("{}.arange({length}){start}", self.np());
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
    pub(in crate::export) fn dtype(&mut self, name: &str) -> Result {
        self.helper("dtype");
        Ok(format!("dtype({})", self.dialect.dtype(name)?))
    }

    /// The module of functions of arrays.
    pub(super) fn np(&self) -> &'static str {
        self.dialect.arrays()
    }

    pub(super) fn dtype_of(&self, value: &str) -> &str {
        dtype_in(self.plan, value)
    }

    /// A local step, in the type in which the framework computes it.
    pub(super) fn computed(&mut self, step: &StepJson, of: &[String]) -> Result {
        let Some(operation) = &step.operation else { return unsupported(&step.value, "it") };
        let order = names(&step.result);
        let first =
            |it: &Self, operand: &str| it.aligned(operand, &names(&step.operands[0]), &order);
        match operation {
            Operation::Einsum { contracted } => self.einsum(step, contracted, of),
            Operation::Map { function, arguments } => self.map(step, function, arguments, of),
            Operation::Cast { dtype } => {
                let dtype = self.dtype(dtype)?;
                Ok(self.dialect.cast(&first(self, &of[0]), &dtype))
            }
            Operation::Broadcast { .. } => {
                let shape = self.shape(&step.result);
                let of = first(self, &of[0]);
                Ok(format!("{}.broadcast_to({of}, {})", self.np(), tuple(&shape)))
            }
            Operation::Constant { number } => {
                let shape = self.shape(&step.result);
                let dtype = self.dtype_of(&step.value).to_owned();
                let dtype = self.dtype(&dtype)?;
                let number = self.literal(number);
                Ok(format!("{}.full({}, {number}, dtype={dtype})", self.np(), tuple(&shape)))
            }
            Operation::Iota { dim } => Ok(self.indices(&step.result, dim)),
            Operation::Position { dim } => {
                let indices = format!("({})", self.indices(&step.result, dim));
                let shape = tuple(&self.shape(&step.result));
                let indices = self.aligned(&indices, &[dim], &order);
                Ok(format!("{}.broadcast_to({indices}, {shape})", self.np()))
            }
            Operation::Mask { query, key, fill } => {
                let indices = |it: &mut Self, dim: &str| {
                    let indices = format!("({})", it.indices(&step.result, dim));
                    it.aligned(&indices, &[dim], &order)
                };
                let (query, key) = (indices(self, query), indices(self, key));
                let (np, of) = (self.np(), first(self, &of[0]));
                let fill = if fill == "-inf" { format!("-{np}.inf") } else { "0".to_owned() };
                Ok(format!("{np}.where({key} <= {query}, {of}, {fill})"))
            }
            Operation::Reduce { function, dims } => Ok(self.reduced(step, function, dims, &of[0])),
            Operation::Composite { function, dims, epsilon } => {
                Ok(self.composite(step, function, dims, *epsilon, &of[0]))
            }
            Operation::Opaque { function, .. } => {
                Ok(format!("{}({})", opaque::function_name(function), of.join(", ")))
            }
            Operation::Take { dim } => self.take(step, dim, of),
            Operation::Put { dim } => self.put(step, dim, of),
            Operation::Update { dim } => self.update(step, dim, of),
            _ => self.rearranged(step, operation, of),
        }
    }

    fn einsum(&mut self, step: &StepJson, contracted: &[String], of: &[String]) -> Result {
        let (left, right) = (&step.operands[0], &step.operands[1]);
        if contracted.is_empty() {
            let order = names(&step.result);
            let left = self.aligned(&of[0], &names(left), &order);
            return Ok(format!("{left} * {}", self.aligned(&of[1], &names(right), &order)));
        }
        let all: Vec<&str> = [left, right, &step.result].iter().flat_map(|of| names(of)).collect();
        let letters = letters(&all);
        let word = |of: &TensorJson| names(of).iter().map(|dim| letters[dim]).collect::<String>();
        let formula = format!("{},{}->{}", word(left), word(right), word(&step.result));
        let (dialect, plan) = (self.dialect, self.plan);
        let dtype = |value: &str| dtype_in(plan, value);
        let [a, b] = [(left, &of[0]), (right, &of[1])]
            .map(|(operand, text)| self.within(operand, text, contracted, "0"));
        let operands = [(&*a, dtype(&left.value)), (&*b, dtype(&right.value))];
        dialect.einsum(self, &formula, operands, dtype(&step.value))
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
            Argument::Number(number) => self.literal(number),
            Argument::Operand(place) => {
                self.aligned(&of[*place], &names(&step.operands[*place]), &order)
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
        if step.operands.is_empty() {
            return unsupported(&step.value, "a function of numbers alone");
        }
        let shape = tuple(&self.shape(&step.result));
        Ok(format!("{}.broadcast_to({text}, {shape})", self.np()))
    }

    /// A function of the language on arguments.
    fn call(&mut self, step: &StepJson, function: &str, a: &[String]) -> Result {
        let infix = |symbol: &str| format!("{} {symbol} {}", a[0], a[1]);
        let (dialect, np) = (self.dialect, self.np());
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
            "ones" => format!("{np}.ones_like({})", a[0]),
            "drelu" => format!("{np}.where({} > 0, {}, 0)", a[0], a[1]),
            "dabs" => format!("{} * {np}.sign({})", a[1], a[0]),
            "dtanh" => format!("{} * (1 - {np}.tanh({}) ** 2)", a[1], a[0]),
            "select" => format!("{np}.where({} != 0, {}, {})", a[0], a[1], a[2]),
            "ema" => format!("{} * {} + (1 - {}) * {}", a[2], a[0], a[2], a[1]),
            "ema_square" => format!("{} * {} + (1 - {}) * {} ** 2", a[2], a[0], a[2], a[1]),
            "momentum" => format!("{} * {} + {}", a[2], a[0], a[1]),
            "sgd_step" => format!("{} - {} * {}", a[0], a[2], a[1]),
            "row_step" => {
                format!("{} - {} * {} / ({np}.sqrt({}) + {})", a[0], a[3], a[1], a[2], a[4])
            }
            "adam_step" => {
                self.helper("adam_step");
                format!("adam_step({})", a.join(", "))
            }
            _ => return dialect.function(self, step, function, a),
        })
    }

    /// The gradient of a function at the first argument, times the second.
    pub(in crate::export) fn derivative(&mut self, function: &str, a: &[String]) -> String {
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
        let dialect = self.dialect;
        let call = match function {
            "softmax" | "logsumexp" => {
                let dims: Vec<usize> = dims.iter().map(|dim| place_of(from, dim)).collect();
                dialect.softmax(self, of, function, &dims)
            }
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
        self.aligned(&call, &kept.collect::<Vec<_>>(), &names(&step.result))
    }

    /// One where an index is that of a row of a block.
    fn one_hot(&mut self, ids: &str, of: &TensorJson, dim: &str) -> String {
        let rows = self.length(of, dim);
        let ids = self.start(of, dim).map_or(ids.to_owned(), |start| format!("{ids} - {start}"));
        self.helper("one_hot");
        format!("one_hot({ids}, {rows})")
    }

    fn take(&mut self, step: &StepJson, dim: &str, of: &[String]) -> Result {
        let (table, ids) = (&step.operands[0], &step.operands[1]);
        let of = &[self.within(table, &of[0], &[dim.to_owned()], "0"), of[1].clone()];
        if names(ids).iter().any(|other| names(table).contains(other)) {
            let hot = self.one_hot(&of[1], table, dim);
            return self.chosen_einsum(step, dim, (&of[0], &hot));
        }
        self.helper("take_rows");
        let start = self.start(table, dim).map_or(of[1].clone(), |s| format!("{} - {s}", of[1]));
        let call = format!("take_rows({}, {start}, {})", of[0], place_of(table, dim));
        let given = names(table)
            .into_iter()
            .flat_map(|other| if other == dim { names(ids) } else { vec![other] });
        Ok(self.aligned(&call, &given.collect::<Vec<_>>(), &names(&step.result)))
    }

    fn put(&mut self, step: &StepJson, dim: &str, of: &[String]) -> Result {
        let hot = self.one_hot(&of[1], &step.result, dim);
        let kept = names(&step.result);
        let summed = names(&step.operands[0]).into_iter().filter(|other| !kept.contains(other));
        let summed: Vec<String> = summed.map(str::to_owned).collect();
        let rows = self.within(&step.operands[0], &of[0], &summed, "0");
        self.chosen_einsum(step, dim, (&rows, &hot))
    }

    /// Rows replaced: of several for one place of the array, the last one stays.
    fn update(&mut self, step: &StepJson, dim: &str, of: &[String]) -> Result {
        let (array, ids, rows) = (&step.operands[0], &step.operands[1], &step.operands[2]);
        let known = names(array);
        let others = |of| names(of).into_iter().filter(|other| !known.contains(other));
        // The order of rows is that of their dimensions.
        let several: Vec<&str> = others(rows).collect();
        if several.iter().any(|dim| !names(ids).contains(dim))
            || others(ids).any(|dim| !several.contains(&dim))
        {
            return unsupported(
                &step.value,
                "an update of rows that lack a dimension of their indices",
            );
        }
        let hot = self.one_hot(&of[1], array, dim);
        let place: Vec<&str> = names(ids).into_iter().chain([dim]).collect();
        let result = names(&step.result);
        let array = self.aligned(&of[0], &known, &result);
        let order: Vec<&str> = several.iter().copied().chain(result).collect();
        let hot = self.aligned(&hot, &place, &order);
        let rows = self.aligned(&of[2], &names(rows), &order);
        if several.is_empty() {
            return Ok(format!("{}.where({hot} != 0, {rows}, {array})", self.np()));
        }
        self.helper("update_rows");
        Ok(format!("update_rows({array}, {hot}, {rows}, {})", several.len()))
    }

    /// A product with an array that is one where an index is that of a row.
    fn chosen_einsum(&mut self, step: &StepJson, dim: &str, (of, hot): (&str, &str)) -> Result {
        let (table, ids) = (&step.operands[0], &step.operands[1]);
        let place: Vec<&str> = names(ids).into_iter().chain([dim]).collect();
        let all: Vec<&str> =
            names(table).into_iter().chain(place.clone()).chain(names(&step.result)).collect();
        let letters = letters(&all);
        let word = |dims: &[&str]| dims.iter().map(|dim| letters[dim]).collect::<String>();
        let (table, place) = (word(&names(table)), word(&place));
        let formula = format!("{table},{place}->{}", word(&names(&step.result)));
        let (dialect, plan) = (self.dialect, self.plan);
        let dtype = |value: &str| dtype_in(plan, value);
        let operands = [(of, dtype(&step.operands[0].value)), (hot, "bool")];
        dialect.einsum(self, &formula, operands, dtype(&step.value))
    }

    fn reduced(&mut self, step: &StepJson, function: &str, dims: &[String], of: &str) -> String {
        let from = &step.operands[0];
        let name = self.dialect.reduction(if function == "mean" { "sum" } else { function });
        let (np, keyword) = (self.np(), self.dialect.dim_keyword());
        let fill = match name {
            "max" => format!("-{np}.inf"),
            "min" => format!("{np}.inf"),
            _ => "0".to_owned(),
        };
        let of = self.within(from, of, dims, &fill);
        let mut call = format!("{np}.{name}({of}, {keyword}={})", places(from, dims));
        let kept: Vec<&str> =
            names(from).into_iter().filter(|dim| !dims.iter().any(|gone| gone == dim)).collect();
        call = self.aligned(&call, &kept, &names(&step.result));
        if function == "mean" {
            let sizes: Vec<String> =
                dims.iter().map(|dim| format!("n.{}", identifier(dim))).collect();
            let count = sizes.join(" * ");
            let count = if sizes.len() > 1 { format!("({count})") } else { count };
            call = format!("{call} / {count}");
        }
        call
    }

    /// A number as Python writes it.
    fn literal(&self, number: &str) -> String {
        number.replace("inf", &format!("{}.inf", self.np()))
    }
}

fn dtype_in<'p>(plan: &'p PlanJson, value: &str) -> &'p str {
    let value = plan.values.iter().find(|other| other.value == value);
    value.map_or("bf16", |value| value.dtype.as_str())
}

/// The field of an offset.
pub(super) fn offset_name(value: &str) -> String {
    identifier(&format!("{value}_offset"))
}

fn places(of: &TensorJson, dims: &[String]) -> String {
    let places: Vec<String> = dims.iter().map(|dim| place_of(of, dim).to_string()).collect();
    if let [one] = places.as_slice() { one.clone() } else { super::layout::tuple(&places) }
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
