//! A lower bound for any program, however wide, in time that grows with its length: the dual of the
//! search's linear relaxation.
//!
//! The problem is taken apart into its operations (each alone takes its cheapest layout) and its
//! sources (each alone takes its cheapest tree, see [`crate::solver::marginals`]), which must agree on a
//! state wherever an operation reads or gives a value: a *joint*. A joint has a price for each
//! state that the operation pays and the source gets back; whatever these prices are, the sum of
//! all minima is below every plan. They are moved so that the sum grows: forwards and backwards
//! through the program, every part hands what its choices cost more than its least on to the parts
//! that come next, in even shares (sequential reweighted message passing: Kolmogorov 2006, 2015).
//! The sum never falls.
//!
//! Beside the bound this says of every choice what a plan with it costs at least. What is dearer
//! than a known plan goes for good (*reduced cost fixing*), and mostly few choices are left, for
//! which elimination is exact; the choices nearest to the bound are where good plans are sought.
//! [`crate::solver::anytime`] puts the three together. Alternatives: mini-buckets alone leave gaps of ten
//! percent on three axes; a general linear programme solver takes minutes for what these sweeps do
//! in milliseconds, for the trees are dynamic programmes.

use std::sync::Arc;

use crate::reshard::sharding_space::State;
use crate::search::problem::{Choice, Demand, Problem, Root};
use crate::solver::marginals::{
    Inside, Marginals, Metric, NEVER, inside, lesser, marginals, seconds,
};
use crate::solver::weight::Weight;

/// Uses whose trees are taken together at most, and what that may look at: both double with each.
/// Of a value with more, several trees at their share of the price, which is a bound still.
const TOGETHER: usize = 8;
const LOOKS: usize = 1 << 22;

/// Uses in each of several groups, at most.
const GROUP: usize = 6;

/// Of so many uses, how many are taken together.
fn together(metric: &Metric, uses: usize) -> usize {
    let fits = |&uses: &usize| metric.size() << uses <= LOOKS;
    let most = (2..=TOGETHER).rev().find(fits).unwrap_or(2);
    if uses <= most { most } else { most.min(GROUP) }
}

/// What differs by less than this share of the whole is rounding.
const ROUNDING: f64 = 1e-9;

/// Which end of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Root,
    Use(usize),
}

/// Where a choice and a tree must agree on a state.
#[derive(Clone)]
pub(crate) struct Joint {
    pub(crate) variable: usize,
    pub(crate) source: usize,
    pub(crate) end: End,
    /// For each choice of the operation, in which state its operand or result is here: one run of
    /// memory, for there may be a million choices.
    pub(crate) states: Arc<[u32]>,
    /// What the operation pays in each state, and the source gets.
    price: Vec<f64>,
    /// States that some plan worth looking at has here.
    live: Vec<bool>,
}

impl Joint {
    /// For every choice of the operation, its state.
    pub(crate) fn states(&self) -> impl Iterator<Item = State> {
        self.states.iter().map(|&state| state as State)
    }

    fn of_operation(&self) -> Vec<f64> {
        self.live
            .iter()
            .zip(&self.price)
            .map(|(&live, &price)| if live { price } else { NEVER })
            .collect()
    }

    pub(crate) fn of_source(&self) -> Vec<f64> {
        self.live
            .iter()
            .zip(&self.price)
            .map(|(&live, &price)| if live { -price } else { NEVER })
            .collect()
    }

    /// Takes `share` of what each state costs more than the least, off the operation (or, negative,
    /// off the source).
    fn hand_on(&mut self, marginal: &[f64], least: f64, share: f64) {
        for (price, marginal) in
            self.price.iter_mut().zip(marginal).filter(|(_, marginal)| **marginal < NEVER)
        {
            *price -= share * (marginal - least);
        }
    }
}

/// An operation or a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Operation(usize),
    Source(usize),
}

/// Prices of all joints, and what follows from them.
#[derive(Clone)]
pub struct Dual<'p, 'a> {
    pub(crate) problem: &'p Problem<'a>,
    pub(crate) metrics: &'p [Metric],
    pub(crate) joints: Vec<Joint>,
    pub(crate) joints_of_operation: Vec<Vec<usize>>,
    pub(crate) joints_of_source: Vec<Vec<usize>>,
    /// All parts in the order of the program.
    order: Vec<Part>,
    place_of_operation: Vec<usize>,
    place_of_source: Vec<usize>,
    /// What each choice costs by itself.
    pub(crate) own: Vec<Vec<f64>>,
    least_of_operation: Vec<f64>,
    pub(crate) least_of_source: Vec<f64>,
    /// Trees to the uses of each source as of the way back: until the source is met on the way
    /// forwards, nothing that they depend on is moved.
    kept: Vec<Vec<Inside>>,
    /// For each choice, what a plan with it costs more than the bound at least, as of the last
    /// sweep; infinite if that is too much.
    pub(crate) beyond: Vec<Vec<f64>>,
    /// A plan of this price is known, in seconds.
    pub known_s: f64,
    /// The bound before the pass that is under way.
    before_s: f64,
    /// Numbers looked at so far.
    pub(crate) work: usize,
}

