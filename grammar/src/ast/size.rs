//! Sizes as they are written: sums of products and quotients.

use crate::span::{Span, Spanned};

/// `4096`, `4*D`, `D/N`, `P + T`, `2*(P + T)`: a sum of products and quotients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeExpr {
    /// What is added up, at least one.
    pub terms: Vec<SizeTerm>,
    /// All of it.
    pub span: Span,
}

impl SizeExpr {
    /// The factors of a size that is a plain product.
    pub fn product(&self) -> Option<Vec<&SizeFactor>> {
        let [SizeTerm { is_subtracted: false, parts }] = &self.terms[..] else { return None };
        let factor = |part: &'_ SizePart| !part.divides;
        parts.iter().all(factor).then(|| parts.iter().map(|part| &part.factor.node).collect())
    }

    /// The dimensions in it.
    pub fn dims(&self) -> Vec<&str> {
        let parts = self.terms.iter().flat_map(|term| &term.parts);
        let dims = parts.flat_map(|part| match &part.factor.node {
            SizeFactor::Number(_) => Vec::new(),
            SizeFactor::Dim(name) => vec![name.as_str()],
            SizeFactor::Group(inner) => inner.dims(),
        });
        dims.collect()
    }
}

/// One term of a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeTerm {
    /// Whether a `-` is before it.
    pub is_subtracted: bool,
    /// Multiplied and divided from left to right, at least one.
    pub parts: Vec<SizePart>,
}

/// A factor or divisor of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizePart {
    /// Whether a `/` is before it.
    pub divides: bool,
    /// What it is.
    pub factor: Spanned<SizeFactor>,
}

/// One factor of a size. Numbers carry their suffix's factor already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeFactor {
    /// `4096`, `48k`, `2Mi`; `None` if it does not fit 64 bits or is not whole.
    Number(Option<u64>),
    /// `D`.
    Dim(String),
    /// `(P + T)`.
    Group(SizeExpr),
}
