//! Random programs, from a list of numbers: the same numbers give the same program, so that a failure can be shrunk and kept.
//!
//! What they must contain, since it is what planners get wrong: fan-out, several outputs, transposed results, `A *B A`, dimensions and axes of size
//! 1, padded dimensions, batch dimensions, a dimension called as an axis, values declared with pending sums, pinned and half-open intermediates,
//! open declarations, partial sums that meet linear and other functions, and all reductions.

use std::fmt::Write as _;

/// Choices made from a list of numbers, again from its start when it is used up.
pub struct Dice<'a> {
    numbers: &'a [u32],
    next: usize,
}

impl<'a> Dice<'a> {
    /// At the start of `numbers`; without any, every choice is the first.
    pub fn new(numbers: &'a [u32]) -> Self {
        Self { numbers, next: 0 }
    }

    /// One of `0..sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        let number = if self.numbers.is_empty() { 0 } else { self.numbers[self.next % self.numbers.len()] };
        self.next += 1;
        number as usize % sides.max(1)
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 1
    }

    fn pick<'t, T>(&mut self, among: &'t [T]) -> &'t T {
        &among[self.roll(among.len())]
    }
}

/// `X` is an axis as well.
const DIMS: [&str; 5] = ["I", "J", "K", "L", "X"];
const AXES: [&str; 3] = ["X", "Y", "Z"];

/// No value's magnitude may pass two to this, so that nothing overflows.
const MOST_BITS: f64 = 200.0;

