//! Whether memory is a reason to reshard a value before a statement that does not read it.

use crate::search::memory::live_blocks::block::{Block, Form, LiveBlocks};
use crate::search::memory::live_blocks::statements::Statements;

/// It may be one where a step until then would not fit without that, or where the reshard would not
/// fit after it: a reshard that can wait until after the statement does.
pub(super) struct Pressure {
    /// The bytes that are live.
    held: f64,
    /// The most bytes of other reshards for that reason.
    more: f64,
    /// The most that dropping and resharding may free.
    less: f64,
    /// What the steps until then take that may fit.
    loads: Vec<f64>,
}

impl Pressure {
    pub(super) fn new(statements: &Statements<'_, '_>, live: &LiveBlocks) -> Self {
        let held = statements.sum(&live.blocks);
        let can_drop = live.blocks.iter().filter(|block| block.form != Form::Resident);
        let less = can_drop.map(|&block| statements.bytes(block)).sum();
        let free = statements.free_bytes() - (held - less);
        let definitions = live.blocks.chunk_by(|a, b| a.definition == b.definition);
        let more = definitions.map(|blocks| {
            let definition = blocks[0].definition();
            let left = statements.uses_from(definition, live.next);
            left as f64 * statements.most_bytes(definition, free)
        });
        let more = more.sum();
        Self { held, more, less, loads: Vec::new() }
    }

    /// Of a step that makes a block.
    pub(super) fn feel(&mut self, statements: &Statements<'_, '_>, made: Block) {
        let load = self.held + statements.bytes(made);
        if statements.fits(load - self.less) && !self.loads.contains(&load) {
            self.loads.push(load);
        }
    }

    /// Whether it may be one to make a block.
    pub(super) fn is_reason(&self, statements: &Statements<'_, '_>, made: Block) -> bool {
        let more = statements.bytes(made) + self.more;
        self.loads.iter().any(|load| !statements.fits(load + more))
    }
}
