//! The cheapest plan within a limit of memory, by enumeration of everything that may be in memory:
//! Dijkstra's algorithm over sets of live blocks, in which every block may be resharded by every
//! step, kept or dropped at any time. Nothing is pruned but sets in which a value has more blocks
//! than it can still use.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use shardwise_ir::Role;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::ValueId;

use super::{Brute, Goal, Layout, Pinned, State};

/// Sets of live blocks at most: no answer for larger programs.
const MOST_SETS: usize = 20_000;

/// A block: of a value, in a state, and what can be done with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Block {
    value: usize,
    state: usize,
    form: Form,
    /// Whether a reshard made it that nothing has read yet: then it may not be dropped.
    is_unread: bool,
    /// Whether it is in memory only since a reshard will read it: then that has to come.
    is_to_move: bool,
    /// The values on the chip that are computed from it, one bit each: as long as they are there,
    /// their kernel reads it.
    read_for: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Form {
    Memory,
    /// As declared, on the device all the time.
    Resident,
    /// Not yet in the sharding that its author wrote.
    Early,
    /// On the chip: it takes no memory, and nothing but a statement reads it.
    OnChip,
}

/// Before which statement, whether a step has run, and what is live.
type Live = (usize, bool, Vec<Block>);

/// The next set by cost.
#[derive(PartialEq)]
struct Next(f64, Live);

impl Eq for Next {}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then_with(|| other.1.cmp(&self.1))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Memory<'b, 'a> {
    brute: &'b Brute<'a>,
    capacity: f64,
    /// For each value, its states, and the time of single steps between them.
    states: Vec<Vec<State>>,
    steps: Vec<Vec<Vec<f64>>>,
    layouts: Vec<Vec<Layout>>,
    pinned: Pinned,
}

/// The least cost in seconds of any plan of `program` that takes at most `capacity` bytes; infinity
/// if there is none, nothing if there are too many sets to look at.
pub fn optimum_within(program: &Analyzed, capacity: f64) -> Option<f64> {
    let brute = &Brute { program, goal: Goal::Serial };
    let values = || program.values.indices();
    let states: Vec<Vec<State>> =
        values().map(|value| brute.states(&program.values[value].dims)).collect();
    let steps = values().map(|value| {
        let states = &states[value.index()];
        let from = |from| states.iter().map(|to| brute.step(value, from, to)).collect();
        states.iter().map(from).collect()
    });
    let steps = steps.collect();
    let layouts = program.ops.iter().map(|op| brute.layouts(op)).collect();
    Memory { brute, capacity, states, steps, layouts, pinned: brute.pinned() }.least()
}

impl Memory<'_, '_> {
    fn least(&self) -> Option<f64> {
        let mut known: BTreeMap<Live, f64> = BTreeMap::new();
        let mut queue = BinaryHeap::new();
        for start in self.starts() {
            queue.push(Next(0.0, start));
        }
        while let Some(Next(cost, live)) = queue.pop() {
            if known.get(&live).is_some_and(|known| *known <= cost) {
                continue;
            }
            if self.is_end(&live) {
                return Some(cost);
            }
            known.insert(live.clone(), cost);
            if known.len() > MOST_SETS {
                return None;
            }
            for (more, next) in self.next(&live) {
                if known.get(&next).is_none_or(|known| *known > cost + more) {
                    queue.push(Next(cost + more, next));
                }
            }
        }
        Some(f64::INFINITY)
    }

    fn program(&self) -> &Analyzed {
        self.brute.program
    }

    /// The shardings that a value must have where it is declared.
    fn declared(&self, value: usize) -> Option<&[usize]> {
        self.pinned.values[value].as_deref()
    }

