//! Which microbatches, and what to compute again, a program leaves open.

use shardwise_grammar::ast::Statement;

use super::{Shape, Template};
use crate::tune::Request;
use crate::tune::candidate::{Recompute, Staging};

impl Template<'_> {
    /// The numbers of microbatches on a shape.
    pub(super) fn microbatches(
        &self,
        shape: &Shape,
        staging: Option<Staging>,
        request: &Request,
    ) -> Vec<Option<u64>> {
        if let Some(staging) = staging {
            let fitting = request.microbatches.iter();
            let fitting = fitting.filter(|count| staging.takes(**count, shape.stages));
            return fitting.map(|&count| Some(count)).collect();
        }
        if self.is_open_to_microbatches() {
            request.microbatches.iter().map(|&count| Some(count)).collect()
        } else {
            vec![None]
        }
    }

    /// Whether there are gradients, and nothing says by how many microbatches.
    fn is_open_to_microbatches(&self) -> bool {
        self.has_gradients() && !self.has_own_microbatches()
    }

    /// Whether the program says its microbatches.
    pub(in crate::tune) fn has_own_microbatches(&self) -> bool {
        let is_split = self.backward().is_some_and(|of| of.microbatches.is_some());
        is_split && !self.free || self.has_pipeline()
    }

    /// Whether some candidate may have microbatches, with so many stages.
    pub(in crate::tune) fn may_have_microbatches(&self, stages: &[u64]) -> bool {
        let may_be_staged = stages.iter().any(|&stages| stages > 1) && self.can_be_staged();
        may_be_staged || self.is_open_to_microbatches()
    }

    /// Whether the program says what is computed again.
    pub(in crate::tune) fn has_own_checkpoint(&self) -> bool {
        let is_one = |of: &Statement| matches!(of, Statement::Checkpoint { .. });
        !self.free && self.statements().any(is_one)
    }

    /// Whether there is a choice of what is computed again.
    pub(in crate::tune) fn may_recompute(&self) -> bool {
        self.has_gradients() && !self.has_own_checkpoint() && self.layers().next().is_some()
    }

    /// What may be computed again.
    pub(super) fn recomputations(&self, request: &Request) -> Vec<Recompute> {
        if self.may_recompute() {
            request.recompute.clone()
        } else if self.has_gradients() && !self.has_own_checkpoint() {
            vec![Recompute::Nothing]
        } else {
            vec![Recompute::AsWritten]
        }
    }
}
