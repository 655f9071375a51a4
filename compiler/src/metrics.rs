//! What people ask of a plan: time of a step, tokens a second, MFU and HFU, what it waits for, what
//! a token costs.
//!
//! A *token* is a row of the widest operand that any weight is multiplied with, in all
//! microbatches: the product of those of its dimensions that no parameter of a product has (batch,
//! sequence, images times patches). It follows from the program alone. Alternatives: a `tokens`
//! statement would repeat in every program what its products say, and could contradict them;
//! dimensions called `B` and `S` would be names with a meaning, which this language does not have.
//! A program that multiplies nothing with a parameter has no tokens, and no figures of them are
//! given.
//!
//! *MFU* is the time that the products of the model would take at the peak rates of their dtypes on
//! all chips, over the time of a step: gradients count, products that `checkpoint` computes again,
//! products of an optimizer, element-wise work and what several devices repeat do not (Chowdhery et
//! al., `PaLM`, 2022): what the backward part computes from the next value of a state, such as
//! Muon's orthogonal momentum, is its optimizer's. *HFU* is the same for the products that devices
//! execute, on average. A product of the backward part is computed again if the forward part has
//! the same product of the same values: no mark is needed. The time of a step is that of the plan's
//! own schedule.

use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::{Op, OpKind, Operand, Phase, Program};
use shardwise_ir::rearrange::Route;
use shardwise_ir::sharding::Sharding;
use shardwise_ir::total;
use shardwise_passes::limits::{BusyTimes, Limit};
use shardwise_passes::report;
use shardwise_passes::{ExpandedPlan, local, serving};

use crate::Planned;
use crate::accuracy::Group;
use crate::display::units;
use crate::driver;
use crate::options::{Grouping, Options, Rates};

/// Figures of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Seconds of a step: the plan's own schedule, at the rates asked for. Of a decode step, the
    /// time of a token of each sequence.
    pub step_s: f64,
    /// The same at peak rates; absent where those were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at_peak_s: Option<f64>,
    /// The mean relative error of such times against measured ones whose sources nothing is fitted
    /// to; absent at peak rates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean_error: Option<f64>,
    /// `FLOPs`, `HBM bandwidth`, `the links of X`, `latency`, `the bubble`, or `nothing`.
    pub bound_by: String,
    /// FLOPs of the products of the model in a step, on all chips.
    pub model_flops: f64,
    /// Model FLOPs utilisation.
    pub mfu: f64,
    /// Hardware FLOPs utilisation.
    pub hfu: f64,
    /// Tokens of a step; absent where nothing is multiplied with a parameter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tokens: Option<Tokens>,
}

/// The time of a step that is expected, at measured rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// Seconds of a step at measured rates.
    pub step_s: f64,
    /// The mean relative error of such times, as `mean_error` of the metrics.
    pub mean_error: f64,
    /// Seconds of a step of the same plan at peak rates.
    pub at_peak_s: f64,
}

/// Figures of the tokens of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// Tokens.
    pub count: f64,
    /// Tokens a second, of all chips.
    pub per_s: f64,
    /// Tokens a second and chip.
    pub per_s_and_chip: f64,
    /// The price of a million tokens, where the hardware or the caller gives that of a chip-hour.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub price_of_million: Option<f64>,
}

impl Planned {
    /// Time, rates and utilisation of a step.
    pub fn metrics(&self) -> Metrics {
        let program = &self.plan.program;
        let chips = program.mesh.devices() as f64;
        let step_s = self.report.schedule.makespan_s;
        let share = |seconds: f64| if step_s > 0.0 { seconds / step_s } else { 0.0 };
        let model = self.model_work();
        let is_measured = program.hardware.rates == Rates::Measured;
        Metrics {
            step_s,
            at_peak_s: (is_measured && !self.is_small).then(|| self.step_at(Rates::Peak)),
            mean_error: is_measured.then(|| group(program).accuracy().unseen_mean),
            bound_by: self.bound_by(),
            model_flops: model.flops,
            mfu: share(model.seconds / chips),
            hfu: share(executed_s(&self.plan)),
            tokens: self.tokens(),
        }
    }