    /// All combinations of the shardings of what is declared.
    fn starts(&self) -> Vec<Live> {
        let mut starts = vec![Vec::new()];
        for (id, value) in self.program().values.iter_enumerated() {
            if !value.is_declared() {
                continue;
            }
            let is_resident = matches!(value.role, Some(Role::Param | Role::State));
            let form = if is_resident { Form::Resident } else { Form::Memory };
            let of = self.declared(id.index()).unwrap_or_default();
            starts = of
                .iter()
                .flat_map(|&state| {
                    starts.iter().map(move |start: &Vec<Block>| {
                        let block = Block {
                            value: id.index(),
                            state,
                            form,
                            is_unread: false,
                            is_to_move: false,
                            read_for: 0,
                        };
                        start.iter().copied().chain([block]).collect()
                    })
                })
                .collect();
        }
        starts.into_iter().map(|blocks| (0, false, blocks)).collect()
    }

    fn bytes(&self, block: Block) -> f64 {
        let state = &self.states[block.value][block.state];
        if block.form == Form::OnChip {
            0.0
        } else {
            self.brute.bytes(ValueId::new(block.value), state)
        }
    }

    fn fits(&self, blocks: &[Block]) -> bool {
        blocks.iter().map(|&block| self.bytes(block)).sum::<f64>() <= self.capacity * (1.0 + 1e-12)
    }

    /// How many uses of a value are left before a statement.
    fn uses_left(&self, next: usize, value: usize) -> usize {
        let ops = self.program().ops.iter().skip(next);
        let read = ops.flat_map(|op| &op.operands).filter(|read| read.value.index() == value);
        let outputs = self.program().outputs.iter().filter(|output| output.value.index() == value);
        read.count() + outputs.count()
    }

    fn is_end(&self, (next, _, blocks): &Live) -> bool {
        *next == self.program().ops.len()
            && blocks.iter().all(|block| block.form != Form::Early)
            && self.program().outputs.iter().zip(&self.pinned.outputs).all(|(output, accepted)| {
                blocks.iter().any(|block| {
                    block.value == output.value.index()
                        && matches!(block.form, Form::Memory | Form::Resident)
                        && accepted.contains(&block.state)
                })
            })
    }

    /// Everything that may happen next, with its seconds.
    fn next(&self, (next, has_run, blocks): &Live) -> Vec<(f64, Live)> {
        let mut all = Vec::new();
        for (place, &block) in blocks.iter().enumerate() {
            let can_drop = !matches!(block.form, Form::Resident | Form::Early)
                && !block.is_unread
                && !block.is_to_move
                && block.read_for == 0
                && (*has_run || !self.program().values[ValueId::new(block.value)].is_declared());
            if can_drop {
                let mut left = blocks.clone();
                left.remove(place);
                all.push((0.0, (*next, *has_run, left)));
            }
            let is_used = self.uses_left(*next, block.value) > 0 || block.form == Form::Early;
            if block.form != Form::OnChip && is_used {
                self.reshards(*next, blocks, block, &mut all);
            }
        }
        if *next < self.layouts.len() {
            self.statements(*next, blocks, &mut all);
        }
        all
    }

    fn reshards(&self, next: usize, blocks: &[Block], block: Block, all: &mut Vec<(f64, Live)>) {
        for (state, &seconds) in self.steps[block.value][block.state].iter().enumerate() {
            let arrives = self.declared(block.value).is_some_and(|to| to.contains(&state));
            let form = match block.form {
                Form::Early if !arrives => Form::Early,
                _ => Form::Memory,
            };
            let is_unread = block.form != Form::Early || form == Form::Early;
            let made = Block { state, form, is_unread, is_to_move: false, read_for: 0, ..block };
            let is_there =
                blocks.iter().any(|other| (other.value, other.state) == (made.value, made.state));
            if seconds.is_infinite() || is_there {
                continue;
            }
            let mut blocks = blocks.to_vec();
            for other in blocks.iter_mut().filter(|other| **other == block) {
                other.is_unread = false;
                other.is_to_move = false;
            }
            // On the way to its sharding a value is in one place at a time.
            let ends = |other: &Block| {
                other.value == made.value && other.form == Form::Early && form == Form::Memory
            };
            self.make(seconds, (next, &blocks), made, ends, all);
        }
    }

