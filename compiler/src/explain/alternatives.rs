//! Alternatives to a collective with their costs: edits of brackets near it; each edited program is
//! planned.
//!
//! The places are the uses of the value, the left side of its statement, and the declarations and
//! outputs that the collective connects. A place without brackets gets those of the nearest other
//! shardings; a declaration or output with brackets is left open (`_?`), and the search chooses its
//! sharding; a declaration is also tried without the collective's axes. Trying every sharding would
//! be a search of its own; a few neighbours are what an author would try. A gradient, whose
//! statement is derived and has no text, has the places of the value that it is the gradient of.
//!
//! What the search chose for an open place is planned once more as brackets: the plan of a program
//! with these brackets can differ, since an open declaration leaves gradients and state open, too.
//! So every price is that of the edit as it is printed.

use std::sync::atomic::{AtomicUsize, Ordering};

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use shardwise_ir::Span;
use shardwise_ir::ids::{AxisId, OpId, ValueId};
use shardwise_ir::plan::Materialization;
use shardwise_ir::print::Printer;
use shardwise_ir::program::Phase;
use shardwise_ir::sharding::{Reduction, Sharding};
use shardwise_passes::op_layouts;

use super::Progress;
use super::conflict::chosen;
use super::sites::{Place, Site, edited, sites};
use crate::source::place::Lines;
use crate::use_def::{UseDef, User, moves_data};
use crate::{Options, Planned, driver};

/// Neighbours tried at one place.
const NEIGHBOURS: usize = 6;
/// Readers whose operands are tried.
const READERS: usize = 2;
/// Alternatives that are reported.
const MOST_REPORTED: usize = 6;
/// The share of a time by which two sums of the same steps may differ.
const ROUNDING: f64 = 1e-9;

/// A program that differs from the explained one by an edit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// The line of the edit.
    pub line: usize,
    /// The kind of place that is edited: `read`, `keep`, `declare` or `leave as`; the text prints
    /// `reshard here` for the first two.
    pub what: String,
    /// What to type.
    pub edit: String,
    /// The change of the objective, in seconds.
    pub change_s: f64,
    /// The change of the peak memory of a device, in bytes.
    pub peak_change_bytes: f64,
    /// Whether its plan communicates the value over none of the collective's axes.
    pub removes_it: bool,
}

/// Other brackets at a place.
type Edit<'s> = (&'s Site, String);

/// The alternatives to each of some collectives, cheapest first. Every edit is planned once, even
/// if it concerns several collectives.
pub(super) fn alternatives(
    planned: &Planned,
    source: &str,
    options: &Options,
    steps: &[usize],
    progress: Progress<'_>,
) -> Vec<Vec<Alternative>> {
    tried(planned, source, options, steps, progress, |ideas| ideas.all())
}

/// Edits of declarations and outputs near some collectives that make the plan cheaper, the
/// cheapest plans first.
pub(super) fn helpful(
    planned: &Planned,
    source: &str,
    options: &Options,
    steps: &[usize],
    progress: Progress<'_>,
) -> Vec<Alternative> {
    let tried = tried(planned, source, options, steps, progress, |ideas| ideas.declared());
    let mut found: Vec<Alternative> = Vec::new();
    for one in tried.into_iter().flatten().filter(|one| one.change_s < 0.0) {
        if !found.iter().any(|other| other.line == one.line && other.edit == one.edit) {
            found.push(one);
        }
    }
    found.sort_by(|a, b| a.change_s.total_cmp(&b.change_s));
    found
}

/// The edits that `of` finds near each of some collectives, planned.
fn tried<'a>(
    planned: &'a Planned,
    source: &'a str,
    options: &'a Options,
    steps: &[usize],
    progress: Progress<'a>,
    of: impl for<'i> Fn(&Ideas<'i>) -> Vec<Edit<'i>>,
) -> Vec<Vec<Alternative>> {
    let sites = sites(source);
    let use_def = UseDef::of(planned);
    let ideas: Vec<Vec<Edit<'_>>> =
        steps.iter().map(|&step| of(&Ideas { planned, sites: &sites, use_def, step })).collect();
    let mut trials =
        Trials { planned, source, options, progress, plans: IndexMap::with_hasher(FxBuildHasher) };
    trials.plan(ideas.iter().flatten());
    let ideas: Vec<Vec<Edit<'_>>> = ideas.iter().map(|ideas| trials.with_chosen(ideas)).collect();
    trials.plan(ideas.iter().flatten());
    steps.iter().zip(&ideas).map(|(&step, ideas)| trials.reported(step, ideas)).collect()
}

