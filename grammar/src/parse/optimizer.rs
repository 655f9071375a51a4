//! Converts `optimizer adam over X, moments=f32` to the tree, and settings as such.

use super::{Piece, Pieces, Reader, Rule};
use crate::ast::{Optimizer, Setting, StateOver};

impl Reader<'_> {
    pub(super) fn optimizer(self, pieces: Pieces<'_>) -> Optimizer {
        let name = self.first_name(&mut pieces.clone(), &[Rule::name]);
        let mut optimizer = Optimizer { name, over: None, settings: Vec::new() };
        for piece in pieces {
            match piece.as_rule() {
                Rule::state_over
                    if piece.clone().into_inner().any(|inner| inner.as_rule() == Rule::open) =>
                {
                    optimizer.over = Some(StateOver::Open);
                }
                Rule::state_over => optimizer.over = Some(StateOver::Axes(self.words(piece))),
                Rule::setting => optimizer.settings.push(self.setting(piece)),
                _ => {}
            }
        }
        optimizer
    }

    pub(super) fn setting(&self, piece: Piece<'_>) -> Setting {
        let mut inner = piece.into_inner();
        let name = self.first_name(&mut inner, &[Rule::setting_name]);
        Setting { name, value: self.first_name(&mut inner, &[Rule::setting_value]) }
    }
}
