//! Element-wise operations as programs write them: calls of functions, and forms with syntax of
//! their own.

use strum::{IntoStaticStr, VariantArray};

use super::{Direction, Function, Linearity};
use crate::dtype::DType;
use crate::ids::DimId;

/// An element-wise function.
#[derive(Clone, Debug, PartialEq)]
pub struct MapFn {
    /// How it prints.
    pub form: MapForm,
    /// The operands in which partial sums pass.
    pub linearity: Linearity,
}

/// How an element-wise function is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MapForm {
    /// `gelu(x)`, `maximum(x, 0.5)`.
    Call {
        /// Which.
        function: Function,
        /// Numbers among its arguments, as written; they stand after the values.
        numbers: Vec<String>,
    },
    /// `cast<f32>(x)`.
    Cast(DType),
    /// `a + b`, `a - b`, `a / b`.
    Infix(Arithmetic),
    /// `2.0 * x`: the scalar as written.
    ScaleBy(String),
    /// `x / 2.0`, `x + 1.0`, `x - 1.0`: operator, scalar.
    InfixScalar(Arithmetic, String),
    /// `1.0 / x`, `1.0 - x`, `1.0 + x`: scalar, operator.
    ScalarInfix(String, Arithmetic),
    /// `-x`.
    Negate,
    /// `carry x.in = x`: the operand in the first iteration, then the value that is yielded
    /// ([`crate::program::Output::yields_to`]).
    LoopCarried,
    /// `last(y)`: the value of the last iteration.
    Last,
    /// `total(y)`: the sum over all iterations.
    Total,
    /// `offload(x)`, `reload(x)`: the same value in the other memory.
    Host(HostTransfer),
    /// `broadcast_D(x)`: repeated along dimensions that it lacks, which are replicated in the
    /// result.
    Broadcast(Vec<DimId>),
    /// `0.0`: this number everywhere, in an array with these dimensions. It reads no operand.
    Constant {
        /// As written.
        number: String,
        /// The dimensions of the result.
        dims: Vec<DimId>,
    },
    /// `iota_S()`: the indices along `S`, an array with this dimension. It reads no operand.
    Iota(DimId),
    /// `position_S(x)`: the index of each element along `S`.
    Position(DimId),
    /// `causal_{T,S}(x)`, `lower_{T,S}(x)`: elements whose index along `key` is greater than that
    /// along `query` are masked.
    Causal {
        /// The dimension of the queries.
        query: DimId,
        /// The dimension of the keys.
        key: DimId,
        /// The value of masked elements.
        fill: Fill,
    },
}

/// A transfer between the memory of a device and that of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum HostTransfer {
    /// `offload(x)`: the result is in the host's memory, where only `reload` reads it.
    #[strum(serialize = "offload")]
    To,
    /// `reload(x)`: the result is in the device's memory again.
    #[strum(serialize = "reload")]
    From,
}

/// An infix operator. Products are [`crate::program::OpKind::Einsum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a / b`.
    Div,
}

/// The value of masked elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Minus infinity: nothing to a softmax (`causal`).
    Infinite,
    /// Zero: the gradient of that (`lower`).
    Zero,
}

impl HostTransfer {
    /// As programs write it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Arithmetic {
    /// As programs write it.
    pub fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Sub => '-',
            Self::Div => '/',
        }
    }

    /// Its value.
    pub fn evaluate(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Div => a / b,
        }
    }
}

impl MapForm {
    /// A call without numbers.
    pub fn call(function: Function) -> Self {
        Self::Call { function, numbers: Vec::new() }
    }

    /// The text before the parenthesis where that is the name of a function: `gelu`, `cast<f32>`.
    pub fn function_name(&self) -> Option<String> {
        match self {
            Self::Call { function, .. } => Some(function.name().to_owned()),
            Self::Cast(dtype) => Some(format!("cast<{}>", dtype.name())),
            Self::Host(transfer) => Some(transfer.name().to_owned()),
            Self::Infix(_)
            | Self::ScaleBy(_)
            | Self::InfixScalar(..)
            | Self::ScalarInfix(..)
            | Self::Negate
            | Self::LoopCarried
            | Self::Last
            | Self::Total
            | Self::Broadcast(_)
            | Self::Constant { .. }
            | Self::Iota(_)
            | Self::Position(_)
            | Self::Causal { .. } => None,
        }
    }
}

