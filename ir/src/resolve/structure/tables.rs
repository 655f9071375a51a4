//! Calls that read and write rows of a table at indices in an array: `take`,
//! `put` and `update`.

use indexmap::IndexSet;
use shardwise_grammar::ast::{Call, Expr};
use shardwise_grammar::span::{Name, Span};

use super::super::Resolver;
use super::super::define::{Operation, Target};
use crate::Diag;
use crate::codes::names;
use crate::ids::DimId;
use crate::program::{Mode, OpKind, Operand};

impl Resolver<'_> {
    /// A dimension's name in the subscript of a call on tables.
    pub(super) fn table_dim(
        &mut self,
        call: &Call,
        form: &str,
        span: Span,
    ) -> Option<(DimId, Name)> {
        match call.subscript.as_ref().map(|subscript| &subscript.node[..]) {
            Some([written]) => Some((self.dim(written)?, written.clone())),
            _ => self.bad_call(form, span),
        }
    }

    pub(super) fn take(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let form = "`take` is written `take_V(Table, Ids)` or `gather_V(Table, Ids)`: the rows \
            of the table along `V` at the indices in the second";
        let (dim, written) = self.table_dim(call, form, span)?;
        let [table, ids] = &call.arguments[..] else { return self.bad_call(form, span) };
        let table = self.operand(table, target);
        let ids = self.ids(ids, dim, target);
        let (table, ids) = (table?, ids?);
        self.has(&table, dim, &written)?;
        Some(self.plain(OpKind::Gather { dim }, vec![table, ids]))
    }

    pub(super) fn put(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let form = "`put` is written `put_V(Rows, Ids, Like)` or `scatter_add_V(Rows, Ids, \
            Like)`: rows added up along `V`, in an array like the third";
        let (dim, written) = self.table_dim(call, form, span)?;
        let [rows, ids, like] = &call.arguments[..] else { return self.bad_call(form, span) };
        let rows = self.operand(rows, target);
        let ids = self.ids(ids, dim, target);
        let like = self.operand(like, target);
        let (rows, ids, like) = (rows?, ids?, like?);
        self.has(&like, dim, &written)?;
        if like.pin.is_some() && self.mode == Mode::Ordinary {
            let message = format!(
                "`{}` has brackets, and only its dimensions count here",
                self.values[like.value].name
            );
            self.error(
                Diag::error(names::BAD_CALL, message, like.span, "not read")
                    .help("omit the brackets"),
            );
            return None;
        }
        let given: Vec<DimId> = [&rows, &ids]
            .iter()
            .flat_map(|operand| self.values[operand.value].dims.clone())
            .collect();
        if given.contains(&dim) {
            let message = format!(
                "`{}` has the dimension `{}` that it is put along",
                self.values[rows.value].name, self.dims[dim].name
            );
            let diag = Diag::error(names::CONTRACTION, message, rows.span, "these rows")
                .and(like.span, "are to be put into this");
            self.error(diag.help("give one of them another name: `rename(…)`"));
            return None;
        }
        let needed = self.values[like.value].dims.clone();
        if let Some(&missing) = needed.iter().find(|other| **other != dim && !given.contains(other))
        {
            let message = format!(
                "no row has the dimension `{}` of `{}`",
                self.dims[missing].name, self.values[like.value].name
            );
            let diag = Diag::error(names::CONTRACTION, message, rows.span, "these rows")
                .and(like.span, "are to be put into this");
            self.error(
                diag.help(
                    "rows have all dimensions of the array but the one that they are put along",
                ),
            );
            return None;
        }
        Some(self.plain(OpKind::ScatterAdd { dim }, vec![rows, ids, like]))
    }

    /// `update_S(Cache, At, Rows)`.
    pub(super) fn update_rows(
        &mut self,
        call: &Call,
        span: Span,
        target: Option<&Target>,
    ) -> Option<Operation> {
        let form = "`update` is written `update_S(Cache, At, Rows)`: along `S`, rows are written \
            over those at the indices in the second";
        let (dim, written) = self.table_dim(call, form, span)?;
        let [cache, ids, rows] = &call.arguments[..] else { return self.bad_call(form, span) };
        let cache = self.operand(cache, target);
        let ids = self.ids(ids, dim, target);
        let rows = self.operand(rows, target);
        let (cache, ids, rows) = (cache?, ids?, rows?);
        self.has(&cache, dim, &written)?;
        let fault = self.misplaced_rows(dim, [&cache, &ids, &rows]);
        match fault {
            Some(diag) => self.error(diag),
            None => return Some(self.plain(OpKind::Update { dim }, vec![cache, ids, rows])),
        }
        None
    }

    /// Why rows cannot be written into an array: dimensions of the array, the rows or the indices
    /// do not match.
    fn misplaced_rows(&self, dim: DimId, [cache, ids, rows]: [&Operand; 3]) -> Option<Diag> {
        let of = |operand: &Operand| &self.values[operand.value];
        let (old, new, places) = (of(cache), of(rows), of(ids));
        let fault = |message: String| {
            let wanted: IndexSet<DimId> = places
                .dims
                .iter()
                .chain(&old.dims)
                .copied()
                .filter(|&other| other != dim)
                .collect();
            let wanted: Vec<DimId> = wanted.into_iter().collect();
            let diag = Diag::error(names::CONTRACTION, message, rows.span, "these rows")
                .and(cache.span, "are to be written into this");
            diag.help(format!(
                "with these places, rows have the dimensions [{}]",
                self.dim_list(&wanted)
            ))
        };
        let is_place = |other: &DimId| places.dims.contains(other) && *other != dim;
        if let Some(&missing) =
            old.dims.iter().find(|other| **other != dim && !new.dims.contains(other))
        {
            Some(fault(format!(
                "no row has the dimension `{}` of `{}`",
                self.dims[missing].name, old.name
            )))
        } else if let Some(&extra) = new
            .dims
            .iter()
            .find(|other| (**other == dim || !old.dims.contains(other)) && !is_place(other))
        {
            Some(fault(format!(
                "`{}` has no indices along the dimension `{}` of `{}`",
                places.name, self.dims[extra].name, new.name
            )))
        } else if let Some(&extra) = places.dims.iter().find(|other| !new.dims.contains(other)) {
            Some(fault(format!(
                "`{}` has indices along `{}`, along which there are no rows",
                places.name, self.dims[extra].name
            )))
        } else if old.dtype != new.dtype {
            let message = format!(
                "`{}` is {}, and rows of {} are to be written into it",
                old.name,
                old.dtype.name(),
                new.dtype.name()
            );
            let diag = Diag::error(names::DTYPES_DIFFER, message, rows.span, "these rows")
                .and(old.span, "defined here");
            Some(diag.help(format!("write `cast<{}>(…)` around the rows", old.dtype.name())))
        } else {
            None
        }
    }

    /// Indices along `dim`: integers, in an array without that dimension.
    pub(super) fn ids(
        &mut self,
        argument: &Expr,
        dim: DimId,
        target: Option<&Target>,
    ) -> Option<Operand> {
        let operand = self.operand(argument, target)?;
        let value = &self.values[operand.value];
        let (name, dim) = (&value.name, &self.dims[dim].name);
        let has_dim = || value.dims.iter().any(|&other| self.dims[other].name == *dim);
        let diag = if value.dtype.is_float() {
            let help = if has_dim() {
                format!("the table comes first: `take_{dim}({name}, …)`")
            } else {
                format!("declare it `{name}: int32[…]`, or `cast<int32>({name})`")
            };
            let message = format!("`{name}` is {}, and indices are integers", value.dtype.name());
            let diag =
                Diag::error(names::DTYPES_DIFFER, message, operand.span, "looked up with these");
            diag.and(value.span, "defined here").help(help)
        } else if has_dim() {
            let message = format!("`{name}` has the dimension `{dim}` that it has indices of");
            Diag::error(names::CONTRACTION, message, operand.span, "looked up with these")
                .help("give one of them another name: `rename(…)`")
        } else {
            return Some(operand);
        };
        self.error(diag);
        None
    }
}
