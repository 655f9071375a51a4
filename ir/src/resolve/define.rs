//! Definitions: a left side, and the operation that defines it.

use crate::codes::names;
use shardwise_grammar::ast::{Call, Definition, Expr, ExprKind};
use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use super::split::is_split;
use crate::Diag;
use crate::dtype::DType;
use crate::ids::{DimId, ValueId};
use crate::program::{CollectiveKind, KernelPart, Mode, Op, OpKind, Operand, Share, Value};
use crate::shape;
use crate::sharding::Pin;

/// The content of a left side.
pub(super) struct Target {
    pub(super) name: Name,
    pub(super) dtype: Option<DType>,
    /// Its brackets.
    pub(super) written: Option<(Vec<DimId>, Pin, Span)>,
    /// The order of dimensions that an output declaration gives, where there are no brackets.
    pub(super) wished: Option<Vec<DimId>>,
}

impl Target {
    /// The dimensions that the result should have, as far as the program says so.
    pub(super) fn dims(&self) -> Option<Vec<DimId>> {
        let written = self.written.as_ref().map(|(dims, ..)| dims.clone());
        written.or_else(|| self.wished.clone())
    }
}

/// An operation about to become a statement.
pub(super) struct Operation {
    pub(super) kind: OpKind,
    pub(super) operands: Vec<Operand>,
    /// The dimensions of its result, as a set that the target may order.
    pub(super) dims: Vec<DimId>,
}

