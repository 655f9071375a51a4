//! Fewer moments: constant demands become part of the slack, and moments that cannot be tight, or
//! at which less is live than at the next one, are dropped.

use std::ops::Range;
use std::sync::Arc;

use crate::solver::capacity::network::{Demand, Moment, Network};

impl Network {
    /// Reduces demands and moments; returns whether that changed anything.
    pub(crate) fn reduce_moments(&mut self) -> bool {
        let before = self.moments.len();
        self.subtract_least_demands();
        let most = self.variables().flat_map(|v| {
            self.demands[v].iter().map(|demand| (demand.live.clone(), demand.most()))
        });
        let over = self.over(most);
        self.is_infeasible |= self.moments.iter().any(|moment| moment.slack < 0.0);
        let tight = (0..before).filter(|&moment| over[moment] > 0.0).collect::<Vec<usize>>();
        self.keep_moments(&tight);
        while self.drop_dominated_moments() {}
        self.moments.len() < before
    }

    /// The same network at these moments only, ascending.
    pub(crate) fn at_moments(&self, kept: &[usize]) -> Self {
        let mut network = self.clone();
        network.keep_moments(kept);
        network
    }

    fn keep_moments(&mut self, kept: &[usize]) {
        if kept.len() == self.moments.len() {
            return;
        }
        let place = |moment: usize| kept.partition_point(|&other| other < moment);
        let shifted = |live: &Range<usize>| place(live.start)..place(live.end);
        for demands in &mut self.demands {
            let left = demands.iter().filter(|demand| !shifted(&demand.live).is_empty());
            let moved = left.map(|Demand { live, numbers }| Demand {
                live: shifted(live),
                numbers: numbers.clone(),
            });
            *demands = Arc::new(moved.collect());
        }
        self.moments = kept.iter().map(|&moment| self.moments[moment]).collect();
    }

    /// What every choice of a variable demands leaves that much less slack; demands with the same
    /// moments become one.
    fn subtract_least_demands(&mut self) {
        let mut least: Vec<(Range<usize>, f64)> = Vec::new();
        for variable in 0..self.demands.len() {
            let demands = std::mem::take(&mut self.demands[variable]);
            if self.is_gone(variable) {
                continue;
            }
            let mut joined: Vec<Demand> = Vec::with_capacity(demands.len());
            for Demand { live, numbers } in demands.iter() {
                match joined.iter_mut().find(|other| other.live == *live) {
                    Some(other) => {
                        other.numbers.iter_mut().zip(numbers).for_each(|(sum, n)| *sum += n);
                    }
                    None => joined.push(Demand { live: live.clone(), numbers: numbers.clone() }),
                }
            }
            for demand in &mut joined {
                let of_all = demand.least();
                demand.numbers.iter_mut().for_each(|number| *number -= of_all);
                least.push((demand.live.clone(), of_all));
            }
            joined.retain(|demand| demand.most() > 0.0);
            self.demands[variable] = Arc::new(joined);
        }
        let over = self.over(least.into_iter());
        self.moments.iter_mut().zip(over).for_each(|(moment, over)| moment.slack = -over);
    }

    /// Drops moments at which nothing is live that is not live at a neighbour with no more slack.
    fn drop_dominated_moments(&mut self) -> bool {
        let count = self.moments.len();
        let (mut starts, mut ends) = (vec![false; count + 1], vec![false; count + 1]);
        for demand in self.demands.iter().flat_map(|demands| demands.iter()) {
            starts[demand.live.start] = true;
            ends[demand.live.end] = true;
        }
        let mut kept: Vec<usize> = Vec::with_capacity(count);
        for moment in 0..count {
            let slack = |other: usize| self.moments[other].slack;
            let is_below_next =
                moment + 1 < count && !ends[moment + 1] && slack(moment) >= slack(moment + 1);
            let is_below_last = kept.last().is_some_and(|&last| {
                last + 1 == moment && !starts[moment] && slack(moment) >= slack(last)
            });
            if !is_below_next && !is_below_last {
                kept.push(moment);
            }
        }
        self.keep_moments(&kept);
        kept.len() < count
    }

    /// The slack of each moment beside the least demands of all variables, with a tolerance for
    /// rounding errors.
    pub(crate) fn slack_beside_least(&self) -> Vec<f64> {
        let least = |demand: &Demand| (demand.live.clone(), demand.least());
        let over = self.over(self.variables().flat_map(|v| self.demands[v].iter().map(least)));
        let moments = over.into_iter().zip(&self.moments);
        moments.map(|(over, moment)| moment.tolerance() - over).collect()
    }

    /// The number of a moment among those left.
    pub(crate) fn place_of_moment(&self, id: usize) -> Option<usize> {
        self.moments.binary_search_by_key(&id, |moment: &Moment| moment.id).ok()
    }
}
