//! Random programs, from a list of numbers: the same numbers give the same program, so that a
//! failure can be shrunk and kept.
//!
//! They contain constructs that planners tend to get wrong: fan-out, several outputs,
//! transposed results, `A *B A`, dimensions and axes of size 1, padded dimensions, batch
//! dimensions, a dimension called as an axis, values declared with pending sums, pinned and
//! half-open intermediates, open declarations, partial sums that meet linear and other functions,
//! all reductions, normalisations along split dimensions, tables, masks, dimensions that are
//! renamed, split into factors, merged, cut, joined and rolled; values declared with pending maxima
//! and minima, functions that these pass and others, routed tokens, mixed dtypes, casts, and
//! operands that are expressions.

use std::fmt::Write as _;

use crate::random::Dice;

/// `X` is an axis as well. `M` is as long as `I`, `N` the product of `I` and `J`; `U` is cut into
/// two `V`.
const DIMS: [&str; 9] = ["I", "J", "K", "L", "X", "M", "N", "U", "V"];
/// Those that any value may be declared with.
const PLAIN: usize = 5;
const I: usize = 0;
const J: usize = 1;
const L: usize = 3;
const M: usize = 5;
const N: usize = 6;
const U: usize = 7;
const V: usize = 8;
const AXES: [&str; 3] = ["X", "Y", "Z"];

/// No value's magnitude may pass two to this, so that nothing overflows.
const MOST_BITS: f64 = 200.0;

/// A value of the program so far.
#[derive(Clone)]
struct Value {
    name: String,
    dims: Vec<usize>,
    /// Logarithm of a bound on its elements.
    bits: f64,
    declared: bool,
}

/// The right side of a statement.
struct Right {
    dims: Vec<usize>,
    text: String,
    bits: f64,
    left: Left,
}

impl Right {
    fn new(dims: Vec<usize>, text: String, bits: f64) -> Self {
        Self { dims, text, bits, left: Left::Plain }
    }

    fn with(self, left: Left) -> Self {
        Self { left, ..self }
    }
}

/// What the left side must state of the dimensions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing; brackets have them in order.
    Plain,
    /// Nothing; brackets may order them.
    Ordered,
    /// Which they are.
    Needed,
}

struct Sketch<'a> {
    dice: Dice<'a>,
    /// Sizes of the mesh axes.
    axes: Vec<u64>,
    /// Sizes of the dimensions; 0 for a padded one, which everything may split.
    sizes: Vec<u64>,
    values: Vec<Value>,
    text: String,
}

/// A program of `operations` statements over the first `axes` mesh axes.
pub fn program(numbers: &[u32], axes: usize, operations: usize) -> String {
    let mut sketch = Sketch {
        dice: Dice::new(numbers),
        axes: Vec::new(),
        sizes: Vec::new(),
        values: Vec::new(),
        text: String::new(),
    };
    sketch.header(axes);
    for i in 0..2 + sketch.dice.roll(2) {
        sketch.declare(i);
    }
    let ids = sketch.brackets(&[L], false).0;
    let _ = writeln!(sketch.text, "input Q: int32{ids}");
    for i in 0..operations {
        sketch.operation(i);
    }
    sketch.outputs();
    sketch.text
}

