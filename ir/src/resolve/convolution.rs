//! `windows_{H->P,R}(x, stride=2, padding=1)`, its transpose `overlap_{P,R->H}(y, …)`, and
//! `conv_{H,W,R,S->P,Q}(x, w, stride=2, padding=1)`, which is written out as the statements it
//! stands for:
//!
//! ```text
//! y.1 = windows_{H->P,R}(x, stride=2, padding=1)
//! y.2 = windows_{W->Q,S}(y.1, stride=2, padding=1)
//! y = y.2 *R,S,C w
//! ```
//!
//! A convolution is a product of windows and weights, so it has the gradients, layouts and costs of
//! a product; only the windows are new. An operation of its own would need each of these again, for
//! any number of dimensions, groups and strides.

use crate::codes::names;
use shardwise_grammar::ast::Call;
use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use super::define::{Operation, Target};
use crate::Diag;
use crate::ids::DimId;
use crate::program::{OpKind, Operand};
use crate::rearrange::{Rearrange, Windows};

/// What may follow their operands.
pub(super) const OPTIONS: [&str; 2] = ["stride", "padding"];

const OF_WINDOWS: &str = "`windows` is written `windows_{H->P,R}(x, stride=2, padding=1)`: from \
    which dimension, to which places and windows";
const OF_OVERLAP: &str = "`overlap` is written `overlap_{P,R->H}(y, stride=2, padding=1)`: from \
    which places and windows, to which dimension";
const OF_CONV: &str = "`conv` is written `conv_{H,W,R,S->P,Q}(x, w, stride=2, padding=1)`: \
    dimensions, then those of the kernel, one for each, then those of the result; \
    `conv_{H,W,R,S}(x, w)` where these are the same";

/// The options of a call.
struct Options {
    stride: u64,
    /// `None`: as many elements on either side as a kernel of odd length reaches.
    padding: Option<u64>,
}

