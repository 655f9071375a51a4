//! Calls of `route`, which sends tokens to experts.

use crate::codes::names;
use shardwise_grammar::ast::Call;
use shardwise_grammar::span::Span;

use super::Resolver;
use super::define::{Operation, Target};
use super::expression::scalar;
use crate::Diag;
use crate::program::OpKind;
use crate::rearrange::Route;

/// The options of the call.
pub(super) const OPTIONS: [&str; 1] = ["busiest"];

const FORM: &str = "`route` is written `route_{T,E->C}(Scores, 2)`: tokens along `T` to so many of \
    the experts `E`, into slots `C`; `busiest=1.3` after that, if the busiest device has so many \
    times the mean";

impl Resolver<'_> {
    pub(super) fn route(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let words =
            call.subscript.as_ref().map(|subscript| subscript.node.clone()).unwrap_or_default();
        let ([tokens, experts, slots], [scores, choices]) = (&words[..], &call.arguments[..])
        else {
            return self.bad_call(FORM, span);
        };
        let Some(choices) = scalar(choices).and_then(|number| number.parse::<u64>().ok()) else {
            return self.bad_call(FORM, span);
        };
        let busiest = self.busiest(call)?;
        let scores = self.operand(scores, target)?;
        let route = Route {
            tokens: self.dim(tokens)?,
            experts: self.dim(experts)?,
            capacity: self.dim(slots)?,
            choices,
            busiest,
        };
        self.has(&scores, route.tokens, tokens)?;
        self.has(&scores, route.experts, experts)?;
        self.is_new(&scores, route.capacity, slots)?;
        let among = self.dims[route.experts].size;
        if route.tokens == route.experts || choices == 0 || choices > among {
            let message = format!("a token cannot be sent to {choices} of {among} experts");
            let diag = Diag::error(names::BAD_SIZE, message, span, "this call");
            self.error(diag.help(format!("from 1 to {among}; {FORM}")));
            return None;
        }
        if busiest != Route::EVEN && self.dims[route.capacity].size < self.dims[route.tokens].size {
            return self.bad_call_with(
                "`busiest` is given, and experts drop tokens",
                span,
                "every slot is computed here, however many tokens come: leave `busiest` out, or \
                    give experts a slot for every token (`C=T`)",
            );
        }
        Some(self.plain(OpKind::Route(route), vec![scores]))
    }

    /// How many times the mean the busiest device has, in thousandths.
    fn busiest(&mut self, call: &Call) -> Option<u64> {
        let mut busiest = None;
        for (name, number) in &call.options {
            let at = name.span.to(number.span);
            if name.node != OPTIONS[0] {
                let message = format!("`route` has no option `{}`", name.node);
                return self.bad_call_with(&message, at, "its option is `busiest=1.3`");
            }
            let times = number.node.parse::<f64>().ok().filter(|times| (1.0..=1e6).contains(times));
            let Some(times) = times else {
                let message = format!("`busiest` cannot be {}", number.node);
                let help = "write `busiest=1.3`: how many times the mean of all devices the \
                    busiest one has, at least 1";
                return self.bad_call_with(&message, at, help);
            };
            if busiest.replace(times).is_some() {
                return self.bad_call_with("`busiest` is given twice", at, "keep one of them");
            }
        }
        Some(busiest.map_or(Route::EVEN, |times| (times * Route::EVEN as f64).round() as u64))
    }
}
