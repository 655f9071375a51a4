//! `hardware tpu-v5p`, `hardware "cluster.toml"`, `hardware my-chip from "cluster.toml"`,
//! `hardware h100, rates=measured`.

use super::{Pieces, Reader, Rule};
use crate::ast::HardwareRef;
use crate::span::Spanned;

impl Reader<'_> {
    pub(super) fn hardware(&self, pieces: Pieces<'_>) -> HardwareRef {
        let mut named = HardwareRef { name: None, file: None, settings: Vec::new() };
        for piece in pieces {
            match piece.as_rule() {
                Rule::hardware_name => named.name = Some(self.name(&piece)),
                Rule::file => {
                    let span = self.span(&piece);
                    named.file = piece
                        .into_inner()
                        .next()
                        .map(|path| Spanned::new(path.as_str().to_owned(), span));
                }
                Rule::setting => named.settings.push(self.setting(piece)),
                _ => {}
            }
        }
        named
    }
}
