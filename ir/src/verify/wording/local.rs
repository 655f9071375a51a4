//! Words the errors of local operations on operands in shardings that they cannot compute with.

use super::super::{LocalFault, PartialFault};
use super::Words;
use crate::Diag;
use crate::codes::sharding as codes;
use crate::ids::DimId;
use crate::plan::Materialization;
use crate::print;
use crate::program::{Fill, MapForm, Mode, Op, OpKind};
use crate::rearrange::Rearrange;
use crate::sharding::{AxisList, AxisRef, Sharding, Unreduced};

impl Words<'_> {
    /// Why an operation cannot run on local blocks.
    pub(in crate::verify) fn local(
        self,
        op: &Op,
        operands: &[Materialization],
        fault: &LocalFault,
    ) -> Diag {
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
                    element-wise steps, so that only maxima and sums are communicated"
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
            "after this reshape of `{given}` a device would not have one block: the runs that \
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
            _ => format!("`{name}` is unsharded here"),
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

    /// The gather that leaves the first `keep` axes of a dimension of `material`.
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

    pub(super) fn partial(
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
        let reduced = material.and_then(|material| {
            let to = Sharding { unreduced: Unreduced::default(), ..material.sharding.clone() };
            self.statement(material.value, &material.sharding, &to)
        });
        match reduced {
            Some(statement) => {
                diag.help(format!("reduce it first: `{statement}`, or a ReduceScatter"))
            }
            None => diag.help(format!("reduce `{name}` first, by AllReduce or ReduceScatter")),
        }
    }
}

fn function_name(op: &Op) -> String {
    match &op.kind {
        OpKind::Map(function) => match &function.form {
            MapForm::Call { .. } | MapForm::Cast(_) | MapForm::Host(_) => {
                function.form.function_name().unwrap_or_default()
            }
            MapForm::Causal { fill: Fill::Infinite, .. } => "causal".to_owned(),
            MapForm::Causal { .. } => "lower".to_owned(),
            MapForm::Constant { number, .. } => number.clone(),
            MapForm::Iota(_) => "iota".to_owned(),
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
        OpKind::Along(along) => along.function.name().to_owned(),
        OpKind::Opaque(opaque) => opaque.name.clone(),
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
            Rearrange::Chunk { .. } => "chunk",
            Rearrange::Stack { .. } => "stack",
            Rearrange::Roll(_) => "roll",
            Rearrange::Windows(_) => "windows",
            Rearrange::Overlap(_) => "overlap",
        }
        .to_owned(),
        OpKind::Einsum { .. } => "*".to_owned(),
        OpKind::Collective(kind) => kind.name().to_owned(),
    }
}

/// The distance of two shardings: dimensions that differ, and what is pending.
pub(super) fn difference(a: &Sharding, b: &Sharding) -> usize {
    a.dims.iter().zip(&b.dims).filter(|(x, y)| x != y).count()
        + usize::from(a.unreduced != b.unreduced)
}
