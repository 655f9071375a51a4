//! Converts `backward from Loss, microbatches=8` and `phase backward` to the tree.

use super::{Piece, Pieces, Reader, Rule};
use crate::ast::{Backward, Phase, Statement, Until};

impl Reader<'_> {
    pub(super) fn backward(self, mut pieces: Pieces<'_>) -> Backward {
        let from = self.first_name(&mut pieces, &[Rule::name]);
        let mut backward = Backward {
            from,
            given: None,
            microbatches: None,
            of: None,
            gradients: None,
            until: None,
        };
        for piece in pieces {
            match piece.as_rule() {
                Rule::given => {
                    backward.given = Some(self.first_name(&mut piece.into_inner(), &[Rule::name]));
                }
                Rule::microbatches => {
                    backward.microbatches = piece
                        .into_inner()
                        .find(|p| p.as_rule() == Rule::size)
                        .map(|p| self.size(p));
                }
                Rule::cut => {
                    backward.of = Some(self.first_name(&mut piece.into_inner(), &[Rule::dim_name]));
                }
                Rule::gradients => {
                    backward.gradients =
                        Some(self.first_name(&mut piece.into_inner(), &[Rule::dtype]));
                }
                Rule::until => backward.until = until(piece),
                _ => {}
            }
        }
        backward
    }
}

pub(super) fn phase(pieces: Pieces<'_>) -> Statement {
    let (mut phase, mut kept) = (Phase::Forward, None);
    for piece in pieces {
        match piece.as_rule() {
            Rule::phase_name if piece.as_str() == Phase::Backward.name() => phase = Phase::Backward,
            Rule::until => kept = until(piece),
            _ => {}
        }
    }
    Statement::Phase(phase, kept)
}

fn until(piece: Piece<'_>) -> Option<Until> {
    let named = piece.into_inner().find(|inner| inner.as_rule() == Rule::until_name)?;
    Until::ALL.into_iter().find(|until| until.name() == named.as_str())
}
