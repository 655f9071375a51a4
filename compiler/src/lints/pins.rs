//! What whole dimensions on left sides cost: each such pin is opened, the program planned again, and the difference is the price.
//!
//! Looking only for a gather in the plan would blame brackets for what is needed anyway, and would miss that opening them changes other steps.

use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{CollectiveKind, OpKind, Program};
use shardwise_ir::sharding::{AxisList, Pin};

use super::walk;
use crate::lint::{Priced, Saving, Subject};

/// A left side that keeps a value whole and pays for it.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(super) value: ValueId,
    /// The collectives that bring the value there, as the plan prints them.
    pub(super) moves: Vec<String>,
    pub(super) kind: Kind,
    pub(super) saving: Saving,
}

/// How the pin is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Partial sums are settled everywhere, though each device needs a part.
    AllReduce,
    /// The value is gathered, and then reduced over what was gathered.
    Statistics(DimId),
    /// Anything else, mostly a gather.
    Gather,
}

/// Every left side whose whole dimensions cost something.
pub(super) fn costly<'s>(subject: &'s Subject<'_>) -> &'s [Pinned] {
    subject.pins.get_or_init(|| subject.program.ops.indices().filter_map(|op| judge(subject, op)).collect())
}

fn judge(subject: &Subject<'_>, op: OpId) -> Option<Pinned> {
    let written = &subject.program.ops[op];
    let value = written.result;
    let pin = written.result_pin.as_ref()?;
    let is_whole = pin.dims.iter().flatten().any(|axes| axes.is_empty());
    let is_written = matches!(written.kind, OpKind::Collective(_));
    // The textbook's plan is there already: where it moves nothing, brackets cost nothing by the rules.
    if subject.is_explicit() || is_written || !is_whole || subject.is_output(value) || moves(&subject.textbook, value).is_empty() {
        return None;
    }
    let moves = moves(subject.best(), value);
    let saving = subject.saving(|program| open(program, op))?;
    let total = subject.best().report.serial_s;
    if moves.is_empty() || !walk::is_worth(saving.seconds, total) {
        return None;
    }
    let kind = kind(subject, value, pin, &saving);
    Some(Pinned { value, moves, kind, saving })
}

/// Opens the whole dimensions of a left side.
fn open(program: &mut Program, op: OpId) {
    let value = program.ops[op].result;
    let is_home = program.values[value].home == program.ops[op].result_pin;
    if let Some(pin) = &mut program.ops[op].result_pin {
        pin.dims.iter_mut().for_each(open_dim);
    }
    if is_home {
        program.values[value].home.clone_from(&program.ops[op].result_pin);
    }
}

fn open_dim(axes: &mut Option<AxisList>) {
    if axes.as_ref().is_some_and(|axes| axes.is_empty()) {
        *axes = None;
    }
}

fn moves(priced: &Priced, value: ValueId) -> Vec<String> {
    let of_value = priced.moves().filter(|(_, step, ..)| step.result.value == value);
    of_value.map(|(_, step, ..)| crate::text::step(&priced.plan, step)).collect()
}

fn has(priced: &Priced, value: ValueId, kind: &CollectiveKind) -> bool {
    priced.moves().any(|(_, step, _, other)| step.result.value == value && other == kind)
}

fn kind(subject: &Subject<'_>, value: ValueId, pin: &Pin, saving: &Saving) -> Kind {
    let before = subject.best();
    if has(before, value, &CollectiveKind::AllReduce) && !has(&saving.after, value, &CollectiveKind::AllReduce) {
        return Kind::AllReduce;
    }
    let whole = subject.program.values[value].dims.iter().zip(&pin.dims).filter(|(_, axes)| axes.as_ref().is_some_and(|a| a.is_empty()));
    let reduced = whole.map(|(&dim, _)| dim).find(|&dim| walk::is_reduced_over(subject.program, value, dim));
    reduced.filter(|_| has(before, value, &CollectiveKind::AllGather)).map_or(Kind::Gather, Kind::Statistics)
}
