//! The part of all shardings that one search looks at, where a value has more of them than can be
//! tabulated: their number grows with the factorial of the axes.
//!
//! A part has *groups* of mesh axes. The axes of a group are used together and in one order, so a
//! part of a mesh of eight axes has as many shardings as a mesh of three or four, and the steps
//! from one to another: one axis of a group after another is appended by slices. Beside these it
//! has the shardings that brackets name, with all shardings on the way to them and on the [direct
//! way](crate::reshard::direct) from one to another, those of the best plan so far, and the layouts
//! of each operation in which the axes of its brackets, or of what it reads and gives, are groups
//! of their own. [`crate::search::parts`] searches several parts, each around the best plan of
//! those before it.
//!
//! Alternatives: *the shardings with their axes in the order of the mesh* are too many as well (7
//! to the power of the axes for a value of five dimensions), and lack the steps between them;
//! *shardings made when a shortest path reaches them* help the textbook, which asks for few paths,
//! but bounds need the distances to all shardings that any plan can use.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::program::{Op, Program};
use shardwise_ir::sharding::{AxisList, AxisRef, Pin, Reduction, Sharding, Unreduced};

use crate::layouts::local_shape;
use crate::layouts::op_layouts::Layout;
use crate::reshard::direct::direct_way;
use crate::reshard::relaxed::AxisClasses;

/// Shardings of one value that are tabulated: up to so many, a space has all of them.
pub(crate) const MOST_STATES: u64 = 4500;

/// Shardings by groups of a value, at most: the others are those of brackets and layouts.
const MOST_BY_GROUPS: u64 = 1800;

/// Groups of the axes of one operation, at most: layouts grow like shardings.
const MOST_OF_OPERATION: usize = 5;

/// A part of the shardings of a program.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The axes that split anything, in groups.
    pub(crate) groups: Vec<AxisList>,
    /// Whether it has all shardings: each axis is a group.
    pub(crate) is_whole: bool,
    /// The classes of axes, where all shardings that are alike by them are one: then there is no
    /// plan in it, but a bound.
    pub(crate) classes: Option<AxisClasses>,
    /// Shardings beside those by groups.
    more: IndexMap<ValueId, IndexSet<Sharding>, FxBuildHasher>,
    /// The layouts of the best plan so far, for each operation.
    best: Vec<Option<Layout>>,
}

impl Part {
    /// All shardings, or where they are too many those of the first grouping of axes.
    pub(crate) fn first(program: &Program) -> Self {
        let all: Vec<AxisRef> = program.mesh.splitting().map(AxisRef::whole).collect();
        let fits =
            |axes: &Vec<AxisRef>| states_at_most(axes.len(), most_dims(program)) <= MOST_STATES;
        let axes = if fits(&all) { all } else { useful(program) };
        if fits(&axes) {
            let groups = axes.into_iter().map(|axis| AxisList::from_elem(axis, 1)).collect();
            let (more, best) = (IndexMap::default(), Vec::new());
            return Self { groups, is_whole: true, classes: None, more, best };
        }
        Self::of(program, 0)
    }

    /// All shardings, those that are alike by few enough classes of axes as one; `None` where axes
    /// are too many and not alike.
    pub(crate) fn relaxed(program: &Program) -> Option<Self> {
        let axes = useful(program);
        let (named, stages) = (named(pins(program).map(|(_, pin)| pin)), stages(program));
        let apart = |axis: AxisRef| named.contains(&axis) || stages.contains(&axis);
        let classes = AxisClasses::new(program, &axes, apart, most_dims(program))?;
        let groups = axes.into_iter().map(|axis| AxisList::from_elem(axis, 1)).collect();
        let (more, best) = (IndexMap::default(), Vec::new());
        Some(Self { groups, is_whole: true, classes: Some(classes), more, best })
    }

