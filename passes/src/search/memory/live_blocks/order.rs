//! The order of reshards that lead to the same set of live blocks: each runs as late as it can.
//!
//! A reshard that can as well run after the next statement, with everything until then in place
//! and the same set in the end, is not followed before it. Otherwise each value could be resharded
//! before each statement, and the states would be all combinations of its shardings. Nothing is
//! lost: the path with that reshard after the statement costs the same, and among all such paths
//! there is one in which no reshard can wait any longer.

use crate::search::memory::live_blocks::Search;
use crate::search::memory::live_blocks::block::{Action, Block, Blocks, Edge, LiveBlocks};

/// One reshard of a path.
struct Reshard {
    from: Block,
    to: Block,
    /// The state that it leads to, and the one before.
    after: usize,
    before: usize,
}

impl Search<'_, '_, '_> {
    /// The states that the reshards lead to after the last statement before a state, in order.
    pub(super) fn reshards_before(&self, state: usize) -> Vec<usize> {
        let before = |&state: &usize| self.reshard_to(state).map(|reshard| reshard.before);
        let path = std::iter::successors(Some(state), before);
        let mut states: Vec<usize> =
            path.filter(|&state| self.reshard_to(state).is_some()).collect();
        states.reverse();
        states
    }

    fn reshard_to(&self, after: usize) -> Option<Reshard> {
        match self.reached[after].from {
            Some((before, Action::Reshard { from, to })) => {
                Some(Reshard { from, to, after, before })
            }
            _ => None,
        }
    }

    /// What a reshard dropped.
    fn dropped(&self, reshard: &Reshard) -> Blocks {
        let after = &self.live(reshard.after).blocks;
        let before = self.live(reshard.before).blocks.iter().copied();
        before.filter(|block| !after.iter().any(|other| other.is(*block))).collect()
    }

    /// Of the blocks that reshards made, those that none of them read, beside what they were made
    /// from.
    pub(super) fn waiting(&self, reshards: &[usize], live: &LiveBlocks) -> Vec<Block> {
        let mut waiting: Vec<(Block, Block)> = Vec::new();
        for reshard in reshards.iter().filter_map(|&state| self.reshard_to(state)) {
            waiting.retain(|(_, made)| *made != reshard.from);
            if self.dropped(&reshard).is_empty() {
                waiting.push((reshard.from, reshard.to));
            }
        }
        waiting.retain(|(from, _)| live.blocks.iter().any(|block| block.is(*from)));
        waiting.into_iter().map(|(_, made)| made).collect()
    }

    /// Whether the first of some reshards can as well run after the statement that they lead to:
    /// nothing until then reads what it makes, and everything fits without it.
    pub(super) fn can_wait(&self, reshards: &[usize], statement: &Edge) -> bool {
        let Some(reshard) = reshards.first().and_then(|&state| self.reshard_to(state)) else {
            return false;
        };
        let dropped = self.dropped(&reshard);
        let dropped_bytes = self.statements.sum(&dropped);
        let less = self.statements.sum(&[reshard.to]) - dropped_bytes;
        let is_from = |block: &Block| block.is(reshard.from);
        let stays = |blocks: &Blocks| dropped.iter().chain(blocks).any(is_from);
        let runs_without = |&state: &usize| {
            let reads_other = self.reshard_to(state).is_some_and(|other| other.from != reshard.to);
            let fits = self.statements.fits(self.reached[state].load - less);
            reads_other && fits && stays(&self.live(state).blocks)
        };
        let next = &statement.next.blocks;
        reshards[1..].iter().all(runs_without)
            && !statement.read.contains(&reshard.to)
            && next.contains(&reshard.to)
            && stays(next)
            && self.statements.fits(statement.load - less)
            && self.statements.fits(self.statements.sum(next) + dropped_bytes)
    }
}
