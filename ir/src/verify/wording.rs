//! Messages about faults of plans: what is wrong, where, and the statement that fixes it.

use crate::codes::{repeat, sharding as codes};
use shardwise_grammar::span::Span;

use super::local::may_pass;
use super::{CollectiveFault, LocalFault, PartialFault, ShardingFault, classify};
use crate::Diag;
use crate::ids::{DimId, ValueId};
use crate::plan::{Collective, Materialization, Step, StepKind};
use crate::print;
use crate::program::{CollectiveKind, Fill, MapForm, Mode, Op, OpKind, Operand, Output, Program};
use crate::rearrange::Rearrange;
use crate::sharding::{AxisList, AxisRef, Sharding, Unreduced};

/// Words diagnostics about one program.
#[derive(Clone, Copy)]
pub(super) struct Words<'p> {
    pub(super) program: &'p Program,
}

impl<'p> Words<'p> {
    fn text(self, material: &Materialization) -> String {
        print::materialization(self.program, material)
    }

    fn name(self, value: ValueId) -> &'p str {
        &self.program.values[value].name
    }

    fn op(self, step: &Step) -> Option<&'p Op> {
        match step.kind {
            StepKind::Local(op) | StepKind::Collective(_, Some(op)) => self.program.ops.get(op),
            StepKind::Collective(_, None) => None,
        }
    }

    fn span(self, step: &Step) -> Span {
        let value = || {
            self.program
                .values
                .get(step.result.value)
                .map_or_else(Span::default, |value| value.span)
        };
        self.op(step).map_or_else(value, |op| op.span)
    }

    /// The statement of the collective from one sharding of a value to another, if one step leads
    /// there.
    fn statement(self, value: ValueId, from: &Sharding, to: &Sharding) -> Option<String> {
        let moved = classify(&self.program.mesh, from, to)?;
        let material = |sharding: &Sharding| Materialization { value, sharding: sharding.clone() };
        Some(print::collective(self.program, &moved, &material(from), &material(to)))
    }

    /// An operand of an operation, or the operation itself where it has none.
    fn operand_span(op: &Op, operand: usize) -> Span {
        op.operands.get(operand).map_or(op.span, |operand| operand.span)
    }

    pub(super) fn not_its_statement(self, step: &Step) -> Diag {
        let diag = Diag::error(
            codes::WRONG_RESULT,
            "a step of the plan does not have the form of its statement",
            self.span(step),
            "this statement",
        );
        diag.help("operands and result of a step are those of the statement that it carries out")
    }

    pub(super) fn of_a_layer(self, step: &Step, value: ValueId) -> Diag {
        let message = format!("each layer has a `{}` of its own", self.name(value));
        let diag = Diag::error(repeat::OF_A_LAYER, message, self.span(step), "of which layer?");
        diag.and(self.program.values[value].span, "given inside a block")
            .help("`last(…)` takes that of the last layer out of its block")
    }

    pub(super) fn bad_sharding(
        self,
        step: &Step,
        material: &Materialization,
        fault: &ShardingFault,
    ) -> Diag {
        let text = self.text(material);
        let (code, message) = match fault {
            ShardingFault::Rank => (
                codes::WRONG_RESULT,
                format!("`{text}` has another number of dimensions than the value"),
            ),
            ShardingFault::AxisTwice(axis) => {
                let axis = &self.program.mesh.axes[axis.axis()].name;
                (codes::AXIS_TWICE, format!("axis `{axis}` is used twice in `{text}`"))
            }
            ShardingFault::NotDivisible(position) => {
                let value = &self.program.values[material.value];
                let dim = value
                    .dims
                    .get(*position)
                    .map_or("?", |&dim| self.program.dims[dim].name.as_str());
                let cut = value.dims.get(*position).is_some_and(|&dim| {
                    self.program.size_in(value.repeat, dim) != self.program.dims[dim].size
                });
                let size = if cut { "its size in a microbatch" } else { "its size" };
                (
                    codes::NOT_DIVISIBLE,
                    format!("the axes of `{dim}` in `{text}` do not divide {size}"),
                )
            }
        };
        Diag::error(code, message, self.span(step), "in this step")
    }

    /// An operand in a sharding that nothing gives.
    pub(super) fn missing(self, step: &Step, operand: usize, forms: &[Sharding]) -> Diag {
        let material = &step.operands[operand];
        let span =
            self.op(step).map_or_else(|| self.span(step), |op| Self::operand_span(op, operand));
        let message = format!("no earlier statement gives `{}`", self.text(material));
        let diag = Diag::error(codes::NO_MATERIALIZATION, message, span, "used here");
        let diag = diag.and(
            self.program.values[material.value].span,
            format!("`{}` is defined here", self.name(material.value)),
        );
        diag.help(self.way_to(material.value, &material.sharding, forms))
    }

    /// How to come from what exists to what is wanted.
    fn way_to(self, value: ValueId, wanted: &Sharding, forms: &[Sharding]) -> String {
        let mut near: Vec<&Sharding> = forms.iter().collect();
        near.sort_by_key(|form| difference(form, wanted));
        if let Some(statement) = near.iter().find_map(|form| self.statement(value, form, wanted)) {
            return format!("write `{statement}` before it");
        }
        let there: Vec<String> = near
            .iter()
            .take(5)
            .map(|form| {
                format!("`{}`", self.text(&Materialization { value, sharding: (*form).clone() }))
            })
            .collect();
        if there.is_empty() {
            format!("define `{}` first", self.name(value))
        } else {
            format!("what exists is {}", there.join(", "))
        }
    }

    pub(super) fn no_output(self, output: &Output, forms: &[Sharding]) -> Diag {
        let name = self.name(output.value);
        let dims = &self.program.values[output.value].dims;
        let wanted = format!("{name}{}", print::Printer::new(self.program).pin(dims, &output.pin));
        let (message, how) = if let Some(of) = self.program.updates(output) {
            let of = self.name(of);
            (
                format!("`{name}` is not yielded as `{wanted}`, which is how `{of}` is declared"),
                "to take its place like this",
            )
        } else if output.yields_to.is_some() {
            (
                format!("`{name}` is not yielded as `{wanted}`, which is how it enters a layer"),
                "to enter the next layer like this",
            )
        } else {
            (format!("no statement gives the output `{wanted}`"), "to leave like this")
        };
        let diag = Diag::error(codes::NO_MATERIALIZATION, message, output.span, how);
        let diag =
            diag.and(self.program.values[output.value].span, format!("`{name}` is defined here"));
        match output.pin.exact() {
            Some(exact) => diag.help(self.way_to(output.value, &exact, forms)),
            None => diag.help("write a collective that leads there"),
        }
    }

    pub(super) fn not_home(self, value: ValueId, forms: &[Sharding]) -> Diag {
        let of = &self.program.values[value];
        let home = of
            .declared_sharding
            .as_ref()
            .map_or(String::new(), |home| print::Printer::new(self.program).pin(&of.dims, home));
        let there: Vec<String> = forms
            .iter()
            .take(5)
            .map(|form| {
                format!("`{}`", self.text(&Materialization { value, sharding: form.clone() }))
            })
            .collect();
        let message = format!("no step brings `{}` to `{}{home}`", of.name, of.name);
        Diag::error(codes::NO_MATERIALIZATION, message, of.span, "its home")
            .help(format!("what exists is {}", there.join(", ")))
    }

    pub(super) fn unpinned(self, operand: &Operand, material: &Materialization) -> Diag {
        let dims = &self.program.values[operand.value].dims;
        let pin = operand
            .pin
            .as_ref()
            .map_or(String::new(), |pin| print::Printer::new(self.program).pin(dims, pin));
        let message = format!(
            "the plan reads `{}` where the program says `{}{pin}`",
            self.text(material),
            self.name(operand.value)
        );
        Diag::error(codes::WRONG_RESULT, message, operand.span, "pinned here")
    }

    pub(super) fn bad_collective(
        self,
        step: &Step,
        kind: &CollectiveKind,
        fault: &CollectiveFault,
    ) -> Diag {
        let dims: Vec<&str> = self.program.values[step.result.value]
            .dims
            .iter()
            .map(|&dim| self.program.dims[dim].name.as_str())
            .collect();
        let reason = fault.reason(&self.program.mesh, &dims);
        let message =
            format!("`{}` does not lead to `{}`: {reason}", kind.name(), self.text(&step.result));
        let diag = Diag::error(codes::BAD_COLLECTIVE, message, self.span(step), "this step");
        let from = step.operands.first().map(|operand| &operand.sharding);
        match from.and_then(|from| self.statement(step.result.value, from, &step.result.sharding)) {
            Some(statement) => diag.help(format!("write `{statement}`")),
            None => diag.help("more than one step is needed: write one statement for each"),
        }
    }

    pub(super) fn misnamed(self, step: &Step, right: &Collective) -> Diag {
        let dims = &self.program.values[step.result.value].dims;
        let text = print::Printer::new(self.program).collective(dims, right);
        let message =
            format!("the step to `{}` is `{text}`, and says otherwise", self.text(&step.result));
        Diag::error(codes::BAD_COLLECTIVE, message, self.span(step), "this step")
    }

    pub(super) fn wrong_result(self, op: &Op, given: &Sharding, wanted: &Sharding) -> Diag {
        let gives = self.text(&Materialization { value: op.result, sharding: given.clone() });
        let says = self.text(&Materialization { value: op.result, sharding: wanted.clone() });
        let help = match self.statement(op.result, given, wanted) {
            Some(statement) => format!("write `{gives}` on the left, then `{statement}`"),
            None => format!("write `{gives}` on the left"),
        };
        let diag = Diag::error(
            codes::WRONG_RESULT,
            format!("the operands give `{gives}`, not `{says}`"),
            op.span,
            "the left side says exactly what comes out",
        );
        diag.help(help)
    }

    /// An operand pinned as partial, of an operation that nothing partial passes through.
    pub(super) fn nonlinear_pin(self, op: &Op) -> Option<Diag> {
        let kind = |operand: &Operand| {
            operand
                .pin
                .as_ref()
                .map(|pin| &pin.unreduced)
                .filter(|pending| !pending.is_empty())
                .map(Unreduced::kind)
        };
        let (operand, kind) =
            op.operands.iter().enumerate().find_map(|(k, operand)| Some((k, kind(operand)?)))?;
        let reason = may_pass(op, kind, operand).err()?;
        Some(self.partial(op, operand, None, reason))
    }

    /// What keeps an operation from running on local blocks.
    pub(super) fn local(self, op: &Op, operands: &[Materialization], fault: &LocalFault) -> Diag {
        match fault {
            LocalFault::SplitDifferently { dim, operands: pair } => {
                self.split_differently(op, operands, *dim, *pair)
            }
            LocalFault::AxisConflict { axis, operands: pair } => {
                let name = &self.program.mesh.axes[axis.axis()].name;
                let message = format!(
                    "axis `{name}` splits two different indices of `{}`: only its diagonal blocks \
                        would be known",
                    self.name(op.result)
                );
                let diag = Diag::error(
                    codes::AXIS_CONFLICT,
                    message,
                    Self::operand_span(op, pair[1]),
                    format!("`{name}` here"),
                );
                let diag = diag.and(
                    Self::operand_span(op, pair[0]),
                    format!("and `{name}` here, on another index"),
                );
                let options = pair.iter().filter_map(|&k| {
                    self.without(operands.get(k)?, |axes| axes.iter().position(|a| a == axis))
                });
                diag.help(
                    self.first_of(options, &format!("gather one operand over `{name}` first")),
                )
            }
            LocalFault::MustBeWhole { dim, operand } => {
                self.must_be_whole(op, operands, *dim, *operand)
            }
            LocalFault::BlocksBreak { axis, dim } => self.blocks_break(op, operands, *axis, *dim),
            LocalFault::Partial { operand, reason } => {
                self.partial(op, *operand, operands.get(*operand), *reason)
            }
        }
    }

    fn must_be_whole(
        self,
        op: &Op,
        operands: &[Materialization],
        dim: DimId,
        operand: usize,
    ) -> Diag {
        let name = &self.program.dims[dim].name;
        let function = function_name(op);
        let message = format!("`{function}` needs all of `{name}` at once, and it is split");
        let diag = Diag::error(
            codes::MUST_BE_WHOLE,
            message,
            Self::operand_span(op, operand),
            format!("`{name}` is split here"),
        );
        let gathered = operands.get(operand).and_then(|material| {
            let position =
                self.program.values[material.value].dims.iter().position(|&other| other == dim)?;
            let split = material.sharding.dims[position].clone();
            self.without(material, |axes| (*axes == split && !split.is_empty()).then_some(0))
        });
        let diag = diag.and(op.span, "this operation");
        match (gathered, &op.kind) {
            (Some(statement), OpKind::Composite { .. }) if self.program.mode == Mode::Explicit => {
                diag.help(format!(
                    "gather first: `{statement}`; or write `{function}` out in reductions and \
                    element-wise steps, so that only statistics travel"
                ))
            }
            (Some(statement), _) if self.program.mode == Mode::Explicit => {
                diag.help(format!("gather first: `{statement}`"))
            }
            (Some(statement), _) => diag.help(format!(
                "gather first (`{statement}`), or leave the \
                brackets off"
            )),
            (None, _) => diag.help(format!("gather `{name}` first")),
        }
    }

    fn blocks_break(
        self,
        op: &Op,
        operands: &[Materialization],
        axis: AxisRef,
        dim: DimId,
    ) -> Diag {
        let (axis_name, dim_name) =
            (&self.program.mesh.axes[axis.axis()].name, &self.program.dims[dim].name);
        let given = op.operands.first().map_or("?", |operand| self.name(operand.value));
        let message = format!(
            "behind this reshape of `{given}` a device would not hold one block: the runs that \
                `{axis_name}` cuts `{dim_name}` into do not stay together"
        );
        let diag = Diag::error(
            codes::BLOCKS_BREAK,
            message,
            Self::operand_span(op, 0),
            format!("`{dim_name}` is split over `{axis_name}` here"),
        );
        let diag = diag.and(op.span, "this reshape");
        let major = self.major_of(op, dim);
        let condition = match major {
            Some((major, parts)) => {
                let split = operands.first().map_or(1, |material| self.parts_of(material, major));
                let (name, size) = (&self.program.dims[major].name, self.program.dims[major].size);
                format!(
                    "`{name}` = {size} is major to it and split {split} ways, {} to a device: it \
                        must be split {parts} ways",
                    size / split.max(1)
                )
            }
            None => "an axis must divide the major factor, or come when that is split completely"
                .to_owned(),
        };
        let step = operands.first().and_then(|material| {
            let position =
                self.program.values[material.value].dims.iter().position(|&other| other == dim)?;
            let mut to = material.sharding.clone();
            let keep = to.dims[position].iter().position(|&other| other == axis)?;
            to.dims[position].truncate(keep);
            self.statement(material.value, &material.sharding, &to)
        });
        let step = step
            .map_or(String::new(), |statement| format!("; or move it away first: `{statement}`"));
        diag.help(format!("{condition}{step}"))
    }

    /// The dimension before `dim` where a reshape merges it, and into how many parts that must be
    /// split.
    fn major_of(self, op: &Op, dim: DimId) -> Option<(DimId, u64)> {
        let OpKind::Rearrange(Rearrange::Reshape(groups)) = &op.kind else { return None };
        let group = groups.iter().find(|group| group.from.contains(&dim))?;
        let place = group.from.iter().position(|&other| other == dim)?;
        let major = *group.from.get(place.checked_sub(1)?)?;
        Some((major, self.program.dims[major].size))
    }

    fn parts_of(self, material: &Materialization, dim: DimId) -> u64 {
        let position =
            self.program.values[material.value].dims.iter().position(|&other| other == dim);
        let axes = position.and_then(|position| material.sharding.dims.get(position));
        axes.map_or(1, |axes| {
            axes.iter().map(|axis| axis.size(&self.program.mesh)).fold(1, u64::saturating_mul)
        })
    }

    fn split_differently(
        self,
        op: &Op,
        operands: &[Materialization],
        dim: DimId,
        pair: [usize; 2],
    ) -> Diag {
        let name = &self.program.dims[dim].name;
        let list = |k: usize| -> Option<&AxisList> {
            let position = self.program.values[op.operands.get(k)?.value]
                .dims
                .iter()
                .position(|&d| d == dim)?;
            operands.get(k)?.sharding.dims.get(position)
        };
        let how = |k: usize| match list(k) {
            Some(axes) if !axes.is_empty() => {
                format!("`{name}_{}` here", print::axis_word(&self.program.mesh, axes))
            }
            _ => format!("`{name}` is whole here"),
        };
        let message = format!(
            "`{name}` is split differently in the operands of `{}`: their blocks do not belong \
                together",
            self.name(op.result)
        );
        let diag = Diag::error(
            codes::SPLIT_DIFFERENTLY,
            message,
            Self::operand_span(op, pair[1]),
            how(pair[1]),
        );
        let diag = diag.and(Self::operand_span(op, pair[0]), how(pair[0]));
        let shared = match (list(pair[0]), list(pair[1])) {
            (Some(a), Some(b)) => a.iter().zip(b).take_while(|(x, y)| x == y).count(),
            _ => 0,
        };
        let options = pair.iter().filter_map(|&k| {
            let own = list(k)?.clone();
            self.without(operands.get(k)?, |axes| {
                (own.len() > shared && *axes == own).then_some(shared)
            })
        });
        diag.help(self.first_of(
            options,
            &format!("gather `{name}` in one operand, or slice it in the other, first"),
        ))
    }

    /// The gather that shortens a dimension of `material` to what `keep` says.
    fn without(
        self,
        material: &Materialization,
        keep: impl Fn(&AxisList) -> Option<usize>,
    ) -> Option<String> {
        let mut to = material.sharding.clone();
        let (axes, keep) =
            to.dims.iter_mut().find_map(|axes| keep(axes).map(|keep| (axes, keep)))?;
        axes.truncate(keep);
        self.statement(material.value, &material.sharding, &to)
    }

    fn first_of(self, mut options: impl Iterator<Item = String>, otherwise: &str) -> String {
        let first = options.next();
        match (first, self.program.mode) {
            (Some(statement), Mode::Explicit) => format!("gather first: `{statement}`"),
            (Some(statement), Mode::Ordinary) => {
                format!("gather first (`{statement}`), or omit the brackets of one operand")
            }
            (None, _) => otherwise.to_owned(),
        }
    }

    fn partial(
        self,
        op: &Op,
        operand: usize,
        material: Option<&Materialization>,
        reason: PartialFault,
    ) -> Diag {
        let name = op.operands.get(operand).map_or("?", |operand| self.name(operand.value));
        let (message, label) = match reason {
            PartialFault::NotLinear => {
                let function = function_name(op);
                let message = if function.starts_with(char::is_alphabetic) {
                    format!(
                        "`{function}` of a partial sum: {function}(p + q) is not {function}(p) + \
                            {function}(q)"
                    )
                } else {
                    format!(
                        "`{function}` of a partial sum: what it makes of the parts does not add up \
                            to what it makes of their sum"
                    )
                };
                (message, format!("`{name}` is still to be reduced"))
            }
            PartialFault::NotMonotone => {
                let message = format!(
                    "`{}` of a partial maximum or minimum does not keep the order of its elements",
                    function_name(op)
                );
                (message, format!("`{name}` is still to be reduced"))
            }
            PartialFault::MixedKinds => {
                let message = format!(
                    "the operands of `{}` are partial results of different kinds",
                    self.name(op.result)
                );
                (message, format!("`{name}` is still to be reduced, another otherwise"))
            }
            PartialFault::Mismatch => {
                let message = format!(
                    "the operands of `{}` are not partial sums over the same axes",
                    self.name(op.result)
                );
                (message, format!("`{name}` is still to be reduced, the others otherwise"))
            }
            PartialFault::AxisInUse(axis) => {
                let axis = &self.program.mesh.axes[axis.axis()].name;
                let message = format!(
                    "`{name}` is a partial sum over `{axis}`, which the operation uses elsewhere"
                );
                (message, format!("unreduced over `{axis}`"))
            }
        };
        let diag =
            Diag::error(codes::PARTIAL_THROUGH, message, Self::operand_span(op, operand), label)
                .and(op.span, "this operation");
        let settled = material.and_then(|material| {
            let to = Sharding { unreduced: Unreduced::default(), ..material.sharding.clone() };
            self.statement(material.value, &material.sharding, &to)
        });
        match settled {
            Some(statement) => {
                diag.help(format!("reduce it first: `{statement}`, or a ReduceScatter"))
            }
            None => diag.help(format!("settle `{name}` first, by AllReduce or ReduceScatter")),
        }
    }
}

