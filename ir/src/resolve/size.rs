//! Sizes: sums of products and quotients, which must come out whole.

use shardwise_grammar::ast::{SizeExpr, SizeFactor, SizeTerm};
use shardwise_grammar::span::{Name, Span, Spanned};

use super::Resolver;
use super::machine::LARGEST;
use crate::Diag;
use crate::codes::names;
use crate::ids::DimId;

/// Why a size is none.
enum Fault {
    /// Its dimension is unknown, which is reported.
    Reported,
    /// Not a whole number from 1 to 2^63.
    Range,
    /// A quotient with a remainder.
    Remainder { of: u64, by: u64, at: Span },
}

impl Resolver<'_> {
    /// The value of a size, or an error.
    pub(super) fn size(&mut self, size: &SizeExpr) -> Option<u64> {
        let fault = match self.sum(size) {
            Ok(value) if value <= LARGEST => return Some(value),
            Ok(_) => Fault::Range,
            Err(fault) => fault,
        };
        let diag = match fault {
            Fault::Reported => return None,
            Fault::Range => {
                let message = "this is not a size";
                let label = "not a whole number from 1 to 2^63";
                Diag::error(names::BAD_SIZE, message, size.span, label).help(
                    "write a whole number, such as 4096, 48k or 2Mi, or compute it, as in `4*D` or \
                        `D/N`",
                )
            }
            Fault::Remainder { of, by, at } => {
                let message = format!("{of} / {by} is not a whole number");
                Diag::error(names::BAD_SIZE, message, at, format!("{by} does not divide {of}"))
                    .help("a dimension has a whole number of elements: choose sizes that divide")
            }
        };
        self.error(diag);
        None
    }

    fn sum(&mut self, size: &SizeExpr) -> Result<u64, Fault> {
        let mut added = 0_u64;
        let mut subtracted = 0_u64;
        for term in &size.terms {
            let total = if term.is_subtracted { &mut subtracted } else { &mut added };
            *total = self.term(term)?.checked_add(*total).ok_or(Fault::Range)?;
        }
        added.checked_sub(subtracted).filter(|&size| size > 0).ok_or(Fault::Range)
    }

    fn term(&mut self, term: &SizeTerm) -> Result<u64, Fault> {
        let mut value = 1_u64;
        for part in &term.parts {
            let number = self.factor(&part.factor)?;
            value = if !part.divides {
                value.checked_mul(number).ok_or(Fault::Range)?
            } else if number == 0 {
                return Err(Fault::Range);
            } else if value.is_multiple_of(number) {
                value / number
            } else {
                return Err(Fault::Remainder { of: value, by: number, at: part.factor.span });
            };
        }
        Ok(value)
    }

    fn factor(&mut self, factor: &Spanned<SizeFactor>) -> Result<u64, Fault> {
        match &factor.node {
            SizeFactor::Number(number) => number.ok_or(Fault::Range),
            SizeFactor::Group(inner) => self.sum(inner),
            SizeFactor::Dim(name) => {
                let dim = self.dim(&Name::new(name.clone(), factor.span));
                dim.map(|dim| self.dims[dim].size).ok_or(Fault::Reported)
            }
        }
    }

    /// The dimensions of `N=K*G`; none where the size is anything else.
    pub(super) fn product_dims(&self, size: &SizeExpr) -> Vec<DimId> {
        let dims = size.product().into_iter().flatten().map(|factor| match factor {
            SizeFactor::Dim(name) => self.dim_names.get(name).copied(),
            SizeFactor::Number(_) | SizeFactor::Group(_) => None,
        });
        let dims: Option<Vec<_>> = dims.collect();
        dims.filter(|dims| dims.len() > 1).unwrap_or_default()
    }
}
