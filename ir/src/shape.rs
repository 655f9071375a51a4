//! Which dimensions an operation gives, and in which order where no left side says it.
//!
//! Resolving text and deriving statements must agree on this: a derived statement is printed without brackets and read again.

use crate::ids::DimId;
use crate::program::{MapForm, OpKind};

/// The dimensions of what `kind` gives on operands that have `operands`.
pub fn natural(kind: &OpKind, operands: &[&[DimId]]) -> Vec<DimId> {
    let all = operands.iter().skip(1).fold(operands.first().map_or_else(Vec::new, |first| first.to_vec()), |dims, next| merge(&dims, next));
    match kind {
        OpKind::Einsum { contracted: gone } | OpKind::Reduce { dims: gone, .. } => {
            all.into_iter().filter(|dim| !gone.contains(dim)).collect()
        }
        OpKind::Map(function) => match &function.form {
            MapForm::Broadcast(added) => merge(&all, added),
            _ => all,
        },
        OpKind::Collective(_) => all,
    }
}

/// Both lists in one order that agrees with each as far as possible: before a shared dimension stand those that precede it in either.
pub(crate) fn merge(left: &[DimId], right: &[DimId]) -> Vec<DimId> {
    let mut merged: Vec<DimId> = Vec::new();
    let mut rest = right.iter().copied();
    for &dim in left {
        if right.contains(&dim) && !merged.contains(&dim) {
            for earlier in rest.by_ref().take_while(|&other| other != dim) {
                if !left.contains(&earlier) && !merged.contains(&earlier) {
                    merged.push(earlier);
                }
            }
        }
        if !merged.contains(&dim) {
            merged.push(dim);
        }
    }
    merged.extend(right.iter().copied().filter(|dim| !left.contains(dim)).filter(|dim| !merged.contains(dim)).collect::<Vec<_>>());
    merged
}
