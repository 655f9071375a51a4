//! A good assignment from the dual's prices: one operation after another takes its best choice.
//!
//! First through the program, where what is not chosen yet counts at the dual's prices (sequential
//! decoding, Kolmogorov 2006); then again, with all others as they are, until nothing improves
//! (coordinate descent). Either way all choices of an operation are judged at once: of every value
//! that it reads or gives, the trees to the other ends, run outwards, say what each state of this
//! end costs (`marginals::of_one`). So a walk through the program takes about as long as a sweep of
//! the dual, however many choices there are. Trying choices one by one, each with its trees, was
//! the alternative: it could afford a few dozen choices an operation, and took ten times as long.
//!
//! The result is an upper bound and nothing more. Work is counted with the dual's.

use crate::reshard::sharding_space::State;
use crate::search::problem::{Demand, Root};
use crate::solver::dual::{Dual, End, at, only};
use crate::solver::marginals::{Metric, NEVER, of_one, of_root};

/// Walks through the program at most.
const WALKS: usize = 12;

/// Other ends of a value that are taken together; what has more is judged by the first of them.
const ENDS: usize = 8;

/// Uses of a value that are looked at for them: those that stand around. A parameter of ten
/// thousand statements has as many.
const AROUND: usize = 32;

/// Ends taken together of a value that has more uses than that.
const FEW_ENDS: usize = 2;

/// Numbers looked at before no further walk begins: a second or two.
const MOST_WORK: usize = 300_000_000;

/// What costs less by less than this share is no improvement: sums in floating point differ in
/// their last bits.
const ROUNDING: f64 = 1e-12;

/// An assignment in the making.
pub struct Decoder<'d, 'p, 'a> {
    dual: &'d mut Dual<'p, 'a>,
    taken: Vec<Option<usize>>,
    /// The joint of each use of each source, if an operation's.
    joints_of_uses: Vec<Vec<Option<usize>>>,
    /// When an end of each source was last moved, and when each operation was last looked at.
    moved: Vec<usize>,
    looked: Vec<usize>,
    clock: usize,
}

impl<'d, 'p, 'a> Decoder<'d, 'p, 'a> {
    /// With nothing chosen.
    pub fn new(dual: &'d mut Dual<'p, 'a>) -> Self {
        let (operations, sources) = (dual.own.len(), dual.least_of_source.len());
        let mut joints_of_uses: Vec<Vec<Option<usize>>> =
            dual.problem.sources.iter().map(|source| vec![None; source.demands.len()]).collect();
        for (number, joint) in dual.joints.iter().enumerate() {
            if let End::Use(i) = joint.end {
                joints_of_uses[joint.source][i] = Some(number);
            }
        }
        Self {
            dual,
            taken: vec![None; operations],
            joints_of_uses,
            moved: vec![0; sources],
            looked: vec![0; operations],
            clock: 1,
        }
    }

    /// With all chosen already.
    pub fn from(dual: &'d mut Dual<'p, 'a>, assignment: &[usize]) -> Self {
        let taken = assignment.iter().copied().map(Some).collect();
        let mut this = Self { taken, ..Self::new(dual) };
        this.moved.fill(1);
        this
    }

    /// All choices, if there are some that go together.
    pub fn run(mut self) -> Option<Vec<usize>> {
        let before = self.dual.work;
        for walk in 0..WALKS {
            let mut improved = false;
            for i in 0..self.taken.len() {
                let variable = if walk % 2 == 0 { i } else { self.taken.len() - 1 - i };
                improved |= self.improve(variable)?;
            }
            if !improved || self.dual.work > before + MOST_WORK {
                break;
            }
        }
        self.taken.into_iter().collect()
    }

    /// Takes the best choice of an operation given all others; whether that is another than before,
    /// or nothing if there is none.
    fn improve(&mut self, variable: usize) -> Option<bool> {
        let joints = &self.dual.joints_of_operation[variable];
        let stale = joints
            .iter()
            .any(|&joint| self.moved[self.dual.joints[joint].source] >= self.looked[variable]);
        let before = self.taken[variable];
        if before.is_some() && !stale {
            return Some(false);
        }
        let costs = self.costs(variable);
        self.looked[variable] = self.clock;
        self.clock += 1;
        let least = costs.iter().copied().fold(NEVER, f64::min);
        if least == NEVER {
            return None;
        }
        let enough = least + ROUNDING * least.abs();
        if before.is_some_and(|before| costs[before] <= enough) {
            return Some(false);
        }
        let best = costs.iter().position(|&cost| cost <= enough)?;
        self.taken[variable] = Some(best);
        for &joint in &self.dual.joints_of_operation[variable] {
            self.moved[self.dual.joints[joint].source] = self.clock;
        }
        // Its own move leaves it the best.
        self.clock += 1;
        self.looked[variable] = self.clock;
        Some(true)
    }

