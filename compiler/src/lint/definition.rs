//! What a lint is: its page, its level and its check; what a check is given ([`LintContext`]) and
//! what it returns ([`Finding`]s). Rules depend on this module and not on the engine that runs
//! them.

pub(super) mod allow;
mod context;
mod edit;
mod priced;

use shardwise_ir::{Diag, Span};

pub(crate) use context::{KnownLint, LintContext, Numbers, Pinned, PinnedBy};
pub(in crate::lint) use edit::edited;
pub use edit::{Edit, Fix, Safety};
pub(crate) use priced::{Priced, Saving};

/// The group of a lint; levels can be set by group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Unnecessary communication.
    Communication,
    /// Repeated or inefficient arithmetic.
    Compute,
    /// Memory of a device.
    Memory,
    /// A mesh that does not fit the hardware.
    Mesh,
    /// Unused or ambiguous names.
    Tidiness,
    /// Instructions to the tool itself: `allow`.
    Tool,
}

impl Group {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 6] =
        [Self::Communication, Self::Compute, Self::Memory, Self::Mesh, Self::Tidiness, Self::Tool];

    /// As configurations write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Communication => "communication",
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Mesh => "mesh",
            Self::Tidiness => "tidiness",
            Self::Tool => "tool",
        }
    }
}

/// The level of a lint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The lint does not run.
    Allow,
    /// Its findings are warnings.
    Warn,
    /// Its findings are errors.
    Deny,
}

impl Level {
    /// As pages write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// A number that a configuration may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// As configurations write it.
    pub name: &'static str,
    /// Its default.
    pub default: f64,
    /// Its meaning, with its unit.
    pub meaning: &'static str,
}

/// A lint: its page, its level, its check.
#[derive(Clone, Copy, Debug)]
pub struct Lint {
    /// `SW301`; never reused.
    pub code: &'static str,
    /// Kebab case, for people.
    pub name: &'static str,
    /// Its group.
    pub group: Group,
    /// Its default.
    pub level: Level,
    /// Whether it judges plans, too. Their shardings are those that a search chose, and their names
    /// those of the values that it wrote: only collectives and `allow`s are an author's there.
    pub of_plans: bool,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Why that is bad.
    pub why: &'static str,
    /// A whole program in which it fires, and no other lint does.
    pub bad_example: &'static str,
    /// The same program with the fix: no lint fires.
    pub good_example: &'static str,
    /// Numbers that can be set.
    pub parameters: &'static [Parameter],
    /// Finds it.
    pub(crate) check: fn(&LintContext<'_>) -> Vec<Finding>,
}

impl Lint {
    /// The setting called `name`; an error lists its settings, if it has no such one.
    pub(in crate::lint) fn parameter(&self, name: &str) -> Result<&'static Parameter, String> {
        let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name).collect();
        match self.parameters.iter().find(|parameter| parameter.name == name) {
            Some(parameter) => Ok(parameter),
            None if names.is_empty() => Err(format!("{} has no numbers to set", self.code)),
            None => Err(format!("{} has no `{name}`; it has {}", self.code, names.join(", "))),
        }
    }

    /// The value of the setting called `name`, as set or by default.
    pub(crate) fn number(&self, context: &LintContext<'_>, name: &str) -> f64 {
        let set = context
            .numbers
            .iter()
            .find(|((code, parameter), _)| *code == self.code && *parameter == name)
            .map(|(_, &value)| value);
        set.or_else(|| self.parameter(name).ok().map(|parameter| parameter.default))
            .unwrap_or_default()
    }
}

/// The cost of a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Seconds a step on the critical resource, as the cost model counts them; 0 where it costs no
    /// time.
    pub seconds: f64,
    /// Bytes of one device, communicated or stored; 0 where it costs none.
    pub bytes: f64,
}

/// One finding: the diagnostic, the cost of the fault, and the edit that fixes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The diagnostic.
    pub diag: Diag,
    /// Its cost, where that is known.
    pub price: Option<Price>,
    /// The edit that fixes it, if there is one.
    pub fix: Option<Fix>,
}

impl From<Diag> for Finding {
    fn from(diag: Diag) -> Self {
        Self { diag, price: None, fix: None }
    }
}

impl Finding {
    /// A warning of `lint` at `span`.
    pub(crate) fn new(
        lint: &Lint,
        message: impl Into<String>,
        span: Span,
        label: impl Into<String>,
    ) -> Self {
        Diag::warning(lint.code, message, span, label).into()
    }

    pub(crate) fn and(mut self, span: Span, text: impl Into<String>) -> Self {
        self.diag = self.diag.and(span, text);
        self
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Self {
        self.diag = self.diag.help(text);
        self
    }

    pub(crate) fn costs(mut self, seconds: f64, bytes: f64) -> Self {
        self.price = Some(Price { seconds: seconds.max(0.0), bytes: bytes.max(0.0) });
        self
    }

    pub(crate) fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Its place.
    pub fn span(&self) -> Span {
        self.diag.labels.first().map(|label| label.span).unwrap_or_default()
    }
}
