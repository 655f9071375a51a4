//! Where elements stand: affine forms of their positions, and what comparisons of these select.
//!
//! `position_T(s) - position_S(s) < 512.0` says the same as `position_S(s) + 512.0 > position_T(s)`
//! and as `select`s of either. Every comparison is brought into one form, a bound on how much later
//! than along one dimension an element stands along another. The alternative, a list of the ways in
//! which masks are written, loses those that nobody has thought of, and with them half of the
//! products' price.

use crate::dtype::DType;
use crate::functions::{Arithmetic, Function};
use crate::ids::DimId;
use crate::program::{MapForm, Op, OpKind, Program};
use crate::rearrange::Rearrange;

/// What a value says of the place of its elements.
#[derive(Clone, PartialEq)]
pub(super) enum Place {
    /// A sum of positions and a number.
    Affine(Affine),
    /// Whether all of these hold.
    Within(Vec<Bound>),
}

/// Multiples of positions along dimensions, and a number, summed.
#[derive(Clone, PartialEq)]
pub(super) struct Affine {
    terms: Vec<(DimId, f64)>,
    number: f64,
}

/// The position along one dimension is at most so much greater than that along another.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub(super) later: DimId,
    pub(super) than: DimId,
    pub(super) at_most: i64,
}

impl Bound {
    /// Where it does not hold.
    fn negated(self) -> Self {
        Self { later: self.than, than: self.later, at_most: -self.at_most.saturating_add(1) }
    }
}

impl Place {
    /// What the result of an operation says, from what its operands say.
    pub(super) fn of(program: &Program, op: &Op, of: &[Option<Self>]) -> Option<Self> {
        let affine = |operand: usize| match of.get(operand)? {
            Some(Self::Affine(affine)) => Some(affine.clone()),
            _ => None,
        };
        match (&op.kind, of) {
            (OpKind::Collective(_), [first, ..]) => first.clone(),
            (OpKind::Rearrange(Rearrange::Rename(pairs)), _) => {
                Some(Self::Affine(affine(0)?.renamed(program, pairs)?))
            }
            // A product of booleans: whether both hold.
            (OpKind::Einsum { contracted }, [Some(Self::Within(a)), Some(Self::Within(b))])
                if contracted.is_empty() =>
            {
                Some(Self::Within(a.iter().chain(b).copied().collect()))
            }
            (OpKind::Map(function), _) => match &function.form {
                MapForm::Call { function: Function::Ones, .. } => {
                    Some(Self::Affine(Affine::number("1.0")?))
                }
                MapForm::Call { function, numbers } => {
                    let number = || Affine::number(numbers.first()?);
                    let right = if of.len() > 1 { affine(1) } else { number() };
                    compared(*function, affine(0)?, right?).map(|bound| Self::Within(vec![bound]))
                }
                form => Affine::of(form, [affine(0), affine(1)]).map(Self::Affine),
            },
            _ => None,
        }
    }

    /// The number that all elements are.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Affine(Affine { terms, number }) if terms.is_empty() => Some(*number),
            _ => None,
        }
    }

    /// The bounds that hold where it selects its first value, or where its second.
    pub(super) fn bounds(&self, is_first: bool) -> Option<Vec<Bound>> {
        match self {
            Self::Within(bounds) if is_first => Some(bounds.clone()),
            Self::Within(bounds) => Some(bounds.iter().map(|bound| bound.negated()).collect())
                .filter(|_| bounds.len() == 1),
            Self::Affine(_) => None,
        }
    }
}

impl Affine {
    fn position(dim: DimId) -> Self {
        Self { terms: vec![(dim, 1.0)], number: 0.0 }
    }

    /// A number, from its text.
    fn number(text: &str) -> Option<Self> {
        Some(Self { terms: Vec::new(), number: text.parse().ok()? })
    }

    /// The result of an element-wise operation.
    fn of(form: &MapForm, [first, second]: [Option<Self>; 2]) -> Option<Self> {
        let parsed = |text: &str| text.parse().ok();
        match form {
            MapForm::Position(dim) | MapForm::Iota(dim) => Some(Self::position(*dim)),
            MapForm::Constant { number, .. } => Self::number(number),
            // Others round positions.
            MapForm::Cast(DType::Int32 | DType::F32) | MapForm::Broadcast(_) => first,
            MapForm::Negate => Some(first?.scaled(-1.0)),
            MapForm::ScaleBy(factor) => Some(first?.scaled(parsed(factor)?)),
            MapForm::Infix(how) => first?.with(*how, &second?),
            MapForm::InfixScalar(how, number) => first?.with(*how, &Self::number(number)?),
            MapForm::ScalarInfix(number, how) => Self::number(number)?.with(*how, &first?),
            _ => None,
        }
    }

    fn scaled(mut self, factor: f64) -> Self {
        self.terms.iter_mut().for_each(|(_, times)| *times *= factor);
        self.number *= factor;
        self
    }

    fn with(mut self, how: Arithmetic, other: &Self) -> Option<Self> {
        let sign = match how {
            Arithmetic::Add => 1.0,
            Arithmetic::Sub => -1.0,
            Arithmetic::Div if other.terms.is_empty() => {
                return Some(self.scaled(1.0 / other.number));
            }
            Arithmetic::Div => return None,
        };
        for &(dim, times) in &other.terms {
            match self.terms.iter_mut().find(|(own, _)| *own == dim) {
                Some((_, own)) => *own += sign * times,
                None => self.terms.push((dim, sign * times)),
            }
        }
        self.terms.retain(|&(_, times)| times.abs() > 0.0);
        self.number += sign * other.number;
        Some(self)
    }

    /// The same under other names, where positions are counted alike.
    fn renamed(mut self, program: &Program, pairs: &[(DimId, DimId)]) -> Option<Self> {
        for (dim, _) in &mut self.terms {
            if let Some(&(_, new)) = pairs.iter().find(|(old, _)| old == dim) {
                let order = |dim: DimId| (program.dims[dim].size, program.dims[dim].zigzag);
                if order(*dim) != order(new) {
                    return None;
                }
                *dim = new;
            }
        }
        Some(self)
    }
}

/// What a comparison of two affine forms says: that of the positions along two dimensions, counted
/// equally.
fn compared(function: Function, left: Affine, right: Affine) -> Option<Bound> {
    let (less, is_strict) = match function {
        Function::Less => (left.with(Arithmetic::Sub, &right)?, true),
        Function::LessEqual => (left.with(Arithmetic::Sub, &right)?, false),
        Function::Greater => (right.with(Arithmetic::Sub, &left)?, true),
        Function::GreaterEqual => (right.with(Arithmetic::Sub, &left)?, false),
        _ => return None,
    };
    let [(one, times), (other, back)] = less.terms[..] else { return None };
    if (times + back).abs() > 0.0 {
        return None;
    }
    let (later, than) = if times > 0.0 { (one, other) } else { (other, one) };
    let limit = -less.number / times.abs();
    let at_most = if is_strict { limit.ceil() - 1.0 } else { limit.floor() };
    at_most.is_finite().then_some(Bound { later, than, at_most: at_most as i64 })
}
