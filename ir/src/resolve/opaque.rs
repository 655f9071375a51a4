//! `opaque<fft>_{T->F}(x)`: calls of functions that the language does not have.

use shardwise_grammar::ast::Call;
use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use super::define::{Operation, Target};
use super::expression::scalar;
use crate::ids::DimId;
use crate::program::{OpKind, Opaque, Operand};

/// As programs write it.
pub(super) const NAME: &str = "opaque";

const FORM: &str = "`opaque` is written `opaque<name>_{T->F}(x)`: a function that needs `T` whole, \
    with `F` in its place; `opaque<name>_T(x)` keeps `T`, `opaque<name>(x)` is element-wise";

impl Resolver<'_> {
    pub(super) fn opaque(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let Some(name) = &call.generic else { return self.bad_call(FORM, span) };
        if call.arguments.is_empty() || call.arguments.iter().any(|it| scalar(it).is_some()) {
            let message = format!("`{NAME}` is a function of values; numbers can be in its name");
            return self.bad_call_with(&message, span, "write `opaque<f.2>(x)`, say");
        }
        let operands: Vec<Option<Operand>> =
            call.arguments.iter().map(|argument| self.operand(argument, target)).collect();
        let operands: Vec<Operand> = operands.into_iter().collect::<Option<_>>()?;
        let words = call.subscript.as_ref().map_or(&[][..], |words| &words.node[..]);
        let (from, to) = words.split_at(match call.before_arrow {
            0 => words.len(),
            before => before.min(words.len()),
        });
        let old = self.whole_dims(from, &operands)?;
        let to =
            if call.before_arrow == 0 { old.clone() } else { self.replacing(to, &old, &operands)? };
        let function = Opaque { name: name.node.clone(), from: old, to };
        Some(self.plain(OpKind::Opaque(function), operands))
    }

    /// The dimensions that the function needs whole, of some operand.
    fn whole_dims(&mut self, written: &[Name], operands: &[Operand]) -> Option<Vec<DimId>> {
        let dims = self.distinct_dims(written)?;
        for (dim, word) in dims.iter().zip(written) {
            let has = |operand: &Operand| self.values[operand.value].dims.contains(dim);
            if !operands.iter().any(has) {
                self.has(&operands[0], *dim, word)?;
            }
        }
        Some(dims)
    }

    /// The dimensions that the result has in place of `old`, and that no operand has beside those.
    fn replacing(
        &mut self,
        written: &[Name],
        old: &[DimId],
        operands: &[Operand],
    ) -> Option<Vec<DimId>> {
        let dims = self.distinct_dims(written)?;
        for (dim, word) in dims.iter().zip(written).filter(|(dim, _)| !old.contains(dim)) {
            for operand in operands {
                self.is_new(operand, *dim, word)?;
            }
        }
        Some(dims)
    }
}
