//! What a lint looks at: the tree, the program, its plans (made when first asked for), and what an
//! edit would save.
//!
//! Two plans tell two things: the textbook's shows what the author's brackets cost if the rules are
//! followed, the searched one what is possible. Searches are bounded by counts and never by the
//! clock, so that findings are the same on every machine; a program too large for them is judged by
//! the textbook's plans alone, before and after an edit.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;

use shardwise_grammar::ast::{Definition, File, Role, Statement, TensorDecl};
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{CollectiveKind, Mode, Op, Program};
use shardwise_ir::sharding::AxisRef;
use shardwise_ir::{Diag, Span};
use shardwise_passes::cost::report::{Report, StepCost, folded};
use shardwise_passes::reshard::tables::Tables;

use super::{Lint, Settings};
use crate::driver;
use crate::lint::rules::pins::Pinned;
use crate::lint::rules::walk;
use crate::options::{Options, Refinement, Strategy};
use crate::planned::budget;

/// A plan and what it costs; composites are steps of their own.
#[derive(Clone, Debug)]
pub(crate) struct Priced {
    pub(crate) plan: Plan,
    pub(crate) report: Report,
}

impl Priced {
    pub(crate) fn new(plan: Plan, refinement: Refinement) -> Self {
        Self { report: folded(&plan, refinement), plan }
    }

    /// The asserts that it breaks.
    pub(super) fn broken(&self) -> Vec<Diag> {
        budget::broken(&self.plan, &self.report)
    }

    /// The collectives that move something, with their prices.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (usize, &Step, &StepCost, &CollectiveKind)> {
        self.plan.steps.iter().zip(&self.report.steps).enumerate().filter_map(
            |(number, (step, cost))| match &step.kind {
                StepKind::Collective(collective, _) if collective.kind != CollectiveKind::Slice => {
                    Some((number, step, cost, &collective.kind))
                }
                _ => None,
            },
        )
    }

    /// Bytes of all collectives.
    pub(crate) fn moved_bytes(&self) -> f64 {
        self.moves().map(|(_, _, cost, _)| cost.bytes).sum()
    }

    /// The local steps, with the operations that they are.
    pub(crate) fn work(&self) -> impl Iterator<Item = (&Step, &StepCost, OpId)> {
        self.plan.steps.iter().zip(&self.report.steps).filter_map(|(step, cost)| match step.kind {
            StepKind::Local(op) => Some((step, cost, op)),
            StepKind::Collective(..) => None,
        })
    }

    /// The steps that read a materialisation after step `from`.
    pub(crate) fn readers<'p>(
        &'p self,
        of: &'p Materialization,
        from: usize,
    ) -> impl Iterator<Item = (usize, &'p Step)> {
        let later = self.plan.steps.iter().enumerate().skip(from + 1);
        later.filter(move |(_, step)| step.operands.contains(of))
    }
}

/// What an edit saves.
#[derive(Clone, Debug)]
pub(crate) struct Saving {
    /// Seconds of all steps, before less after.
    pub(crate) seconds: f64,
    /// Bytes of all collectives, before less after; 0 if there are more.
    pub(crate) bytes: f64,
    /// The edited program's plan.
    pub(crate) after: Priced,
}

/// Statements planned anew for all edits together: a second or two.
const SEARCHED_TRIALS: usize = 8_000;
const TEXTBOOK_TRIALS: usize = 200_000;

/// One program under judgement.
pub(crate) struct LintContext<'a> {
    pub(crate) source: &'a str,
    pub(crate) file: &'a File,
    pub(crate) program: &'a Program,
    /// The textbook's plan; of an explicit program, the plan that it is.
    pub(crate) textbook: Priced,
    options: &'a Options,
    settings: &'a Settings,
    best: OnceCell<Option<Priced>>,
    /// The axes that brackets name.
    named: BTreeSet<AxisRef>,
    /// Edits that may still be planned.
    trials: Cell<usize>,
    untried: Cell<usize>,
    /// What brackets cost, once somebody asked.
    pub(crate) pins: OnceCell<Vec<Pinned>>,
}

/// Programs of more operations are judged by the textbook alone: on one or two axes, on three, on
/// more.
const SEARCHED: [usize; 5] = [400, 400, 400, 40, 8];

impl<'a> LintContext<'a> {
    pub(super) fn new(
        source: &'a str,
        file: &'a File,
        program: &'a Program,
        textbook: Priced,
        options: &'a Options,
        settings: &'a Settings,
    ) -> Self {
        let (best, pins, named) = (OnceCell::new(), OnceCell::new(), walk::named(program));
        let context = Self {
            source,
            file,
            program,
            textbook,
            options,
            settings,
            best,
            named,
            trials: Cell::new(0),
            untried: Cell::new(0),
            pins,
        };
        let work = if context.is_searched() { SEARCHED_TRIALS } else { TEXTBOOK_TRIALS };
        context.trials.set(work / program.ops.len().max(1));
        context
    }