    /// The work of the model: that of the program as written, where the plan groups its products
    /// otherwise and does more.
    fn model_work(&self) -> Work {
        let planned = model_work(&self.plan.program);
        if self.options.grouping.known().is_empty() || self.is_small {
            return planned;
        }
        let as_written = Options { grouping: Grouping::AsWritten, ..self.options.clone() };
        let written = driver::check(&self.name, &self.source, &as_written).program;
        let written = written.map_or(planned, |program| model_work(&program));
        if written.flops < planned.flops { written } else { planned }
    }

    fn tokens(&self) -> Option<Tokens> {
        let program = &self.plan.program;
        let (chips, step_s) = (program.mesh.devices() as f64, self.report.schedule.makespan_s);
        let count = Some(serving::tokens(program)).filter(|&of| of > 0.0 && step_s > 0.0)?;
        let price_of_million =
            program.hardware.price.map(|price| price * chips * step_s / 3600.0 / count * 1e6);
        let per_s = count / step_s;
        Some(Tokens { count, per_s, per_s_and_chip: per_s / chips, price_of_million })
    }

    /// The price of a million tokens, where a chip-hour has one.
    pub(crate) fn price_of_million(&self) -> Option<f64> {
        self.tokens()?.price_of_million
    }

    /// What the plan waits for.
    pub fn limit(&self) -> Option<Limit> {
        BusyTimes::of(&self.plan, &self.report, self.refinement).limit()
    }

    /// The same in words.
    pub fn bound_by(&self) -> String {
        let [words, _] = self.bound_in_words();
        words
    }

    /// The same in few words, for tables.
    pub fn bound_by_briefly(&self) -> String {
        let [_, few] = self.bound_in_words();
        few
    }

    fn bound_in_words(&self) -> [String; 2] {
        let named = |words: [&str; 2]| words.map(str::to_owned);
        match self.limit() {
            Some(Limit::Flops) => named(["FLOPs"; 2]),
            Some(Limit::Hbm) => named(["HBM bandwidth", "HBM"]),
            Some(Limit::Links(axis)) => {
                let axis = self.plan.program.mesh.link_name(axis);
                [format!("the links of {axis}"), format!("links {axis}")]
            }
            Some(Limit::Latency) => named(["latency"; 2]),
            Some(Limit::Bubble) => named(["the bubble", "bubble"]),
            Some(Limit::Host) => named(["the link to the host", "host link"]),
            None => named(["nothing"; 2]),
        }
    }

    /// Seconds of the schedule of the same plan at these rates.
    fn step_at(&self, rates: Rates) -> f64 {
        if self.plan.program.hardware.rates == rates {
            return self.report.schedule.makespan_s;
        }
        let mut plan = (*self.plan).clone();
        plan.program.hardware.rates = rates;
        report::report(&ExpandedPlan::from(plan), self.refinement).schedule.makespan_s
    }

    /// The expected time beside that at peak rates, where anything was measured on the chip.
    pub fn expected(&self) -> Option<Expected> {
        let program = &self.plan.program;
        let is_known = !program.hardware.measured.is_empty() && !self.is_small;
        is_known.then(|| Expected {
            step_s: self.step_at(Rates::Measured),
            mean_error: group(program).accuracy().unseen_mean,
            at_peak_s: self.step_at(Rates::Peak),
        })
    }

    /// The same in a line.
    pub(crate) fn expected_line(&self) -> Option<String> {
        self.expected().map(|expected| {
            format!(
                "expected {} ± {:.0}% at measured rates, {} at peak rates",
                units::seconds(expected.step_s),
                100.0 * expected.mean_error,
                units::seconds(expected.at_peak_s)
            )
        })
    }

