//! Explains why a program has no plan: which brackets contradict each other, or what does not fit
//! into memory.
//!
//! A minimal conflict is found by bisection (`QuickXplain`: U. Junker, AAAI 2004): brackets that
//! can all be left open while there is still no plan do not belong to it. Trying brackets one after
//! another would find the same with more plans. Feasibility is tested with the book's rules, which
//! find a layout whenever there is one, since they use any that fits when the brackets leave no
//! choice.

use serde::Serialize;
use shardwise_ir::print::Printer;

use super::sites::{Place, Site, edited, sites};
use crate::driver;
use crate::source::place::Lines;
use crate::{Findings, Options, Planned, Strategy};

/// Brackets that contradict each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conflict {
    /// The first error.
    pub message: String,
    /// Sets of brackets that cannot all be kept, none of which could be smaller; in the order of
    /// the text, each with the text that leaves it open. For a plan one of each set has to go;
    /// `serial_s` is the plan's for this one and the first of each other set.
    pub sets: Vec<Vec<Remedy>>,
}

/// Why no plan fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverCapacity {
    /// The memory demand of the smallest plan found.
    pub message: String,
    /// The values that are live at its peak.
    pub held: String,
    /// Edits of declarations with which a plan fits.
    pub remedies: Vec<Remedy>,
}

/// An edit of one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remedy {
    /// The line.
    pub line: usize,
    /// The text there.
    pub written: String,
    /// What to type instead.
    pub edit: String,
    /// The time of the plan with it, in seconds, if there is a plan that fits into the memory.
    pub serial_s: Option<f64>,
}

/// The conflict that causes an error, if brackets cause it.
pub(super) fn conflict(
    name: &str,
    source: &str,
    options: &Options,
    findings: &Findings,
) -> Option<Conflict> {
    let sites: Vec<Site> = sites(source).into_iter().filter(|site| site.open.is_some()).collect();
    let question = Question {
        name,
        source,
        options: &Options {
            strategy: Strategy::Textbook,
            memory: Some(f64::INFINITY),
            ..options.clone()
        },
    };
    let all: Vec<&Site> = sites.iter().collect();
    question.planned(&all)?;
    let sets = question.conflicts(&all);
    let remedies = sets.iter().enumerate().map(|(number, set)| {
        let others = sets
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != number)
            .filter_map(|(_, set)| set.first().copied());
        let others: Vec<&Site> = others.collect();
        let each = set.iter().map(|&site| {
            let edits = opened(others.iter().chain([&site]).copied());
            let plan = driver::plan(name, &edited(source, edits), options).ok();
            remedy(source, site, site.open.as_deref().unwrap_or_default(), plan.as_ref())
        });
        each.collect()
    });
    let message =
        findings.reports.first().map(|report| report.diag.message.clone()).unwrap_or_default();
    Some(Conflict { message, sets: remedies.collect() })
}

/// The edits that leave some brackets open.
fn opened<'s>(open: impl Iterator<Item = &'s Site>) -> impl Iterator<Item = (&'s Site, &'s str)> {
    open.map(|site| (site, site.open.as_deref().unwrap_or_default()))
}

/// Whether there is a plan when some brackets are left open.
struct Question<'a> {
    name: &'a str,
    source: &'a str,
    options: &'a Options,
}

impl Question<'_> {
    fn planned(&self, open: &[&Site]) -> Option<Planned> {
        let edits = opened(open.iter().copied());
        driver::plan(self.name, &edited(self.source, edits), self.options).ok()
    }

    /// Sets of brackets that cannot all be kept, each as small as it can be, until there is a plan
    /// without them.
    fn conflicts<'s>(&self, all: &[&'s Site]) -> Vec<Vec<&'s Site>> {
        let (mut sets, mut left, mut gone): (Vec<Vec<&Site>>, Vec<&Site>, Vec<&Site>) =
            (Vec::new(), all.to_vec(), Vec::new());
        while self.planned(&gone).is_none() {
            let mut set = self.blamed(all, &[], &left, false);
            set.sort_by_key(|site| site.brackets);
            left.retain(|site| !set.contains(site));
            gone.extend(&set);
            sets.push(set);
        }
        sets
    }

    /// The subset of `among` that, together with `kept`, has no plan. `grown`: `kept` has just
    /// become larger, and may be enough.
    fn blamed<'s>(
        &self,
        all: &[&'s Site],
        kept: &[&'s Site],
        among: &[&'s Site],
        grown: bool,
    ) -> Vec<&'s Site> {
        let open: Vec<&Site> = all.iter().copied().filter(|site| !kept.contains(site)).collect();
        if grown && self.planned(&open).is_none() {
            return Vec::new();
        }
        if let [one] = among {
            return vec![*one];
        }
        let (first, second) = among.split_at(among.len() / 2);
        let of_second = self.blamed(all, &[kept, first].concat(), second, !first.is_empty());
        let of_first = self.blamed(all, &[kept, &of_second].concat(), first, !of_second.is_empty());
        [of_first, of_second].concat()
    }
}

/// The facts of the error, and the declarations that would make a plan fit if they were left to the
/// search.
pub(super) fn over_capacity(
    name: &str,
    source: &str,
    options: &Options,
    findings: &Findings,
) -> OverCapacity {
    let diag = findings.reports.first().map(|report| &report.diag);
    let declared = sites(source)
        .into_iter()
        .filter(|site| matches!(site.place, Place::Declaration(_) | Place::Output));
    let remedies = declared.filter_map(|site| {
        let open = site
            .open
            .clone()
            .filter(|open| source.get(site.brackets.start..site.brackets.end) != Some(open))?;
        let plan =
            |brackets: &str| driver::plan(name, &edited(source, [(&site, brackets)]), options).ok();
        let opened = plan(&open)?;
        // An open declaration leaves gradients open, too: as brackets, it may not fit.
        let written = chosen(&opened, &site).and_then(|chosen| Some((plan(&chosen)?, chosen)));
        let (plan, brackets) = written.unwrap_or((opened, open));
        Some(remedy(source, &site, &brackets, Some(&plan)))
    });
    OverCapacity {
        message: diag.map(|diag| diag.message.clone()).unwrap_or_default(),
        held: diag.and_then(|diag| diag.help.clone()).unwrap_or_default(),
        remedies: remedies.collect(),
    }
}

fn remedy(source: &str, site: &Site, brackets: &str, plan: Option<&Planned>) -> Remedy {
    let written = &source[site.brackets.start..site.brackets.end];
    Remedy {
        line: Lines::new(source).place(site.brackets.start).line,
        written: site.with(source, written),
        edit: site.with(source, brackets),
        serial_s: plan.map(|plan| plan.report.serial_s),
    }
}

/// The sharding of a value that was left open at a site, as brackets: the declared one, or that of
/// the result. A use that is left open stays open.
pub(super) fn chosen(planned: &Planned, site: &Site) -> Option<String> {
    if site.place == Place::Use {
        return None;
    }
    let program = &planned.plan.program;
    let (id, value) =
        program.values.iter_enumerated().find(|(_, value)| value.name == site.value)?;
    let printer = Printer::new(program);
    if value.is_declared() && site.place != Place::Output {
        return value.declared_sharding.as_ref().map(|pin| printer.pin(&value.dims, pin));
    }
    let ends = planned
        .plan
        .steps
        .iter()
        .rev()
        .find(|step| step.result.value == id && step.result.sharding.unreduced.is_empty());
    ends.map(|step| printer.sharding(&value.dims, &step.result.sharding))
}
