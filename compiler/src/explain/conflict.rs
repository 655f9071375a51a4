//! Programs without a plan: which brackets contradict each other, and what does not fit into
//! memory.
//!
//! A smallest conflict is found by halves (U. Junker, AAAI 2004): brackets that can all be left
//! open without a plan appearing have no part in it. Trying brackets one after another would find
//! the same in more plans. Feasibility is asked of the book's rules, which take any layout that
//! fits when the brackets leave them no choice, and find one whenever there is one.

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
pub struct NoRoom {
    /// What the smallest plan found needs.
    pub message: String,
    /// What is held at its peak.
    pub held: String,
    /// Declarations with which there is a plan that fits.
    pub remedies: Vec<Remedy>,
}

/// An edit of one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remedy {
    /// The line.
    pub line: usize,
    /// What stands there.
    pub written: String,
    /// What to type instead.
    pub edit: String,
    /// The whole plan's time with it, in seconds, if there is a plan.
    pub serial_s: Option<f64>,
}

/// The conflict that an error comes from, if brackets are to blame.
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
            let plan = question.planned(&[&others[..], &[site]].concat());
            remedy(source, site, site.open.as_deref().unwrap_or_default(), plan.as_ref())
        });
        each.collect()
    });
    let message =
        findings.reports.first().map(|report| report.diag.message.clone()).unwrap_or_default();
    Some(Conflict { message, sets: remedies.collect() })
}

/// Whether there is a plan when some brackets are left open.
struct Question<'a> {
    name: &'a str,
    source: &'a str,
    options: &'a Options,
}

impl Question<'_> {
    fn planned(&self, open: &[&Site]) -> Option<Planned> {
        let edits = open.iter().map(|&site| (site, site.open.as_deref().unwrap_or_default()));
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

    /// Those of `among` that, kept together with `kept`, leave no plan. `grown`: `kept` has just
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

/// What the error knows, and which declaration, left to the search, would make it fit.
pub(super) fn no_room(name: &str, source: &str, options: &Options, findings: &Findings) -> NoRoom {
    let diag = findings.reports.first().map(|report| &report.diag);
    let declared = sites(source)
        .into_iter()
        .filter(|site| matches!(site.place, Place::Declaration(_) | Place::Output));
    let remedies = declared.filter_map(|site| {
        let open = site
            .open
            .clone()
            .filter(|open| source.get(site.brackets.start..site.brackets.end) != Some(open))?;
        let plan = driver::plan(name, &edited(source, [(&site, open.as_str())]), options).ok()?;
        let chosen = chosen(&plan, &site).unwrap_or(open);
        Some(remedy(source, &site, &chosen, Some(&plan)))
    });
    NoRoom {
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

/// Where a plan has a value that was left open at a site, as brackets: where it is declared, or
/// where it ends up. A use that is left open stays so.
pub(super) fn chosen(planned: &Planned, site: &Site) -> Option<String> {
    if site.place == Place::Use {
        return None;
    }
    let program = &planned.plan.program;
    let (id, value) =
        program.values.iter_enumerated().find(|(_, value)| value.name == site.value)?;
    let printer = Printer::new(program);
    if value.producer.is_none() && site.place != Place::Output {
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
