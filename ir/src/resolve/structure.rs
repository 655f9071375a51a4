//! Calls that change dimensions otherwise than by summing (rename, reshape, lookup, slice, concat),
//! and those that depend on the index of an element.

mod indices;
mod tables;

use crate::codes::names;
use shardwise_grammar::ast::Call;
use shardwise_grammar::span::{Name, Span, Spanned};

use super::Resolver;
use super::define::{Operation, Target};
use super::expression::scalar;
use crate::Diag;
use crate::ids::DimId;
use crate::program::{Dim, Fill, MapForm, OpKind, Operand};
use crate::rearrange::{Composite, Rearrange, Roll, Window, regroup, regroup_by_factors};

/// The calls of this module, for suggestions of similar names.
pub(super) const NAMES: [&str; 23] = [
    "rename", "reshape", "take", "put", "update", "slice", "pad", "concat", "roll", "causal",
    "lower", "position", "iota", "one_hot", "argmax", "route", "part", "join", "chunk", "stack",
    "windows", "overlap", "conv",
];

/// Standard names that programs may write, with the canonical name of each; also names with `_`.
pub(super) const SYNONYMS: [(&str, &str); 3] =
    [("gather", "take"), ("scatter_add", "put"), ("one_hot", "one_hot")];

/// A call by a synonym, as a call by the canonical name.
pub(super) fn canonical(call: &Call) -> Option<Call> {
    SYNONYMS.iter().find_map(|&(synonym, canonical)| {
        let function = Name::new(canonical.to_owned(), call.function.span);
        called_by(synonym, call, function)
    })
}

/// The call with another function, if it calls `name`. Of a name with `_`, the second part was read
/// as the beginning of the subscript: `scatter` and `add_V`.
fn called_by(name: &str, call: &Call, function: Name) -> Option<Call> {
    let (first, rest) = name.split_once('_').unwrap_or((name, ""));
    if call.function.node != first {
        return None;
    }
    if rest.is_empty() {
        return Some(Call { function, ..call.clone() });
    }
    let subscript = call.subscript.as_ref()?;
    let [word] = &subscript.node[..] else { return None };
    let subscript = match word.node.strip_prefix(rest)?.split_once('_') {
        None if word.node == rest => None,
        Some(("", dim)) => {
            let span = Span::new(word.span.end - dim.len(), word.span.end);
            let dim = Name::new(dim.to_owned(), span);
            Some(Spanned::new(vec![dim], subscript.span))
        }
        _ => return None,
    };
    Some(Call { function, subscript, ..call.clone() })
}

