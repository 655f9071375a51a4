//! What a plan says of a program, at the places of its text: the sharding of each value where it
//! is declared or defined, each collective at the statement that needs it, and the figures of the
//! step.
//!
//! Everything is computed once, when the plan is found, and kept as text at places of the source:
//! then answers to an editor are look-ups, and an edit moves the places of what it does not touch
//! until there is another plan.

mod hints;
mod summary;
mod values;

use shardwise_ir::Span;

use super::Document;
use super::change::Change;
use crate::Planned;

/// A text beside the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The byte after which it stands.
    pub offset: usize,
    /// The text.
    pub label: String,
    /// More about it, a line each.
    pub details: Vec<String>,
    /// Whether it is about communication; else about a sharding.
    pub is_collective: bool,
}

/// A part of the source, and what the plan says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The part.
    pub span: Span,
    /// The text, in Markdown.
    pub text: String,
}

/// What a plan says of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Insight {
    /// Shardings and collectives beside the source, in its order.
    pub hints: Vec<Hint>,
    /// The values, at each place where one stands.
    pub facts: Vec<Fact>,
    /// The time of a step, the peak memory, and whether the plan is proven to be best.
    pub summary: String,
}

impl Insight {
    /// What `planned` says of the program that it is the plan of.
    ///
    /// ```
    /// use shardwise::editor::{Document, Insight};
    /// let source = "hardware tpu-v5p\nmesh X=4\ndim I=8192, J=8192, K=8192\n\
    ///     input A[I, J_X], B[J_X, K]\nC = A *J B\noutput C[I, K_X]\n";
    /// let planned = shardwise::plan("example", source, &shardwise::Options::default())?;
    /// let insight = Insight::of(&Document::new("example", source), &planned);
    /// assert!(insight.hints.iter().any(|hint| hint.label.contains("ReduceScatter_{X,K}(C)")));
    /// assert!(insight.summary.starts_with("step "));
    /// # Ok::<(), shardwise::Findings>(())
    /// ```
    pub fn of(document: &Document, planned: &Planned) -> Self {
        let mut hints = hints::shardings(document, planned);
        hints.extend(hints::collectives(document, planned));
        hints.sort_by_key(|hint| hint.offset);
        let facts = values::facts(document, planned);
        Self { hints, facts, summary: summary::summary(planned) }
    }

    /// The same beside a changed source, without what the change touches.
    pub fn carry(&mut self, change: &Change) {
        self.hints.retain_mut(|hint| {
            let carried = change.carried(Span::new(hint.offset, hint.offset));
            carried.inspect(|span| hint.offset = span.start).is_some()
        });
        self.facts.retain_mut(|fact| {
            let carried = change.carried(fact.span);
            carried.inspect(|span| fact.span = *span).is_some()
        });
    }

    /// The text about the value at a byte.
    pub fn at(&self, offset: usize) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.span.start <= offset && offset <= fact.span.end)
    }
}