    /// Whether a pin accepts a sharding of this part.
    pub(crate) fn accepts(&self, pin: &Pin, sharding: &Sharding) -> bool {
        match &self.classes {
            Some(classes) => classes.accepts(pin, sharding),
            None => pin.accepts(sharding),
        }
    }

    /// The part of the `number`-th grouping around a plan.
    pub(crate) fn around(program: &Program, number: usize, plan: &Plan) -> Self {
        let mut this = Self::of(program, number);
        this.best = vec![None; program.ops.len()];
        for step in &plan.steps {
            for at in step.operands.iter().chain([&step.result]) {
                this.more.entry(at.value).or_default().insert(at.sharding.clone());
            }
            if let StepKind::Local(op) = step.kind {
                let read = step.operands.iter().take(program.ops[op].sharded_operands().len());
                let operands = read.map(|at| at.sharding.clone()).collect();
                let result = step.result.sharding.clone();
                this.best[op.index()] = Some(Layout { operands, result });
            }
        }
        this
    }

    fn of(program: &Program, number: usize) -> Self {
        let mut named: IndexMap<ValueId, IndexSet<Sharding>, FxBuildHasher> = IndexMap::default();
        for (value, pin) in pins(program) {
            named.entry(value).or_default().extend(pin.exact());
        }
        let more = named.into_iter().map(|(value, shardings)| {
            let on_the_way = shardings.iter().flat_map(on_the_way);
            let between = shardings
                .iter()
                .flat_map(|from| shardings.iter().flat_map(move |to| direct_way(from, to)));
            (value, on_the_way.chain(between).collect())
        });
        let more = more.collect();
        let groups = grouping(program, number);
        Self { groups, is_whole: false, classes: None, more, best: Vec::new() }
    }

    /// The groups for the layouts of an operation.
    pub(crate) fn groups_of(&self, program: &Analyzed, op: &Op) -> Vec<AxisList> {
        if self.is_whole {
            return self.groups.clone();
        }
        let read = op.operands.iter().filter_map(|operand| operand.pin.as_ref());
        let mut named = named(read.chain(&op.result_pin));
        let about = op.operands.iter().map(|operand| operand.value).chain([op.result]);
        let flow = program.dataflow();
        for value in about {
            let of_outputs = flow.outputs_of(value).map(|output| &program.outputs[output].pin);
            let declared = program.values[value].declared_sharding.iter();
            named.extend(self::named(declared.chain(of_outputs)));
        }
        let rest = |group: &AxisList| -> AxisList {
            group.iter().copied().filter(|axis| !named.contains(axis)).collect()
        };
        let rest: Vec<AxisList> =
            self.groups.iter().map(rest).filter(|group| !group.is_empty()).collect();
        if named.len() + rest.len() > MOST_OF_OPERATION {
            return self.groups.clone();
        }
        named.into_iter().map(|axis| AxisList::from_elem(axis, 1)).chain(rest).collect()
    }

    /// The layout of an operation in the best plan so far.
    pub(crate) fn best_layout(&self, op: usize) -> Option<&Layout> {
        self.best.get(op)?.as_ref()
    }

    /// Shardings of a value beside those by groups.
    pub(crate) fn more(&self, value: ValueId) -> impl Iterator<Item = &Sharding> {
        self.more.get(&value).into_iter().flatten()
    }
}

/// Every bracket of a program, with its value.
fn pins(program: &Program) -> impl Iterator<Item = (ValueId, &Pin)> {
    let values = program.values.iter_enumerated();
    let declared = values.filter_map(|(id, value)| Some((id, value.declared_sharding.as_ref()?)));
    let read = program.ops.iter().flat_map(|op| {
        let operands =
            op.operands.iter().filter_map(|operand| Some((operand.value, operand.pin.as_ref()?)));
        operands.chain(op.result_pin.as_ref().map(|pin| (op.result, pin)))
    });
    declared.chain(read).chain(program.outputs.iter().map(|output| (output.value, &output.pin)))
}

