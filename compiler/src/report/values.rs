//! What the page shows of a value or a step when it is pointed at: shapes, bytes, where a value is
//! kept, and why a collective is there. It is data in the page, which the script turns into text.

use std::collections::BTreeMap;

use serde::Serialize;
use shardwise_ir::Role;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Materialization, StepKind};
use shardwise_ir::print;
use shardwise_ir::sharding::Pin;
use shardwise_passes::{held, liveness, local_shape};

use super::texts;
use crate::Planned;
use crate::display::units;
use crate::explain::{self, End};
use crate::planned::blocks::{self, Blocks};
use crate::planned::step_name::{links_in_words, step_name};

/// A value in one of its shardings.
#[derive(Serialize)]
struct Form {
    text: String,
    /// `512 × 1024`: the block of a device.
    local: String,
    bytes: String,
    /// Where it is kept.
    kept: String,
    /// The number of blocks down and across, whether they are partial sums, and all in words.
    blocks: (u64, u64, bool, String),
}

/// A value.
#[derive(Serialize)]
struct Value {
    /// The name that the author wrote, without the numbers of its parts.
    base: String,
    what: String,
    /// `B 2048 × D 16384`.
    shape: String,
    bytes: String,
    forms: Vec<Form>,
}

/// A step.
#[derive(Serialize)]
struct Step {
    name: String,
    text: String,
    value: String,
    facts: Vec<String>,
    why: Vec<String>,
}

/// All values and steps.
#[derive(Serialize)]
pub(super) struct Values {
    values: BTreeMap<String, Value>,
    steps: Vec<Step>,
}

impl Values {
    /// JSON that can stand in a page.
    pub(super) fn script(&self) -> String {
        serde_json::to_string(self).unwrap_or_default().replace('<', "\\u003c")
    }
}

/// All values and steps of a plan.
pub(super) fn values(planned: &Planned) -> Values {
    let program = &planned.plan.program;
    let forms = forms(planned);
    let described = program.values.iter_enumerated().filter_map(|(id, value)| {
        let forms = forms.get(&id)?;
        let dims: Vec<String> = (value.dims.iter())
            .map(|&dim| {
                format!("{} {}", program.dims[dim].name, program.size_in(value.repeat, dim))
            })
            .collect();
        let elements: f64 =
            value.dims.iter().map(|&dim| program.size_in(value.repeat, dim) as f64).product();
        let described = Value {
            base: texts::base(&value.name).to_owned(),
            what: format!("{}, {}", role(value.role, value.is_frozen), value.dtype.name()),
            shape: if dims.is_empty() { "a number".to_owned() } else { dims.join(" × ") },
            bytes: units::bytes(elements * f64::from(value.dtype.bits()) / 8.0),
            forms: forms.iter().map(|(of, kept)| form(planned, of, kept)).collect(),
        };
        Some((value.name.clone(), described))
    });
    Values { values: described.collect(), steps: steps(planned) }
}

fn role(role: Option<Role>, is_frozen: bool) -> &'static str {
    match role {
        Some(Role::Param) if is_frozen => "frozen parameter",
        Some(Role::Param) => "parameter",
        Some(Role::State) => "state",
        Some(Role::Input) => "input",
        _ => "result",
    }
}

