//! Calls that make indices, and functions of all elements along a dimension.

use shardwise_grammar::ast::Call;
use shardwise_grammar::span::Span;

use super::super::Resolver;
use super::super::define::{Operation, Target};
use crate::Diag;
use crate::codes::names;
use crate::dtype::DType;
use crate::functions::{Along, AlongFn, Function, ReduceFn};
use crate::ids::DimId;
use crate::program::{MapFn, MapForm, OpKind};

impl Resolver<'_> {
    pub(super) fn iota(&mut self, call: &Call, span: Span) -> Option<Operation> {
        let form = "`iota` is written `iota_S()`: the indices along `S`, of no operand";
        let (dim, _) = self.table_dim(call, form, span)?;
        if call.arguments.is_empty() {
            Some(self.map(MapForm::Iota(dim), Vec::new()))
        } else {
            self.bad_call(form, span)
        }
    }

    /// `one_hot_V(Ids)` stands for `cast<bf16>(iota_V() == Ids)`, in the dtype of the left side.
    pub(super) fn one_hot(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        self.may_be_several(span, "write `iota`, the comparison and `cast` out")?;
        let form = "`one_hot` is written `one_hot_V(Ids)`: along `V`, one at the index and else 0";
        let (dim, _) = self.table_dim(call, form, span)?;
        let [ids] = &call.arguments[..] else { return self.bad_call(form, span) };
        let ids = self.ids(ids, dim, target)?;
        let indices = self.map(MapForm::Iota(dim), Vec::new());
        let indices = self.link_value(indices, target, span)?;
        let equal = self.map(MapForm::call(Function::Equal), vec![ids, indices]);
        let equal = self.link_value(equal, target, span)?;
        let to = target.and_then(|target| target.dtype).unwrap_or_default();
        Some(self.plain(OpKind::Map(MapFn::cast(DType::Bool, to)), vec![equal]))
    }

    /// `argmax_V(x)` stands for `min_V(select(x == max_V(x), iota_V(), n))`, `n` elements in all:
    /// of equal ones the first.
    pub(super) fn argmax(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        self.may_be_several(span, "write the maximum, the comparison and `iota` out")?;
        let (operand, dims) = self.along("argmax", call, span, target)?;
        let [dim] = dims[..] else {
            return self.bad_call("`argmax` is written `argmax_V(x)`, with one dimension", span);
        };
        let reduce = |function| OpKind::Reduce { function, dims: vec![dim] };
        let largest = self.plain(reduce(ReduceFn::Max), vec![operand.clone()]);
        let largest = self.link_value(largest, target, span)?;
        let is_largest = self.map(MapForm::call(Function::Equal), vec![operand, largest]);
        let is_largest = self.link_value(is_largest, target, span)?;
        let indices = self.map(MapForm::Iota(dim), Vec::new());
        let indices = self.link_value(indices, target, span)?;
        let beyond = vec![self.dims[dim].size.to_string()];
        let select = MapForm::Call { function: Function::Select, numbers: beyond };
        let places = self.map(select, vec![is_largest, indices]);
        let places = self.link_value(places, target, span)?;
        Some(self.plain(reduce(ReduceFn::Min), vec![places]))
    }

    /// `cumsum_S(x)`, `topk_{V->K}(x)`.
    pub(in super::super) fn function_along(
        &mut self,
        call: &Call,
        function: AlongFn,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let name = function.name();
        let form = if function.row().picks {
            format!("`{name}` is written `{name}_{{V->K}}(x)`: along `V`, as many as `K` is long")
        } else {
            format!("`{name}` is written `{name}_S(x)`, with one dimension")
        };
        let words = call.subscript.as_ref().map(|words| words.node.clone()).unwrap_or_default();
        let ([argument], [first, others @ ..]) = (&call.arguments[..], &words[..]) else {
            return self.bad_call(&form, span);
        };
        if others.len() != usize::from(function.row().picks) {
            return self.bad_call(&form, span);
        }
        let operand = self.operand(argument, target)?;
        let from = self.dim(first)?;
        self.has(&operand, from, first)?;
        let mut to = from;
        if let [picked] = others {
            to = self.dim(picked)?;
            self.is_new(&operand, to, picked)?;
            self.can_pick(from, to, span)?;
        }
        Some(self.plain(OpKind::Along(Along { function, from, to }), vec![operand]))
    }

    /// Whether a dimension has as many elements as are picked from it; reports it if not.
    fn can_pick(&mut self, from: DimId, to: DimId, span: Span) -> Option<()> {
        let (whole, part) = (&self.dims[from], &self.dims[to]);
        if part.size <= whole.size {
            return Some(());
        }
        let message = format!(
            "`{}` = {} elements are picked from `{}` = {}",
            part.name, part.size, whole.name, whole.size
        );
        let diag = Diag::error(names::BAD_SIZE, message, span, "this call");
        self.error(diag.help("pick fewer"));
        None
    }
}
