//! The input of a lint: the tree, the program, its plans (computed on demand), and the savings of
//! edits.
//!
//! There are two plans: the textbook's shows the cost of the author's brackets under the book's
//! rules, the searched one what is possible. Searches are bounded by counts and never by time, so
//! that findings are the same on every machine; for a program too large for a search for each edit,
//! the textbook's plans before and after an edit are compared, and what the plan does is that of
//! one search.
//!
//! Edits of the resolved program find what may be cheaper, with brackets left open too. A saving
//! that is stated is that of the edited text: statements are derived from brackets, such as those
//! of gradients and of an optimizer, and an edit of the resolved program leaves them as they were.
//! The alternative, to edit those as well, would repeat here what the passes derive.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use shardwise_grammar::ast::{Definition, File, Role, Statement, TensorDecl};
use shardwise_ir::Span;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::print::Printer;
use shardwise_ir::program::{Mode, Op, Program};
use shardwise_ir::sharding::{AxisRef, DimPin};
use shardwise_passes::Tables;
use shardwise_passes::pipeline::Pass;

use super::allow::Allow;
use super::edit::{Edit, edited};
use super::priced::{Priced, Saving};
use crate::driver;
use crate::options::{Options, Refinement, Strategy};
use crate::planned::Origin;

/// Numbers of lints that are set, by code and name.
pub(crate) type Numbers = BTreeMap<(&'static str, &'static str), f64>;

/// A lint of the table, as the rules that judge `allow`s see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownLint {
    pub(crate) code: &'static str,
    pub(crate) name: &'static str,
    /// Whether it runs: an `allow` of a lint that does not run is not reported as unused.
    pub(crate) runs: bool,
}

impl KnownLint {
    /// Whether `word` is its code or name, in any case.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        self.code.eq_ignore_ascii_case(word) || self.name.eq_ignore_ascii_case(word)
    }
}

/// Brackets that keep a value unsharded, with their cost.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) value: ValueId,
    /// The name before the brackets.
    pub(crate) span: Span,
    /// The collectives that reshard the value to them, as the plan prints them.
    pub(crate) moves: Vec<String>,
    pub(crate) by: PinnedBy,
    pub(crate) saving: Saving,
    /// The edit that opens them.
    pub(crate) edits: Vec<Edit>,
}

/// The collective that the brackets cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinnedBy {
    /// Partial sums are reduced on all devices, though each device needs a part.
    AllReduce,
    /// The value is gathered, and then reduced over what was gathered.
    GatherForReduction(DimId),
    /// Anything else, mostly a gather.
    Gather,
}

/// Statements that are planned for all edits together: a second or two.
const SEARCHED_TRIALS: usize = 8_000;
const TEXTBOOK_TRIALS: usize = 200_000;

/// The program that is linted.
pub(crate) struct LintContext<'a> {
    /// The name of the source, from which paths in it begin.
    path: &'a str,
    pub(crate) source: &'a str,
    pub(crate) file: &'a File,
    pub(crate) program: &'a Analyzed,
    /// The textbook's plan; for an explicit program, the program itself.
    pub(crate) textbook: Priced,
    /// The lints of the table, in its order.
    pub(crate) lints: Vec<KnownLint>,
    pub(super) numbers: &'a Numbers,
    options: &'a Options,
    /// The options without the form that the plan chose.
    asked: &'a Options,
    allows: Vec<Allow>,
    /// Which of the `allow`s silenced a finding.
    used_allows: RefCell<BTreeSet<usize>>,
    best: OnceCell<Option<Priced>>,
    /// The axes that brackets name.
    named_axes: BTreeSet<AxisRef>,
    /// Edits that may still be planned.
    trials: Cell<usize>,
    untried: Cell<usize>,
    /// The costs of brackets, computed on demand.
    pub(crate) pins: OnceCell<Vec<Pinned>>,
}

/// The most operations of a program for which each edit is searched: on one or two axes, on three,
/// on more.
const SEARCHED: [usize; 5] = [400, 400, 400, 40, 8];

/// The most operations of a program that is searched once.
const SEARCHED_ONCE: usize = 1000;