impl<'p, 'a> Dual<'p, 'a> {
    /// With all prices at zero. `metrics` are those of the problem's tables.
    pub fn new(problem: &'p Problem<'a>, metrics: &'p [Metric]) -> Self {
        let mut this = Self {
            problem,
            metrics,
            joints: Vec::new(),
            joints_of_operation: vec![Vec::new(); problem.variables.len()],
            joints_of_source: vec![Vec::new(); problem.sources.len()],
            order: Vec::new(),
            place_of_operation: vec![0; problem.variables.len()],
            place_of_source: vec![0; problem.sources.len()],
            own: problem
                .variables
                .iter()
                .map(|variable| {
                    variable.choices.iter().map(|choice| seconds(choice.weight)).collect()
                })
                .collect(),
            least_of_operation: vec![0.0; problem.variables.len()],
            least_of_source: vec![0.0; problem.sources.len()],
            kept: vec![Vec::new(); problem.sources.len()],
            beyond: problem
                .variables
                .iter()
                .map(|variable| vec![0.0; variable.choices.len()])
                .collect(),
            known_s: NEVER,
            before_s: 0.0,
            work: 0,
        };
        for (number, source) in problem.sources.iter().enumerate() {
            if let Root::Produced(variable) = source.root {
                this.join(variable, number, None, End::Root);
            }
            for (use_number, demand) in source.demands.iter().enumerate() {
                if let Demand::Operand(variable, k) = *demand {
                    this.join(variable, number, Some(k), End::Use(use_number));
                }
            }
        }
        this.set_order();
        this
    }

    fn join(&mut self, variable: usize, source: usize, operand: Option<usize>, end: End) {
        let states = self.metrics[self.problem.sources[source].table].states();
        let state = |choice: &Choice| operand.map_or(choice.gives, |k| choice.needs[k]) as u32;
        let of_choices = self.problem.variables[variable].choices.iter().map(state).collect();
        let mut joint = Joint {
            variable,
            source,
            end,
            states: of_choices,
            price: vec![0.0; states],
            live: vec![false; states],
        };
        for &state in &*joint.states {
            joint.live[state as usize] = true;
        }
        self.joints_of_operation[variable].push(self.joints.len());
        self.joints_of_source[source].push(self.joints.len());
        self.joints.push(joint);
    }

    /// Sources stand behind what gives them, those of declared values before what first uses them.
    fn set_order(&mut self) {
        let place = |(number, joints): (usize, &Vec<usize>)| {
            let operations = joints.iter().map(|&joint| self.joints[joint].variable);
            match self.problem.sources[number].root {
                Root::Produced(variable) => ((variable, 2), Part::Source(number)),
                Root::Fixed(_) => ((operations.min().unwrap_or(0), 0), Part::Source(number)),
            }
        };
        let sources = self.joints_of_source.iter().enumerate().map(place);
        let operations = (0..self.problem.variables.len())
            .map(|variable| ((variable, 1), Part::Operation(variable)));
        let mut placed: Vec<((usize, usize), Part)> = sources.chain(operations).collect();
        placed.sort_by_key(|(place, _)| *place);
        self.order = placed.into_iter().map(|(_, part)| part).collect();
        for (place, part) in self.order.iter().enumerate() {
            match *part {
                Part::Operation(variable) => self.place_of_operation[variable] = place,
                Part::Source(source) => self.place_of_source[source] = place,
            }
        }
    }

    /// Nothing is cheaper, in seconds.
    pub fn bound_s(&self) -> f64 {
        let parts = self.least_of_operation.iter().chain(&self.least_of_source);
        seconds(self.problem.fixed) + parts.sum::<f64>()
    }

