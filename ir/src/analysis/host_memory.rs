//! Values in the memory of the host.
//!
//! `offload` sends a device's block of a value to the memory of its host, `reload` brings it
//! back. In between the value cannot be read, so that every other use is an error, and a plan has
//! no collectives on it: it comes back in the sharding in which it left. Where a value is follows
//! from the operation that produces it; a mark on every value would be the alternative, which every
//! pass that makes values would have to keep.

use indexmap::IndexSet;

use crate::codes::mesh as codes;
use crate::functions::{HostTransfer, MapForm};
use crate::ids::ValueId;
use crate::program::{Op, OpKind, Program};
use crate::{Diag, Span};

impl Op {
    /// The transfer between the memories of device and host that it is, if any.
    pub fn host_transfer(&self) -> Option<HostTransfer> {
        let OpKind::Map(function) = &self.kind else { return None };
        let MapForm::Host(transfer) = function.form else { return None };
        Some(transfer)
    }

    /// Whether its result is in the host's memory.
    pub fn is_stored_on_host(&self) -> bool {
        self.host_transfer() == Some(HostTransfer::To)
    }
}

impl Program {
    /// The values that are in the host's memory.
    pub fn on_host(&self) -> IndexSet<ValueId> {
        self.ops.iter().filter(|op| op.is_stored_on_host()).map(|op| op.result).collect()
    }
}

/// Uses of values in the memory where they are not, and transfers over a link of which the chip has
/// no figure.
pub fn faults(program: &Program) -> Vec<Diag> {
    let on_host = program.on_host();
    let unread = program.ops.iter().flat_map(|op| misread(program, op, &on_host));
    let outputs = program.outputs.iter().filter(|output| on_host.contains(&output.value));
    let outputs = outputs.map(|output| not_here(program, output.value, output.span));
    let mut faults: Vec<Diag> = unread.chain(outputs).collect();
    let has_figure = program.hardware.host_bandwidth.is_some();
    let transfers = program.ops.iter().filter(|op| op.host_transfer().is_some());
    let kept = program.repeats.iter().filter_map(|repeat| Some(repeat.offload.as_ref()?.span));
    let first = transfers.map(|op| op.span).chain(kept).next();
    faults.extend(first.filter(|_| !has_figure).map(|span| no_link(program, span)));
    faults
}

fn misread(program: &Program, op: &Op, on_host: &IndexSet<ValueId>) -> Vec<Diag> {
    let comes_back = op.host_transfer() == Some(HostTransfer::From);
    let wrong = op.operands.iter().filter(|it| on_host.contains(&it.value) != comes_back);
    let diag = |value: ValueId, span| {
        if comes_back { never_sent(program, value, span) } else { not_here(program, value, span) }
    };
    wrong.map(|operand| diag(operand.value, operand.span)).collect()
}

fn not_here(program: &Program, value: ValueId, span: Span) -> Diag {
    let name = &program.values[value].name;
    let message = format!("`{name}` is in the memory of the host");
    let diag = Diag::error(codes::ON_HOST, message, span, "read here by a device");
    let diag = diag.and(program.values[value].span, "sent to the host here");
    diag.help(format!("bring it back first: `reload({name})`"))
}

fn never_sent(program: &Program, value: ValueId, span: Span) -> Diag {
    let name = &program.values[value].name;
    let message = format!("`{name}` is not in the memory of the host");
    let diag = Diag::error(codes::ON_HOST, message, span, "brought back from there");
    diag.help(format!("use `{name}` itself, or send it before: `offload({name})`"))
}

fn no_link(program: &Program, span: Span) -> Diag {
    let chip = &program.hardware.name;
    let message = format!("`{chip}` has no figure for its link to the memory of the host");
    let diag = Diag::error(codes::NO_LINK, message, span, "this transfer needs it");
    diag.help(format!(
        "describe a chip in a hardware file, with `base = \"{chip}\"` and `host_bandwidth` in \
            bytes a second one way; `shardwise docs hardware` shows how"
    ))
}
