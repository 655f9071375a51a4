//! Operations as lines of text, each the definition of a value.

use indexmap::IndexSet;
use shardwise_ir::dtype::DType;

use super::array::{Array, literal, tensor};

/// Text with the names that are in use.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) text: String,
    pub(super) indent: usize,
    next: usize,
    names: IndexSet<String>,
}

/// `[0, 1]`.
pub(super) fn list<N: ToString>(of: impl IntoIterator<Item = N>) -> String {
    let parts: Vec<String> = of.into_iter().map(|one| one.to_string()).collect();
    format!("[{}]", parts.join(", "))
}

/// Letters that names of MLIR have.
fn identifier(name: &str) -> String {
    let letter = |c: char| match c {
        '\'' => "_prime".to_owned(),
        c if c.is_ascii_alphanumeric() || c == '_' => c.to_string(),
        _ => "_".to_owned(),
    };
    let word: String = name.chars().map(letter).collect();
    if word.starts_with(|c: char| c.is_ascii_digit()) { format!("_{word}") } else { word }
}

impl Builder {
    pub(super) fn indented(indent: usize) -> Self {
        Self { indent, ..Self::default() }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.text += &" ".repeat(self.indent);
        self.text += text;
        self.text += "\n";
    }

    /// A number as a name.
    pub(super) fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }

    /// The name closest to a word that is not in use.
    pub(super) fn named(&mut self, word: &str) -> String {
        let word = identifier(word);
        let numbered = (2..).map(|number| format!("{word}_{number}"));
        let mut free = std::iter::once(word.clone()).chain(numbered);
        let free = free.find(|it| !self.names.contains(it)).unwrap_or(word);
        self.names.insert(free.clone());
        format!("%{free}")
    }

    /// A value that is defined elsewhere: an argument of a region, the result of a loop.
    pub(super) fn declared(&mut self, word: &str, shape: &[u64], dtype: DType) -> Array {
        Array { name: self.named(word), shape: shape.to_vec(), dtype }
    }

    /// Gives the value of the last line that begins with its name another one. Nothing may have
    /// read it.
    pub(super) fn rename(&mut self, of: &mut Array, word: &str) {
        let name = self.named(word);
        self.alias(of, &name);
        of.name = name;
    }

    /// The same under a name that has been given out.
    pub(super) fn alias(&mut self, of: &Array, name: &str) {
        if let Some(place) = self.text.rfind(&format!("{} = ", of.name)) {
            self.text.replace_range(place..place + of.name.len(), name);
        }
    }

    /// `%3 = stablehlo.add …`.
    pub(super) fn define(&mut self, shape: &[u64], dtype: DType, text: &str) -> Array {
        let name = self.fresh();
        self.line(&format!("{name} = {text}"));
        Array { name, shape: shape.to_vec(), dtype }
    }

    pub(super) fn constant(&mut self, number: f64, shape: &[u64], dtype: DType) -> Array {
        let text = literal(number, dtype);
        let ty = tensor(shape, dtype);
        self.define(shape, dtype, &format!("stablehlo.constant dense<{text}> : {ty}"))
    }

    /// A whole number, as an index.
    pub(super) fn index(&mut self, number: u64) -> Array {
        self.constant(number as f64, &[], DType::Int32)
    }

    pub(super) fn like(&mut self, of: &Array, number: f64) -> Array {
        self.constant(number, &of.shape.clone(), of.dtype)
    }

    pub(super) fn unary(&mut self, operation: &str, of: &Array) -> Array {
        let text = format!("stablehlo.{operation} {} : {}", of.name, of.ty());
        self.define(&of.shape, of.dtype, &text)
    }

    pub(super) fn binary(&mut self, operation: &str, a: &Array, b: &Array) -> Array {
        let text = format!("stablehlo.{operation} {}, {} : {}", a.name, b.name, a.ty());
        self.define(&a.shape, a.dtype, &text)
    }

    /// An operation with a number, on the right.
    pub(super) fn with(&mut self, operation: &str, a: &Array, number: f64) -> Array {
        let number = self.like(a, number);
        self.binary(operation, a, &number)
    }

    /// A function that the reader of the module provides.
    pub(super) fn custom_call(
        &mut self,
        function: &str,
        of: &[Array],
        shape: &[u64],
        dtype: DType,
    ) -> Array {
        let operands: Vec<&str> = of.iter().map(|one| &*one.name).collect();
        let types: Vec<String> = of.iter().map(Array::ty).collect();
        let text = format!(
            "stablehlo.custom_call @{}({}) : ({}) -> {}",
            identifier(function),
            operands.join(", "),
            types.join(", "),
            tensor(shape, dtype)
        );
        self.define(shape, dtype, &text)
    }

    pub(super) fn compare(&mut self, how: &str, a: &Array, b: &Array) -> Array {
        let ty = tensor(&a.shape, DType::Bool);
        let text = format!(
            "stablehlo.compare {how}, {}, {} : ({}, {}) -> {ty}",
            a.name,
            b.name,
            a.ty(),
            b.ty()
        );
        self.define(&a.shape, DType::Bool, &text)
    }

    /// `a` where the mask is true, else `b`; the mask may be one for all elements.
    pub(super) fn select(&mut self, mask: &Array, a: &Array, b: &Array) -> Array {
        let text = format!(
            "stablehlo.select {}, {}, {} : {}, {}",
            mask.name,
            a.name,
            b.name,
            mask.ty(),
            a.ty()
        );
        self.define(&a.shape, a.dtype, &text)
    }

    pub(super) fn convert(&mut self, of: &Array, dtype: DType) -> Array {
        if of.dtype == dtype {
            return of.clone();
        }
        let ty = tensor(&of.shape, dtype);
        let text = format!("stablehlo.convert {} : ({}) -> {ty}", of.name, of.ty());
        self.define(&of.shape, dtype, &text)
    }

    pub(super) fn reshape(&mut self, of: &Array, shape: &[u64]) -> Array {
        if of.shape == shape {
            return of.clone();
        }
        let ty = tensor(shape, of.dtype);
        let text = format!("stablehlo.reshape {} : ({}) -> {ty}", of.name, of.ty());
        self.define(shape, of.dtype, &text)
    }

    /// Dimensions in another order: each by its place before.
    pub(super) fn transpose(&mut self, of: &Array, places: &[usize]) -> Array {
        if places.iter().copied().eq(0..places.len()) {
            return of.clone();
        }
        let shape: Vec<u64> = places.iter().map(|&place| of.shape[place]).collect();
        let ty = tensor(&shape, of.dtype);
        let dims = list(places);
        let text =
            format!("stablehlo.transpose {}, dims = {dims} : ({}) -> {ty}", of.name, of.ty());
        self.define(&shape, of.dtype, &text)
    }

    /// Repeated along the dimensions of a shape other than these.
    pub(super) fn broadcast(&mut self, of: &Array, shape: &[u64], places: &[usize]) -> Array {
        if of.shape == shape {
            return of.clone();
        }
        let ty = tensor(shape, of.dtype);
        let text = format!(
            "stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {ty}",
            of.name,
            list(places),
            of.ty()
        );
        self.define(shape, of.dtype, &text)
    }

    /// The indices along a dimension of a shape.
    pub(super) fn iota(&mut self, shape: &[u64], dim: usize) -> Array {
        let ty = tensor(shape, DType::Int32);
        self.define(shape, DType::Int32, &format!("stablehlo.iota dim = {dim} : {ty}"))
    }

    /// The elements from `start` to `end` along a dimension.
    pub(super) fn slice(&mut self, of: &Array, dim: usize, [start, end]: [u64; 2]) -> Array {
        let mut shape = of.shape.clone();
        shape[dim] = end - start;
        if shape == of.shape {
            return of.clone();
        }
        let part = |(place, size): (usize, &u64)| {
            if place == dim { format!("{start}:{end}") } else { format!("0:{size}") }
        };
        let parts = list(of.shape.iter().enumerate().map(part));
        let ty = tensor(&shape, of.dtype);
        let text = format!("stablehlo.slice {} {parts} : ({}) -> {ty}", of.name, of.ty());
        self.define(&shape, of.dtype, &text)
    }

    /// Parts of the first dimensions, of these sizes, from values on; complete along the others.
    pub(super) fn part(&mut self, of: &Array, starts: &[Array], sizes: &[u64]) -> Array {
        let (starts, types) = self.starts(of, starts);
        let mut shape = of.shape.clone();
        shape[..sizes.len()].copy_from_slice(sizes);
        let (sizes, ty) = (list(&shape), tensor(&shape, of.dtype));
        let text = format!(
            "stablehlo.dynamic_slice {}, {starts}, sizes = {sizes} : ({}, {types}) -> {ty}",
            of.name,
            of.ty()
        );
        self.define(&shape, of.dtype, &text)
    }

    /// A part along one dimension, of this size, from a value on.
    pub(super) fn part_along(&mut self, of: &Array, dim: usize, start: &Array, size: u64) -> Array {
        let zero = self.index(0);
        let mut starts = vec![zero; dim];
        starts.push(start.clone());
        let mut sizes = of.shape[..dim].to_vec();
        sizes.push(size);
        self.part(of, &starts, &sizes)
    }

    /// The element at an index of the first dimension.
    pub(super) fn element(&mut self, of: &Array, index: &Array) -> Array {
        let one = self.part(of, std::slice::from_ref(index), &[1]);
        let shape = one.shape[1..].to_vec();
        self.reshape(&one, &shape)
    }

    /// An array with a part of the first dimensions replaced.
    pub(super) fn updated(&mut self, of: &Array, part: &Array, starts: &[Array]) -> Array {
        let (starts, types) = self.starts(of, starts);
        let text = format!(
            "stablehlo.dynamic_update_slice {}, {}, {starts} : ({}, {}, {types}) -> {}",
            of.name,
            part.name,
            of.ty(),
            part.ty(),
            of.ty()
        );
        self.define(&of.shape, of.dtype, &text)
    }

    /// Starts of all dimensions and their types.
    fn starts(&mut self, of: &Array, starts: &[Array]) -> (String, String) {
        let mut names: Vec<String> = starts.iter().map(|start| start.name.clone()).collect();
        if names.len() < of.rank() {
            let zero = self.index(0);
            names.resize(of.rank(), zero.name);
        }
        (names.join(", "), vec!["tensor<i32>"; of.rank()].join(", "))
    }

    pub(super) fn concatenate(&mut self, parts: &[Array], dim: usize) -> Array {
        let mut shape = parts[0].shape.clone();
        shape[dim] = parts.iter().map(|part| part.shape[dim]).sum();
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let types: Vec<String> = parts.iter().map(Array::ty).collect();
        let ty = tensor(&shape, parts[0].dtype);
        let text = format!(
            "stablehlo.concatenate {}, dim = {dim} : ({}) -> {ty}",
            names.join(", "),
            types.join(", ")
        );
        self.define(&shape, parts[0].dtype, &text)
    }

    /// `add`, `maximum` or `minimum` of all elements along dimensions.
    pub(super) fn reduce(&mut self, of: &Array, operation: &str, dims: &[usize]) -> Array {
        if dims.is_empty() {
            return of.clone();
        }
        let start = self.constant(start(operation), &[], of.dtype);
        let kept = |(place, size): (usize, &u64)| (!dims.contains(&place)).then_some(*size);
        let shape: Vec<u64> = of.shape.iter().enumerate().filter_map(kept).collect();
        let ty = tensor(&shape, of.dtype);
        let text = format!(
            "stablehlo.reduce({} init: {}) applies stablehlo.{operation} across dimensions = {} : \
             ({}, {}) -> {ty}",
            of.name,
            start.name,
            list(dims),
            of.ty(),
            start.ty()
        );
        self.define(&shape, of.dtype, &text)
    }

    /// Sums up to each element along a dimension, or from each on.
    pub(super) fn running_sum(&mut self, of: &Array, dim: usize, reverse: bool) -> Array {
        let zero = self.constant(0.0, &[], of.dtype);
        let (rank, size) = (of.rank(), of.shape[dim]);
        let window = (0..rank).map(|place| if place == dim { size } else { 1 }.to_string());
        let window = window.collect::<Vec<_>>().join(", ");
        let around = if reverse { [0, size - 1] } else { [size - 1, 0] };
        let padding = (0..rank).map(|place| list(if place == dim { around } else { [0, 0] }));
        let text = format!(
            "\"stablehlo.reduce_window\"({}, {}) <{{padding = dense<{}> : tensor<{rank}x2xi64>, \
             window_dimensions = array<i64: {window}>}}> (",
            of.name,
            zero.name,
            list(padding)
        );
        let types = format!("({}, {}) -> {}", of.ty(), zero.ty(), of.ty());
        self.with_region(of, &text, "add", &types)
    }

    /// An operation with a region that combines two numbers.
    pub(super) fn with_region(
        &mut self,
        result: &Array,
        text: &str,
        operation: &str,
        types: &str,
    ) -> Array {
        let scalar = tensor(&[], result.dtype);
        let (a, b, both, name) = (self.fresh(), self.fresh(), self.fresh(), self.fresh());
        self.line(&format!("{name} = {text}{{"));
        self.line(&format!("^bb0({a}: {scalar}, {b}: {scalar}):"));
        self.indent += 2;
        self.line(&format!("{both} = stablehlo.{operation} {a}, {b} : {scalar}"));
        self.line(&format!("stablehlo.return {both} : {scalar}"));
        self.indent -= 2;
        self.line(&format!("}}) : {types}"));
        Array { name, ..result.clone() }
    }
}

/// What a reduction of no elements is.
fn start(operation: &str) -> f64 {
    match operation {
        "maximum" => f64::NEG_INFINITY,
        "minimum" => f64::INFINITY,
        _ => 0.0,
    }
}
