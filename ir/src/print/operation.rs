//! Right sides: an operation as programs and plans write it.

use super::Printer;
use crate::ids::DimId;
use crate::program::{Along, Fill, MapForm, OpKind, Opaque};
use crate::rearrange::{Rearrange, Roll, Route, Window, Windows};

impl Printer<'_> {
    /// The right side of a local operation on operands that are printed already.
    pub(super) fn operation(self, kind: &OpKind, operands: &[String]) -> String {
        let operand = |i: usize| operands.get(i).map_or("", String::as_str);
        match kind {
            OpKind::Einsum { contracted } => {
                format!("{} *{} {}", operand(0), self.dim_names(contracted), operand(1))
            }
            OpKind::Map(function) => self.map(&function.form, operands),
            OpKind::Reduce { function, dims } => {
                format!("{}_{}({})", function.name(), self.dim_subscript(dims), operands.join(", "))
            }
            OpKind::Composite { function, dims } => {
                format!("{}_{}({})", function.name(), self.dim_subscript(dims), operands.join(", "))
            }
            OpKind::Along(Along { function, from, to }) => {
                let dims = if from == to { &[*from][..] } else { &[*from, *to] };
                let name = function.name();
                format!("{name}_{}({})", self.dim_subscript(dims), operands.join(", "))
            }
            OpKind::Opaque(opaque) => self.opaque(opaque, &operands.join(", ")),
            OpKind::Gather { dim } => {
                format!("take_{}({})", self.dim_name(*dim), operands.join(", "))
            }
            OpKind::ScatterAdd { dim } => {
                format!("put_{}({})", self.dim_name(*dim), operands.join(", "))
            }
            OpKind::Update { dim } => {
                format!("update_{}({})", self.dim_name(*dim), operands.join(", "))
            }
            OpKind::Route(route @ Route { tokens, experts, capacity, choices, .. }) => {
                let busiest = route.stated_imbalance();
                let busiest = busiest.map(|times| format!(", busiest={times:?}"));
                let busiest = busiest.unwrap_or_default();
                format!(
                    "route_{}({}, {choices}{busiest})",
                    self.dim_subscript(&[*tokens, *experts, *capacity]),
                    operand(0)
                )
            }
            OpKind::Rearrange(how) => self.rearrange(how, &operands.join(", ")),
            OpKind::Collective(kind) => format!("{}({})", kind.name(), operands.join(", ")),
        }
    }

    fn opaque(self, Opaque { name, from, to }: &Opaque, operands: &str) -> String {
        let subscript = match (&from[..], &to[..]) {
            ([], []) => String::new(),
            (from, to) if from == to => format!("_{}", self.dim_subscript(from)),
            (from, to) => format!("_{{{}->{}}}", self.dim_names(from), self.dim_names(to)),
        };
        format!("opaque<{name}>{subscript}({operands})")
    }

    fn rearrange(self, how: &Rearrange, operands: &str) -> String {
        let window = |name: &str, window: &Window| {
            let (from, to) = (self.dim_name(window.from), self.dim_name(window.to));
            format!("{name}_{{{from},{to}}}({operands}, {})", window.start)
        };
        let windows = |name: &str, from: &[DimId], to: &[DimId], windows: &Windows| {
            let (from, to) = (self.dim_names(from), self.dim_names(to));
            let Windows { stride, padding, .. } = windows;
            format!("{name}_{{{from}->{to}}}({operands}, stride={stride}, padding={padding})")
        };
        match how {
            Rearrange::Windows(it) => windows("windows", &[it.whole], &[it.places, it.kernel], it),
            Rearrange::Overlap(it) => windows("overlap", &[it.places, it.kernel], &[it.whole], it),
            Rearrange::Rename(_) => format!("rename({operands})"),
            Rearrange::Reshape(_) => format!("reshape({operands})"),
            Rearrange::Slice(part) => window("slice", part),
            Rearrange::Pad(part) => window("pad", part),
            Rearrange::Part { .. } => format!("part({operands})"),
            Rearrange::Join { .. } => format!("join({operands})"),
            Rearrange::Chunk { .. } => format!("chunk({operands})"),
            Rearrange::Stack { .. } => format!("stack({operands})"),
            Rearrange::Roll(Roll { dim, by: 1 }) => {
                format!("roll_{}({operands})", self.dim_name(*dim))
            }
            Rearrange::Roll(Roll { dim, by }) => {
                format!("roll_{}({operands}, {by})", self.dim_name(*dim))
            }
            Rearrange::Concat { from, to } => {
                format!("concat_{{{},{}}}({operands})", self.dim_names(from), self.dim_name(*to))
            }
        }
    }

    fn map(self, form: &MapForm, operands: &[String]) -> String {
        let operand = |i: usize| operands.get(i).map_or("", String::as_str);
        match form {
            MapForm::Call { function, numbers } => {
                let arguments: Vec<&str> =
                    operands.iter().chain(numbers).map(String::as_str).collect();
                format!("{}({})", function.name(), arguments.join(", "))
            }
            MapForm::Cast(dtype) => format!("cast<{}>({})", dtype.name(), operand(0)),
            MapForm::Infix(how) => format!("{} {} {}", operand(0), how.symbol(), operand(1)),
            MapForm::ScaleBy(scalar) => format!("{scalar} * {}", operand(0)),
            MapForm::InfixScalar(how, scalar) => {
                format!("{} {} {scalar}", operand(0), how.symbol())
            }
            MapForm::ScalarInfix(scalar, how) => {
                format!("{scalar} {} {}", how.symbol(), operand(0))
            }
            MapForm::LoopCarried => operand(0).to_owned(),
            MapForm::Last => format!("last({})", operand(0)),
            MapForm::Total => format!("total({})", operand(0)),
            MapForm::Negate => format!("-{}", operand(0)),
            MapForm::Host(transfer) => format!("{}({})", transfer.name(), operand(0)),
            MapForm::Broadcast(dims) => {
                format!("broadcast_{}({})", self.dim_subscript(dims), operand(0))
            }
            MapForm::Constant { number, .. } => number.clone(),
            MapForm::Iota(dim) => format!("iota_{}()", self.dim_name(*dim)),
            MapForm::Position(dim) => format!("position_{}({})", self.dim_name(*dim), operand(0)),
            MapForm::Causal { query, key, fill } => {
                let name = if *fill == Fill::Infinite { "causal" } else { "lower" };
                format!("{name}_{}({})", self.dim_subscript(&[*query, *key]), operand(0))
            }
        }
    }

    /// `D`, `{D,F}`: the text after the `_` of a function that names dimensions.
    pub(super) fn dim_subscript(self, dims: &[DimId]) -> String {
        let names = self.dim_names(dims);
        if dims.len() == 1 { names } else { format!("{{{names}}}") }
    }
}
