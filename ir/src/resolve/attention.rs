//! `attention(q, k, v, causal, window=1024, offset=6144, scale=0.088, cap=50.0)`: written out as
//! the statements it stands for.
//!
//! ```text
//! o.1 = q *H k                                 scores
//! o.2 = 0.0884 * o.1                           scale=…, or one over the root of H
//! o.3 = 50.0 * tanh(o.2 / 50.0)                cap=50.0
//! o.4 = causal_{T,S}(o.3)                      causal
//! o.5 = softmax_S(o.4)
//! o = o.5 *S v
//! ```
//!
//! The dimensions decide what is what: keys have a dimension that queries lack, which the softmax
//! is over; the scores sum over the last dimension of the queries, or those in the subscript; all
//! others (batch, heads, groups of heads that share keys) are indices as in any product. Written
//! out, the operation has gradients, layouts, a verified execution and a place in kernels like any
//! other; an operation of its own would need each of these again, and could differ from the form
//! that is written out.

use crate::codes::names;
use shardwise_grammar::ast::{Call, ExprKind};
use shardwise_grammar::span::Span;

use super::Resolver;
use super::define::{Operation, Target};
use super::wording::known_functions;
use crate::functions::{Arithmetic, Composite, Function};
use crate::ids::DimId;
use crate::program::{Fill, MapForm, OpKind, Operand};
use crate::{Diag, suggest};

/// As programs write it.
pub(super) const NAME: &str = "attention";

/// What may follow its operands.
pub(super) const OPTIONS: [&str; 5] = ["causal", "window", "offset", "scale", "cap"];

/// What masked scores are set to: less than any score, and finite.
const MASKED: &str = "-1e9";

const FORM: &str = "`attention` is written `attention(q, k, v)`, with options `causal`, \
    `window=1024`, `offset=6144`, `scale=0.088` and `cap=50.0` after them";

/// What an option needs, as it is written.
fn needs(option: &str) -> &'static str {
    match option {
        "causal" => "`causal`",
        "window" => "`window=1024` (a whole number of keys, at least 1)",
        "offset" => "`offset=6144` (a whole number of places, at least 1)",
        "scale" => "`scale=0.088` (a number above zero)",
        _ => "`cap=50.0` (a number above zero)",
    }
}

/// Whether an option can have this value.
fn is_value_of(option: &str, number: &str) -> bool {
    let number = number.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    let counts = ["window", "offset"].contains(&option);
    number.is_some_and(|number| !counts || number.fract() == 0.0)
}

/// The most heads that models have.
const MOST_HEADS: u64 = 256;

/// The functions that have options.
const TAKE_OPTIONS: [&str; 5] = [NAME, "route", "windows", "overlap", "conv"];

/// The options of a call.
#[derive(Default)]
struct Options {
    is_causal: bool,
    window: Option<String>,
    /// How many places the queries stand after the keys of the same number.
    offset: Option<String>,
    scale: Option<String>,
    cap: Option<String>,
}

/// The dimensions of an attention.
struct Roles {
    /// That queries and not keys have, if there is one.
    queries: Option<DimId>,
    /// That keys and not queries have.
    keys: Vec<DimId>,
    /// What scores sum over.
    summed: Vec<DimId>,
}

/// What seem to be heads, of which queries have a multiple.
struct Heads {
    of_queries: DimId,
    of_keys: DimId,
    /// The dimension of positions that both have, where keys have none of their own.
    positions: Option<DimId>,
}

/// A number with ten digits, so that it is right in `f32`; without zeros at its end.
fn digits(number: f64) -> String {
    let rounded = format!("{number:.9e}").parse::<f64>();
    rounded.unwrap_or(number).to_string()
}

