//! Whether the capacity may keep a reshard from waiting until after a statement that does not read
//! what it makes.

use crate::search::memory::live_blocks::block::{Block, Form, LiveBlocks};
use crate::search::memory::live_blocks::statements::Statements;

/// The steps until then with which it may conflict: those that would not fit without it, or after
/// which it would not fit itself.
pub(super) struct Conflicts {
    /// The bytes that are live.
    held: f64,
    /// The most bytes of other reshards that do not wait.
    more: f64,
    /// The most that dropping and resharding may free.
    less: f64,
    /// What the steps until then take that may fit.
    loads: Vec<f64>,
}

impl Conflicts {
    pub(super) fn new(statements: &Statements<'_, '_>, live: &LiveBlocks) -> Self {
        let held = statements.sum(&live.blocks);
        let can_drop = live.blocks.iter().filter(|block| block.form != Form::Resident);
        let less = can_drop.map(|&block| statements.bytes(block)).sum();
        let definitions = live.blocks.chunk_by(|a, b| a.definition == b.definition);
        let more = definitions.map(|blocks| {
            let definition = blocks[0].definition();
            let left = statements.uses_from(definition, live.next);
            left as f64 * statements.most_bytes(definition, held - less)
        });
        let more = more.sum();
        Self { held, more, less, loads: Vec::new() }
    }

    /// Adds a step that makes a block.
    pub(super) fn add_step(&mut self, statements: &Statements<'_, '_>, made: Block) {
        let load = self.held + statements.bytes(made);
        if statements.fits(load - self.less) && !self.loads.contains(&load) {
            self.loads.push(load);
        }
    }

    /// Whether a reshard that makes a block may conflict with one of the steps.
    pub(super) fn may_include(&self, statements: &Statements<'_, '_>, made: Block) -> bool {
        let more = statements.bytes(made) + self.more;
        self.loads.iter().any(|load| load + more > statements.free_bytes())
    }
}
