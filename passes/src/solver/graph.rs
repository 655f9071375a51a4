//! Cheapest ways over the steps of a state space: all states at once, each at its price.
//!
//! Prices run along the states upwards and downwards in turn, from those that were lowered only,
//! until none is. States are numbered from the whole one on, so slices lead up and gathers lead
//! down, and two or three walks are enough. Dijkstra's algorithm looks at every step once, but
//! takes longer to keep its heap in order than these walks; Bellman's walks over all states each
//! time, most of which have nothing to say.

use std::ops::Add;

use crate::reshard::sharding_space::State;

/// Steps out of every state (or into it), one after another in memory.
#[derive(Debug)]
pub(crate) struct Steps<T> {
    /// Where those of each state begin; behind the last, where they end.
    starts: Vec<usize>,
    steps: Vec<(u32, T)>,
}

impl<T: Copy> Steps<T> {
    /// Those of each state.
    pub(crate) fn new(of_states: &[Vec<(State, T)>]) -> Self {
        let mut this = Self { starts: vec![0], steps: Vec::new() };
        for steps in of_states {
            this.steps.extend(steps.iter().map(|&(to, step)| (to as u32, step)));
            this.starts.push(this.steps.len());
        }
        this
    }

    /// The same with more steps of each state, and more states behind the last.
    pub(crate) fn with(&self, more: &[Vec<(State, T)>]) -> Self {
        let known = |state: State| if state < self.states() { self.of(state) } else { &[] };
        let all = |(state, more): (State, &Vec<(State, T)>)| {
            known(state)
                .iter()
                .map(|&(to, step)| (to as State, step))
                .chain(more.iter().copied())
                .collect()
        };
        Self::new(&more.iter().enumerate().map(all).collect::<Vec<_>>())
    }

    /// The same steps at other prices.
    pub(crate) fn map<U>(&self, price: impl Fn(T) -> U) -> Steps<U> {
        Steps {
            starts: self.starts.clone(),
            steps: self.steps.iter().map(|&(to, step)| (to, price(step))).collect(),
        }
    }

    /// How many states there are.
    pub(crate) fn states(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The steps of one state.
    pub(crate) fn of(&self, state: State) -> &[(u32, T)] {
        &self.steps[self.starts[state]..self.starts[state + 1]]
    }

    /// Lowers `least` until no step lowers it further. What is at `never` is out of reach; `price`
    /// says what a step costs.
    pub(crate) fn close(&self, least: &mut [T], never: T, price: impl Fn(T) -> T)
    where
        T: PartialOrd + Add<Output = T>,
    {
        let mut lowered: Vec<bool> = least.iter().map(|&price| price < never).collect();
        let mut left = lowered.iter().filter(|lowered| **lowered).count();
        let mut upwards = true;
        while left > 0 {
            for i in 0..least.len() {
                let at = if upwards { i } else { least.len() - 1 - i };
                if !std::mem::take(&mut lowered[at]) {
                    continue;
                }
                left -= 1;
                let so_far = least[at];
                for &(to, step) in self.of(at) {
                    let (to, candidate) = (to as usize, so_far + price(step));
                    if candidate < least[to] {
                        least[to] = candidate;
                        left += usize::from(!std::mem::replace(&mut lowered[to], true));
                    }
                }
            }
            upwards = !upwards;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bellman's walks.
    fn slowly(steps: &Steps<u64>, least: &mut [u64]) {
        for _ in 0..least.len() {
            for at in 0..least.len() {
                for &(to, step) in steps.of(at) {
                    least[to as usize] = least[to as usize].min(least[at].saturating_add(step));
                }
            }
        }
    }

    #[test]
    fn walks_up_and_down_find_the_cheapest_ways() {
        let mut random = 1_u64;
        let mut roll = |sides: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % sides
        };
        for _ in 0..200 {
            let states = 2 + roll(20);
            let of_states: Vec<Vec<(State, u64)>> = (0..states)
                .map(|_| (0..roll(5)).map(|_| (roll(states) as State, 1 + roll(9))).collect())
                .collect();
            let steps = Steps::new(&of_states);
            let never = u64::MAX / 2;
            let mut least: Vec<u64> =
                (0..states).map(|_| if roll(3) == 0 { roll(30) } else { never }).collect();
            let mut wanted = least.clone();
            slowly(&steps, &mut wanted);
            steps.close(&mut least, never, |step| step);
            assert_eq!(least, wanted);
        }
    }
}
