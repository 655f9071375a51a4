//! Formulas as data: derivatives, and the definitions of composites.
//!
//! A derivative could be a Rust function that builds statements, but then it could only be run. As
//! data it is run by the gradient pass, printed on the page about functions, and compared with
//! difference quotients of the evaluator by a test that knows no function by name. The language has
//! only what the derivatives need: it binds no variables, and all sums are along the dimensions of
//! the operation itself.

use std::fmt;

use super::{Arithmetic, Function, ReduceFn};

/// An expression over the operands, the result, and the gradient of the result of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Formula {
    /// The gradient of the result.
    Given,
    /// The result.
    Result,
    /// An operand, counted from 0: a value, or the number that is written in its place.
    Operand(usize),
    /// A number, as it is printed.
    Number(&'static str),
    /// The number of elements along the dimensions that the operation reduces.
    Count,
    /// `-x`.
    Negate(&'static Formula),
    /// `a + b`, `a - b`, `a / b`.
    Infix(Arithmetic, &'static Formula, &'static Formula),
    /// `a * b`.
    Product(&'static Formula, &'static Formula),
    /// An element-wise function; numbers among its arguments come last.
    Call(Function, &'static [Formula]),
    /// A reduction over the dimensions of the operation.
    Reduce(ReduceFn, &'static Formula),
    /// Broadcast along the dimensions of the operation.
    Broadcast(&'static Formula),
    /// One formula where this operand is written as a number, another where it is a value.
    IfNumber(usize, &'static Formula, &'static Formula),
}

/// A formula as a program would write it: operands by their names, `y` for the result, `g` for its
/// gradient, and `D` for the dimensions that the operation goes over, `n` elements in all.
pub(super) struct Written<'a> {
    pub(super) formula: &'a Formula,
    pub(super) operands: &'a [&'a str],
}

impl Written<'_> {
    fn part<'a>(&'a self, formula: &'a Formula) -> Written<'a> {
        Written { formula, operands: self.operands }
    }

    /// A part that is put in parentheses if it is itself an operation of two parts.
    fn factor(&self, formula: &Formula) -> String {
        let text = self.part(formula).to_string();
        match formula {
            Formula::Infix(..) | Formula::Product(..) | Formula::IfNumber(..) => {
                format!("({text})")
            }
            Formula::Given
            | Formula::Result
            | Formula::Operand(_)
            | Formula::Number(_)
            | Formula::Count
            | Formula::Negate(_)
            | Formula::Call(..)
            | Formula::Reduce(..)
            | Formula::Broadcast(_) => text,
        }
    }
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.formula {
            Formula::Given => f.write_str("g"),
            Formula::Result => f.write_str("y"),
            Formula::Operand(position) => {
                f.write_str(self.operands.get(*position).copied().unwrap_or("x"))
            }
            Formula::Number(text) => f.write_str(text),
            Formula::Count => f.write_str("n"),
            Formula::Negate(of) => write!(f, "-{}", self.factor(of)),
            Formula::Infix(how, left, right) => {
                write!(f, "{} {} {}", self.factor(left), how.symbol(), self.factor(right))
            }
            Formula::Product(left, right) => {
                write!(f, "{} * {}", self.factor(left), self.factor(right))
            }
            Formula::Call(function, arguments) => {
                let arguments: Vec<String> =
                    arguments.iter().map(|argument| self.part(argument).to_string()).collect();
                write!(f, "{}({})", function.name(), arguments.join(", "))
            }
            Formula::Reduce(how, of) => write!(f, "{}_D({})", how.name(), self.part(of)),
            Formula::Broadcast(of) => write!(f, "broadcast_D({})", self.part(of)),
            // Both are the same with another order of factors.
            Formula::IfNumber(_, _, otherwise) => self.part(otherwise).fmt(f),
        }
    }
}
