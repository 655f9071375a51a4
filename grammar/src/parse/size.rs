//! Converts sizes: `4*D`, `D/N`, `P + T`.

use super::{Pair, Reader, Rule};
use crate::ast::{SizeExpr, SizeFactor, SizePart, SizeTerm};
use crate::number;
use crate::span::Spanned;

impl Reader<'_> {
    pub(super) fn size(self, pair: Pair<'_, Rule>) -> SizeExpr {
        let span = self.span(&pair);
        let mut is_subtracted = false;
        let mut terms = Vec::new();
        for piece in pair.into_inner() {
            match piece.as_rule() {
                Rule::add_op => is_subtracted = piece.as_str() == "-",
                Rule::size_term => {
                    terms.push(SizeTerm { is_subtracted, parts: self.size_parts(piece) });
                }
                _ => {}
            }
        }
        SizeExpr { terms, span }
    }

    fn size_parts(self, term: Pair<'_, Rule>) -> Vec<SizePart> {
        let mut divides = false;
        let mut parts = Vec::new();
        for piece in term.into_inner() {
            let span = self.span(&piece);
            let factor = match piece.as_rule() {
                Rule::size_times | Rule::slash => {
                    divides = piece.as_rule() == Rule::slash;
                    continue;
                }
                Rule::size_number => SizeFactor::Number(number::size(piece.as_str())),
                Rule::size => SizeFactor::Group(self.size(piece)),
                _ => SizeFactor::Dim(piece.as_str().to_owned()),
            };
            parts.push(SizePart { divides, factor: Spanned::new(factor, span) });
        }
        parts
    }
}
