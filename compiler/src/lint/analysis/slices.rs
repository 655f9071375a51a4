//! Finds values that all readers slice.

use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::program::CollectiveKind;

use crate::lint::definition::{LintContext, Priced};

/// The slice that is the only use of a materialisation, by any number of statements.
pub(crate) fn only_slice<'p>(
    context: &LintContext<'_>,
    plan: &'p Priced,
    number: usize,
    step: &'p Step,
) -> Option<&'p Step> {
    let mut readers = plan.readers(number);
    let first = readers.next()?;
    let is_slice = |step: &Step| match &step.kind {
        StepKind::Collective(collective, _) => collective.kind == CollectiveKind::Slice,
        StepKind::Local(_) => false,
    };
    let same =
        is_slice(first) && readers.all(|other| is_slice(other) && other.result == first.result);
    (same && !context.leaves(&step.result)).then_some(first)
}
