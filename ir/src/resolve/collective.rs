//! Explicit collectives, in every spelling: what the text omits is inferred from the shardings.

use crate::codes::{names, sharding as codes};
use shardwise_grammar::ast::{self, Call, Definition, ExprKind, Layout};
use shardwise_grammar::span::{Name, Span, Spanned};

use super::Resolver;
use crate::Diag;
use crate::ids::{DimId, ValueId};
use crate::plan::Collective;
use crate::print;
use crate::program::{CollectiveKind, KernelPart, Mode, Op, OpKind, Operand, Share, Value};
use crate::rearrange::Rearrange;
use crate::sharding::{AxisList, AxisRef, Pin, Reduction, Sharding, Unreduced};
use crate::verify;

/// The content of a subscript: axes, and the dimension that receives each.
struct Subscript {
    axes: AxisList,
    into: Vec<Option<DimId>>,
}

impl Resolver<'_> {
    pub(super) fn collective(
        &mut self,
        definition: &Definition,
        call: &Call,
        kind: &CollectiveKind,
        span: Span,
    ) -> Option<()> {
        let [argument] = &call.arguments[..] else {
            self.error(
                Diag::error(
                    names::BAD_CALL,
                    format!("`{}` takes one value", kind.name()),
                    span,
                    "this call",
                )
                .help("write it in parentheses"),
            );
            return None;
        };
        let ExprKind::Tensor { name, layout } = &argument.node else {
            let diag = Diag::error(
                names::BAD_CALL,
                format!("`{}` takes a value, not an expression", kind.name()),
                argument.span,
                "an expression",
            );
            self.error(diag.help("give the expression a statement and a name of its own"));
            return None;
        };
        let value = self.value(name)?;
        let operand = self.named_operand(name, layout.as_ref(), argument.span)?;
        let from = self.operand_sharding(&operand, name)?;
        let subscript = match &call.subscript {
            Some(written) => Some(self.collective_subscript(kind, written, &call.receivers)?),
            None => None,
        };
        let (to, brackets) =
            self.result_sharding(definition, kind, value, &from, subscript.as_ref(), span)?;
        if !self.same_dtype(value, definition.target.dtype.as_ref()) {
            return None;
        }
        if from == to
            && subscript.as_ref().is_none_or(|subscript| subscript.axes.is_empty())
            && self.names_one_device(definition, call, layout.as_ref())
        {
            return self.moves_nothing(definition, operand, to, span);
        }
        self.check_collective(kind, value, &from, &to, subscript.as_ref(), call, brackets)?;
        let operand = Operand { pin: Some(from.into()), ..operand };
        self.add_statement(definition, OpKind::Collective(kind.clone()), operand, to, span)
    }

    /// Whether a collective, its operand or its result names an axis of one device.
    fn names_one_device(
        &self,
        definition: &Definition,
        call: &Call,
        operand: Option<&Layout>,
    ) -> bool {
        let written = [operand, definition.target.layout.as_ref()].into_iter().flatten();
        let in_brackets = written.flat_map(|layout| {
            let split = layout.dims.iter().filter_map(|dim| match &dim.subscript {
                ast::Subscript::Axes(words) | ast::Subscript::First(words) => Some(words),
                ast::Subscript::Whole | ast::Subscript::Open => None,
            });
            split.chain(layout.unreduced.iter().map(|unreduced| &unreduced.axes)).flatten()
        });
        let words = call.subscript.iter().flat_map(|subscript| &subscript.node).chain(in_brackets);
        let axes = words.filter_map(|word| self.axes_of_word(&word.node)).flatten();
        axes.into_iter().any(|axis| self.mesh.axes[axis].size == 1)
    }

    /// A collective over axes of one device: its result is its operand, under another name or
    /// the same.
    fn moves_nothing(
        &mut self,
        definition: &Definition,
        operand: Operand,
        to: Sharding,
        span: Span,
    ) -> Option<()> {
        if self.values[operand.value].name == definition.target.name.node {
            return Some(());
        }
        self.add_statement(
            definition,
            OpKind::Rearrange(Rearrange::Rename(Vec::new())),
            operand,
            to,
            span,
        )
    }

    fn operand_sharding(&mut self, operand: &Operand, name: &Name) -> Option<Sharding> {
        let written = operand.pin.as_ref().and_then(Pin::exact);
        let only = || match &self.known[operand.value][..] {
            [only] if operand.pin.as_ref().is_none_or(|pin| pin.accepts(only)) => {
                Some(only.clone())
            }
            _ => None,
        };
        let found = written.or_else(only);
        if found.is_none() {
            let diag = Diag::error(
                names::NEEDS_BRACKETS,
                format!("which sharding of `{}` is meant?", name.node),
                operand.span,
                "no brackets",
            );
            self.error(diag.help(format!("write it out, as in `{}[I_X, J]`", name.node)));
        }
        found
    }

    /// `_X`, `_{X,K}`, `_{X->I,Y->K}`, `_{X,I,Y,K}`: a dimension receives the axes written before
    /// it. Words at the places of `receivers` are dimensions.
    fn collective_subscript(
        &mut self,
        kind: &CollectiveKind,
        written: &Spanned<Vec<Name>>,
        receivers: &[usize],
    ) -> Option<Subscript> {
        let subscript = self.written_subscript(kind, written, receivers)?;
        let (axes, into) = subscript
            .axes
            .into_iter()
            .zip(subscript.into)
            .filter(|(axis, _)| axis.size(&self.mesh) > 1)
            .unzip();
        Some(Subscript { axes, into })
    }

    fn written_subscript(
        &mut self,
        kind: &CollectiveKind,
        written: &Spanned<Vec<Name>>,
        receivers: &[usize],
    ) -> Option<Subscript> {
        let takes_dim = kind.row().splits;
        let pairs = receivers.is_empty().then(|| self.pairs(&written.node)).flatten();
        if let Some(pairs) = pairs.filter(|_| takes_dim) {
            return Some(pairs);
        }
        let mut subscript = Subscript { axes: AxisList::new(), into: Vec::new() };
        for (i, word) in written.node.iter().enumerate() {
            let last = i + 1 == written.node.len();
            let dim = self.dim_names.get(&word.node).copied().filter(|_| takes_dim && i > 0);
            let is_receiver = receivers.contains(&i);
            let axes = self.axes_of_word(&word.node).filter(|_| !is_receiver || dim.is_none());
            match (axes, dim.filter(|_| receivers.is_empty() || is_receiver)) {
                (Some(_), Some(dim)) if last => receive(&mut subscript, dim),
                (Some(axes), _) => {
                    subscript.axes.extend(axes.into_iter().map(AxisRef::whole));
                    subscript.into.resize(subscript.axes.len(), None);
                }
                (None, Some(dim)) => receive(&mut subscript, dim),
                (None, None) => {
                    self.axis(word);
                    return None;
                }
            }
        }
        Some(subscript)
    }

    /// `_{Y,X,X,L}` where `X` is an axis and a dimension: axes and receivers alternately, if any
    /// other reading would name an axis twice.
    fn pairs(&self, words: &[Name]) -> Option<Subscript> {
        let repeats = words
            .iter()
            .enumerate()
            .any(|(i, word)| words[..i].iter().any(|earlier| earlier.node == word.node));
        if !repeats || words.len() % 2 == 1 {
            return None;
        }
        let axes = words
            .iter()
            .step_by(2)
            .map(|word| self.mesh.find(&word.node).map(AxisRef::whole))
            .collect::<Option<_>>()?;
        let into = words
            .iter()
            .skip(1)
            .step_by(2)
            .map(|word| self.dim_names.get(&word.node).copied().map(Some))
            .collect::<Option<_>>()?;
        Some(Subscript { axes, into })
    }

    fn result_sharding(
        &mut self,
        definition: &Definition,
        kind: &CollectiveKind,
        value: ValueId,
        from: &Sharding,
        subscript: Option<&Subscript>,
        span: Span,
    ) -> Option<(Sharding, Span)> {
        if let Some(layout) = &definition.target.layout {
            let (dims, pin) = self.layout(layout)?;
            if !self.same_dims(value, &dims, layout.span) {
                return None;
            }
            if let Some(exact) = pin.exact() {
                return Some((exact, layout.span));
            }
        } else if self.mode == Mode::Ordinary
            && let Some(to) = subscript
                .and_then(|subscript| implied(kind, from, subscript, &self.values[value].dims))
        {
            return Some((to, span));
        }
        let name = definition.target.name.clone();
        let diag = Diag::error(
            names::NEEDS_BRACKETS,
            format!("the result of `{}` is not clear", kind.name()),
            name.span,
            "no complete brackets",
        );
        self.error(diag.help(
            "the left side of a collective defines its result: write its \
            brackets",
        ));
        None
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a check of everything that the statement says against everything else"
    )]
    fn check_collective(
        &mut self,
        kind: &CollectiveKind,
        value: ValueId,
        from: &Sharding,
        to: &Sharding,
        subscript: Option<&Subscript>,
        call: &Call,
        brackets: Span,
    ) -> Option<()> {
        let name = self.values[value].name.clone();
        let dims: Vec<&str> =
            self.values[value].dims.iter().map(|&dim| self.dims[dim].name.as_str()).collect();
        let fault = match verify::collective(&self.mesh, kind, from, to) {
            Err(fault) => Some((fault.reason(&self.mesh, &dims), brackets)),
            Ok(moved) => {
                subscript.filter(|subscript| !self.says(subscript, &moved, value)).map(|_| {
                    let span = call.subscript.as_ref().map_or(brackets, |s| s.span);
                    (
                        format!(
                            "the brackets are `{}`",
                            print::collective_head(&self.mesh, &dims, &moved)
                        ),
                        span,
                    )
                })
            }
        };
        let Some((reason, span)) = fault else { return Some(()) };
        let message = format!("`{}` does not lead there: {reason}", kind.name());
        let mut diag = Diag::error(
            codes::BAD_COLLECTIVE,
            message,
            span,
            format!("not what `{}` of `{name}` gives", kind.name()),
        );
        diag = match (verify::classify(&self.mesh, from, to), self.mode) {
            (Some(one), _) => diag.help(format!(
                "`{}` leads from one to the \
                other",
                print::collective_head(&self.mesh, &dims, &one)
            )),
            (None, Mode::Explicit) => diag.help(
                "more than one step is needed: write one statement \
                for each",
            ),
            (None, Mode::Ordinary) => diag.help(
                "more than one step is needed: write one statement for each, or leave the \
                    collective out and let the compiler plan it",
            ),
        };
        self.error(diag);
        None
    }

    /// Whether a subscript names the axes of `moved`, and receiving dimensions only where they
    /// receive.
    fn says(&self, subscript: &Subscript, moved: &Collective, value: ValueId) -> bool {
        let place = |axis: &AxisRef| moved.axes.iter().position(|a| a == axis);
        let dims = &self.values[value].dims;
        let received = |(axis, into): (&AxisRef, &Option<DimId>)| {
            let Some(place) = place(axis) else { return false };
            let receiver = moved.into.get(place).and_then(|&position| dims.get(position));
            into.is_none() || receiver.is_none() || receiver == into.as_ref()
        };
        let all_named = moved.axes.iter().all(|axis| subscript.axes.contains(axis));
        subscript.axes.len() == moved.axes.len()
            && all_named
            && subscript.axes.iter().zip(&subscript.into).all(received)
    }

    fn add_statement(
        &mut self,
        definition: &Definition,
        kind: OpKind,
        operand: Operand,
        to: Sharding,
        span: Span,
    ) -> Option<()> {
        let name = &definition.target.name;
        let source = &self.values[operand.value];
        let result = if source.name == name.node {
            self.known[operand.value].push(to.clone());
            operand.value
        } else {
            let (dims, dtype) = (source.dims.clone(), source.dtype);
            if !self.is_free(name) {
                return None;
            }
            let value = Value {
                declared_sharding: Some(to.clone().into()),
                repeat: self.inside(),
                ..Value::result(name.node.clone(), dims, dtype, name.span)
            };
            self.add_value(value, vec![to.clone()])
        };
        self.ops.push(Op {
            kind,
            operands: vec![operand],
            result,
            result_pin: Some(to.into()),
            phase: self.phase(),
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            repeat: self.inside(),
            span,
        });
        Some(())
    }
}

