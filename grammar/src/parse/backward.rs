//! Converts `backward from Loss, microbatches=8` and `phase backward` to the tree.

use super::{Piece, Pieces, Reader, Rule};
use crate::ast::{Backward, Keeps, Phase, Statement, Until, Weights};
use crate::span::{Name, Span};

impl Reader<'_> {
    pub(super) fn backward(self, mut pieces: Pieces<'_>) -> Backward {
        let from = self.first_name(&mut pieces, &[Rule::name]);
        let mut backward = Backward {
            from,
            given: None,
            microbatches: None,
            of: None,
            gradients: None,
            keeps: Keeps::default(),
            repeated: Vec::new(),
        };
        let mut seen: Vec<&str> = Vec::new();
        for piece in pieces {
            if let Some(again) = self.given_again(&mut seen, &piece) {
                backward.repeated.push(again);
                continue;
            }
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
                Rule::keeps => keep(&mut backward.keeps, piece),
                _ => {}
            }
        }
        backward
    }
}

impl Reader<'_> {
    /// The text of an option at its name, if one of that name has been seen.
    fn given_again<'p>(self, seen: &mut Vec<&'p str>, piece: &Piece<'p>) -> Option<Name> {
        let is_option =
            matches!(piece.as_rule(), Rule::microbatches | Rule::gradients | Rule::keeps);
        let (name, value) = piece.as_str().split_once('=').filter(|_| is_option)?;
        let (name, value) = (name.trim_end(), value.trim());
        if !seen.contains(&name) {
            seen.push(name);
            return None;
        }
        let start = self.span(piece).start;
        Some(Name::new(format!("{name}={value}"), Span::new(start, start + name.len())))
    }
}

pub(super) fn phase(pieces: Pieces<'_>) -> Statement {
    let (mut phase, mut keeps) = (Phase::Forward, Keeps::default());
    for piece in pieces {
        match piece.as_rule() {
            Rule::phase_name if piece.as_str() == Phase::Backward.name() => phase = Phase::Backward,
            Rule::keeps => keep(&mut keeps, piece),
            _ => {}
        }
    }
    Statement::Phase(phase, keeps)
}

fn keep(keeps: &mut Keeps, piece: Piece<'_>) {
    for option in piece.into_inner() {
        match option.as_rule() {
            Rule::until => keeps.until = until(option),
            Rule::weights => keeps.weights = weights(option),
            _ => {}
        }
    }
}

fn until(piece: Piece<'_>) -> Option<Until> {
    let named = piece.into_inner().find(|inner| inner.as_rule() == Rule::until_name)?;
    Until::ALL.into_iter().find(|until| until.name() == named.as_str())
}

fn weights(piece: Piece<'_>) -> Option<Weights> {
    let named = piece.into_inner().find(|inner| inner.as_rule() == Rule::weights_name)?;
    Weights::ALL.into_iter().find(|weights| weights.name() == named.as_str())
}