impl Resolver<'_> {
    pub(super) fn define(&mut self, definition: &Definition, span: Span) {
        self.links = 0;
        self.statement_start = self.ops.len();
        // What names mean in a block depends on the line that opens it.
        if !self.wrong_blocks.is_empty() {
            return self.poison(&definition.target.name.node);
        }
        if is_split(definition) {
            for part in self.parts_of_split(definition).unwrap_or_default() {
                self.define(&part, span);
            }
            return;
        }
        if let Some((renamed, carried)) = self.redefined(definition) {
            self.define(&renamed, span);
            self.took(&carried, &renamed.target.name.node);
            return;
        }
        let name = &definition.target.name;
        if let ExprKind::Call(call) = &definition.value.node
            && let Some(kind) = collective_kind(call)
        {
            if self.collective(definition, call, &kind, span).is_none() {
                self.poison(&name.node);
            }
            return;
        }
        let free = self.is_free(name);
        let target = self.target(definition);
        let value = target.and_then(|target| self.evaluate(&definition.value, target, span));
        if let (Some(value), None) = (value, &definition.target.dtype) {
            self.loses_its_fractions(value);
        }
        if free && value.is_none() {
            self.poison(&name.node);
        }
    }

    /// `in k1`: the operations from `first` on are part of that kernel.
    pub(super) fn assign_kernel(&mut self, definition: &Definition, first: usize) {
        let Some(kernel) = &definition.kernel else { return };
        // A plan without its first line has many of them.
        let is_reported = || self.diags.iter().any(|diag| diag.code == names::KERNEL);
        if self.mode == Mode::Ordinary && !is_reported() {
            let message = "only a plan says which statements run as one kernel";
            let diag = Diag::error(names::KERNEL, message, kernel.span, "part of a kernel");
            self.error(diag.help(
                "a plan begins with the line `plan`; in other programs leave this out: \
                    `--fusion none` prices every statement alone",
            ));
        }
        let is_collective = |op: &Op| matches!(op.kind, OpKind::Collective(_));
        if self.ops.iter().skip(first).any(is_collective) {
            let message = "a collective is part of no kernel";
            let diag = Diag::error(names::NOT_ONE_KERNEL, message, kernel.span, "part of a kernel");
            self.error(diag.help("leave this out"));
        }
        for op in self.ops.iter_mut().skip(first) {
            op.kernel.number = Some(kernel.node);
        }
    }

    /// A carried value keeps its dtype; where that would silently round to integers, the author
    /// must write a cast.
    fn loses_its_fractions(&mut self, value: ValueId) {
        let given = &self.values[value];
        let op = self.ops.iter().rev().find(|op| op.result == value);
        let Some((op, entering)) = op.zip(self.entering(&given.name)) else { return };
        let dtypes: Vec<DType> =
            op.operands.iter().map(|operand| self.values[operand.value].dtype).collect();
        let (is, carried) = (shape::dtype(&op.kind, &dtypes), given.dtype);
        if carried.is_float() || !is.is_float() {
            return;
        }
        let message = format!("what is carried as {} is given as {}", carried.name(), is.name());
        let diag =
            Diag::error(names::DTYPES_DIFFER, message, given.span, "its fractions would be lost")
                .and(entering.span, "carried here");
        self.error(diag.help(format!(
            "carry `cast<{0}>(…)` of it, or write the dtype that you mean here: `: {1}`",
            is.name(),
            carried.name()
        )));
    }

    pub(super) fn poison(&mut self, name: &str) {
        if !self.value_names.contains_key(name) {
            self.poisoned.insert(name.to_owned());
        }
    }

    pub(super) fn target(&mut self, definition: &Definition) -> Option<Target> {
        let decl = &definition.target;
        let carried = self.entering(&decl.name.node).map(|value| value.dtype);
        let dtype = self.dtype(decl.dtype.as_ref())?.or(carried);
        let written = match &decl.layout {
            Some(layout) => {
                let (dims, pin) = self.layout(layout)?;
                Some((dims, pin, layout.span))
            }
            None => None,
        };
        if self.mode == Mode::Explicit
            && written.as_ref().is_none_or(|(_, pin, _)| pin.exact().is_none())
        {
            self.needs_brackets(&decl.name);
            return None;
        }
        let declared = || -> Option<Vec<DimId>> {
            let layout = self.output_layouts.get(decl.name.node.as_str())?;
            layout.dims.iter().map(|dim| self.dim_names.get(&dim.name.node).copied()).collect()
        };
        let wished = if written.is_none() {
            self.entering(&decl.name.node).map(|value| value.dims.clone()).or_else(declared)
        } else {
            None
        };
        Some(Target { name: decl.name.clone(), dtype, written, wished })
    }

    pub(super) fn needs_brackets(&mut self, name: &Name) {
        let message =
            format!("`{}` has no complete brackets, and the program is explicit", name.node);
        let diag =
            Diag::error(names::NEEDS_BRACKETS, message, name.span, "how is it laid out here?");
        self.error(
            diag.help("write every subscript: an explicit program leaves nothing to choose"),
        );
    }

    /// The statement for an expression with a left side.
    fn evaluate(&mut self, expr: &Expr, target: Target, span: Span) -> Option<ValueId> {
        let operation = self.operation(expr, Some(&target))?;
        self.finish_operation(operation, target, span)
    }

    /// Adds the operation and its result.
    pub(super) fn finish_operation(
        &mut self,
        operation: Operation,
        target: Target,
        span: Span,
    ) -> Option<ValueId> {
        let dims = self.ordered(&operation, &target)?;
        if self.value_names.contains_key(&target.name.node) {
            return None;
        }
        let dtypes: Vec<DType> =
            operation.operands.iter().map(|operand| self.values[operand.value].dtype).collect();
        let inferred = shape::dtype(&operation.kind, &dtypes);
        // What redefines a carried value has its order of dimensions, which has to be printed.
        let is_reordered = dims != operation.dims && self.entering(&target.name.node).is_some();
        let open = || Pin::open(dims.len());
        let pin = match target.written {
            Some((_, pin, _)) => Some(pin),
            None => is_reordered.then(open),
        };
        let value = Value {
            dtype_written: target.dtype.is_some_and(|dtype| dtype != inferred),
            declared_sharding: pin.clone(),
            repeat: self.inside(),
            ..Value::result(
                target.name.node,
                dims,
                target.dtype.unwrap_or(inferred),
                target.name.span,
            )
        };
        let known = pin.as_ref().and_then(Pin::exact).into_iter().collect();
        let result = self.add_value(value, known);
        self.ops.push(Op {
            kind: operation.kind,
            operands: operation.operands,
            result,
            result_pin: pin,
            phase: self.phase(),
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            repeat: self.inside(),
            span,
        });
        Some(result)
    }

    /// The dimensions of the result, in the order of the target if it gives one.
    fn ordered(&mut self, operation: &Operation, target: &Target) -> Option<Vec<DimId>> {
        let same = |dims: &[DimId]| {
            dims.len() == operation.dims.len()
                && dims.iter().all(|dim| operation.dims.contains(dim))
        };
        let Some((dims, _, span)) = &target.written else {
            let wished = target.wished.as_ref().filter(|dims| same(dims));
            return Some(wished.unwrap_or(&operation.dims).clone());
        };
        if same(dims) {
            return Some(dims.clone());
        }
        let list = |dims: &[DimId]| {
            dims.iter().map(|&dim| self.dims[dim].name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let message = format!(
            "`{}` has the dimensions [{}], but the statement gives [{}]",
            target.name.node,
            list(dims),
            list(&operation.dims)
        );
        let extra: Vec<DimId> =
            operation.dims.iter().copied().filter(|dim| !dims.contains(dim)).collect();
        let mut help = format!("write `{}[{}]`", target.name.node, list(&operation.dims));
        if let OpKind::Einsum { contracted } = &operation.kind
            && !extra.is_empty()
        {
            let suffix: Vec<DimId> = contracted.iter().chain(&extra).copied().collect();
            help = format!("{help}, or contract it: `*{}`", list(&suffix).replace(", ", ","));
        }
        self.error(Diag::error(names::DIMS_DIFFER, message, *span, "these dimensions").help(help));
        None
    }
}

/// Whether a call is a collective, and which.
pub(super) fn collective_kind(call: &Call) -> Option<CollectiveKind> {
    CollectiveKind::find(&call.function.node)
}