/// The axes that brackets name.
fn named<'p>(pins: impl Iterator<Item = &'p Pin>) -> IndexSet<AxisRef> {
    let of_pin = |pin: &'p Pin| {
        let split = pin.dims.iter().flat_map(|dim| dim.named().iter().copied());
        split.chain(pin.unreduced.axes().iter().copied())
    };
    pins.flat_map(of_pin).collect()
}

/// A sharding, and those that lead to it by appending one axis after another: for each dimension
/// the first few of its axes.
fn on_the_way(sharding: &Sharding) -> Vec<Sharding> {
    let none = Unreduced::new(sharding.unreduced.kind(), []);
    let mut found = vec![Sharding { unreduced: none, ..Sharding::replicated(sharding.dims.len()) }];
    for (position, axes) in sharding.dims.iter().enumerate() {
        for i in 0..found.len() {
            for length in 1..=axes.len() {
                let mut longer = found[i].clone();
                longer.dims[position] = axes[..length].into();
                found.push(longer);
            }
        }
    }
    let pending = found
        .iter()
        .map(|before| Sharding { unreduced: sharding.unreduced.clone(), ..before.clone() });
    let pending: Vec<Sharding> = pending.filter(|_| !sharding.unreduced.is_empty()).collect();
    found.extend(pending);
    found
}

/// The axes that can split a dimension, or that brackets name.
fn useful(program: &Program) -> Vec<AxisRef> {
    let named = named(pins(program).map(|(_, pin)| pin));
    let splits = |axis: AxisRef| {
        program.values.iter().any(|value| {
            let divided = |&dim| local_shape::divides(program, value.repeat, dim, &[axis]);
            value.dims.iter().any(divided)
        })
    };
    let stages = stages(program);
    let axes = program.mesh.splitting().map(AxisRef::whole);
    axes.filter(|axis| named.contains(axis) || stages.contains(axis) || splits(*axis)).collect()
}

/// The axes on which pipelines have their stages.
fn stages(program: &Program) -> IndexSet<AxisRef> {
    let pipelines = program.repeats.iter().filter_map(|of| of.pipeline.as_ref());
    pipelines.map(|of| AxisRef::whole(of.axis)).collect()
}

/// The largest number of dimensions of a value.
fn most_dims(program: &Program) -> usize {
    program.values.iter().map(|value| value.dims.len()).max().unwrap_or(0)
}

/// The number of shardings of `rank` dimensions on `axes` axes, ignoring divisibility: used axes
/// are ordered in lists, each other axis is pending or not.
fn states_at_most(axes: usize, rank: usize) -> u64 {
    let (axes, rank) = (axes as u64, rank as u64);
    let mut total = 0_u64;
    let mut arranged = 1_u64;
    for used in 0..=axes {
        total = total.saturating_add(arranged.saturating_mul(1 << (axes - used)));
        arranged = arranged.saturating_mul(axes - used).saturating_mul(rank + used) / (used + 1);
    }
    total
}

/// The axes in as many groups as keep the shardings few: first those that are next to each other
/// in brackets are kept together, later groupings take them in another order.
fn grouping(program: &Program, number: usize) -> Vec<AxisList> {
    let stages = stages(program);
    let axes = useful(program).into_iter().filter(|axis| !stages.contains(axis));
    let axes = in_order(program, axes.collect(), number);
    let rank = most_dims(program);
    let fits = |&groups: &usize| {
        // The first axes of a group that is appended last.
        let partly = 1 + rank * (axes.len() - groups) / 2;
        states_at_most(groups, rank).saturating_mul(partly as u64) <= MOST_BY_GROUPS
    };
    let groups = (1..=axes.len()).rev().find(fits).unwrap_or(1);
    let mut dealt = vec![AxisList::new(); groups];
    let (size, larger) = (axes.len() / groups, axes.len() % groups);
    let mut left = axes.into_iter();
    for (i, group) in dealt.iter_mut().enumerate() {
        // Which of the groups are the larger ones changes from one grouping to the next.
        let is_larger = (i + groups - number % groups) % groups >= groups - larger;
        group.extend(left.by_ref().take(size + usize::from(is_larger)));
    }
    dealt.extend(stages.into_iter().map(|axis| AxisList::from_elem(axis, 1)));
    dealt.retain(|group| !group.is_empty());
    dealt
}