/// The shardings of every value in order of appearance, and where they are kept.
fn forms(planned: &Planned) -> BTreeMap<ValueId, Vec<(Materialization, String)>> {
    let plan = &planned.plan;
    let last = plan.steps.len().saturating_sub(1);
    let mut forms: BTreeMap<ValueId, Vec<(Materialization, String)>> = BTreeMap::new();
    let mut add = |of: Materialization, kept: String| {
        let forms = forms.entry(of.value).or_default();
        match forms.iter_mut().find(|(other, _)| *other == of) {
            Some((_, known)) if kept.is_empty() || known == "always" => {}
            Some((_, known)) if known.is_empty() => *known = kept,
            Some((_, known)) => known.push_str(&format!(", {kept}")),
            None => forms.push((of, kept)),
        }
    };
    for (value, declared) in plan.program.values.iter_enumerated() {
        if let Some(sharding) = declared.declared_sharding.as_ref().and_then(Pin::exact)
            && held::resident_bytes(&plan.program, value).is_some()
        {
            add(Materialization { value, sharding }, "always".to_owned());
        }
    }
    for live in liveness::live_ranges(plan, plan.dataflow()) {
        let kept = match (*live.steps.start(), *live.steps.end()) {
            (0, to) if to == last => "in all steps".to_owned(),
            (from, to) if from == to => format!("in step {}", from + 1),
            (from, to) => format!("from step {} to {}", from + 1, to + 1),
        };
        add(live.of, kept);
    }
    for step in &plan.steps {
        add(step.result.clone(), String::new());
    }
    forms
}

fn form(planned: &Planned, of: &Materialization, kept: &str) -> Form {
    let program = &planned.plan.program;
    let value = &program.values[of.value];
    let sizes = value.dims.iter().zip(&of.sharding.dims);
    let sizes = sizes
        .map(|(&dim, axes)| local_shape::local_size(program, value.repeat, dim, axes).to_string());
    let Blocks { down, across, is_partial, share } = blocks::blocks(planned, of);
    Form {
        text: print::materialization(program, of),
        local: sizes.collect::<Vec<_>>().join(" × "),
        bytes: units::bytes(local_shape::local_bytes(program, of.value, &of.sharding)),
        kept: if kept.is_empty() {
            "not kept: on the chip, or another name".into()
        } else {
            kept.into()
        },
        blocks: (down.blocks, across.blocks, is_partial, share),
    }
}

fn steps(planned: &Planned) -> Vec<Step> {
    let (plan, report) = (&planned.plan, &planned.report);
    let mut reasons: BTreeMap<usize, Vec<String>> =
        explain::reasons(planned).into_iter().map(|(step, of)| (step, why(&of))).collect();
    let described =
        plan.steps.iter().zip(&report.steps).enumerate().map(|(number, (step, cost))| {
            let is_move = cost.is_move(step);
            let mut facts = vec![format!("step {} of {}", number + 1, plan.steps.len())];
            if cost.seconds > 0.0 {
                let times = cost.times;
                let all = if times > 1.0 {
                    format!(
                        ", {} times, {} in all",
                        units::number(times),
                        units::seconds(cost.total_s())
                    )
                } else {
                    String::new()
                };
                facts.push(format!("{}{all}", units::seconds(cost.seconds)));
            }
            if is_move && cost.bytes > 0.0 {
                let links = links_in_words(&plan.program, cost, " and ");
                facts.push(format!("{} over {links}", units::bytes(cost.bytes)));
            } else if cost.flops > 0.0 {
                facts.push(format!("{} a device", units::flops(cost.flops)));
            }
            if is_move && report.schedule.critical[number] {
                facts.push("critical".to_owned());
            }
            if matches!(step.kind, StepKind::Collective(..)) && report.schedule.early[number] {
                facts.push("prefetchable".to_owned());
            }
            if cost.beside_product.seconds > 0.0 {
                facts.push("chunked".to_owned());
            }
            Step {
                name: step_name(&plan.program, step),
                text: print::step(&plan.program, step),
                value: plan.program.values[step.result.value].name.clone(),
                facts,
                why: reasons.remove(&number).unwrap_or_default(),
            }
        });
    described.collect()
}

/// Why a collective is there, in sentences.
fn why(of: &explain::Collective) -> Vec<String> {
    let mut sentences = vec![format!("starts from: {}", of.from.who)];
    sentences.extend(of.from.because.iter().cloned());
    for End { who, because } in &of.needs {
        sentences.push(format!("needed by {who}"));
        sentences.extend(because.iter().cloned());
    }
    sentences
}
