//! The shardings of a shape, and every way to make a single step from one to another, without its
//! seconds.
//!
//! Most shapes of a program have the same shardings (most sizes are divisible by all axes), and
//! therefore the same ways, which take longer to find than to price. So they are found once for
//! all of these shapes; [`crate::reshard::step_table`] prices them for each.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::AxisId;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

use crate::cost::collective::{is_priced_by_result, participating_axes, volume_side};
use crate::layouts::local_shape;
use crate::reshard::part::{Grouped, MOST_STATES, Part};
use crate::reshard::relaxed::{self, AxisClasses};
use crate::reshard::sharding_space::{State, slices_in};
use crate::reshard::step_table::ValueShape;
use crate::reshard::steps::{self, Targets};
use crate::solver::interrupt::Interrupt;

/// The shardings of a shape, numbered.
#[derive(Debug)]
pub(super) struct States {
    /// In the order of their numbers.
    pub(super) all: IndexSet<Sharding, FxBuildHasher>,
    /// Classes of axes, if shardings that are alike by them are one.
    classes: Option<AxisClasses>,
}

impl States {
    /// The states of the values of a shape in a part of all shardings, with `more` of them: those
    /// by groups of axes, and of the others as many as can be tabulated.
    pub(super) fn of_shape(
        program: &Program,
        shape: &ValueShape,
        part: &Part,
        more: &IndexSet<Sharding, FxBuildHasher>,
    ) -> Self {
        let is_staged = |axis: &AxisRef| Some(axis.axis()) == shape.staged_over;
        let groups: Vec<AxisList> =
            part.groups.iter().filter(|group| !group.iter().any(is_staged)).cloned().collect();
        let ValueShape { sizes, partial, .. } = shape;
        let classes = part.classes.as_ref();
        let groups = Grouped { program, groups: &groups, classes, sizes, partial: *partial };
        let mut all = groups.shardings();
        for sharding in more {
            if all.len() as u64 >= MOST_STATES {
                break;
            }
            if is_of_shape(program, shape, sharding) {
                all.insert(sharding.clone());
            }
        }
        Self { all, classes: part.classes.clone() }
    }

    /// The number of a sharding.
    pub(super) fn find(&self, sharding: &Sharding) -> Option<State> {
        match &self.classes {
            Some(classes) => self.all.get_index_of(&classes.canonical(sharding)),
            None => self.all.get_index_of(sharding),
        }
    }

    /// For each state, those with the same number of parts of every dimension and the same pending
    /// sums, itself included.
    fn alike(&self, program: &Program) -> Vec<Arc<[State]>> {
        let mut groups: IndexMap<(Vec<u64>, &Unreduced), Vec<State>, FxBuildHasher> =
            IndexMap::default();
        let mut group_of = Vec::with_capacity(self.all.len());
        for (state, sharding) in self.all.iter().enumerate() {
            let parts =
                sharding.dims.iter().map(|axes| local_shape::parts(&program.mesh, axes)).collect();
            let entry = groups.entry((parts, &sharding.unreduced));
            group_of.push(entry.index());
            entry.or_default().push(state);
        }
        let groups: Vec<Arc<[State]>> = groups.into_values().map(Into::into).collect();
        group_of.into_iter().map(|group| Arc::clone(&groups[group])).collect()
    }
}

/// Whether a sharding divides the sizes of a shape, and is partial only where the shape can be.
fn is_of_shape(program: &Program, shape: &ValueShape, sharding: &Sharding) -> bool {
    let divides = |(&(size, pad), axes): (&(u64, bool), &AxisList)| {
        pad || size.is_multiple_of(local_shape::parts(&program.mesh, axes))
    };
    let is_partial = !sharding.unreduced.is_empty();
    shape.sizes.iter().zip(&sharding.dims).all(divides)
        && (!is_partial || shape.partial == Some(sharding.unreduced.kind()))
        && !sharding.axes().any(|axis| Some(axis.axis()) == shape.staged_over)
}

/// What a step does: its price depends on this and on bytes.
pub(super) type Action = (CollectiveKind, Vec<AxisId>);

/// A way to make a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnpricedWay {
    /// The number of the state that it leads to.
    pub(super) to: u32,
    /// The number of its action.
    pub(super) action: u32,
    /// The number of the sharding whose bytes price it: of a state or, after those, of others.
    pub(super) priced_by: u32,
    /// How many steps without time it counts as, beside itself: of equally long ways, one that
    /// needs no other order of blocks is taken, and one without slices in a collective.
    pub(super) more: u8,
}

/// All single steps between the shardings of a shape.
#[derive(Debug)]
pub(super) struct UnpricedSteps {
    /// The shardings between which they are.
    pub(super) states: Arc<States>,
    /// What steps with slices in them leave of a state before they communicate: the shardings that
    /// price them.
    pub(super) sliced: IndexSet<Sharding, FxBuildHasher>,
    /// The distinct actions, by their numbers.
    pub(super) actions: IndexSet<Action, FxBuildHasher>,
    /// The ways from each state, in the order of the states that they lead to.
    pub(super) ways: Vec<Vec<UnpricedWay>>,
}

/// Ways from one state, with numbers of their own for actions and sliced shardings.
struct Ways<'s> {
    states: &'s States,
    from: State,
    all: Vec<UnpricedWay>,
    actions: IndexSet<Action, FxBuildHasher>,
    sliced: IndexSet<Sharding, FxBuildHasher>,
}