    /// What each choice of an operation costs with all that it touches.
    fn costs(&mut self, variable: usize) -> Vec<f64> {
        let known = self.dual.own[variable].iter().zip(&self.dual.beyond[variable]);
        let mut costs: Vec<f64> =
            known.map(|(&own, &beyond)| if beyond < NEVER { own } else { NEVER }).collect();
        let joints = self.dual.joints_of_operation[variable].clone();
        for (i, &number) in joints.iter().enumerate() {
            let joint = &self.dual.joints[number];
            // Where a value is read twice in the same state, once is enough.
            let again = joints[..i].iter().map(|&other| &self.dual.joints[other]);
            if again
                .clone()
                .any(|other| other.source == joint.source && other.states == joint.states)
            {
                continue;
            }
            let of_states = self.of_states(number);
            costs
                .iter_mut()
                .zip(self.dual.joints[number].states())
                .for_each(|(cost, state)| *cost += of_states[state]);
        }
        costs
    }

    /// What the cheapest tree costs for every state of this end, with other ends where they are if
    /// that is chosen.
    fn of_states(&mut self, joint: usize) -> Vec<f64> {
        let asked = &self.dual.joints[joint];
        let problem = self.dual.problem;
        let source = &problem.sources[asked.source];
        let metric = &self.dual.metrics[source.table];
        let times = source.times as f64;
        let root = match source.root {
            Root::Fixed(state) => at(metric, &[state]),
            Root::Produced(_) if asked.end == End::Root => Vec::new(),
            Root::Produced(_) => self.root(metric, asked.source),
        };
        let ends = self.other_ends(metric, &asked.end, (asked.source, asked.variable));
        let ends: Vec<&[f64]> = ends.iter().map(Vec::as_slice).collect();
        self.dual.work += metric.size() << ends.len();
        match (&asked.end, &source.home) {
            (End::Root, None) => of_root(metric, times, &ends),
            (End::Root, Some(home)) => {
                metric.backwards(times, &only(home, &of_root(metric, times, &ends)))
            }
            (End::Use(_), None) => of_one(metric, times, &root, &ends),
            (End::Use(_), Some(home)) => {
                of_one(metric, times, &only(home, &metric.onwards(times, &root)), &ends)
            }
        }
    }

    /// The prices of the states of other uses of a source, each different one once.
    fn other_ends(
        &self,
        metric: &Metric,
        asked: &End,
        (number, asking): (usize, usize),
    ) -> Vec<Vec<f64>> {
        let demands = &self.dual.problem.sources[number].demands;
        let middle = if let End::Use(i) = *asked { i } else { 0 };
        let around = middle.saturating_sub(AROUND)..demands.len().min(middle + AROUND);
        let most = if demands.len() > AROUND { FEW_ENDS } else { ENDS };
        let (mut ends, mut seen): (Vec<Vec<f64>>, Vec<State>) = (Vec::new(), Vec::new());
        for i in around.filter(|&i| *asked != End::Use(i)) {
            match (&demands[i], self.joints_of_uses[number][i]) {
                (Demand::Fixed(states), _) => ends.push(at(metric, states)),
                (Demand::Operand(variable, _), Some(joint)) if *variable != asking => {
                    match self.state(joint) {
                        Some(state) if seen.contains(&state) => {}
                        Some(state) => {
                            seen.push(state);
                            ends.push(at(metric, &[state]));
                        }
                        None => ends.push(self.dual.joints[joint].of_source()),
                    }
                }
                (Demand::Operand(..), _) => {}
            }
            if ends.len() == most {
                break;
            }
        }
        ends
    }

    /// The prices of the states in which a source may come to be.
    fn root(&self, metric: &Metric, source: usize) -> Vec<f64> {
        let mut joints = self.dual.joints_of_source[source].iter().copied();
        let joint = joints
            .find(|&joint| self.dual.joints[joint].end == End::Root)
            .expect("what is produced has a joint with its producer");
        self.state(joint)
            .map_or_else(|| self.dual.joints[joint].of_source(), |state| at(metric, &[state]))
    }

    /// Where a joint is, if its operation is laid out.
    fn state(&self, joint: usize) -> Option<State> {
        let joint = &self.dual.joints[joint];
        self.taken[joint.variable].map(|choice| joint.states[choice] as State)
    }
}
