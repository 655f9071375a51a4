//! Terms: sums and products over the operands of a site.

use shardwise_ir::ids::DimId;
use shardwise_ir::program::Program;

use super::site::Site;

/// A sum or product. Terms that differ in the order of factors or summands alone are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Term {
    /// An operand of the site, by number.
    Operand(usize),
    /// A product, summed over dimensions that both factors have.
    Product {
        /// Two.
        factors: Box<[Term; 2]>,
        /// In the order of their ids.
        summed: Vec<DimId>,
    },
    /// A sum, or a difference.
    Sum {
        /// Two.
        terms: Box<[Term; 2]>,
        /// Whether the second is subtracted.
        minus: bool,
    },
}

impl Term {
    /// The product; `None` where a summed dimension is not in both factors, or nothing joins them.
    pub(super) fn product(
        factors: [Self; 2],
        mut summed: Vec<DimId>,
        dims: &[Vec<DimId>],
    ) -> Option<Self> {
        let of = [factors[0].dims(dims), factors[1].dims(dims)];
        summed.sort_unstable();
        let is_joined = of[0].iter().any(|dim| of[1].contains(dim));
        let fits = summed.iter().all(|dim| of.iter().all(|dims| dims.contains(dim)));
        (is_joined && fits).then(|| Self::as_written(factors, summed))
    }

    /// A product that an author wrote.
    pub(super) fn as_written(factors: [Self; 2], summed: Vec<DimId>) -> Self {
        Self::Product { factors: Box::new(in_order(factors)), summed }
    }

    /// The sum or difference.
    pub(super) fn sum(terms: [Self; 2], minus: bool) -> Self {
        let terms = if minus { terms } else { in_order(terms) };
        Self::Sum { terms: Box::new(terms), minus }
    }

    /// Its dimensions, where operands have `dims`.
    pub(super) fn dims(&self, dims: &[Vec<DimId>]) -> Vec<DimId> {
        let (parts, gone): (_, &[DimId]) = match self {
            Self::Operand(number) => return dims[*number].clone(),
            Self::Product { factors, summed } => (factors, summed),
            Self::Sum { terms, .. } => (terms, &[]),
        };
        let mut all: Vec<DimId> = parts.iter().flat_map(|part| part.dims(dims)).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|dim| !gone.contains(dim));
        all
    }

    /// Whether it is a product without a sum that has dimensions of each factor which the other has
    /// not.
    pub(super) fn is_outer_product(&self, dims: &[Vec<DimId>]) -> bool {
        let Self::Product { factors, summed } = self else { return false };
        let most = factors.iter().map(|factor| factor.dims(dims).len()).max();
        summed.is_empty() && Some(self.dims(dims).len()) > most
    }

    /// The two parts of a sum or product.
    pub(super) fn parts(&self) -> Option<&[Self; 2]> {
        match self {
            Self::Operand(_) => None,
            Self::Product { factors: parts, .. } | Self::Sum { terms: parts, .. } => Some(parts),
        }
    }

    /// The numbers of its operands, in the order in which it reads them.
    pub(super) fn operands(&self) -> Vec<usize> {
        match (self, self.parts()) {
            (Self::Operand(number), _) => vec![*number],
            (_, parts) => parts.into_iter().flatten().flat_map(Self::operands).collect(),
        }
    }

    /// Its own parts and those of its parts, itself last.
    pub(super) fn all(&self) -> Vec<&Self> {
        let inner = self.parts().into_iter().flatten().flat_map(Self::all);
        inner.chain([self]).collect()
    }

    /// As a program writes it.
    pub(super) fn text(&self, program: &Program, site: &Site) -> String {
        let inner = |part: &Self| match part {
            Self::Operand(_) => part.text(program, site),
            _ => format!("({})", part.text(program, site)),
        };
        match self {
            Self::Operand(number) => program.values[site.operands[*number].value].name.clone(),
            Self::Product { factors, summed } => {
                let dims: Vec<&str> =
                    summed.iter().map(|&dim| program.dims[dim].name.as_str()).collect();
                format!("{} *{} {}", inner(&factors[0]), dims.join(","), inner(&factors[1]))
            }
            Self::Sum { terms, minus } => {
                let sign = if *minus { '-' } else { '+' };
                format!("{} {sign} {}", inner(&terms[0]), inner(&terms[1]))
            }
        }
    }
}

/// The part with the first operand first.
fn in_order(parts: [Term; 2]) -> [Term; 2] {
    let place = |term: &Term| (term.operands(), term.clone());
    let [left, right] = parts;
    if place(&left) <= place(&right) { [left, right] } else { [right, left] }
}
