//! Messages about calls with wrong arguments, each with what to type instead.

use crate::codes::names;
use shardwise_grammar::ast::Call;
use shardwise_grammar::span::{Name, Span};

use super::expression::scalar;
use super::{Resolver, attention, habits, structure};
use crate::functions::{AlongFn, Composite, Function, ReduceFn};
use crate::{Diag, suggest};

impl Resolver<'_> {
    pub(super) fn bad_call<T>(&mut self, message: &str, span: Span) -> Option<T> {
        let help = if message.contains("is written") {
            "write it so, with names of your own"
        } else {
            "see `shardwise explain SW107`"
        };
        self.bad_call_with(message, span, help)
    }

    /// A call that is not of its function's form, and what to write.
    pub(super) fn bad_call_with<T>(&mut self, message: &str, span: Span, help: &str) -> Option<T> {
        self.error(Diag::error(names::BAD_CALL, message, span, "this call").help(help));
        None
    }

    /// `softmax(x)` without a dimension: proposes the last dimension of `x`.
    pub(super) fn needs_dims<T>(&mut self, name: &str, call: &Call, span: Span) -> Option<T> {
        let message =
            format!("`{name}` is written `{name}_D(x)`, with the dimensions that it goes along");
        let (argument, rest) = match &call.arguments[..] {
            [argument, rest @ ..] if rest.len() < 2 => (self.value_named(argument), rest),
            _ => return self.bad_call(&message, span),
        };
        let help = match (argument, rest) {
            (_, [_]) if name == "max" || name == "min" => {
                format!("write `{name}imum(a, b)` for the {name}imum of two values")
            }
            (Some((operand, value)), rest) => {
                let place = rest.first().and_then(scalar);
                self.along_place(name, operand, value, place)
            }
            _ => return self.bad_call(&message, span),
        };
        self.bad_call_with(&message, span, &help)
    }

    /// Whether what looks like a subscript is the end of another framework's name, `max_pool`.
    pub(super) fn goes_on(&self, call: &Call) -> bool {
        let is_dim = |word: &Name| self.dim_names.contains_key(&word.node);
        let has_dims = call.subscript.as_ref().is_none_or(|words| words.node.iter().any(is_dim));
        !has_dims && habits::goes_on(call)
    }

    /// A call of an unknown function; its subscript may be meant as a part of the name.
    pub(super) fn unknown_function<T>(&mut self, call: &Call, span: Span) -> Option<T> {
        let short = call.function.node.as_str();
        let lower = short.to_lowercase();
        if Function::find(&lower).is_some() && !habits::goes_on(call) {
            let operand = match &call.arguments[..] {
                [argument] => self.value_named(argument).map_or("x", |(name, _)| name),
                _ => "x",
            };
            return self.bad_call_with(
                &format!("`{lower}` takes no subscript: it works element by element"),
                span,
                &format!("write `{lower}({operand})`"),
            );
        }
        let word = call
            .subscript
            .as_ref()
            .filter(|words| words.node.len() == 1)
            .map(|words| &words.node[0]);
        let as_dims = word.is_none_or(|word| {
            self.axes_of_word(&word.node).is_some() || self.dim_names.contains_key(&word.node)
        });
        let (name, at) = match word {
            Some(word) if !as_dims => {
                (format!("{short}_{}", word.node), call.function.span.to(word.span))
            }
            _ => (short.to_owned(), call.function.span),
        };
        let near = || {
            suggest::nearest(&name, known_functions()).map(|near| format!("did you mean `{near}`?"))
        };
        let translated = self.translated(call).filter(|_| !self.goes_on(call));
        let near = translated.or_else(|| habits::function(call)).or_else(near);
        let diag = Diag::error(
            names::UNKNOWN_FUNCTION,
            format!("`{name}` is not a known function"),
            at,
            "unknown",
        );
        let why = || {
            "whether it is linear decides where partial sums may pass, so it must be known; write \
                it out in known ones"
                .to_owned()
        };
        self.error(diag.help(near.unwrap_or_else(why)));
        None
    }
}

/// The names of all functions.
pub(super) fn known_functions() -> impl Iterator<Item = &'static str> {
    let reductions = ReduceFn::ALL.iter().map(|reduction| reduction.name());
    let calls = Function::ALL.iter().map(|function| function.name()).chain(reductions);
    let composites = Composite::ALL.iter().map(|composite| composite.name());
    let alongs = AlongFn::ALL.iter().map(|along| along.name());
    let others = ["cast", "broadcast", "last", "total", "offload", "reload", attention::NAME];
    let synonyms = structure::SYNONYMS.map(|(synonym, _)| synonym);
    calls.chain(others).chain(composites).chain(alongs).chain(structure::NAMES).chain(synonyms)
}

/// `select(mask, a, b)`, `ema(a, b, 0.9)`: an example of a correct call.
pub(super) fn call_of(function: Function) -> String {
    let row = function.row();
    let values = row.operands.iter().map(|operand| operand.name);
    let arguments: Vec<&str> = values.chain(std::iter::repeat_n("0.9", row.numbers)).collect();
    format!("{}({})", row.name, arguments.join(", "))
}

/// A value that is used before its definition.
pub(super) fn too_early(name: &Name, later: Span) -> Diag {
    let message = format!("`{}` is used before it is defined", name.node);
    let diag = Diag::error(names::UNKNOWN_VALUE, message, name.span, "not there yet")
        .and(later, "defined here");
    diag.help("move the definition above its first use; a value cannot depend on itself")
}