impl Resolver<'_> {
    pub(super) fn attention(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        self.may_be_several(span, "write the products and the softmax out")?;
        let [q, k, v, flags @ ..] = &call.arguments[..] else {
            return self.bad_call(FORM, span);
        };
        let mut options = self.attention_options(call)?;
        for flag in flags {
            let name = match &flag.node {
                ExprKind::Tensor { name, layout: None } => name.node.as_str(),
                _ => return self.bad_call(FORM, flag.span),
            };
            if name != "causal" || options.is_causal {
                return self.no_option(name, flag.span);
            }
            options.is_causal = true;
        }
        self.moves_a_mask(call, &options)?;
        let operands = [q, k, v].map(|argument| self.operand(argument, target));
        let [Some(q), Some(k), Some(v)] = operands else { return None };
        let roles = self.roles(call, [&q, &k, &v])?;
        self.warn_of_heads(&roles, &q, &k);
        let product = self.plain(OpKind::Einsum { contracted: roles.summed.clone() }, vec![q, k]);
        let scores = self.link_value(product, target, span)?;
        let scores = self.scaled(scores, &roles, &options, target, span)?;
        let scores = self.masked(scores, &roles, &options, target, span)?;
        let softmax = OpKind::Composite { function: Composite::Softmax, dims: roles.keys.clone() };
        let softmax = self.plain(softmax, vec![scores]);
        let weights = self.link_value(softmax, target, span)?;
        Some(self.plain(OpKind::Einsum { contracted: roles.keys }, vec![weights, v]))
    }

    fn attention_options(&mut self, call: &Call) -> Option<Options> {
        let mut options = Options::default();
        for (name, number) in &call.options {
            let at = name.span.to(number.span);
            let place = match name.node.as_str() {
                "window" => &mut options.window,
                "offset" => &mut options.offset,
                "scale" => &mut options.scale,
                "cap" => &mut options.cap,
                other => return self.no_option(other, at),
            };
            if place.is_some() {
                return self.no_option(&name.node, at);
            }
            if !is_value_of(&name.node, &number.node) {
                let message = format!("`{}` cannot be {}", name.node, number.node);
                return self.bad_call_with(&message, at, &format!("write {}", needs(&name.node)));
            }
            *place = Some(number.node.clone());
        }
        Some(options)
    }

    /// Reports an offset without a mask that it could move.
    fn moves_a_mask(&mut self, call: &Call, options: &Options) -> Option<()> {
        let is_masked = options.is_causal || options.window.is_some();
        let offset = call.options.iter().find(|(name, _)| name.node == "offset");
        let Some((name, number)) = offset.filter(|_| !is_masked) else { return Some(()) };
        self.bad_call_with(
            "`offset` moves the queries along a mask, and there is none",
            name.span.to(number.span),
            &format!("write `causal, offset={}`, or leave it out", number.node),
        )
    }

    /// Reports a word after the operands that is no option, or not a second time.
    fn no_option<T>(&mut self, name: &str, at: Span) -> Option<T> {
        let (message, help) = if !OPTIONS.contains(&name) {
            let near = suggest::nearest(name, OPTIONS);
            let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let each = OPTIONS.map(needs).join(", ");
            let help = format!("{near}its options are {each}");
            (format!("`attention` has no option `{name}`"), help)
        } else if name != "causal" && at.end - at.start == name.len() {
            (format!("`{name}` needs a value"), format!("write {}", needs(name)))
        } else {
            (format!("`{name}` is given twice"), "keep one of them".to_owned())
        };
        self.bad_call_with(&message, at, &help)
    }

    /// Which dimensions of queries, keys and values are what.
    fn roles(&mut self, call: &Call, [q, k, v]: [&Operand; 3]) -> Option<Roles> {
        let dims = |operand: &Operand| self.values[operand.value].dims.clone();
        let (of_q, of_k, of_v) = (dims(q), dims(k), dims(v));
        let summed = match &call.subscript {
            Some(subscript) => self.distinct_dims(&subscript.node)?,
            None => of_q.last().copied().into_iter().collect(),
        };
        let keys: Vec<DimId> = of_k.iter().copied().filter(|dim| !of_q.contains(dim)).collect();
        let mut queries =
            of_q.iter().copied().filter(|dim| !of_k.contains(dim) && !of_v.contains(dim));
        let all = keys.iter().map(|&dim| self.dims[dim].size);
        let sizes = all.fold(1, u64::saturating_mul);
        let same_size = queries.clone().find(|&dim| self.dims[dim].size == sizes);
        let queries = same_size.or_else(|| queries.next());
        let lacking =
            |dims: &[DimId], of: &[DimId]| dims.iter().find(|dim| !of.contains(dim)).copied();
        let fault = if keys.is_empty() {
            Some((k, "keys have no dimension that queries lack".to_owned()))
        } else if let Some(dim) = lacking(&summed, &of_k) {
            Some((k, format!("scores sum over `{}`, which keys lack", self.dims[dim].name)))
        } else if let Some(dim) = lacking(&summed, &of_q) {
            Some((q, format!("scores sum over `{}`, which queries lack", self.dims[dim].name)))
        } else {
            lacking(&keys, &of_v).map(|dim| {
                (v, format!("values lack the dimension `{}` of keys", self.dims[dim].name))
            })
        };
        let Some((at, message)) = fault else { return Some(Roles { queries, keys, summed }) };
        let diag = Diag::error(names::CONTRACTION, message, at.span, "this operand");
        self.error(diag.help(
            "queries are q[B, T, N, H], keys k[B, S, N, H] and values v[B, S, N, H]: \
            `k[B, S, N, H] = rename(…)` gives keys a dimension of their own, and \
            `attention_H(q, k, v)` names what scores sum over",
        ));
        None
    }

    /// Warns where queries seem to attend to heads: those of their own position, where both have
    /// the positions by one name, or of all positions at once.
    fn warn_of_heads(&mut self, roles: &Roles, q: &Operand, k: &Operand) {
        let Some(Heads { of_queries: query, of_keys: key, positions }) = self.heads(roles, q, k)
        else {
            return;
        };
        let name = |dim: DimId| self.dims[dim].name.as_str();
        let (message, label) = match positions {
            Some(both) => (
                format!("each of `{0}` attends along `{1}` only", name(both), name(key)),
                format!("has `{}` as queries have", name(both)),
            ),
            None => (
                format!("queries attend to all of `{}` of every key", name(key)),
                format!("`{}` is another dimension than `{}`", name(key), name(query)),
            ),
        };
        let free = |name: &str, other: String| {
            if self.dims.iter().any(|dim| dim.name == name) { other } else { name.to_owned() }
        };
        let written = |operand: &Operand, from: DimId, to: &str| {
            let dims = self.values[operand.value].dims.iter();
            let dims = dims.map(|&dim| if dim == from { to } else { name(dim) });
            dims.collect::<Vec<_>>().join(", ")
        };
        let renamed = positions.map(|both| {
            let own = free("S", format!("{}.keys", name(both)));
            format!("keys and values are [{}] by `rename`, and ", written(k, both, &own))
        });
        let group = free("G", format!("{}.of.{}", name(query), name(key)));
        let help = format!(
            "if `{}` and `{}` are heads: {}queries are [{}] with `dim {group}={}`",
            name(query),
            name(key),
            renamed.unwrap_or_default(),
            written(q, query, &format!("{}, {group}", name(key))),
            self.dims[query].size / self.dims[key].size
        );
        self.error(Diag::warning(names::HEADS_AS_POSITIONS, message, k.span, label).help(help));
    }

    /// The dimensions of queries and of keys that seem to be heads: queries have a multiple of
    /// those of keys, and not many. Where keys lack positions of their own, the dimension before
    /// the heads, which is longer; else keys have one as well that is longer.
    fn heads(&self, roles: &Roles, q: &Operand, k: &Operand) -> Option<Heads> {
        let size = |dim: DimId| self.dims[dim].size;
        let (of_q, of_k) = (&self.values[q.value].dims, &self.values[k.value].dims);
        let are_heads = |query: DimId, key: DimId| {
            size(query).is_multiple_of(size(key)) && size(query) <= MOST_HEADS
        };
        let before = |dims: &[DimId], dim: DimId| {
            let place = dims.iter().position(|&other| other == dim)?;
            place.checked_sub(1).map(|before| dims[before])
        };
        match roles.keys[..] {
            [key] => {
                let query = roles.queries?;
                let both = before(of_q, query)?;
                let is_in_both = before(of_k, key) == Some(both) && size(both) >= size(query);
                let are_grouped = are_heads(query, key) && size(key) < size(query);
                let heads = Heads { of_queries: query, of_keys: key, positions: Some(both) };
                (are_grouped && is_in_both).then_some(heads)
            }
            [one, other] => {
                let mut queries = of_q.iter().filter(|dim| !of_k.contains(dim));
                let pair = |&query: &DimId| {
                    let heads = [(one, other), (other, one)].into_iter();
                    let mut heads = heads.filter(|&(key, longer)| {
                        are_heads(query, key) && size(longer) > size(query)
                    });
                    let (of_keys, _) = heads.next()?;
                    Some(Heads { of_queries: query, of_keys, positions: None })
                };
                queries.find_map(pair)
            }
            _ => None,
        }
    }

    /// Scores after the scale and the soft cap.
    fn scaled(
        &mut self,
        mut scores: Operand,
        roles: &Roles,
        options: &Options,
        target: Option<&Target>,
        span: Span,
    ) -> Option<Operand> {
        let sizes: f64 = roles.summed.iter().map(|&dim| self.dims[dim].size as f64).product();
        let scale = options.scale.clone().unwrap_or_else(|| digits(sizes.sqrt().recip()));
        if scale.parse::<f64>().is_ok_and(|scale| (scale - 1.0).abs() > 0.0) {
            let operation = self.map(MapForm::ScaleBy(scale), vec![scores]);
            scores = self.link_value(operation, target, span)?;
        }
        let Some(cap) = &options.cap else { return Some(scores) };
        let forms = [
            MapForm::InfixScalar(Arithmetic::Div, cap.clone()),
            MapForm::call(Function::Tanh),
            MapForm::ScaleBy(cap.clone()),
        ];
        for form in forms {
            let operation = self.map(form, vec![scores]);
            scores = self.link_value(operation, target, span)?;
        }
        Some(scores)
    }

    /// Scores after the masks.
    fn masked(
        &mut self,
        mut scores: Operand,
        roles: &Roles,
        options: &Options,
        target: Option<&Target>,
        span: Span,
    ) -> Option<Operand> {
        if !options.is_causal && options.window.is_none() {
            return Some(scores);
        }
        let (Some(query), [key]) = (roles.queries, &roles.keys[..]) else {
            return self.no_positions(roles, span);
        };
        let key = *key;
        let mut link = |form: MapForm, operands: Vec<Operand>| {
            let operation = self.map(form, operands);
            self.link_value(operation, target, span)
        };
        let is_plain = options.is_causal && options.offset.is_none();
        if is_plain {
            let form = MapForm::Causal { query, key, fill: Fill::Infinite };
            scores = link(form, vec![scores])?;
        }
        let later =
            (options.is_causal && !is_plain).then(|| (Function::GreaterEqual, "0.0".to_owned()));
        let far = options.window.clone().map(|window| (Function::Less, window));
        if later.is_none() && far.is_none() {
            return Some(scores);
        }
        let mut here = link(MapForm::Position(query), vec![scores.clone()])?;
        if let Some(offset) = &options.offset {
            here = link(MapForm::InfixScalar(Arithmetic::Add, offset.clone()), vec![here])?;
        }
        let there = link(MapForm::Position(key), vec![scores.clone()])?;
        let distance = link(MapForm::Infix(Arithmetic::Sub), vec![here, there])?;
        for (function, number) in later.into_iter().chain(far) {
            let form = MapForm::Call { function, numbers: vec![number] };
            let near = link(form, vec![distance.clone()])?;
            let numbers = vec![MASKED.to_owned()];
            let form = MapForm::Call { function: Function::Select, numbers };
            scores = link(form, vec![near, scores])?;
        }
        Some(scores)
    }

    /// Reports that masks do not know whose positions to compare.
    fn no_positions<T>(&mut self, roles: &Roles, span: Span) -> Option<T> {
        let names = |dims: &[DimId]| {
            let names = dims.iter().map(|&dim| format!("`{}`", self.dims[dim].name));
            names.collect::<Vec<_>>().join(" and ")
        };
        let queries: Vec<DimId> = roles.queries.into_iter().collect();
        let message = if queries.is_empty() {
            "queries have no dimension that keys lack, whose positions a mask could compare".into()
        } else {
            format!("keys have {}, which queries lack: a mask compares one", names(&roles.keys))
        };
        self.bad_call_with(
            &message,
            span,
            "queries are q[B, T, N, H], and keys k[B, S, N, H], which differ in one dimension: \
                masks compare positions along `T` and `S`",
        )
    }

    /// Reports options of a function that has none; of an unknown one that is reported.
    pub(super) fn may_have_options(&mut self, call: &Call) -> Option<()> {
        let Some((name, number)) = call.options.first() else { return Some(()) };
        let function = call.function.node.as_str();
        let is_known = known_functions().any(|known| known == function);
        if TAKE_OPTIONS.contains(&function) || !is_known {
            return Some(());
        }
        let message = format!("`{}` has no option `{}`", call.function.node, name.node);
        let at = name.span.to(number.span);
        let diag = Diag::error(names::BAD_CALL, message, at, "this option");
        self.error(diag.help(match name.node.as_str() {
            "window" if call.function.node == "causal" => format!(
                "`attention(q, k, v, causal, window={0})` has one; of scores alone, write \
                    `select(position_T(s) - position_S(s) < {0}, causal_{{T,S}}(s), -1e9)`",
                number.node
            ),
            _ => format!("only `{}` have options", TAKE_OPTIONS.join("`, `")),
        }));
        None
    }
}