/// Edited programs with their plans: every edit is planned once, even if it concerns several
/// collectives.
struct Trials<'a> {
    planned: &'a Planned,
    source: &'a str,
    options: &'a Options,
    progress: Progress<'a>,
    plans: IndexMap<(Span, String), Option<Planned>, FxBuildHasher>,
}

impl Trials<'_> {
    /// Plans the edits that have no plan yet.
    fn plan<'s>(&mut self, edits: impl Iterator<Item = &'s Edit<'s>>) {
        let new = edits.filter(|edit| !self.plans.contains_key(&key(edit)));
        let new: IndexMap<(Span, String), &Edit<'_>, FxBuildHasher> =
            new.map(|edit| (key(edit), edit)).collect();
        let (done, all) = (AtomicUsize::new(self.plans.len()), self.plans.len() + new.len());
        let at_once = rayon::current_num_threads();
        let plan = |(key, (site, brackets)): ((Span, String), &Edit<'_>)| {
            let text = edited(self.source, [(*site, brackets.as_str())]);
            let left = all.saturating_sub(done.load(Ordering::Relaxed)).max(1);
            let options = self.options.part(at_once as f64 / left.max(at_once) as f64);
            let in_time = !options.is_due();
            let other = in_time.then(|| driver::plan(&self.planned.name, &text, &options).ok());
            (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            let other = other.flatten();
            (key, other)
        };
        let new: Vec<_> = new.into_iter().collect();
        let planned: Vec<_> = new.into_par_iter().map(plan).collect();
        self.plans.extend(planned);
    }

    /// The edits, and before each that leaves a place open what the search chose there.
    fn with_chosen<'s>(&self, edits: &[Edit<'s>]) -> Vec<Edit<'s>> {
        let both = |edit: &Edit<'s>| {
            let chosen = self
                .plans
                .get(&key(edit))
                .and_then(Option::as_ref)
                .filter(|_| edit.0.open.as_ref() == Some(&edit.1))
                .and_then(|other| chosen(other, edit.0));
            chosen.map(|brackets| (edit.0, brackets)).into_iter().chain([edit.clone()])
        };
        edits.iter().flat_map(both).collect()
    }

    /// The cheapest distinct ones, and the cheapest that removes the collective. What does not fit
    /// into the memory has no plan.
    fn reported(&self, step: usize, edits: &[Edit<'_>]) -> Vec<Alternative> {
        let mut seen = vec![self.planned];
        let mut found = Vec::new();
        for edit in edits {
            let Some(Some(other)) = self.plans.get(&key(edit)) else { continue };
            if !seen.iter().any(|before| before.plan.steps == other.plan.steps) {
                seen.push(other);
                found.push(self.alternative(step, edit, other));
            }
        }
        found.sort_by(|a, b| a.change_s.total_cmp(&b.change_s));
        let reported: IndexSet<usize> = (0..found.len())
            .take(MOST_REPORTED)
            .chain(found.iter().position(|alternative| alternative.removes_it))
            .collect();
        reported.into_iter().map(|number| found[number].clone()).collect()
    }

    fn alternative(
        &self,
        step: usize,
        (site, brackets): &Edit<'_>,
        other: &Planned,
    ) -> Alternative {
        let planned = self.planned;
        let now_s = planned.objective_s(&planned.report);
        let change_s = other.objective_s(&other.report) - now_s;
        let what = match site.place {
            Place::Declaration(_) => "declare",
            Place::LeftSide => "keep",
            Place::Use => "read",
            Place::Output => "leave as",
        };
        Alternative {
            line: Lines::new(self.source).place(site.brackets.start).line,
            what: what.to_owned(),
            edit: site.with(self.source, brackets),
            change_s: if change_s.abs() > ROUNDING * now_s { change_s } else { 0.0 },
            peak_change_bytes: other.report.memory.peak_bytes - planned.report.memory.peak_bytes,
            removes_it: !moves_on(other, planned, step),
        }
    }
}

fn key((site, brackets): &Edit<'_>) -> (Span, String) {
    (site.brackets, brackets.clone())
}

/// Whether a plan still communicates the value over one of the collective's axes. It may have these
/// in parts.
fn moves_on(other: &Planned, planned: &Planned, step: usize) -> bool {
    let named = |of: &Planned, axes: &[AxisId]| -> Vec<String> {
        axes.iter().map(|&axis| of.plan.program.mesh.link_name(axis).to_owned()).collect()
    };
    let axes = named(planned, &planned.report.steps[step].axes);
    let moved = planned.plan.steps[step].result.value;
    let name = &planned.plan.program.values[moved].name;
    other.plan.steps.iter().zip(&other.report.steps).any(|(step, cost)| {
        let same_value = other.plan.program.values[step.result.value].name == *name;
        same_value
            && moves_data(step, cost)
            && named(other, &cost.axes).iter().any(|axis| axes.contains(axis))
    })
}

