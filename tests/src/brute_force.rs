//! Finds the cheapest plan of a small program by enumeration: implemented independently of the
//! planner, from the language and the cost model alone.
//!
//! For every combination of layouts of all operations, the cheapest tree of every value is found by
//! trying all forks, on distances by Floyd and Warshall over single steps. Nothing is pruned.
//!
//! A block has one layout for all its layers: its statements count once per layer, and a yielded
//! value has the sharding in which it enters the first layer.

mod distances;
mod layouts;
mod schedules;
mod within_memory;

use std::collections::BTreeMap;

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{AxisId, DimId, RepeatId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind};
use shardwise_ir::sharding::{AxisRef, Pin, Reduction, Sharding, Unreduced};

pub use schedules::shortest_schedule;
pub use within_memory::optimum_within;

/// Axes of each dimension, major to minor, and the set of pending ones.
type State = (Vec<Vec<usize>>, Vec<usize>);

/// The objective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// All steps.
    Serial,
    /// Collectives.
    Comm,
}

/// The least cost in seconds of any plan of `program` (no written collectives, no pads, no sums
/// over layers), or infinity.
pub fn optimum(program: &Analyzed, goal: Goal) -> f64 {
    let brute = Brute { program, goal };
    let spaces: Vec<Space> = program.values.indices().map(|value| brute.space(value)).collect();
    let layouts: Vec<Vec<Layout>> = program.ops.iter().map(|op| brute.layouts(op)).collect();
    let pinned = brute.pinned();
    let mut picked = vec![0; layouts.len()];
    let mut best = f64::INFINITY;
    if layouts.iter().any(Vec::is_empty) {
        return best;
    }
    loop {
        best = best.min(brute.price(&spaces, &pinned, &layouts, &picked));
        let Some(digit) = (0..picked.len()).find(|&d| picked[d] + 1 < layouts[d].len()) else {
            return best;
        };
        picked[digit] += 1;
        picked[..digit].fill(0);
    }
}

/// Axes of each index, and of each pass-through.
type Assignment = (Vec<Vec<usize>>, Vec<Vec<usize>>);

/// The shardings of an operation's operands and result, and its time.
struct Layout {
    needs: Vec<State>,
    gives: State,
    seconds: f64,
}

/// All states of a value, and the least time between any two.
struct Space {
    number: BTreeMap<State, usize>,
    distance: Vec<Vec<f64>>,
}

/// The states that the program's brackets accept, by their numbers.
struct Pinned {
    /// Of every value that is declared, or that has brackets where it is made.
    values: Vec<Option<Vec<usize>>>,
    outputs: Vec<Vec<usize>>,
}

struct Brute<'a> {
    program: &'a Analyzed,
    goal: Goal,
}

