//! The values of a plan, found by the places and names in the source.

use indexmap::IndexMap;
use shardwise_ir::Span;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::StepKind;
use shardwise_ir::print::Printer;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::Sharding;
use shardwise_passes::local_shape::{local_bytes, local_size};

use super::Fact;
use super::hints::explained;
use crate::Planned;
use crate::display::units;
use crate::editor::Document;
use crate::editor::names::{Kind, Occurrence};
use crate::explain::Explainer;

/// More collectives of one value are counted, and not explained.
const MOST_EXPLAINED: usize = 4;

/// The values of a plan.
pub(super) struct Values<'p> {
    planned: &'p Planned,
    /// The places where values stand, with the value.
    places: Vec<(Span, ValueId)>,
    by_name: IndexMap<&'p str, ValueId>,
}

impl<'p> Values<'p> {
    pub(super) fn of(planned: &'p Planned) -> Self {
        let program: &Program = &planned.plan.program;
        let by_name = program.values.iter_enumerated().map(|(id, it)| (it.name.as_str(), id));
        let operands = program.ops.iter().flat_map(|op| &op.operands);
        let operands = operands.map(|operand| (operand.span, operand.value));
        let outputs = program.outputs.iter().map(|output| (output.span, output.value));
        let declared = program.values.iter_enumerated().map(|(id, value)| (value.span, id));
        let mut places: Vec<(Span, ValueId)> = declared.chain(operands).chain(outputs).collect();
        places.sort_by_key(|(span, _)| *span);
        Self { planned, places, by_name: by_name.collect() }
    }

    /// The value of a name at a place: the one of the smallest part of the text that begins there,
    /// since a name that a block carries has another value in each; else the one of that name.
    pub(super) fn at(&self, place: Span, name: &str) -> Option<ValueId> {
        let values = &self.planned.plan.program.values;
        let is_called = |id: ValueId| {
            let rest = values[id].name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let start = self.places.partition_point(|(span, _)| span.start < place.start);
        let here = self.places[start..].iter().take_while(|(span, _)| span.start == place.start);
        let here = here.filter(|(_, id)| is_called(*id)).min_by_key(|(span, _)| span.end);
        here.map(|(_, id)| *id).or_else(|| self.by_name.get(name).copied())
    }

    /// The shardings that a value is in, the first one as it is declared or computed.
    pub(super) fn shardings(&self, value: ValueId) -> Vec<Sharding> {
        let plan = &self.planned.plan;
        let declared = plan.program.values[value].declared_sharding.as_ref();
        let declared = declared.filter(|_| plan.program.values[value].is_declared());
        let mut found: Vec<Sharding> = declared.and_then(|pin| pin.exact()).into_iter().collect();
        for step in plan.steps.iter().filter(|step| step.result.value == value) {
            if !found.contains(&step.result.sharding) {
                found.push(step.result.sharding.clone());
            }
        }
        found
    }
}

/// What the plan says of each value, at each place where one stands.
pub(super) fn facts(document: &Document, planned: &Planned) -> Vec<Fact> {
    let values = Values::of(planned);
    let explainer = Explainer::new(planned, &document.text, None);
    let mut texts: IndexMap<ValueId, String> = IndexMap::new();
    let is_value = |it: &&Occurrence| it.kind == Kind::Value;
    let places = document.names().all().iter().filter(is_value);
    let facts = places.filter_map(|place| {
        let word = &document.text[place.word.start..place.word.end];
        let value = values.at(place.word, word)?;
        let text = texts.entry(value).or_insert_with(|| text(&values, &explainer, value)).clone();
        Some(Fact { span: place.word, text })
    });
    facts.collect()
}

/// The shape and the bytes of a value, global and on one device in each of its shardings, what
/// computes it and what reshards it.
fn text(values: &Values<'_>, explainer: &Explainer<'_>, id: ValueId) -> String {
    let planned = values.planned;
    let program = &planned.plan.program;
    let value = &program.values[id];
    let sizes = |size: &dyn Fn(usize) -> u64| {
        let sizes = (0..value.dims.len()).map(|at| size(at).to_string());
        format!("[{}]", sizes.collect::<Vec<_>>().join(", "))
    };
    let replicated = Sharding::replicated(value.dims.len());
    let global = sizes(&|at| program.size_in(value.repeat, value.dims[at]));
    let mut text = format!(
        "**{}** `{}{}`: {}\n",
        value.name,
        value.dtype.name(),
        global,
        units::bytes(local_bytes(program, id, &replicated))
    );
    let printer = Printer::new(program);
    for sharding in values.shardings(id) {
        let local =
            sizes(&|at| local_size(program, value.repeat, value.dims[at], &sharding.dims[at]));
        let bytes = units::bytes(local_bytes(program, id, &sharding));
        let brackets = printer.sharding(&value.dims, &sharding);
        text += &format!("\n- `{brackets}`: `{local}`, {bytes} on a device");
    }
    let steps = planned.plan.steps.iter().enumerate();
    let mut moves = Vec::new();
    for (number, step) in steps.filter(|(_, step)| step.result.value == id) {
        let cost = &planned.report.steps[number];
        match step.kind {
            StepKind::Local(_) => {
                let times =
                    if cost.times > 1.0 { format!(" × {:.0}", cost.times) } else { String::new() };
                let seconds = units::seconds(cost.seconds);
                text += &format!("\n- `{}` · {seconds}{times}", printer.step_right(step));
            }
            StepKind::Collective(..) => moves.push(number),
        }
    }
    for &step in moves.iter().take(MOST_EXPLAINED) {
        text += &format!("\n- {}", explained(explainer, step));
    }
    if moves.len() > MOST_EXPLAINED {
        text += &format!("\n- {} more collectives", moves.len() - MOST_EXPLAINED);
    }
    text
}
