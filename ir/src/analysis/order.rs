//! Operations that go along a sequence, or cut it: they need its own order, which a dimension in
//! zigzag order does not have.

use crate::Diag;
use crate::codes::names;
use crate::functions::AlongFn;
use crate::ids::DimId;
use crate::program::{Op, OpKind, Opaque, Program};
use crate::rearrange::{Rearrange, Window};

/// An error for each operation along a dimension in zigzag order whose result would be wrong in it.
pub fn faults(program: &Program) -> Vec<Diag> {
    if program.dims.iter().all(|dim| dim.zigzag.is_none()) {
        return Vec::new();
    }
    program.ops.iter().filter_map(|op| fault(program, op)).collect()
}

fn fault(program: &Program, op: &Op) -> Option<Diag> {
    if let OpKind::Rearrange(Rearrange::Rename(pairs)) = &op.kind {
        let differ =
            |(from, to): &&(DimId, DimId)| program.dims[*from].zigzag != program.dims[*to].zigzag;
        return pairs.iter().find(differ).map(|&pair| renamed(program, op, pair));
    }
    let dim = ordered(&op.kind).into_iter().find(|&dim| program.dims[dim].zigzag.is_some())?;
    let name = &program.dims[dim].name;
    let message = format!("`{name}` is in zigzag order, and this goes along `{name}` or cuts it");
    let diag = Diag::error(names::ORDER, message, op.span, "needs the order of the sequence");
    Some(diag.and(program.dims[dim].span, "declared here").help(format!(
        "leave `zigzag` out of the declaration of `{name}`, or use a dimension without it here"
    )))
}

fn renamed(program: &Program, op: &Op, (from, to): (DimId, DimId)) -> Diag {
    let (from, to) = (&program.dims[from], &program.dims[to]);
    let message = format!("`{}` and `{}` are in different orders", from.name, to.name);
    let diag = Diag::error(names::ORDER, message, op.span, "elements would change their positions");
    diag.and(from.span, "one order").and(to.span, "another").help(format!(
        "declare `{}={}`: then it has the order of `{}`, too",
        to.name, from.name, from.name
    ))
}

/// The dimensions whose order an operation needs.
fn ordered(kind: &OpKind) -> Vec<DimId> {
    match kind {
        OpKind::Along(along) => match along.function {
            AlongFn::CumSum | AlongFn::RevCumSum => vec![along.from],
            AlongFn::TopK | AlongFn::ArgTopK => Vec::new(),
        },
        OpKind::Opaque(Opaque { from, to, .. }) => from.iter().chain(to).copied().collect(),
        OpKind::Gather { dim } | OpKind::ScatterAdd { dim } | OpKind::Update { dim } => vec![*dim],
        OpKind::Rearrange(how) => match how {
            Rearrange::Roll(roll) => vec![roll.dim],
            Rearrange::Windows(windows) | Rearrange::Overlap(windows) => {
                vec![windows.whole, windows.places, windows.kernel]
            }
            Rearrange::Slice(Window { from, to, .. })
            | Rearrange::Pad(Window { from, to, .. })
            | Rearrange::Part { from, to, .. }
            | Rearrange::Join { from, to } => vec![*from, *to],
            Rearrange::Chunk { from, to, .. } => [*from].into_iter().chain(*to).collect(),
            Rearrange::Stack { from, to } => from.iter().copied().chain([*to]).collect(),
            Rearrange::Concat { from, to } => from.iter().copied().chain([*to]).collect(),
            Rearrange::Reshape(groups) => groups
                .iter()
                .flat_map(|group| group.from.iter().chain(&group.to))
                .copied()
                .collect(),
            Rearrange::Rename(_) => Vec::new(),
        },
        OpKind::Einsum { .. }
        | OpKind::Map(_)
        | OpKind::Reduce { .. }
        | OpKind::Composite { .. }
        | OpKind::Route(_)
        | OpKind::Collective(_) => Vec::new(),
    }
}