    /// Whether any bracket names `axis`, or stages lie along it.
    pub(crate) fn names(&self, axis: AxisRef) -> bool {
        let staged = || {
            self.program
                .repeats
                .indices()
                .any(|block| self.program.is_staged_along(Some(block), axis.axis()))
        };
        self.named.contains(&axis) || staged()
    }

    /// How many edits were not tried since the program is too large to try more.
    pub(super) fn untried(&self) -> usize {
        self.untried.get()
    }

    pub(crate) fn refinement(&self) -> Refinement {
        self.options.refinement
    }

    /// Bytes that a device has.
    pub(crate) fn capacity(&self) -> Option<f64> {
        self.options.capacity(self.program)
    }

    /// A number of `lint`, as set.
    pub(crate) fn parameter(&self, lint: &Lint, name: &str) -> f64 {
        self.settings.parameter(lint, name)
    }

    /// Whether nothing is left to choose.
    pub(crate) fn is_explicit(&self) -> bool {
        self.program.mode == Mode::Explicit
    }

    /// The cheapest plan that is looked for; of an explicit program, the plan that it is.
    pub(crate) fn best(&self) -> &Priced {
        self.best
            .get_or_init(|| self.is_searched().then(|| self.plan(self.program)).flatten())
            .as_ref()
            .unwrap_or(&self.textbook)
    }

    fn is_searched(&self) -> bool {
        let axes = self.program.mesh.axes.iter().filter(|axis| axis.size > 1).count();
        !self.is_explicit() && self.program.ops.len() <= SEARCHED[axes.min(SEARCHED.len() - 1)]
    }

    /// The plan of an edited program, made as that of this one.
    fn plan(&self, program: &Program) -> Option<Priced> {
        let strategy = if self.is_searched() { Strategy::Search } else { Strategy::Textbook };
        let options = Options {
            strategy,
            memory: Some(f64::INFINITY),
            timeout: None,
            ..self.options.clone()
        };
        driver::plan_of(program, &options).ok().map(|plan| Priced::new(plan, self.refinement()))
    }

    /// What `edit` would save; nothing if the edited program cannot be planned, or too many were.
    pub(crate) fn saving(&self, edit: impl FnOnce(&mut Program)) -> Option<Saving> {
        let Some(left) = self.trials.get().checked_sub(1) else {
            self.untried.set(self.untried.get() + 1);
            return None;
        };
        self.trials.set(left);
        let mut edited = self.program.clone();
        edit(&mut edited);
        let (before, after) = (self.best(), self.plan(&edited)?);
        let seconds = before.report.serial_s - after.report.serial_s;
        Some(Saving {
            seconds,
            bytes: (before.moved_bytes() - after.moved_bytes()).max(0.0),
            after,
        })
    }

    /// The shardings of the program's values and the ways between them; nothing where they are too
    /// many.
    pub(crate) fn tables(&self) -> Option<Tables<'_>> {
        Tables::too_large(self.program)
            .is_none()
            .then(|| Tables::new(self.program, self.refinement()))
    }

    /// The statement that defines a value.
    pub(crate) fn definition(&self, value: ValueId) -> Option<(&'a Definition, Span)> {
        let span = self.program.values[value].span;
        self.file.statements.iter().find_map(|statement| match &statement.node {
            Statement::Define(definition) if definition.target.name.span == span => {
                Some((definition, statement.span))
            }
            _ => None,
        })
    }

    /// Where a value is declared.
    pub(crate) fn declaration(&self, value: ValueId) -> Option<(Role, &'a TensorDecl)> {
        let span = self.program.values[value].span;
        self.file.statements.iter().find_map(|statement| match &statement.node {
            Statement::Declare(role, tensors) => {
                tensors.iter().find(|tensor| tensor.span == span).map(|tensor| (*role, tensor))
            }
            _ => None,
        })
    }

    /// Whether a value leaves the program.
    pub(crate) fn is_output(&self, value: ValueId) -> bool {
        self.program.outputs.iter().any(|output| output.value == value)
    }

    /// Whether a value leaves the program in this sharding.
    pub(crate) fn leaves(&self, of: &Materialization) -> bool {
        self.program
            .outputs
            .iter()
            .any(|output| output.value == of.value && output.pin.accepts(&of.sharding))
    }

    pub(crate) fn name(&self, value: ValueId) -> &'a str {
        &self.program.values[value].name
    }

    /// The operation that wrote a collective.
    pub(crate) fn written<'s>(&'s self, step: &Step) -> Option<&'s Op> {
        match step.kind {
            StepKind::Collective(_, Some(op)) => Some(&self.program.ops[op]),
            _ => None,
        }
    }
}