    /// Utilisation and tokens in a line, of a step of training or serving.
    pub(crate) fn metrics_line(&self) -> Option<String> {
        let program = &self.plan.program;
        let is_step = program.hardware.is_training() || serving::Serving::of(program).is_ok();
        Some(()).filter(|()| is_step && self.report.serial_s > 0.0)?;
        Some(self.metrics().line())
    }
}

/// The kind of measurements that a program's times are compared with.
fn group(program: &Program) -> Group {
    if program.ops.iter().any(|op| op.phase == Phase::Backward) {
        Group::Training
    } else if serving::read_caches(program).is_empty() {
        Group::Prefill
    } else {
        Group::Decode
    }
}

/// FLOPs, and seconds of one chip at peak rates.
#[derive(Clone, Copy, Default)]
struct Work {
    flops: f64,
    seconds: f64,
}

/// The products of the unsharded program, each once, and on the slots of experts that tokens fill:
/// the others are zeros, of which more would not be a better use of the chip.
fn model_work(program: &Program) -> Work {
    let replicated = |value: ValueId| Sharding::replicated(program.values[value].dims.len());
    let others = [computed_again(program), of_optimizer(program)].concat();
    let products = program.ops.iter_enumerated().filter(|(_, op)| op.is_product());
    products.filter(|(id, _)| !others.contains(id)).fold(Work::default(), |sum, (_, op)| {
        let operands: Vec<Sharding> =
            op.operands.iter().map(|operand| replicated(operand.value)).collect();
        let shardings: Vec<&Sharding> = operands.iter().collect();
        let work = local::work(program, op, &shardings, &replicated(op.result));
        let times = program.trip_count_everywhere(op) as f64 * filled(program, op);
        let seconds = work.flops_s * work.flops / (work.flops + work.recomputed_flops).max(1.0);
        Work { flops: sum.flops + times * work.flops, seconds: sum.seconds + times * seconds }
    })
}

/// The share of the slots of experts that tokens can fill, for an operation on slots.
fn filled(program: &Program, op: &Op) -> f64 {
    let values = op.operands.iter().map(|operand| operand.value).chain([op.result]);
    let dims: Vec<DimId> =
        values.flat_map(|value| program.values[value].dims.iter().copied()).collect();
    let routes = program.ops.iter().filter_map(|op| match op.kind {
        OpKind::Route(route) => Some(route),
        _ => None,
    });
    // What counts a share already has no empty slots: products with the mask itself.
    let is_of = |of: &Route| dims.contains(&of.capacity) && dims.contains(&of.experts);
    let mut of_slots = routes.filter(|of| op.share.of_all >= 1.0 && is_of(of));
    let factor = of_slots.next().and_then(|of| of.capacity_factor(&program.dims));
    factor.map_or(1.0, |factor| (1.0 / factor).min(1.0))
}

/// Operations of the backward part that depend on what it makes of a state for the next step.
fn of_optimizer(program: &Program) -> Vec<OpId> {
    let updates = program.outputs.iter().filter(|output| program.updates(output).is_some());
    let next: FxHashSet<ValueId> = updates.map(|output| output.value).collect();
    let mut updated: FxHashSet<ValueId> = FxHashSet::default();
    let mut of_optimizer = Vec::new();
    for (id, op) in program.ops.iter_enumerated().filter(|(_, op)| op.phase == Phase::Backward) {
        let follows = op.operands.iter().any(|operand| updated.contains(&operand.value));
        if follows {
            of_optimizer.push(id);
        }
        if follows || next.contains(&op.result) {
            updated.insert(op.result);
        }
    }
    of_optimizer
}

