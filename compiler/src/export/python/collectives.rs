//! Mesh axes as Python writes them.

use super::super::json::StepJson;
use super::layout::tuple;

/// `("X", "Y")`: axes as a tuple.
pub(in crate::export) fn tuple_of(axes: &[String]) -> String {
    tuple(&axes.iter().map(|axis| format!("{axis:?}")).collect::<Vec<_>>())
}

/// `"X"`, `("X", "Y")`: axes as an argument.
pub(in crate::export) fn axes(names: &[String]) -> String {
    match names {
        [one] => format!("{one:?}"),
        all => tuple_of(all),
    }
}

/// `(("X",), ())`: the axes of each dimension.
pub(in crate::export) fn lists_of(dims: &[Vec<String>]) -> String {
    tuple(&dims.iter().map(|axes| tuple_of(axes)).collect::<Vec<_>>())
}

/// The axes of each dimension that a Permute changes, before and after, as tuples.
pub(in crate::export) fn relabelled(step: &StepJson) -> [String; 2] {
    let changed = step.operands[0].dims.iter().zip(&step.result.dims).filter(|(a, b)| a != b);
    let (held, wanted): (Vec<_>, Vec<_>) =
        changed.map(|(a, b)| (tuple_of(&a.axes), tuple_of(&b.axes))).unzip();
    [tuple(&held), tuple(&wanted)]
}