impl<'a> LintContext<'a> {
    pub(in crate::lint) fn new(
        (path, source): (&'a str, &'a str),
        file: &'a File,
        program: &'a Analyzed,
        (textbook, plan): (Priced, Option<Plan>),
        (options, asked): (&'a Options, &'a Options),
        (lints, numbers): (Vec<KnownLint>, &'a Numbers),
    ) -> Self {
        let best = plan.map(|plan| Some(Priced::new(plan, options.refinement)));
        let context = Self {
            path,
            source,
            file,
            program,
            textbook,
            lints,
            numbers,
            options,
            asked,
            allows: super::allow::read(file, source),
            used_allows: RefCell::default(),
            best: best.map_or_else(OnceCell::new, OnceCell::from),
            named_axes: named_axes(program),
            trials: Cell::new(0),
            untried: Cell::new(0),
            pins: OnceCell::new(),
        };
        let work = if context.is_searched() { SEARCHED_TRIALS } else { TEXTBOOK_TRIALS };
        context.trials.set(work / program.ops.len().max(1));
        context
    }

    /// Whether an `allow` silences findings of `code` at `span`, which uses it.
    pub(in crate::lint) fn allows(&self, code: &str, span: Span) -> bool {
        let number = self.allows.iter().position(|allow| allow.covers(code, span));
        number.is_some_and(|number| {
            self.used_allows.borrow_mut().insert(number);
            true
        })
    }

    /// The `allow`s that silenced nothing so far.
    pub(crate) fn unused_allows(&self) -> Vec<&Allow> {
        let used = self.used_allows.borrow();
        let unused = self.allows.iter().enumerate().filter(|(number, _)| !used.contains(number));
        unused.map(|(_, allow)| allow).collect()
    }

    /// Whether any bracket names `axis`, or it is a stage axis.
    pub(crate) fn names(&self, axis: AxisRef) -> bool {
        let staged = || {
            self.program
                .repeats
                .indices()
                .any(|block| self.program.is_staged_along(Some(block), axis.axis()))
        };
        self.named_axes.contains(&axis) || staged()
    }

    /// Whether declared values leave axes to the search, `W[D_?, F]`: no axis is unused there.
    pub(crate) fn leaves_axes_open(&self) -> bool {
        let pins = self.program.values.iter().filter_map(|value| value.declared_sharding.as_ref());
        let outputs = self.program.outputs.iter().map(|output| &output.pin);
        pins.chain(outputs).any(|pin| pin.exact().is_none())
    }

    /// The number of edits that were not tried because the program is too large.
    pub(in crate::lint) fn untried(&self) -> usize {
        self.untried.get()
    }

    /// Whether nobody wants the findings any more.
    pub(in crate::lint) fn is_cancelled(&self) -> bool {
        self.options.cancellation.is_cancelled()
    }

    pub(crate) fn refinement(&self) -> Refinement {
        self.options.refinement
    }

    /// The memory capacity of a device, in bytes.
    pub(crate) fn capacity(&self) -> Option<f64> {
        self.options.capacity(self.program)
    }

    /// Whether the program is explicit.
    pub(crate) fn is_explicit(&self) -> bool {
        self.program.mode == Mode::Explicit
    }

    /// The searched plan, or the textbook's where that would take long and is not known yet; for an
    /// explicit program, the program itself.
    pub(crate) fn best(&self) -> &Priced {
        self.best
            .get_or_init(|| self.is_searched().then(|| self.plan(self.program)).flatten())
            .as_ref()
            .unwrap_or(&self.textbook)
    }

    /// Whether each edit is searched.
    fn is_searched(&self) -> bool {
        let axes = self.program.mesh.splitting().count();
        !self.is_explicit()
            && self.program.ops.len() <= SEARCHED[axes.min(SEARCHED.len() - 1)]
            && Tables::has_all(self.program)
    }

    /// Whether the program is too large for a search for each edit, and not for one search.
    pub(in crate::lint) fn is_searched_once(&self) -> bool {
        !self.is_explicit() && !self.is_searched() && self.program.ops.len() <= SEARCHED_ONCE
    }

    /// The plan of an edited program, found in the same way as that of this one.
    fn plan(&self, program: &Analyzed) -> Option<Priced> {
        let strategy = if self.is_searched() { Strategy::Search } else { Strategy::Textbook };
        let options = Self::without_limits(self.options, strategy);
        driver::plan_of(program, &options).ok().map(|plan| Priced::new(plan, self.refinement()))
    }

    /// The plan of an edited text: where this program is in another form than it is written, in
    /// the form that is best then.
    fn plan_of_text(&self, text: &str) -> Option<Priced> {
        let is_written = self.options.has_same_form(self.asked);
        // The author writes no parts of axes that only a form has.
        if !is_written {
            driver::read(self.path, text, self.asked, Pass::Resolve).program?;
        }
        if is_written || !self.is_searched() {
            return self.plan(&driver::check(self.path, text, self.options).program?);
        }
        let options = Self::without_limits(self.asked, Strategy::Search);
        match driver::plan(self.path, text, &options).ok()?.origin {
            Origin::Searched(found) => Some(Priced::new(found.plan, self.refinement())),
            Origin::Textbook | Origin::Explicit => None,
        }
    }

    fn without_limits(options: &Options, strategy: Strategy) -> Options {
        Options { strategy, memory: Some(f64::INFINITY), timeout: None, ..options.clone() }
    }

    /// The savings of `edit` of the resolved program; `None` if the edited program cannot be
    /// planned, or too many were tried.
    pub(crate) fn saving(&self, edit: impl FnOnce(&mut Program)) -> Option<Saving> {
        self.tried(|| {
            let mut edited = Program::clone(self.program);
            edit(&mut edited);
            self.plan(&edited.into())
        })
    }

    /// The savings of edits of the text, which is read again; `None` also if it has errors then.
    /// The values of the plan may have other numbers than those of this program.
    pub(crate) fn saving_in_text(&self, edits: &[Edit]) -> Option<Saving> {
        self.tried(|| self.plan_of_text(&edited(self.source, edits.iter().collect())))
    }

    /// The savings of what `plan` plans; `None` if too many were tried.
    fn tried(&self, plan: impl FnOnce() -> Option<Priced>) -> Option<Saving> {
        let Some(left) = self.trials.get().checked_sub(1) else {
            self.untried.set(self.untried.get() + 1);
            return None;
        };
        self.trials.set(left);
        // Plans that were found in the same way.
        let before = if self.is_searched() { self.best() } else { &self.textbook };
        let after = plan()?;
        let seconds = before.report.serial_s - after.report.serial_s;
        Some(Saving {
            seconds,
            bytes: (before.moved_bytes() - after.moved_bytes()).max(0.0),
            after,
        })
    }

    /// The shardings of the program's values and the paths between them; `None` where they are too
    /// many.
    pub(crate) fn tables(&self) -> Option<Tables<'_>> {
        Tables::has_all(self.program).then(|| Tables::new(self.program, self.refinement()))
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

    /// The declaration of a value.
    pub(crate) fn declaration(&self, value: ValueId) -> Option<(Role, &'a TensorDecl)> {
        let span = self.program.values[value].span;
        self.file.statements.iter().find_map(|statement| match &statement.node {
            Statement::Declare(role, tensors) => {
                tensors.iter().find(|tensor| tensor.span == span).map(|tensor| (*role, tensor))
            }
            _ => None,
        })
    }

    /// The edit that declares a value in this sharding, if its brackets are in the text.
    pub(crate) fn redeclared(&self, of: &Materialization) -> Option<Edit> {
        let layout = self.declaration(of.value)?.1.layout.as_ref()?;
        Some(Edit { span: layout.span, text: self.brackets(of) })
    }

    /// `[B_X, D]`: the brackets of a value in this sharding.
    pub(crate) fn brackets(&self, of: &Materialization) -> String {
        let dims = &self.program.values[of.value].dims;
        Printer::new(self.program).sharding(dims, &of.sharding)
    }

    /// Whether a value is an output.
    pub(crate) fn is_output(&self, value: ValueId) -> bool {
        self.program.dataflow().outputs_of(value).next().is_some()
    }

    /// Whether a value is an output in this sharding.
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

/// The axes that brackets of the program name.
fn named_axes(program: &Program) -> BTreeSet<AxisRef> {
    let pins = program.values.iter().filter_map(|value| value.declared_sharding.as_ref());
    let statements = program.ops.iter().flat_map(|op| {
        op.operands.iter().filter_map(|o| o.pin.as_ref()).chain(op.result_pin.as_ref())
    });
    let outputs = program.outputs.iter().map(|output| &output.pin);
    let all = pins.chain(statements).chain(outputs);
    all.flat_map(|pin| pin.unreduced.axes().iter().chain(pin.dims.iter().flat_map(DimPin::named)))
        .copied()
        .collect()
}