    fn statements(&self, next: usize, blocks: &[Block], all: &mut Vec<(f64, Live)>) {
        let op = &self.program().ops.raw[next];
        for layout in &self.layouts[next] {
            let reads = op.operands.iter().zip(&layout.needs).all(|(operand, need)| {
                blocks.iter().any(|block| {
                    block.value == operand.value.index()
                        && block.form != Form::Early
                        && self.states[block.value][block.state] == *need
                })
            });
            let mut blocks = blocks.to_vec();
            let is_operand = |block: &Block, place: usize| {
                block.value == op.operands[place].value.index()
                    && self.states[block.value][block.state] == layout.needs[place]
            };
            let places = 0..op.operands.len().min(layout.needs.len());
            let is_read = |block: &Block| places.clone().any(|place| is_operand(block, place));
            let is_read_to_end = |block: &Block| {
                let mut to_end = places.clone().filter(|&place| op.kernel.reads_to_end(place));
                to_end.any(|place| is_operand(block, place))
            };
            blocks.iter_mut().filter(|block| is_read(block)).for_each(|it| it.is_unread = false);
            let value = op.result.index();
            let state = self.states[value].iter().position(|state| *state == layout.gives);
            let (true, Some(state)) = (reads, state) else { continue };
            let is_early = self.declared(value).is_some_and(|to| !to.contains(&state));
            let form = if is_early { Form::Early } else { Form::Memory };
            let can_stay = op.kernel.result_on_chip && !is_early;
            let made =
                Block { value, state, form, is_unread: false, is_to_move: can_stay, read_for: 0 };
            self.make(layout.seconds, (next + 1, &blocks), made, |_| false, all);
            if can_stay {
                let on_chip = Block { form: Form::OnChip, is_to_move: false, ..made };
                read_for(&mut blocks, value, is_read, is_read_to_end);
                self.make(layout.seconds, (next + 1, &blocks), on_chip, |_| false, all);
            }
        }
    }

    /// A step that makes a block, if that fits beside all others; without those that `ends` names
    /// or that nothing can use.
    fn make(
        &self,
        seconds: f64,
        (next, blocks): (usize, &[Block]),
        made: Block,
        ends: impl Fn(&Block) -> bool,
        all: &mut Vec<(f64, Live)>,
    ) {
        let mut live: Vec<Block> = blocks.iter().copied().chain([made]).collect();
        if !self.fits(&live) {
            return;
        }
        let is_used = |block: &Block| self.uses_left(next, block.value) > 0;
        let on_chip = live.iter().filter(|block| block.form == Form::OnChip && is_used(block));
        let on_chip = on_chip.fold(0, |bits, block| bits | bit(block.value));
        for block in &mut live {
            block.read_for &= on_chip;
        }
        let is_over = |block: &Block| {
            let stays = matches!(block.form, Form::Resident | Form::Early) || block.read_for != 0;
            ends(block) || !stays && !is_used(block)
        };
        if live.iter().any(|block| is_over(block) && (block.is_unread || block.is_to_move)) {
            return;
        }
        live.retain(|block| !is_over(block));
        live.sort_unstable();
        let of_value = live.iter().filter(|block| block.value == made.value && block.read_for == 0);
        if of_value.count() <= self.uses_left(next, made.value) + 1 {
            all.push((seconds, (next, true, live)));
        }
    }
}

fn bit(value: usize) -> u64 {
    1 << value
}

/// Notes for what is computed on the chip what it is computed from: what the statement reads, if it
/// reads that until the end of its kernel, and what that is computed from where it is on the chip,
/// too.
fn read_for(
    blocks: &mut [Block],
    on_chip: usize,
    is_read: impl Fn(&Block) -> bool,
    is_read_to_end: impl Fn(&Block) -> bool,
) {
    let inner = blocks.iter().filter(|block| is_read(block) && block.form == Form::OnChip);
    let inner = inner.fold(0, |bits, block| bits | bit(block.value));
    for block in blocks {
        if block.form == Form::Memory && (is_read_to_end(block) || block.read_for & inner != 0) {
            block.read_for |= bit(on_chip);
        }
    }
}