impl MapFn {
    /// The function of a form; where partial sums may pass follows from it, except for `cast`,
    /// whose dtypes decide.
    pub fn new(form: MapForm) -> Self {
        let linearity = match &form {
            // A choice between a value and a number is linear where the number is zero.
            MapForm::Call { function: Function::Select, numbers }
                if !numbers.iter().all(|scalar| is_zero(scalar)) =>
            {
                Linearity::None
            }
            MapForm::Call { function, .. } => function.row().linearity,
            MapForm::Infix(Arithmetic::Div) => Linearity::First,
            MapForm::InfixScalar(Arithmetic::Add | Arithmetic::Sub, _)
            | MapForm::Cast(_)
            | MapForm::LoopCarried
            | MapForm::Host(_)
            | MapForm::ScalarInfix(..)
            | MapForm::Constant { .. }
            | MapForm::Iota(_)
            | MapForm::Position(_)
            | MapForm::Causal { fill: Fill::Infinite, .. } => Linearity::None,
            MapForm::Infix(Arithmetic::Add | Arithmetic::Sub)
            | MapForm::InfixScalar(Arithmetic::Div, _)
            | MapForm::ScaleBy(_)
            | MapForm::Negate
            | MapForm::Broadcast(_)
            | MapForm::Last
            | MapForm::Total
            | MapForm::Causal { fill: Fill::Zero, .. } => Linearity::Joint,
        };
        Self { form, linearity }
    }

    /// A conversion between two types: linear where neither is of whole numbers, and the result is
    /// not too narrow for sums.
    pub fn cast(from: DType, to: DType) -> Self {
        let is_narrowed = to.bits() <= 8 && from.bits() > to.bits();
        let rounds = is_narrowed || !(from.is_float() && to.is_float());
        let linearity = if rounds { Linearity::None } else { Linearity::Joint };
        Self { form: MapForm::Cast(to), linearity }
    }

    /// FLOPs an element of the result: one, but of calls what their row says.
    pub fn flops(&self) -> f64 {
        if let MapForm::Call { function, .. } = &self.form {
            f64::from(function.row().flops)
        } else {
            1.0
        }
    }

    /// The monotonicity of the function in operand `position`, if it is monotone everywhere.
    pub fn direction(&self, position: usize) -> Option<Direction> {
        match (&self.form, position) {
            (MapForm::Infix(Arithmetic::Sub), 1)
            | (MapForm::Negate | MapForm::ScalarInfix(_, Arithmetic::Sub), _) => {
                Some(Direction::Decreasing)
            }
            (MapForm::ScaleBy(scalar) | MapForm::InfixScalar(Arithmetic::Div, scalar), _) => {
                by_sign(scalar)
            }
            (
                MapForm::Infix(Arithmetic::Add | Arithmetic::Sub)
                | MapForm::InfixScalar(Arithmetic::Add | Arithmetic::Sub, _)
                | MapForm::ScalarInfix(_, Arithmetic::Add)
                | MapForm::Broadcast(_),
                _,
            ) => Some(Direction::Increasing),
            (MapForm::Call { function, .. }, _) => {
                function.row().operands.get(position).and_then(|operand| operand.direction)
            }
            // Rounding is monotone; a comparison with zero is not.
            (MapForm::Cast(dtype), _) => {
                Some(Direction::Increasing).filter(|_| *dtype != DType::Bool)
            }
            (
                MapForm::Infix(Arithmetic::Div)
                | MapForm::ScalarInfix(_, Arithmetic::Div)
                | MapForm::LoopCarried
                | MapForm::Last
                | MapForm::Total
                | MapForm::Host(_)
                | MapForm::Constant { .. }
                | MapForm::Iota(_)
                | MapForm::Position(_)
                | MapForm::Causal { .. },
                _,
            ) => None,
        }
    }
}

fn is_zero(scalar: &str) -> bool {
    scalar.parse::<f64>().is_ok_and(|number| number.abs() <= 0.0)
}

fn by_sign(scalar: &str) -> Option<Direction> {
    let number: f64 = scalar.parse().ok()?;
    let increasing = (number > 0.0).then_some(Direction::Increasing);
    increasing.or((number < 0.0).then_some(Direction::Decreasing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharding::Reduction;

    #[test]
    fn maxima_become_minima_after_what_reverses_the_order() {
        let negate = MapFn::new(MapForm::Negate).direction(0);
        assert_eq!(negate.map(|direction| direction.through(Reduction::Max)), Some(Reduction::Min));
        let scaled = |by: &str| MapFn::new(MapForm::ScaleBy(by.to_owned())).direction(0);
        assert_eq!(
            (scaled("2.0"), scaled("-2.0"), scaled("0")),
            (Some(Direction::Increasing), Some(Direction::Decreasing), None)
        );
        let cast = |to: DType| MapFn::cast(DType::F32, to).direction(0);
        assert_eq!((cast(DType::Int8), cast(DType::Bool)), (Some(Direction::Increasing), None));
    }
}