/// The edits to try.
struct Ideas<'a> {
    planned: &'a Planned,
    sites: &'a [Site],
    use_def: UseDef<'a>,
    step: usize,
}

impl<'a> Ideas<'a> {
    fn all(&self) -> Vec<Edit<'a>> {
        let program = &self.planned.plan.program;
        let moved = &self.planned.plan.steps[self.step];
        let mut ideas = self.left_sides(moved.result.value);
        for (number, op) in self.readers() {
            ideas.extend(self.uses(number, op, &moved.operands[0]));
            ideas.extend(self.left_sides(program.ops[op].result));
        }
        for forward in self.forwards(&self.near()) {
            ideas.extend(self.left_sides(forward));
        }
        ideas.extend(self.unpinned_uses());
        ideas.extend(self.declared());
        ideas
    }

    /// Edits of declarations, outputs and written left sides.
    fn declared(&self) -> Vec<Edit<'a>> {
        let near = self.near();
        let mut concerned = [self.forwards(&near), near].concat();
        concerned.sort_unstable();
        concerned.dedup();
        let values = &self.planned.plan.program.values;
        let names: Vec<&str> = concerned.iter().map(|&value| values[value].name.as_str()).collect();
        let unsplit = concerned.iter().filter_map(|&value| self.unsplit(value));
        self.opened(&names).into_iter().chain(unsplit).collect()
    }

    /// The statements that read the value, with their steps.
    fn readers(&self) -> Vec<(usize, OpId)> {
        let statement = |user| match user {
            User::Statement(number, op) => Some((number, op)),
            User::DeclaredSharding(_) | User::Output(_) => None,
        };
        self.use_def.users(self.step).into_iter().take(READERS).filter_map(statement).collect()
    }

    /// The value, what its statement reads, and what its readers read and produce.
    fn near(&self) -> Vec<ValueId> {
        let program = &self.planned.plan.program;
        let moved = self.planned.plan.steps[self.step].result.value;
        let mut near = vec![moved];
        for (_, op) in self.readers() {
            near.extend(program.ops[op].operands.iter().map(|operand| operand.value));
            near.push(program.ops[op].result);
        }
        if let Some(op) = self.use_def.operation(moved) {
            near.extend(program.ops[op].operands.iter().map(|operand| operand.value));
        }
        near
    }

    /// The values that some of these are the gradients of.
    fn forwards(&self, of: &[ValueId]) -> Vec<ValueId> {
        let forwards: IndexSet<ValueId> =
            of.iter().filter_map(|&value| self.forward(value)).collect();
        forwards.into_iter().collect()
    }

    /// The value that a derived one is the gradient of (or a part of it), or updates: a derived
    /// statement has no text, but that value has.
    fn forward(&self, value: ValueId) -> Option<ValueId> {
        let program = &self.planned.plan.program;
        self.use_def.operation(value).filter(|&op| program.ops[op].phase == Phase::Backward)?;
        let name = program.values[value].name.as_str();
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let whole = base.strip_suffix('.').filter(|_| base.len() < name.len()).unwrap_or(name);
        let of = whole.strip_suffix(".new").or_else(|| whole.strip_prefix('d'))?;
        program.values.position(|other| other.name == of)
    }

    /// A declaration without the axes that the collective runs over.
    fn unsplit(&self, value: ValueId) -> Option<Edit<'a>> {
        let program = &self.planned.plan.program;
        let of = &program.values[value];
        let site = self
            .sites
            .iter()
            .find(|site| matches!(site.place, Place::Declaration(_)) && site.value == of.name)?;
        let axes = &self.planned.report.steps[self.step].axes;
        let mut sharding = of.declared_sharding.as_ref()?.exact()?;
        sharding
            .dims
            .iter_mut()
            .for_each(|split| split.retain(|axis| !axes.contains(&axis.axis())));
        Some((site, Printer::new(program).sharding(&of.dims, &sharding)))
    }

    /// Declarations, outputs and written left sides of these values, left open.
    fn opened(&self, names: &[&str]) -> Vec<Edit<'a>> {
        let fitting = self
            .sites
            .iter()
            .filter(|site| site.place != Place::Use && names.contains(&site.value.as_str()));
        fitting.filter_map(|site| Some((site, site.open.clone()?))).collect()
    }

    /// Brackets at the uses of the value's readers, left open.
    fn unpinned_uses(&self) -> Vec<Edit<'a>> {
        let program = &self.planned.plan.program;
        let statements: Vec<Span> =
            self.readers().into_iter().map(|(_, op)| program.ops[op].span).collect();
        let uses = self
            .sites
            .iter()
            .filter(|site| site.place == Place::Use && statements.contains(&site.statement));
        uses.filter_map(|site| Some((site, site.open.clone()?))).collect()
    }

    /// Other shardings in which a reader could read the value.
    fn uses(&self, number: usize, op: OpId, from: &Materialization) -> Vec<Edit<'a>> {
        let program = &self.planned.plan.program;
        let (op, read) = (&program.ops[op], &self.planned.plan.steps[number]);
        let mut ideas = Vec::new();
        for (position, operand) in
            op.operands.iter().enumerate().filter(|(_, operand)| operand.value == from.value)
        {
            let Some(site) = self
                .sites
                .iter()
                .find(|site| site.place == Place::Use && site.span == operand.span)
            else {
                continue;
            };
            let pending = Some(from.sharding.unreduced.kind())
                .filter(|_| !from.sharding.unreduced.is_empty());
            let partial: Vec<Option<Reduction>> = op
                .operands
                .iter()
                .map(|other| pending.filter(|_| other.value == from.value))
                .collect();
            let layouts = op_layouts::layouts(program, op, &partial);
            let now = &read.operands[position].sharding;
            let needs =
                layouts.into_iter().filter_map(|layout| layout.operands.get(position).cloned());
            ideas.extend(
                self.neighbours(needs, &[now, &from.sharding], now, from.value)
                    .into_iter()
                    .map(|text| (site, text)),
            );
        }
        ideas
    }

    /// Other shardings for a result without brackets.
    fn left_sides(&self, value: ValueId) -> Vec<Edit<'a>> {
        let program = &self.planned.plan.program;
        let Some(op) = self.use_def.operation(value).map(|op| &program.ops[op]) else {
            return Vec::new();
        };
        let here = |site: &&Site| {
            site.place == Place::LeftSide
                && site.statement == op.span
                && site.value == program.values[value].name
        };
        let Some(site) = self.sites.iter().find(here).filter(|site| site.open.is_none()) else {
            return Vec::new();
        };
        let Some(now) = self
            .planned
            .plan
            .steps
            .iter()
            .rev()
            .find(|step| step.result.value == value)
            .map(|step| &step.result.sharding)
        else {
            return Vec::new();
        };
        let partial = vec![None; op.operands.len()];
        let reduced = op_layouts::layouts(program, op, &partial)
            .into_iter()
            .map(|layout| layout.result)
            .filter(|gives| gives.unreduced.is_empty());
        let replicated = Sharding::replicated(now.dims.len());
        let mut texts = self.neighbours(reduced, &[now], now, value);
        // Replicated first, as an author would try it, however far it is.
        let replicated = self
            .neighbours([replicated].into_iter(), &[now], now, value)
            .into_iter()
            .filter(|text| !texts.contains(text))
            .collect::<Vec<_>>();
        texts.extend(replicated);
        texts.into_iter().map(|text| (site, text)).collect()
    }

    /// The shardings that differ least from the current one, as brackets.
    fn neighbours(
        &self,
        of: impl Iterator<Item = Sharding>,
        near: &[&Sharding],
        now: &Sharding,
        value: ValueId,
    ) -> Vec<String> {
        let program = &self.planned.plan.program;
        let distinct: IndexSet<Sharding> = of.filter(|sharding| sharding != now).collect();
        let mut nearest: Vec<(usize, Sharding)> = distinct
            .into_iter()
            .map(|sharding| {
                (near.iter().map(|other| differences(&sharding, other)).sum(), sharding)
            })
            .collect();
        nearest.sort_by_key(|(distance, _)| *distance);
        let value = &program.values[value];
        nearest
            .iter()
            .take(NEIGHBOURS)
            .map(|(_, sharding)| Printer::new(program).sharding(&value.dims, sharding))
            .collect()
    }
}

/// The number of dimensions that two shardings split differently; pending sums count as one more.
fn differences(a: &Sharding, b: &Sharding) -> usize {
    let dims = a.dims.iter().zip(&b.dims).filter(|(a, b)| a != b).count();
    dims + usize::from(a.unreduced != b.unreduced)
}
