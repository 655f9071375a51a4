//! Composites, computed by their definition: a formula of the table of operations, over arrays.
//!
//! The planner writes the same formula out as statements where its dimensions are split, so a wrong
//! definition would be wrong on both sides of a comparison; the table's own tests compare it with
//! known values. What this checks is the plan: that the statements, and the maxima and sums that
//! are communicated, compute the same.

use ndarray::{ArrayD, Axis, IxDyn, Zip};
use shardwise_ir::functions::{Composite, Formula, ReduceFn};

type Array = ArrayD<f64>;

/// A composite over the last `along` dimensions, of `count` elements in all; returns the number of
/// dimensions of the result too.
pub(super) fn composite(
    function: Composite,
    operand: &Array,
    along: usize,
    count: f64,
) -> (Array, usize) {
    let kept = operand.ndim() - along;
    let mut result = Definition { operand, kept, count }.value(&function.row().definition);
    if !function.reduces() {
        return (result, operand.ndim());
    }
    for _ in 0..along {
        result = result.index_axis_move(Axis(kept), 0);
    }
    (result, kept)
}

/// The operand of a definition.
struct Definition<'a> {
    operand: &'a Array,
    /// The number of dimensions before those that it reduces.
    kept: usize,
    /// The number of elements along these.
    count: f64,
}

impl Definition<'_> {
    /// The value of a formula; reduced dimensions stay, with size one.
    fn value(&self, formula: &Formula) -> Array {
        match formula {
            Formula::Operand(_) => self.operand.clone(),
            Formula::Number(text) => self.constant(text.parse().unwrap_or(f64::NAN)),
            Formula::Count => self.constant(self.count),
            Formula::Negate(of) => self.value(of).mapv_into(|x| -x),
            Formula::Infix(how, left, right) => self.both(left, right, |a, b| how.evaluate(a, b)),
            Formula::Product(left, right) => self.both(left, right, |a, b| a * b),
            Formula::Call(function, [of]) => {
                self.value(of).mapv_into(|x| (function.row().evaluate)(&[x]))
            }
            Formula::Call(function, [left, right]) => {
                self.both(left, right, |a, b| (function.row().evaluate)(&[a, b]))
            }
            Formula::Reduce(function, of) => self.reduced(*function, self.value(of)),
            Formula::Broadcast(of) => self.both(of, &Formula::Operand(0), |a, _| a),
            // Not in a definition: undefined.
            Formula::Given | Formula::Result | Formula::IfNumber(..) | Formula::Call(..) => {
                self.constant(f64::NAN)
            }
        }
    }

    fn constant(&self, number: f64) -> Array {
        ArrayD::from_elem(IxDyn(&vec![1; self.operand.ndim()]), number)
    }

    fn both(&self, left: &Formula, right: &Formula, f: impl Fn(f64, f64) -> f64) -> Array {
        let (left, right) = (self.value(left), self.value(right));
        // Size one is broadcast, also to size zero: the last blocks of a padded dimension are
        // empty.
        let common = |(&a, &b): (&usize, &usize)| if a == 1 { b } else { a };
        let shape: Vec<usize> = left.shape().iter().zip(right.shape()).map(common).collect();
        let shape = IxDyn(&shape);
        let (Some(a), Some(b)) = (left.broadcast(shape.clone()), right.broadcast(shape)) else {
            return self.constant(f64::NAN);
        };
        Zip::from(a).and(b).map_collect(|&a, &b| f(a, b))
    }

    fn reduced(&self, function: ReduceFn, of: Array) -> Array {
        let row = function.row();
        let combined = (self.kept..of.ndim()).rev().fold(of, |so_far, axis| {
            let folded = so_far.fold_axis(Axis(axis), row.start, |&a, &b| (row.combine)(a, b));
            folded.insert_axis(Axis(axis))
        });
        combined.mapv_into(|total| (row.finish)(total, self.count))
    }
}
