//! Random programs, from a list of numbers: the same numbers give the same program, so that a
//! failure can be shrunk and kept.
//!
//! They contain constructs that planners tend to get wrong: fan-out, several outputs, transposed
//! results, `A *B A`, dimensions and axes of size 1, padded dimensions, batch dimensions, a
//! dimension called as an axis, values declared with pending sums, pinned and half-open
//! intermediates, constants and indices, open declarations, partial sums that meet linear and other
//! functions, all reductions, normalisations along split dimensions, tables, masks, dimensions that
//! are renamed, split into factors, merged, cut, joined and rolled; values declared with pending
//! maxima and minima, functions that these pass and others, routed tokens, mixed dtypes, casts, and
//! operands that are expressions.

mod right_sides;

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
            "round",
        ];
        let (text, bits) = match self.dice.roll(8) {
            0 => (format!("2.0 * {}", a.name), a.bits + 1.0),
            1 => (format!("-{}", a.name), a.bits),
            2 if a.bits < MOST_BITS / 4.0 => (format!("square({})", a.name), 2.0 * a.bits),
            3 if !a.dims.is_empty() => {
                let by =
                    if self.sizes[a.dims[0]] == 1 { "1" } else { *self.dice.pick(&["1", "-1"]) };
                (format!("roll_{}({}, {by})", DIMS[a.dims[0]], a.name), a.bits)
            }
            roll => (format!("{}({})", tame[roll % tame.len()], a.name), a.bits),
        };
        Right::new(a.dims.clone(), text, bits)
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
