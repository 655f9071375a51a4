//! Windows of convolutions and their transpose: on a complete dimension zeros stand around the
//! elements, on a sharded one what a device gets of the blocks next to its own.
//!
//! A convolution of a framework in place of windows and their product would run faster on a
//! device; the plan has them as two steps, which other steps may stand between or read.

use super::super::json::{Operation, StepJson};
use super::super::walk::collectives::place_of;
use super::expression::{Expressions, names};
use super::names::identifier;

/// The dimensions and constants of windows, or of their transpose.
struct Places<'s> {
    from: &'s str,
    to: &'s str,
    kernel: &'s str,
    stride: u64,
    padding: u64,
}

impl<'s> Places<'s> {
    fn of(operation: &'s Operation) -> Option<Self> {
        match operation {
            Operation::Windows { from, to, kernel, stride, padding }
            | Operation::Overlap { from, to, kernel, stride, padding } => {
                Some(Self { from, to, kernel, stride: *stride, padding: *padding })
            }
            _ => None,
        }
    }

    /// How many elements of the next block the windows of a block have.
    fn after(&self) -> String {
        format!("max(0, n.{} - {})", identifier(self.kernel), self.padding + self.stride)
    }
}

impl Expressions<'_> {
    /// Windows, or their transpose; `None` for other operations.
    pub(super) fn convolved(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &str,
    ) -> Option<String> {
        let places = Places::of(operation)?;
        let takes = matches!(operation, Operation::Windows { .. });
        Some(if takes { self.windows(step, &places, of) } else { self.overlap(step, &places, of) })
    }

    /// The axes that split a dimension of the operand, if devices differ.
    fn split_of(&self, step: &StepJson, dim: &str) -> Option<Vec<String>> {
        let of = &step.operands[0];
        let split = &of.dims[place_of(of, dim)].axes;
        (!self.is_whole(split)).then(|| split.clone())
    }

    fn windows(&mut self, step: &StepJson, places: &Places<'_>, of: &str) -> String {
        self.helper("windows");
        self.helper("pad");
        let dims = names(&step.operands[0]);
        let place = place_of(&step.operands[0], places.from);
        let (mut of, mut before) = (of.to_owned(), places.padding);
        if let Some(split) = self.split_of(step, places.from) {
            self.helper("with_halo");
            let dialect = self.dialect;
            let group = dialect.group(self, &split);
            of = format!("with_halo({of}, {before}, {}, {place}, {group})", places.after());
            before = 0;
        }
        let count = self.length(&step.result, places.to);
        let (kernel, stride) = (identifier(places.kernel), places.stride);
        let call = format!("windows({of}, {before}, {count}, n.{kernel}, {stride}, {place})");
        let made: Vec<&str> =
            dims.into_iter()
                .flat_map(|dim| {
                    if dim == places.from { vec![places.to, places.kernel] } else { vec![dim] }
                })
                .collect();
        self.aligned(&call, &made, &names(&step.result))
    }

    fn overlap(&mut self, step: &StepJson, places: &Places<'_>, of: &str) -> String {
        self.helper("overlap");
        let dims = names(&step.operands[0]);
        // Each window after its place.
        let others = dims.iter().copied().filter(|dim| *dim != places.kernel);
        let order: Vec<&str> = others
            .flat_map(|dim| if dim == places.from { vec![dim, places.kernel] } else { vec![dim] })
            .collect();
        let of = self.aligned(of, &dims, &order);
        let place = order.iter().position(|dim| *dim == places.from).unwrap_or(0);
        let length = self.length(&step.result, places.to);
        let (padding, stride) = (places.padding, places.stride);
        let call = match self.split_of(step, places.from) {
            None => format!("overlap({of}, {padding}, {length}, {stride}, {place})"),
            Some(split) => {
                self.helper("added_halo");
                self.helper("pad");
                let dialect = self.dialect;
                let group = dialect.group(self, &split);
                let after = places.after();
                let all = format!("{padding} + {length} + {after}");
                let sums = format!("overlap({of}, 0, {all}, {stride}, {place})");
                format!("added_halo({sums}, {padding}, {after}, {place}, {group})")
            }
        };
        let made: Vec<&str> = order
            .iter()
            .copied()
            .filter(|dim| *dim != places.kernel)
            .map(|dim| if dim == places.from { places.to } else { dim })
            .collect();
        self.aligned(&call, &made, &names(&step.result))
    }
}
