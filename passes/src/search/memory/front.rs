//! Plans of which none is both faster and smaller than another: the front of time against memory.
//!
//! New plans are made of those near a capacity ([`crate::search::memory::relink`]). So that they
//! differ, of two of almost the same memory the one nearer to the capacity is kept: the faster of
//! those that fit, the smaller of the others.

use std::sync::Arc;

/// The plans that are kept.
const MOST: usize = 32;

/// The least ratio of bytes between two of them.
const APART: f64 = 1.01;

/// A plan with its time and its memory.
#[derive(Clone)]
struct Point<P> {
    plan: Arc<P>,
    seconds: f64,
    bytes: f64,
}

/// The front around a capacity.
#[derive(Clone)]
pub(crate) struct Front<P> {
    capacity: f64,
    /// The smallest first.
    points: Vec<Point<P>>,
}

impl<P: Clone> Front<P> {
    pub(crate) fn new(capacity: f64) -> Self {
        Self { capacity, points: Vec::new() }
    }

    /// Adds a plan, unless another is neither slower nor larger.
    pub(crate) fn add(&mut self, plan: &P, seconds: f64, bytes: f64) {
        if !self.is_dominated(seconds, bytes) {
            self.insert(Point { plan: Arc::new(plan.clone()), seconds, bytes });
        }
    }

    /// Adds those of another front.
    pub(crate) fn add_all(&mut self, other: Self) {
        for point in other.points {
            if !self.is_dominated(point.seconds, point.bytes) {
                self.insert(point);
            }
        }
    }

    /// Up to `most` that do not fit into a capacity, and as many that do, the nearest first; and
    /// the fastest of all.
    pub(crate) fn near(&self, capacity: f64, most: usize) -> (Vec<Arc<P>>, Vec<Arc<P>>) {
        let fitting = self.points.partition_point(|of| of.bytes <= capacity);
        let (fitting, exceeding) = self.points.split_at(fitting);
        let plan = |of: &Point<P>| Arc::clone(&of.plan);
        let (nearest, others) = exceeding.split_at(most.min(exceeding.len()));
        let exceeding = nearest.iter().chain(others.last()).map(plan);
        (exceeding.collect(), fitting.iter().rev().take(most).map(plan).collect())
    }

    /// Whether some plan is neither slower nor larger.
    fn is_dominated(&self, seconds: f64, bytes: f64) -> bool {
        self.points.iter().any(|of| of.seconds <= seconds && of.bytes <= bytes)
    }

    fn insert(&mut self, new: Point<P>) {
        let capacity = self.capacity;
        self.points.retain(|of| of.seconds < new.seconds || of.bytes < new.bytes);
        let place = self.points.partition_point(|of| of.bytes < new.bytes);
        self.points.insert(place, new);
        let fits = |of: &Point<P>| of.bytes <= capacity;
        self.points.dedup_by(|next, last| {
            let is_near = fits(next) == fits(last) && next.bytes < APART * last.bytes;
            if is_near && fits(next) {
                std::mem::swap(next, last);
            }
            is_near
        });
        let distance = |of: &Point<P>| (of.bytes - capacity).abs();
        let is_nearer = |first: &Point<P>, last: &Point<P>| distance(first) < distance(last);
        if self.points.len() > MOST {
            let farthest = match &self.points[..] {
                [first, .., last] if !is_nearer(first, last) => 0,
                points => points.len() - 1,
            };
            self.points.remove(farthest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A front of plans that are their seconds.
    fn front(capacity: f64, plans: impl IntoIterator<Item = (f64, f64)>) -> Front<f64> {
        let mut front = Front::new(capacity);
        for (seconds, bytes) in plans {
            front.add(&seconds, seconds, bytes);
        }
        front
    }

    fn near(front: &Front<f64>, capacity: f64, most: usize) -> (Vec<f64>, Vec<f64>) {
        let (exceeding, fitting) = front.near(capacity, most);
        let seconds = |plans: Vec<Arc<f64>>| plans.iter().map(|plan| **plan).collect();
        (seconds(exceeding), seconds(fitting))
    }

    #[test]
    fn none_is_both_faster_and_smaller_and_the_nearest_come_first() {
        let slower_and_larger = (6.0, 95.0);
        let plans = [(9.0, 50.0), (5.0, 90.0), slower_and_larger, (3.0, 120.0), (1.0, 150.0)];
        let front = front(100.0, plans);
        assert_eq!(near(&front, 100.0, 8), (vec![3.0, 1.0], vec![5.0, 9.0]));
        assert_eq!(near(&front, 60.0, 1), (vec![5.0, 1.0], vec![9.0]), "and the fastest");
    }

    #[test]
    fn of_almost_equals_the_nearer_to_the_capacity_is_kept() {
        let front = front(100.0, [(5.0, 90.0), (4.9, 90.5), (3.0, 120.0), (2.9, 120.5)]);
        assert_eq!(near(&front, 100.0, 8), (vec![3.0], vec![4.9]));
    }

    #[test]
    fn the_farthest_are_left_out() {
        let bytes = |number: i32| 100.0 * 1.1_f64.powi(number);
        let front = front(1e3, (0..40).map(|number| (f64::from(-number), bytes(number))));
        assert_eq!(front.points.len(), MOST);
        assert!(front.points.iter().any(|of| of.bytes.to_bits() == 100.0_f64.to_bits()));
    }
}