    /// Other prices of the choices, infinite for those that may not be taken; those of the joints
    /// stay, and all that was dropped is back.
    pub(crate) fn charge(&mut self, prices: &[Vec<Weight>]) {
        self.own = prices
            .iter()
            .map(|prices| prices.iter().map(|&weight| seconds(weight)).collect())
            .collect();
        self.beyond = self
            .own
            .iter()
            .map(|own| own.iter().map(|&own| if own < NEVER { 0.0 } else { NEVER }).collect())
            .collect();
        self.least_of_operation.fill(0.0);
        self.least_of_source.fill(0.0);
        self.kept.fill(Vec::new());
        for joint in &mut self.joints {
            joint.live.fill(false);
            for (&state, _) in
                joint.states.iter().zip(&self.own[joint.variable]).filter(|(_, own)| **own < NEVER)
            {
                joint.live[state as usize] = true;
            }
        }
    }

    /// Once through the program and back; the bound then.
    pub fn sweep(&mut self) -> f64 {
        self.pass(true);
        self.pass(false);
        self.bound_s()
    }

    fn pass(&mut self, forwards: bool) {
        self.before_s = self.bound_s();
        let last = self.order.len();
        for i in 0..last {
            let part = self.order[if forwards { i } else { last - 1 - i }];
            match part {
                Part::Operation(variable) => self.balance_operation(variable, forwards),
                Part::Source(source) => self.balance_source(source, forwards),
            }
        }
    }

    /// Which of the joints lead to parts that come next, and the share that each of these gets.
    fn next(&self, joints: &[usize], part: Part, forwards: bool) -> (Vec<bool>, f64) {
        let is_next = |&joint: &usize| {
            let Joint { variable, source, .. } = self.joints[joint];
            let (operation, source) =
                (self.place_of_operation[variable], self.place_of_source[source]);
            let later = if matches!(part, Part::Operation(_)) {
                source > operation
            } else {
                operation > source
            };
            later == forwards
        };
        let next: Vec<bool> = joints.iter().map(is_next).collect();
        let ahead = next.iter().filter(|next| **next).count();
        (next, 1.0 / ahead.max(joints.len() - ahead).max(1) as f64)
    }

    /// What a part of a plan may cost more than its least, by the bound before this pass: it has
    /// only risen since.
    fn allowance(&self) -> f64 {
        self.known_s * (1.0 + ROUNDING) - self.before_s
    }

    fn balance_operation(&mut self, variable: usize, forwards: bool) {
        let joints = self.joints_of_operation[variable].clone();
        let known = self.own[variable].iter().zip(&self.beyond[variable]);
        let mut costs: Vec<f64> =
            known.map(|(&own, &beyond)| if beyond < NEVER { own } else { NEVER }).collect();
        for joint in joints.iter().map(|&joint| &self.joints[joint]) {
            let prices = joint.of_operation();
            costs.iter_mut().zip(joint.states()).for_each(|(cost, state)| *cost += prices[state]);
        }
        let least = costs.iter().copied().fold(NEVER, f64::min);
        self.work += costs.len() * (1 + joints.len());
        self.least_of_operation[variable] = least;
        if least == NEVER {
            return;
        }
        let allowance = self.allowance();
        for (cost, beyond) in costs.iter_mut().zip(&mut self.beyond[variable]) {
            *beyond = if *cost - least > allowance { NEVER } else { *cost - least };
            *cost = *beyond + least;
        }
        let (next, share) = self.next(&joints, Part::Operation(variable), forwards);
        for (joint, next) in joints.into_iter().zip(next) {
            let joint = &mut self.joints[joint];
            let mut marginal = vec![NEVER; joint.price.len()];
            for (state, &cost) in joint.states().zip(&costs) {
                marginal[state] = lesser(marginal[state], cost);
            }
            for (live, marginal) in joint.live.iter_mut().zip(&marginal) {
                *live &= *marginal < NEVER;
            }
            if next {
                joint.hand_on(&marginal, least, share);
            }
        }
    }

    fn balance_source(&mut self, number: usize, forwards: bool) {
        let joints = self.joints_of_source[number].clone();
        let (next, share) = self.next(&joints, Part::Source(number), forwards);
        let with_uses = joints
            .iter()
            .zip(&next)
            .any(|(&joint, &next)| next && self.joints[joint].end != End::Root);
        let Some((least, marginals)) = self.of_source(number, &joints, with_uses) else { return };
        self.least_of_source[number] = least;
        if least == NEVER {
            return;
        }
        let allowance = self.allowance();
        for ((joint, marginal), next) in joints.into_iter().zip(marginals).zip(next) {
            let (joint, Some(marginal)) = (&mut self.joints[joint], marginal) else { continue };
            for (live, marginal) in joint.live.iter_mut().zip(&marginal) {
                *live &= marginal - least <= allowance;
            }
            if next {
                joint.hand_on(&marginal, least, -share);
            }
        }
    }