impl Sketch<'_> {
    fn header(&mut self, axes: usize) {
        let hardware = *self.dice.pick(&["tpu-v5p", "tpu-v5e", "h100"]);
        self.axes = (0..axes).map(|_| *self.dice.pick(&[2, 4, 3, 2, 1])).collect();
        self.sizes = (0..PLAIN).map(|_| *self.dice.pick(&[48, 96, 480, 144, 1, 4800, 0])).collect();
        let product = if self.splits() { self.sizes[I] * self.sizes[J] } else { 16 };
        self.sizes.extend([self.sizes[I], product, 8, 4]);
        let axes: Vec<String> =
            AXES.iter().zip(&self.axes).map(|(axis, size)| format!("{axis}={size}")).collect();
        let product = self.splits();
        let size = |(dim, size): (&&str, &u64)| match *size {
            _ if *dim == DIMS[N] && product => "N=I*J".to_owned(),
            0 => format!("{dim}=10 pad"),
            size => format!("{dim}={size}"),
        };
        let sizes: Vec<String> = DIMS.iter().zip(&self.sizes).map(size).collect();
        let _ = writeln!(
            self.text,
            "hardware {hardware}\nmesh {}\ndim {}",
            axes.join(", "),
            sizes.join(", ")
        );
    }

    /// Whether `N` is a product, whose factors it can be split into.
    fn splits(&self) -> bool {
        self.sizes[I] > 0 && self.sizes[J] > 0
    }

    fn declare(&mut self, i: usize) {
        let first = if self.dice.one_in(4) {
            *self.dice.pick(&[N, U, V, M])
        } else {
            self.dice.roll(PLAIN)
        };
        let mut dims = vec![first];
        for _ in 0..self.dice.roll(3) {
            let next = self.dice.roll(PLAIN);
            if !dims.contains(&next) {
                dims.push(next);
            }
        }
        let role = *self.dice.pick(&["input", "param", "state"]);
        let open = self.dice.one_in(4);
        let (mut brackets, rest) = self.brackets(&dims, open);
        if let Some(&axis) = rest.first().filter(|_| self.dice.one_in(5)) {
            let kind = *self.dice.pick(&["U", "U", "max", "min"]);
            let _ = write!(brackets, " {{{kind}_{}}}", AXES[axis]);
        }
        let name = format!("A{i}");
        let dtype = *self.dice.pick(&["", "", "", ": f32", ": int8"]);
        let _ = writeln!(self.text, "{role} {name}{dtype}{brackets}");
        self.values.push(Value { name, dims, bits: 3.0, declared: true });
    }

    /// Brackets that split some of `dims`, and the axes that are left.
    fn brackets(&mut self, dims: &[usize], open: bool) -> (String, Vec<usize>) {
        let mut free: Vec<usize> = (0..self.axes.len()).collect();
        let parts: Vec<String> =
            dims.iter().map(|&dim| self.subscripted(dim, &mut free, open)).collect();
        (format!("[{}]", parts.join(", ")), free)
    }

    fn subscripted(&mut self, dim: usize, free: &mut Vec<usize>, open: bool) -> String {
        if open && self.dice.one_in(3) {
            return format!("{}_?", DIMS[dim]);
        }
        let mut left = self.sizes[dim];
        let mut axes = String::new();
        while !free.is_empty() && self.dice.roll(5) > 1 {
            let axis = free[self.dice.roll(free.len())];
            if !left.is_multiple_of(self.axes[axis]) {
                break;
            }
            left /= self.axes[axis];
            free.retain(|&other| other != axis);
            axes += AXES[axis];
        }
        if axes.is_empty() { DIMS[dim].to_owned() } else { format!("{}_{axes}", DIMS[dim]) }
    }

    fn any_value(&mut self) -> Value {
        let recent = self.values.len().saturating_sub(3);
        let from = if self.dice.one_in(2) { recent } else { 0 };
        self.values[from + self.dice.roll(self.values.len() - from)].clone()
    }

    fn operation(&mut self, i: usize) {
        let a = self.any_value();
        let Right { mut dims, text: right, bits, left: free } = match self.dice.roll(14) {
            3..=6 | 11..=13 if a.dims.is_empty() => self.function(&a),
            11 => self.routed(&a),
            12 => self.nested(&a),
            13 => self.spread(&a),
            0 => self.function(&a),
            1 | 2 => self.element_wise(&a),
            3 => self.reduction(&a),
            4 => self.structure(&a),
            5 => self.normalised(&a),
            6 => self.masked(&a),
            _ => self.product(&a),
        };
        let name = format!("T{i}");
        let open = |dims: &[usize]| {
            format!(
                "[{}]",
                dims.iter().map(|&dim| format!("{}_?", DIMS[dim])).collect::<Vec<_>>().join(", ")
            )
        };
        let left = match self.dice.roll(6) {
            0 => self.brackets(&dims, true).0,
            1 if free != Left::Plain => {
                dims.reverse();
                open(&dims)
            }
            _ if free == Left::Needed => open(&dims),
            _ => String::new(),
        };
        let _ = writeln!(self.text, "{name}{left} = {right}");
        self.values.push(Value { name, dims, bits, declared: false });
    }

    fn function(&mut self, a: &Value) -> Right {
        let tame = [
            "tanh",
            "sigmoid",
            "relu",
            "gelu",
            "abs",
            "erf",
            "silu",
            "softplus",
            "cos",
            "cast<f32>",
            "cast<int32>",
            "cast<bool>",
            "stop_gradient",
        ];
        let (text, bits) = match self.dice.roll(8) {
            0 => (format!("2.0 * {}", a.name), a.bits + 1.0),
            1 => (format!("-{}", a.name), a.bits),
            2 if a.bits < MOST_BITS / 4.0 => (format!("square({})", a.name), 2.0 * a.bits),
            3 if !a.dims.is_empty() => (format!("roll_{}({})", DIMS[a.dims[0]], a.name), a.bits),
            roll => (format!("{}({})", tame[roll % tame.len()], a.name), a.bits),
        };
        Right::new(a.dims.clone(), text, bits)
    }

    fn element_wise(&mut self, a: &Value) -> Right {
        let b = self.any_value();
        let (a_name, b_name) = (&a.name, &b.name);
        let text = match self.dice.roll(5) {
            0 if a_name != b_name => format!("{a_name} - {b_name}"),
            1 => format!("maximum({a_name}, {b_name})"),
            2 if b.declared => format!("{a_name} / {b_name}"),
            _ => format!("{a_name} + {b_name}"),
        };
        Right::new(union(a, &b), text, a.bits.max(b.bits) + 1.0)
    }

    fn reduction(&mut self, a: &Value) -> Right {
        let function = *self.dice.pick(&["sum", "max", "min", "mean"]);
        let over = *self.dice.pick(&a.dims.clone());
        if a.dims.len() < 2 {
            return self.function(a);
        }
        let kept = a.dims.iter().copied().filter(|&dim| dim != over).collect();
        Right::new(kept, format!("{function}_{}({})", DIMS[over], a.name), a.bits + 13.0)
    }

    /// Dimensions that become others, as far as there are such; else a function.
    fn structure(&mut self, a: &Value) -> Right {
        let has = |dim: usize| a.dims.contains(&dim);
        let with = |from: &[usize], to: &[usize]| -> Vec<usize> {
            a.dims
                .iter()
                .copied()
                .filter(|dim| !from.contains(dim))
                .chain(to.iter().copied())
                .collect()
        };
        let name = &a.name;
        let written = |dims: Vec<usize>, text: &str| {
            Right::new(dims, format!("{text}({name})"), a.bits).with(Left::Needed)
        };
        let ordered = |from: &[usize], to: &[usize], text: String| {
            Right::new(with(from, to), text, a.bits).with(Left::Ordered)
        };
        let splits = self.splits();
        match self.dice.roll(5) {
            0 if has(I) && !has(M) => written(with(&[I], &[M]), "rename"),
            0 if has(M) && !has(I) => written(with(&[M], &[I]), "rename"),
            _ if splits && has(N) && !has(I) && !has(J) => written(with(&[N], &[J, I]), "reshape"),
            _ if splits && has(I) && has(J) && !has(N) => written(with(&[I, J], &[N]), "reshape"),
            1 if has(U) && !has(V) => {
                let start = *self.dice.pick(&[0, 2, 4]);
                ordered(&[U], &[V], format!("slice_{{U->V}}({name}, {start})"))
            }
            2 if has(V) && !has(U) => ordered(&[V], &[U], format!("pad_{{V->U}}({name}, 2)")),
            _ if has(V) && !has(U) => {
                ordered(&[V], &[U], format!("concat_{{V,V->U}}({name}, {name})"))
            }
            3 if a.dims[0] != L => self.rows(a),
            4 => self.scattered(a),
            _ => self.function(a),
        }
    }

    /// Rows of the first dimension, looked up or updated.
    fn rows(&mut self, a: &Value) -> Right {
        let (name, dim) = (&a.name, DIMS[a.dims[0]]);
        if a.bits < MOST_BITS && self.dice.one_in(2) {
            let text = format!("update_{dim}({name}, Q, 2.0 * take_{dim}({name}, Q))");
            return Right::new(a.dims.clone(), text, a.bits + 1.0);
        }
        let mut dims = vec![L];
        dims.extend(a.dims[1..].iter().copied().filter(|&dim| dim != L));
        Right::new(dims, format!("take_{dim}({name}, Q)"), a.bits).with(Left::Ordered)
    }

    /// Rows added into a value of other dimensions, if there is one that fits; else a function.
    fn scattered(&mut self, a: &Value) -> Right {
        let like = self.any_value();
        let along = like.dims.first().copied().unwrap_or(L);
        let fits = along != L
            && !a.dims.contains(&along)
            && like.dims.iter().skip(1).all(|dim| *dim == L || a.dims.contains(dim));
        if !fits || a.bits >= MOST_BITS {
            return self.function(a);
        }
        let text = format!("put_{}({}, Q, {})", DIMS[along], a.name, like.name);
        Right::new(like.dims.clone(), text, a.bits + 39.0)
    }

    /// Tokens sent to experts: the first dimension to the second, with slots of a third that they
    /// do not have.
    fn routed(&mut self, a: &Value) -> Right {
        let slots = [V, L, J].into_iter().find(|slots| !a.dims.contains(slots));
        let (Some(slots), &[tokens, experts, ..]) = (slots, &a.dims[..]) else {
            return self.function(a);
        };
        // The smallest sizes at which programs are run leave one expert of one only.
        let choices = if self.sizes[experts] > 1 { 1 + self.dice.roll(2) } else { 1 };
        let mut dims = a.dims.clone();
        dims.push(slots);
        let text = format!(
            "route_{{{},{}->{}}}({}, {choices})",
            DIMS[tokens], DIMS[experts], DIMS[slots], a.name
        );
        Right { left: Left::Ordered, ..Right::new(dims, text, 1.0) }
    }

    /// An operation on operations.
    fn nested(&mut self, a: &Value) -> Right {
        let b = self.any_value();
        let (x, y) = (&a.name, &b.name);
        let both = union(a, &b);
        match self.dice.roll(6) {
            0 => Right::new(a.dims.clone(), format!("exp(tanh({x}))"), 2.0),
            1 => Right::new(a.dims.clone(), format!("sqrt(abs({x}) + 1.0)"), a.bits + 1.0),
            2 => Right::new(both, format!("-({x} + {y}) / (abs({x}) + 1.0)"), b.bits + 2.0),
            3 => Right::new(
                both,
                format!("select({x} <= {y}, -{x}, 1.0 - {y})"),
                a.bits.max(b.bits) + 1.0,
            ),
            4 => {
                Right::new(both, format!("minimum(2.0 * {x}, {y} - 1.0)"), a.bits.max(b.bits) + 2.0)
            }
            _ => Right::new(both, format!("({x} == {y}) * {y}"), b.bits),
        }
    }

    /// Repeated along a dimension that is not there.
    fn spread(&mut self, a: &Value) -> Right {
        let added = self.dice.roll(PLAIN);
        if a.dims.contains(&added) || a.dims.len() > 2 {
            return self.function(a);
        }
        let mut dims = a.dims.clone();
        dims.push(added);
        Right {
            left: Left::Ordered,
            ..Right::new(dims, format!("broadcast_{}({})", DIMS[added], a.name), a.bits)
        }
    }

    fn normalised(&mut self, a: &Value) -> Right {
        let count = 1 + self.dice.roll(a.dims.len().min(2));
        let along = &a.dims[a.dims.len() - count..];
        let function = *self.dice.pick(&["softmax", "logsumexp", "layernorm", "rmsnorm"]);
        let kept = a
            .dims
            .iter()
            .copied()
            .filter(|dim| function != "logsumexp" || !along.contains(dim))
            .collect();
        let names: Vec<&str> = along.iter().map(|&dim| DIMS[dim]).collect();
        Right::new(kept, format!("{function}_{{{}}}({})", names.join(","), a.name), a.bits + 4.0)
    }

    fn masked(&mut self, a: &Value) -> Right {
        let (b, first) = (self.any_value(), DIMS[a.dims[0]]);
        let (x, y) = (&a.name, &b.name);
        let two = a.dims.get(1).map(|&dim| DIMS[dim]);
        let text = match (self.dice.roll(5), two) {
            (0, _) => {
                return Right::new(
                    union(a, &b),
                    format!("select(less({x}, {y}), {x}, 0.0)"),
                    a.bits,
                );
            }
            (1, _) => {
                return Right::new(
                    union(a, &b),
                    format!("select(greater_equal({y}, 1.0), {x}, {y})"),
                    a.bits.max(b.bits),
                );
            }
            (2, Some(second)) => format!("lower_{{{first},{second}}}({x})"),
            (3, Some(second)) => format!("softmax_{second}(causal_{{{first},{second}}}({x}))"),
            _ => format!("{x} + position_{first}({x})"),
        };
        Right::new(a.dims.clone(), text, a.bits + 13.0)
    }

    fn product(&mut self, a: &Value) -> Right {
        let b = if self.dice.one_in(5) { a.clone() } else { self.any_value() };
        if a.bits + b.bits > MOST_BITS {
            return Right::new(a.dims.clone(), format!("tanh({})", a.name), 0.0);
        }
        let union = union(a, &b);
        let shared: Vec<usize> =
            a.dims.iter().copied().filter(|dim| b.dims.contains(dim)).collect();
        let mut summed: Vec<usize> = shared.into_iter().filter(|_| self.dice.roll(3) > 0).collect();
        if summed.len() == union.len() || union.len() - summed.len() > 3 {
            summed = union
                .iter()
                .skip(1)
                .copied()
                .filter(|dim| a.dims.contains(dim) && b.dims.contains(dim))
                .collect();
        }
        let kept: Vec<usize> = union.iter().copied().filter(|dim| !summed.contains(dim)).collect();
        let bits = a.bits + b.bits + 13.0 * summed.len() as f64;
        if summed.is_empty() {
            return Right::new(kept, format!("{} * {}", a.name, b.name), bits);
        }
        let over: Vec<&str> = summed.iter().map(|&dim| DIMS[dim]).collect();
        Right {
            left: Left::Ordered,
            ..Right::new(kept, format!("{} *{} {}", a.name, over.join(","), b.name), bits)
        }
    }

    /// The last value, and some of the others.
    fn outputs(&mut self) {
        let last = self.values.len() - 1;
        for (i, value) in self.values.clone().iter().enumerate() {
            if i == last || (!value.declared && self.dice.one_in(4)) {
                let brackets = self.brackets(&value.dims, false).0;
                let _ = writeln!(self.text, "output {}{brackets}", value.name);
            }
        }
    }
}

fn union(a: &Value, b: &Value) -> Vec<usize> {
    a.dims
        .iter()
        .copied()
        .chain(b.dims.iter().copied().filter(|dim| !a.dims.contains(dim)))
        .collect()
}
