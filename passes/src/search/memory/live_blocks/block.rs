//! What is live: blocks of values, and the steps from one set of them to another.

use smallvec::SmallVec;

use crate::reshard::sharding_space::State;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Form {
    /// A declaration that stays on the device.
    Resident,
    /// In memory.
    Memory,
    /// The same, made by a reshard for a step that has not read it yet: until then it stays.
    Unread,
    /// The same, of a kernel that would leave it on the chip if no reshard read it: until one has,
    /// it stays.
    Written,
    /// In memory, on the way to the sharding in which its author wrote it.
    Undeclared,
    /// On the chip until its reader has read it: nothing reshards it.
    OnChip,
}

/// What is on the chip: a bit for each value of a program that a kernel may leave there.
pub(super) type OnChip = u32;

/// A value in a sharding, on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Block {
    pub(super) definition: u16,
    pub(super) form: Form,
    pub(super) state: u32,
    /// What is on the chip for which it is read: until that is read, it stays.
    pub(super) read_for: OnChip,
}

impl Block {
    pub(super) fn new(definition: usize, state: State, form: Form) -> Self {
        Self { definition: definition as u16, form, state: state as u32, read_for: 0 }
    }

    pub(super) fn definition(self) -> usize {
        self.definition as usize
    }

    pub(super) fn state(self) -> State {
        self.state as State
    }

    /// Whether statements can read it.
    pub(super) fn is_readable(self) -> bool {
        self.form != Form::Undeclared
    }

    /// Whether it may be dropped.
    pub(super) fn can_go(self) -> bool {
        !self.is_still_read() && !matches!(self.form, Form::Resident | Form::Unread | Form::Written)
    }

    /// Whether a kernel reads it that has not come to its end.
    pub(super) fn is_still_read(self) -> bool {
        self.read_for != 0
    }

    /// Whether another block is this one, read or not.
    pub(super) fn is(self, other: Self) -> bool {
        let read = |of: Self| match of.form {
            Form::Unread | Form::Written => Form::Memory,
            form => form,
        };
        self.definition == other.definition
            && self.state == other.state
            && read(self) == read(other)
    }
}

/// Some blocks, in order.
pub(super) type Blocks = SmallVec<[Block; 8]>;

/// Before which statement, and what is live then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LiveBlocks {
    pub(super) next: usize,
    pub(super) blocks: Blocks,
}

impl LiveBlocks {
    /// Whether a block that a reshard makes is there.
    pub(super) fn has(&self, made: Block) -> bool {
        self.blocks.iter().any(|other| {
            other.definition == made.definition
                && other.state == made.state
                && (other.form == made.form || other.is_readable())
        })
    }

    /// The blocks of each definition, from the first on without end.
    pub(super) fn by_definition(&self) -> impl Iterator<Item = &[Block]> {
        (0_usize..).scan(self.blocks.as_slice(), |left, number| {
            let own = left.iter().take_while(|block| block.definition() == number).count();
            let (own, others) = left.split_at(own);
            *left = others;
            Some(own)
        })
    }
}

/// A step from one set of live blocks to another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Runs a statement, or declares a value, as chosen.
    Run { variable: usize, choice: usize },
    /// Reshards a block.
    Reshard { from: Block, to: Block },
}

/// What leads from one set of live blocks to another.
pub(super) struct Edge {
    pub(super) action: Action,
    pub(super) seconds: f64,
    /// What is live while it runs, beside what stays on the device, in bytes.
    pub(super) load: f64,
    /// What it reads.
    pub(super) read: SmallVec<[Block; 3]>,
    pub(super) next: LiveBlocks,
}

/// Notes that a statement has read some blocks.
pub(super) fn mark_read(blocks: &mut Blocks, read: &[Block]) {
    for block in blocks.iter_mut().filter(|block| read.contains(block)) {
        if block.form == Form::Unread {
            block.form = Form::Memory;
        }
    }
}

/// Notes that what has been read for results on the chip, and these blocks, are read for another.
pub(super) fn mark_read_for(blocks: &mut Blocks, before: OnChip, read: &[Block], result: OnChip) {
    for block in blocks.iter_mut() {
        let takes_bytes = !matches!(block.form, Form::Resident | Form::OnChip);
        let is_read = || read.iter().any(|read| read.is(*block));
        if takes_bytes && (block.read_for & before != 0 || is_read()) {
            block.read_for |= result;
        }
    }
}

/// Notes that a reshard has read a block.
pub(super) fn mark_resharded(blocks: &mut Blocks, read: Block) {
    for block in blocks.iter_mut().filter(|block| **block == read) {
        if matches!(block.form, Form::Unread | Form::Written) {
            block.form = Form::Memory;
        }
    }
}

/// All combinations of live blocks of some definitions, for a statement that reads them.
pub(super) fn each_reading(
    live: &LiveBlocks,
    definitions: &[usize],
    read: &mut SmallVec<[Block; 3]>,
    found: &mut dyn FnMut(&[Block]),
) {
    let Some((&definition, others)) = definitions.split_first() else { return found(read) };
    for &block in &live.blocks {
        if block.definition() == definition && block.is_readable() {
            read.push(block);
            each_reading(live, others, read, found);
            read.pop();
        }
    }
}