impl Resolver<'_> {
    /// The operation that one of [`NAMES`] stands for.
    pub(super) fn structural(
        &mut self,
        name: &str,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        match name {
            "rename" => self.rename(call, span, target),
            "reshape" => self.reshape(call, span, target),
            "take" => self.take(call, span, target),
            "put" => self.put(call, span, target),
            "update" => self.update_rows(call, span, target),
            "slice" | "pad" => self.window(name, call, span, target),
            "concat" => self.concat(call, span, target),
            "roll" => self.roll(call, span, target),
            "causal" => self.causal(name, Fill::Infinite, call, span, target),
            "lower" => self.causal(name, Fill::Zero, call, span, target),
            "position" => self.position(call, span, target),
            "iota" => self.iota(call, span),
            "one_hot" => self.one_hot(call, span, target),
            "argmax" => self.argmax(call, span, target),
            "route" => self.route(call, span, target),
            "part" => self.part(call, span, target),
            "join" => self.join(call, span),
            "chunk" => self.chunk(call, span),
            "stack" => self.stack(call, span),
            "windows" => self.windows(call, span, target),
            "overlap" => self.overlap(call, span, target),
            "conv" => self.conv(call, span, target),
            _ => None,
        }
    }

    pub(super) fn composite(
        &mut self,
        function: Composite,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let name = function.name();
        let (operand, dims) = self.along(name, call, span, target)?;
        Some(self.plain(OpKind::Composite { function, dims }, vec![operand]))
    }

    /// The one operand of a call, and the dimensions that its subscript names, which the operand
    /// has.
    fn along(
        &mut self,
        name: &str,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<(Operand, Vec<DimId>)> {
        let (Some(subscript), [argument]) = (&call.subscript, &call.arguments[..]) else {
            return self.needs_dims(name, call, span);
        };
        let operand = self.operand(argument, target)?;
        let dims = self.distinct_dims(&subscript.node)?;
        for (&dim, written) in dims.iter().zip(&subscript.node) {
            self.has(&operand, dim, written)?;
        }
        Some((operand, dims))
    }

    /// Whether an operand has a dimension; reports it if not.
    pub(super) fn has(&mut self, operand: &Operand, dim: DimId, written: &Name) -> Option<()> {
        if self.values[operand.value].dims.contains(&dim) {
            return Some(());
        }
        let message = format!(
            "`{}` has no dimension `{}`",
            self.values[operand.value].name, self.dims[dim].name
        );
        let diag = Diag::error(names::CONTRACTION, message, written.span, "named here")
            .and(operand.span, "of this");
        self.error(diag.help(format!(
            "its dimensions are [{}]",
            self.dim_list(&self.values[operand.value].dims.clone())
        )));
        None
    }

    fn dim_list(&self, dims: &[DimId]) -> String {
        dims.iter().map(|&dim| self.dims[dim].name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn one_operand(
        &mut self,
        name: &str,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operand> {
        match (&call.arguments[..], &call.subscript) {
            ([argument], None) => self.operand(argument, target),
            _ => self.bad_call(
                &format!("`{name}` is written `{name}(x)`: its left side names the dimensions"),
                span,
            ),
        }
    }

    /// The dimensions of a result that changes them, from the left side or an output declaration.
    fn new_dims(&mut self, name: &str, span: Span, target: Option<&Target>) -> Option<Vec<DimId>> {
        let written = target.and_then(Target::dims);
        if written.is_none() {
            let message = format!("the dimensions of the result of `{name}` are not given");
            let diag = Diag::error(names::NEEDS_BRACKETS, message, span, "to which dimensions?");
            self.error(diag.help(
                "write them on the left of a statement of its own; `_?` leaves \
                the sharding open: `K2[B_?, S_?] = …`",
            ));
        }
        written
    }

    fn rename(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        let unnamed = Call { subscript: None, ..call.clone() };
        let operand = self.one_operand("rename", &unnamed, span, target)?;
        let old = self.values[operand.value].dims.clone();
        let new = match &call.subscript {
            Some(subscript) => self.renamed(&operand, subscript, call.before_arrow)?,
            None => self.new_dims("rename", span, target)?,
        };
        let only = |here: &[DimId], there: &[DimId]| {
            here.iter().copied().filter(|dim| !there.contains(dim)).collect::<Vec<_>>()
        };
        let pairs: Vec<(DimId, DimId)> =
            only(&old, &new).into_iter().zip(only(&new, &old)).collect();
        let unequal = pairs.iter().find(|(a, b)| {
            self.dims[*a].size != self.dims[*b].size || self.dims[*a].pad != self.dims[*b].pad
        });
        let message = match unequal {
            _ if old.len() != new.len() => {
                format!("`rename` leads from {} dimensions to {}", old.len(), new.len())
            }
            Some((a, b)) => {
                let (a, b) = (&self.dims[*a], &self.dims[*b]);
                format!("`{}` = {} cannot be called `{}` = {}", a.name, a.size, b.name, b.size)
            }
            None => {
                return Some(
                    self.plain(OpKind::Rearrange(Rearrange::Rename(pairs)), vec![operand]),
                );
            }
        };
        let diag = Diag::error(
            names::DIMS_DIFFER,
            message,
            span,
            format!("from [{}] to [{}]", self.dim_list(&old), self.dim_list(&new)),
        );
        self.error(diag.help(
            "a renamed dimension keeps its size; those that both sides have stay, \
            the others follow in order",
        ));
        None
    }

    /// The dimensions of `rename_{T->S}(x)`: those of the operand, what stands before the arrow
    /// replaced by what stands after it.
    fn renamed(
        &mut self,
        operand: &Operand,
        subscript: &Spanned<Vec<Name>>,
        before_arrow: usize,
    ) -> Option<Vec<DimId>> {
        let named = self.distinct_dims(&subscript.node)?;
        let (from, to) = named.split_at(before_arrow.min(named.len()));
        if from.len() != to.len() {
            return self
                .bad_call("`rename_{T->S}(x)` has as many new names as old", subscript.span);
        }
        for (&dim, written) in from.iter().zip(&subscript.node) {
            self.has(operand, dim, written)?;
        }
        let new = |dim: &DimId| from.iter().position(|old| old == dim).map_or(*dim, |at| to[at]);
        Some(self.values[operand.value].dims.iter().map(new).collect())
    }

    fn reshape(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        let operand = self.one_operand("reshape", call, span, target)?;
        let new = self.new_dims("reshape", span, target)?;
        let old = self.values[operand.value].dims.clone();
        if let Some(groups) = regroup(&self.dims, &old, &new) {
            return Some(self.plain(OpKind::Rearrange(Rearrange::Reshape(groups)), vec![operand]));
        }
        if let Some((factors, [split, merged])) = regroup_by_factors(&self.dims, &old, &new) {
            self.may_be_several(span, "write the split and the merge")?;
            let split = self.plain(OpKind::Rearrange(Rearrange::Reshape(split)), vec![operand]);
            let factors = self.link_value_of(split, Some(factors), target, span)?;
            return Some(self.plain(OpKind::Rearrange(Rearrange::Reshape(merged)), vec![factors]));
        }
        let message = format!(
            "[{}] and [{}] do not have the same factors",
            self.dim_list(&old),
            self.dim_list(&new)
        );
        let diag = Diag::error(names::DIMS_DIFFER, message, span, "this reshape");
        self.error(diag.help(
            "declare the larger dimension as the product of the others, major first: `dim N=K*G`",
        ));
        None
    }

    /// `slice_{S->P}(x, 128)` and `pad_{P->S}(x, 128)`; the number may be left out at the
    /// beginning.
    fn window(
        &mut self,
        name: &str,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let (longer, shorter) = if name == "slice" { ("S", "P") } else { ("P", "S") };
        let form = format!(
            "`{name}` is written `{name}_{{{longer}->{shorter}}}(x, 128)`: from which dimension to \
                which, and where it begins"
        );
        let (argument, start) = match &call.arguments[..] {
            [argument] => (argument, Some(0)),
            [argument, start] => {
                (argument, scalar(start).and_then(|number| number.parse::<u64>().ok()))
            }
            _ => return self.bad_call(&form, span),
        };
        let words =
            call.subscript.as_ref().map(|subscript| subscript.node.clone()).unwrap_or_default();
        let ([old, new], Some(start)) = (&words[..], start) else {
            return self.bad_call(&form, span);
        };
        let operand = self.operand(argument, target)?;
        let (from, to) = (self.dim(old)?, self.dim(new)?);
        self.has(&operand, from, old)?;
        self.is_new(&operand, to, new)?;
        let (whole, part) = if name == "slice" { (from, to) } else { (to, from) };
        let (whole, part) = (&self.dims[whole], &self.dims[part]);
        if start.checked_add(part.size).is_none_or(|end| end > whole.size) {
            let message = format!(
                "`{}` = {} from {start} on does not lie within `{}` = {}",
                part.name, part.size, whole.name, whole.size
            );
            self.error(
                Diag::error(names::BAD_SIZE, message, span, "this part")
                    .help("begin earlier, or give the part another size"),
            );
            return None;
        }
        let window = Window { from, to, start };
        let how = if name == "slice" { Rearrange::Slice(window) } else { Rearrange::Pad(window) };
        Some(self.plain(OpKind::Rearrange(how), vec![operand]))
    }

    /// Whether a new dimension is not in the operand already.
    pub(super) fn is_new(&mut self, operand: &Operand, dim: DimId, written: &Name) -> Option<()> {
        if !self.values[operand.value].dims.contains(&dim) {
            return Some(());
        }
        let message = format!(
            "`{}` has the dimension `{}` already",
            self.values[operand.value].name, written.node
        );
        let diag = Diag::error(names::CONTRACTION, message, written.span, "comes to be here")
            .and(operand.span, "in this");
        self.error(diag.help("name another dimension for the result"));
        None
    }

    fn concat(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        let form = "`concat` is written `concat_{P,Q->S}(a, b)`: the dimension of each operand, \
            and that of the whole";
        let words =
            call.subscript.as_ref().map(|subscript| subscript.node.clone()).unwrap_or_default();
        let Some((whole, parts)) = words
            .split_last()
            .filter(|(_, parts)| parts.len() > 1 && parts.len() == call.arguments.len())
        else {
            return self.bad_call(form, span);
        };
        let operands: Vec<Option<Operand>> =
            call.arguments.iter().map(|argument| self.operand(argument, target)).collect();
        let operands: Vec<Operand> = operands.into_iter().collect::<Option<_>>()?;
        let to = self.dim(whole)?;
        let mut from = Vec::new();
        for (operand, written) in operands.iter().zip(parts) {
            let dim = self.dim(written)?;
            self.has(operand, dim, written)?;
            self.is_new(operand, to, whole)?;
            from.push(dim);
        }
        let total = from.iter().map(|&dim| self.dims[dim].size).fold(0, u64::saturating_add);
        if total != self.dims[to].size {
            let message = format!(
                "the parts are {total} long together, and `{}` = {}",
                whole.node, self.dims[to].size
            );
            self.error(
                Diag::error(names::BAD_SIZE, message, span, "joined here")
                    .help(format!("declare `{}={total}`", whole.node)),
            );
            return None;
        }
        let rest = |k: usize| {
            self.values[operands[k].value]
                .dims
                .iter()
                .copied()
                .filter(|dim| *dim != from[k])
                .collect::<Vec<_>>()
        };
        let first = rest(0);
        if let Some(other) = (1..operands.len()).find(|&k| {
            rest(k).len() != first.len() || rest(k).iter().any(|dim| !first.contains(dim))
        }) {
            let message = format!(
                "[{}] and [{}] cannot be joined",
                self.dim_list(&first),
                self.dim_list(&rest(other))
            );
            let diag =
                Diag::error(names::DIMS_DIFFER, message, operands[other].span, "other dimensions")
                    .and(operands[0].span, "than this");
            self.error(diag.help("what is joined differs in the joined dimension only"));
            return None;
        }
        Some(self.plain(OpKind::Rearrange(Rearrange::Concat { from, to }), operands))
    }

    /// `roll_R(x, 2)`; the number may be left out for one place, and is negative for places back.
    fn roll(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        let form =
            "`roll` is written `roll_R(x, 1)`: along which dimension, and by how many places";
        let (dim, written) = self.table_dim(call, form, span)?;
        let (argument, places) = match &call.arguments[..] {
            [argument] => (argument, Some(1)),
            [argument, by] => (argument, scalar(by).and_then(|number| number.parse::<i64>().ok())),
            _ => return self.bad_call(form, span),
        };
        let Some(places) = places else { return self.bad_call(form, span) };
        let operand = self.operand(argument, target)?;
        self.has(&operand, dim, &written)?;
        let Dim { name, size, .. } = &self.dims[dim];
        let by = if places < 0 && places.unsigned_abs() < *size {
            size - places.unsigned_abs()
        } else {
            places.unsigned_abs()
        };
        // A dimension of size one cannot be rolled.
        if (by >= *size && by > 1) || (by == 0 && *size > 1) {
            let message = match by {
                0 => format!("`{name}` is not rolled by 0 places"),
                _ => format!("`{name}` = {size} is not longer than {by} places"),
            };
            let diag = Diag::error(names::BAD_SIZE, message, span, "this call");
            self.error(diag.help(format!(
                "a full rotation changes nothing: write 1 to {}",
                size.saturating_sub(1).max(1)
            )));
            return None;
        }
        Some(self.plain(OpKind::Rearrange(Rearrange::Roll(Roll { dim, by })), vec![operand]))
    }

    fn causal(
        &mut self,
        name: &str,
        fill: Fill,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let form = format!(
            "`{name}` is written `{name}_{{T,S}}(x)`: what looks along `T` does not see what is \
                further along `S`"
        );
        if call.subscript.as_ref().is_none_or(|subscript| subscript.node.len() != 2) {
            return self.bad_call(&form, span);
        }
        let (operand, dims) = self.along(name, call, span, target)?;
        let [query, key] = dims[..] else { return self.bad_call(&form, span) };
        Some(self.map(MapForm::Causal { query, key, fill }, vec![operand]))
    }

    fn position(&mut self, call: &Call, span: Span, target: Option<&Target>) -> Option<Operation> {
        let (operand, dims) = self.along("position", call, span, target)?;
        match dims[..] {
            [dim] => Some(self.map(MapForm::Position(dim), vec![operand])),
            _ => self.bad_call("`position` is written `position_S(x)`, with one dimension", span),
        }
    }
}