impl UnpricedSteps {
    /// The steps between states, of a value that is partial or not; none between those of a value
    /// in the memory of the host. `None` if the time is over before they are found.
    pub(super) fn new(
        program: &Program,
        states: &Arc<States>,
        (partial, is_on_host): (Option<Reduction>, bool),
        interrupt: &Interrupt,
    ) -> Option<Self> {
        let mut steps = Self {
            states: Arc::clone(states),
            sliced: IndexSet::default(),
            actions: IndexSet::default(),
            ways: Vec::with_capacity(states.all.len()),
        };
        if is_on_host {
            steps.ways.resize(states.all.len(), Vec::new());
            return Some(steps);
        }
        let alike = states.alike(program);
        let from = |state: State| {
            interrupt.before_due(|| Ways::from(program, (states, state), (partial, &alike[state])))
        };
        let found: Vec<Ways<'_>> =
            (0..states.all.len()).into_par_iter().map(from).collect::<Option<_>>()?;
        for ways in found {
            steps.add(ways);
        }
        Some(steps)
    }

    /// Adds the ways from the next state.
    fn add(&mut self, ways: Ways<'_>) {
        let states = self.states.all.len();
        let actions = ways.actions.into_iter().map(|action| self.actions.insert_full(action).0);
        let actions: Vec<usize> = actions.collect();
        let sliced = ways.sliced.into_iter().map(|sharding| self.sliced.insert_full(sharding).0);
        let sliced: Vec<usize> = sliced.collect();
        let numbered = |mut way: UnpricedWay| {
            way.action = actions[way.action as usize] as u32;
            if let Some(own) = (way.priced_by as usize).checked_sub(states) {
                way.priced_by = (states + sliced[own]) as u32;
            }
            way
        };
        self.ways.push(ways.all.into_iter().map(numbered).collect());
    }
}

impl<'s> Ways<'s> {
    /// The ways from a state to others, of which some are `alike` it.
    fn from(
        program: &Program,
        (states, from): (&'s States, State),
        (partial, alike): (Option<Reduction>, &[State]),
    ) -> Self {
        let (actions, sliced) = (IndexSet::default(), IndexSet::default());
        let mut ways = Self { states, from, all: Vec::new(), actions, sliced };
        for (kind, target) in targets(program, states, &states.all[from], partial) {
            if let Some(to) = states.find(&target).filter(|&to| to != from) {
                ways.add(to, kind, &target);
            }
        }
        for &to in alike.iter().filter(|&&to| to != from) {
            ways.add(to, CollectiveKind::Permute, &states.all[to]);
        }
        ways.all.sort_by_key(|way| way.to);
        ways
    }

    /// Adds the way to a state by a collective that leads to `target`, which is that state or one
    /// that it stands for.
    fn add(&mut self, to: State, kind: CollectiveKind, target: &Sharding) {
        let from = &self.states.all[self.from];
        let reorders = kind == CollectiveKind::AllToAll && !moves_one_run(from, target);
        let slices = slices_in(&kind, from, target);
        let more = if slices > 0 { slices + 1 } else { usize::from(reorders) };
        let priced_by = if is_priced_by_result(&kind) {
            to
        } else if slices == 0 {
            self.from
        } else {
            let side = volume_side(&kind, from, target).into_owned();
            self.states.all.len() + self.sliced.insert_full(side).0
        };
        let axes = participating_axes(&kind, from, target);
        let action = self.actions.insert_full((kind, axes)).0;
        let (to, action, priced_by) = (to as u32, action as u32, priced_by as u32);
        self.all.push(UnpricedWay { to, action, priced_by, more: more as u8 });
    }
}

/// Where the collectives but for Permutes lead from a sharding.
fn targets(
    program: &Program,
    states: &States,
    from: &Sharding,
    partial: Option<Reduction>,
) -> Targets {
    let mut targets = Targets::new();
    let axes: Vec<AxisRef> = program.mesh.splitting().map(AxisRef::whole).collect();
    let free: Vec<AxisRef> = axes.iter().copied().filter(|&axis| !from.uses(axis)).collect();
    steps::slices(from, &free, &mut targets);
    steps::reduces(from, &mut targets);
    if states.classes.is_some() {
        relaxed::gathers(from, &mut targets);
        relaxed::scatters(from, &mut targets);
        relaxed::exchanges(from, &mut targets);
    } else {
        steps::gathers(from, &mut targets);
        steps::scatters(from, &free, axes.len(), &states.all, &mut targets);
        steps::exchanges(from, &free, axes.len(), &mut targets);
    }
    if partial == Some(Reduction::Sum) {
        steps::unreduces(from, &free, &mut targets);
    }
    targets
}

/// Whether one dimension loses a run of axes, and another one gets them in their order.
fn moves_one_run(from: &Sharding, to: &Sharding) -> bool {
    let changed: Vec<_> = from.dims.iter().zip(&to.dims).filter(|(a, b)| a != b).collect();
    let [(a, b), (c, d)] = changed[..] else { return false };
    let (lost, gained) = if a.len() > b.len() { ((b, a), (c, d)) } else { ((d, c), (a, b)) };
    let run = lost.1.strip_prefix(lost.0.as_slice());
    run.is_some() && run == gained.1.strip_prefix(gained.0.as_slice())
}