fn receive(subscript: &mut Subscript, dim: DimId) {
    for into in subscript.into.iter_mut().filter(|into| into.is_none()) {
        *into = Some(dim);
    }
}

/// The result of the collective where kind, axes and receiving dimensions determine it.
fn implied(
    kind: &CollectiveKind,
    from: &Sharding,
    subscript: &Subscript,
    dims: &[DimId],
) -> Option<Sharding> {
    let mut to = from.clone();
    let gone = |axis: &AxisRef| subscript.axes.contains(axis);
    let row = kind.row();
    if row.relabels() {
        return None;
    }
    if row.gathers || row.splits {
        to.dims.iter_mut().for_each(|axes| axes.retain(|axis| !gone(axis)));
    }
    if row.splits {
        for (&axis, into) in subscript.axes.iter().zip(&subscript.into) {
            let dim = (*into)?;
            let position = dims.iter().position(|&d| d == dim)?;
            to.dims[position].push(axis);
        }
    }
    if row.unreduces() {
        let pending = from.unreduced.axes().iter().chain(&subscript.axes).copied();
        to.unreduced = Unreduced::new(Reduction::Sum, pending);
    }
    if row.reduces() {
        to.unreduced = Unreduced::new(
            from.unreduced.kind(),
            from.unreduced.axes().iter().copied().filter(|axis| !gone(axis)),
        );
    }
    Some(to)
}
