//! A plan's steps while they are written, in and out of blocks.
//!
//! A reshard stands where its value lives: one of a value from before a block is taken once, before it; one of a block's own value is taken
//! in it, once a layer. Doing the first inside too would pay for it in every layer, and nothing that enters a block changes there.

use shardwise_ir::ids::RepeatId;
use shardwise_ir::plan::Step;
use shardwise_ir::program::Program;

/// Steps so far.
#[derive(Default)]
pub struct Steps {
    /// In order.
    pub all: Vec<Step>,
    /// The block that is being written.
    pub block: Option<RepeatId>,
    /// Where it begins.
    start: usize,
}

impl Steps {
    /// Goes on in another block, or outside all.
    pub fn enter(&mut self, block: Option<RepeatId>) {
        (self.block, self.start) = (block, self.all.len());
    }

    /// A step that stands here.
    pub fn push(&mut self, step: Step) {
        self.all.push(step);
    }

    /// A reshard that is needed here, and stands here.
    pub fn place_here(&mut self, step: Step) {
        self.all.push(Step { repeat: self.block, ..step });
    }

    /// A reshard that is needed here.
    pub fn place(&mut self, program: &Program, step: Step) {
        let lives = program.values[step.result.value].repeat;
        if lives.is_some() && self.block.is_none() {
            // What leaves a block without being used in it.
            let end = self.all.iter().rposition(|other| other.repeat == lives).map_or(self.all.len(), |last| last + 1);
            self.all.insert(end, Step { repeat: lives, ..step });
        } else if lives.is_none() && self.block.is_some() {
            self.all.insert(self.start, Step { repeat: None, ..step });
            self.start += 1;
        } else {
            self.place_here(step);
        }
    }
}