/// Axes in an order in which groups are cut off: that in which brackets name them, those that
/// none names at the end; in later groupings every so many axes apart.
fn in_order(program: &Program, axes: Vec<AxisRef>, number: usize) -> Vec<AxisRef> {
    let mut order = named(pins(program).map(|(_, pin)| pin));
    order.retain(|axis| axes.contains(axis));
    order.extend(axes.iter().copied());
    let order: Vec<AxisRef> = order.into_iter().collect();
    let (count, start) = (order.len(), number / 2);
    // A step that has no divisor in common with the number of axes reaches each of them once.
    let steps: Vec<usize> = (1..count.max(2)).filter(|&step| gcd(step, count) == 1).collect();
    let step = steps[number % steps.len()];
    (0..count).map(|i| order[(start + i * step) % count]).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What determines the shardings of a value by groups.
pub(crate) struct Grouped<'g> {
    /// The program, for the sizes of its axes.
    pub(crate) program: &'g Program,
    /// The groups without axes that cannot split the value.
    pub(crate) groups: &'g [AxisList],
    /// Classes of axes, if shardings that are alike by them are one.
    pub(crate) classes: Option<&'g AxisClasses>,
    /// The size of each dimension, and whether it is padded.
    pub(crate) sizes: &'g [(u64, bool)],
    /// The reduction of partial results, if there can be any.
    pub(crate) partial: Option<Reduction>,
}

impl Grouped<'_> {
    /// All shardings by groups, the replicated one first; after them those in which the last group
    /// is appended in part.
    pub(crate) fn shardings(&self) -> IndexSet<Sharding, FxBuildHasher> {
        let mut found: IndexSet<Sharding, FxBuildHasher> = IndexSet::default();
        found.insert(Sharding::replicated(self.sizes.len()));
        let mut next = 0;
        while next < found.len() {
            let current = found[next].clone();
            next += 1;
            for group in self.unused(&current) {
                self.split(&current, group, &mut found);
                if let Some(kind) = self.partial {
                    let pending = current.unreduced.axes().iter().chain(group).copied();
                    let unreduced = Unreduced::new(kind, pending);
                    self.insert(Sharding { unreduced, ..current.clone() }, &mut found);
                }
            }
        }
        for whole in 0..found.len() {
            let current = found[whole].clone();
            for group in self.unused(&current) {
                for length in 1..group.len() {
                    self.split(&current, &group[..length], &mut found);
                }
            }
        }
        found
    }

    fn unused<'s>(&'s self, current: &Sharding) -> impl Iterator<Item = &'s AxisList> {
        self.groups.iter().filter(move |group| !group.iter().any(|&axis| current.uses(axis)))
    }

    /// Appends axes to each dimension that they divide.
    fn split(
        &self,
        current: &Sharding,
        group: &[AxisRef],
        found: &mut IndexSet<Sharding, FxBuildHasher>,
    ) {
        for (position, &(size, pad)) in self.sizes.iter().enumerate() {
            let mut axes = current.dims[position].clone();
            axes.extend(group.iter().copied());
            if pad || size.is_multiple_of(local_shape::parts(&self.program.mesh, &axes)) {
                let mut sharding = current.clone();
                sharding.dims[position] = axes;
                self.insert(sharding, found);
            }
        }
    }

    fn insert(&self, sharding: Sharding, found: &mut IndexSet<Sharding, FxBuildHasher>) {
        found.insert(match self.classes {
            Some(classes) => classes.canonical(&sharding),
            None => sharding,
        });
    }
}