    /// A source's least, and for each of its joints that with the joint in each state, of uses only
    /// if they are asked for; nothing for what is not used.
    fn of_source(
        &mut self,
        number: usize,
        joints: &[usize],
        with_uses: bool,
    ) -> Option<(f64, Vec<Option<Vec<f64>>>)> {
        let source = &self.problem.sources[number];
        let metric = &self.metrics[source.table];
        let prices = |end: End| {
            joints
                .iter()
                .find(|&&joint| self.joints[joint].end == end)
                .map(|&joint| self.joints[joint].of_source())
        };
        let root = match source.root {
            Root::Fixed(state) => at(metric, &[state]),
            Root::Produced(_) => prices(End::Root)?,
        };
        let ends = source.demands.iter().enumerate().map(|(i, demand)| match demand {
            Demand::Fixed(states) => Some(at(metric, states)),
            Demand::Operand(..) => prices(End::Use(i)),
        });
        let ends: Vec<Vec<f64>> = ends.collect::<Option<_>>()?;
        if ends.is_empty() {
            return None;
        }
        let times = source.times as f64;
        let start = source.home.as_ref().map(|home| only(home, &metric.onwards(times, &root)));
        let ends: Vec<&[f64]> = ends.iter().map(Vec::as_slice).collect();
        let mut trees = std::mem::take(&mut self.kept[number]);
        let mut walks = usize::from(with_uses);
        if trees.is_empty() {
            trees = ends
                .chunks(together(metric, ends.len()))
                .map(|group| inside(metric, times * share(group, &ends), group))
                .collect();
            walks += 1;
        }
        let mut found =
            shared(metric, times, start.as_ref().unwrap_or(&root), (&ends, &trees), with_uses);
        if !with_uses {
            self.kept[number] = trees;
        }
        let beyond = source
            .home
            .as_ref()
            .map(|home| metric.backwards(times, &only(home, &found.beyond)))
            .unwrap_or(found.beyond);
        let together = together(metric, ends.len());
        self.work +=
            ends.len().div_ceil(together) * ((walks * metric.size()) << ends.len().min(together));
        let of_joint = |&joint: &usize| match self.joints[joint].end {
            End::Root => {
                Some(root.iter().zip(&beyond).map(|(root, beyond)| root + beyond).collect())
            }
            End::Use(i) => found.of_use.get_mut(i).map(std::mem::take),
        };
        Some((found.least, joints.iter().map(of_joint).collect()))
    }
}

/// Nothing to pay in these states, and no other.
pub(crate) fn at(metric: &Metric, states: &[State]) -> Vec<f64> {
    only(states, &vec![0.0; metric.states()])
}

/// These prices in these states only.
pub(crate) fn only(states: &[State], prices: &[f64]) -> Vec<f64> {
    let mut kept = vec![NEVER; prices.len()];
    for &state in states {
        kept[state] = prices[state];
    }
    kept
}

/// The marginals of a tree to many uses: of trees to some of them each, at their share of the
/// price. The whole costs as much as any of its parts, so it costs at least their mean. What the
/// root may give away in a state is what every part can spare there at its share.
fn shared(
    metric: &Metric,
    times: f64,
    root: &[f64],
    (ends, trees): (&[&[f64]], &[Inside]),
    with_uses: bool,
) -> Marginals {
    if let [whole] = trees {
        return marginals(metric, times, root, (ends, whole), with_uses);
    }
    let mut all = Marginals { beyond: vec![NEVER; root.len()], ..Marginals::default() };
    for (group, trees) in ends.chunks(together(metric, ends.len())).zip(trees) {
        let share = share(group, ends);
        let own_root: Vec<f64> = root.iter().map(|price| price * share).collect();
        let part = marginals(metric, times * share, &own_root, (group, trees), with_uses);
        all.least += part.least;
        let spared = part.beyond.iter().map(|beyond| (beyond - part.least) / share);
        all.beyond
            .iter_mut()
            .zip(spared)
            .for_each(|(least, spared)| *least = lesser(*least, spared));
        all.of_use.extend(part.of_use.into_iter().map(|of_use| {
            of_use.iter().map(|marginal| marginal - part.least).collect::<Vec<f64>>()
        }));
    }
    let least = all.least;
    all.beyond
        .iter_mut()
        .chain(all.of_use.iter_mut().flatten())
        .for_each(|beyond| *beyond += least);
    all
}

/// A group's share of the price: as large as its share of the uses.
fn share(group: &[&[f64]], ends: &[&[f64]]) -> f64 {
    group.len() as f64 / ends.len() as f64
}