impl Brute<'_> {
    fn axes(&self) -> usize {
        self.program.mesh.axes.len()
    }

    fn size(&self, axis: usize) -> u64 {
        self.program.mesh.axes[AxisId::new(axis)].size
    }

    fn parts(&self, axes: &[usize]) -> u64 {
        axes.iter().map(|&axis| self.size(axis)).product()
    }

    fn divides(&self, dim: DimId, axes: &[usize]) -> bool {
        self.program.dims[dim].size.is_multiple_of(self.parts(axes))
    }

    fn bytes(&self, value: ValueId, state: &State) -> f64 {
        let value = &self.program.values[value];
        let elements: f64 = value
            .dims
            .iter()
            .zip(&state.0)
            .map(|(&dim, axes)| (self.program.dims[dim].size / self.parts(axes)) as f64)
            .product();
        elements * f64::from(value.dtype.bits()) / 8.0
    }

    /// Bytes read of a value that the reader converts from what is in memory.
    fn bytes_read(&self, value: ValueId, state: &State) -> f64 {
        let of = &self.program.values[value];
        let stored = of.stored_as.unwrap_or(of.dtype).bits();
        self.bytes(value, state) * f64::from(stored) / f64::from(of.dtype.bits())
    }

    /// How often the statements of a block run.
    fn times(&self, block: Option<RepeatId>) -> f64 {
        block.map_or(1.0, |block| self.program.layer_count(Some(block)) as f64)
    }

    fn pinned(&self) -> Pinned {
        let values =
            self.program.values.iter_enumerated().map(|(id, value)| {
                value.declared_sharding.as_ref().map(|pin| self.accepted(id, pin))
            });
        let outputs = self.program.outputs.iter();
        Pinned {
            values: values.collect(),
            outputs: outputs.map(|output| self.accepted(output.value, &output.pin)).collect(),
        }
    }

    fn accepted(&self, value: ValueId, pin: &Pin) -> Vec<usize> {
        let states = self.states(&self.program.values[value].dims).into_iter().enumerate();
        let accepted = states.filter(|(_, state)| pin.accepts(&sharding(state)));
        accepted.map(|(number, _)| number).collect()
    }

    /// For each operation, the seconds in which its kernel reads what other operations of it have
    /// read but a smaller block of.
    fn read_beyond(&self, chosen: &[&Layout]) -> Vec<f64> {
        let bandwidth = self.program.hardware.hbm_bandwidth.unwrap_or(f64::INFINITY);
        let mut read: BTreeMap<(u32, bool, ValueId), f64> = BTreeMap::new();
        let of_op = |(op, layout): (&Op, &&Layout)| {
            let reads_all = !matches!(
                op.kind,
                OpKind::Rearrange(_)
                    | OpKind::Gather { .. }
                    | OpKind::ScatterAdd { .. }
                    | OpKind::Update { .. }
            );
            let Some(kernel) = op.kernel.number.filter(|_| reads_all) else { return 0.0 };
            let mut beyond = 0.0;
            for (k, operand) in op.operands.iter().enumerate() {
                let bytes = self.bytes(operand.value, &layout.needs[k]);
                let most = read.entry((kernel, op.is_product(), operand.value)).or_insert(bytes);
                if op.kernel.has_read_before(k) && bytes > *most {
                    beyond += (bytes - *most) / bandwidth;
                }
                *most = most.max(bytes);
            }
            if self.goal == Goal::Serial { beyond } else { 0.0 }
        };
        self.program.ops.iter().zip(chosen).map(of_op).collect()
    }

    fn price(
        &self,
        spaces: &[Space],
        pinned: &Pinned,
        layouts: &[Vec<Layout>],
        picked: &[usize],
    ) -> f64 {
        let chosen: Vec<&Layout> =
            layouts.iter().zip(picked).map(|(layouts, &i)| &layouts[i]).collect();
        let own: f64 = self
            .program
            .ops
            .iter()
            .zip(&chosen)
            .zip(self.read_beyond(&chosen))
            .map(|((op, layout), beyond)| self.times(op.repeat) * (layout.seconds + beyond))
            .sum();
        let mut total = own;
        for (id, value) in self.program.values.iter_enumerated() {
            let space = &spaces[id.index()];
            let mut uses: Vec<Vec<usize>> = Vec::new();
            for (op, layout) in self.program.ops.iter().zip(&chosen) {
                for (operand, need) in op.operands.iter().zip(&layout.needs) {
                    if operand.value == id {
                        uses.push(vec![space.number[need]]);
                    }
                }
            }
            let outputs = self.program.outputs.iter().zip(&pinned.outputs);
            uses.extend(outputs.filter(|(output, _)| output.value == id).map(
                |(output, accepted)| {
                    let entered = output
                        .yields_to
                        .and_then(|enters| self.program.dataflow().definition(enters));
                    entered.map_or_else(
                        || accepted.clone(),
                        |entry| vec![space.number[&chosen[entry.index()].gives]],
                    )
                },
            ));
            // A loop-carried value has the sharding of its brackets from the start, without a
            // reshard.
            let producer = self.program.dataflow().definition(id);
            let enters = producer.is_some_and(|op| self.program.ops[op].is(&MapForm::LoopCarried));
            let declared = pinned.values[id.index()].as_ref().filter(|_| !enters);
            total += self.times(value.repeat)
                * match (producer, declared) {
                    (None, Some(declared)) => declared
                        .iter()
                        .map(|&start| tree(space, start, &uses))
                        .fold(f64::INFINITY, f64::min),
                    (None, None) => f64::INFINITY,
                    (Some(op), declared) => {
                        let given = space.number[&chosen[op.index()].gives];
                        declared
                            .map_or(&[given][..], Vec::as_slice)
                            .iter()
                            .map(|&start| space.distance[given][start] + tree(space, start, &uses))
                            .fold(f64::INFINITY, f64::min)
                    }
                };
        }
        total
    }
}

/// The cheapest tree from `root` to one state of each use: it forks at some state, and each branch
/// reaches a part of the uses.
fn tree(space: &Space, root: usize, uses: &[Vec<usize>]) -> f64 {
    match uses {
        [] => 0.0,
        [one] => one.iter().map(|&to| space.distance[root][to]).fold(f64::INFINITY, f64::min),
        _ => {
            let all = (1_u32 << uses.len()) - 1;
            let pick = |mask: u32| {
                uses.iter()
                    .enumerate()
                    .filter(|(i, _)| mask >> i & 1 == 1)
                    .map(|(_, u)| u.clone())
                    .collect::<Vec<_>>()
            };
            let mut best = f64::INFINITY;
            for fork in 0..space.distance.len() {
                let way = space.distance[root][fork];
                if way >= best {
                    continue;
                }
                for part in (1..all).filter(|part| part & 1 == 1) {
                    best = best.min(
                        way + tree(space, fork, &pick(part)) + tree(space, fork, &pick(all ^ part)),
                    );
                }
            }
            best
        }
    }
}

fn sharding(state: &State) -> Sharding {
    let axis = |&axis: &usize| AxisRef::whole(AxisId::new(axis));
    Sharding {
        dims: state.0.iter().map(|axes| axes.iter().map(axis).collect()).collect(),
        unreduced: Unreduced::new(Reduction::Sum, state.1.iter().map(axis)),
    }
}
