//! The edges of a term's graph that a tree below the upper bound may use.
//!
//! By the same argument as for choices (reduced-cost fixing): for given prices, the cheapest tree
//! over an edge costs what is paid around its head, the edge, and a tree from its tail on. Where
//! that exceeds the term's minimum by more than the gap between bound and upper bound, no
//! assignment below the upper bound has a tree over the edge. It is left out from then on, for the
//! gap only shrinks. Few edges remain of values whose reshards are long beside the gap, and passes
//! over them take as much less time: sweeps of one layer of DeepSeek-V3 half.
//!
//! The outside pass of [`crate::solver::marginals`] has computed both sums for every node. Edges
//! are looked at whenever the gap has halved, which is as much work as one pass over them.
//! Alternatives: to leave out nodes removes less, for most have one cheap edge; to skip terms whose
//! minimum has not changed for some sweeps saves as much time, but the bound then rises so much
//! slower that it ends lower.

use std::sync::Arc;

use crate::solver::marginals::Metric;

/// What the gap must have become, as a share of that at the last look.
const SMALLER_GAP: f64 = 0.5;

/// The most edges that are left, as a share of those before, where a graph of their own is made:
/// it takes memory.
const FEWER_EDGES: f64 = 0.5;

/// The edges of one term's graph.
#[derive(Clone, Debug)]
pub(crate) struct UsedEdges {
    /// None while all are used.
    metric: Option<Arc<Metric>>,
    /// The gap, in seconds, at which they were computed.
    gap_s: f64,
}

impl UsedEdges {
    /// All of them.
    pub(crate) const ALL: Self = Self { metric: None, gap_s: f64::INFINITY };

    /// The graph of the used edges, where `all` has all of them.
    pub(crate) fn metric<'a>(&'a self, all: &'a Metric) -> &'a Metric {
        self.metric.as_deref().unwrap_or(all)
    }

    /// The gap, if it is so much smaller than at the last look that more edges may be unused.
    pub(crate) fn smaller_gap(&self, gap_s: f64) -> Option<f64> {
        (gap_s.is_finite() && gap_s <= SMALLER_GAP * self.gap_s).then_some(gap_s)
    }

    /// Removes the other edges than these of the current graph, in the order of the edges into
    /// nodes.
    pub(crate) fn reduce(&mut self, all: &Metric, is_used: &[bool], gap_s: f64) {
        self.gap_s = gap_s;
        let left = is_used.iter().filter(|used| **used).count();
        if left as f64 <= FEWER_EDGES * is_used.len() as f64 {
            self.metric = Some(Arc::new(self.metric(all).with_edges(is_used)));
        }
    }
}