/// A value on the way.
#[derive(Clone)]
struct Value {
    name: String,
    dims: Vec<usize>,
    /// Logarithm of a bound on its elements.
    bits: f64,
    declared: bool,
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
    let mut sketch = Sketch { dice: Dice::new(numbers), axes: Vec::new(), sizes: Vec::new(), values: Vec::new(), text: String::new() };
    sketch.header(axes);
    for i in 0..2 + sketch.dice.roll(2) {
        sketch.declare(i);
    }
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
        self.sizes = DIMS.iter().map(|_| *self.dice.pick(&[48, 96, 480, 144, 1, 4800, 0])).collect();
        let axes: Vec<String> = AXES.iter().zip(&self.axes).map(|(axis, size)| format!("{axis}={size}")).collect();
        let size = |(dim, size): (&&str, &u64)| if *size == 0 { format!("{dim}=10 pad") } else { format!("{dim}={size}") };
        let sizes: Vec<String> = DIMS.iter().zip(&self.sizes).map(size).collect();
        let _ = writeln!(self.text, "hardware {hardware}\nmesh {}\ndim {}", axes.join(", "), sizes.join(", "));
    }

    fn declare(&mut self, i: usize) {
        let first = self.dice.roll(DIMS.len());
        let mut dims = vec![first];
        for _ in 0..self.dice.roll(3) {
            let next = self.dice.roll(DIMS.len());
            if !dims.contains(&next) {
                dims.push(next);
            }
        }
        let role = *self.dice.pick(&["input", "param", "state"]);
        let open = self.dice.one_in(4);
        let (mut brackets, rest) = self.brackets(&dims, open);
        if let Some(&axis) = rest.first().filter(|_| self.dice.one_in(5)) {
            let _ = write!(brackets, " {{U_{}}}", AXES[axis]);
        }
        let name = format!("A{i}");
        let _ = writeln!(self.text, "{role} {name}{brackets}");
        self.values.push(Value { name, dims, bits: 3.0, declared: true });
    }

    /// Brackets that split some of `dims`, and the axes that are left.
    fn brackets(&mut self, dims: &[usize], open: bool) -> (String, Vec<usize>) {
        let mut free: Vec<usize> = (0..self.axes.len()).collect();
        let parts: Vec<String> = dims.iter().map(|&dim| self.subscripted(dim, &mut free, open)).collect();
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
        let (mut dims, right, bits, free_order) = match self.dice.roll(8) {
            0 => self.function(&a),
            1 | 2 => self.element_wise(&a),
            3 => self.reduction(&a),
            _ => self.product(&a),
        };
        let name = format!("T{i}");
        let left = match self.dice.roll(6) {
            0 => self.brackets(&dims, true).0,
            1 if free_order => {
                dims.reverse();
                format!("[{}]", dims.iter().map(|&dim| format!("{}_?", DIMS[dim])).collect::<Vec<_>>().join(", "))
            }
            _ => String::new(),
        };
        let _ = writeln!(self.text, "{name}{left} = {right}");
        self.values.push(Value { name, dims, bits, declared: false });
    }

    /// Dimensions, right side, bits, and whether the left side may order the dimensions.
    fn function(&mut self, a: &Value) -> (Vec<usize>, String, f64, bool) {
        let tame = ["tanh", "sigmoid", "relu", "gelu", "abs"];
        let (text, bits) = match self.dice.roll(8) {
            0 => (format!("2.0 * {}", a.name), a.bits + 1.0),
            1 => (format!("-{}", a.name), a.bits),
            2 if a.bits < MOST_BITS / 4.0 => (format!("square({})", a.name), 2.0 * a.bits),
            roll => (format!("{}({})", tame[roll % tame.len()], a.name), a.bits),
        };
        (a.dims.clone(), text, bits, false)
    }

    fn element_wise(&mut self, a: &Value) -> (Vec<usize>, String, f64, bool) {
        let b = self.any_value();
        let (a_name, b_name) = (&a.name, &b.name);
        let text = match self.dice.roll(5) {
            0 if a_name != b_name => format!("{a_name} - {b_name}"),
            1 => format!("maximum({a_name}, {b_name})"),
            2 if b.declared => format!("{a_name} / {b_name}"),
            _ => format!("{a_name} + {b_name}"),
        };
        (union(a, &b), text, a.bits.max(b.bits) + 1.0, false)
    }

    fn reduction(&mut self, a: &Value) -> (Vec<usize>, String, f64, bool) {
        let function = *self.dice.pick(&["sum", "max", "min", "mean"]);
        let over = *self.dice.pick(&a.dims.clone());
        if a.dims.len() < 2 {
            return self.function(a);
        }
        let kept = a.dims.iter().copied().filter(|&dim| dim != over).collect();
        (kept, format!("{function}_{}({})", DIMS[over], a.name), a.bits + 13.0, false)
    }

    fn product(&mut self, a: &Value) -> (Vec<usize>, String, f64, bool) {
        let b = if self.dice.one_in(5) { a.clone() } else { self.any_value() };
        if a.bits + b.bits > MOST_BITS {
            return (a.dims.clone(), format!("tanh({})", a.name), 0.0, false);
        }
        let union = union(a, &b);
        let shared: Vec<usize> = a.dims.iter().copied().filter(|dim| b.dims.contains(dim)).collect();
        let mut summed: Vec<usize> = shared.into_iter().filter(|_| self.dice.roll(3) > 0).collect();
        if summed.len() == union.len() || union.len() - summed.len() > 3 {
            summed = union[1..].iter().copied().filter(|dim| a.dims.contains(dim) && b.dims.contains(dim)).collect();
        }
        let kept: Vec<usize> = union.iter().copied().filter(|dim| !summed.contains(dim)).collect();
        let bits = a.bits + b.bits + 13.0 * summed.len() as f64;
        if summed.is_empty() {
            return (kept, format!("{} * {}", a.name, b.name), bits, false);
        }
        let over: Vec<&str> = summed.iter().map(|&dim| DIMS[dim]).collect();
        (kept, format!("{} *{} {}", a.name, over.join(","), b.name), bits, true)
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
    a.dims.iter().copied().chain(b.dims.iter().copied().filter(|dim| !a.dims.contains(dim))).collect()
}