fn function_name(op: &Op) -> String {
    match &op.kind {
        OpKind::Map(function) => match &function.form {
            MapForm::Call { .. } | MapForm::Cast(_) => {
                function.form.function_name().unwrap_or_default()
            }
            MapForm::Causal { fill: Fill::Infinite, .. } => "causal".to_owned(),
            MapForm::Causal { .. } => "lower".to_owned(),
            MapForm::Position(_) => "position".to_owned(),
            MapForm::Infix(how) | MapForm::InfixScalar(how, _) | MapForm::ScalarInfix(_, how) => {
                how.symbol().to_string()
            }
            MapForm::ScaleBy(_) => "*".to_owned(),
            MapForm::Negate => "-".to_owned(),
            MapForm::Broadcast(_) => "broadcast".to_owned(),
            MapForm::Last => "last".to_owned(),
            MapForm::Total => "total".to_owned(),
            MapForm::LoopCarried => "carry".to_owned(),
        },
        OpKind::Reduce { function, .. } => function.name().to_owned(),
        OpKind::Composite { function, .. } => function.name().to_owned(),
        OpKind::Gather { .. } => "take".to_owned(),
        OpKind::ScatterAdd { .. } => "put".to_owned(),
        OpKind::Update { .. } => "update".to_owned(),
        OpKind::Route(_) => "route".to_owned(),
        OpKind::Rearrange(how) => match how {
            Rearrange::Rename(_) => "rename",
            Rearrange::Reshape(_) => "reshape",
            Rearrange::Slice(_) => "slice",
            Rearrange::Pad(_) => "pad",
            Rearrange::Concat { .. } => "concat",
            Rearrange::Part { .. } => "part",
            Rearrange::Join { .. } => "join",
            Rearrange::Roll(_) => "roll",
        }
        .to_owned(),
        OpKind::Einsum { .. } => "*".to_owned(),
        OpKind::Collective(kind) => kind.name().to_owned(),
    }
}

/// How far a sharding is from another: dimensions that differ, and what is pending.
fn difference(a: &Sharding, b: &Sharding) -> usize {
    a.dims.iter().zip(&b.dims).filter(|(x, y)| x != y).count()
        + usize::from(a.unreduced != b.unreduced)
}