impl Resolver<'_> {
    pub(super) fn windows(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let options = self.strides(call, OF_WINDOWS)?;
        let words = words(call);
        let ([whole, places, kernel], [argument], 0 | 1) =
            (&words[..], &call.arguments[..], call.before_arrow)
        else {
            return self.bad_call(OF_WINDOWS, span);
        };
        let operand = self.operand(argument, target)?;
        self.windows_of(operand, [whole, places, kernel], &options, span)
    }

    /// The windows of an operand along one of its dimensions.
    fn windows_of(
        &mut self,
        operand: Operand,
        [whole, places, kernel]: [&Name; 3],
        options: &Options,
        span: Span,
    ) -> Option<Operation> {
        let windows = self.fitting([whole, places, kernel], options, span)?;
        self.has(&operand, windows.whole, whole)?;
        if windows.places != windows.whole {
            self.is_new(&operand, windows.places, places)?;
        }
        self.is_new(&operand, windows.kernel, kernel)?;
        Some(self.plain(OpKind::Rearrange(Rearrange::Windows(windows)), vec![operand]))
    }

    pub(super) fn overlap(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let options = self.strides(call, OF_OVERLAP)?;
        let words = words(call);
        let ([places, kernel, whole], [argument], 0 | 2) =
            (&words[..], &call.arguments[..], call.before_arrow)
        else {
            return self.bad_call(OF_OVERLAP, span);
        };
        let operand = self.operand(argument, target)?;
        let windows = self.fitting([whole, places, kernel], &options, span)?;
        self.has(&operand, windows.places, places)?;
        self.has(&operand, windows.kernel, kernel)?;
        if windows.places != windows.whole {
            self.is_new(&operand, windows.whole, whole)?;
        }
        Some(self.plain(OpKind::Rearrange(Rearrange::Overlap(windows)), vec![operand]))
    }

    pub(super) fn conv(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        self.may_be_several(span, "write the windows and the product")?;
        let options = self.strides(call, OF_CONV)?;
        let words = words(call);
        let before = if call.before_arrow == 0 { words.len() } else { call.before_arrow };
        let (from, to) = words.split_at(before.min(words.len()));
        let (wholes, kernels) = from.split_at(from.len() / 2);
        let places = if to.is_empty() { wholes } else { to };
        if let Some(help) = self.with_kernel(call, (from, to), target) {
            let message = "this `conv` names no dimensions of the kernel";
            return self.bad_call_with(message, span, &help);
        }
        let [x, w] = &call.arguments[..] else { return self.bad_call(OF_CONV, span) };
        if wholes.is_empty() || [kernels.len(), places.len()] != [wholes.len(); 2] {
            return self.bad_call(OF_CONV, span);
        }
        let (x, w) = (self.operand(x, target), self.operand(w, target));
        let (mut windows, w) = (x?, w?);
        for ((whole, place), kernel) in wholes.iter().zip(places).zip(kernels) {
            let dim = self.dim(kernel)?;
            self.has(&w, dim, kernel)?;
            let operation = self.windows_of(windows, [whole, place, kernel], &options, span)?;
            windows = self.link_value(operation, target, span)?;
        }
        let contracted = self.contracted_by_conv(&windows, &w, places, kernels, target)?;
        Some(self.plain(OpKind::Einsum { contracted }, vec![windows, w]))
    }

    /// What to write for a call with the dimensions of `x` alone, `conv_{H,W}(x, w)`. Those of the
    /// kernel are taken to be the shortest that only `w` has.
    fn with_kernel(
        &self,
        call: &Call,
        (from, places): (&[Name], &[Name]),
        target: Option<&Target>,
    ) -> Option<String> {
        let [x, w] = &call.arguments[..] else { return None };
        let ((x, of_x), (w, of_w)) = (self.value_named(x)?, self.value_named(w)?);
        let (of_x, of_w) = (&self.values[of_x].dims, &self.values[of_w].dims);
        let from: Vec<String> = from.iter().flat_map(|name| self.dims_of_word(name)).collect();
        let is_of_x = |dim: &DimId| of_x.contains(dim) && !of_w.contains(dim);
        let is_along_x = |name: &String| self.dim_names.get(name).is_some_and(is_of_x);
        let kept = target.and_then(Target::dims).unwrap_or_default();
        let mut kernels: Vec<DimId> =
            of_w.iter().copied().filter(|dim| !of_x.contains(dim) && !kept.contains(dim)).collect();
        kernels.sort_by_key(|&dim| self.dims[dim].size);
        kernels.truncate(from.len());
        kernels.sort_by_key(|dim| of_w.iter().position(|of| of == dim));
        if from.is_empty() || kernels.len() < from.len() || !from.iter().all(is_along_x) {
            return None;
        }
        let kernels: Vec<&str> = kernels.iter().map(|&dim| self.dims[dim].name.as_str()).collect();
        let options = call.options.iter().map(|(name, number)| (&name.node, &number.node));
        let options =
            options.fold(String::new(), |all, (name, number)| all + ", " + name + "=" + number);
        let arrow = if places.is_empty() { "" } else { "->" };
        let places: Vec<&str> = places.iter().map(|name| name.node.as_str()).collect();
        let places = format!("{arrow}{}", places.join(","));
        Some(format!(
            "write `conv_{{{},{}{places}}}({x}, {w}{options})`: the dimensions, then those of the \
                kernel, one for each",
            from.join(","),
            kernels.join(",")
        ))
    }

    /// The dimension of this name, or the letters of a word that is none: `H` and `W` of `HW`.
    fn dims_of_word(&self, word: &Name) -> Vec<String> {
        if self.dim_names.contains_key(&word.node) {
            return vec![word.node.clone()];
        }
        word.node.chars().map(String::from).collect()
    }

    /// What both operands have, but for places and what the result has.
    fn contracted_by_conv(
        &mut self,
        windows: &Operand,
        weights: &Operand,
        places: &[Name],
        kernels: &[Name],
        target: Option<&Target>,
    ) -> Option<Vec<DimId>> {
        let places = places.iter().map(|name| self.dim(name)).collect::<Option<Vec<_>>>()?;
        let kernels = kernels.iter().map(|name| self.dim(name)).collect::<Option<Vec<_>>>()?;
        let kept = target.and_then(Target::dims).unwrap_or_default();
        let both = |dim: &DimId| self.values[weights.value].dims.contains(dim);
        let dims = self.values[windows.value].dims.iter().copied().filter(both);
        let sums =
            |dim: &DimId| kernels.contains(dim) || !places.contains(dim) && !kept.contains(dim);
        Some(dims.filter(sums).collect())
    }

    fn strides(&mut self, call: &Call, form: &str) -> Option<Options> {
        let mut options = Options { stride: 1, padding: None };
        for (at, (name, number)) in call.options.iter().enumerate() {
            let is_first = call.options[..at].iter().all(|(other, _)| other.node != name.node);
            match (name.node.as_str(), number.node.parse::<u64>()) {
                ("stride", Ok(stride)) if stride > 0 && is_first => options.stride = stride,
                ("padding", Ok(padding)) if is_first => options.padding = Some(padding),
                _ => return self.bad_call(form, name.span.to(number.span)),
            }
        }
        Some(options)
    }

    /// Windows for which the dimensions have the right sizes.
    fn fitting(
        &mut self,
        [whole, places, kernel]: [&Name; 3],
        options: &Options,
        span: Span,
    ) -> Option<Windows> {
        let [of, to, by] = [self.dim(whole), self.dim(places), self.dim(kernel)];
        let [of, to, by] = [of?, to?, by?];
        if by == of || by == to {
            let message = format!("`{}` is both a dimension and that of its windows", kernel.node);
            let diag = Diag::error(names::CONTRACTION, message, kernel.span, "named again");
            self.error(diag.help("declare a dimension for the kernel, such as `R=3`"));
            return None;
        }
        let [length, count, width] = [of, to, by].map(|dim| self.dims[dim].size);
        let padding = options.padding.unwrap_or_else(|| width.saturating_sub(1) / 2);
        let windows =
            Windows { whole: of, places: to, kernel: by, stride: options.stride, padding };
        let expected = windows.count(length, width).filter(|_| padding < width);
        if expected == Some(count) {
            return Some(windows);
        }
        let spec = format!(
            "windows of `{}` = {width} on `{}` = {length}, stride {}, padding {padding}",
            kernel.node, whole.node, options.stride
        );
        let (message, help) = match expected {
            Some(expected) => (
                format!("{spec} have {expected} places, and `{}` = {count}", places.node),
                if to == of {
                    format!("name another dimension for the places, of size {expected}")
                } else {
                    format!("declare `{}={expected}`, or another stride or padding", places.node)
                },
            ),
            None if padding >= width => (
                format!("{spec}: the padding is as long as a window"),
                format!("write a padding from 0 to {}", width.saturating_sub(1)),
            ),
            None => (format!("{spec} do not fit"), "write a larger padding".to_owned()),
        };
        self.error(Diag::error(names::BAD_SIZE, message, span, "these windows").help(help));
        None
    }
}

fn words(call: &Call) -> Vec<Name> {
    call.subscript.as_ref().map(|subscript| subscript.node.clone()).unwrap_or_default()
}