/// Operations of the backward part that compute what the forward part has computed.
fn computed_again(program: &Program) -> Vec<OpId> {
    let mut first: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let mut forward: FxHashMap<ValueId, Vec<&Op>> = FxHashMap::default();
    for op in program.ops.iter().filter(|op| op.phase == Phase::Forward) {
        if let Some(operand) = op.operands.first() {
            forward.entry(operand.value).or_default().push(op);
        }
    }
    for op in program.ops.iter().filter(|op| op.host_transfer().is_some()) {
        let sent = op.operands[0].value;
        first.insert(op.result, *first.get(&sent).unwrap_or(&sent));
    }
    let mut again = Vec::new();
    for (id, op) in program.ops.iter_enumerated().filter(|(_, op)| op.phase == Phase::Backward) {
        let origin = |value: ValueId| *first.get(&value).unwrap_or(&value);
        let same = |a: &Operand, b: &Operand| a.value == origin(b.value);
        let candidates = op.operands.first().and_then(|of| forward.get(&origin(of.value)));
        let earlier = candidates.into_iter().flatten().find(|earlier| {
            earlier.kind == op.kind
                && earlier.operands.len() == op.operands.len()
                && earlier.operands.iter().zip(&op.operands).all(|(a, b)| same(a, b))
        });
        if let Some(earlier) = earlier {
            first.insert(op.result, earlier.result);
            again.push(id);
        }
    }
    again
}

/// Seconds at peak rates of the products that a device executes, on average: devices that wait for
/// others, in their stage of a pipeline or with fewer terms of a mask, execute less.
fn executed_s(plan: &ExpandedPlan<'_>) -> f64 {
    let program = &plan.program;
    let seconds = plan.steps.iter().map(|step| {
        let StepKind::Local(op) = &step.kind else { return 0.0 };
        let op = &program.ops[*op];
        if !op.is_product() {
            return 0.0;
        }
        let operands: Vec<&Sharding> = step.operands.iter().map(|of| &of.sharding).collect();
        let result = &step.result.sharding;
        let busiest_s = local::work(program, op, &operands, result).flops_s;
        let average_s = busiest_s / local::imbalance(program, op, &operands, result);
        program.trip_count_on_average(op) * average_s
    });
    total(seconds)
}

impl Metrics {
    /// What a plan's summary has of them.
    fn line(&self) -> String {
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let tokens = self.tokens.as_ref().map_or_else(String::new, |tokens| {
            let price = tokens
                .price_of_million
                .map(price)
                .map_or_else(String::new, |price| format!("; a million cost {price}"));
            format!(
                "; {} tokens a second, {} a chip{price}",
                units::count(tokens.per_s),
                units::count(tokens.per_s_and_chip)
            )
        });
        format!("MFU {}, HFU {}{tokens}", percent(self.mfu), percent(self.hfu))
    }

    /// The figures in lines of text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let mut lines = vec![format!(
            "a step takes {}; bound by {}; MFU {}, HFU {}",
            units::seconds(self.step_s),
            self.bound_by,
            percent(self.mfu),
            percent(self.hfu)
        )];
        lines.extend(self.tokens.iter().map(Tokens::line));
        lines
    }
}

impl Tokens {
    fn line(&self) -> String {
        let price = self.price_of_million.map_or_else(String::new, |of_million| {
            format!("; a million tokens cost {}", price(of_million))
        });
        format!(
            "tokens: {} a step, {} a second, {} a second and chip{price}",
            units::count(self.count),
            units::count(self.per_s),
            units::count(self.per_s_and_chip)
        )
    }
}

/// The head of the column of [`price`]s in tables.
pub(crate) const PRICE_HEAD: &str = "per Mtok";
/// What it says.
pub(crate) const PRICE_LEGEND: &str = "per Mtok: the price of a million tokens";

/// A price with two decimals, below one with four, or with as many as three digits need.
pub(crate) fn price(of_million: f64) -> String {
    let decimals = match of_million {
        1.0.. => 2,
        0.01.. => 4,
        _ => (2.0 - of_million.log10().floor()).clamp(4.0, 15.0) as usize,
    };
    format!("{of_million:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::price;

    #[test]
    fn prices_have_three_digits() {
        let prices = [12.345, 0.84431, 0.01234, 0.000_562_4, 5.6e-7];
        let written = ["12.35", "0.8443", "0.0123", "0.000562", "0.000000560"];
        assert_eq!(prices.map(price), written);
    }
}
